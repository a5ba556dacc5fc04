//! Which model answers.

use std::sync::Arc;

use serde::Serialize;
use tiller_agent::model::Model;

use super::data;
use crate::rpc::dispatch::{Answer, Handled};
use crate::rpc::state::{State, model_change};
use crate::rpc::wire::Reply;

pub(crate) fn set_model(state: &mut State, provider: &str, id: &str) -> Handled {
    let model = state.models.usable(provider, id);
    let model = model.ok_or_else(|| format!("Model not found: {provider}/{id}"))?;
    switch(state, model.clone())?;
    data(&*model)
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Cycled<'a> {
    model: &'a Model,
    thinking_level: &'static str,
    is_scoped: bool,
}

pub(crate) fn cycle_model(state: &mut State) -> Handled {
    let models = state.models.available();
    if models.len() <= 1 {
        return Ok(Answer::Now(Reply::data(&())));
    }
    let is_current = |model: &&Arc<Model>| {
        state
            .model
            .as_ref()
            .is_some_and(|now| (&now.provider, &now.id) == (&model.provider, &model.id))
    };
    let current = models.iter().position(|model| is_current(&model)).unwrap_or(0);
    let next = models[(current + 1) % models.len()].clone();
    switch(state, next.clone())?;
    let thinking_level = state.thinking().name();
    data(&Cycled { model: &next, thinking_level, is_scoped: false })
}

#[derive(Serialize)]
struct Available<'a> {
    models: Vec<&'a Model>,
}

pub(crate) fn get_available_models(state: &State) -> Handled {
    let models = state.models.available();
    data(&Available { models: models.iter().map(|model| &**model).collect() })
}

fn switch(state: &mut State, model: Arc<Model>) -> Result<(), String> {
    state.record(model_change(&model))?;
    state.change_thinking(|state| state.model = Some(model));
    Ok(())
}
