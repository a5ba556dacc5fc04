//! `prompt`, `steer`, `follow_up`: hand the agent a user message, now or later.

use tiller_agent::message::{Block, Message};

use crate::rpc::dispatch::Handled;
use crate::rpc::extensions::PromptRequest;
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
        // Nothing is said at the moment. Who speaks now takes the place of what would follow.
        can_start(state)?;
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

/// It waits in any case, also when nobody is at work.
fn queue(
    state: &mut SessionState,
    level: Level,
    label: &Label,
    text: String,
    images: Vec<Block>,
    when_busy: WhenBusy,
) -> Handled {
    refuse_commands(state, &text)?;
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

/// A command of an extension's cannot wait.
pub(crate) fn refuse_commands(state: &SessionState, text: &str) -> Result<(), String> {
    let Some((name, _)) = state.extension_command(text) else { return Ok(()) };
    Err(format!(
        "Extension command \"/{name}\" cannot be queued. Use prompt() or execute the command \
         when not streaming."
    ))
}

/// What is said, with skills and templates in the place of their names.
pub(crate) fn user_message(
    state: &mut SessionState,
    text: String,
    images: Vec<Block>,
) -> Result<Message, String> {
    let text = match text.starts_with('/') {
        true => state.resources.resources().expand(text)?,
        false => text,
    };
    Ok(Message::user(text, images, state.clock.now()))
}

/// Whether a run could begin, or why not.
pub(crate) fn can_start(state: &mut SessionState) -> Result<(), String> {
    match &state.model {
        None => return Err(NO_MODEL.trim_end().to_owned()),
        Some(model) => state.models.check_access(model)?,
    }
    if state.conversation.session().is_read_only() {
        return Err("Session is open read-only".to_owned());
    }
    // Read now what the model has to see, so that a file that cannot be read is said in time.
    state.conversation.messages().map(|_| ()).map_err(|err| err.to_string())
}

const COMPACTING: &str = "Cannot submit a prompt while compaction is in progress. Wait for \
     compaction to finish and retry.";

const NO_MODEL: &str = include_str!("../../../texts/no-model.md");
