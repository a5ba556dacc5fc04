//! `prompt`, `steer`, `follow_up`: send the agent a user message, now or later.

use tiller_agent::message::Block;

use crate::rpc::dispatch::Handled;
use crate::rpc::prompt::PromptRequest;
use crate::rpc::state::SessionState;
use crate::rpc::wire::{Label, Level, WhenBusy};

pub(crate) fn prompt(
    state: &mut SessionState,
    level: Level,
    label: &Label,
    text: String,
    images: Vec<Block>,
    when_busy: WhenBusy,
) -> Handled {
    if state.compactions.is_manual() {
        return Err(COMPACTING.to_owned());
    }
    let is_command = state.extension_command(&text).is_some();
    if when_busy == WhenBusy::Refuse && state.rule_matches.is_pausing() && !is_command {
        // Between two runs: the prompt takes the place of the run that would follow.
        state.check_can_start()?;
        state.cancel_and_settle();
    }
    let label = Some(label.clone());
    state.submit(PromptRequest {
        label,
        level,
        text,
        images,
        when_busy,
        waits: false,
        expands: true,
    })
}

pub(crate) fn steer(
    state: &mut SessionState,
    level: Level,
    label: &Label,
    text: String,
    images: Vec<Block>,
) -> Handled {
    queue(state, level, label, text, images, WhenBusy::Steer)
}

pub(crate) fn follow_up(
    state: &mut SessionState,
    level: Level,
    label: &Label,
    text: String,
    images: Vec<Block>,
) -> Handled {
    queue(state, level, label, text, images, WhenBusy::FollowUp)
}

/// Queues the message, also when nothing runs.
fn queue(
    state: &mut SessionState,
    level: Level,
    label: &Label,
    text: String,
    images: Vec<Block>,
    when_busy: WhenBusy,
) -> Handled {
    state.refuse_extension_command(&text)?;
    let label = Some(label.clone());
    state.submit(PromptRequest {
        label,
        level,
        text,
        images,
        when_busy,
        waits: true,
        expands: true,
    })
}

const COMPACTING: &str = "Cannot submit a prompt while compaction is in progress. Wait for \
     compaction to finish and retry.";
