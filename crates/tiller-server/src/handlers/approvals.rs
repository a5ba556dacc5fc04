//! `set_approvals`.

use tiller_protocol::{ApprovalMode, ApprovalsData, Reply};

use crate::dispatch::{Handled, Response};
use crate::state::SessionState;

/// Applies to calls that start from now on. It ends with the session.
pub(crate) fn set_approvals(state: &mut SessionState, mode: ApprovalMode) -> Handled {
    state.approvals.choose(mode);
    let mode = state.approvals.mode();
    Ok(Response::Now(Reply::data(&ApprovalsData { mode })))
}
