//! Messages as a level writes them: newer levels name things that older ones never knew.

use serde::{Serialize, Serializer};
use tiller_agent::message::{
    AssistantMessage, Block, Message, StopReason, UnixMs, Usage, UsageCost,
};

use super::Level;

/// A message on its way to a client of the given level.
pub(crate) struct Shaped<'a> {
    pub(crate) message: &'a Message,
    pub(crate) level: Level,
}

impl Serialize for Shaped<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.message {
            Message::Assistant(message) => {
                assistant(message, self.level, &message.content).serialize(serializer)
            }
            other => other.serialize(serializer),
        }
    }
}

/// The model's message in the order clients know. `content` stands apart so that a snapshot can
/// put its own text there.
pub(super) fn assistant<'a, C>(
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
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Assistant<'a, C> {
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
}

pub(super) fn usage(usage: &Usage, level: Level) -> ShapedUsage<'_> {
    ShapedUsage {
        input: usage.input,
        output: usage.output,
        cache_read: usage.cache_read,
        cache_write: usage.cache_write,
        total_tokens: usage.total_tokens,
        cost: &usage.cost,
        cache_write_1h: usage.cache_write_1h,
        reasoning: usage.reasoning.filter(|_| level == Level::PiDelta),
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ShapedUsage<'a> {
    input: u64,
    output: u64,
    cache_read: u64,
    cache_write: u64,
    total_tokens: u64,
    cost: &'a UsageCost,
    #[serde(rename = "cacheWrite1h", skip_serializing_if = "Option::is_none")]
    cache_write_1h: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<u64>,
}

/// A block that is complete from the start.
pub(super) fn whole(block: &Block) -> Vec<u8> {
    serde_json::to_vec(block).expect("a block can be written")
}
