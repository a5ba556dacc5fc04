//! The interface between the agent loop and the code that runs it. The loop emits events through it
//! and asks for decisions: queued messages, hooks, retries.

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;

use crate::event::Event;
use crate::limits::{LimitName, NextStep, ProcessLimits, ReachedLimit};
use crate::message::{Arguments, Message, ToolCall, UnixMs};
use crate::model::{Model, ThinkingLevel};
use crate::provider::{Provider, ProviderError, Request};
use crate::sandbox::Confinement;
use crate::stream_rules::{RuleMatch, RuleSet};
use crate::tool::{Tool, ToolOutput, ToolSet};

pub trait Driver: Send + Sync + 'static {
    /// Emits an event. Events are in order, and the loop waits until each is accepted.
    fn emit(&self, event: Event) -> impl Future<Output = ()> + Send;

    /// The setup of the next request. Called before each request, so that a change of model or
    /// tools during a run applies from the next request on.
    fn setup(&self) -> impl Future<Output = RequestSetup> + Send;

    /// Takes messages from a queue. Empty if there are none.
    fn dequeue(&self, queue: Queue) -> impl Future<Output = Vec<Queued>> + Send;

    /// Called at the end of a turn, before `turn_end` is emitted; `end` is set if the run ends with
    /// it. Returns whether to send another request in any case.
    fn before_turn_end(
        &self,
        message: &Arc<Message>,
        results: &[Arc<Message>],
        end: Option<&End>,
    ) -> impl Future<Output = bool> + Send;

    /// Called after `turn_end` was emitted. Returns the new conversation if the host has changed
    /// it.
    fn after_turn_end(&self) -> impl Future<Output = Option<Vec<Arc<Message>>>> + Send;

    /// Called before another turn begins. Returns the new conversation if the host has compacted
    /// it.
    fn before_next_turn(&self) -> impl Future<Output = Option<Vec<Arc<Message>>>> + Send;

    /// Called before each turn, and before the tool calls of an answer. Returns the limit that does
    /// not allow the step; the run ends with it.
    fn check_limits(&self, _step: NextStep) -> impl Future<Output = Option<ReachedLimit>> + Send {
        async { None }
    }

    /// Whether a steering message is waiting and the client wants the remaining tools of this turn
    /// skipped for it.
    fn interrupted(&self) -> impl Future<Output = bool> + Send;

    /// Lets hooks change a request before it is sent.
    fn prepare_request(&self, request: Request) -> impl Future<Output = Request> + Send;

    /// Lets hooks change a message before its end is announced.
    fn finalize_message(&self, message: Arc<Message>) -> impl Future<Output = Arc<Message>> + Send;

    /// Called when a message is complete. The host stores it and emits its end; if storing fails,
    /// it is not emitted.
    fn message_ended(
        &self,
        message: Arc<Message>,
    ) -> impl Future<Output = Result<(), NotStored>> + Send {
        async move {
            self.emit(Event::MessageEnd { message }).await;
            Ok(())
        }
    }

    /// Called when stream rules match. Returns whether to stop the answer.
    fn on_rule_match(&self, matches: Vec<RuleMatch>) -> impl Future<Output = bool> + Send;

    /// Lets hooks decide about a call with valid arguments.
    fn before_call(
        &self,
        call: &Arc<ToolCall>,
        arguments: &Arguments,
    ) -> impl Future<Output = CallDecision> + Send;

    /// Whether calls may need an approval. Then a call starts with its decision, not before.
    fn has_approvals(&self) -> bool {
        false
    }

    /// Decides whether a call may run with these arguments, which hooks have seen before. May wait
    /// for the user.
    fn approve(
        &self,
        _call: &Arc<ToolCall>,
        _tool: &Tool,
        _arguments: &Arguments,
    ) -> impl Future<Output = Approval> + Send {
        async { Approval::Granted }
    }

    /// Lets hooks change the result of a call; `arguments` are those it ran with.
    fn after_call(
        &self,
        call: &Arc<ToolCall>,
        arguments: &Arguments,
        outcome: CallOutcome,
    ) -> impl Future<Output = CallOutcome> + Send;

    /// Whether another run will follow automatically after one that ended like this.
    fn will_retry(&self, end: &End) -> impl Future<Output = bool> + Send;

    /// The timestamp for a new message.
    fn now(&self) -> UnixMs;
}

/// The setup of one request.
#[derive(Clone)]
pub struct RequestSetup {
    pub provider: Arc<dyn Provider>,
    pub model: Arc<Model>,
    pub thinking: ThinkingLevel,
    pub system: Arc<str>,
    pub tools: Arc<ToolSet>,
    /// The tool that the answer must call.
    pub forced_tool: Option<String>,
    pub session_id: Arc<str>,
    pub cwd: Arc<PathBuf>,
    /// Environment variables for the processes that tools start.
    pub env: Arc<[(String, String)]>,
    /// Limits of these processes.
    pub process_limits: ProcessLimits,
    /// Where the work of tools runs, if there is a sandbox.
    pub confinement: Option<Arc<dyn Confinement>>,
    /// The stream rules that the answer is matched against.
    pub rules: Option<Arc<RuleSet>>,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq)]
pub enum End {
    /// The model has finished.
    Complete,
    Failed(ProviderError),
    Aborted,
    /// A stream rule stopped the answer.
    Interrupted,
    /// A limit of the prompt is reached.
    Limit(LimitName),
    /// A message of the run could not be stored. It is not part of the conversation, so the run
    /// cannot continue.
    NotStored(NotStored),
}

/// Why a message could not be stored, as a text for the client.
#[derive(Clone, Debug, PartialEq)]
pub struct NotStored(pub String);

/// The two message queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// Delivered as soon as the tools of a turn are done.
    Steering,
    /// Delivered when the run would otherwise end.
    FollowUp,
}

/// A queued message, with the ticket that identifies it in its queue.
#[derive(Clone, Debug)]
pub struct Queued {
    pub ticket: QueueTicket,
    pub message: Arc<Message>,
}

/// Identity of a queued message: two equal texts are still two messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct QueueTicket(pub u64);

#[derive(Clone, Debug, PartialEq)]
pub enum CallDecision {
    Run,
    /// Run with other arguments.
    RunWith(Arguments),
    /// Do not run; the reason becomes the result.
    Block {
        reason: String,
        /// End the run without another request, if every result of the turn says so.
        ends_run: bool,
    },
}

/// Whether a call may run.
#[derive(Clone, Debug, PartialEq)]
pub enum Approval {
    Granted,
    /// The text becomes the result.
    Denied(String),
}

/// The result of a call, as sent to the client and the model.
#[derive(Clone, Debug, PartialEq)]
pub struct CallOutcome {
    pub output: ToolOutput,
    pub is_error: bool,
}
