//! Hooks of extensions on provider requests and responses.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use tiller_js::Extensions;
use tiller_js::event::Event;
use tiller_js::hook::{BeforeProviderHeaders, BeforeProviderRequest};
use tiller_js::host_api::RequestCallbacks;
use tiller_llm::Interceptor;
use tiller_llm::interceptor::{BoxFuture, HeaderEdit, RequestInterceptor};

pub(crate) struct RequestHooks(pub(crate) Extensions);

impl RequestInterceptor for RequestHooks {
    fn body(&self, body: &[u8]) -> BoxFuture<Option<Vec<u8>>> {
        let asked = self.0.has_listener("before_provider_request");
        let payload = asked.then(|| serde_json::from_slice::<Value>(body).ok()).flatten();
        let extensions = self.0.clone();
        Box::pin(
            async move { serde_json::to_vec(&hooked_payload(&extensions, payload?).await?).ok() },
        )
    }

    fn headers(&self, headers: Vec<(String, String)>) -> BoxFuture<Option<Vec<HeaderEdit>>> {
        if !self.0.has_listener("before_provider_headers") {
            return Box::pin(std::future::ready(None));
        }
        let extensions = self.0.clone();
        Box::pin(async move {
            let asked =
                extensions.run_hook(BeforeProviderHeaders { headers: object(headers) }).await;
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
        if self.0.has_listener("after_provider_response") {
            let headers = object(headers);
            self.0.emit(&Event::AfterProviderResponse { status, headers });
        }
    }
}

/// Callbacks of an extension for its own request, and the headers to remove.
struct CallbackInterceptor {
    callbacks: Option<RequestCallbacks>,
    unwanted: Vec<String>,
}

/// The interceptor for a request that an extension makes itself: `onPayload`, `onResponse`, and
/// headers with a null value.
pub(crate) fn callback_interceptor(
    callbacks: Option<RequestCallbacks>,
    options: &Value,
) -> Option<Interceptor> {
    let headers = options["headers"].as_object().into_iter().flatten();
    let unwanted = headers.filter(|(_, value)| value.is_null()).map(|(name, _)| name.clone());
    let unwanted: Vec<String> = unwanted.collect();
    let intercepts = callbacks.is_some() || !unwanted.is_empty();
    intercepts.then(|| Interceptor(Arc::new(CallbackInterceptor { callbacks, unwanted })))
}

impl RequestInterceptor for CallbackInterceptor {
    fn body(&self, body: &[u8]) -> BoxFuture<Option<Vec<u8>>> {
        let callbacks = self.callbacks.clone().filter(RequestCallbacks::wants_payload);
        let payload = callbacks.is_some().then(|| serde_json::from_slice::<Value>(body).ok());
        let payload = payload.flatten();
        Box::pin(async move { serde_json::to_vec(&callbacks?.payload(payload?).await?).ok() })
    }

    fn headers(&self, headers: Vec<(String, String)>) -> BoxFuture<Option<Vec<HeaderEdit>>> {
        let sent = headers.into_iter().map(|(name, value)| (name, Some(value)));
        let removed = self.unwanted.iter().map(|name| (name.clone(), None));
        let changed = (!self.unwanted.is_empty()).then(|| sent.chain(removed).collect());
        Box::pin(std::future::ready(changed))
    }

    fn answered(&self, status: u16, headers: Vec<(String, String)>) {
        if let Some(callbacks) = &self.callbacks {
            callbacks.answered(status, object(headers));
        }
    }
}

/// The body to send, if extensions change it.
pub(crate) async fn hooked_payload(extensions: &Extensions, payload: Value) -> Option<Value> {
    if !extensions.has_listener("before_provider_request") {
        return None;
    }
    extensions.run_hook(BeforeProviderRequest { payload }).await.ok()?.payload
}

fn object(headers: Vec<(String, String)>) -> Value {
    let fields: Map<String, Value> =
        headers.into_iter().map(|(name, value)| (name, json!(value))).collect();
    Value::Object(fields)
}
