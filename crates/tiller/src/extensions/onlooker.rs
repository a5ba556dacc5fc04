//! Extensions that look at requests: what is sent to a provider, and how it answers.

use serde_json::{Map, Value, json};
use tiller_js::Guests;
use tiller_js::event::Event;
use tiller_js::hook::{BeforeProviderHeaders, BeforeProviderRequest};
use tiller_llm::onlooker::{Changed, Later, Look};

pub(crate) struct Guarded(pub(crate) Guests);

impl Look for Guarded {
    fn body(&self, body: &[u8]) -> Later<Option<Vec<u8>>> {
        let asked = self.0.hears("before_provider_request");
        let payload = asked.then(|| serde_json::from_slice::<Value>(body).ok()).flatten();
        let guests = self.0.clone();
        Box::pin(async move { serde_json::to_vec(&payload_of(&guests, payload?).await?).ok() })
    }

    fn headers(&self, headers: Vec<(String, String)>) -> Later<Option<Vec<Changed>>> {
        if !self.0.hears("before_provider_headers") {
            return Box::pin(std::future::ready(None));
        }
        let guests = self.0.clone();
        Box::pin(async move {
            let asked = guests.ask(BeforeProviderHeaders { headers: object(headers) }).await;
            let Value::Object(headers) = asked.ok()?.headers? else { return None };
            let text = |value: Value| match value {
                Value::Null => None,
                Value::String(text) => Some(text),
                other => Some(other.to_string()),
            };
            Some(headers.into_iter().map(|(name, value)| (name, text(value))).collect())
        })
    }

    fn answered(&self, status: u16, headers: Vec<(String, String)>) {
        if self.0.hears("after_provider_response") {
            let headers = object(headers);
            self.0.emit(&Event::AfterProviderResponse { status, headers });
        }
    }
}

/// The body to send, if extensions want another one.
pub(crate) async fn payload_of(guests: &Guests, payload: Value) -> Option<Value> {
    if !guests.hears("before_provider_request") {
        return None;
    }
    guests.ask(BeforeProviderRequest { payload }).await.ok()?.payload
}

fn object(headers: Vec<(String, String)>) -> Value {
    let fields: Map<String, Value> =
        headers.into_iter().map(|(name, value)| (name, json!(value))).collect();
    Value::Object(fields)
}
