//! Whoever runs the loop. The loop asks it what to do next and tells it what happened; where an
//! extension will one day have a say, there is a question here.

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;

use crate::event::Event;
use crate::message::{Arguments, Message, ToolCall, UnixMs};
use crate::model::{Model, ThinkingLevel};
use crate::provider::{Provider, ProviderError, Request};
use crate::stream_rules::{RuleMatch, RuleSet};
use crate::tool::{ToolOutput, ToolSet};

pub trait Driver: Send + Sync + 'static {
    /// Something happened. Events are told in order, and the loop waits until each is taken.
    fn emit(&self, event: Event) -> impl Future<Output = ()> + Send;

    /// With what the next request is made. Asked before each one, so that a change of model or
    /// tools in the middle of a run applies from the next request on.
    fn setup(&self) -> impl Future<Output = RequestSetup> + Send;

    /// Messages to say now. An empty answer means there are none.
    fn dequeue(&self, queue: Queue) -> impl Future<Output = Vec<Queued>> + Send;

    /// A turn is over and about to be told; `end` is there when the run is over with it. Whether
    /// the model is asked again in any case.
    fn before_turn_end(
        &self,
        message: &Arc<Message>,
        results: &[Arc<Message>],
        end: Option<&End>,
    ) -> impl Future<Output = bool> + Send;

    /// A turn was told. A host that has added to the conversation, or changed it, gives the new
    /// one.
    fn after_turn_end(&self) -> impl Future<Output = Option<Vec<Arc<Message>>>> + Send;

    /// Another turn is about to begin. A host that has shortened the conversation in between
    /// gives the new one, and the run goes on with that.
    fn before_next_turn(&self) -> impl Future<Output = Option<Vec<Arc<Message>>>> + Send;

    /// Whether steering waits and the client wants the rest of this turn's tools dropped for it.
    fn interrupted(&self) -> impl Future<Output = bool> + Send;

    /// One request, as the model is to see it.
    fn prepare_request(&self, request: Request) -> impl Future<Output = Request> + Send;

    /// The last word on a message, before anybody hears that it is complete.
    fn finalize_message(&self, message: Arc<Message>) -> impl Future<Output = Arc<Message>> + Send;

    /// The message is complete. The host stores it and tells of it; an error says why it could not
    /// be stored, and then it was not told either.
    fn message_ended(
        &self,
        message: Arc<Message>,
    ) -> impl Future<Output = Result<(), NotStored>> + Send {
        async move {
            self.emit(Event::MessageEnd { message }).await;
            Ok(())
        }
    }

    /// What the model says has met rules. Whether it is stopped for that.
    fn on_rule_match(&self, matches: Vec<RuleMatch>) -> impl Future<Output = bool> + Send;

    /// The last word on a call whose arguments are in order.
    fn before_call(
        &self,
        call: &Arc<ToolCall>,
        arguments: &Arguments,
    ) -> impl Future<Output = CallDecision> + Send;

    /// The last word on what a call gave; `arguments` are those it ran with.
    fn after_call(
        &self,
        call: &Arc<ToolCall>,
        arguments: &Arguments,
        outcome: CallOutcome,
    ) -> impl Future<Output = CallOutcome> + Send;

    /// Whether another run will follow by itself to do better than one that ended like this.
    fn will_retry(&self, end: &End) -> impl Future<Output = bool> + Send;

    /// The time to put on a message.
    fn now(&self) -> UnixMs;
}

/// What one request is made with.
#[derive(Clone)]
pub struct RequestSetup {
    pub provider: Arc<dyn Provider>,
    pub model: Arc<Model>,
    pub thinking: ThinkingLevel,
    pub system: Arc<str>,
    pub tools: Arc<ToolSet>,
    /// The one that the answer has to call.
    pub forced_tool: Option<String>,
    pub session_id: Arc<str>,
    pub cwd: Arc<PathBuf>,
    /// Told to the children that tools start.
    pub env: Arc<[(String, String)]>,
    /// The rules that watch the answer.
    pub rules: Option<Arc<RuleSet>>,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq)]
pub enum End {
    /// The model had nothing more to do.
    Complete,
    Failed(ProviderError),
    Aborted,
    /// A rule stopped the model.
    Interrupted,
    /// A message of the run could not be stored. What is not stored is not part of the
    /// conversation, so there is nothing to go on from.
    NotStored(NotStored),
}

/// Why a message could not be stored, in words for the client.
#[derive(Clone, Debug, PartialEq)]
pub struct NotStored(pub String);

/// The two queues a message can wait in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// Said as soon as the tools of a turn are done.
    Steering,
    /// Said when the run would otherwise end.
    FollowUp,
}

/// A message that waited, with the ticket by which its queue knows it.
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
    /// Not run; the model is told why.
    Block {
        reason: String,
        /// The model need not be asked again, if every result of the turn says so.
        ends_run: bool,
    },
}

/// What a call gave, as it will be told to client and model.
#[derive(Clone, Debug, PartialEq)]
pub struct CallOutcome {
    pub output: ToolOutput,
    pub is_error: bool,
}
