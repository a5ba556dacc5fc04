//! The thinking level.

use serde::Serialize;
use tiller_agent::model::ThinkingLevel;
use tiller_protocol::Reply;

use super::{data, done};
use crate::dispatch::{Handled, Response};
use crate::model_state;
use crate::state::SessionState;

/// A model without this level uses the nearest one; the request is remembered for the next model.
pub(crate) fn set_level(state: &mut SessionState, level: ThinkingLevel) -> Handled {
    model_state::set_level(state, level);
    done()
}

#[derive(Serialize)]
struct LevelData {
    level: &'static str,
}

pub(crate) fn cycle_level(state: &mut SessionState) -> Handled {
    let levels = state.models.levels();
    if levels.len() <= 1 {
        return Ok(Response::Now(Reply::data(&())));
    }
    let now = state.models.level();
    let at = levels.iter().position(|&level| level == now).unwrap_or(0);
    let next = levels[(at + 1) % levels.len()];
    model_state::set_level(state, next);
    data(&LevelData { level: next.name() })
}

#[derive(Serialize)]
struct Levels {
    levels: Vec<ThinkingLevel>,
}

pub(crate) fn get_levels(state: &SessionState) -> Handled {
    data(&Levels { levels: state.models.levels() })
}
