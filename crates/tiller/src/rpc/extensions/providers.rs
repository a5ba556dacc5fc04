//! Providers that extensions register and unregister, and the model changes that follow.

use std::time::Duration;

use serde_json::{Value, json};
use tiller_agent::model::{Model, ThinkingLevel};
use tiller_js::event::{Event as ExtensionEvent, ModelSource};
use tiller_js::world::ExtensionError;

use super::SessionState;
use crate::extensions::provider::registration;
use crate::extensions::request_hooks::hooked_payload;
use crate::rpc::requester::ExtensionReply;
use crate::rpc::state::model_change;

impl SessionState {
    /// Registers a provider at once. Errors are reported as `extension_error`.
    pub(super) fn register_provider(&mut self, name: &str, config: Value) {
        let Some(host) = self.extensions.host.clone() else { return };
        let silence = Duration::from_millis(self.settings.http_idle_timeout_ms);
        let path = config["extensionPath"].as_str().unwrap_or("<runtime>").to_owned();
        let problems = match self
            .models
            .add_extension_provider(name, registration(host, name, config, silence))
        {
            Ok(problems) => {
                self.providers_changed();
                problems
            }
            Err(problem) => vec![problem],
        };
        for problem in problems {
            self.report(ExtensionError {
                extension_path: path.clone(),
                event: "register_provider".to_owned(),
                error: format!("Provider {name}: {problem}"),
                at: None,
                stack: None,
            });
        }
    }

    pub(super) fn unregister_provider(&mut self, name: &str) {
        self.models.remove_extension_provider(name);
        self.providers_changed();
    }

    /// Runs `refreshModels` of extensions.
    pub(super) fn refresh_models(&mut self, options: Value, answer: ExtensionReply) {
        let host = self.extensions.host.clone();
        answer.respond_from(async move {
            let errors = match host {
                Some(host) => host.refresh_models(&options).await,
                None => serde_json::Map::new(),
            };
            Ok(json!({ "aborted": false, "errors": errors }))
        });
    }

    /// Runs `before_provider_request` for a request that an extension sends itself.
    pub(super) fn run_payload_hook(&mut self, payload: Value, answer: ExtensionReply) {
        let Some(host) = self.extensions.host.clone() else {
            return answer.respond(Ok(Value::Null));
        };
        answer.respond_from(
            async move { Ok(hooked_payload(&host, payload).await.unwrap_or_default()) },
        );
    }

    /// Emits `model_select` to extensions.
    pub(crate) fn emit_model_select(&mut self, previous: Option<&Model>, source: ModelSource) {
        let Some(host) = self.extensions.host.as_ref().filter(|g| g.has_listener("model_select"))
        else {
            return;
        };
        let name = |model: &Model| (model.provider.clone(), model.id.clone());
        let Some(model) = self.model.as_deref() else { return };
        if previous.map(name) != Some(name(model)) {
            let previous_model = previous.map(|model| json!(model));
            host.emit(&ExtensionEvent::ModelSelect { model: json!(model), previous_model, source });
        }
    }

    /// Emits the change of the thinking level to extensions.
    pub(crate) fn emit_level_select(&mut self, previous: ThinkingLevel) {
        let level = self.thinking();
        if let Some(host) = &self.extensions.host {
            let (level, previous_level) = (level.name().to_owned(), previous.name().to_owned());
            host.emit(&ExtensionEvent::ThinkingLevelSelect { level, previous_level });
        }
    }

    /// All extensions are loaded: providers of missing extensions are removed, and the model flags
    /// are resolved again.
    pub(super) fn settle_providers(&mut self) {
        let Some(host) = &self.extensions.host else { return };
        let providers = host.registrations().providers;
        for name in self.models.registered_names() {
            if !providers.iter().any(|provider| provider.name == name) {
                self.models.remove_extension_provider(&name);
            }
        }
        self.providers_changed();
        if !std::mem::replace(&mut self.extensions.model_reselected, true) {
            self.choose_again();
        }
    }

    fn choose_again(&mut self) {
        let Some(choice) = self.extensions.model_args.clone() else { return };
        let mut problems = Vec::new();
        self.models.set_scope(choice.scope(&self.settings), &mut problems);
        let session = self.conversation.session();
        let settled = choice.settle(&mut self.models, &self.settings, session, &mut problems);
        for problem in problems {
            self.resources.complain(&problem);
            self.diagnostics.push(problem);
        }
        let (chosen, level) = match settled {
            Ok((Some(model), level)) => (model, level),
            Ok((None, _)) => return,
            Err(why) => {
                self.resources.complain(why.message());
                self.extensions.fatal = Some(why.exit_code());
                return;
            }
        };
        let name = |model: &Model| (model.provider.clone(), model.id.clone());
        if self.model.as_deref().map(name) == Some(name(&chosen)) {
            return;
        }
        let stored = self.conversation.session().model().ok().flatten();
        if stored.is_none_or(|stored| (stored.provider, stored.id) != name(&chosen))
            && let Err(error) = self.append_entry(model_change(&chosen))
        {
            self.resources.complain(&error);
        }
        // No `model_select` has been emitted for another model yet.
        self.model = Some(chosen);
        if let Some(level) = level {
            self.want_thinking(level);
        }
    }

    /// Looks up the current model and the models to cycle through again.
    fn providers_changed(&mut self) {
        if let Some(choice) = &self.extensions.model_args
            && !choice.scope(&self.settings).is_empty()
        {
            // Patterns without a match were reported, or will be when all extensions are loaded.
            self.models.set_scope(choice.scope(&self.settings), &mut Vec::new());
        }
        let now = self.model.as_ref();
        let now = now.and_then(|model| self.models.named(&model.provider, &model.id));
        if let Some(model) = now.filter(|model| self.model.as_ref() != Some(model)) {
            self.change_thinking(|state| state.model = Some(model));
        }
    }
}
