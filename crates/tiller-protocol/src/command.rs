//! All commands of a client: one table of their names and fields.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use tiller_agent::approvals::ApprovalMode;
use tiller_agent::limits::Limits;
use tiller_agent::model::ThinkingLevel;
use tiller_agent::modes::{InterruptMode, QueueMode};
use tiller_agent::todo::DraftPhase;

use crate::fields::{
    ExtensionUiResponse, ListSessions, Prompt, TextAndImages, body, check_message,
    check_message_id, is_default,
};
use crate::host_tools::{HostToolResult, HostToolUpdate, SetHostTools};
use crate::mcp::SetMcpServers;
use crate::queue::{QueuedTarget, UpdateQueued};
use crate::request::{Refusal, Request};
use crate::{Level, Stream, ToolUpdates};

/// Makes the enum, the names, the parser and the types of the fields from one table: the name on the
/// wire, the variant, the type of its fields, and the fields unless that type is defined elsewhere.
macro_rules! commands {
    (listed { $($listed:tt)* } unlisted { $($unlisted:tt)* }) => {
        commands!(@names $($listed)*);
        commands!(@table $($listed)* $($unlisted)*);
    };
    (@names $(
        $(#[$doc:meta])*
        $name:literal => $variant:ident $(($body:ident) $({ $($fields:tt)* })?)?,
    )*) => {
        /// The names of the commands that `hello` lists.
        pub const COMMANDS: &[&str] = &[$($name),*];
    };
    (@table $(
        $(#[$doc:meta])*
        $name:literal => $variant:ident $(($body:ident) $({ $($fields:tt)* })?)?,
    )*) => {
        /// A command of the client.
        #[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
        #[serde(tag = "type")]
        pub enum Command {
            $($(#[$doc])* #[serde(rename = $name)] $variant $(($body))?,)*
        }

        $($($(
            #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
            #[serde(rename_all = "camelCase")]
            pub struct $body { $($fields)* }
        )?)?)*

        impl Command {
            /// The name of the command in requests and responses.
            pub fn name(&self) -> &'static str {
                match self {
                    $(Command::$variant { .. } => $name,)*
                }
            }

            /// Parses the fields of the command with this name, without the checks.
            fn parse(name: &str, text: &str) -> Result<Command, Refusal> {
                Ok(match name {
                    $($name => Command::$variant $((body::<$body>(name, text)?))?,)*
                    _ if OMP_ONLY.contains(&name) => return Err(Refusal::unsupported(name)),
                    _ => return Err(Refusal::unknown(name)),
                })
            }
        }
    };
}

commands! {
    listed {
        /// Sends the agent a user message. Answered at once with its disposition; the run follows
        /// as events.
        "prompt" => Prompt(Prompt),
        /// Queues a message to be sent as soon as the tools of the current turn are done.
        "steer" => Steer(TextAndImages),
        /// Queues a message to be sent when the run would otherwise end.
        "follow_up" => FollowUp(TextAndImages),
        /// Stops the current run. Answered when it has ended; not an error if there is none.
        "abort" => Abort,
        /// Stops the current run and starts with this message instead.
        "abort_and_prompt" => AbortAndPrompt(TextAndImages),
        /// Empties both queues. Answered with the texts that were in them.
        "clear_queue" => ClearQueue,
        /// The queued messages with their ids.
        "get_queue" => GetQueue,
        /// Replaces the text and the images of a queued message, which keeps its place.
        "update_queued" => UpdateQueued(UpdateQueued),
        /// Removes a queued message.
        "remove_queued" => RemoveQueued(QueuedTarget),
        /// Replaces the limits of the prompts and tools of this session.
        "set_limits" => SetLimits(Limits),
        /// The limits in force.
        "get_limits" => GetLimits,
        /// Which tool calls need an approval, for this session only.
        "set_approvals" => SetApprovals(SetApprovals) { pub mode: ApprovalMode },
        /// What the sandbox of the tools prevents, and what it does not.
        "get_sandbox" => GetSandbox,
        /// The model, the modes, the session and what is in progress.
        "get_state" => GetState,
        /// The conversation as the model sees it.
        "get_messages" => GetMessages(ListRange) {
            /// How many items come before the first one of the response. By default 0.
            #[serde(skip_serializing_if = "is_default")] pub offset: Option<usize>,
            /// The maximum number of items.
            #[serde(skip_serializing_if = "is_default")] pub limit: Option<usize>,
        },
        /// The same in pages.
        "get_messages_page" => GetMessagesPage(PageFields) {
            /// The `nextCursor` of an earlier response.
            #[serde(skip_serializing_if = "is_default")] pub cursor: Option<String>,
            #[serde(skip_serializing_if = "is_default")] pub limit: Option<usize>,
        },
        /// The text of the newest answer.
        "get_last_assistant_text" => GetLastAssistantText,
        /// Names the session.
        "set_session_name" => SetSessionName(SetSessionName) { pub name: String },
        /// How many steering messages are sent at once.
        "set_steering_mode" => SetSteeringMode(SetQueueMode) { pub mode: QueueMode },
        /// How many follow-up messages are sent at once.
        "set_follow_up_mode" => SetFollowUpMode(SetQueueMode),
        /// Whether steering waits for the tools of a turn.
        "set_interrupt_mode" => SetInterruptMode(SetInterruptMode) { pub mode: InterruptMode },
        /// Selects a model from the next request on, also in the middle of a run.
        "set_model" => SetModel(SetModel) { pub provider: String, pub model_id: String },
        /// Selects the next model of the list. Answered with `null` if there is no other.
        "cycle_model" => CycleModel,
        /// The models that can be selected.
        "get_available_models" => GetAvailableModels(ListRange),
        /// The connections of tiller: the current model, and other services.
        "get_integrations" => GetIntegrations,
        /// Selects a thinking level.
        "set_thinking_level" => SetThinkingLevel(SetThinkingLevel) { pub level: ThinkingLevel },
        /// Selects the next thinking level of the model.
        "cycle_thinking_level" => CycleThinkingLevel,
        /// The thinking levels of the model.
        "get_available_thinking_levels" => GetAvailableThinkingLevels,
        /// The tokens, the cost and the size of the session.
        "get_session_stats" => GetSessionStats,
        /// Writes the session as an HTML page. Answered with its path.
        "export_html" => ExportHtml(ExportHtml) {
            /// By default a file in the working directory, named after the session's file.
            #[serde(skip_serializing_if = "is_default")] pub output_path: Option<PathBuf>,
        },
        /// Runs a shell command. Its output is sent as it comes, the response follows at its end,
        /// and the model gets both with the next prompt unless they are excluded.
        "bash" => Bash(Bash) {
            pub command: String,
            /// The model never sees the command and its output.
            #[serde(default, skip_serializing_if = "is_default")] pub exclude_from_context: bool,
        },
        /// Ends all commands that `bash` has started.
        "abort_bash" => AbortBash,
        /// Replaces the older part of the conversation with a summary. Answered with the result.
        "compact" => Compact(Compact) {
            /// What the summary should focus on.
            #[serde(rename = "customInstructions", skip_serializing_if = "is_default")]
            pub focus: Option<String>,
        },
        /// Whether that happens automatically when the window is nearly full.
        "set_auto_compaction" => SetAutoCompaction(AutoSetting) { pub enabled: bool },
        /// Whether a run that failed with a temporary error is retried.
        "set_auto_retry" => SetAutoRetry(AutoSetting),
        /// Cancels the pause before a retry. Not an error if there is none.
        "abort_retry" => AbortRetry,
        /// Starts an empty session. The current run is stopped first.
        "new_session" => NewSession(NewSession) {
            /// The path of the session that this one continues.
            #[serde(skip_serializing_if = "is_default")] pub parent_session: Option<String>,
        },
        /// Opens a stored session. The current run is stopped first.
        "switch_session" => SwitchSession(SwitchSession) {
            #[serde(rename = "sessionPath")] pub path: PathBuf,
        },
        /// Starts a session with everything before a user message. Answered with its text.
        "fork" => Fork(EntryId) { pub entry_id: String },
        /// `fork` under the name that xcsh uses.
        "branch" => Branch(EntryId),
        /// Starts a session with everything up to here.
        "clone" => Clone,
        /// The user messages that can be forked from.
        "get_fork_messages" => GetForkMessages,
        /// `get_fork_messages` under the name that xcsh uses.
        "get_branch_messages" => GetBranchMessages,
        /// The session's entries in the order they were written.
        "get_entries" => GetEntries(GetEntries) {
            /// Only the entries after the one with this id.
            #[serde(skip_serializing_if = "is_default")] pub since: Option<String>,
            /// How many of them come before the first one of the response. By default 0.
            #[serde(skip_serializing_if = "is_default")] pub offset: Option<usize>,
            /// The maximum number of entries.
            #[serde(skip_serializing_if = "is_default")] pub limit: Option<usize>,
        },
        /// The session's entries as a tree.
        "get_tree" => GetTree,
        /// The stored sessions, newest first.
        "list_sessions" => ListSessions(ListSessions),
        /// Continues from another entry of this session.
        "navigate_tree" => NavigateTree(EntryId),
        /// Labels an entry, or removes its label.
        "set_label" => SetLabel(SetLabel) {
            pub entry_id: String,
            /// Absent: the label is removed.
            #[serde(skip_serializing_if = "is_default")] pub label: Option<String>,
        },
        /// What a message that begins with `/` can name: commands, templates and skills.
        "get_commands" => GetCommands,
        /// The same in the format of omp's clients.
        "get_available_commands" => GetAvailableCommands,
        /// Reads settings, skills, templates and context files again.
        "reload" => Reload,
        /// The settings in use, and which of them `set_setting` can change.
        "get_settings" => GetSettings,
        /// Changes a setting for this process. No file is written.
        "set_setting" => SetSetting(SetSetting) {
            /// Its key, such as `retry.maxRetries`.
            pub key: String,
            /// The new value. `null` removes an earlier change: the files count again.
            #[serde(skip_serializing_if = "is_default")] pub value: Option<Value>,
        },
        /// All tools, with those that the model is offered.
        "get_tools" => GetTools,
        /// Selects the tools that the model is offered from the next request on.
        "set_active_tools" => SetActiveTools(SetActiveTools) {
            /// Names of tools that `get_tools` lists.
            pub tools: Vec<String>,
        },
        /// The problems found so far in settings, files, models and sessions.
        "get_diagnostics" => GetDiagnostics,
        /// What this server supports and what `hello` has chosen. Changes nothing.
        "get_capabilities" => GetCapabilities,
        /// Records that were written before, from a bounded buffer. Needs `sequence` of `hello`.
        "get_events" => GetEvents(GetEvents) {
            /// The `seq` of the last record that the client has. Later ones are returned.
            pub since: u64,
            /// The `epoch` of that record. By default the current one.
            #[serde(skip_serializing_if = "is_default")] pub epoch: Option<String>,
            /// The maximum number of records.
            #[serde(skip_serializing_if = "is_default")] pub limit: Option<usize>,
        },
        /// A part of the JSON text of a record that was cut because of `maxFrameBytes`.
        "get_record" => GetRecord(GetRecord) {
            /// The `recordId` in the `cut` of the record.
            pub record_id: String,
            /// Where the part begins, in bytes.
            #[serde(skip_serializing_if = "is_default")] pub offset: Option<usize>,
            /// The maximum length of the part in bytes.
            #[serde(skip_serializing_if = "is_default")] pub limit: Option<usize>,
        },
        /// Offers tools that the client runs, in place of those it offered before.
        "set_host_tools" => SetHostTools(SetHostTools),
        /// The partial result of such a tool. Gets no response.
        "host_tool_update" => HostToolUpdate(HostToolUpdate),
        /// The result of such a tool. Gets no response.
        "host_tool_result" => HostToolResult(HostToolResult),
        /// Replaces the MCP servers that the client has set for this session before. Servers of
        /// files with the same names are replaced, too. They are started at once.
        "set_mcp_servers" => SetMcpServers(SetMcpServers),
        /// The MCP servers of this session, with their states, tools and errors.
        "get_mcp_servers" => GetMcpServers,
        /// Replaces the todo list.
        "set_todos" => SetTodos(SetTodos) { pub phases: Vec<DraftPhase> },
        /// Names the client and selects a level. Answered with the server's capabilities.
        "hello" => Hello(Hello) {
            /// The name of the client. For logs only.
            #[serde(skip_serializing_if = "is_default")] pub client: Option<Value>,
            /// What a `message_update` carries; by default as the level has it.
            #[serde(skip_serializing_if = "is_default")] pub stream: Option<Stream>,
            /// The level of this response and of later records; by default it stays as it is.
            #[serde(skip_serializing_if = "is_default")] pub wire: Option<Level>,
            /// Whether there is a `prompt_result` for every accepted prompt.
            #[serde(skip_serializing_if = "is_default")] pub prompt_results: Option<bool>,
            /// Whether every record carries `seq` and `epoch`, and is kept for `get_events`.
            #[serde(skip_serializing_if = "is_default")] pub sequence: Option<bool>,
            /// The length of the longest line that tiller may write, in bytes.
            #[serde(skip_serializing_if = "is_default")] pub max_frame_bytes: Option<usize>,
            /// What a `tool_execution_update` carries.
            #[serde(skip_serializing_if = "is_default")] pub tool_updates: Option<ToolUpdates>,
        },
    }
    unlisted {
        /// The answer to a dialog of an extension. Gets no response.
        "extension_ui_response" => ExtensionUiResponse(ExtensionUiResponse),
    }
}

impl Command {
    /// Parses a command and checks its fields.
    pub(crate) fn read(name: &str, text: &str) -> Result<Command, Refusal> {
        let command = Command::parse(name, text)?;
        command.check()?;
        Ok(command)
    }

    /// The line that sends this command, without a line end. The response has the same `id`. A
    /// command without a response has an `id` of its own, and the given one is not written.
    pub fn to_line(&self, id: Option<&str>) -> String {
        #[derive(Serialize)]
        struct Line<'a> {
            #[serde(skip_serializing_if = "Option::is_none")]
            id: Option<&'a str>,
            #[serde(flatten)]
            command: &'a Command,
        }
        let id = id.filter(|_| self.has_response());
        serde_json::to_string(&Line { id, command: self }).expect("our own types serialize to JSON")
    }

    /// Whether there is a response to the command. Without one, only a refusal is written.
    pub fn has_response(&self) -> bool {
        !matches!(
            self,
            Command::HostToolUpdate(_)
                | Command::HostToolResult(_)
                | Command::ExtensionUiResponse(_)
        )
    }

    /// Checks what the types do not say.
    fn check(&self) -> Result<(), Refusal> {
        let name = self.name();
        match self {
            Command::Prompt(Prompt { message, images, client_message_id, .. })
            | Command::Steer(TextAndImages { message, images, client_message_id })
            | Command::FollowUp(TextAndImages { message, images, client_message_id })
            | Command::AbortAndPrompt(TextAndImages { message, images, client_message_id }) => {
                check_message(name, message, images)?;
                check_message_id(name, client_message_id.as_deref())
            }
            Command::UpdateQueued(update) => update.check(name),
            Command::RemoveQueued(target) => target.check(name),
            Command::SetLimits(limits) => limits.check().map_err(|why| Refusal::invalid(name, why)),
            Command::Hello(hello) => {
                check_least(name, "maxFrameBytes", hello.max_frame_bytes, MIN_FRAME_BYTES)
            }
            Command::GetMessages(ListRange { limit, .. })
            | Command::GetAvailableModels(ListRange { limit, .. })
            | Command::GetEntries(GetEntries { limit, .. }) => {
                check_least(name, "limit", *limit, 1)
            }
            Command::SetHostTools(tools) => tools.check(name),
            Command::SetMcpServers(servers) => servers.check(name),
            Command::HostToolUpdate(update) => update.check(name),
            Command::HostToolResult(result) => result.check(name),
            _ => Ok(()),
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
                | Command::HostToolUpdate(_)
                | Command::HostToolResult(_)
                | Command::ExtensionUiResponse(_)
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
            Command::Prompt(_)
            | Command::AbortAndPrompt(_)
            | Command::Compact(_)
            | Command::ExportHtml(_)
            | Command::SetMcpServers(_)
            | Command::GetMcpServers
            | Command::GetCommands
            | Command::GetAvailableCommands => true,
            Command::Steer(text) | Command::FollowUp(text) => text.message.starts_with('/'),
            Command::UpdateQueued(update) => update.message.starts_with('/'),
            _ => false,
        }
    }
}

impl<'de> Deserialize<'de> for Command {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Command, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        let request = Request::parse(text.get()).map_err(D::Error::custom)?;
        request.command.map_err(|refusal| D::Error::custom(refusal.error))
    }
}

impl ListRange {
    /// The whole list.
    pub const ALL: ListRange = ListRange { offset: None, limit: None };
}

impl GetEntries {
    /// All entries.
    pub const ALL: GetEntries = GetEntries { since: None, offset: None, limit: None };
}

fn check_least(
    command: &str,
    field: &str,
    value: Option<usize>,
    least: usize,
) -> Result<(), Refusal> {
    match value {
        Some(value) if value < least => {
            Err(Refusal::invalid(command, format!("field `{field}`: expected at least {least}")))
        }
        _ => Ok(()),
    }
}

/// The smallest `maxFrameBytes`: room for every record without its long texts and lists.
pub const MIN_FRAME_BYTES: usize = 64 << 10;

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
