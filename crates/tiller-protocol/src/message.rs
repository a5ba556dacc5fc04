//! Messages at each level: newer levels have fields that older ones do not.

use std::borrow::Cow;
use std::sync::Arc;

use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tiller_agent::message::{
    self as agent, Arguments, BashExecution, Block, BranchSummary, CompactionSummary,
    CustomMessage, StopReason, ToolCall, UnixMs, UserMessage, plain_number,
};

use crate::Level;
use crate::json::present;

/// A message of the conversation, as its level writes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "role", rename_all = "camelCase")]
pub enum Message<'a> {
    User(Cow<'a, UserMessage>),
    Assistant(AssistantMessage<'a>),
    ToolResult(ToolResultMessage<'a>),
    /// A command that the client ran itself, shown to the model with the next prompt.
    BashExecution(Cow<'a, BashExecution>),
    /// Added by an extension or by tiller itself.
    Custom(Cow<'a, CustomMessage>),
    /// Summarises an abandoned branch.
    BranchSummary(Cow<'a, BranchSummary>),
    /// Replaces everything that a compaction removed.
    CompactionSummary(Cow<'a, CompactionSummary>),
}

impl<'a> Message<'a> {
    pub fn new(message: &'a agent::Message, level: Level) -> Message<'a> {
        match message {
            agent::Message::User(message) => Message::User(Cow::Borrowed(message)),
            agent::Message::Assistant(message) => {
                let content = blocks(&message.content, level);
                Message::Assistant(AssistantMessage { content, ..assistant(message, level) })
            }
            agent::Message::ToolResult(message) => Message::ToolResult(tool_result(message, level)),
            agent::Message::BashExecution(message) => {
                Message::BashExecution(Cow::Borrowed(message))
            }
            agent::Message::Custom(message) => Message::Custom(Cow::Borrowed(message)),
            agent::Message::BranchSummary(message) => {
                Message::BranchSummary(Cow::Borrowed(message))
            }
            agent::Message::CompactionSummary(message) => {
                Message::CompactionSummary(Cow::Borrowed(message))
            }
        }
    }
}

/// A conversation, as its level writes it. Each message exists only while it is written.
pub struct Messages<'a> {
    pub messages: &'a [Arc<agent::Message>],
    pub level: Level,
}

impl Serialize for Messages<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.messages.iter().map(|one| Message::new(one, self.level)))
    }
}

/// An answer of the model, complete or cut short.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AssistantMessage<'a> {
    pub content: Cow<'a, [Block]>,
    pub api: Cow<'a, str>,
    pub provider: Cow<'a, str>,
    pub model: Cow<'a, str>,
    pub usage: Usage,
    /// `stop` while the answer is still streamed, except at level `pi-delta`.
    pub stop_reason: StopReason,
    pub timestamp: UnixMs,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_id: Option<Cow<'a, str>>,
    /// The model that the provider reports, if it differs from the requested one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_model: Option<Cow<'a, str>>,
    /// The provider's own stop reason. At level `pi-delta` only.
    #[schemars(extend("x-levels" = ["pi-delta"]))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw_stop_reason: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_message: Option<Cow<'a, str>>,
    /// What the user can do about the error, in tiller's words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_hint: Option<Cow<'a, str>>,
    /// The requested thinking level. At level `pi-delta` only.
    #[schemars(extend("x-levels" = ["pi-delta"]))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking_level: Option<Cow<'a, str>>,
    /// From the request to the end of the answer. At level `pi-delta` only.
    #[schemars(extend("x-levels" = ["pi-delta"]))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
}

/// The result of a tool call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolResultMessage<'a> {
    pub tool_call_id: Cow<'a, str>,
    pub tool_name: Cow<'a, str>,
    pub content: Cow<'a, [Block]>,
    /// For the client and the session file; the model never sees it.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub details: Option<Cow<'a, Value>>,
    pub is_error: bool,
    /// Tokens that a tool spent on model requests of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    pub timestamp: UnixMs,
    /// How long the tool ran. At level `pi-delta` only, and only if it ran.
    #[schemars(extend("x-levels" = ["pi-delta"]))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
}

/// Tokens and their price. `input` excludes cached tokens, `reasoning` is part of `output`,
/// `cacheWrite1h` part of `cacheWrite`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
    pub cache_write: u64,
    pub total_tokens: u64,
    pub cost: UsageCost,
    #[serde(rename = "cacheWrite1h", skip_serializing_if = "Option::is_none")]
    pub cache_write_1h: Option<u64>,
    /// At level `pi-delta` only, and always there.
    #[schemars(extend("x-levels" = ["pi-delta"], "x-required" = ["pi-delta"]))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<u64>,
}

/// Dollars.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UsageCost {
    #[serde(serialize_with = "plain_number")]
    pub input: f64,
    #[serde(serialize_with = "plain_number")]
    pub output: f64,
    #[serde(serialize_with = "plain_number")]
    pub cache_read: f64,
    #[serde(serialize_with = "plain_number")]
    pub cache_write: f64,
    #[serde(serialize_with = "plain_number")]
    pub total: f64,
    /// The provider reported the total. At level `pi-delta` only, and always there.
    #[schemars(extend("x-levels" = ["pi-delta"], "x-required" = ["pi-delta"]))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_from_provider: Option<bool>,
}

/// A tool call of the model, as a content block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename = "toolCall", rename_all = "camelCase")]
#[schemars(rename = "ToolCallBlock", transform = require_type)]
pub struct ToolCallBlock<'a> {
    pub id: Cow<'a, str>,
    pub name: Cow<'a, str>,
    pub arguments: Cow<'a, Arguments>,
    /// Why the arguments could not be parsed. At level `pi-delta` only.
    #[schemars(extend("x-levels" = ["pi-delta"]))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments_error: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thought_signature: Option<Cow<'a, str>>,
}

/// Adds the `type` that serde writes first; schemars leaves it out.
fn require_type(schema: &mut Schema) {
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        let tag = json!({ "type": "string", "const": "toolCall" });
        properties.shift_insert(0, "type".to_owned(), tag);
    }
    if let Some(Value::Array(required)) = schema.get_mut("required") {
        required.insert(0, json!("type"));
    }
}

/// The assistant message without its content.
pub(crate) fn assistant(message: &agent::AssistantMessage, level: Level) -> AssistantMessage<'_> {
    let newer = level == Level::PiDelta;
    AssistantMessage {
        content: Cow::Borrowed(&[]),
        api: Cow::Borrowed(&message.api),
        provider: Cow::Borrowed(&message.provider),
        model: Cow::Borrowed(&message.model),
        usage: usage(&message.usage, level),
        stop_reason: match message.stop_reason {
            StopReason::Pending if !newer => StopReason::Stop,
            reason => reason,
        },
        timestamp: message.timestamp,
        response_id: text(&message.response_id),
        response_model: text(&message.response_model),
        raw_stop_reason: text(&message.raw_stop_reason).filter(|_| newer),
        error_message: text(&message.error_message),
        error_hint: text(&message.error_hint),
        thinking_level: text(&message.thinking_level).filter(|_| newer),
        duration_ms: message.duration_ms.filter(|_| newer),
    }
}

pub(crate) fn text(text: &Option<String>) -> Option<Cow<'_, str>> {
    text.as_deref().map(Cow::Borrowed)
}

fn tool_result(message: &agent::ToolResultMessage, level: Level) -> ToolResultMessage<'_> {
    ToolResultMessage {
        tool_call_id: Cow::Borrowed(&message.tool_call_id),
        tool_name: Cow::Borrowed(&message.tool_name),
        content: Cow::Borrowed(&message.content),
        details: message.details.as_ref().map(Cow::Borrowed),
        is_error: message.is_error,
        usage: message.usage.as_ref().map(|spent| usage(spent, level)),
        timestamp: message.timestamp,
        duration_ms: message.duration_ms.filter(|_| level == Level::PiDelta),
    }
}

pub(crate) fn usage(usage: &agent::Usage, level: Level) -> Usage {
    let newer = level == Level::PiDelta;
    let cost = &usage.cost;
    Usage {
        input: usage.input,
        output: usage.output,
        cache_read: usage.cache_read,
        cache_write: usage.cache_write,
        total_tokens: usage.total_tokens,
        cost: UsageCost {
            input: cost.input,
            output: cost.output,
            cache_read: cost.cache_read,
            cache_write: cost.cache_write,
            total: cost.total,
            total_from_provider: newer.then_some(cost.total_from_provider),
        },
        cache_write_1h: usage.cache_write_1h,
        reasoning: newer.then(|| usage.reasoning.unwrap_or(0)),
    }
}

/// Only calls with broken arguments differ between levels; they are rare and have no arguments.
fn blocks(blocks: &[Block], level: Level) -> Cow<'_, [Block]> {
    let is_broken =
        |block: &Block| matches!(block, Block::ToolCall(call) if call.arguments_error.is_some());
    if level == Level::PiDelta || !blocks.iter().any(is_broken) {
        return Cow::Borrowed(blocks);
    }
    let mut blocks = blocks.to_vec();
    for block in &mut blocks {
        if let Block::ToolCall(call) = block {
            call.arguments_error = None;
        }
    }
    Cow::Owned(blocks)
}

pub(crate) fn tool_call(call: &ToolCall, level: Level) -> ToolCallBlock<'_> {
    ToolCallBlock {
        id: Cow::Borrowed(&call.id),
        name: Cow::Borrowed(&call.name),
        arguments: Cow::Borrowed(&call.arguments),
        arguments_error: text(&call.arguments_error).filter(|_| level == Level::PiDelta),
        thought_signature: text(&call.thought_signature),
    }
}

/// A block that is complete from the start.
pub(crate) fn whole(block: &Block, level: Level) -> Vec<u8> {
    let text = match block {
        Block::ToolCall(call) => serde_json::to_vec(&tool_call(call, level)),
        other => serde_json::to_vec(other),
    };
    text.expect("a block can be written")
}

/// A stored message as the level writes it; nothing if the text in the file is that already.
/// Unknown fields stay.
pub fn stored(message: &RawValue, level: Level) -> Option<Box<RawValue>> {
    let text = message.get();
    let is_meant = match level {
        Level::PiDelta => text.contains("\"usage\""),
        Level::Pi | Level::Xcsh => NEWER.iter().any(|name| text.contains(name)),
    };
    let mut message: Map<String, Value> =
        is_meant.then(|| serde_json::from_str(text).ok()).flatten()?;
    match level {
        Level::PiDelta => complete_usage(&mut message),
        Level::Pi | Level::Xcsh => leave_out_newer(&mut message),
    }
    serde_json::value::to_raw_value(&message).ok()
}

/// Files leave out fields that are zero or false.
fn complete_usage(message: &mut Map<String, Value>) {
    let Some(Value::Object(usage)) = message.get_mut("usage") else { return };
    usage.entry("reasoning").or_insert_with(|| 0.into());
    if let Some(Value::Object(cost)) = usage.get_mut("cost") {
        cost.entry("totalFromProvider").or_insert_with(|| false.into());
    }
}

fn leave_out_newer(message: &mut Map<String, Value>) {
    for name in ["rawStopReason", "thinkingLevel", "durationMs"] {
        message.shift_remove(name);
    }
    if let Some(Value::Object(usage)) = message.get_mut("usage") {
        usage.shift_remove("reasoning");
        if let Some(Value::Object(cost)) = usage.get_mut("cost") {
            cost.shift_remove("totalFromProvider");
        }
    }
    if let Some(Value::Array(blocks)) = message.get_mut("content") {
        for block in blocks.iter_mut().filter_map(Value::as_object_mut) {
            block.shift_remove("argumentsError");
        }
    }
}

/// The fields that only level `pi-delta` writes, as they are in the text.
const NEWER: [&str; 6] = [
    "\"rawStopReason\"",
    "\"thinkingLevel\"",
    "\"durationMs\"",
    "\"reasoning\"",
    "\"totalFromProvider\"",
    "\"argumentsError\"",
];
