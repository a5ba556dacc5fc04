//! Hooks before and after a tool runs.

use super::*;
use crate::access::{self, Access, Denied};

/// A tool call with valid arguments, before the tool runs.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolCall {
    pub tool_call_id: String,
    pub tool_name: String,
    pub input: Value,
}

impl Hook for ToolCall {
    const NAME: &'static str = "tool_call";
    const FAILS_CLOSED: bool = true;
    type Outcome = ToolVerdict;

    /// Changed arguments need the permissions of the tool.
    fn check_answer(
        &self,
        before: Option<&Value>,
        answer: &Value,
        permissions: Permissions,
    ) -> Result<(), String> {
        let before = before.map(|before| &before["input"]).filter(|input| !input.is_null());
        let is_same =
            answer["input"].is_null() || answer["input"] == *before.unwrap_or(&self.input);
        match access::check(permissions, Access::ToolCall(&self.tool_name)) {
            Err(Denied { lacking }) if !is_same => Err(format!(
                "an extension changed the arguments of {} and has no permission for {lacking}",
                self.tool_name
            )),
            _ => Ok(()),
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolVerdict {
    /// Why the tool must not run: the text of the error result.
    #[serde(default)]
    pub block: Option<String>,
    /// Whether a blocked call ends the run, if every result of the batch says so.
    #[serde(default)]
    pub terminate: bool,
    /// The arguments, if a handler changed them.
    #[serde(default)]
    pub input: Option<Value>,
}

/// A tool's result, before it is stored or shown.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolResult {
    pub tool_call_id: String,
    pub tool_name: String,
    pub input: Value,
    pub content: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
    pub is_error: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Value>,
}

impl Hook for ToolResult {
    const NAME: &'static str = "tool_result";
    type Outcome = ToolResultChange;
}

/// The fields that handlers changed.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolResultChange {
    #[serde(default)]
    pub content: Option<Value>,
    #[serde(default)]
    pub details: Option<Value>,
    #[serde(default)]
    pub is_error: Option<bool>,
    #[serde(default)]
    pub usage: Option<Value>,
}
