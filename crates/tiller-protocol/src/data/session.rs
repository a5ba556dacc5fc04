//! Sessions: their figures, their list, and changes from one to another.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};
use tiller_agent::message::plain_number;

/// The data of `get_session_stats`. The figures are those of the whole session, abandoned branches
/// included, so that they never shrink.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatsData<'a> {
    /// Absent if the session is only in memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_file: Option<Cow<'a, Path>>,
    pub session_id: Cow<'a, str>,
    pub user_messages: u64,
    pub assistant_messages: u64,
    pub tool_calls: u64,
    pub tool_results: u64,
    /// All messages, whatever their role.
    pub total_messages: u64,
    pub tokens: TokenTotals,
    /// Dollars.
    #[serde(serialize_with = "plain_number")]
    pub cost: f64,
    /// Absent if the size of the model's window is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_usage: Option<ContextUsage>,
    /// Requests that a subscription would count. tiller has none. At level `xcsh` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-levels" = ["xcsh"], "x-required" = ["xcsh"]))]
    pub premium_requests: Option<u64>,
}

/// The tokens of a session.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TokenTotals {
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
    pub cache_write: u64,
    pub total: u64,
}

/// How full the model's window is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContextUsage {
    /// `null` right after a compaction, until an answer has reported it.
    pub tokens: Option<u64>,
    pub context_window: u64,
    #[serde(serialize_with = "plain_number_or_null")]
    pub percent: Option<f64>,
}

fn plain_number_or_null<S: Serializer>(
    value: &Option<f64>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => plain_number(value, serializer),
        None => serializer.serialize_none(),
    }
}

/// The data of `list_sessions`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionsData {
    /// Newest first.
    pub sessions: Vec<SessionSummary>,
    /// The `before` of the next page; `null` on the last one.
    pub next: Option<String>,
}

/// A session in a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionSummary {
    pub id: String,
    pub path: PathBuf,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub cwd: String,
    /// The path of the session that this one continues.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_session: Option<String>,
    /// When it was created, as ISO time.
    pub created: String,
    /// When the file was last modified, as ISO time.
    pub modified: String,
    pub message_count: u64,
    /// The beginning of the first user message.
    pub first_message: String,
}

/// The data of the commands that change to another session or entry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChangeData {
    /// The text of the user message, for a client to edit and send again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// An extension has cancelled the change.
    pub cancelled: bool,
}

/// The data of `export_html`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExportData {
    /// The file that was written.
    pub path: PathBuf,
}
