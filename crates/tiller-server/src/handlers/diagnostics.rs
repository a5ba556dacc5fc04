//! `get_diagnostics`.

use std::borrow::Cow;

use tiller_protocol::DiagnosticsData;

use super::data;
use crate::dispatch::Handled;
use crate::state::SessionState;

pub(crate) fn get_diagnostics(state: &SessionState) -> Handled {
    let diagnostics = state.project.diagnostics().map(Cow::Borrowed).collect();
    data(&DiagnosticsData { diagnostics })
}
