//! Anthropic's Messages API: decodes its stream. [`request`] builds what is sent.

mod request;

use serde::Deserialize;
use serde_json::{Map, Value};
use tiller_agent::message::{StopReason, Usage};
use tiller_agent::provider::{ProviderError, Request, StreamEvent};

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
    /// Blocks that have started and not ended; rarely more than one.
    open: Vec<AnthropicOpenBlock>,
    /// How many blocks were emitted. The API may have more, of unknown kinds.
    blocks: usize,
    calls: bool,
    usage: Usage,
    stop_reason: Option<String>,
    done: bool,
}

#[derive(Debug)]
struct AnthropicOpenBlock {
    theirs: usize,
    ours: usize,
    so_far: AnthropicBlockState,
}

/// The state of a block until it ends.
#[derive(Debug)]
enum AnthropicBlockState {
    Text,
    Thinking {
        signature: String,
        redacted: bool,
    },
    /// `input` came with the start; it is used only if no deltas follow.
    Call {
        input: Map<String, Value>,
        spelled_out: bool,
    },
}

impl AnthropicDecoder {
    fn new(model: &str) -> AnthropicDecoder {
        AnthropicDecoder {
            model: model.to_owned(),
            open: Vec::new(),
            blocks: 0,
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
            AnthropicKind::ContentBlockStop => self.end_block(native.index, out),
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

    fn start_block(&mut self, theirs: usize, block: NativeBlock, out: &mut Vec<StreamEvent>) {
        let index = self.blocks;
        let so_far = match block {
            NativeBlock::Text { text } => {
                out.push(StreamEvent::TextStart { index });
                push_unless_empty(text, out, |delta| StreamEvent::TextDelta { index, delta });
                AnthropicBlockState::Text
            }
            NativeBlock::Thinking { thinking, signature } => {
                out.push(StreamEvent::ThinkingStart { index });
                push_unless_empty(thinking, out, |delta| StreamEvent::ThinkingDelta {
                    index,
                    delta,
                });
                AnthropicBlockState::Thinking { signature, redacted: false }
            }
            NativeBlock::RedactedThinking { data } => {
                out.push(StreamEvent::ThinkingStart { index });
                let delta = HIDDEN.to_owned();
                out.push(StreamEvent::ThinkingDelta { index, delta });
                AnthropicBlockState::Thinking { signature: data, redacted: true }
            }
            NativeBlock::ToolUse { id, name, input } => {
                out.push(StreamEvent::CallStart { index, id, name });
                self.calls = true;
                AnthropicBlockState::Call { input, spelled_out: false }
            }
            NativeBlock::Unknown => return,
        };
        self.blocks += 1;
        self.open.push(AnthropicOpenBlock { theirs, ours: index, so_far });
    }

    fn grow_block(&mut self, theirs: usize, delta: AnthropicDelta, out: &mut Vec<StreamEvent>) {
        let Some(block) = self.open.iter_mut().find(|block| block.theirs == theirs) else {
            return;
        };
        let index = block.ours;
        // A delta that does not match its block, or of an unknown kind, is ignored.
        match &mut block.so_far {
            AnthropicBlockState::Text => {
                let event = |delta| StreamEvent::TextDelta { index, delta };
                push_unless_empty(delta.text.unwrap_or_default(), out, event);
            }
            AnthropicBlockState::Thinking { signature, .. } => {
                signature.push_str(&delta.signature.unwrap_or_default());
                let event = |delta| StreamEvent::ThinkingDelta { index, delta };
                push_unless_empty(delta.thinking.unwrap_or_default(), out, event);
            }
            AnthropicBlockState::Call { spelled_out, .. } => {
                let json = delta.partial_json.unwrap_or_default();
                *spelled_out |= !json.is_empty();
                push_unless_empty(json, out, |delta| StreamEvent::CallDelta { index, delta });
            }
        }
    }

    fn end_block(&mut self, theirs: usize, out: &mut Vec<StreamEvent>) {
        let Some(at) = self.open.iter().position(|block| block.theirs == theirs) else {
            return;
        };
        out_end(self.open.remove(at), out);
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
        for block in self.open.drain(..) {
            out_end(block, out);
        }
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

fn out_end(block: AnthropicOpenBlock, out: &mut Vec<StreamEvent>) {
    let index = block.ours;
    match block.so_far {
        AnthropicBlockState::Text => out.push(StreamEvent::TextEnd { index, signature: None }),
        AnthropicBlockState::Thinking { signature, redacted } => {
            let signature = (!signature.is_empty()).then_some(signature);
            out.push(StreamEvent::ThinkingEnd { index, signature, redacted });
        }
        AnthropicBlockState::Call { input, spelled_out } => {
            if !spelled_out && !input.is_empty() {
                let delta = Value::Object(input).to_string();
                out.push(StreamEvent::CallDelta { index, delta });
            }
            out.push(StreamEvent::CallEnd { index, thought_signature: None });
        }
    }
}

fn push_unless_empty(
    text: String,
    out: &mut Vec<StreamEvent>,
    event: impl FnOnce(String) -> StreamEvent,
) {
    if !text.is_empty() {
        out.push(event(text));
    }
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
