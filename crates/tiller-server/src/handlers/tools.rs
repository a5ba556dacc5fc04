//! `get_tools` and `set_active_tools`.

use crate::dispatch::Handled;
use crate::state::SessionState;

pub(crate) fn get_tools(_state: &SessionState) -> Handled {
    Err("Not supported: get_tools".to_owned())
}

pub(crate) fn set_active_tools(_state: &mut SessionState, _names: Vec<String>) -> Handled {
    Err("Not supported: set_active_tools".to_owned())
}
