//! From what the user typed to the first request of a run.

use super::*;

/// What somebody said, before skills and templates are looked for in it.
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
    /// As it was said.
    #[default]
    Continue,
    Transform {
        text: String,
        #[serde(default)]
        images: Option<Value>,
    },
    /// An extension has seen to it; no run begins.
    Handled,
}

/// A prompt that is about to become a run.
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
    /// `{customType, content, display, details?}`, to follow the user message in this order.
    #[serde(default)]
    pub messages: Vec<Value>,
    /// Another prompt for this run.
    #[serde(default)]
    pub system_prompt: Option<String>,
    /// The options, where a handler changed them in place.
    #[serde(default)]
    pub system_prompt_options: Option<Value>,
}

/// A shell command of the user's own.
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
    /// `{output, exitCode, cancelled, truncated, fullOutputPath?}`: done already.
    #[serde(default)]
    pub result: Option<Value>,
    /// To be run by [`Extensions::run_operations`](crate::Extensions::run_operations).
    #[serde(default)]
    pub operations: Option<Operations>,
}

/// What an extension has given in place of the shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operations {
    pub(crate) extension: u32,
    key: u64,
}
