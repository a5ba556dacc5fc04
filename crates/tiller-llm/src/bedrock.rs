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
    /// Blocks that have started and not ended; rarely more than one.
    open: Vec<BedrockOpenBlock>,
    blocks: usize,
    calls: bool,
    stop_reason: Option<String>,
    done: bool,
}

#[derive(Debug)]
struct BedrockOpenBlock {
    theirs: usize,
    ours: usize,
    so_far: BedrockBlockState,
}

/// The state of a block until it ends.
#[derive(Debug)]
enum BedrockBlockState {
    Text,
    Thinking { signature: String, redacted: bool },
    Call,
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
            "contentBlockStop" => self.end_block(at, out),
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
    fn start_call(&mut self, theirs: usize, call: BedrockWireCall, out: &mut Vec<StreamEvent>) {
        self.end_block(theirs, out);
        let index = self.blocks;
        self.blocks += 1;
        self.calls = true;
        out.push(StreamEvent::CallStart { index, id: call.tool_use_id, name: call.name });
        self.open.push(BedrockOpenBlock { theirs, ours: index, so_far: BedrockBlockState::Call });
    }

    /// Only calls have a start event; other blocks start with their first delta.
    fn grow(&mut self, theirs: usize, delta: BedrockDelta, out: &mut Vec<StreamEvent>) {
        if let Some(text) = delta.text {
            if let Some((index, BedrockBlockState::Text)) =
                self.block(theirs, || BedrockBlockState::Text, out)
            {
                push_unless_empty(text, out, |delta| StreamEvent::TextDelta { index, delta });
            }
        } else if let Some(thought) = delta.reasoning_content {
            let begin =
                || BedrockBlockState::Thinking { signature: String::new(), redacted: false };
            let open = self.block(theirs, begin, out);
            if let Some((index, BedrockBlockState::Thinking { signature, redacted })) = open {
                signature.push_str(&thought.signature.unwrap_or_default());
                if let Some(hidden) = thought.redacted_content {
                    signature.push_str(&hidden);
                    *redacted = true;
                }
                let event = |delta| StreamEvent::ThinkingDelta { index, delta };
                push_unless_empty(thought.text.unwrap_or_default(), out, event);
            }
        } else if let Some(call) = delta.tool_use {
            let open = self.open.iter().find(|block| block.theirs == theirs);
            if let Some(BedrockOpenBlock { ours: index, so_far: BedrockBlockState::Call, .. }) =
                open
            {
                let event = |delta| StreamEvent::CallDelta { index: *index, delta };
                push_unless_empty(call.input, out, event);
            }
        }
    }

    /// The open block at this index, started if there is none.
    fn block(
        &mut self,
        theirs: usize,
        begin: impl FnOnce() -> BedrockBlockState,
        out: &mut Vec<StreamEvent>,
    ) -> Option<(usize, &mut BedrockBlockState)> {
        if !self.open.iter().any(|block| block.theirs == theirs) {
            let (index, so_far) = (self.blocks, begin());
            self.blocks += 1;
            out.push(match so_far {
                BedrockBlockState::Thinking { .. } => StreamEvent::ThinkingStart { index },
                BedrockBlockState::Text | BedrockBlockState::Call => {
                    StreamEvent::TextStart { index }
                }
            });
            self.open.push(BedrockOpenBlock { theirs, ours: index, so_far });
        }
        let block = self.open.iter_mut().find(|block| block.theirs == theirs)?;
        Some((block.ours, &mut block.so_far))
    }

    fn end_block(&mut self, theirs: usize, out: &mut Vec<StreamEvent>) {
        if let Some(at) = self.open.iter().position(|block| block.theirs == theirs) {
            self.open.remove(at).end(out);
        }
    }

    fn stop(&mut self, out: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        let Some(raw) = self.stop_reason.take() else {
            return Err(ProviderError::retry("Bedrock stream ended before messageStop"));
        };
        self.done = true;
        self.open.drain(..).for_each(|block| block.end(out));
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

impl BedrockOpenBlock {
    fn end(self, out: &mut Vec<StreamEvent>) {
        let index = self.ours;
        out.push(match self.so_far {
            BedrockBlockState::Text => StreamEvent::TextEnd { index, signature: None },
            BedrockBlockState::Thinking { signature, redacted } => {
                let signature = (!signature.is_empty()).then_some(signature);
                StreamEvent::ThinkingEnd { index, signature, redacted }
            }
            BedrockBlockState::Call => StreamEvent::CallEnd { index, thought_signature: None },
        });
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
