//! Models for extensions: information, keys, and requests.

use futures_util::stream::BoxStream;
use serde_json::{Value, json};
use tiller_agent::model::Model;
use tiller_js::host_api::{ModelRead, ModelRequest};

use super::SessionState;
use crate::extensions::request_hooks::callback_interceptor;
use crate::extensions::{model_request, model_stream};
use crate::requester::ExtensionReply;
use crate::tasks::Responder;

/// Sends a model request of an extension. Nothing is sent until the extension reads the stream.
pub(super) fn ask_model(
    state: &mut SessionState,
    request: ModelRequest,
    answer: Responder<BoxStream<'static, Value>>,
) {
    let ModelRequest { model, context, options, callbacks } = request;
    let now = state.clock.now();
    let model = resolve_model(state, &model);
    let request =
        model.clone().and_then(|model| model_request::read(model, context, &options, now));
    let events = match request {
        Ok((request, mut request_options)) => {
            request_options.interceptor = callback_interceptor(callbacks, &options);
            let provider = state.models.registry().provider_with(&request.model, request_options);
            model_stream::events(provider, request, now)
        }
        Err(why) => model_stream::failed(model.ok(), &why, now),
    };
    answer.respond(events);
}

/// The model that an extension describes by an object.
fn resolve_model(state: &SessionState, described: &Value) -> Result<Model, String> {
    let name = |field: &str| described[field].as_str().unwrap_or_default();
    let known = state.models.registry().named(name("provider"), name("id"));
    model_request::model(described, known.as_deref())
}

pub(super) fn read_models(state: &SessionState, read: ModelRead) -> Value {
    let models = state.models.registry();
    match read {
        ModelRead::All => listed(&models.all()),
        ModelRead::Available => listed(&models.available()),
        ModelRead::Find { provider, id } => json!(models.named(&provider, &id).as_deref()),
        ModelRead::HasAuth { provider } => json!(models.has_key(&provider)),
        ModelRead::IsUsingOauth { provider } => json!(models.is_signed_in(&provider)),
        ModelRead::ProviderName { provider } => json!(models.display_name(&provider)),
        ModelRead::AuthStatus { provider } => models.auth_status(&provider),
        ModelRead::Credential { provider } => models.credential(&provider),
        ModelRead::Error => json!(models.file_error()),
        ModelRead::CatalogueProviders => json!(models.catalogue_providers()),
        ModelRead::Catalogue { provider } => json!(models.catalogue_models(&provider)),
    }
}

/// The key of a provider, resolved as for a request.
pub(super) fn reply_with_key(state: &mut SessionState, provider: &str, answer: ExtensionReply) {
    let key = state.models.registry().key_of(provider);
    answer.respond_from(async move { Ok(json!(key.await)) });
}

pub(super) fn reply_with_auth(state: &mut SessionState, model: &Value, answer: ExtensionReply) {
    let auth =
        resolve_model(state, model).map(|model| state.models.registry().resolved_auth(&model));
    answer.respond_from(async move {
        let auth = match auth {
            Ok(auth) => auth.await,
            Err(why) => Err(why),
        };
        Ok(match auth {
            Ok((key, headers)) => json!({ "ok": true, "apiKey": key, "headers": headers }),
            Err(error) => json!({ "ok": false, "error": error }),
        })
    });
}

fn listed(models: &[std::sync::Arc<Model>]) -> Value {
    models.iter().map(|model| json!(**model)).collect()
}
