//! `compact` and `set_auto_compaction`: shorten the conversation, or say whether it may be
//! shortened by itself.

use super::done;
use super::prompt::can_start;
use crate::rpc::after_run::AfterRun;
use crate::rpc::asker::Asker;
use crate::rpc::dispatch::{Answer, Handled};
use crate::rpc::state::State;
use crate::rpc::wire::{Label, Level};

/// A run under way is closed first.
pub(crate) fn compact(
    state: &mut State,
    level: Level,
    label: &Label,
    focus: Option<String>,
) -> Handled {
    can_compact(state)?;
    let asker = Asker::Client(label.clone());
    compact_for(state, level, asker, focus);
    Ok(Answer::Later)
}

/// Whether there could be a compaction, or why not.
pub(crate) fn can_compact(state: &mut State) -> Result<(), String> {
    if state.compactions.is_manual() {
        return Err("Compaction is already in progress".to_owned());
    }
    can_start(state)
}

pub(crate) fn compact_for(state: &mut State, level: Level, asker: Asker, focus: Option<String>) {
    let focus = focus.filter(|focus| !focus.trim().is_empty());
    state.after_run(AfterRun::Compact { asker, level, focus });
}

pub(crate) fn set_auto_compaction(state: &mut State, enabled: bool) -> Handled {
    state.set_mode(|modes| modes.auto_compaction = Some(enabled));
    done()
}
