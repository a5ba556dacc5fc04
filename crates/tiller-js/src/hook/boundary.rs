//! Hooks at the end of a message, a turn or a run.

use super::*;
use crate::access::{self, Access, Denied};

/// A complete message, before it is stored.
#[derive(Clone, Debug, Serialize)]
pub struct MessageEnd {
    pub message: Value,
}

impl Hook for MessageEnd {
    const NAME: &'static str = "message_end";
    type Outcome = Replacement;

    /// Tool calls of an answer are run, so a replacement must not change them without the
    /// permissions for them.
    fn check_answer(
        &self,
        before: Option<&Value>,
        answer: &Value,
        permissions: Permissions,
    ) -> Result<(), String> {
        let before = before.map(|before| &before["message"]).filter(|message| !message.is_null());
        let known: Vec<&Value> = calls(before.unwrap_or(&self.message)).collect();
        for call in calls(&answer["message"]).filter(|call| !known.contains(call)) {
            let name = call["name"].as_str().unwrap_or_default();
            if let Err(Denied { lacking }) = access::check(permissions, Access::ToolCall(name)) {
                return Err(format!(
                    "an extension added a call of {name} and has no permission for {lacking}"
                ));
            }
        }
        Ok(())
    }
}

fn calls(message: &Value) -> impl Iterator<Item = &Value> {
    let blocks = message["content"].as_array().into_iter().flatten();
    blocks.filter(|block| block["type"] == "toolCall")
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Replacement {
    /// The replacement, of the same role.
    pub message: Option<Value>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnEnd {
    pub turn_index: u64,
    pub message: Value,
    pub tool_results: Vec<Value>,
    pub message_entry_id: Option<String>,
    pub tool_result_entry_ids: Vec<String>,
    pub outcome: RunOutcome,
}

/// How a turn or a run ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RunOutcome {
    #[default]
    Completed,
    Aborted,
    Error,
}

impl Hook for TurnEnd {
    const NAME: &'static str = "turn_end";
    type Outcome = Boundary;
}

#[derive(Clone, Debug, Serialize)]
pub struct AgentBeforeSettle {
    pub outcome: RunOutcome,
}

impl Hook for AgentBeforeSettle {
    const NAME: &'static str = "agent_before_settle";
    type Outcome = Boundary;
}

/// Entries to store, and whether the run continues.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Boundary {
    /// Drafts of `custom`, `custom_message`, `context_edit` and `compaction` entries.
    pub entries: Vec<Value>,
    #[serde(rename = "continue")]
    pub continues: bool,
    /// The result was invalid and has been reported; it is ignored.
    pub is_invalid: bool,
}
