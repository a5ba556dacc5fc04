//! All commands of a client, and their names and fields.

use std::path::PathBuf;

use serde::Deserialize;
use serde_json::Value;
use tiller_agent::message::Block;
use tiller_agent::model::ThinkingLevel;
use tiller_agent::modes::{InterruptMode, QueueMode};
use tiller_agent::todo::DraftPhase;
use tiller_agent::tool::{ToolOutput, ToolResult};

use crate::fields::{
    Bash, Compact, Enabled, EntryId, ExportHtml, ModeField, Name, NewSession, Prompt, SetLabel,
    SetModel, SetThinkingLevel, Since, SwitchSession, TextAndImages, UiResponse, body,
    text_and_images,
};
use crate::host_tools::{self, HostTool};
use crate::request::Refusal;
use crate::todos::SetTodos;
use crate::{Level, Stream};

/// All commands.
#[derive(Debug, PartialEq)]
pub enum Command {
    /// Send the agent a user message. Answered at once; the run follows as events.
    Prompt {
        message: String,
        images: Vec<Block>,
        when_busy: WhenBusy,
    },
    /// Send a message as soon as the tools of the current turn are done.
    Steer {
        message: String,
        images: Vec<Block>,
    },
    /// Send a message when the run would otherwise end.
    FollowUp {
        message: String,
        images: Vec<Block>,
    },
    /// Stop the current run. Answered when it has closed; not an error when there is none.
    Abort,
    /// Stop the current run and start with this message instead.
    AbortAndPrompt {
        message: String,
        images: Vec<Block>,
    },
    /// Empty the queues. Answered with their content.
    ClearQueue,
    GetState,
    /// The conversation as the model sees it.
    GetMessages,
    /// The same in pages.
    GetMessagesPage(PageFields),
    GetLastAssistantText,
    SetSessionName {
        name: String,
    },
    SetSteeringMode {
        mode: QueueMode,
    },
    SetFollowUpMode {
        mode: QueueMode,
    },
    SetInterruptMode {
        mode: InterruptMode,
    },
    /// Select a model from the next request on, also in the middle of a run.
    SetModel {
        provider: String,
        model_id: String,
    },
    /// Select the next model of the list. Answered with `null` when there is no other.
    CycleModel,
    GetAvailableModels,
    /// The connections of tiller: the current model, and other services.
    GetIntegrations,
    SetThinkingLevel {
        level: ThinkingLevel,
    },
    CycleThinkingLevel,
    GetAvailableThinkingLevels,
    GetSessionStats,
    /// Write the session as an HTML page.
    ExportHtml {
        output_path: Option<PathBuf>,
    },
    /// Run a shell command. Its output is sent as it comes, the response follows at its end, and
    /// the model gets both with the next prompt unless they are excluded from its context.
    Bash {
        command: String,
        exclude_from_context: bool,
    },
    /// End all commands that `bash` has started.
    AbortBash,
    /// Open a stored session. The current run is closed first.
    SwitchSession {
        path: PathBuf,
    },
    /// A new session with everything up to a user message, whose text is returned.
    Fork {
        entry_id: String,
        alias: Alias,
    },
    /// A new session with everything up to here.
    Clone,
    /// The user messages that can be forked from.
    GetForkMessages {
        alias: Alias,
    },
    /// The session's entries in the order they were written, or those after one of them.
    GetEntries {
        since: Option<String>,
    },
    GetTree,
    /// The stored sessions, newest first.
    ListSessions(ListSessions),
    /// Continue from another entry of this session.
    NavigateTree {
        entry_id: String,
    },
    /// Label an entry, or remove its label.
    SetLabel {
        entry_id: String,
        label: Option<String>,
    },
    /// Replace the older part of the conversation with a summary.
    Compact {
        focus: Option<String>,
    },
    /// Whether that happens automatically when the window is nearly full. For this session only.
    SetAutoCompaction {
        enabled: bool,
    },
    /// Whether a run that failed with a temporary error is retried. For this session only.
    SetAutoRetry {
        enabled: bool,
    },
    /// Cancel the pause before a retry. Not an error when there is none.
    AbortRetry,
    /// Start an empty session. The current run is closed first.
    NewSession {
        parent_session: Option<String>,
    },
    /// What a message that begins with `/` can name: commands, templates and skills.
    GetCommands,
    /// The same in the format of omp's clients.
    GetAvailableCommands,
    /// Read settings, skills, templates and context files again.
    Reload,
    /// Tools that the client runs, in place of those it offered before.
    SetHostTools(Vec<HostTool>),
    /// The partial result of such a tool. Never answered.
    HostToolUpdate {
        id: String,
        partial: ToolOutput,
    },
    /// The result of such a tool. Never answered.
    HostToolResult {
        id: String,
        result: ToolResult,
    },
    /// Replace the todo list.
    SetTodos {
        phases: Vec<DraftPhase>,
    },
    /// Name the client, choose the level, and get the server's capabilities.
    Hello(Hello),
    /// The answer to a dialog of an extension. Never answered itself.
    ExtensionUiResponse {
        id: String,
        answer: UiAnswer,
    },
}

impl Command {
    /// The name of the command in requests and responses.
    pub fn name(&self) -> &'static str {
        match self {
            Command::Prompt { .. } => "prompt",
            Command::Steer { .. } => "steer",
            Command::FollowUp { .. } => "follow_up",
            Command::Abort => "abort",
            Command::AbortAndPrompt { .. } => "abort_and_prompt",
            Command::ClearQueue => "clear_queue",
            Command::GetState => "get_state",
            Command::GetMessages => "get_messages",
            Command::GetMessagesPage(_) => "get_messages_page",
            Command::GetLastAssistantText => "get_last_assistant_text",
            Command::SetSessionName { .. } => "set_session_name",
            Command::SetSteeringMode { .. } => "set_steering_mode",
            Command::SetFollowUpMode { .. } => "set_follow_up_mode",
            Command::SetInterruptMode { .. } => "set_interrupt_mode",
            Command::SetModel { .. } => "set_model",
            Command::CycleModel => "cycle_model",
            Command::GetAvailableModels => "get_available_models",
            Command::GetIntegrations => "get_integrations",
            Command::SetThinkingLevel { .. } => "set_thinking_level",
            Command::CycleThinkingLevel => "cycle_thinking_level",
            Command::GetAvailableThinkingLevels => "get_available_thinking_levels",
            Command::GetSessionStats => "get_session_stats",
            Command::ExportHtml { .. } => "export_html",
            Command::Bash { .. } => "bash",
            Command::AbortBash => "abort_bash",
            Command::Compact { .. } => "compact",
            Command::SetAutoCompaction { .. } => "set_auto_compaction",
            Command::SetAutoRetry { .. } => "set_auto_retry",
            Command::AbortRetry => "abort_retry",
            Command::SwitchSession { .. } => "switch_session",
            Command::Fork { alias: Alias::Pi, .. } => "fork",
            Command::Fork { alias: Alias::Xcsh, .. } => "branch",
            Command::Clone => "clone",
            Command::GetForkMessages { alias: Alias::Pi } => "get_fork_messages",
            Command::GetForkMessages { alias: Alias::Xcsh } => "get_branch_messages",
            Command::GetEntries { .. } => "get_entries",
            Command::GetTree => "get_tree",
            Command::ListSessions(_) => "list_sessions",
            Command::NavigateTree { .. } => "navigate_tree",
            Command::SetLabel { .. } => "set_label",
            Command::NewSession { .. } => "new_session",
            Command::GetCommands => "get_commands",
            Command::GetAvailableCommands => "get_available_commands",
            Command::Reload => "reload",
            Command::SetHostTools(_) => "set_host_tools",
            Command::HostToolUpdate { .. } => "host_tool_update",
            Command::HostToolResult { .. } => "host_tool_result",
            Command::SetTodos { .. } => "set_todos",
            Command::Hello(_) => "hello",
            Command::ExtensionUiResponse { .. } => "extension_ui_response",
        }
    }

    /// Answered even while a session change waits for its run to close.
    pub fn is_urgent(&self) -> bool {
        matches!(
            self,
            Command::Abort
                | Command::AbortBash
                | Command::GetState
                | Command::Hello(_)
                | Command::HostToolUpdate { .. }
                | Command::HostToolResult { .. }
                | Command::ExtensionUiResponse { .. }
        )
    }

    /// Urgent, but it refers to the requests that wait before it.
    pub fn follows_waiting(&self) -> bool {
        matches!(self, Command::Abort | Command::AbortBash | Command::GetState)
    }

    /// Needs the files of the user and the project.
    pub fn needs_place(&self, level: Level) -> bool {
        match self {
            // There it has the system prompt.
            Command::GetState => level == Level::Xcsh,
            Command::Prompt { .. }
            | Command::AbortAndPrompt { .. }
            | Command::Compact { .. }
            | Command::ExportHtml { .. }
            | Command::GetCommands
            | Command::GetAvailableCommands => true,
            Command::Steer { message, .. } | Command::FollowUp { message, .. } => {
                message.starts_with('/')
            }
            _ => false,
        }
    }
}

/// The command names that `hello` lists.
pub const COMMANDS: &[&str] = &[
    "prompt",
    "steer",
    "follow_up",
    "abort",
    "abort_and_prompt",
    "clear_queue",
    "get_state",
    "get_messages",
    "get_messages_page",
    "get_last_assistant_text",
    "set_session_name",
    "set_steering_mode",
    "set_follow_up_mode",
    "set_interrupt_mode",
    "set_model",
    "cycle_model",
    "get_available_models",
    "get_integrations",
    "set_thinking_level",
    "cycle_thinking_level",
    "get_available_thinking_levels",
    "get_session_stats",
    "export_html",
    "bash",
    "abort_bash",
    "compact",
    "set_auto_compaction",
    "set_auto_retry",
    "abort_retry",
    "new_session",
    "switch_session",
    "fork",
    "branch",
    "clone",
    "get_fork_messages",
    "get_branch_messages",
    "get_entries",
    "get_tree",
    "list_sessions",
    "navigate_tree",
    "set_label",
    "get_commands",
    "get_available_commands",
    "reload",
    "set_host_tools",
    "host_tool_update",
    "host_tool_result",
    "set_todos",
    "hello",
];

/// Commands of omp that tiller has no equivalent for.
const OMP_ONLY: &[&str] = &[
    "negotiate_protocol",
    "set_fast_mode",
    "set_host_uri_schemes",
    "set_subagent_subscription",
    "get_subagents",
    "get_subagent_messages",
    "get_login_providers",
    "login",
    "handoff",
];

/// What happens to a prompt while another one is running.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum WhenBusy {
    #[default]
    #[serde(skip)]
    Refuse,
    Steer,
    FollowUp,
}

/// The client's answer to a dialog of an extension.
#[derive(Clone, Debug, PartialEq)]
pub enum UiAnswer {
    Value(String),
    Confirmed(bool),
    Cancelled,
}

/// Both levels have a fork command, under different names; each is answered under its own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Alias {
    Pi,
    Xcsh,
}

impl Alias {
    fn of(kind: &str) -> Alias {
        if kind.contains("branch") { Alias::Xcsh } else { Alias::Pi }
    }
}

#[derive(Debug, Default, PartialEq, Deserialize)]
pub struct ListSessions {
    /// The sessions of this working directory; by default the current one.
    #[serde(default)]
    pub cwd: Option<PathBuf>,
    /// The sessions of all working directories.
    #[serde(default)]
    pub all: bool,
    #[serde(default)]
    pub limit: Option<usize>,
    /// The cursor of an earlier response.
    #[serde(default)]
    pub before: Option<String>,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
pub struct PageFields {
    /// The `nextCursor` of an earlier response.
    #[serde(default)]
    pub cursor: Option<String>,
    #[serde(default)]
    pub limit: Option<usize>,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
pub struct Hello {
    /// The name of the client. For logs only.
    #[serde(default)]
    pub client: Option<Value>,
    #[serde(default)]
    pub stream: Option<Stream>,
    #[serde(default)]
    pub wire: Option<Level>,
}

/// The table from names to commands.
pub(crate) fn read(kind: &str, text: &str) -> Result<Command, Refusal> {
    Ok(match kind {
        "prompt" => {
            let Prompt { message, images, streaming_behavior } = body(kind, text)?;
            let (message, images) = text_and_images(kind, message, images)?;
            let when_busy = streaming_behavior.unwrap_or_default();
            Command::Prompt { message, images, when_busy }
        }
        "steer" => {
            let TextAndImages { message, images } = body(kind, text)?;
            let (message, images) = text_and_images(kind, message, images)?;
            Command::Steer { message, images }
        }
        "follow_up" => {
            let TextAndImages { message, images } = body(kind, text)?;
            let (message, images) = text_and_images(kind, message, images)?;
            Command::FollowUp { message, images }
        }
        "abort_and_prompt" => {
            let TextAndImages { message, images } = body(kind, text)?;
            let (message, images) = text_and_images(kind, message, images)?;
            Command::AbortAndPrompt { message, images }
        }
        "abort" => Command::Abort,
        "clear_queue" => Command::ClearQueue,
        "get_state" => Command::GetState,
        "get_messages" => Command::GetMessages,
        "get_messages_page" => Command::GetMessagesPage(body(kind, text)?),
        "get_last_assistant_text" => Command::GetLastAssistantText,
        "set_session_name" => {
            let Name { name } = body(kind, text)?;
            Command::SetSessionName { name }
        }
        "set_steering_mode" => {
            Command::SetSteeringMode { mode: body::<ModeField<_>>(kind, text)?.mode }
        }
        "set_follow_up_mode" => {
            Command::SetFollowUpMode { mode: body::<ModeField<_>>(kind, text)?.mode }
        }
        "set_interrupt_mode" => {
            Command::SetInterruptMode { mode: body::<ModeField<_>>(kind, text)?.mode }
        }
        "set_model" => {
            let SetModel { provider, model_id } = body(kind, text)?;
            Command::SetModel { provider, model_id }
        }
        "cycle_model" => Command::CycleModel,
        "get_available_models" => Command::GetAvailableModels,
        "get_integrations" => Command::GetIntegrations,
        "set_thinking_level" => {
            let SetThinkingLevel { level } = body(kind, text)?;
            Command::SetThinkingLevel { level }
        }
        "cycle_thinking_level" => Command::CycleThinkingLevel,
        "get_available_thinking_levels" => Command::GetAvailableThinkingLevels,
        "get_session_stats" => Command::GetSessionStats,
        "export_html" => {
            let ExportHtml { output_path } = body(kind, text)?;
            Command::ExportHtml { output_path }
        }
        "bash" => {
            let Bash { command, exclude_from_context } = body(kind, text)?;
            Command::Bash { command, exclude_from_context }
        }
        "abort_bash" => Command::AbortBash,
        "compact" => {
            let Compact { custom_instructions } = body(kind, text)?;
            Command::Compact { focus: custom_instructions }
        }
        "set_auto_compaction" => {
            let Enabled { enabled } = body(kind, text)?;
            Command::SetAutoCompaction { enabled }
        }
        "set_auto_retry" => {
            let Enabled { enabled } = body(kind, text)?;
            Command::SetAutoRetry { enabled }
        }
        "abort_retry" => Command::AbortRetry,
        "switch_session" => {
            let SwitchSession { session_path } = body(kind, text)?;
            Command::SwitchSession { path: session_path }
        }
        "fork" | "branch" => {
            let EntryId { entry_id } = body(kind, text)?;
            Command::Fork { entry_id, alias: Alias::of(kind) }
        }
        "clone" => Command::Clone,
        "get_fork_messages" | "get_branch_messages" => {
            Command::GetForkMessages { alias: Alias::of(kind) }
        }
        "get_entries" => {
            let Since { since } = body(kind, text)?;
            Command::GetEntries { since }
        }
        "get_tree" => Command::GetTree,
        "list_sessions" => Command::ListSessions(body(kind, text)?),
        "navigate_tree" => {
            let EntryId { entry_id } = body(kind, text)?;
            Command::NavigateTree { entry_id }
        }
        "set_label" => {
            let SetLabel { entry_id, label } = body(kind, text)?;
            Command::SetLabel { entry_id, label }
        }
        "new_session" => {
            let NewSession { parent_session } = body(kind, text)?;
            Command::NewSession { parent_session }
        }
        "get_commands" => Command::GetCommands,
        "get_available_commands" => Command::GetAvailableCommands,
        "reload" => Command::Reload,
        "set_host_tools" => Command::SetHostTools(host_tools::tools(kind, text)?),
        "host_tool_update" => {
            let (id, partial) = host_tools::update(kind, text)?;
            Command::HostToolUpdate { id, partial }
        }
        "host_tool_result" => {
            let (id, result) = host_tools::result(kind, text)?;
            Command::HostToolResult { id, result }
        }
        "set_todos" => {
            let SetTodos { phases } = body(kind, text)?;
            Command::SetTodos { phases }
        }
        "hello" => Command::Hello(body(kind, text)?),
        "extension_ui_response" => {
            let UiResponse { id, value, confirmed, .. } = body(kind, text)?;
            let answer = match (value, confirmed) {
                (Some(value), _) => UiAnswer::Value(value),
                (None, Some(confirmed)) => UiAnswer::Confirmed(confirmed),
                (None, None) => UiAnswer::Cancelled,
            };
            Command::ExtensionUiResponse { id, answer }
        }
        _ if OMP_ONLY.contains(&kind) => return Err(Refusal::unsupported(kind)),
        _ => return Err(Refusal::unknown(kind)),
    })
}
