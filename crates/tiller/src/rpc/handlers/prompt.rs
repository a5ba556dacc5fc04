//! `prompt`, `steer`, `follow_up`: hand the agent a user message, now or later.

use tiller_agent::host::Queue;
use tiller_agent::message::{Block, Message};

use super::done;
use crate::rpc::dispatch::Handled;
use crate::rpc::state::State;
use crate::rpc::wire::{Level, WhenBusy};

pub(crate) fn prompt(
    state: &mut State,
    level: Level,
    text: String,
    images: Vec<Block>,
    when_busy: WhenBusy,
) -> Handled {
    let message = Message::user(text, images, state.clock.now());
    match (state.is_busy(), when_busy) {
        (false, _) => {
            can_start(state)?;
            state.start_run(vec![message]);
        }
        (true, WhenBusy::Steer) => queue(state, Queue::Steering, message),
        (true, WhenBusy::FollowUp) => queue(state, Queue::FollowUp, message),
        (true, WhenBusy::Refuse) => return Err(level.busy().to_owned()),
    }
    done()
}

pub(crate) fn steer(state: &mut State, text: String, images: Vec<Block>) -> Handled {
    let message = Message::user(text, images, state.clock.now());
    queue(state, Queue::Steering, message);
    done()
}

pub(crate) fn follow_up(state: &mut State, text: String, images: Vec<Block>) -> Handled {
    let message = Message::user(text, images, state.clock.now());
    queue(state, Queue::FollowUp, message);
    done()
}

/// Whether a run could begin, or why not.
pub(super) fn can_start(state: &mut State) -> Result<(), String> {
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

const NO_MODEL: &str = include_str!("../../../texts/no-model.md");

fn queue(state: &mut State, queue: Queue, message: Message) {
    state.queues.push(queue, message);
    let update = state.queues.update();
    state.emit(update);
}
