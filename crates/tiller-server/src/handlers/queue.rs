//! The queues: their content and their modes.

use serde::Serialize;
use tiller_agent::modes::{InterruptMode, QueueMode};
use tiller_protocol::{QueuedTarget, UpdateQueued};

use super::{data, done};
use crate::dispatch::Handled;
use crate::modes;
use crate::state::SessionState;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Cleared {
    steering: Vec<String>,
    follow_up: Vec<String>,
}

pub(crate) fn clear_queue(state: &mut SessionState) -> Handled {
    let (steering, follow_up) = state.queues.clear();
    let update = state.queues.update();
    state.emit(update);
    data(&Cleared { steering, follow_up })
}

pub(crate) fn set_steering_mode(state: &mut SessionState, mode: QueueMode) -> Handled {
    modes::set(state, |modes| modes.steering = Some(mode));
    done()
}

pub(crate) fn set_follow_up_mode(state: &mut SessionState, mode: QueueMode) -> Handled {
    modes::set(state, |modes| modes.follow_up = Some(mode));
    done()
}

pub(crate) fn set_interrupt_mode(state: &mut SessionState, mode: InterruptMode) -> Handled {
    modes::set(state, |modes| modes.interrupt = Some(mode));
    done()
}

pub(crate) fn get_queue(_state: &SessionState) -> Handled {
    Err("Not supported: get_queue".to_owned())
}

pub(crate) fn update_queued(_state: &mut SessionState, _update: UpdateQueued) -> Handled {
    Err("Not supported: update_queued".to_owned())
}

pub(crate) fn remove_queued(_state: &mut SessionState, _target: &QueuedTarget) -> Handled {
    Err("Not supported: remove_queued".to_owned())
}
