//! Events that extensions listen to. Emitting one does not wait for the handlers; events that
//! decide something are in `hook.rs`.

use serde::Serialize;
use serde_json::Value;

/// An event. Serializes as the object a handler receives; messages, entries and models have the
/// shape they have on the wire.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum Event {
    SessionStart {
        reason: StartReason,
        #[serde(skip_serializing_if = "Option::is_none")]
        previous_session_file: Option<String>,
    },
    SessionInfoChanged {
        #[serde(skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
    SessionCompact {
        compaction_entry: Value,
        from_extension: bool,
        reason: CompactReason,
        will_retry: bool,
    },
    SessionCompactFailed {
        reason: CompactReason,
        #[serde(skip_serializing_if = "Option::is_none")]
        error_message: Option<String>,
        aborted: bool,
        will_retry: bool,
        from_extension: bool,
    },
    SessionTree {
        new_leaf_id: Option<String>,
        old_leaf_id: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        summary_entry: Option<Value>,
        #[serde(skip_serializing_if = "Option::is_none")]
        from_extension: Option<bool>,
    },
    SessionShutdown {
        reason: ShutdownReason,
        #[serde(skip_serializing_if = "Option::is_none")]
        target_session_file: Option<String>,
    },
    AgentStart,
    AgentEnd {
        messages: Vec<Value>,
    },
    AgentSettled {
        aborted: bool,
    },
    TurnStart {
        turn_index: u64,
        timestamp: u64,
    },
    MessageStart {
        message: Value,
    },
    /// The assistant message grew. Carries only the change: the engine assembles the message.
    MessageUpdate {
        /// The message as it began, sent with its first update.
        #[serde(skip_serializing_if = "Option::is_none")]
        begins: Option<Value>,
        step: Value,
    },
    ToolExecutionStart {
        tool_call_id: String,
        tool_name: String,
        args: Value,
    },
    ToolExecutionUpdate {
        tool_call_id: String,
        tool_name: String,
        args: Value,
        partial_result: Value,
    },
    ToolExecutionEnd {
        tool_call_id: String,
        tool_name: String,
        result: Value,
        is_error: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        duration_ms: Option<u64>,
    },
    AfterProviderResponse {
        status: u16,
        headers: Value,
    },
    ModelSelect {
        model: Value,
        previous_model: Option<Value>,
        source: ModelSource,
    },
    ThinkingLevelSelect {
        level: String,
        previous_level: String,
    },
}

impl Event {
    /// The event's name.
    pub fn name(&self) -> &'static str {
        match self {
            Event::SessionStart { .. } => "session_start",
            Event::SessionInfoChanged { .. } => "session_info_changed",
            Event::SessionCompact { .. } => "session_compact",
            Event::SessionCompactFailed { .. } => "session_compact_failed",
            Event::SessionTree { .. } => "session_tree",
            Event::SessionShutdown { .. } => "session_shutdown",
            Event::AgentStart => "agent_start",
            Event::AgentEnd { .. } => "agent_end",
            Event::AgentSettled { .. } => "agent_settled",
            Event::TurnStart { .. } => "turn_start",
            Event::MessageStart { .. } => "message_start",
            Event::MessageUpdate { .. } => "message_update",
            Event::ToolExecutionStart { .. } => "tool_execution_start",
            Event::ToolExecutionUpdate { .. } => "tool_execution_update",
            Event::ToolExecutionEnd { .. } => "tool_execution_end",
            Event::AfterProviderResponse { .. } => "after_provider_response",
            Event::ModelSelect { .. } => "model_select",
            Event::ThinkingLevelSelect { .. } => "thinking_level_select",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum StartReason {
    Startup,
    Reload,
    New,
    Resume,
    Fork,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ShutdownReason {
    Quit,
    Reload,
    New,
    Resume,
    Fork,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CompactReason {
    Manual,
    Threshold,
    Overflow,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ModelSource {
    Set,
    Cycle,
    Restore,
}

/// The events an extension can listen to; the index is the event's bit in a set of listeners. Other
/// names are accepted and never fire.
pub(crate) const NAMES: &[&str] = &[
    "session_start",
    "session_info_changed",
    "session_compact",
    "session_compact_failed",
    "session_tree",
    "session_shutdown",
    "agent_start",
    "agent_end",
    "agent_settled",
    "turn_start",
    "message_start",
    "message_update",
    "tool_execution_start",
    "tool_execution_update",
    "tool_execution_end",
    "after_provider_response",
    "model_select",
    "thinking_level_select",
    "ui_prompt_start",
    "ui_prompt_end",
    "project_trust",
    "resources_discover",
    "session_before_switch",
    "session_before_fork",
    "session_before_compact",
    "session_before_tree",
    "input",
    "before_agent_start",
    "user_bash",
    "message_end",
    "tool_call",
    "tool_result",
    "turn_end",
    "agent_before_settle",
    "context",
    "context_with_system",
    "before_provider_request",
    "before_provider_headers",
];

const _: () = assert!(NAMES.len() <= 64, "a set of listeners has 64 bits");

/// The event's bit in a set of listeners.
pub(crate) fn bit(name: &str) -> u64 {
    let index = NAMES.iter().position(|known| *known == name);
    index.map_or(0, |index| 1 << index)
}
