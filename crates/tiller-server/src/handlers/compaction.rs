//! `compact` and `set_auto_compaction`: compact the conversation, or set whether that happens
//! automatically.

use serde_json::json;
use tiller_config::settings::SettingKey;
use tiller_protocol::{Label, Level};

use super::{done, settings};
use crate::dispatch::{Handled, Response};
use crate::prompt;
use crate::requester::Requester;
use crate::state::SessionState;
use crate::work::deferred::{self, Deferred};

/// The current run is closed first.
pub(crate) fn compact(
    state: &mut SessionState,
    level: Level,
    label: &Label,
    focus: Option<String>,
) -> Handled {
    can_compact(state)?;
    let requester = Requester::Client(label.clone());
    compact_for(state, level, requester, focus);
    Ok(Response::Later)
}

/// Checks whether a compaction can start.
pub(crate) fn can_compact(state: &mut SessionState) -> Result<(), String> {
    if state.work.compactions().is_manual() {
        return Err("Compaction is already in progress".to_owned());
    }
    prompt::check_can_start(state)
}

pub(crate) fn compact_for(
    state: &mut SessionState,
    level: Level,
    requester: Requester,
    focus: Option<String>,
) {
    let focus = focus.filter(|focus| !focus.trim().is_empty());
    deferred::defer(state, Deferred::Compact { requester, level, focus });
}

pub(crate) fn set_auto_compaction(state: &mut SessionState, enabled: bool) -> Handled {
    settings::set(state, SettingKey::COMPACTION_ENABLED, json!(enabled))?;
    done()
}
