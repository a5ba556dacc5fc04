//! Anthropic's Messages API: decodes its stream. [`request`] builds what is sent.

mod request;

use serde::Deserialize;
use serde_json::{Map, Value};
use tiller_agent::message::{StopReason, Usage};
use tiller_agent::provider::{ProviderError, Request, StreamEvent};

use crate::blocks::{BlockKind, BlockMap};
use crate::errors::{self, Failure};
use crate::request_options::RequestOptions;
use crate::stream::{Api, Decode, HttpRequest};
use crate::{json, sse};

pub(crate) struct Messages;

impl Api for Messages {
    type Decoder = AnthropicDecoder;

    fn post(request: &Request, access: &RequestOptions) -> Result<HttpRequest, ProviderError> {
        request::post(request, access)
    }

    fn decoder(request: &Request) -> AnthropicDecoder {
        AnthropicDecoder::new(&request.model.id)
    }

    fn error_text(status: u16, body: &str) -> String {
        format!("{status} {body}")
    }
}

/// Shown in place of redacted thinking. Only the signature is sent back.
const HIDDEN: &str = "[Reasoning redacted]";

/// Converts the API's events.
#[derive(Debug)]
pub(crate) struct AnthropicDecoder {
    /// The requested model.
    model: String,
    blocks: BlockMap,
    calls: bool,
    usage: Usage,
    stop_reason: Option<String>,
    done: bool,
}

impl AnthropicDecoder {
    fn new(model: &str) -> AnthropicDecoder {
        AnthropicDecoder {
            model: model.to_owned(),
            blocks: BlockMap::default(),
            calls: false,
            usage: Usage::default(),
            stop_reason: None,
            done: false,
        }
    }
}

impl Decode for AnthropicDecoder {
    fn push(
        &mut self,
        event: sse::Event<'_>,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), ProviderError> {
        if self.done {
            return Ok(());
        }
        let native = AnthropicEvent::read(event)?;
        match native.kind {
            AnthropicKind::MessageStart => self.start(*native.message.unwrap_or_default(), out),
            AnthropicKind::ContentBlockStart => {
                self.start_block(native.index, *native.content_block.unwrap_or_default(), out);
            }
            AnthropicKind::ContentBlockDelta => {
                self.grow_block(native.index, native.delta.unwrap_or_default(), out);
            }
            AnthropicKind::ContentBlockStop => self.blocks.end(native.index, out),
            AnthropicKind::MessageDelta => {
                let reason = native.delta.and_then(|delta| delta.stop_reason);
                self.stop_reason = reason.or(self.stop_reason.take());
                self.count(*native.usage.unwrap_or_default(), out);
            }
            AnthropicKind::MessageStop => return self.stop(out),
            AnthropicKind::Error => {
                let failure = Failure { body: event.data, ..Failure::default() };
                return Err(failure.classify(event.data.to_owned()));
            }
            // `ping`, and future events: the API's documentation asks clients to ignore them.
            AnthropicKind::Unknown => (),
        }
        Ok(())
    }

    fn end(&mut self, _out: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        Err(ProviderError::retry("Anthropic stream ended before message_stop"))
    }
}

impl AnthropicDecoder {
    fn start(&mut self, message: NativeMessage, out: &mut Vec<StreamEvent>) {
        out.extend(message.id.map(StreamEvent::ResponseId));
        let other = message.model.filter(|model| *model != self.model);
        out.extend(other.map(StreamEvent::ResponseModel));
        self.usage.cache_write_1h = Some(0);
        self.count(message.usage.unwrap_or_default(), out);
    }

    fn start_block(&mut self, wire_index: usize, block: NativeBlock, out: &mut Vec<StreamEvent>) {
        match block {
            NativeBlock::Text { text } => self.blocks.start_text(wire_index, out).grow(text, out),
            NativeBlock::Thinking { thinking, signature } => {
                let block = self.blocks.start_thinking(wire_index, out);
                block.grow(thinking, out);
                block.signature = signature;
            }
            NativeBlock::RedactedThinking { data } => {
                let block = self.blocks.start_thinking(wire_index, out);
                block.grow(HIDDEN.to_owned(), out);
                block.signature = data;
                block.redacted = true;
            }
            NativeBlock::ToolUse { id, name, input } => {
                let block = self.blocks.start_call(wire_index, id, name, out);
                if !input.is_empty() {
                    block.full_text = Value::Object(input).to_string();
                }
                self.calls = true;
            }
            NativeBlock::Unknown => (),
        }
    }

    fn grow_block(&mut self, wire_index: usize, delta: AnthropicDelta, out: &mut Vec<StreamEvent>) {
        let Some(block) = self.blocks.get(wire_index) else {
            return;
        };
        // A delta that does not match its block, or of an unknown kind, is ignored.
        let delta = match block.kind {
            BlockKind::Text => delta.text,
            BlockKind::Thinking => {
                block.signature.push_str(&delta.signature.unwrap_or_default());
                delta.thinking
            }
            BlockKind::Call => delta.partial_json,
        };
        block.grow(delta.unwrap_or_default(), out);
    }

    /// Merges the counts that are present; each event contains only what has changed.
    fn count(&mut self, counts: AnthropicWireUsage, out: &mut Vec<StreamEvent>) {
        let usage = &mut self.usage;
        usage.input = counts.input_tokens.unwrap_or(usage.input);
        usage.output = counts.output_tokens.unwrap_or(usage.output);
        usage.cache_read = counts.cache_read_input_tokens.unwrap_or(usage.cache_read);
        usage.cache_write = counts.cache_creation_input_tokens.unwrap_or(usage.cache_write);
        if let Some(long) =
            counts.cache_creation.and_then(|counts| counts.ephemeral_1h_input_tokens)
        {
            usage.cache_write_1h = Some(long);
        }
        let thought = counts.output_tokens_details.and_then(|counts| counts.thinking_tokens);
        usage.reasoning = thought.or(usage.reasoning);
        usage.total_tokens = usage.input + usage.output + usage.cache_read + usage.cache_write;
        out.push(StreamEvent::Usage(Box::new(usage.clone())));
    }

    fn stop(&mut self, out: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        self.done = true;
        self.blocks.end_all(out);
        let raw = self.stop_reason.take();
        let reason = stop_reason(raw.as_deref(), self.calls);
        let reason = reason.inspect_err(|_| out.extend(raw.clone().map(StreamEvent::RawStop)))?;
        out.push(StreamEvent::Done { reason, raw });
        Ok(())
    }
}

fn stop_reason(raw: Option<&str>, calls: bool) -> Result<StopReason, ProviderError> {
    Ok(match raw {
        Some("end_turn" | "pause_turn" | "stop_sequence") => StopReason::Stop,
        Some("max_tokens") => StopReason::Length,
        Some("tool_use") => StopReason::ToolUse,
        Some("refusal") => {
            return Err(ProviderError::fatal("The model refused to complete the request"));
        }
        Some(other @ "sensitive") => {
            return Err(ProviderError::fatal(format!("Provider stopped with: {other}")));
        }
        Some(reason @ "model_context_window_exceeded") => {
            let message = format!("the answer filled the model's window ({reason})");
            return Err(ProviderError::Overflow { message: message.into() });
        }
        Some(other) => {
            return Err(ProviderError::fatal(format!("Unhandled stop reason: {other}")));
        }
        None if calls => StopReason::ToolUse,
        None => StopReason::Stop,
    })
}

/// Any event of the API. One struct for all kinds: an enum tagged by `type` would parse every event
/// twice, and an answer has tens of thousands.
#[derive(Debug, Deserialize)]
struct AnthropicEvent {
    #[serde(rename = "type")]
    kind: AnthropicKind,
    #[serde(default)]
    index: usize,
    // Rare fields are boxed, so that a delta is small to move.
    message: Option<Box<NativeMessage>>,
    content_block: Option<Box<NativeBlock>>,
    delta: Option<AnthropicDelta>,
    usage: Option<Box<AnthropicWireUsage>>,
}

#[derive(Debug, Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
enum AnthropicKind {
    MessageStart,
    ContentBlockStart,
    ContentBlockDelta,
    ContentBlockStop,
    MessageDelta,
    MessageStop,
    /// Kept as raw text; `errors` parses it.
    Error,
    #[serde(other)]
    Unknown,
}

/// Of a block or of the message.
#[derive(Debug, Default, Deserialize)]
struct AnthropicDelta {
    text: Option<String>,
    thinking: Option<String>,
    signature: Option<String>,
    partial_json: Option<String>,
    stop_reason: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
struct NativeMessage {
    id: Option<String>,
    model: Option<String>,
    usage: Option<AnthropicWireUsage>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum NativeBlock {
    Text {
        #[serde(default)]
        text: String,
    },
    Thinking {
        #[serde(default)]
        thinking: String,
        #[serde(default)]
        signature: String,
    },
    RedactedThinking {
        data: String,
    },
    ToolUse {
        id: String,
        name: String,
        #[serde(default)]
        input: Map<String, Value>,
    },
    /// The API's built-in tools, which are never requested. Their deltas find no open block.
    #[default]
    #[serde(other)]
    Unknown,
}

#[derive(Debug, Default, Deserialize)]
struct AnthropicWireUsage {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
    cache_creation: Option<NativeCacheCreation>,
    output_tokens_details: Option<AnthropicWireOutputDetails>,
}

#[derive(Debug, Deserialize)]
struct NativeCacheCreation {
    ephemeral_1h_input_tokens: Option<u64>,
}

#[derive(Debug, Deserialize)]
struct AnthropicWireOutputDetails {
    thinking_tokens: Option<u64>,
}

impl AnthropicEvent {
    fn read(event: sse::Event<'_>) -> Result<AnthropicEvent, ProviderError> {
        json::read(event.data)
            .or_else(|err| AnthropicEvent::strange(event.data).ok_or(err))
            .map_err(|err| unreadable(event, &err))
    }

    /// An event of an unknown kind may use the same fields with other types.
    fn strange(data: &str) -> Option<AnthropicEvent> {
        #[derive(Deserialize)]
        struct Typed {
            r#type: AnthropicKind,
        }
        let Typed { r#type: kind } = json::read(data).ok()?;
        let strange = AnthropicEvent {
            kind,
            index: 0,
            message: None,
            content_block: None,
            delta: None,
            usage: None,
        };
        (strange.kind == AnthropicKind::Unknown).then_some(strange)
    }
}

/// The stream is garbled; a retry is likely to help.
fn unreadable(event: sse::Event<'_>, err: &serde_json::Error) -> ProviderError {
    let sse::Event { name, data } = event;
    let reason = errors::cut_off(data, err).unwrap_or_else(|| err.to_string());
    let shown = shorten(data);
    ProviderError::retry(format!(
        "Could not parse Anthropic SSE event {name}: {reason}; data={shown}; \
         raw=event: {name}\\ndata: {shown}"
    ))
}

fn shorten(data: &str) -> &str {
    const MAX_BYTES: usize = 4096;
    let fits = (0..=MAX_BYTES.min(data.len())).rev().find(|&end| data.is_char_boundary(end));
    &data[..fits.unwrap_or(0)]
}

#[cfg(test)]
mod tests;
