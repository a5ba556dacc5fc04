//! `get_settings`, `set_setting` and `get_diagnostics`.

use serde_json::Value;

use crate::dispatch::Handled;
use crate::state::SessionState;

pub(crate) fn get_settings(_state: &SessionState) -> Handled {
    Err("Not supported: get_settings".to_owned())
}

pub(crate) fn set_setting(_state: &mut SessionState, _key: String, _value: Value) -> Handled {
    Err("Not supported: set_setting".to_owned())
}

pub(crate) fn get_diagnostics(_state: &SessionState) -> Handled {
    Err("Not supported: get_diagnostics".to_owned())
}
