//! The events of a run, in order: one stream that every wire level writes in its own way.
//!
//! Events come in pairs and nest:
//!
//! ```text
//! agent_start
//!   turn_start
//!     message_start, message_end                      the user's message
//!     message_start, message_update…, message_end     the model's answer
//!     tool_execution_start, _update…, _end            its tool calls
//!     message_start, message_end                      the results, in the order of the calls
//!   turn_end
//! agent_end
//! agent_settled
//! ```

use std::sync::Arc;

use serde_json::value::RawValue;

use crate::compaction::summary::Progress;
use crate::compaction::{Compacted, Reason};
use crate::dialog::UiRequest;
use crate::driver::QueueTicket;
use crate::limits::ReachedLimit;
use crate::mcp::McpServerSummary;
use crate::message::{Arguments, Message, ToolCall, Usage};
use crate::model::ThinkingLevel;
use crate::prompt_result::PromptResult;
use crate::stream_rules::Rule;
use crate::todo::TodoItem;
use crate::tool::ToolOutput;

/// Moved thousands of times per answer, so large variants are boxed.
#[derive(Clone, Debug)]
pub enum Event {
    AgentStart,
    TurnStart,
    /// A message is added to the conversation. The model's own starts empty and is filled by
    /// updates.
    MessageStart {
        message: Arc<Message>,
        /// Set if the message was queued, so that the queue can remove it.
        ticket: Option<QueueTicket>,
        /// The client's name for a message that it has sent.
        client_message_id: Option<Box<str>>,
    },
    /// The model's message grows.
    MessageUpdate(Update),
    /// The message is complete. It replaces whatever was shown before.
    MessageEnd {
        message: Arc<Message>,
    },
    ToolStart {
        call: Arc<ToolCall>,
    },
    /// Intermediate output of a tool; each update replaces the previous one.
    ToolUpdate {
        call: Arc<ToolCall>,
        partial: Box<ToolOutput>,
    },
    ToolEnd {
        call: Arc<ToolCall>,
        result: Box<ToolOutput>,
        is_error: bool,
        /// How long the tool ran; None if it did not run.
        duration_ms: Option<u64>,
    },
    /// Asks the client to run one of its own tools; its result names this `id`.
    HostToolCall {
        id: String,
        tool_call_id: String,
        tool_name: String,
        arguments: Box<Arguments>,
    },
    /// The result is no longer needed.
    HostToolCancel {
        id: String,
        target_id: String,
    },
    TurnEnd {
        message: Arc<Message>,
        results: Vec<Arc<Message>>,
    },
    /// The run is over. `messages` are those it added.
    AgentEnd {
        messages: Vec<Arc<Message>>,
        will_retry: bool,
    },
    /// Nothing more happens without a command.
    AgentSettled {
        /// An abort was requested before the run ended.
        aborted: bool,
    },
    /// The run failed with an error that may be temporary; it is retried after a delay.
    AutoRetryStart {
        attempt: u32,
        max_attempts: u32,
        delay_ms: u64,
        error_message: String,
    },
    /// Retrying is over, successfully or not.
    AutoRetryEnd {
        success: bool,
        attempt: u32,
        final_error: Option<String>,
    },
    /// The answer matched these rules and was stopped. Another run follows, with the rules added to
    /// the conversation.
    TtsrTriggered {
        rules: Vec<Arc<Rule>>,
    },
    /// A compaction starts.
    CompactionStart {
        reason: Reason,
    },
    /// A compaction ended. Without a result the conversation is unchanged, and there is an error
    /// unless it was aborted.
    CompactionEnd {
        reason: Reason,
        result: Option<Box<Compacted>>,
        aborted: bool,
        /// The run that did not fit is continued.
        will_retry: bool,
        error_message: Option<String>,
    },
    /// Progress while a summary is written; a branch summary has no reason.
    Summarization {
        reason: Option<Reason>,
        progress: Progress,
    },
    /// An entry that is not a message was appended to the session; its raw text.
    EntryAppended {
        entry: Box<RawValue>,
    },
    /// The model stopped although these tasks are not done; it is reminded and continues.
    TodoReminder {
        todos: Vec<TodoItem>,
        attempt: u32,
        max_attempts: u32,
    },
    /// A finished task was removed from the todo list.
    TodoAutoClear,
    /// An extension shows the user something, or asks.
    ExtensionUi {
        id: String,
        request: Box<UiRequest>,
    },
    /// An extension failed; everything else continues.
    ExtensionError {
        path: String,
        event: String,
        error: String,
    },
    /// The texts of the queued messages.
    QueueUpdate {
        steering: Vec<String>,
        follow_up: Vec<String>,
        /// The client's names for these messages, if one has a name.
        client_message_ids: Option<Box<ClientMessageIds>>,
    },
    /// What became of a message that the client has sent.
    PromptResult(Box<PromptResult>),
    /// A limit of the prompt ends the run.
    LimitReached(ReachedLimit),
    /// More output of a command that the client runs itself; `id` is the client's label for it.
    BashUpdate {
        id: Option<Box<RawValue>>,
        delta: String,
    },
    SessionInfoChanged {
        name: Option<String>,
    },
    /// The session could not be stored properly.
    SessionError {
        error: String,
    },
    ThinkingLevelChanged {
        level: ThinkingLevel,
    },
    /// The state or the tools of an MCP server have changed. All servers of the session.
    McpServersChange {
        servers: Vec<McpServerSummary>,
    },
}

impl Event {
    /// The start of a message that the client has given no name, or not yet.
    pub fn message_start(message: Arc<Message>, ticket: Option<QueueTicket>) -> Event {
        Event::MessageStart { message, ticket, client_message_id: None }
    }
}

/// The client's names for queued messages, in the order of the queues.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientMessageIds {
    pub steering: Vec<Option<String>>,
    pub follow_up: Vec<Option<String>>,
}

/// One step of a growing message. Snapshots are added by the wire levels that want them.
#[derive(Clone, Debug, PartialEq)]
pub enum Update {
    TextStart {
        index: usize,
    },
    TextDelta {
        index: usize,
        delta: String,
    },
    TextEnd {
        index: usize,
        content: String,
        signature: Option<String>,
    },
    ThinkingStart {
        index: usize,
    },
    ThinkingDelta {
        index: usize,
        delta: String,
    },
    ThinkingEnd {
        index: usize,
        content: String,
        signature: Option<String>,
        redacted: bool,
    },
    CallStart {
        index: usize,
        id: String,
        name: String,
    },
    CallDelta {
        index: usize,
        delta: String,
    },
    CallEnd {
        index: usize,
        call: Box<ToolCall>,
    },
    /// Not sent as a step; part of later snapshots.
    Usage(Box<Usage>),
    /// As with `Usage`.
    ResponseId(String),
    /// As with `Usage`.
    ResponseModel(String),
}
