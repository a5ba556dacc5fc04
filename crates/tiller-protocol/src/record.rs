//! All records of the server: one table of their names and fields.
//!
//! The server borrows what it writes; a client that parses a line gets a `Record<'static>`.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tiller_agent::compaction::Reason;
use tiller_agent::dialog::UiRequest;
use tiller_agent::limits::LimitName;
use tiller_agent::mcp::McpServerSummary;
use tiller_agent::message::{Arguments, plain_number};
use tiller_agent::model::ThinkingLevel;
use tiller_agent::prompt_result::{PromptReason, PromptStatus};
use tiller_agent::stream_rules::Rule;
use tiller_agent::todo::TodoStatus;
use tiller_agent::tool::ToolOutput;

use crate::compaction::{CompactionAction, CompactionResult, SummarySource};
use crate::json::{Json, present};
use crate::message::{Message, ToolCallBlock, Usage};
use crate::reply::Response;

/// Makes the enum and the names of the events from one table.
macro_rules! records {
    (events { $($(#[$doc:meta])* $name:literal => $variant:ident $({ $($fields:tt)* })?,)* }) => {
        /// The names of the events that `hello` lists.
        pub const EVENTS: &[&str] = &[$($name),*];

        /// A line of the server: a response, or an event.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(tag = "type", rename_all_fields = "camelCase")]
        pub enum Record<'a> {
            /// The first record at level `xcsh`, and only there.
            #[schemars(extend("x-levels" = ["xcsh"]))]
            #[serde(rename = "ready")]
            Ready {
                /// The version of tiller.
                version: Cow<'a, str>,
            },
            $($(#[$doc])* #[serde(rename = $name)] $variant $({ $($fields)* })?,)*
            /// The response to a command.
            #[serde(untagged)]
            Response(Response<'a>),
            /// A record that this version does not know. Clients ignore it.
            #[serde(untagged)]
            Unknown(Json<'a>),
        }
    };
}

records! {
    events {
        /// A run starts.
        "agent_start" => AgentStart,
        /// The run is over.
        "agent_end" => AgentEnd {
            /// The messages that it added.
            messages: Vec<Message<'a>>,
            /// Another run follows, because this one failed with an error that may be temporary.
            will_retry: bool,
        },
        /// Nothing more happens without a command.
        "agent_settled" => AgentSettled {
            /// An abort was requested before the run ended.
            aborted: bool,
        },
        /// The messages to send follow, then a request to the model.
        "turn_start" => TurnStart,
        /// The answer and the results of its calls are complete.
        "turn_end" => TurnEnd {
            message: Message<'a>,
            /// In the order of the calls.
            tool_results: Vec<Message<'a>>,
        },
        /// A message is added to the conversation. An answer starts empty and is filled by updates.
        "message_start" => MessageStart {
            message: Message<'a>,
            /// As in the command that sent the message; absent if it had none.
            #[serde(skip_serializing_if = "Option::is_none")]
            client_message_id: Option<Cow<'a, str>>,
        },
        /// The answer grows by one step.
        #[schemars(extend("anyOf" = [{ "required": ["usage"] }, { "required": ["message"] }]))]
        "message_update" => MessageUpdate {
            /// The tokens counted so far. With deltas only.
            #[serde(skip_serializing_if = "Option::is_none")] usage: Option<Usage>,
            assistant_message_event: MessageStep<'a>,
            /// The message after this step. With snapshots only.
            #[serde(skip_serializing_if = "Option::is_none")] message: Option<Box<Message<'a>>>,
        },
        /// The message is complete and stored. It replaces whatever was shown before.
        "message_end" => MessageEnd { message: Message<'a> },
        /// A tool call starts.
        "tool_execution_start" => ToolExecutionStart {
            tool_call_id: Cow<'a, str>,
            tool_name: Cow<'a, str>,
            args: Cow<'a, Arguments>,
        },
        /// Intermediate output of a tool.
        #[schemars(extend("anyOf" = [{ "required": ["partialResult"] }, { "required": ["delta"] }]))]
        "tool_execution_update" => ToolExecutionUpdate {
            tool_call_id: Cow<'a, str>,
            tool_name: Cow<'a, str>,
            /// Absent with deltas.
            #[serde(skip_serializing_if = "Option::is_none")] args: Option<Cow<'a, Arguments>>,
            /// The output so far. It replaces the one before.
            #[serde(skip_serializing_if = "Option::is_none")]
            partial_result: Option<Cow<'a, ToolOutput>>,
            /// Text that is added to the output so far. With deltas only, in place of
            /// `partialResult`.
            #[serde(skip_serializing_if = "Option::is_none")] delta: Option<Cow<'a, str>>,
        },
        /// A tool call has its result.
        "tool_execution_end" => ToolExecutionEnd {
            tool_call_id: Cow<'a, str>,
            tool_name: Cow<'a, str>,
            result: Cow<'a, ToolOutput>,
            is_error: bool,
            /// How long the tool ran. At level `pi-delta` only, and only if it ran.
            #[schemars(extend("x-levels" = ["pi-delta"]))]
            #[serde(skip_serializing_if = "Option::is_none")] duration_ms: Option<u64>,
        },
        /// The state or the tools of an MCP server have changed. Written only where there are MCP
        /// servers.
        "mcp_servers_change" => McpServersChange {
            /// All servers of the session.
            servers: Cow<'a, [McpServerSummary]>,
        },
        /// The client is to run one of its tools and to answer with `host_tool_result`.
        "host_tool_call" => HostToolCall {
            /// The `id` of the result.
            id: Cow<'a, str>,
            tool_call_id: Cow<'a, str>,
            tool_name: Cow<'a, str>,
            arguments: Cow<'a, Arguments>,
        },
        /// The result of such a call is no longer needed.
        "host_tool_cancel" => HostToolCancel {
            id: Cow<'a, str>,
            /// The `id` of the `host_tool_call`.
            target_id: Cow<'a, str>,
        },
        /// A compaction starts.
        "compaction_start" => CompactionStart { reason: Reason },
        /// A compaction has ended.
        "compaction_end" => CompactionEnd {
            reason: Reason,
            /// Without a result the conversation is unchanged. It is `null` then, and absent at
            /// level `pi-delta`.
            #[schemars(extend("x-required" = ["pi", "xcsh"], "x-nullable" = ["pi", "xcsh"]))]
            #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
            result: Option<Option<CompactionResult<'a>>>,
            aborted: bool,
            /// The run that did not fit is continued.
            will_retry: bool,
            #[serde(skip_serializing_if = "Option::is_none")] error_message: Option<Cow<'a, str>>,
        },
        /// An automatic compaction starts, at level `xcsh`.
        #[schemars(extend("x-levels" = ["xcsh"]))]
        "auto_compaction_start" => AutoCompactionStart { reason: Reason, action: CompactionAction },
        /// An automatic compaction has ended, at level `xcsh`.
        #[schemars(extend("x-levels" = ["xcsh"]))]
        "auto_compaction_end" => AutoCompactionEnd {
            action: CompactionAction,
            /// Without a result the conversation is unchanged.
            #[serde(skip_serializing_if = "Option::is_none")] result: Option<CompactionResult<'a>>,
            aborted: bool,
            /// The run that did not fit is continued.
            will_retry: bool,
            #[serde(skip_serializing_if = "Option::is_none")] error_message: Option<Cow<'a, str>>,
        },
        /// The request for a summary failed; it is sent again after a pause.
        "summarization_retry_scheduled" => SummarizationRetryScheduled {
            attempt: u32,
            max_attempts: u32,
            delay_ms: u64,
            error_message: Cow<'a, str>,
        },
        /// The request for a summary is sent again.
        "summarization_retry_attempt_start" => SummarizationRetryAttemptStart {
            source: SummarySource,
            /// Absent for the summary of a branch.
            #[serde(skip_serializing_if = "Option::is_none")] reason: Option<Reason>,
        },
        /// No more retries of the summary, whether it succeeded or not.
        "summarization_retry_finished" => SummarizationRetryFinished,
        /// The run failed with an error that may be temporary. It is retried after a pause.
        "auto_retry_start" => AutoRetryStart {
            attempt: u32,
            max_attempts: u32,
            delay_ms: u64,
            error_message: Cow<'a, str>,
        },
        /// No more retries of the run.
        "auto_retry_end" => AutoRetryEnd {
            success: bool,
            attempt: u32,
            #[serde(skip_serializing_if = "Option::is_none")] final_error: Option<Cow<'a, str>>,
        },
        /// An extension asks the user or shows something.
        "extension_ui_request" => ExtensionUiRequest {
            /// The `id` of the answer.
            id: Cow<'a, str>,
            #[serde(flatten)]
            request: Cow<'a, UiRequest>,
        },
        /// An extension failed; everything else continues.
        "extension_error" => ExtensionError {
            extension_path: Cow<'a, str>,
            /// What failed: the name of an event, `command`, or `load`.
            event: Cow<'a, str>,
            error: Cow<'a, str>,
        },
        /// The answer matched these rules and was stopped. Another run follows, with the rules
        /// added to the conversation.
        "ttsr_triggered" => TtsrTriggered { rules: Vec<Cow<'a, Rule>> },
        /// An entry that is not a message was appended to the session.
        "entry_appended" => EntryAppended {
            /// As in the session's file.
            #[schemars(with = "Map<String, Value>")]
            entry: Json<'a>,
        },
        /// The model stopped although these tasks are open. It is reminded, and another run follows.
        "todo_reminder" => TodoReminder {
            todos: Vec<OpenTodo<'a>>,
            /// Counts since the user's last message.
            attempt: u32,
            max_attempts: u32,
        },
        /// A finished task was removed from the todo list.
        "todo_auto_clear" => TodoAutoClear,
        /// The texts in both queues. Written whenever a queue changes.
        "queue_update" => QueueUpdate {
            steering: Cow<'a, [String]>,
            follow_up: Cow<'a, [String]>,
            /// The `clientMessageId` of each steering message. Absent unless a queued message has
            /// one.
            #[serde(skip_serializing_if = "Option::is_none")]
            steering_ids: Option<Cow<'a, [Option<String>]>>,
            /// The same for the follow-up messages.
            #[serde(skip_serializing_if = "Option::is_none")]
            follow_up_ids: Option<Cow<'a, [Option<String>]>>,
        },
        /// What became of a `prompt`, `steer`, `follow_up` or `abort_and_prompt` that was accepted:
        /// one for each. With `promptResults` of `hello` only.
        "prompt_result" => PromptResult {
            /// As in the command; absent if it had none.
            #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
            id: Option<Json<'a>>,
            /// As in the command; absent if it had none.
            #[serde(skip_serializing_if = "Option::is_none")]
            client_message_id: Option<Cow<'a, str>>,
            /// The name of the command.
            command: Cow<'a, str>,
            status: PromptStatus,
            /// Why it was aborted or dropped, or which limit was reached.
            #[serde(skip_serializing_if = "Option::is_none")] reason: Option<PromptReason>,
            /// How many runs worked on it.
            runs: u64,
            /// How many turns these runs had.
            turns: u64,
            /// How many messages they added to the conversation.
            messages: u64,
            /// The tokens of these messages.
            usage: Usage,
            /// The price of these tokens in dollars.
            #[serde(serialize_with = "plain_number")] cost: f64,
            /// From the acceptance of the command to this record.
            duration_ms: u64,
            /// With the status `error`.
            #[serde(skip_serializing_if = "Option::is_none")] error: Option<Cow<'a, str>>,
        },
        /// A limit ends the current run: no further request is sent and no further tool is called.
        "limit_reached" => LimitReached {
            limit: LimitName,
            /// The limit.
            #[serde(serialize_with = "plain_number")] max: f64,
            /// What the prompt has used.
            #[serde(serialize_with = "plain_number")] used: f64,
        },
        /// More output of a `bash` command.
        "bash_execution_update" => BashExecutionUpdate {
            /// As in the command; absent if it had none.
            #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
            id: Option<Json<'a>>,
            delta: Cow<'a, str>,
        },
        /// The session has another name.
        "session_info_changed" => SessionInfoChanged {
            #[serde(skip_serializing_if = "Option::is_none")] name: Option<Cow<'a, str>>,
        },
        /// The session could not be written, or its file was moved or replaced.
        "session_error" => SessionError { error: Cow<'a, str> },
        /// Another thinking level is selected.
        "thinking_level_changed" => ThinkingLevelChanged {
            level: ThinkingLevel,
            /// The same, at level `xcsh`.
            #[schemars(extend("x-levels" = ["xcsh"], "x-required" = ["xcsh"]))]
            #[serde(skip_serializing_if = "Option::is_none")] thinking_level: Option<ThinkingLevel>,
        },
    }
}

/// One step of a growing answer. `contentIndex` is the position of its block in the content.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MessageStep<'a> {
    #[serde(flatten)]
    pub step: Step<'a>,
    /// The message after this step. With snapshots only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partial: Option<Box<Message<'a>>>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum Step<'a> {
    TextStart {
        content_index: usize,
    },
    TextDelta {
        content_index: usize,
        delta: Cow<'a, str>,
    },
    /// The whole block.
    TextEnd {
        content_index: usize,
        content: Cow<'a, str>,
    },
    ThinkingStart {
        content_index: usize,
    },
    ThinkingDelta {
        content_index: usize,
        delta: Cow<'a, str>,
    },
    /// The whole block.
    ThinkingEnd {
        content_index: usize,
        content: Cow<'a, str>,
    },
    /// It names the call at level `pi-delta`, and elsewhere without `partial`.
    #[serde(rename = "toolcall_start")]
    CallStart {
        content_index: usize,
        #[schemars(extend("x-required" = ["pi-delta"]))]
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<Cow<'a, str>>,
        #[schemars(extend("x-required" = ["pi-delta"]))]
        #[serde(skip_serializing_if = "Option::is_none")]
        tool_name: Option<Cow<'a, str>>,
    },
    /// A part of the arguments' JSON text.
    #[serde(rename = "toolcall_delta")]
    CallDelta {
        content_index: usize,
        delta: Cow<'a, str>,
    },
    /// The whole call.
    #[serde(rename = "toolcall_end")]
    CallEnd {
        content_index: usize,
        tool_call: ToolCallBlock<'a>,
    },
}

/// A task that is not done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OpenTodo<'a> {
    pub id: Cow<'a, str>,
    pub content: Cow<'a, str>,
    pub status: TodoStatus,
}
