//! Whether and when a failed run is tried again.

use super::done;
use crate::rpc::dispatch::Handled;
use crate::rpc::state::SessionState;

pub(crate) fn set_auto_retry(state: &mut SessionState, enabled: bool) -> Handled {
    state.set_mode(|modes| modes.auto_retry = Some(enabled));
    done()
}

/// Answered before the run settles, as clients know it.
pub(crate) fn abort_retry(state: &mut SessionState) -> Handled {
    state.give_up_retrying();
    done()
}
