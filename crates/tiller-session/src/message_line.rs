//! Parses the message in an entry's line.
//!
//! The kind of the entry is known, so the message is parsed as that kind directly. Files of other
//! programs may contain unknown blocks and values; then the known parts are used.

use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;
use serde_json::value::RawValue;
use tiller_agent::message::{
    AssistantMessage, BashExecution, Block, BranchSummary, CompactionSummary, Content,
    CustomMessage, Message, ToolResultMessage, UnixMs, UserMessage,
};

use crate::entry;
use crate::head::Kind;
use crate::time;
use crate::xcsh::FromXcsh;

/// The message that an entry of this kind adds to the context, or the reason why it cannot be read.
/// Images may still be addresses: see [`Session::message`](crate::Session).
pub(crate) fn message(kind: Kind, line: &str) -> Result<Message, String> {
    Ok(match kind {
        Kind::User => Message::User(inner::<UserMessage>(line)?),
        Kind::Assistant => Message::Assistant(inner::<AssistantMessage>(line)?),
        Kind::ToolResult => Message::ToolResult(inner::<ToolResultMessage>(line)?),
        Kind::BashExecution => Message::BashExecution(inner::<BashExecution>(line)?),
        Kind::CustomRole => Message::Custom(inner::<CustomMessage>(line)?),
        Kind::XcshRole => inner::<FromXcsh>(line)?.into_message(),
        Kind::CustomMessage => {
            let custom = entry::custom_message(line, &timestamp(line));
            Message::Custom(custom.ok_or("not a custom message")?)
        }
        Kind::Compaction => {
            let compaction: entry::Compaction = read(line)?;
            Message::CompactionSummary(CompactionSummary {
                summary: compaction.summary,
                tokens_before: compaction.tokens_before,
                timestamp: time(line),
            })
        }
        Kind::BranchSummary => {
            let branch: entry::BranchSummary = read(line)?;
            Message::BranchSummary(BranchSummary {
                summary: branch.summary,
                from_id: branch.from_id,
                timestamp: time(line),
            })
        }
        _ => return Err("not a message".to_owned()),
    })
}

/// The text of a user message.
pub(crate) fn user_text(line: &str) -> Option<String> {
    inner::<UserMessage>(line).ok().map(|user| user.content.text())
}

/// Replaces a message's content, as a context edit asks.
pub(crate) fn replace_content(message: &mut Message, content: Content) {
    let blocks = |content| match content {
        Content::Text(text) => vec![Block::text(text)],
        Content::Blocks(blocks) => blocks,
    };
    match message {
        Message::User(user) => user.content = content,
        Message::Custom(custom) => custom.content = content,
        Message::Assistant(assistant) => assistant.content = blocks(content),
        Message::ToolResult(result) => result.content = blocks(content),
        Message::BashExecution(bash) => bash.output = content.text(),
        Message::BranchSummary(branch) => branch.summary = content.text(),
        Message::CompactionSummary(compaction) => compaction.summary = content.text(),
    }
}

/// The raw message inside a `message` entry.
pub(crate) fn raw_inner(line: &str) -> Result<&RawValue, String> {
    #[derive(Deserialize)]
    struct Of<'a> {
        #[serde(borrow)]
        message: &'a RawValue,
    }
    serde_json::from_str::<Of<'_>>(line).map(|of| of.message).map_err(|err| err.to_string())
}

fn inner<T: DeserializeOwned>(line: &str) -> Result<T, String> {
    #[derive(Deserialize)]
    struct Of<T> {
        message: T,
    }
    match serde_json::from_str::<Of<T>>(line) {
        Ok(of) => Ok(of.message),
        Err(err) => parse_known_parts(line).ok_or_else(|| err.to_string()),
    }
}

/// Newer programs have more kinds of blocks, and older ones counted tokens in fractions. Drops what
/// is unknown and parses the rest of the message.
fn parse_known_parts<T: DeserializeOwned>(line: &str) -> Option<T> {
    let mut message: Value = serde_json::from_str(raw_inner(line).ok()?.get()).ok()?;
    if let Some(blocks) = message.get_mut("content").and_then(Value::as_array_mut) {
        blocks.retain(|block| Block::deserialize(block).is_ok());
    }
    if let Some(usage) = message.get_mut("usage").and_then(Value::as_object_mut) {
        for count in usage.values_mut().filter(|count| count.is_f64()) {
            *count = Value::from(count.as_f64().unwrap_or(0.0) as u64);
        }
    }
    serde_json::from_value(message).ok()
}

/// Whether a line is valid JSON. Opening a session does not parse lines completely, so this is
/// checked before a line is passed on unchanged.
pub(crate) fn check_json(line: &str) -> Result<(), String> {
    read::<IgnoredAny>(line).map(|_| ())
}

/// The time of an entry in milliseconds, or 0 if it has none.
pub(crate) fn time(line: &str) -> UnixMs {
    time::read_iso(&timestamp(line)).unwrap_or(0)
}

/// The raw timestamp of an entry.
pub(crate) fn timestamp(line: &str) -> String {
    #[derive(Deserialize)]
    struct Of {
        #[serde(default)]
        timestamp: String,
    }
    read::<Of>(line).map(|of| of.timestamp).unwrap_or_default()
}

fn read<T: DeserializeOwned>(line: &str) -> Result<T, String> {
    serde_json::from_str(line).map_err(|err| err.to_string())
}
