//! Hooks between the user's input and the first request of a run.

use super::*;

/// The user's input, before skills and templates are expanded.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Input {
    pub text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub images: Option<Value>,
    pub source: InputSource,
    /// `steer` or `followUp`, while a run is active.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub streaming_behavior: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum InputSource {
    Interactive,
    Rpc,
    Extension,
}

impl Hook for Input {
    const NAME: &'static str = "input";
    type Outcome = InputOutcome;
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(tag = "action", rename_all = "camelCase")]
pub enum InputOutcome {
    /// Unchanged.
    #[default]
    Continue,
    Transform {
        text: String,
        #[serde(default)]
        images: Option<Value>,
    },
    /// An extension has handled it; no run starts.
    Handled,
}

/// A prompt that is about to start a run.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BeforeAgentStart {
    pub prompt: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub images: Option<Value>,
    pub system_prompt: String,
    pub system_prompt_options: Value,
}

impl Hook for BeforeAgentStart {
    const NAME: &'static str = "before_agent_start";
    type Outcome = PromptChange;
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PromptChange {
    /// `{customType, content, display, details?}`, appended after the user message in this order.
    #[serde(default)]
    pub messages: Vec<Value>,
    /// The system prompt for this run.
    #[serde(default)]
    pub system_prompt: Option<String>,
    /// The options, if a handler changed them in place.
    #[serde(default)]
    pub system_prompt_options: Option<Value>,
}

/// A shell command of the user.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UserBash {
    pub command: String,
    pub exclude_from_context: bool,
    pub cwd: String,
}

impl Hook for UserBash {
    const NAME: &'static str = "user_bash";
    const FAILS_CLOSED: bool = true;
    type Outcome = UserBashOutcome;
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UserBashOutcome {
    /// `{output, exitCode, cancelled, truncated, fullOutputPath?}`: the command has already run.
    #[serde(default)]
    pub result: Option<Value>,
    /// Run it with [`Extensions::run_operations`](crate::Extensions::run_operations).
    #[serde(default)]
    pub operations: Option<Operations>,
}

/// Operations an extension provides in place of the shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operations {
    pub(crate) extension: u32,
    key: u64,
}
