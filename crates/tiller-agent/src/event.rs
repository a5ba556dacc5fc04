//! What happens, in the order it happens: the one stream of events that every wire level writes
//! in its own way.
//!
//! Events come in pairs and nest:
//!
//! ```text
//! agent_start
//!   turn_start
//!     message_start, message_end                      what the user said
//!     message_start, message_update…, message_end     what the model says
//!     tool_execution_start, _update…, _end            what it has done
//!     message_start, message_end                      the results, in the order of the calls
//!   turn_end
//! agent_end
//! agent_settled
//! ```

use std::sync::Arc;

use serde_json::value::RawValue;

use crate::compaction::summary::Progress;
use crate::compaction::{Compacted, Reason};
use crate::driver::QueueTicket;
use crate::message::{Arguments, Message, ToolCall, Usage};
use crate::model::ThinkingLevel;
use crate::stream_rules::Rule;
use crate::todo::TodoItem;
use crate::tool::ToolOutput;

/// It is moved from hand to hand thousands of times in an answer, so what is large is boxed.
#[derive(Clone, Debug)]
pub enum Event {
    AgentStart,
    TurnStart,
    /// A message enters the conversation. The model's own starts empty and is filled by updates.
    MessageStart {
        message: Arc<Message>,
        /// Set when the message waited in a queue, so that the queue can let go of it.
        ticket: Option<QueueTicket>,
    },
    /// The model's message grows.
    MessageUpdate(Update),
    /// The message is complete. Whatever was shown before, this is what counts.
    MessageEnd {
        message: Arc<Message>,
    },
    ToolStart {
        call: Arc<ToolCall>,
    },
    /// A tool shows what it has so far; each update replaces the one before.
    ToolUpdate {
        call: Arc<ToolCall>,
        partial: Box<ToolOutput>,
    },
    ToolEnd {
        call: Arc<ToolCall>,
        result: Box<ToolOutput>,
        is_error: bool,
        /// How long the tool ran; nothing if it never did.
        duration_ms: Option<u64>,
    },
    /// The client is asked to run one of its own tools; its answer names this `id`.
    HostToolCall {
        id: String,
        tool_call_id: String,
        tool_name: String,
        arguments: Box<Arguments>,
    },
    /// Nobody waits for that answer any more.
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
    /// Nothing more happens by itself.
    AgentSettled {
        /// An abort was asked for before the run had ended.
        aborted: bool,
    },
    /// The run failed in a way that may pass; it is tried again after a pause.
    AutoRetryStart {
        attempt: u32,
        max_attempts: u32,
        delay_ms: u64,
        error_message: String,
    },
    /// The trying is over, one way or the other.
    AutoRetryEnd {
        success: bool,
        attempt: u32,
        final_error: Option<String>,
    },
    /// What the model says met these rules, and it was stopped. It is told them, and another run
    /// follows.
    TtsrTriggered {
        rules: Vec<Arc<Rule>>,
    },
    /// The conversation is being shortened.
    CompactionStart {
        reason: Reason,
    },
    /// It was, or it stays as it was: then there is no result, and an error unless it was
    /// aborted.
    CompactionEnd {
        reason: Reason,
        result: Option<Box<Compacted>>,
        aborted: bool,
        /// The run that did not fit goes on.
        will_retry: bool,
        error_message: Option<String>,
    },
    /// Something happened while a summary was written; that of a branch has no reason.
    Summarization {
        reason: Option<Reason>,
        progress: Progress,
    },
    /// An entry that is no message was added to the session; its text as it stands there.
    EntryAppended {
        entry: Box<RawValue>,
    },
    /// The model has stopped although these are not done; it is told so and goes on.
    TodoReminder {
        todos: Vec<TodoItem>,
        attempt: u32,
        max_attempts: u32,
    },
    /// A finished task has left the todo list.
    TodoAutoClear,
    /// An extension shows the user something, or asks; the fields of the record in `request`.
    ExtensionUi {
        id: String,
        request: Box<RawValue>,
    },
    /// An extension failed at something; everything else goes on.
    ExtensionError {
        path: String,
        event: String,
        error: String,
    },
    /// What is waiting to be said, as texts.
    QueueUpdate {
        steering: Vec<String>,
        follow_up: Vec<String>,
    },
    /// More output of a command the client runs itself; `id` is the client's label for it.
    BashUpdate {
        id: Option<Box<RawValue>>,
        delta: String,
    },
    SessionInfoChanged {
        name: Option<String>,
    },
    /// The session could not be kept on disk as it should be.
    SessionError {
        error: String,
    },
    ThinkingLevelChanged {
        level: ThinkingLevel,
    },
}

/// One step of a growing message. Only the step: snapshots are the wire's affair.
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
    /// Not a step of its own on the wire; later snapshots show it.
    Usage(Box<Usage>),
    /// Likewise.
    ResponseId(String),
    /// Likewise.
    ResponseModel(String),
}
