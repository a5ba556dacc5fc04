//! Providers that extensions register and unregister, and the model changes that follow.

use std::time::Duration;

use serde_json::{Value, json};
use tiller_agent::model::{Model, ThinkingLevel};
use tiller_js::event::{Event as ExtensionEvent, ModelSource};

use super::SessionState;
use crate::extensions::provider::registration;
use crate::extensions::request_hooks::hooked_payload;
use crate::model_state;
use crate::requester::ExtensionReply;

/// Registers a provider at once. Errors are reported as `extension_error`.
pub(super) fn register_provider(state: &mut SessionState, name: &str, config: Value) {
    let Some(host) = state.extensions.host().cloned() else { return };
    let silence = Duration::from_millis(state.project.settings().http_idle_timeout_ms);
    let path = config["extensionPath"].as_str().unwrap_or("<runtime>").to_owned();
    let registration = registration(host, name, config, silence);
    let problems = match state.models.registry_mut().add_extension_provider(name, registration) {
        Ok(problems) => {
            model_state::providers_changed(state);
            problems
        }
        Err(problem) => vec![problem],
    };
    for problem in problems {
        let error = format!("Provider {name}: {problem}");
        super::report_at(state, &path, "register_provider", error);
    }
}

pub(super) fn unregister_provider(state: &mut SessionState, name: &str) {
    state.models.registry_mut().remove_extension_provider(name);
    model_state::providers_changed(state);
}

/// Runs `refreshModels` of extensions.
pub(super) fn refresh_models(state: &mut SessionState, options: Value, answer: ExtensionReply) {
    let host = state.extensions.host().cloned();
    answer.respond_from(async move {
        let errors = match host {
            Some(host) => host.refresh_models(&options).await,
            None => serde_json::Map::new(),
        };
        Ok(json!({ "aborted": false, "errors": errors }))
    });
}

/// Runs `before_provider_request` for a request that an extension sends itself.
pub(super) fn run_payload_hook(state: &mut SessionState, payload: Value, answer: ExtensionReply) {
    let Some(host) = state.extensions.host().cloned() else {
        return answer.respond(Ok(Value::Null));
    };
    answer
        .respond_from(async move { Ok(hooked_payload(&host, payload).await.unwrap_or_default()) });
}

/// Emits `model_select` to extensions.
pub(crate) fn emit_model_select(
    state: &SessionState,
    model: &Model,
    previous: Option<&Model>,
    source: ModelSource,
) {
    if let Some(host) = state.extensions.listening_host("model_select") {
        let previous_model = previous.map(|model| json!(model));
        host.emit(&ExtensionEvent::ModelSelect { model: json!(model), previous_model, source });
    }
}

/// Emits the change of the thinking level to extensions.
pub(crate) fn emit_level_select(state: &SessionState, previous: ThinkingLevel) {
    if let Some(host) = state.extensions.host() {
        let level = state.models.level().name().to_owned();
        let previous_level = previous.name().to_owned();
        host.emit(&ExtensionEvent::ThinkingLevelSelect { level, previous_level });
    }
}

/// All extensions are loaded: providers of missing extensions are removed, and the model flags
/// are resolved again.
pub(super) fn all_registered(state: &mut SessionState) {
    let Some(host) = state.extensions.host() else { return };
    let providers = host.registrations().providers;
    let registry = state.models.registry_mut();
    for name in registry.registered_names() {
        if !providers.iter().any(|provider| provider.name == name) {
            registry.remove_extension_provider(&name);
        }
    }
    model_state::providers_changed(state);
    if let Err(why) = model_state::reselect(state) {
        state.project.print_warning(why.message());
        state.extensions.fail(why.exit_code());
    }
}
