//! OpenAI's Responses API: decodes its stream. [`request`] builds what is sent.
//!
//! An answer is a list of items: reasoning, messages, function calls. Each becomes one block. What
//! the API wants back verbatim (the encrypted reasoning, the ids of items) is stored in the
//! signatures of the blocks and in the ids of the calls.

mod native;
pub(crate) mod request;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tiller_agent::message::StopReason;
use tiller_agent::provider::{ProviderError, Request, StreamEvent};

use crate::blocks::{BlockKind, BlockMap};
use crate::errors::Failure;
use crate::request_options::RequestOptions;
use crate::stream::{Api, Decode, HttpRequest};
use crate::{json, sse};
use native::{
    NativeFailure, NativeItem, NativeResponse, ResponsesEvent, ResponsesKind, ResponsesWireError,
    ResponsesWirePart,
};

pub(crate) struct Responses;

impl Api for Responses {
    type Decoder = ResponsesDecoder;

    fn post(request: &Request, access: &RequestOptions) -> Result<HttpRequest, ProviderError> {
        request::post(request, access)
    }

    fn decoder(request: &Request) -> ResponsesDecoder {
        ResponsesDecoder::new(&request.model.id)
    }

    fn error_text(status: u16, body: &str) -> String {
        error_text("OpenAI", status, body)
    }
}

/// The API's error message, if the body has one.
pub(crate) fn error_text(vendor: &str, status: u16, body: &str) -> String {
    #[derive(Deserialize)]
    struct Body {
        error: ResponsesWireError,
    }
    let message = json::read::<Body>(body).ok().and_then(|body| body.error.message);
    let text = message.as_deref().unwrap_or(body);
    format!("{vendor} API error ({status}): {status} {text}")
}

/// Stored with a text block, so that it can be sent back as the same message. Other programs read
/// it in session files.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct TextSignature {
    v: u32,
    pub id: String,
    /// Whether it was commentary or the final answer; the API wants it back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
}

/// Converts the API's events.
#[derive(Debug)]
pub(crate) struct ResponsesDecoder {
    /// The requested model.
    model: String,
    blocks: BlockMap,
    calls: bool,
    has_started: bool,
    done: bool,
}

impl ResponsesDecoder {
    pub(crate) fn new(model: &str) -> ResponsesDecoder {
        ResponsesDecoder {
            model: model.to_owned(),
            blocks: BlockMap::default(),
            calls: false,
            has_started: false,
            done: false,
        }
    }
}

impl Decode for ResponsesDecoder {
    fn push(
        &mut self,
        event: sse::Event<'_>,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), ProviderError> {
        // Some gateways end every stream as the older API does.
        if self.done || event.data == "[DONE]" {
            return Ok(());
        }
        let native = ResponsesEvent::read(event)?;
        let at = native.output_index;
        match native.kind {
            ResponsesKind::Created => self.begin(*native.response.unwrap_or_default(), out),
            ResponsesKind::ItemAdded => self.start_item(at, &native.read_item(event)?, out),
            ResponsesKind::TextDelta | ResponsesKind::RefusalDelta => {
                self.grow(at, BlockKind::Text, 0, native.delta, out);
            }
            ResponsesKind::SummaryDelta => {
                self.grow(at, BlockKind::Thinking, native.summary_index, native.delta, out);
            }
            ResponsesKind::ReasoningDelta => {
                self.grow(at, BlockKind::Thinking, native.content_index, native.delta, out);
            }
            ResponsesKind::ArgumentsDelta => self.grow(at, BlockKind::Call, 0, native.delta, out),
            ResponsesKind::ItemDone => {
                let item = native.read_item(event)?;
                self.end_item(at, item, native.item.map(|item| *item), out);
            }
            ResponsesKind::Completed | ResponsesKind::Incomplete => {
                return self.stop(*native.response.unwrap_or_default(), out);
            }
            ResponsesKind::Failed => {
                let response = native.response.unwrap_or_default();
                out.extend(response.status.map(StreamEvent::RawStop));
                return Err(failed(response.error));
            }
            ResponsesKind::Error => {
                let native_failure = json::read::<NativeFailure>(event.data).unwrap_or_default();
                let failure = Failure { body: event.data, ..Failure::default() };
                let error = native_failure.error.unwrap_or(native_failure.top);
                let text = match error.name() {
                    Some(_) => format!("Error Code {error}"),
                    None => error.to_string(),
                };
                return Err(failure.classify(text));
            }
            // Events that repeat streamed content as a whole, and future events.
            ResponsesKind::Unknown => (),
        }
        Ok(())
    }

    fn end(&mut self, _out: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        let message = "OpenAI Responses stream ended before a terminal response event";
        Err(ProviderError::retry(message))
    }
}

impl ResponsesDecoder {
    fn begin(&mut self, response: NativeResponse, out: &mut Vec<StreamEvent>) {
        if self.has_started {
            return;
        }
        self.has_started = true;
        out.extend(response.id.map(StreamEvent::ResponseId));
        let other = response.model.filter(|model| *model != self.model);
        out.extend(other.map(StreamEvent::ResponseModel));
    }

    fn start_item(&mut self, wire_index: usize, item: &NativeItem, out: &mut Vec<StreamEvent>) {
        self.blocks.end(wire_index, out);
        match item {
            NativeItem::Message { .. } => {
                self.blocks.start_text(wire_index, out);
            }
            NativeItem::Reasoning { .. } => {
                self.blocks.start_thinking(wire_index, out);
            }
            NativeItem::FunctionCall { id, call_id, name, .. } => {
                let id = match id {
                    Some(id) if !id.is_empty() => format!("{call_id}|{id}"),
                    _ => call_id.clone(),
                };
                self.blocks.start_call(wire_index, id, name.clone(), out);
                self.calls = true;
            }
            NativeItem::Unknown => (),
        }
    }

    /// A delta that does not match its item is ignored.
    fn grow(
        &mut self,
        wire_index: usize,
        kind: BlockKind,
        part: usize,
        delta: Option<String>,
        out: &mut Vec<StreamEvent>,
    ) {
        if let (Some(block), Some(delta)) = (self.blocks.get_kind(wire_index, kind), delta) {
            if block.streamed && block.part != part {
                block.grow(BETWEEN_PARTS.to_owned(), out);
            }
            block.part = part;
            block.grow(delta, out);
        }
    }

    /// The complete item. Emits what was not streamed.
    fn end_item(
        &mut self,
        wire_index: usize,
        item: NativeItem,
        raw: Option<Value>,
        out: &mut Vec<StreamEvent>,
    ) {
        // An item with another or no announcement starts here.
        let announced = item.kind().and_then(|kind| self.blocks.get_kind(wire_index, kind));
        if announced.is_none() {
            self.start_item(wire_index, &item, out);
        }
        let Some(mut block) = self.blocks.take(wire_index) else { return };
        match item {
            NativeItem::Message { id, phase, content } => {
                block.full_text = joined(&content, "");
                let signature = id.map(|id| TextSignature { v: 1, id, phase });
                let signature = signature.and_then(|it| serde_json::to_string(&it).ok());
                block.signature = signature.unwrap_or_default();
            }
            NativeItem::Reasoning { summary, content } => {
                let parts = if summary.is_empty() { content.unwrap_or_default() } else { summary };
                block.full_text = joined(&parts, BETWEEN_PARTS);
                block.signature = raw.map(|item| item.to_string()).unwrap_or_default();
            }
            NativeItem::FunctionCall { arguments, .. } => block.full_text = arguments,
            NativeItem::Unknown => (),
        }
        block.end(out);
    }

    fn stop(
        &mut self,
        response: NativeResponse,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), ProviderError> {
        self.done = true;
        self.blocks.end_all(out);
        out.extend(response.usage.map(|usage| StreamEvent::Usage(Box::new(usage.into()))));
        let why = response.incomplete_details.and_then(|details| details.reason);
        let reason = match (response.status.as_deref(), why.as_deref()) {
            (Some("incomplete"), Some("max_output_tokens")) => Ok(StopReason::Length),
            (Some("incomplete"), why) => {
                let why = why.unwrap_or("no reason was given");
                Err(ProviderError::fatal(format!("Response incomplete: {why}")))
            }
            (Some("failed" | "cancelled"), _) => Err(failed(response.error)),
            _ if self.calls => Ok(StopReason::ToolUse),
            _ => Ok(StopReason::Stop),
        };
        // An incomplete answer has its reason in another field.
        let raw = match (response.status, why) {
            (Some(status), Some(why)) => Some(format!("{status}.{why}")),
            (status, why) => status.or(why),
        };
        let reason = reason.inspect_err(|_| out.extend(raw.clone().map(StreamEvent::RawStop)))?;
        out.push(StreamEvent::Done { reason, raw });
        Ok(())
    }
}

impl NativeItem {
    /// The kind of block; None for the API's built-in tools.
    fn kind(&self) -> Option<BlockKind> {
        match self {
            NativeItem::Message { .. } => Some(BlockKind::Text),
            NativeItem::Reasoning { .. } => Some(BlockKind::Thinking),
            NativeItem::FunctionCall { .. } => Some(BlockKind::Call),
            NativeItem::Unknown => None,
        }
    }
}

/// Separates the parts of a reasoning summary.
const BETWEEN_PARTS: &str = "\n\n";

fn joined(parts: &[ResponsesWirePart], between: &str) -> String {
    let texts: Vec<&str> =
        parts.iter().filter_map(|part| part.text.as_deref().or(part.refusal.as_deref())).collect();
    texts.join(between)
}

fn failed(error: Option<ResponsesWireError>) -> ProviderError {
    let error = error.unwrap_or_default();
    let body = json!({ "error": { "code": error.code, "message": error.message } }).to_string();
    Failure { body: &body, ..Failure::default() }.classify(error.to_string())
}

#[cfg(test)]
mod tests;
