//! Limits on what a prompt may use and what a tool's processes may use.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Limits of a session. A limit that is absent is not enforced.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Limits {
    /// The turns of a prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_turns: Option<u64>,
    /// The tool calls of a prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tool_calls: Option<u64>,
    /// The tokens of a prompt's requests and answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// The price of a prompt in dollars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_cost: Option<f64>,
    /// The seconds that a prompt may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_seconds: Option<f64>,
    /// The memory of each process that a tool starts, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_memory_bytes: Option<u64>,
    /// The seconds that a process which a tool starts may run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_seconds: Option<f64>,
}

/// The limits of a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum LimitName {
    MaxTurns,
    MaxToolCalls,
    MaxTokens,
    MaxCost,
    MaxSeconds,
}

impl Limits {
    /// Checks what the types do not say. The error names the field.
    pub fn check(&self) -> Result<(), String> {
        let numbers = [
            ("maxCost", self.max_cost),
            ("maxSeconds", self.max_seconds),
            ("toolSeconds", self.tool_seconds),
        ];
        for (name, value) in numbers {
            if value.is_some_and(|value| value < 0.0) {
                return Err(format!("field `{name}`: expected a number that is not negative"));
            }
        }
        Ok(())
    }
}
