//! The queues: their content and their modes.

use serde_json::json;
use tiller_agent::modes::{InterruptMode, QueueMode};
use tiller_agent::prompt_result::PromptReason;
use tiller_config::settings::SettingKey;
use tiller_protocol::data::ClearedQueuesData;
use tiller_protocol::{Image, QueueData, QueuedMessageData, QueuedTarget, UpdateQueued};

use super::{data, done, settings};
use crate::dispatch::Handled;
use crate::extensions::commands;
use crate::queues::Cleared;
use crate::state::SessionState;
use crate::{prompt, prompt_results};

pub(crate) fn clear_queue(state: &mut SessionState) -> Handled {
    let Cleared { steering, follow_up, prompts } = state.queues.clear();
    let update = state.queues.update();
    state.emit(update);
    prompt_results::drop_queued(state, prompts, PromptReason::Cleared);
    data(&ClearedQueuesData { steering, follow_up })
}

pub(crate) fn get_queue(state: &SessionState) -> Handled {
    data(&QueueData { messages: state.queues.list() })
}

pub(crate) fn update_queued(state: &mut SessionState, update: UpdateQueued) -> Handled {
    let UpdateQueued { target, message, images } = update;
    commands::refuse_extension_command(state, &message)?;
    let message = prompt::user_message(state, message, Image::blocks(images))?;
    let message = state.queues.replace(&target, message)?;
    let update = state.queues.update();
    state.emit(update);
    data(&QueuedMessageData { message })
}

pub(crate) fn remove_queued(state: &mut SessionState, target: &QueuedTarget) -> Handled {
    let (message, prompt) = state.queues.remove(target)?;
    let update = state.queues.update();
    state.emit(update);
    prompt_results::drop_queued(state, prompt.into_iter().collect(), PromptReason::Removed);
    data(&QueuedMessageData { message })
}

pub(crate) fn set_steering_mode(state: &mut SessionState, mode: QueueMode) -> Handled {
    settings::set(state, SettingKey::STEERING_MODE, json!(mode))?;
    done()
}

pub(crate) fn set_follow_up_mode(state: &mut SessionState, mode: QueueMode) -> Handled {
    settings::set(state, SettingKey::FOLLOW_UP_MODE, json!(mode))?;
    done()
}

pub(crate) fn set_interrupt_mode(state: &mut SessionState, mode: InterruptMode) -> Handled {
    settings::set(state, SettingKey::INTERRUPT_MODE, json!(mode))?;
    done()
}
