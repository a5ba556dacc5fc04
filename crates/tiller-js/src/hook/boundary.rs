//! Where a message, a turn or a run ends.

use super::*;

/// A message that is complete, before it is stored.
#[derive(Clone, Debug, Serialize)]
pub struct MessageEnd {
    pub message: Value,
}

impl Hook for MessageEnd {
    const NAME: &'static str = "message_end";
    type Outcome = Replacement;
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Replacement {
    /// Of the same role.
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
    pub outcome: Outcome,
}

/// How a turn or a run ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
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
    pub outcome: Outcome,
}

impl Hook for AgentBeforeSettle {
    const NAME: &'static str = "agent_before_settle";
    type Outcome = Boundary;
}

/// What should be stored here, and whether the run should go on.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Boundary {
    /// Drafts of `custom`, `custom_message`, `context_edit` and `compaction` entries.
    pub entries: Vec<Value>,
    #[serde(rename = "continue")]
    pub goes_on: bool,
    /// They make no sense, and that was reported: nothing of it counts.
    pub is_invalid: bool,
}
