//! `prompt`, `steer`, `follow_up`: send the agent a user message, now or later.

use tiller_agent::message::Block;
use tiller_protocol::{Level, WhenBusy};

use crate::dispatch::Handled;
use crate::extensions::commands;
use crate::prompt::{self, PromptRequest};
use crate::prompt_results::Origin;
use crate::state::SessionState;
use crate::work::stream_rules;

pub(crate) fn prompt(
    state: &mut SessionState,
    level: Level,
    origin: Origin,
    text: String,
    images: Vec<Block>,
    when_busy: WhenBusy,
) -> Handled {
    if state.work.compactions().is_manual() {
        return Err(COMPACTING.to_owned());
    }
    if when_busy == WhenBusy::Refuse
        && state.work.is_in_rule_pause()
        && commands::extension_command(state, &text).is_none()
    {
        // Between two runs: the prompt takes the place of the run that would follow.
        prompt::check_can_start(state)?;
        stream_rules::cancel_and_settle(state);
    }
    let origin = Some(origin);
    prompt::submit(
        state,
        PromptRequest { origin, level, text, images, when_busy, waits: false, expands: true },
    )
}

pub(crate) fn steer(
    state: &mut SessionState,
    level: Level,
    origin: Origin,
    text: String,
    images: Vec<Block>,
) -> Handled {
    queue(state, level, origin, text, images, WhenBusy::Steer)
}

pub(crate) fn follow_up(
    state: &mut SessionState,
    level: Level,
    origin: Origin,
    text: String,
    images: Vec<Block>,
) -> Handled {
    queue(state, level, origin, text, images, WhenBusy::FollowUp)
}

/// Queues the message, also when nothing runs.
fn queue(
    state: &mut SessionState,
    level: Level,
    origin: Origin,
    text: String,
    images: Vec<Block>,
    when_busy: WhenBusy,
) -> Handled {
    commands::refuse_extension_command(state, &text)?;
    let origin = Some(origin);
    prompt::submit(
        state,
        PromptRequest { origin, level, text, images, when_busy, waits: true, expands: true },
    )
}

const COMPACTING: &str = "Cannot submit a prompt while compaction is in progress. Wait for \
     compaction to finish and retry.";
