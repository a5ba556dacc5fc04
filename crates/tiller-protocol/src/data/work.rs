//! Queues, shell commands, tools of the client, and the todo list.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tiller_agent::todo::TodoList;

/// The data of `clear_queue`: the texts that were in the queues.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClearedQueuesData {
    pub steering: Vec<String>,
    pub follow_up: Vec<String>,
}

/// The data of `bash`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BashData<'a> {
    /// The end of the output, if it was long.
    pub output: Cow<'a, str>,
    /// Absent if the command was cancelled; 128 plus the signal's number if it was killed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    pub cancelled: bool,
    pub truncated: bool,
    /// A file with the complete output, if `output` is truncated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub full_output_path: Option<Cow<'a, str>>,
    /// The size of the whole output. At level `xcsh` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-levels" = ["xcsh"], "x-required" = ["xcsh"]))]
    pub total_lines: Option<usize>,
    /// At level `xcsh` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-levels" = ["xcsh"], "x-required" = ["xcsh"]))]
    pub total_bytes: Option<usize>,
    /// The size of `output`. At level `xcsh` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-levels" = ["xcsh"], "x-required" = ["xcsh"]))]
    pub output_lines: Option<usize>,
    /// At level `xcsh` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-levels" = ["xcsh"], "x-required" = ["xcsh"]))]
    pub output_bytes: Option<usize>,
}

/// The data of `set_host_tools`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostToolsData {
    /// The tools of the client that are registered now.
    pub tool_names: Vec<String>,
}

/// The data of `set_todos`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TodosData<'a> {
    /// The list with all ids and states filled in.
    pub todo_phases: Cow<'a, TodoList>,
}
