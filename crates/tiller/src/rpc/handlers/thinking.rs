//! The thinking level.

use serde::Serialize;
use tiller_agent::model::ThinkingLevel;

use super::{data, done};
use crate::rpc::dispatch::{Handled, Response};
use crate::rpc::state::SessionState;
use crate::rpc::wire::Reply;

/// A model without this level uses the nearest one; the request is remembered for the next model.
pub(crate) fn set_level(state: &mut SessionState, level: ThinkingLevel) -> Handled {
    state.change_thinking(|state| state.want_thinking(level));
    done()
}

#[derive(Serialize)]
struct LevelData {
    level: &'static str,
}

pub(crate) fn cycle_level(state: &mut SessionState) -> Handled {
    let levels = levels(state);
    if levels.len() <= 1 {
        return Ok(Response::Now(Reply::data(&())));
    }
    let now = state.thinking();
    let at = levels.iter().position(|&level| level == now).unwrap_or(0);
    let next = levels[(at + 1) % levels.len()];
    state.change_thinking(|state| state.want_thinking(next));
    data(&LevelData { level: next.name() })
}

#[derive(Serialize)]
struct Levels {
    levels: Vec<ThinkingLevel>,
}

pub(crate) fn get_levels(state: &SessionState) -> Handled {
    data(&Levels { levels: levels(state) })
}

fn levels(state: &SessionState) -> Vec<ThinkingLevel> {
    state.model.as_ref().map_or_else(|| vec![ThinkingLevel::Off], |model| model.thinking_levels())
}
