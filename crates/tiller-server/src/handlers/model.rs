//! The model commands.

use std::sync::Arc;

use serde::Serialize;
use tiller_agent::model::Model;
use tiller_js::event::ModelSource;
use tiller_protocol::{ListRange, Reply};

use super::data;
use crate::connection::WireFormat;
use crate::dispatch::{Handled, Response};
use crate::model_state;
use crate::server::version;
use crate::state::SessionState;

pub(crate) fn set_model(state: &mut SessionState, provider: &str, id: &str) -> Handled {
    let model = state.models.registry().usable(provider, id);
    let model = model.ok_or_else(|| format!("Model not found: {provider}/{id}"))?;
    model_state::select(state, model.clone(), None, ModelSource::Set)?;
    data(&*model)
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Cycled<'a> {
    model: &'a Model,
    thinking_level: &'static str,
    is_scoped: bool,
}

pub(crate) fn cycle_model(state: &mut SessionState) -> Handled {
    let (models, is_scoped) = state.models.registry().cycle();
    if models.len() <= 1 {
        return Ok(Response::Now(Reply::data(&())));
    }
    let is_current = |model: &Arc<Model>| {
        let current = state.models.current();
        current.is_some_and(|now| (&now.provider, &now.id) == (&model.provider, &model.id))
    };
    let current = models.iter().position(|scoped| is_current(&scoped.model)).unwrap_or(0);
    let next = models[(current + 1) % models.len()].clone();
    model_state::select(state, next.model.clone(), next.thinking, ModelSource::Cycle)?;
    let thinking_level = state.models.level().name();
    data(&Cycled { model: &next.model, thinking_level, is_scoped })
}

#[derive(Serialize)]
struct Available<'a> {
    models: Vec<&'a Model>,
}

pub(crate) fn get_available_models(
    state: &SessionState,
    _format: WireFormat,
    _range: &ListRange,
) -> Handled {
    let models = state.models.registry().offered(state.models.current().map(|model| &**model));
    data(&Available { models: models.iter().map(|model| &**model).collect() })
}

/// The connections of tiller, in the format of xcsh's client.
#[derive(Serialize)]
struct Integrations<'a> {
    version: &'static str,
    model: Integration<'a>,
    /// Other services to sign in to. There are none.
    services: [(); 0],
}

#[derive(Serialize)]
struct Integration<'a> {
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    provider: Option<&'a str>,
}

/// No network request is made: `connected` means that a key and an address are there.
pub(crate) fn get_integrations(state: &SessionState) -> Handled {
    let model = match state.models.current() {
        None => Integration { state: "no_provider", provider: None },
        Some(model) => {
            let is_ready = state.models.registry().check_access(model).is_ok();
            let state = if is_ready { "connected" } else { "auth_error" };
            Integration { state, provider: Some(&model.provider) }
        }
    };
    data(&Integrations { version: version(), model, services: [] })
}
