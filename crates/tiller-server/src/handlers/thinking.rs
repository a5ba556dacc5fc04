//! The thinking level.

use tiller_agent::model::ThinkingLevel;
use tiller_protocol::Reply;
use tiller_protocol::data::{CycledLevelData, ThinkingLevelsData};

use super::{data, done};
use crate::dispatch::{Handled, Response};
use crate::model_state;
use crate::state::SessionState;

/// A model without this level uses the nearest one; the request is remembered for the next model.
pub(crate) fn set_level(state: &mut SessionState, level: ThinkingLevel) -> Handled {
    model_state::set_level(state, level);
    done()
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
    data(&CycledLevelData { level: next })
}

pub(crate) fn get_levels(state: &SessionState) -> Handled {
    data(&ThinkingLevelsData { levels: state.models.levels() })
}
