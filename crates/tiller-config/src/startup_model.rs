//! Selects the model at start-up, from command line, session and settings. Runs again when
//! extensions are loaded, since they may register the requested model.

use std::sync::Arc;

use tiller_agent::model::{Model, ModelName, ThinkingLevel};

use crate::models::Models;
use crate::settings::Settings;
use crate::start_error::StartError;

/// Model flags of the command line.
#[derive(Clone, Debug, Default)]
pub struct ModelArgs {
    pub provider: Option<String>,
    pub model: Option<String>,
    pub api_key: Option<String>,
    /// Patterns of the models to cycle through.
    pub scope: Option<Vec<String>>,
    /// `--script` was given.
    pub has_script: bool,
}

/// A model, and the thinking level that was given with it.
pub type SelectedModel = (Option<Arc<Model>>, Option<ThinkingLevel>);

impl ModelArgs {
    /// The patterns of the models to cycle through.
    pub fn scope<'a>(&'a self, settings: &'a Settings) -> &'a [String] {
        self.scope.as_ref().unwrap_or(&settings.enabled_models)
    }

    /// Selects the model of this name.
    pub fn named(pattern: &str) -> ModelArgs {
        ModelArgs { model: Some(pattern.to_owned()), ..ModelArgs::default() }
    }

    /// The model of a new session. Errors were reported at start-up.
    pub fn for_new_session(
        &self,
        models: &mut Models,
        settings: &Settings,
    ) -> Option<(Arc<Model>, Option<ThinkingLevel>)> {
        let (model, level) = self.choose(models, settings, None, &mut Vec::new()).ok()?;
        model.map(|model| (model, level))
    }

    /// Selects the model of a session. `stored` reads the model that the session used last. The
    /// error is a text for the user who typed the command.
    pub fn select(
        &self,
        models: &mut Models,
        settings: &Settings,
        stored: impl FnOnce() -> Result<Option<ModelName>, String>,
        diagnostics: &mut Vec<String>,
    ) -> Result<SelectedModel, StartError> {
        let is_explicit = self.model.is_some() || self.has_script;
        let stored = if is_explicit { None } else { stored()? };
        let stored = stored.and_then(|name| models.usable(&name.provider, &name.id));
        self.choose(models, settings, stored, diagnostics)
    }

    fn choose(
        &self,
        models: &mut Models,
        settings: &Settings,
        stored: Option<Arc<Model>>,
        diagnostics: &mut Vec<String>,
    ) -> Result<SelectedModel, StartError> {
        let chosen = match (&self.model, self.has_script) {
            (Some(pattern), _) => {
                let resolved = models.resolve(self.provider.as_deref(), pattern)?;
                diagnostics.extend(resolved.warning);
                (Some(resolved.model), resolved.thinking)
            }
            // `--script` implies the script model.
            (None, true) => (models.usable("tiller", "script"), None),
            (None, false) => match (stored, &self.provider, models.first_scoped(settings)) {
                (Some(stored), ..) => (Some(stored), None),
                (None, Some(provider), _) => (Some(models.resolve_provider(provider)?), None),
                (None, None, Some(first)) => (Some(first.model.clone()), first.thinking),
                (None, None, None) => (models.default_model(settings), None),
            },
        };
        let is_named = self.model.is_some() || self.scope.is_some() || self.provider.is_some();
        match (&self.api_key, &chosen.0) {
            (Some(key), Some(model)) if is_named => {
                models.credentials_mut().set_command_line(&model.provider, key);
            }
            (Some(_), _) => {
                let why = "--api-key requires a model to be specified via --model, \
                           --provider/--model, or --models";
                return Err(StartError::Usage(why.to_owned()));
            }
            (None, _) => {}
        }
        Ok(chosen)
    }
}
