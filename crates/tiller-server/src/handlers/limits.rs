//! `set_limits` and `get_limits`.

use tiller_agent::limits::Limits;
use tiller_protocol::{LimitsData, Reply};

use crate::dispatch::{Handled, Response};
use crate::state::SessionState;

/// Replaces all limits. A run that is under way gets them before its next step.
pub(crate) fn set_limits(state: &mut SessionState, limits: Limits) -> Handled {
    state.budget.set_limits(limits);
    get_limits(state)
}

pub(crate) fn get_limits(state: &SessionState) -> Handled {
    let limits = state.budget.limits().clone();
    Ok(Response::Now(Reply::data(&LimitsData { limits })))
}
