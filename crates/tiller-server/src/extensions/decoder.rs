//! Decodes the stream of an extension's provider. Pure: it uses neither engine nor clock.
//!
//! Extensions are written by hand, so small mistakes are repaired: a block that was not opened is
//! opened, and content that only the final message has is emitted at the end. A stream that
//! contradicts itself ends the answer with a fatal error, since a retry would not help.

use serde_json::Value;
use tiller_agent::message::{StopReason, Usage};
use tiller_agent::partial_json::PartialJson;
use tiller_agent::provider::{ProviderError, StreamEvent};

/// Longer than any model's answer, so that an endless stream does not fill the memory.
const BYTES_MAX: usize = 64 << 20;

#[derive(Default)]
pub(crate) struct Decoder {
    has_started: bool,
    blocks: Vec<BlockState>,
    bytes: usize,
}

/// What was emitted of a block.
struct BlockState {
    kind: BlockKind,
    text: String,
    is_open: bool,
    /// A call without a name is held back until its name arrives.
    is_held_back: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum BlockKind {
    Text,
    Thinking,
    Call,
}

impl Decoder {
    /// Decodes one event. After `Done` or an error no more events follow.
    pub(crate) fn push(
        &mut self,
        event: &Value,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), ProviderError> {
        let kind = event["type"].as_str().unwrap_or_default();
        if kind == "error" {
            return Err(failure(event));
        }
        if !std::mem::replace(&mut self.has_started, true) {
            out.push(StreamEvent::Start);
        }
        match kind.split_once('_') {
            Some(("text", step)) => self.step(BlockKind::Text, step, event, out),
            Some(("thinking", step)) => self.step(BlockKind::Thinking, step, event, out),
            Some(("toolcall", step)) => self.step(BlockKind::Call, step, event, out),
            _ if kind == "done" => self.done(event, out),
            // `start`, and events of newer extensions.
            _ => Ok(()),
        }
    }

    fn step(
        &mut self,
        kind: BlockKind,
        step: &str,
        event: &Value,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), ProviderError> {
        let index = event["contentIndex"].as_u64().and_then(|index| usize::try_from(index).ok());
        let index = index.unwrap_or(usize::MAX);
        if index == self.blocks.len() {
            self.start(kind, event, out);
        } else if self.blocks.get(index).is_none_or(|block| block.kind != kind) {
            let why = format!("{kind:?} has no content block {}", event["contentIndex"]);
            return Err(invalid(&why.to_lowercase()));
        }
        match step {
            "delta" => self.append(index, event["delta"].as_str().unwrap_or_default(), out),
            "end" => {
                self.end(index, event, out);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn start(&mut self, kind: BlockKind, event: &Value, out: &mut Vec<StreamEvent>) {
        let index = self.blocks.len();
        let mut is_held = false;
        match kind {
            BlockKind::Text => out.push(StreamEvent::TextStart { index }),
            BlockKind::Thinking => out.push(StreamEvent::ThinkingStart { index }),
            BlockKind::Call => match (text(event, "id"), text(event, "name")) {
                (Some(id), Some(name)) => out.push(StreamEvent::CallStart { index, id, name }),
                _ => is_held = true,
            },
        }
        self.blocks.push(BlockState {
            kind,
            text: String::new(),
            is_open: true,
            is_held_back: is_held,
        });
    }

    fn append(
        &mut self,
        index: usize,
        delta: &str,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), ProviderError> {
        self.bytes += delta.len();
        if self.bytes > BYTES_MAX {
            return Err(invalid("the answer is too long"));
        }
        let block = &mut self.blocks[index];
        if !block.is_open {
            return Err(invalid(&format!("content block {index} has a delta after its end")));
        }
        block.text.push_str(delta);
        if !block.is_held_back && !delta.is_empty() {
            out.push(delta_event(block.kind, index, delta.to_owned()));
        }
        Ok(())
    }

    fn end(&mut self, index: usize, event: &Value, out: &mut Vec<StreamEvent>) {
        let block = &mut self.blocks[index];
        if !std::mem::replace(&mut block.is_open, false) {
            return;
        }
        match block.kind {
            BlockKind::Text | BlockKind::Thinking => {
                block.emit_rest(index, event["content"].as_str().unwrap_or_default(), out);
                out.push(match block.kind {
                    BlockKind::Text => {
                        StreamEvent::TextEnd { index, signature: text(event, "textSignature") }
                    }
                    _ => StreamEvent::ThinkingEnd {
                        index,
                        signature: text(event, "thinkingSignature"),
                        redacted: event["redacted"] == true,
                    },
                });
            }
            BlockKind::Call => block.end_call(index, &event["toolCall"], out),
        }
    }

    /// The final message: emits whatever was not streamed.
    fn done(&mut self, event: &Value, out: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        let message = &event["message"];
        let reason = event["reason"].as_str().or(message["stopReason"].as_str());
        let content = message["content"].as_array().map(Vec::as_slice).unwrap_or_default();
        for (index, block) in content.iter().enumerate() {
            let kind = match block["type"].as_str() {
                Some("text") => BlockKind::Text,
                Some("thinking") => BlockKind::Thinking,
                Some("toolCall") => BlockKind::Call,
                _ => return Err(invalid("a content block of unknown type")),
            };
            if index == self.blocks.len() {
                self.start(kind, block, out);
            }
            if self.blocks[index].kind != kind {
                return Err(invalid("the final message differs from the streamed one"));
            }
            let mut end = block.clone();
            end["content"] =
                block[if kind == BlockKind::Text { "text" } else { "thinking" }].clone();
            end["toolCall"] = block.clone();
            self.end(index, &end, out);
        }
        for index in 0..self.blocks.len() {
            self.end(index, &Value::Null, out);
        }
        if let Ok(usage) = serde_json::from_value::<Usage>(message["usage"].clone()) {
            out.push(StreamEvent::Usage(Box::new(usage)));
        }
        out.extend(text(message, "responseId").map(StreamEvent::ResponseId));
        out.extend(text(message, "responseModel").map(StreamEvent::ResponseModel));
        let reason = match reason {
            Some("stop") => StopReason::Stop,
            Some("length") => StopReason::Length,
            Some("toolUse") => StopReason::ToolUse,
            other => {
                let other = other.unwrap_or("none");
                return Err(invalid(&format!("{other} is not a valid stop reason")));
            }
        };
        out.push(StreamEvent::Done { reason, raw: text(message, "rawStopReason") });
        Ok(())
    }
}

impl BlockState {
    /// Emits the rest of the text that was not streamed.
    fn emit_rest(&mut self, index: usize, content: &str, out: &mut Vec<StreamEvent>) {
        if let Some(rest) = content.strip_prefix(&*self.text).filter(|rest| !rest.is_empty()) {
            out.push(delta_event(self.kind, index, rest.to_owned()));
            self.text.push_str(rest);
        }
    }

    fn end_call(&mut self, index: usize, call: &Value, out: &mut Vec<StreamEvent>) {
        let arguments = call["arguments"].as_object();
        let spelled = std::mem::take(&mut self.text);
        let mut read = PartialJson::default();
        read.push(&spelled);
        // The complete arguments count, however they were streamed.
        let is_same = arguments.is_none_or(|arguments| *arguments == read.finish());
        if self.is_held_back {
            let id = text(call, "id");
            let name = text(call, "name");
            let id = id.unwrap_or_default();
            let name = name.unwrap_or_default();
            out.push(StreamEvent::CallStart { index, id, name });
        }
        match arguments.filter(|_| !is_same).cloned() {
            Some(arguments) if spelled.is_empty() || self.is_held_back => {
                let delta = Value::Object(arguments).to_string();
                out.push(StreamEvent::CallDelta { index, delta });
            }
            Some(arguments) => {
                let arguments = Box::new(arguments);
                out.push(StreamEvent::CallArguments { index, arguments });
            }
            None if self.is_held_back && !spelled.is_empty() => {
                out.push(StreamEvent::CallDelta { index, delta: spelled });
            }
            None => {}
        }
        let thought_signature = text(call, "thoughtSignature");
        out.push(StreamEvent::CallEnd { index, thought_signature });
    }
}

fn delta_event(kind: BlockKind, index: usize, delta: String) -> StreamEvent {
    match kind {
        BlockKind::Text => StreamEvent::TextDelta { index, delta },
        BlockKind::Thinking => StreamEvent::ThinkingDelta { index, delta },
        BlockKind::Call => StreamEvent::CallDelta { index, delta },
    }
}

/// An error event of the extension. Its text decides whether to retry, as for a server without a
/// status code.
fn failure(event: &Value) -> ProviderError {
    let message = event["error"]["errorMessage"].as_str().or(event["error"].as_str());
    match message.filter(|message| !message.trim().is_empty()) {
        Some(message) => tiller_llm::classify_text(message),
        None if event["reason"] == "aborted" => {
            ProviderError::fatal("the provider aborted the answer")
        }
        None => ProviderError::fatal("the provider failed without an error message"),
    }
}

fn invalid(why: &str) -> ProviderError {
    ProviderError::fatal(format!("invalid stream from the extension's provider: {why}"))
}

fn text(object: &Value, field: &str) -> Option<String> {
    object[field].as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::json;

    use super::*;

    fn check(events: &[Value], expected: Expect) {
        let mut decoder = Decoder::default();
        let mut lines = String::new();
        for event in events {
            let mut out = Vec::new();
            let decoded = decoder.push(event, &mut out);
            out.iter().for_each(|event| lines += &format!("{event:?}\n"));
            if let Err(error) = decoded {
                lines += &format!("{error:?}\n");
                break;
            }
        }
        expected.assert_eq(&lines);
    }

    #[test]
    fn content_of_the_final_message_only_is_emitted() {
        let content = json!([
            { "type": "text", "text": "Hello" },
            { "type": "toolCall", "id": "c", "name": "ls", "arguments": { "a": 1 } },
        ]);
        check(
            &[
                json!({ "type": "start" }),
                json!({ "type": "text_delta", "contentIndex": 0, "delta": "Hel" }),
                json!({ "type": "done", "message": { "content": content, "stopReason": "toolUse",
                    "usage": { "input": 3 } } }),
            ],
            expect![[r#"
                Start
                TextStart { index: 0 }
                TextDelta { index: 0, delta: "Hel" }
                TextDelta { index: 0, delta: "lo" }
                TextEnd { index: 0, signature: None }
                CallStart { index: 1, id: "c", name: "ls" }
                CallDelta { index: 1, delta: "{\"a\":1}" }
                CallEnd { index: 1, thought_signature: None }
                Usage(Usage { input: 3, output: 0, cache_read: 0, cache_write: 0, total_tokens: 0, cost: UsageCost { input: 0.0, output: 0.0, cache_read: 0.0, cache_write: 0.0, total: 0.0, total_from_provider: false }, cache_write_1h: None, reasoning: None })
                Done { reason: ToolUse, raw: None }
            "#]],
        );
    }

    #[test]
    fn call_without_a_name_is_held_back() {
        let call = json!({ "type": "toolCall", "id": "c", "name": "ls", "arguments": { "a": 1 } });
        check(
            &[
                json!({ "type": "toolcall_start", "contentIndex": 0 }),
                json!({ "type": "toolcall_delta", "contentIndex": 0, "delta": "{\"a\": 1}" }),
                json!({ "type": "toolcall_end", "contentIndex": 0, "toolCall": call }),
            ],
            expect![[r#"
                Start
                CallStart { index: 0, id: "c", name: "ls" }
                CallDelta { index: 0, delta: "{\"a\": 1}" }
                CallEnd { index: 0, thought_signature: None }
            "#]],
        );
    }

    #[test]
    fn contradicting_stream_is_a_fatal_error() {
        let delta = |kind: &str, index: u64| json!({ "type": format!("{kind}_delta"), "contentIndex": index, "delta": "x" });
        check(
            &[delta("text", 0), delta("thinking", 0)],
            expect![[r#"
                Start
                TextStart { index: 0 }
                TextDelta { index: 0, delta: "x" }
                Fatal { message: "invalid stream from the extension's provider: thinking has no content block 0" }
            "#]],
        );
        check(
            &[delta("text", 0), json!({ "type": "text_end", "contentIndex": 0 }), delta("text", 0)],
            expect![[r#"
                Start
                TextStart { index: 0 }
                TextDelta { index: 0, delta: "x" }
                TextEnd { index: 0, signature: None }
                Fatal { message: "invalid stream from the extension's provider: content block 0 has a delta after its end" }
            "#]],
        );
        let done = json!({ "type": "done", "reason": "stop", "message": { "content": [{}] } });
        check(
            &[done],
            expect![[r#"
                Start
                Fatal { message: "invalid stream from the extension's provider: a content block of unknown type" }
            "#]],
        );
    }

    #[test]
    fn error_text_decides_whether_to_retry() {
        let error = |error_value: Value| json!({ "type": "error", "reason": "error", "error": error_value });
        check(
            &[error(json!({ "errorMessage": "overloaded_error: come back later" }))],
            expect![[r#"
                Retry { message: "overloaded_error: come back later", after: None }
            "#]],
        );
        check(
            &[error(json!({ "errorMessage": "prompt is too long" }))],
            expect![[r#"
                Overflow { message: "prompt is too long" }
            "#]],
        );
        check(
            &[error(json!(3))],
            expect![[r#"
                Fatal { message: "the provider failed without an error message" }
            "#]],
        );
    }
}
