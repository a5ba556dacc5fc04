//! The current model and its thinking level, and the models to choose from.

use std::sync::Arc;

use tiller_agent::event::Event;
use tiller_agent::model::{Model, ThinkingLevel};
use tiller_config::models::Models;
use tiller_config::settings::Settings;
use tiller_config::start_error::StartError;
use tiller_config::startup_model::{ModelArgs, SelectedModel};
use tiller_js::event::ModelSource;
use tiller_session::{Body, Session};

use crate::extensions::providers;
use crate::state::SessionState;

pub(crate) struct ModelState {
    registry: Models,
    current: Option<Arc<Model>>,
    /// The model flags of the command line.
    args: ModelArgs,
    /// The flags are resolved once more when extensions are loaded, since they may register the
    /// requested model.
    awaits_extensions: bool,
    /// The model that a client or an extension selected last in this process.
    last_selected: Option<Arc<Model>>,
    /// The requested level; [`ModelState::level`] is what the model supports of it.
    requested_level: ThinkingLevel,
    /// The user's level for this model; cleared when the model changes.
    level_override: Option<ThinkingLevel>,
}

impl ModelState {
    pub(crate) fn new(
        registry: Models,
        current: Option<Arc<Model>>,
        args: ModelArgs,
        requested_level: ThinkingLevel,
    ) -> ModelState {
        ModelState {
            registry,
            current,
            args,
            awaits_extensions: false,
            last_selected: None,
            requested_level,
            level_override: None,
        }
    }

    pub(crate) fn registry(&self) -> &Models {
        &self.registry
    }

    pub(crate) fn registry_mut(&mut self) -> &mut Models {
        &mut self.registry
    }

    pub(crate) fn current(&self) -> Option<&Arc<Model>> {
        self.current.as_ref()
    }

    /// The current model, or a placeholder without a provider.
    pub(crate) fn current_or_none(&self) -> Arc<Model> {
        self.current.clone().unwrap_or_else(Models::none)
    }

    /// The length of the current model's context window; 0 if it is unknown.
    pub(crate) fn context_window(&self) -> u64 {
        self.current.as_ref().map_or(0, |model| model.context_window)
    }

    /// The level in force: the requested level, as far as the model supports it.
    pub(crate) fn level(&self) -> ThinkingLevel {
        let level = self.level_override.unwrap_or(self.requested_level);
        self.current.as_ref().map_or(ThinkingLevel::Off, |model| model.clamp(level))
    }

    /// The levels that the current model supports.
    pub(crate) fn levels(&self) -> Vec<ThinkingLevel> {
        let current = self.current.as_ref();
        current.map_or_else(|| vec![ThinkingLevel::Off], |model| model.thinking_levels())
    }

    pub(super) fn await_extensions(&mut self) {
        self.awaits_extensions = true;
    }

    /// Resolves the patterns of the models to cycle through again.
    pub(super) fn resolve_scope(&mut self, settings: &Settings, problems: &mut Vec<String>) {
        self.registry.set_scope(self.args.scope(settings), problems);
    }

    fn request_level(&mut self, level: ThinkingLevel) {
        self.requested_level = level;
        self.level_override = None;
    }

    fn is_current(&self, model: &Model) -> bool {
        self.current.as_deref().is_some_and(|current| is_same(current, model))
    }

    /// The model for a session without messages, if it is another one: the model that was selected
    /// last in this process, else the one that a start without a stored session selects.
    fn for_new_session(
        &mut self,
        settings: &Settings,
    ) -> Option<(Arc<Model>, Option<ThinkingLevel>)> {
        let last = self.last_selected.as_ref();
        let last = last.and_then(|model| self.registry.usable(&model.provider, &model.id));
        let (model, level) = match last {
            Some(model) => (model, None),
            None => self.args.for_new_session(&mut self.registry, settings)?,
        };
        let level = level.or_else(|| self.registry.thinking(&model));
        (!self.is_current(&model)).then_some((model, level))
    }

    /// Resolves the model flags again, once, with the providers of extensions.
    fn reselect(
        &mut self,
        settings: &Settings,
        session: &Session,
        problems: &mut Vec<String>,
    ) -> Option<Result<SelectedModel, StartError>> {
        if !std::mem::take(&mut self.awaits_extensions) {
            return None;
        }
        self.resolve_scope(settings, problems);
        let stored = || session.model().map_err(|err| err.to_string());
        Some(self.args.select(&mut self.registry, settings, stored, problems))
    }
}

fn is_same(a: &Model, b: &Model) -> bool {
    (&a.provider, &a.id) == (&b.provider, &b.id)
}

/// The entry that records a model change.
pub fn model_change(model: &Model) -> Body {
    Body::ModelChange { provider: model.provider.clone(), model_id: model.id.clone() }
}

/// Selects a model. The thinking level is the given one, else the user's for that model, else the
/// one before.
pub(crate) fn select(
    state: &mut SessionState,
    model: Arc<Model>,
    level: Option<ThinkingLevel>,
    source: ModelSource,
) -> Result<(), String> {
    state.append_entry(model_change(&model))?;
    let level = level.or_else(|| state.models.registry.thinking(&model));
    let previous = state.models.current.clone();
    state.models.last_selected = Some(model.clone());
    change(state, |models| {
        models.current = Some(model);
        models.level_override = level;
    });
    emit_model_select(state, previous.as_deref(), source);
    Ok(())
}

/// Selects the model for a session without messages.
pub(super) fn select_for_new_session(state: &mut SessionState) {
    let selected = state.models.for_new_session(state.project.settings());
    let Some((model, level)) = selected else { return };
    state.models.level_override = level;
    let previous = state.models.current.replace(model);
    emit_model_select(state, previous.as_deref(), ModelSource::Restore);
}

/// Selects the model and the level that a stored session names, if they can be used.
pub(super) fn restore(state: &mut SessionState) {
    let session = state.session.conversation().session();
    let stored = session.model().ok().flatten();
    let level = session.thinking_level().ok().flatten();
    let models = &mut state.models;
    let previous = models.current.clone();
    let stored = stored.and_then(|name| models.registry.usable(&name.provider, &name.id));
    models.current = stored.or(previous.clone());
    models.request_level(level.unwrap_or(models.requested_level));
    emit_model_select(state, previous.as_deref(), ModelSource::Restore);
}

/// Appends the model and the thinking level to a new session.
pub(super) fn append_choices(state: &mut SessionState) {
    let level = state.models.level();
    let model = state.models.current.as_deref().map(model_change);
    for body in model.into_iter().chain([Body::ThinkingLevelChange { level }]) {
        if let Err(error) = state.append_entry(body) {
            state.emit(Event::SessionError { error });
        }
    }
}

/// Sets the thinking level for this model and later ones.
pub(crate) fn set_level(state: &mut SessionState, level: ThinkingLevel) {
    change(state, |models| models.request_level(level));
}

/// Providers have changed: looks up the current model and the models to cycle through again.
pub(super) fn providers_changed(state: &mut SessionState) {
    let models = &mut state.models;
    let settings = state.project.settings();
    if !models.args.scope(settings).is_empty() {
        // Patterns without a match were reported, or will be when all extensions are loaded.
        models.resolve_scope(settings, &mut Vec::new());
    }
    let current = models.current.as_ref();
    let now = current.and_then(|model| models.registry.named(&model.provider, &model.id));
    if let Some(model) = now.filter(|model| models.current.as_ref() != Some(model)) {
        change(state, |models| models.current = Some(model));
    }
}

/// All extensions are loaded: resolves the model flags again. The error is a flag that names no
/// model.
pub(super) fn reselect(state: &mut SessionState) -> Result<(), StartError> {
    let mut problems = Vec::new();
    let session = state.session.conversation().session();
    let selected = state.models.reselect(state.project.settings(), session, &mut problems);
    for problem in problems {
        state.project.warn(problem);
    }
    let Some(selected) = selected else { return Ok(()) };
    let (Some(model), level) = selected? else { return Ok(()) };
    if state.models.is_current(&model) {
        return Ok(());
    }
    let stored = state.session.conversation().session().model().ok().flatten();
    let is_stored = stored.is_some_and(|stored| {
        (stored.provider, stored.id) == (model.provider.clone(), model.id.clone())
    });
    if !is_stored && let Err(error) = state.append_entry(model_change(&model)) {
        state.project.print_warning(&error);
    }
    // No `model_select` has been emitted for another model yet.
    state.models.current = Some(model);
    if let Some(level) = level {
        state.models.request_level(level);
    }
    Ok(())
}

/// Changes the model or the level, and emits an event if the level in force has changed.
fn change(state: &mut SessionState, change: impl FnOnce(&mut ModelState)) {
    let before = state.models.level();
    change(&mut state.models);
    let level = state.models.level();
    if level != before {
        if let Err(error) = state.append_entry(Body::ThinkingLevelChange { level }) {
            state.emit(Event::SessionError { error });
        }
        state.emit(Event::ThinkingLevelChanged { level });
        providers::emit_level_select(state, before);
    }
}

fn emit_model_select(state: &SessionState, previous: Option<&Model>, source: ModelSource) {
    let Some(current) = state.models.current.as_deref() else { return };
    if !previous.is_some_and(|previous| is_same(previous, current)) {
        providers::emit_model_select(state, current, previous, source);
    }
}
