//! What `get_state` answers.

use std::borrow::Cow;
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tiller_agent::approvals::ApprovalMode;
use tiller_agent::model::{Model, ThinkingLevel};
use tiller_agent::modes::{InterruptMode, QueueMode};
use tiller_agent::sandbox::SandboxSummary;
use tiller_agent::todo::TodoList;

/// The data of `get_state`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StateData<'a> {
    /// `null` if there is no model; a placeholder at level `pi-delta`.
    #[schemars(extend("x-nullable" = ["pi", "xcsh"]))]
    pub model: Option<Cow<'a, Model>>,
    pub thinking_level: ThinkingLevel,
    /// A run is in progress, or may start at any moment.
    pub is_streaming: bool,
    pub is_compacting: bool,
    pub steering_mode: QueueMode,
    pub follow_up_mode: QueueMode,
    pub interrupt_mode: InterruptMode,
    /// Absent if the session is only in memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_file: Option<Cow<'a, Path>>,
    pub session_id: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_name: Option<Cow<'a, str>>,
    pub auto_compaction_enabled: bool,
    pub message_count: usize,
    /// The number of queued messages.
    pub pending_message_count: usize,
    /// The same number under the name that xcsh uses.
    pub queued_message_count: usize,
    /// Which tool calls need an approval. Absent if none do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approvals: Option<ApprovalMode>,
    /// The sandbox of the tools. Absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<SandboxSummary>,
    /// The todo list. At level `xcsh` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-levels" = ["xcsh"], "x-required" = ["xcsh"]))]
    pub todo_phases: Option<Cow<'a, TodoList>>,
    /// The system prompt of the next request. At level `xcsh` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-levels" = ["xcsh"], "x-required" = ["xcsh"]))]
    pub system_prompt: Option<Cow<'a, str>>,
    /// The tools that the next request offers. At level `xcsh` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-levels" = ["xcsh"], "x-required" = ["xcsh"]))]
    pub dump_tools: Option<Vec<OfferedTool<'a>>>,
}

/// A tool as the model sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OfferedTool<'a> {
    pub name: Cow<'a, str>,
    pub description: Cow<'a, str>,
    /// A JSON Schema of the arguments.
    #[schemars(with = "Map<String, Value>")]
    pub parameters: Cow<'a, Value>,
}
