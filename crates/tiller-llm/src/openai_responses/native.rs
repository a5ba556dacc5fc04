//! The events of the Responses API.

use std::fmt;

use serde::Deserialize;
use serde_json::Value;
use tiller_agent::message::Usage;
use tiller_agent::provider::ProviderError;

use crate::{errors, json, sse};

/// Any event. One struct for all kinds: an enum tagged by `type` would parse every event twice, and
/// an answer has tens of thousands.
#[derive(Debug, Deserialize)]
pub(super) struct ResponsesEvent {
    #[serde(rename = "type")]
    pub kind: ResponsesKind,
    #[serde(default)]
    pub output_index: usize,
    #[serde(default)]
    pub summary_index: usize,
    #[serde(default)]
    pub content_index: usize,
    pub delta: Option<String>,
    /// Kept unparsed: reasoning is sent back verbatim.
    pub item: Option<Box<Value>>,
    /// Boxed like the item, so that an event is small to move.
    pub response: Option<Box<NativeResponse>>,
}

#[derive(Debug, Deserialize, PartialEq)]
pub(super) enum ResponsesKind {
    #[serde(rename = "response.created", alias = "response.in_progress")]
    Created,
    #[serde(rename = "response.output_item.added")]
    ItemAdded,
    #[serde(rename = "response.output_text.delta")]
    TextDelta,
    #[serde(rename = "response.refusal.delta")]
    RefusalDelta,
    #[serde(rename = "response.reasoning_summary_text.delta")]
    SummaryDelta,
    /// Models with visible reasoning.
    #[serde(rename = "response.reasoning_text.delta")]
    ReasoningDelta,
    #[serde(rename = "response.function_call_arguments.delta")]
    ArgumentsDelta,
    #[serde(rename = "response.output_item.done")]
    ItemDone,
    #[serde(rename = "response.completed")]
    Completed,
    #[serde(rename = "response.incomplete")]
    Incomplete,
    #[serde(rename = "response.failed")]
    Failed,
    #[serde(rename = "error")]
    Error,
    #[serde(other)]
    Unknown,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct NativeResponse {
    pub id: Option<String>,
    pub model: Option<String>,
    pub status: Option<String>,
    pub error: Option<ResponsesWireError>,
    pub incomplete_details: Option<NativeIncomplete>,
    pub usage: Option<ResponsesWireUsage>,
}

#[derive(Debug, Deserialize)]
pub(super) struct NativeIncomplete {
    pub reason: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum NativeItem {
    Message {
        id: Option<String>,
        phase: Option<String>,
        #[serde(default)]
        content: Vec<ResponsesWirePart>,
    },
    Reasoning {
        #[serde(default)]
        summary: Vec<ResponsesWirePart>,
        content: Option<Vec<ResponsesWirePart>>,
    },
    FunctionCall {
        id: Option<String>,
        call_id: String,
        name: String,
        #[serde(default)]
        arguments: String,
    },
    /// The API's built-in tools, which are never requested.
    #[serde(other)]
    Unknown,
}

#[derive(Debug, Deserialize)]
pub(super) struct ResponsesWirePart {
    pub text: Option<String>,
    pub refusal: Option<String>,
}

/// An `error` event. The documentation has its fields at the top level, some servers one level
/// down.
#[derive(Debug, Default, Deserialize)]
pub(super) struct NativeFailure {
    pub error: Option<ResponsesWireError>,
    #[serde(flatten)]
    pub top: ResponsesWireError,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct ResponsesWireError {
    pub code: Option<Value>,
    pub message: Option<String>,
}

impl ResponsesWireError {
    pub fn name(&self) -> Option<&str> {
        self.code.as_ref().and_then(Value::as_str)
    }
}

impl fmt::Display for ResponsesWireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let message = self.message.as_deref().unwrap_or("the server gave up without saying why");
        match self.name() {
            Some(code) => write!(f, "{code}: {message}"),
            None => f.write_str(message),
        }
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct ResponsesWireUsage {
    #[serde(default)]
    pub input_tokens: u64,
    #[serde(default)]
    pub output_tokens: u64,
    pub total_tokens: Option<u64>,
    pub input_tokens_details: Option<NativeInputDetails>,
    pub output_tokens_details: Option<ResponsesWireOutputDetails>,
}

#[derive(Debug, Deserialize)]
pub(super) struct NativeInputDetails {
    pub cached_tokens: Option<u64>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ResponsesWireOutputDetails {
    pub reasoning_tokens: Option<u64>,
}

impl From<ResponsesWireUsage> for Usage {
    fn from(usage: ResponsesWireUsage) -> Usage {
        let cached = usage.input_tokens_details.and_then(|usage| usage.cached_tokens).unwrap_or(0);
        let thought = usage.output_tokens_details.and_then(|usage| usage.reasoning_tokens);
        Usage {
            input: usage.input_tokens.saturating_sub(cached),
            output: usage.output_tokens,
            cache_read: cached,
            total_tokens: usage
                .total_tokens
                .unwrap_or(usage.input_tokens.saturating_add(usage.output_tokens)),
            reasoning: Some(thought.unwrap_or(0)),
            ..Usage::default()
        }
    }
}

impl ResponsesEvent {
    pub fn read(event: sse::Event<'_>) -> Result<ResponsesEvent, ProviderError> {
        json::read(event.data)
            .or_else(|err| ResponsesEvent::strange(event.data).ok_or(err))
            .map_err(|err| errors::unreadable(event.data, &err))
    }

    /// An event of an unknown kind may use the same fields with other types.
    fn strange(data: &str) -> Option<ResponsesEvent> {
        #[derive(Deserialize)]
        struct Typed {
            r#type: ResponsesKind,
        }
        let Typed { r#type: kind } = json::read(data).ok()?;
        let strange = ResponsesEvent {
            kind,
            output_index: 0,
            summary_index: 0,
            content_index: 0,
            delta: None,
            item: None,
            response: None,
        };
        (strange.kind == ResponsesKind::Unknown).then_some(strange)
    }

    pub fn read_item(&self, event: sse::Event<'_>) -> Result<NativeItem, ProviderError> {
        match &self.item {
            Some(item) => {
                NativeItem::deserialize(&**item).map_err(|err| errors::unreadable(event.data, &err))
            }
            None => Ok(NativeItem::Unknown),
        }
    }
}
