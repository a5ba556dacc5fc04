//! What became of a prompt.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::limits::LimitName;
use crate::message::Usage;

/// What became of a message that the client has sent, and what it has used.
#[derive(Clone, Debug)]
pub struct PromptResult {
    /// As in the client's command.
    pub id: Option<Box<RawValue>>,
    pub client_message_id: Option<String>,
    pub command: &'static str,
    pub status: PromptStatus,
    pub reason: Option<PromptReason>,
    pub runs: u64,
    pub turns: u64,
    pub messages: u64,
    pub usage: Usage,
    pub duration_ms: u64,
    pub error: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PromptStatus {
    /// The model has finished.
    Done,
    /// The last answer failed, or a message could not be stored.
    Error,
    /// The run was stopped.
    Aborted,
    /// An extension has dealt with the message. No run followed.
    Handled,
    /// The message was queued and never sent.
    Dropped,
    /// A limit has ended the run.
    Limit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum PromptReason {
    /// Aborted by the client, an extension or a rule.
    Abort,
    /// Another session was opened.
    SessionChanged,
    /// The process ends.
    Shutdown,
    /// Dropped by `clear_queue`.
    Cleared,
    /// Dropped by `remove_queued`.
    Removed,
    #[serde(untagged)]
    Limit(LimitName),
}
