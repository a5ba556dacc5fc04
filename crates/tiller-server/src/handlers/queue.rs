//! The queues: their content and their modes.

use tiller_agent::modes::{InterruptMode, QueueMode};
use tiller_protocol::data::ClearedQueuesData;

use super::{data, done};
use crate::dispatch::Handled;
use crate::modes;
use crate::state::SessionState;

pub(crate) fn clear_queue(state: &mut SessionState) -> Handled {
    let (steering, follow_up) = state.queues.clear();
    let update = state.queues.update();
    state.emit(update);
    data(&ClearedQueuesData { steering, follow_up })
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
