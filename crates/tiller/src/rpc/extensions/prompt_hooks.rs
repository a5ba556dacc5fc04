//! The `input` and `before_agent_start` hooks: extensions may handle a prompt, change it, or add
//! to it before its run starts. `rpc/prompt.rs` decides when each hook runs and what follows.

use serde_json::{Value, json};
use tiller_agent::message::{Block, Content, CustomMessage, Message, UnixMs};
use tiller_js::hook::{
    BeforeAgentStart, Input as InputHook, InputOutcome, InputSource, PromptChange,
};

use super::{ExtensionInput, SessionState, hooks};
use crate::rpc::prompt::{InputHookResult, PromptRequest, StartHookResult};
use crate::rpc::wire::{Label, Level, WhenBusy};

impl SessionState {
    /// Shows a prompt to extensions, which may change or handle it.
    pub(in crate::rpc) fn run_input_hook(&mut self, mut prompt: PromptRequest) {
        let streaming_behavior = match prompt.when_busy {
            WhenBusy::Steer if self.is_at_work() => Some("steer"),
            WhenBusy::FollowUp if self.is_at_work() => Some("followUp"),
            _ => None,
        };
        let hook = InputHook {
            text: prompt.text.clone(),
            images: (!prompt.images.is_empty()).then(|| json!(prompt.images)),
            source: match prompt.label {
                Some(_) => InputSource::Rpc,
                None => InputSource::Extension,
            },
            streaming_behavior: streaming_behavior.map(str::to_owned),
        };
        let Some(host) = self.extensions.host.clone() else { return };
        let cancel = self.extensions.hook_cancel.clone();
        self.extensions.input_hooks_pending += 1;
        self.tasks.spawn(async move {
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
            ExtensionInput::InputHookDone(Box::new(InputHookResult { prompt, is_handled }))
        });
    }

    /// Lets extensions add to a prompt that is about to start a run.
    pub(in crate::rpc) fn run_start_hook(
        &mut self,
        label: Option<Label>,
        level: Level,
        message: Message,
    ) {
        let (text, images) = text_and_images(&message);
        let hook = BeforeAgentStart {
            prompt: text,
            images,
            system_prompt: self.system().to_string(),
            system_prompt_options: self.prompt_options(),
        };
        let Some(host) = self.extensions.host.clone() else { return };
        let cancel = self.extensions.hook_cancel.clone();
        self.extensions.start_or_settle_hooks_pending += 1;
        self.tasks.spawn(async move {
            let change = hooks::ask(&host, hook, &cancel).await.unwrap_or_default();
            ExtensionInput::StartHookDone(Box::new(StartHookResult {
                label,
                level,
                message,
                change,
            }))
        });
    }

    /// Applies what extensions add to a prompt. Returns the messages that follow it.
    pub(in crate::rpc) fn apply_prompt_change(&mut self, change: PromptChange) -> Vec<Message> {
        let now = self.clock.now();
        let mut messages = std::mem::take(&mut self.extensions.messages_for_next_prompt);
        messages.extend(change.messages.into_iter().filter_map(|message| custom(message, now)));
        self.extensions.system_prompt_override = None;
        if let Some(options) = &change.system_prompt_options {
            self.take_options(options);
        }
        if let Some(system) = change.system_prompt {
            self.extensions.system_prompt_override = Some(system.into());
        }
        messages
    }
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
