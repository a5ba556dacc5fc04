//! `set_limits` and `get_limits`.

use tiller_agent::limits::Limits;

use crate::dispatch::Handled;
use crate::state::SessionState;

pub(crate) fn set_limits(_state: &mut SessionState, _limits: Limits) -> Handled {
    Err("Not supported: set_limits".to_owned())
}

pub(crate) fn get_limits(_state: &SessionState) -> Handled {
    Err("Not supported: get_limits".to_owned())
}
