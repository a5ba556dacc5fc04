//! Messages at each level: newer levels have fields that older ones do not.

use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tiller_agent::message::{
    AssistantMessage, Block, Message, StopReason, ToolCall, ToolResultMessage, UnixMs, Usage,
    UsageCost, plain_number,
};

use crate::Level;

/// A message for a client of the given level.
pub struct Shaped<'a> {
    pub message: &'a Message,
    pub level: Level,
}

impl Shaped<'_> {
    pub fn to_json(&self) -> Box<RawValue> {
        serde_json::value::to_raw_value(self).expect("a message can be written")
    }
}

impl Serialize for Shaped<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.message {
            Message::Assistant(message) => {
                let content = ShapedBlocks { blocks: &message.content, level: self.level };
                assistant(message, self.level, content).serialize(serializer)
            }
            Message::ToolResult(message) => tool_result(message, self.level).serialize(serializer),
            other => other.serialize(serializer),
        }
    }
}

/// The assistant message, in the field order that clients expect. `content` is separate so that a
/// snapshot can put its own text there.
pub(crate) fn assistant<'a, C>(
    message: &'a AssistantMessage,
    level: Level,
    content: C,
) -> Assistant<'a, C> {
    let newer = level == Level::PiDelta;
    Assistant {
        role: "assistant",
        content,
        api: &message.api,
        provider: &message.provider,
        model: &message.model,
        usage: usage(&message.usage, level),
        stop_reason: match message.stop_reason {
            StopReason::Pending if !newer => StopReason::Stop,
            reason => reason,
        },
        timestamp: message.timestamp,
        response_id: message.response_id.as_deref(),
        response_model: message.response_model.as_deref(),
        raw_stop_reason: message.raw_stop_reason.as_deref().filter(|_| newer),
        error_message: message.error_message.as_deref(),
        error_hint: message.error_hint.as_deref(),
        thinking_level: message.thinking_level.as_deref().filter(|_| newer),
        duration_ms: message.duration_ms.filter(|_| newer),
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Assistant<'a, C> {
    role: &'static str,
    content: C,
    api: &'a str,
    provider: &'a str,
    model: &'a str,
    usage: ShapedUsage<'a>,
    stop_reason: StopReason,
    timestamp: UnixMs,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_model: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    raw_stop_reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_message: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_hint: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_level: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_ms: Option<u64>,
}

fn tool_result(message: &ToolResultMessage, level: Level) -> ToolResult<'_> {
    ToolResult {
        role: "toolResult",
        tool_call_id: &message.tool_call_id,
        tool_name: &message.tool_name,
        content: &message.content,
        details: message.details.as_ref(),
        is_error: message.is_error,
        usage: message.usage.as_ref().map(|spent| usage(spent, level)),
        timestamp: message.timestamp,
        duration_ms: message.duration_ms.filter(|_| level == Level::PiDelta),
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolResult<'a> {
    role: &'static str,
    tool_call_id: &'a str,
    tool_name: &'a str,
    content: &'a [Block],
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<&'a Value>,
    is_error: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<ShapedUsage<'a>>,
    timestamp: UnixMs,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_ms: Option<u64>,
}

pub(crate) fn usage(usage: &Usage, level: Level) -> ShapedUsage<'_> {
    let newer = level == Level::PiDelta;
    ShapedUsage {
        input: usage.input,
        output: usage.output,
        cache_read: usage.cache_read,
        cache_write: usage.cache_write,
        total_tokens: usage.total_tokens,
        cost: ShapedCost {
            cost: &usage.cost,
            total_from_provider: newer.then_some(usage.cost.total_from_provider),
        },
        cache_write_1h: usage.cache_write_1h,
        reasoning: newer.then(|| usage.reasoning.unwrap_or(0)),
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ShapedUsage<'a> {
    input: u64,
    output: u64,
    cache_read: u64,
    cache_write: u64,
    total_tokens: u64,
    cost: ShapedCost<'a>,
    #[serde(rename = "cacheWrite1h", skip_serializing_if = "Option::is_none")]
    cache_write_1h: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<u64>,
}

struct ShapedCost<'a> {
    cost: &'a UsageCost,
    total_from_provider: Option<bool>,
}

impl Serialize for ShapedCost<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Shape {
            #[serde(serialize_with = "plain_number")]
            input: f64,
            #[serde(serialize_with = "plain_number")]
            output: f64,
            #[serde(serialize_with = "plain_number")]
            cache_read: f64,
            #[serde(serialize_with = "plain_number")]
            cache_write: f64,
            #[serde(serialize_with = "plain_number")]
            total: f64,
            #[serde(skip_serializing_if = "Option::is_none")]
            total_from_provider: Option<bool>,
        }
        let UsageCost { input, output, cache_read, cache_write, total, .. } = *self.cost;
        let total_from_provider = self.total_from_provider;
        Shape { input, output, cache_read, cache_write, total, total_from_provider }
            .serialize(serializer)
    }
}

/// The blocks of the assistant message.
struct ShapedBlocks<'a> {
    blocks: &'a [Block],
    level: Level,
}

impl Serialize for ShapedBlocks<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.blocks.iter().map(|block| ShapedBlock(block, self.level)))
    }
}

struct ShapedBlock<'a>(&'a Block, Level);

impl Serialize for ShapedBlock<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            ShapedBlock(Block::ToolCall(call), level) => {
                tool_call(call, *level).serialize(serializer)
            }
            ShapedBlock(block, _) => block.serialize(serializer),
        }
    }
}

pub(crate) fn tool_call(call: &ToolCall, level: Level) -> ShapedCall<'_> {
    ShapedCall {
        kind: "toolCall",
        id: &call.id,
        name: &call.name,
        arguments: &call.arguments,
        arguments_error: call.arguments_error.as_deref().filter(|_| level == Level::PiDelta),
        thought_signature: call.thought_signature.as_deref(),
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ShapedCall<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    id: &'a str,
    name: &'a str,
    arguments: &'a Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    arguments_error: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thought_signature: Option<&'a str>,
}

/// A block that is complete from the start.
pub(crate) fn whole(block: &Block, level: Level) -> Vec<u8> {
    serde_json::to_vec(&ShapedBlock(block, level)).expect("a block can be written")
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
