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
    /// The fields of the boundary that a host knows: `messageEntryId`, `toolResultEntryIds`,
    /// `entries`, `continue`, `context`, `outcome`.
    #[serde(flatten)]
    pub boundary: Value,
}

impl Hook for TurnEnd {
    const NAME: &'static str = "turn_end";
    type Outcome = Boundary;
}

#[derive(Clone, Debug, Serialize)]
pub struct AgentBeforeSettle {
    #[serde(flatten)]
    pub boundary: Value,
}

impl Hook for AgentBeforeSettle {
    const NAME: &'static str = "agent_before_settle";
    type Outcome = Boundary;
}

/// What should be stored here, and whether the run should go on.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Boundary {
    pub entries: Option<Vec<Value>>,
    #[serde(rename = "continue")]
    pub goes_on: Option<bool>,
}
