//! The data of commands that show what a session has and what it supports.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tiller_agent::approvals::ApprovalMode;
use tiller_agent::limits::Limits;
use tiller_agent::sandbox::SandboxSummary;

use crate::{Level, Stream, ToolUpdates};

/// The data of the response to `set_approvals`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalsData {
    /// The mode in force.
    pub mode: ApprovalMode,
}

/// The data of the responses to `set_limits` and `get_limits`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LimitsData {
    pub limits: Limits,
}

/// The data of the response to `get_tools`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolsData<'a> {
    pub tools: Vec<ToolInfo<'a>>,
}

/// A tool that can be offered to the model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolInfo<'a> {
    pub name: Cow<'a, str>,
    pub description: Cow<'a, str>,
    /// A JSON Schema of the arguments.
    #[schemars(with = "Map<String, Value>")]
    pub parameters: Cow<'a, Value>,
    pub source: ToolSource,
    /// The model is offered the tool.
    pub is_active: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ToolSource {
    Builtin,
    Extension,
    /// The client has registered it with `set_host_tools`.
    Host,
    /// A tool of an MCP server, or the search in them.
    Mcp,
}

/// The data of the response to `set_active_tools`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ActiveToolsData {
    /// The names of the tools that the model is offered now, in their order.
    pub tools: Vec<String>,
}

/// The data of the response to `get_settings`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SettingsData<'a> {
    /// The settings in use, in the form of a settings file, with the defaults.
    pub settings: Map<String, Value>,
    /// The settings that were changed for this process, by key.
    pub changed: Map<String, Value>,
    /// The keys that `set_setting` can change.
    pub changeable: Vec<Cow<'a, str>>,
}

/// The data of the response to `set_setting`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SettingData<'a> {
    pub key: Cow<'a, str>,
    /// The value in use now.
    pub value: Value,
}

/// The data of the response to `get_diagnostics`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DiagnosticsData<'a> {
    /// Each is a sentence for people, as on stderr.
    pub diagnostics: Vec<Cow<'a, str>>,
}

/// The data of the response to `hello`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HelloData<'a> {
    /// Always `tiller`.
    pub server: Cow<'a, str>,
    pub version: Cow<'a, str>,
    pub wire: Level,
    pub stream: Stream,
    /// The commands that this version accepts.
    pub commands: Vec<Cow<'a, str>>,
    /// The events that this version writes.
    pub events: Vec<Cow<'a, str>>,
    pub limits: LineLimits,
    /// The problems found so far, as `get_diagnostics` returns them.
    pub diagnostics: Vec<Cow<'a, str>>,
    /// The hash of the JSON Schema of the level. `tiller schema` prints the schema.
    pub schema: Cow<'a, str>,
    /// True if there are `prompt_result` records.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_results: Option<bool>,
    /// If records are numbered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sequence: Option<SequenceInfo<'a>>,
    /// If the length of lines is limited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_frame_bytes: Option<usize>,
    /// If `tool_execution_update` carries deltas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_updates: Option<ToolUpdates>,
    /// The sandbox of the tools. Absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<SandboxSummary>,
}

/// The data of the response to `get_capabilities`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Capabilities<'a> {
    /// Always `tiller`.
    pub server: Cow<'a, str>,
    pub version: Cow<'a, str>,
    pub wire: Level,
    pub stream: Stream,
    /// The commands that this version accepts.
    pub commands: Vec<Cow<'a, str>>,
    /// The events that this version writes.
    pub events: Vec<Cow<'a, str>>,
    pub limits: LineLimits,
    /// The hash of the JSON Schema of the level. `tiller schema` prints the schema.
    pub schema: Cow<'a, str>,
    /// There are `prompt_result` records.
    pub prompt_results: bool,
    /// If records are numbered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sequence: Option<SequenceInfo<'a>>,
    /// If the length of lines is limited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_frame_bytes: Option<usize>,
    pub tool_updates: ToolUpdates,
}

/// The numbers of records. The response carries its own `seq`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SequenceInfo<'a> {
    pub epoch: Cow<'a, str>,
}

/// Limits on the lines of a client.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LineLimits {
    pub line_bytes: usize,
}
