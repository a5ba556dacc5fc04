//! Connects a run to the server: each event and each request of the run becomes an [`Input`].

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tiller_agent::driver::{
    Approval, CallDecision, CallOutcome, Driver, End, NotStored, Queue, Queued, RequestSetup,
};
use tiller_agent::event::Event;
use tiller_agent::limits::{NextStep, ReachedLimit};
use tiller_agent::message::{
    Arguments, Block, Content, Message, ToolCall, UnixMs, UserMessage, text_of,
};
use tiller_agent::provider::Request;
use tiller_agent::stream_rules::RuleMatch;
use tiller_agent::tool::{Failure, Tool};
use tiller_js::Extensions;
use tiller_js::hook::{Boundary, TurnEnd};
use tiller_tools::image::{Resize, normalise};
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;

use crate::approvals::{ApprovalSwitch, PendingCall};
use crate::budget::LimitSwitch;
use crate::clock::Clock;
use crate::extensions::boundary::TurnEntries;
use crate::extensions::hooks::{self, value};
use crate::server::Input;
use crate::tasks::{Responder, Tasks};
use crate::work::outcome;

pub(crate) struct RunHost {
    pub(crate) tasks: Tasks,
    pub(crate) clock: Clock,
    pub(crate) resize: Resize,
    /// For the hooks of the run.
    pub(crate) host: Option<Extensions>,
    pub(crate) cancel: CancellationToken,
    /// How many turns have ended.
    pub(crate) turns: AtomicU64,
    pub(crate) limits: LimitSwitch,
    pub(crate) approvals: ApprovalSwitch,
    /// Where the tools of the run work.
    pub(crate) cwd: Arc<PathBuf>,
}

/// What a run requests from the server.
pub enum RunRequest {
    Setup(Responder<RequestSetup>),
    Dequeue(Queue, Responder<Vec<Queued>>),
    Interrupted(Responder<bool>),
    /// The response is the limit that does not allow the step.
    CheckLimits(NextStep, Responder<Option<ReachedLimit>>),
    /// A message is complete. The response comes when it is stored and sent to the client.
    MessageEnded(Arc<Message>, Responder<Result<(), NotStored>>),
    /// Whether a call may run. The response may come when the user has answered.
    Approve(Box<PendingCall>, Responder<Approval>),
    /// Stream rules matched. The response is whether the model is interrupted.
    RulesMatched(Vec<RuleMatch>, Responder<bool>),
    /// The entries of the turn that is about to end.
    TurnEntries(Responder<TurnEntries>),
    /// What extensions append after a turn. The response is whether the model is asked again.
    Commit(Boundary, Responder<bool>),
    /// A turn has ended. The response is the conversation, if it has changed.
    AfterTurn(Responder<Option<Vec<Arc<Message>>>>),
    /// Another turn is about to start. The response is the conversation, if it was compacted.
    NextTurn(Responder<Option<Vec<Arc<Message>>>>),
    /// Whether another run follows this end, to retry or to continue.
    WillRetry(End, Responder<bool>),
    /// Responds when extensions have been sent all earlier events, before a hook is run.
    FlushEvents(Responder<()>),
    /// Responds when the client can take more output.
    Throttle(Responder<()>),
}

impl RunRequest {
    /// These wait while the client is far behind, because more output would follow the response.
    pub(crate) fn can_wait(&self) -> bool {
        matches!(self, RunRequest::Setup(_) | RunRequest::Throttle(_))
    }
}

impl RunHost {
    async fn ask<T>(&self, request: impl FnOnce(Responder<T>) -> RunRequest) -> T {
        let (sender, answer) = Responder::channel();
        self.tasks.send(Input::RunRequest(request(sender))).await;
        match answer.await {
            Ok(answer) => answer,
            // The server has ended, and this task is about to be dropped.
            Err(_) => std::future::pending().await,
        }
    }

    /// Converts the images of a message to formats and sizes that models accept. Notes about
    /// changed or omitted images follow the text.
    pub(crate) async fn presentable(&self, message: Arc<Message>) -> Arc<Message> {
        let Message::User(UserMessage { content: Content::Blocks(blocks), timestamp }) = &*message
        else {
            return message;
        };
        if !blocks.iter().any(|block| matches!(block, Block::Image { .. })) {
            return message;
        }
        let mut text = text_of(blocks);
        let mut images = Vec::new();
        let mut notes = Vec::new();
        for block in blocks {
            if let Block::Image { data, .. } = block {
                let normalised = normalise(data.clone(), self.resize).await;
                images.extend(normalised.image);
                notes.extend(normalised.notes);
            }
        }
        if !notes.is_empty() {
            let gap = if text.is_empty() { "" } else { "\n\n" };
            text = format!("{text}{gap}{}", notes.join("\n"));
        }
        Arc::new(Message::user(text, images, *timestamp))
    }

    /// The extensions, if one listens to this hook. All earlier events have been sent to them.
    async fn listeners(&self, name: &str) -> Option<&Extensions> {
        let host = self.host.as_ref().filter(|host| host.has_listener(name))?;
        self.ask(RunRequest::FlushEvents).await;
        Some(host)
    }
}

impl Driver for RunHost {
    async fn emit(&self, event: Event) {
        self.tasks.send(Input::Event(event)).await;
    }

    async fn setup(&self) -> RequestSetup {
        self.ask(RunRequest::Setup).await
    }

    async fn dequeue(&self, queue: Queue) -> Vec<Queued> {
        let mut queued = self.ask(|answer| RunRequest::Dequeue(queue, answer)).await;
        for Queued { message, .. } in &mut queued {
            *message = self.presentable(message.clone()).await;
        }
        queued
    }

    async fn before_turn_end(
        &self,
        message: &Arc<Message>,
        results: &[Arc<Message>],
        end: Option<&End>,
    ) -> bool {
        let turn_index = self.turns.fetch_add(1, Ordering::Relaxed);
        let Some(host) = self.listeners("turn_end").await else { return false };
        let entries = self.ask(RunRequest::TurnEntries).await;
        let turn = TurnEnd {
            turn_index,
            message: value(&**message),
            tool_results: results.iter().map(|result| value(&**result)).collect(),
            message_entry_id: entries.message,
            tool_result_entry_ids: entries.results,
            outcome: outcome(end),
        };
        // The failure has already been reported as `extension_error`.
        let proposal = hooks::ask(host, turn, &self.cancel).await.unwrap_or_default();
        if proposal == Boundary::default() {
            return false;
        }
        self.ask(|answer| RunRequest::Commit(proposal, answer)).await
    }

    async fn after_turn_end(&self) -> Option<Vec<Arc<Message>>> {
        match self.host {
            Some(_) => self.ask(RunRequest::AfterTurn).await,
            None => None,
        }
    }

    async fn before_next_turn(&self) -> Option<Vec<Arc<Message>>> {
        self.ask(RunRequest::NextTurn).await
    }

    async fn check_limits(&self, step: NextStep) -> Option<ReachedLimit> {
        if !self.limits.is_on() {
            return None;
        }
        self.ask(|answer| RunRequest::CheckLimits(step, answer)).await
    }

    async fn interrupted(&self) -> bool {
        self.ask(RunRequest::Interrupted).await
    }

    async fn on_rule_match(&self, matches: Vec<RuleMatch>) -> bool {
        self.ask(|answer| RunRequest::RulesMatched(matches, answer)).await
    }

    async fn prepare_request(&self, mut request: Request) -> Request {
        if let Some(host) = self.listeners("context").await {
            request.messages = hooks::shown(host, request.messages, &self.cancel).await;
        }
        match self.listeners("context_with_system").await {
            Some(host) => hooks::shown_whole(host, request, &self.cancel).await,
            None => request,
        }
    }

    async fn finalize_message(&self, message: Arc<Message>) -> Arc<Message> {
        match self.listeners("message_end").await {
            Some(host) => hooks::message_ends(host, message, &self.cancel).await,
            None => message,
        }
    }

    async fn message_ended(&self, message: Arc<Message>) -> Result<(), NotStored> {
        self.ask(|answer| RunRequest::MessageEnded(message, answer)).await
    }

    async fn before_call(&self, call: &Arc<ToolCall>, arguments: &Arguments) -> CallDecision {
        match self.listeners("tool_call").await {
            Some(host) => hooks::before_call(host, call, arguments, &self.cancel).await,
            None => CallDecision::Run,
        }
    }

    fn has_approvals(&self) -> bool {
        self.approvals.is_on()
    }

    async fn approve(&self, call: &Arc<ToolCall>, tool: &Tool, arguments: &Arguments) -> Approval {
        let (call, tool, arguments) = (call.clone(), tool.clone(), arguments.clone());
        let (cwd, cancel) = (self.cwd.clone(), self.cancel.child_token());
        // The question ends with this call, also where no answer has come.
        let _question = cancel.clone().drop_guard();
        let looked =
            spawn_blocking(move || PendingCall::new(call, &tool, arguments, &cwd, cancel)).await;
        let pending = match looked {
            Ok(pending) => Box::new(pending),
            Err(crash) => return Approval::Denied(format!("internal error: {crash}")),
        };
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => Approval::Denied(Failure::aborted().message),
            approval = self.ask(|answer| RunRequest::Approve(pending, answer)) => approval,
        }
    }

    async fn after_call(
        &self,
        call: &Arc<ToolCall>,
        arguments: &Arguments,
        outcome: CallOutcome,
    ) -> CallOutcome {
        match self.listeners("tool_result").await {
            Some(host) => hooks::after_call(host, call, arguments, outcome, &self.cancel).await,
            None => outcome,
        }
    }

    async fn will_retry(&self, end: &End) -> bool {
        let end = end.clone();
        self.ask(|answer| RunRequest::WillRetry(end, answer)).await
    }

    fn now(&self) -> UnixMs {
        self.clock.now()
    }
}
