//! Amazon Bedrock's ConverseStream: decodes its stream. [`request`] builds what is sent, [`sign`]
//! signs it, and [`frames`] splits the response into frames.

mod frames;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod framing;
mod request;
mod sign;
mod thinking;

use serde::Deserialize;
use tiller_agent::message::{StopReason, Usage};
use tiller_agent::provider::{ProviderError, Request, StreamEvent};

use crate::blocks::{BlockKind, BlockMap};
use crate::request_options::RequestOptions;
use crate::stream::{Api, Decode, HttpRequest};
use crate::{errors, json, sse};
use frames::Frames;

pub(crate) struct ConverseStream;

impl Api for ConverseStream {
    type Decoder = BedrockDecoder;

    fn post(request: &Request, access: &RequestOptions) -> Result<HttpRequest, ProviderError> {
        request::post(request, access)
    }

    fn reseal(post: &mut HttpRequest, access: &RequestOptions) -> Result<(), ProviderError> {
        request::sign_again(post, access)
    }

    fn decoder(_request: &Request) -> BedrockDecoder {
        BedrockDecoder::default()
    }

    fn error_text(status: u16, body: &str) -> String {
        #[derive(Deserialize)]
        struct Body {
            #[serde(alias = "Message")]
            message: String,
        }
        let message = json::read::<Body>(body).map(|body| body.message);
        format!("{status} {}", message.as_deref().unwrap_or(body))
    }
}

/// Converts the API's events.
#[derive(Debug, Default)]
pub(crate) struct BedrockDecoder {
    frames: Frames,
    blocks: BlockMap,
    calls: bool,
    stop_reason: Option<String>,
    done: bool,
}

impl Decode for BedrockDecoder {
    fn push(
        &mut self,
        event: sse::Event<'_>,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), ProviderError> {
        if self.done {
            return Ok(());
        }
        // Unknown events may use the same fields with other types.
        let known = ["contentBlockStart", "contentBlockDelta", "contentBlockStop"];
        if !known.contains(&event.name) && !["messageStop", "metadata"].contains(&event.name) {
            return Ok(());
        }
        let native: BedrockEvent =
            json::read(event.data).map_err(|err| errors::unreadable(event.data, &err))?;
        let at = native.content_block_index;
        match event.name {
            "contentBlockStart" => {
                if let Some(call) = native.start.and_then(|start| start.tool_use) {
                    self.start_call(at, call, out);
                }
            }
            "contentBlockDelta" => self.grow(at, native.delta.unwrap_or_default(), out),
            "contentBlockStop" => self.blocks.end(at, out),
            // The usage follows.
            "messageStop" => self.stop_reason = native.stop_reason,
            _ => {
                out.extend(native.usage.map(|usage| StreamEvent::Usage(Box::new(usage.into()))));
                return self.stop(out);
            }
        }
        Ok(())
    }

    /// Each frame is an event of the same kind, only wrapped differently.
    fn read(
        &mut self,
        _sse: &mut sse::SseDecoder,
        bytes: &[u8],
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), ProviderError> {
        self.frames.push(bytes)?;
        while let Some(frame) = self.frames.next()? {
            self.push(frame.event()?, out)?;
        }
        Ok(())
    }

    fn end(&mut self, out: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        self.stop(out)
    }
}

impl BedrockDecoder {
    fn start_call(&mut self, wire_index: usize, call: BedrockWireCall, out: &mut Vec<StreamEvent>) {
        self.blocks.end(wire_index, out);
        self.calls = true;
        self.blocks.start_call(wire_index, call.tool_use_id, call.name, out);
    }

    /// Only calls have a start event; other blocks start with their first delta.
    fn grow(&mut self, wire_index: usize, delta: BedrockDelta, out: &mut Vec<StreamEvent>) {
        let is_new = self.blocks.get(wire_index).is_none();
        if let Some(text) = delta.text {
            if is_new {
                self.blocks.start_text(wire_index, out);
            }
            if let Some(block) = self.blocks.get_kind(wire_index, BlockKind::Text) {
                block.grow(text, out);
            }
        } else if let Some(thought) = delta.reasoning_content {
            if is_new {
                self.blocks.start_thinking(wire_index, out);
            }
            if let Some(block) = self.blocks.get_kind(wire_index, BlockKind::Thinking) {
                block.signature.push_str(&thought.signature.unwrap_or_default());
                if let Some(hidden) = thought.redacted_content {
                    block.signature.push_str(&hidden);
                    block.redacted = true;
                }
                block.grow(thought.text.unwrap_or_default(), out);
            }
        } else if let Some(call) = delta.tool_use
            && let Some(block) = self.blocks.get_kind(wire_index, BlockKind::Call)
        {
            block.grow(call.input, out);
        }
    }

    fn stop(&mut self, out: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        let Some(raw) = self.stop_reason.take() else {
            return Err(ProviderError::retry("Bedrock stream ended before messageStop"));
        };
        self.done = true;
        self.blocks.end_all(out);
        let reason = stop_reason(&raw, self.calls);
        let reason = reason.inspect_err(|_| out.push(StreamEvent::RawStop(raw.clone())))?;
        out.push(StreamEvent::Done { reason, raw: Some(raw) });
        Ok(())
    }
}

fn stop_reason(raw: &str, calls: bool) -> Result<StopReason, ProviderError> {
    Ok(match raw {
        "tool_use" => StopReason::ToolUse,
        // Some models call tools and report `end_turn`.
        "end_turn" | "stop_sequence" if calls => StopReason::ToolUse,
        "end_turn" | "stop_sequence" => StopReason::Stop,
        "max_tokens" => StopReason::Length,
        "guardrail_intervened" | "content_filtered" => {
            return Err(ProviderError::fatal("The model refused to complete the request"));
        }
        "model_context_window_exceeded" => {
            let message = format!("the answer filled the model's window ({raw})");
            return Err(ProviderError::Overflow { message: message.into() });
        }
        // The model produced invalid output. It rarely does so twice.
        "malformed_model_output" | "malformed_tool_use" => {
            return Err(ProviderError::retry(format!("Unhandled stop reason: {raw}")));
        }
        _ => return Err(ProviderError::fatal(format!("Unhandled stop reason: {raw}"))),
    })
}

/// Any event of the API, all kinds in one struct.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct BedrockEvent {
    #[serde(default)]
    content_block_index: usize,
    start: Option<NativeStart>,
    delta: Option<BedrockDelta>,
    stop_reason: Option<String>,
    usage: Option<BedrockWireUsage>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct NativeStart {
    tool_use: Option<BedrockWireCall>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct BedrockWireCall {
    tool_use_id: String,
    name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct BedrockDelta {
    text: Option<String>,
    tool_use: Option<NativeInput>,
    reasoning_content: Option<NativeThought>,
}

#[derive(Debug, Deserialize)]
struct NativeInput {
    #[serde(default)]
    input: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct NativeThought {
    text: Option<String>,
    signature: Option<String>,
    redacted_content: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct BedrockWireUsage {
    input_tokens: u64,
    output_tokens: u64,
    cache_read_input_tokens: u64,
    cache_write_input_tokens: u64,
}

impl From<BedrockWireUsage> for Usage {
    fn from(usage: BedrockWireUsage) -> Usage {
        let counts = [
            usage.input_tokens,
            usage.output_tokens,
            usage.cache_read_input_tokens,
            usage.cache_write_input_tokens,
        ];
        Usage {
            input: usage.input_tokens,
            output: usage.output_tokens,
            cache_read: usage.cache_read_input_tokens,
            cache_write: usage.cache_write_input_tokens,
            total_tokens: counts.into_iter().fold(0, u64::saturating_add),
            ..Usage::default()
        }
    }
}

#[cfg(test)]
mod tests;
