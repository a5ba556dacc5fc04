//! `set_auto_retry` and `abort_retry`.

use super::done;
use crate::dispatch::Handled;
use crate::modes;
use crate::state::SessionState;
use crate::work::retry;

pub(crate) fn set_auto_retry(state: &mut SessionState, enabled: bool) -> Handled {
    modes::set(state, |modes| modes.auto_retry = Some(enabled));
    done()
}

/// The response comes before the run settles, as clients expect.
pub(crate) fn abort_retry(state: &mut SessionState) -> Handled {
    retry::cancel_retry(state);
    done()
}
