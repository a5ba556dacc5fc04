//! The model commands.

use std::borrow::Cow;
use std::sync::Arc;

use tiller_agent::model::Model;
use tiller_js::event::ModelSource;
use tiller_protocol::data::{
    CycledModelData, IntegrationsData, ModelConnection, ModelConnectionState, ModelsData,
};
use tiller_protocol::{ListRange, Reply};
use tiller_session::Page;

use super::{data, page};
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
    let thinking_level = state.models.level();
    data(&CycledModelData { model: Cow::Borrowed(&next.model), thinking_level, is_scoped })
}

pub(crate) fn get_available_models(
    state: &SessionState,
    format: &WireFormat,
    wanted: &ListRange,
) -> Handled {
    let models = state.models.registry().offered(state.models.current().map(|model| &**model));
    let Some(range) = page::range(wanted, format) else {
        let models = models.iter().map(|model| Cow::Borrowed(&**model)).collect();
        return data(&ModelsData { models, total: None, next_offset: None });
    };
    let (items, Page { total, next }) = page::items(models.iter().map(|model| &**model), range);
    let shown = models.iter().skip(range.offset).take(items.len());
    let models = shown.map(|model| Cow::Borrowed(&**model)).collect();
    data(&ModelsData { models, total: Some(total), next_offset: next })
}

/// No network request is made: `connected` means that a key and an address are there.
pub(crate) fn get_integrations(state: &SessionState) -> Handled {
    let model = match state.models.current() {
        None => ModelConnection { state: ModelConnectionState::NoProvider, provider: None },
        Some(model) => {
            let is_ready = state.models.registry().check_access(model).is_ok();
            let state = if is_ready {
                ModelConnectionState::Connected
            } else {
                ModelConnectionState::AuthError
            };
            ModelConnection { state, provider: Some(model.provider.as_str().into()) }
        }
    };
    data(&IntegrationsData { version: version().into(), model, services: Vec::new() })
}
