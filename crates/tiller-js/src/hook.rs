//! Hooks: events whose handlers decide something. Each is a type that serializes as the event, with
//! the type of the handlers' combined result. `js/runtime/hooks.js` combines them.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::config::Permissions;
use crate::event::CompactReason;

mod boundary;
mod prompt;
mod provider;
mod session;
mod tools;

pub use boundary::{AgentBeforeSettle, Boundary, MessageEnd, Replacement, RunOutcome, TurnEnd};
pub use prompt::{
    BeforeAgentStart, Input, InputOutcome, InputSource, Operations, PromptChange, UserBash,
    UserBashOutcome,
};
pub use provider::{
    BeforeProviderHeaders, BeforeProviderRequest, Context, ContextWithSystem, Headers, Messages,
    Payload,
};
pub use session::{
    Cancel, Compaction, DiscoveredPaths, ForkPosition, ProjectTrust, ResourcesDiscover,
    SessionBeforeCompact, SessionBeforeFork, SessionBeforeSwitch, SessionBeforeTree, SwitchReason,
    TreeChange, TreeSummary, Trust, Trusted,
};
pub use tools::{ToolCall, ToolResult, ToolResultChange, ToolVerdict};

/// An event whose handlers return a decision.
pub trait Hook: Serialize + Send {
    const NAME: &'static str;
    /// Whether a handler that throws, hangs or cannot be reached blocks the action.
    const FAILS_CLOSED: bool = false;
    /// The handlers' combined result. The default applies if there is no handler.
    type Outcome: DeserializeOwned + Default + Send;

    /// Whether an engine with these permissions may give this answer, after what earlier engines
    /// answered.
    fn check_answer(
        &self,
        _before: Option<&Value>,
        _answer: &Value,
        _permissions: Permissions,
    ) -> Result<(), String> {
        Ok(())
    }
}
