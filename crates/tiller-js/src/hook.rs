//! Questions that decide something. Each is a type that serializes as the event its handlers
//! receive, with the type of what they can answer; how several handlers' answers become one is
//! in `js/runtime/hooks.js`, in one place.

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

/// A question extensions can answer.
pub trait Hook: Serialize + Send {
    const NAME: &'static str;
    /// Whether a handler that throws, loops or cannot be reached decides against what was asked.
    const FAILS_CLOSED: bool = false;
    /// What the handlers decided together. The default is what holds when there is none.
    type Outcome: DeserializeOwned + Default + Send;

    /// Whether an engine with these permissions may answer so, after what was answered before it.
    fn check_answer(
        &self,
        _before: Option<&Value>,
        _answer: &Value,
        _permissions: Permissions,
    ) -> Result<(), String> {
        Ok(())
    }
}
