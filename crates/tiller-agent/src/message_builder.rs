//! Builds the model's message from a provider's stream, and emits each step.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::event::Update;
use crate::message::{AssistantMessage, Block, StopReason, ToolCall, UnixMs};
use crate::model::{Model, ThinkingLevel};
use crate::partial_json::PartialJson;
use crate::provider::{ProviderError, StreamEvent};

/// The most blocks of text, thinking and tool calls in one answer,
pub const ANSWER_MAX_BLOCKS: usize = 10_000;
/// and the most bytes of text, thinking, arguments, names and signatures in them. An answer that
/// exceeds these is a runaway.
pub const ANSWER_MAX_BYTES: usize = 32 << 20;

/// A message being built.
pub struct MessageBuilder {
    model: Arc<Model>,
    message: AssistantMessage,
    /// Incomplete arguments, by block.
    arguments: BTreeMap<usize, GrowingArguments>,
    /// The size of all blocks so far.
    bytes: usize,
}

#[derive(Default)]
struct GrowingArguments {
    json: PartialJson,
    /// The raw text, shown to the model if it cannot be parsed.
    text: String,
}

impl GrowingArguments {
    fn push(&mut self, piece: &str) {
        self.json.push(piece);
        self.text.push_str(piece);
    }

    /// Completes truncated arguments. Arguments that are not an object become empty, with an error.
    fn finish_into(self, call: &mut ToolCall) {
        call.arguments = self.json.finish();
        let is_read = !self.json.completed().0.is_empty() || self.text.trim().is_empty();
        call.arguments_error = (!is_read).then(|| {
            let parsed = serde_json::from_str::<Value>(&self.text);
            let why = match parsed {
                Ok(_) => "Tool arguments must be a JSON object".to_owned(),
                Err(err) => format!("Tool arguments are not JSON: {err}"),
            };
            format!("{why}\n\nReceived arguments:\n{}", self.text)
        });
    }
}

/// The effect of one provider event.
#[derive(Debug, PartialEq)]
pub enum Step {
    Started,
    Grew(Update),
    /// Nothing to emit before the end.
    Ignored,
    Complete,
}

impl MessageBuilder {
    pub fn new(model: Arc<Model>, timestamp: UnixMs) -> MessageBuilder {
        let message = AssistantMessage {
            api: model.api.clone(),
            provider: model.provider.clone(),
            model: model.id.clone(),
            timestamp,
            ..AssistantMessage::default()
        };
        MessageBuilder { model, message, arguments: BTreeMap::new(), bytes: 0 }
    }

    /// Records the requested thinking level.
    pub fn with_thinking(mut self, level: ThinkingLevel) -> MessageBuilder {
        self.message.thinking_level = Some(level.name().to_owned());
        self
    }

    /// The message as it begins: empty.
    pub fn skeleton(&self) -> AssistantMessage {
        self.message.clone()
    }

    /// Applies one event. An event that would make the message too large is refused with an error.
    pub fn push(&mut self, event: StreamEvent) -> Result<Step, ProviderError> {
        self.grow(bytes_of(&event))?;
        let update = match event {
            StreamEvent::Start => return Ok(Step::Started),
            StreamEvent::Done { reason: StopReason::Error | StopReason::Aborted, raw } => {
                let why = raw.as_deref().unwrap_or("no reason given");
                let why = format!("The provider ended the answer with an error ({why})");
                self.message.raw_stop_reason = raw;
                return Err(ProviderError::fatal(why));
            }
            StreamEvent::Done { reason, raw } => {
                self.message.stop_reason = reason;
                self.message.raw_stop_reason = raw;
                return Ok(Step::Complete);
            }
            StreamEvent::RawStop(raw) => {
                self.message.raw_stop_reason = Some(raw);
                return Ok(Step::Ignored);
            }
            StreamEvent::ResponseId(id) => {
                self.message.response_id = Some(id.clone());
                Update::ResponseId(id)
            }
            StreamEvent::ResponseModel(model) => {
                self.message.response_model = Some(model.clone());
                Update::ResponseModel(model)
            }
            StreamEvent::Usage(mut usage) => {
                // A cost reported by the provider takes precedence over the price list.
                if usage.cost.total == 0.0 {
                    usage.cost = self.model.price(&usage);
                }
                self.message.usage.clone_from(&usage);
                Update::Usage(usage)
            }
            StreamEvent::TextStart { index } => {
                self.start(index, Block::text(""))?;
                Update::TextStart { index }
            }
            StreamEvent::TextDelta { index, delta } => {
                self.text(index)?.0.push_str(&delta);
                Update::TextDelta { index, delta }
            }
            StreamEvent::TextEnd { index, signature } => {
                let (text, slot) = self.text(index)?;
                let content = text.clone();
                slot.clone_from(&signature);
                Update::TextEnd { index, content, signature }
            }
            StreamEvent::ThinkingStart { index } => {
                let thinking = String::new();
                let thinking_signature = None;
                self.start(
                    index,
                    Block::Thinking { thinking, thinking_signature, redacted: false },
                )?;
                Update::ThinkingStart { index }
            }
            StreamEvent::ThinkingDelta { index, delta } => {
                self.thinking(index)?.0.push_str(&delta);
                Update::ThinkingDelta { index, delta }
            }
            StreamEvent::ThinkingEnd { index, signature, redacted } => {
                let (thinking, slot, hidden) = self.thinking(index)?;
                let content = thinking.clone();
                slot.clone_from(&signature);
                *hidden = redacted;
                Update::ThinkingEnd { index, content, signature, redacted }
            }
            StreamEvent::CallStart { index, id, name } => {
                let call = ToolCall {
                    id: id.clone(),
                    name: name.clone(),
                    arguments: Default::default(),
                    arguments_error: None,
                    thought_signature: None,
                };
                self.start(index, Block::ToolCall(call))?;
                self.arguments.insert(index, GrowingArguments::default());
                Update::CallStart { index, id, name }
            }
            StreamEvent::CallDelta { index, delta } => {
                self.arguments.get_mut(&index).ok_or_else(|| out_of_place(index))?.push(&delta);
                Update::CallDelta { index, delta }
            }
            StreamEvent::CallArguments { index, arguments } => {
                let text = Value::Object(*arguments).to_string();
                self.grow(text.len())?;
                let slot = self.arguments.get_mut(&index).ok_or_else(|| out_of_place(index))?;
                *slot = GrowingArguments::default();
                slot.push(&text);
                return Ok(Step::Ignored);
            }
            StreamEvent::CallEnd { index, thought_signature } => {
                let json = self.arguments.remove(&index).ok_or_else(|| out_of_place(index))?;
                let call = self.call(index)?;
                json.finish_into(call);
                call.thought_signature = thought_signature;
                Update::CallEnd { index, call: Box::new(call.clone()) }
            }
        };
        Ok(Step::Grew(update))
    }

    /// The complete message.
    pub fn complete(self) -> AssistantMessage {
        self.message
    }

    /// The message so far, with the reason why it ends here.
    pub fn cut(mut self, reason: StopReason, why: String) -> AssistantMessage {
        for (index, json) in std::mem::take(&mut self.arguments) {
            if let Ok(call) = self.call(index) {
                json.finish_into(call);
            }
        }
        self.message.stop_reason = reason;
        self.message.error_message = Some(why);
        self.message
    }

    fn grow(&mut self, bytes: usize) -> Result<(), ProviderError> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > ANSWER_MAX_BYTES {
            let mib = ANSWER_MAX_BYTES >> 20;
            let why = format!("The answer was cut off: it is larger than {mib} MiB");
            return Err(ProviderError::fatal(why));
        }
        Ok(())
    }

    fn start(&mut self, index: usize, block: Block) -> Result<(), ProviderError> {
        if index != self.message.content.len() {
            return Err(out_of_place(index));
        }
        if index == ANSWER_MAX_BLOCKS {
            return Err(ProviderError::fatal(format!(
                "The answer was cut off: it has more than {ANSWER_MAX_BLOCKS} content blocks"
            )));
        }
        self.message.content.push(block);
        Ok(())
    }

    fn text(&mut self, index: usize) -> Result<(&mut String, &mut Option<String>), ProviderError> {
        match self.message.content.get_mut(index) {
            Some(Block::Text { text, text_signature }) => Ok((text, text_signature)),
            _ => Err(out_of_place(index)),
        }
    }

    fn thinking(
        &mut self,
        index: usize,
    ) -> Result<(&mut String, &mut Option<String>, &mut bool), ProviderError> {
        match self.message.content.get_mut(index) {
            Some(Block::Thinking { thinking, thinking_signature, redacted }) => {
                Ok((thinking, thinking_signature, redacted))
            }
            _ => Err(out_of_place(index)),
        }
    }

    fn call(&mut self, index: usize) -> Result<&mut ToolCall, ProviderError> {
        match self.message.content.get_mut(index) {
            Some(Block::ToolCall(call)) => Ok(call),
            _ => Err(out_of_place(index)),
        }
    }
}

/// How many bytes an event adds to the blocks. Complete arguments are counted as deltas.
fn bytes_of(event: &StreamEvent) -> usize {
    match event {
        StreamEvent::TextDelta { delta, .. }
        | StreamEvent::ThinkingDelta { delta, .. }
        | StreamEvent::CallDelta { delta, .. } => delta.len(),
        StreamEvent::CallStart { id, name, .. } => id.len() + name.len(),
        StreamEvent::TextEnd { signature, .. }
        | StreamEvent::ThinkingEnd { signature, .. }
        | StreamEvent::CallEnd { thought_signature: signature, .. } => {
            signature.as_ref().map_or(0, String::len)
        }
        StreamEvent::Start
        | StreamEvent::TextStart { .. }
        | StreamEvent::ThinkingStart { .. }
        | StreamEvent::CallArguments { .. }
        | StreamEvent::Usage(_)
        | StreamEvent::RawStop(_)
        | StreamEvent::ResponseId(_)
        | StreamEvent::ResponseModel(_)
        | StreamEvent::Done { .. } => 0,
    }
}

fn out_of_place(index: usize) -> ProviderError {
    ProviderError::retry(format!("the provider spoke of content block {index} out of place"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assembly() -> MessageBuilder {
        let model = serde_json::json!({
            "id": "m", "name": "M", "api": "a", "provider": "p", "baseUrl": "",
            "reasoning": false, "input": ["text"], "contextWindow": 1, "maxTokens": 1,
            "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
        });
        let mut assembly = MessageBuilder::new(Arc::new(serde_json::from_value(model).unwrap()), 1);
        assembly.push(StreamEvent::Start).unwrap();
        assembly
    }

    #[test]
    fn answer_with_too_many_blocks_is_cut_off() {
        let mut assembly = assembly();
        for index in 0..ANSWER_MAX_BLOCKS {
            assembly.push(StreamEvent::TextStart { index }).unwrap();
        }
        let index = ANSWER_MAX_BLOCKS;
        let refused = assembly.push(StreamEvent::TextStart { index }).unwrap_err();
        let why = "The answer was cut off: it has more than 10000 content blocks";
        assert_eq!(refused, ProviderError::fatal(why));
        let message = assembly.cut(StopReason::Error, refused.to_string());
        assert_eq!(message.content.len(), ANSWER_MAX_BLOCKS);
        assert_eq!(message.error_message.as_deref(), Some(why));
    }

    #[test]
    fn answer_with_too_many_bytes_is_cut_off() {
        let mut assembly = assembly();
        assembly.push(StreamEvent::ThinkingStart { index: 0 }).unwrap();
        let delta = "x".repeat(1 << 20);
        for _ in 0..ANSWER_MAX_BYTES >> 20 {
            assembly.push(StreamEvent::ThinkingDelta { index: 0, delta: delta.clone() }).unwrap();
        }
        let (signature, redacted) = (Some("s".to_owned()), false);
        let end = StreamEvent::ThinkingEnd { index: 0, signature, redacted };
        let refused = assembly.push(end).unwrap_err();
        let why = "The answer was cut off: it is larger than 32 MiB";
        assert_eq!(refused, ProviderError::fatal(why));
    }
}
