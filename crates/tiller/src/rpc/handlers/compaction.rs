//! `compact` and `set_auto_compaction`: shorten the conversation, or say whether it may be
//! shortened by itself.

use super::done;
use super::prompt::can_start;
use crate::rpc::dispatch::{Answer, Handled};
use crate::rpc::state::{AfterRun, State};
use crate::rpc::wire::{Label, Level};

/// A run under way is closed first.
pub(crate) fn compact(
    state: &mut State,
    level: Level,
    label: &Label,
    focus: Option<String>,
) -> Handled {
    if state.compactions.is_manual() {
        return Err("Compaction is already in progress".to_owned());
    }
    can_start(state)?;
    let focus = focus.filter(|focus| !focus.trim().is_empty());
    state.after_run(AfterRun::Compact { label: label.clone(), level, focus });
    Ok(Answer::Later)
}

pub(crate) fn set_auto_compaction(state: &mut State, enabled: bool) -> Handled {
    state.compactions.settings.enabled = enabled;
    done()
}
