//! The `input` and `before_agent_start` hooks: extensions may handle a prompt, change it, or add
//! to it before its run starts. `prompt.rs` decides when each hook runs and what follows.

use serde_json::{Value, json};
use tiller_agent::message::{Block, Content, CustomMessage, Message, UnixMs};
use tiller_js::hook::{
    BeforeAgentStart, Input as InputHook, InputOutcome, InputSource, PromptChange,
};
use tiller_protocol::{Level, WhenBusy};

use super::{ExtensionTaskDone, SessionState, hooks, prompt_options};
use crate::project_state;
use crate::prompt::{InputHookResult, PromptRequest, StartHookResult};
use crate::prompt_results::Origin;

/// Shows a prompt to extensions, which may change or handle it.
pub(crate) fn run_input_hook(state: &mut SessionState, mut prompt: PromptRequest) {
    let streaming_behavior = match prompt.when_busy {
        WhenBusy::Steer if state.is_at_work() => Some("steer"),
        WhenBusy::FollowUp if state.is_at_work() => Some("followUp"),
        _ => None,
    };
    let hook = InputHook {
        text: prompt.text.clone(),
        images: (!prompt.images.is_empty()).then(|| json!(prompt.images)),
        source: match prompt.origin {
            Some(_) => InputSource::Rpc,
            None => InputSource::Extension,
        },
        streaming_behavior: streaming_behavior.map(str::to_owned),
    };
    let Some(host) = state.extensions.host().cloned() else { return };
    let cancel = state.extensions.hooks.cancel.clone();
    state.extensions.hooks.input += 1;
    state.tasks.spawn(async move {
        let mut is_handled = false;
        match hooks::ask(&host, hook, &cancel).await.unwrap_or_default() {
            InputOutcome::Continue => {}
            InputOutcome::Handled => is_handled = true,
            InputOutcome::Transform { text, images } => {
                prompt.text = text;
                if let Some(images) = images {
                    prompt.images = serde_json::from_value(images).unwrap_or_default();
                }
            }
        }
        ExtensionTaskDone::InputHookDone(Box::new(InputHookResult { prompt, is_handled }))
    });
}

/// Lets extensions add to a prompt that is about to start a run.
pub(crate) fn run_start_hook(
    state: &mut SessionState,
    origin: Option<Origin>,
    level: Level,
    message: Message,
) {
    let (text, images) = text_and_images(&message);
    let hook = BeforeAgentStart {
        prompt: text,
        images,
        system_prompt: project_state::system_prompt(state).to_string(),
        system_prompt_options: prompt_options::prompt_options(state),
    };
    let Some(host) = state.extensions.host().cloned() else { return };
    let cancel = state.extensions.hooks.cancel.clone();
    state.work.begin_start_hook();
    state.tasks.spawn(async move {
        let change = hooks::ask(&host, hook, &cancel).await.unwrap_or_default();
        ExtensionTaskDone::StartHookDone(Box::new(StartHookResult {
            origin,
            level,
            message,
            change,
        }))
    });
}

/// Applies what extensions add to a prompt. Returns the messages that follow it.
pub(crate) fn apply_prompt_change(state: &mut SessionState, change: PromptChange) -> Vec<Message> {
    let now = state.clock.now();
    let mut messages = std::mem::take(&mut state.extensions.turn.messages_for_next_prompt);
    messages.extend(change.messages.into_iter().filter_map(|message| custom(message, now)));
    state.extensions.turn.system_prompt = None;
    if let Some(options) = &change.system_prompt_options {
        prompt_options::take_options(state, options);
    }
    if let Some(system) = change.system_prompt {
        state.extensions.turn.system_prompt = Some(system.into());
    }
    messages
}

/// Parses a custom message of an extension. `content` and `display` have defaults.
pub(super) fn custom(mut message: Value, now: UnixMs) -> Option<Message> {
    message["timestamp"] = json!(now);
    if message["content"].is_null() {
        message["content"] = json!([]);
    }
    if message["display"].is_null() {
        message["display"] = json!(false);
    }
    serde_json::from_value::<CustomMessage>(message).ok().map(Message::Custom)
}

/// The text of a user message, and its images as JSON.
fn text_and_images(message: &Message) -> (String, Option<Value>) {
    let Message::User(user) = message else { return (String::new(), None) };
    let images: Vec<&Block> = match &user.content {
        Content::Text(_) => Vec::new(),
        Content::Blocks(blocks) => {
            blocks.iter().filter(|block| matches!(block, Block::Image { .. })).collect()
        }
    };
    (user.content.text(), (!images.is_empty()).then(|| json!(images)))
}
