//! The messages of a conversation, as they are on the wire and on disk.
//!
//! These formats are promises. Clients read them in events and other programs read them in session
//! files, so a change here is also a change of `docs/protocol.md` and `docs/session-format.md`.

mod model_text;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

/// The arguments of a tool call, in the order the model wrote them.
pub type Arguments = Map<String, Value>;

/// Milliseconds since 1970, as every timestamp inside a message.
pub type UnixMs = u64;

/// One message of the conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "role", rename_all = "camelCase")]
pub enum Message {
    User(UserMessage),
    Assistant(AssistantMessage),
    ToolResult(ToolResultMessage),
    /// A command that the client ran itself, shown to the model with the next prompt.
    BashExecution(BashExecution),
    /// Added by an extension or by tiller itself.
    Custom(CustomMessage),
    /// Summarises an abandoned branch.
    BranchSummary(BranchSummary),
    /// Replaces everything that a compaction removed.
    CompactionSummary(CompactionSummary),
}

impl Message {
    /// A user message. Clients expect a text block first, so there is one even if it is empty and
    /// only images follow.
    pub fn user(text: impl Into<String>, images: Vec<Block>, timestamp: UnixMs) -> Message {
        let blocks = std::iter::once(Block::text(text)).chain(images).collect();
        Message::User(UserMessage { content: Content::Blocks(blocks), timestamp })
    }

    pub fn as_assistant(&self) -> Option<&AssistantMessage> {
        match self {
            Message::Assistant(message) => Some(message),
            _ => None,
        }
    }

    pub fn timestamp(&self) -> UnixMs {
        match self {
            Message::User(m) => m.timestamp,
            Message::Assistant(m) => m.timestamp,
            Message::ToolResult(m) => m.timestamp,
            Message::BashExecution(m) => m.timestamp,
            Message::Custom(m) => m.timestamp,
            Message::BranchSummary(m) => m.timestamp,
            Message::CompactionSummary(m) => m.timestamp,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UserMessage {
    pub content: Content,
    pub timestamp: UnixMs,
}

/// A plain string, or blocks. tiller writes blocks; old files contain strings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Content {
    Text(String),
    Blocks(Vec<Block>),
}

impl Content {
    /// The text of all text blocks.
    pub fn text(&self) -> String {
        match self {
            Content::Text(text) => text.clone(),
            Content::Blocks(blocks) => text_of(blocks),
        }
    }
}

/// The text of all text blocks, concatenated without a separator.
pub fn text_of(blocks: &[Block]) -> String {
    let texts = blocks.iter().filter_map(|block| match block {
        Block::Text { text, .. } => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

/// A content block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Block {
    Text {
        text: String,
        /// Opaque; some providers want it back with the text.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text_signature: Option<String>,
    },
    /// Base64 data.
    Image {
        data: String,
        mime_type: String,
    },
    Thinking {
        thinking: String,
        /// Proves that the thinking is the model's own; sent back to the same model only.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        thinking_signature: Option<String>,
        /// The provider hid the text; only the signature carries meaning.
        #[serde(default, skip_serializing_if = "is_false")]
        redacted: bool,
    },
    ToolCall(ToolCall),
}

impl Block {
    pub fn text(text: impl Into<String>) -> Block {
        Block::Text { text: text.into(), text_signature: None }
    }

    pub fn image(data: impl Into<String>, mime_type: impl Into<String>) -> Block {
        Block::Image { data: data.into(), mime_type: mime_type.into() }
    }
}

/// A tool call of the model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolCall {
    pub id: String,
    pub name: String,
    pub arguments: Arguments,
    /// Why the arguments could not be parsed; `arguments` is empty then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments_error: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thought_signature: Option<String>,
}

/// An answer of the model, complete or cut short.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AssistantMessage {
    pub content: Vec<Block>,
    pub api: String,
    pub provider: String,
    pub model: String,
    pub usage: Usage,
    pub stop_reason: StopReason,
    pub timestamp: UnixMs,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_id: Option<String>,
    /// The model that the provider reports, if it differs from the requested one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_model: Option<String>,
    /// The provider's own stop reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw_stop_reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
    /// What the user can do about the error, in tiller's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_hint: Option<String>,
    /// The requested thinking level.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking_level: Option<String>,
    /// From the request to the end of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
}

impl AssistantMessage {
    pub fn tool_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.content.iter().filter_map(|block| match block {
            Block::ToolCall(call) => Some(call),
            _ => None,
        })
    }

    /// Ended by an error or an abort, so it is never sent to the model again.
    pub fn failed(&self) -> bool {
        matches!(self.stop_reason, StopReason::Error | StopReason::Aborted)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum StopReason {
    Stop,
    /// The output limit was reached.
    Length,
    ToolUse,
    Error,
    Aborted,
    /// Still streaming; only in snapshots, and only at some wire levels.
    #[default]
    Pending,
    /// Written by newer versions of pi; read, never written.
    Deferred,
}

/// Tokens and their price. `input` excludes cached tokens, `reasoning` is part of `output`,
/// `cache_write_1h` part of `cache_write`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Usage {
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
    pub cache_write: u64,
    pub total_tokens: u64,
    pub cost: UsageCost,
    #[serde(rename = "cacheWrite1h", skip_serializing_if = "Option::is_none")]
    pub cache_write_1h: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<u64>,
}

impl Usage {
    /// Adds the tokens of another answer.
    pub fn add(&mut self, other: &Usage) {
        self.input += other.input;
        self.output += other.output;
        self.cache_read += other.cache_read;
        self.cache_write += other.cache_write;
        self.total_tokens += other.total_tokens;
        let sum = |a: Option<u64>, b: Option<u64>| a.map_or(b, |a| Some(a + b.unwrap_or(0)));
        self.cache_write_1h = sum(self.cache_write_1h, other.cache_write_1h);
        self.reasoning = sum(self.reasoning, other.reasoning);
        self.cost.input += other.cost.input;
        self.cost.output += other.cost.output;
        self.cost.cache_read += other.cost.cache_read;
        self.cost.cache_write += other.cost.cache_write;
        self.cost.total += other.cost.total;
        self.cost.total_from_provider &= other.cost.total_from_provider;
    }
}

/// Dollars.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
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
    /// The provider reported the total; otherwise it is computed from the price list.
    #[serde(skip_serializing_if = "is_false")]
    pub total_from_provider: bool,
}

/// A malformed `usage` of an extension's tool must not make its result unreadable.
fn if_readable<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Usage>, D::Error> {
    let value = Value::deserialize(deserializer)?;
    Ok(Usage::deserialize(value).ok())
}

/// The result of a tool call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolResultMessage {
    pub tool_call_id: String,
    pub tool_name: String,
    pub content: Vec<Block>,
    /// For the client and the session file; the model never sees it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
    pub is_error: bool,
    /// Tokens that a tool spent on model requests of its own.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "if_readable")]
    pub usage: Option<Usage>,
    pub timestamp: UnixMs,
    /// How long the tool ran; absent if it did not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BashExecution {
    pub command: String,
    pub output: String,
    /// Absent if the command was cancelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    pub cancelled: bool,
    pub truncated: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full_output_path: Option<String>,
    pub timestamp: UnixMs,
    #[serde(default, skip_serializing_if = "is_false")]
    pub exclude_from_context: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CustomMessage {
    pub custom_type: String,
    pub content: Content,
    pub display: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
    pub timestamp: UnixMs,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BranchSummary {
    pub summary: String,
    pub from_id: String,
    pub timestamp: UnixMs,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CompactionSummary {
    pub summary: String,
    pub tokens_before: u64,
    pub timestamp: UnixMs,
}

fn is_false(value: &bool) -> bool {
    !value
}

/// Writes `3`, not `3.0`, for a whole number, as JavaScript does: some clients compare text with
/// what pi wrote.
pub fn plain_number<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    const EXACT: f64 = (1u64 << 53) as f64;
    if value.fract() == 0.0 && value.abs() < EXACT {
        serializer.serialize_i64(*value as i64)
    } else {
        serializer.serialize_f64(*value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_fields_are_in_pis_order() {
        let message = Message::Assistant(AssistantMessage {
            content: vec![Block::text("hi")],
            api: "a".into(),
            provider: "p".into(),
            model: "m".into(),
            usage: Usage { input: 3, cache_write_1h: Some(0), ..Usage::default() },
            stop_reason: StopReason::ToolUse,
            timestamp: 7,
            response_id: Some("r".into()),
            ..AssistantMessage::default()
        });
        let text = serde_json::to_string(&message).unwrap();
        assert_eq!(
            text,
            r#"{"role":"assistant","content":[{"type":"text","text":"hi"}],"api":"a","provider":"p","model":"m","usage":{"input":3,"output":0,"cacheRead":0,"cacheWrite":0,"totalTokens":0,"cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0},"cacheWrite1h":0},"stopReason":"toolUse","timestamp":7,"responseId":"r"}"#
        );
        assert_eq!(serde_json::from_str::<Message>(&text).unwrap(), message);
    }

    #[test]
    fn string_content_of_old_files_is_read() {
        let message: Message =
            serde_json::from_str(r#"{"role":"user","content":"hello","timestamp":1}"#).unwrap();
        assert!(matches!(message, Message::User(user) if user.content.text() == "hello"));
    }
}
