//! Hooks for model requests.

use super::*;

/// The messages of one request, without those of role `system`.
#[derive(Clone, Debug, Serialize)]
pub struct Context {
    pub messages: Vec<Value>,
}

impl Hook for Context {
    const NAME: &'static str = "context";
    type Outcome = Messages;
}

/// The messages of one request as they will be sent.
#[derive(Clone, Debug, Serialize)]
pub struct ContextWithSystem {
    pub messages: Vec<Value>,
}

impl Hook for ContextWithSystem {
    const NAME: &'static str = "context_with_system";
    type Outcome = Messages;
}

/// Replacement messages, for this request only.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Messages {
    pub messages: Option<Vec<Value>>,
}

/// The body of a request, in its provider's format.
#[derive(Clone, Debug, Serialize)]
pub struct BeforeProviderRequest {
    pub payload: Value,
}

impl Hook for BeforeProviderRequest {
    const NAME: &'static str = "before_provider_request";
    type Outcome = Payload;
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Payload {
    pub payload: Option<Value>,
}

/// The headers of a request: an object of strings.
#[derive(Clone, Debug, Serialize)]
pub struct BeforeProviderHeaders {
    pub headers: Value,
}

impl Hook for BeforeProviderHeaders {
    const NAME: &'static str = "before_provider_headers";
    type Outcome = Headers;
}

/// The headers after all handlers; a header set to `null` is left out.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Headers {
    pub headers: Option<Value>,
}
