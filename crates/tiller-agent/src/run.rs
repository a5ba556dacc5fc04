//! A run: from a prompt until there is nothing left to do.
//!
//! One turn is one answer of the model and its tool calls. Turns follow each other while the model
//! calls tools or messages are queued. The loop keeps its own copy of the conversation and reports
//! everything to the [`Driver`] in order; it has no state that outlives it.

use std::sync::Arc;

use futures_util::StreamExt;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::calls::{Calls, TurnResults};
use crate::driver::{Driver, End, NotStored, Queue, QueueTicket, Queued, RequestSetup};
use crate::event::Event;
use crate::limits::{NextStep, ReachedLimit};
use crate::message::{AssistantMessage, Message, StopReason, ToolCall};
use crate::message_builder::{MessageBuilder, Step};
use crate::provider::{ProviderError, Request};
use crate::stream_rules::RuleMatcher;

/// Runs until there is nothing left to do. `prompts` may be empty: then the model continues the
/// conversation, with queued steering messages; if the conversation needs no answer, the follow-ups
/// are sent.
pub async fn run<H: Driver>(
    host: &H,
    history: Vec<Arc<Message>>,
    prompts: Vec<Arc<Message>>,
    cancel: CancellationToken,
) -> End {
    let last = history.last();
    let is_answered = last.is_none_or(|message| message.as_assistant().is_some());
    let needs_message = prompts.is_empty() && is_answered;
    let start = if needs_message { Start::Queued } else { Start::Prompts(prompts) };
    run_from(host, history, start, cancel).await
}

/// Runs with the queued messages, also if the model has not answered the results of its last calls.
pub async fn run_queued<H: Driver>(
    host: &H,
    history: Vec<Arc<Message>>,
    cancel: CancellationToken,
) -> End {
    run_from(host, history, Start::Queued, cancel).await
}

/// What a run starts with.
enum Start {
    /// These messages, or the conversation as it is if there are none.
    Prompts(Vec<Arc<Message>>),
    Queued,
}

async fn run_from<H: Driver>(
    host: &H,
    history: Vec<Arc<Message>>,
    start: Start,
    cancel: CancellationToken,
) -> End {
    let mut run = Run { host, cancel, context: history, added: Vec::new() };
    host.emit(Event::AgentStart).await;
    let end = run.turns(start).await;
    let will_retry = host.will_retry(&end).await;
    host.emit(Event::AgentEnd { messages: run.added, will_retry }).await;
    end
}

struct Run<'a, H> {
    host: &'a H,
    cancel: CancellationToken,
    /// The conversation as sent to the model.
    context: Vec<Arc<Message>>,
    /// The messages that this run added.
    added: Vec<Arc<Message>>,
}

impl<H: Driver> Run<'_, H> {
    async fn turns(&mut self, start: Start) -> End {
        let mut waiting = Vec::new();
        let mut step = NextStep::Turn;
        let prompts = match start {
            Start::Prompts(prompts) => prompts,
            Start::Queued => {
                (waiting, step) = self.next_queued().await;
                if waiting.is_empty() {
                    // The queued messages were removed meanwhile.
                    return End::Complete;
                }
                Vec::new()
            }
        };
        if let Some(end) = self.check_limits(step).await {
            return end;
        }
        self.host.emit(Event::TurnStart).await;
        for message in prompts {
            if let Err(why) = self.append(message, None).await {
                return self.not_stored(why).await;
            }
        }
        if waiting.is_empty() {
            waiting = self.host.dequeue(Queue::Steering).await;
        }
        loop {
            if !self.cancel.is_cancelled()
                && let Err(why) = self.append_queued(waiting).await
            {
                return self.not_stored(why).await;
            }
            let (continues, end) = self.turn().await;
            if let Some(end) = end {
                return end;
            }
            if continues {
                (waiting, step) = (self.host.dequeue(Queue::Steering).await, NextStep::Turn);
            } else {
                (waiting, step) = self.next_queued().await;
                if waiting.is_empty() {
                    return End::Complete;
                }
            }
            if let Some(end) = self.check_limits(step).await {
                return end;
            }
            if let Some(context) = self.host.before_next_turn().await {
                self.context = context;
                // A compaction takes time.
                if let Some(end) = self.check_limits(step).await {
                    return end;
                }
            }
            if self.cancel.is_cancelled() {
                return End::Aborted;
            }
            self.host.emit(Event::TurnStart).await;
        }
    }

    /// Steering messages, or else follow-ups, which are prompts of their own.
    async fn next_queued(&self) -> (Vec<Queued>, NextStep) {
        let steering = self.host.dequeue(Queue::Steering).await;
        if steering.is_empty() {
            (self.host.dequeue(Queue::FollowUp).await, NextStep::Prompt)
        } else {
            (steering, NextStep::Turn)
        }
    }

    /// The end of the run, if a limit does not allow the next turn. No turn is open.
    async fn check_limits(&self, step: NextStep) -> Option<End> {
        let reached = self.reached_limit(step).await?;
        Some(End::Limit(reached.limit))
    }

    /// The limit that does not allow the next step, which the client is told.
    async fn reached_limit(&self, step: NextStep) -> Option<ReachedLimit> {
        if self.cancel.is_cancelled() {
            return None;
        }
        let reached = self.host.check_limits(step).await?;
        self.host.emit(Event::LimitReached(reached)).await;
        Some(reached)
    }

    /// One answer and its tool calls. Returns whether to send another request; an `End` means that
    /// there is no next turn.
    async fn turn(&mut self) -> (bool, Option<End>) {
        let setup = self.host.setup().await;
        let (message, end) = self.answer(&setup).await;
        let stop_reason = message.stop_reason;
        let message = self.host.finalize_message(Arc::new(Message::Assistant(message))).await;
        let calls = message.as_assistant().into_iter().flat_map(|answer| answer.tool_calls());
        let calls: Vec<_> = calls.cloned().map(Arc::new).collect();
        if let Err(why) = self.host.message_ended(message.clone()).await {
            return (false, Some(self.not_stored(why).await));
        }
        self.add(message.clone());

        let calls_tools = !calls.is_empty();
        let are_run = end.is_none() && stop_reason != StopReason::Length && calls_tools;
        let batch = NextStep::ToolCalls(calls.len() as u64);
        let limit = if are_run { self.reached_limit(batch).await } else { None };
        let TurnResults { results, ends_run, not_stored } = match (&end, &limit) {
            (Some(End::Interrupted), _) => self.calls(&setup).decline(calls, stopped).await,
            (_, Some(reached)) => self.calls(&setup).decline(calls, |_| over_limit(reached)).await,
            _ => self.call(&setup, stop_reason, calls).await,
        };
        for result in &results {
            self.add(result.clone());
        }
        if let Some(why) = not_stored {
            self.host.emit(Event::TurnEnd { message, results }).await;
            return (false, Some(End::NotStored(why)));
        }
        let end = end.or(limit.map(|reached| End::Limit(reached.limit)));
        let end = end.or_else(|| self.aborted());
        let is_wanted = self.host.before_turn_end(&message, &results, end.as_ref()).await;
        self.host.emit(Event::TurnEnd { message, results }).await;
        if let Some(context) = self.host.after_turn_end().await {
            self.context = context;
        }
        let continues = is_wanted || (calls_tools && !ends_run);
        (continues, end.or_else(|| self.aborted()))
    }

    fn aborted(&self) -> Option<End> {
        self.cancel.is_cancelled().then_some(End::Aborted)
    }

    /// Streams one answer. On an error, the message contains it.
    async fn answer(&self, setup: &RequestSetup) -> (AssistantMessage, Option<End>) {
        let assembly = MessageBuilder::new(setup.model.clone(), self.host.now());
        let mut assembly = assembly.with_thinking(setup.thinking);
        let mut started = false;
        let began = Instant::now();
        let failure = self.stream(setup, &mut assembly, &mut started).await.err();
        let mut message = match &failure {
            None => assembly.complete(),
            Some(End::Failed(error)) => assembly.cut(StopReason::Error, error.to_string()),
            Some(End::Interrupted) => assembly.cut(StopReason::Aborted, STOPPED.to_owned()),
            Some(_) => assembly.cut(StopReason::Aborted, abort_text(started).to_owned()),
        };
        if let Some(End::Failed(error)) = &failure {
            message.error_hint = error.hint().map(str::to_owned);
        }
        message.duration_ms = Some(began.elapsed().as_millis() as u64);
        if !started {
            // The model sent nothing: the message starts and ends empty.
            self.emit_start(message.clone()).await;
        }
        (message, failure)
    }

    async fn stream(
        &self,
        setup: &RequestSetup,
        assembly: &mut MessageBuilder,
        started: &mut bool,
    ) -> Result<(), End> {
        let mut stream = setup.provider.stream(self.request(setup).await);
        let rules = setup.rules.clone();
        let mut watch = rules.map(|rules| RuleMatcher::new(rules, setup.cwd.clone()));
        let cancelled = self.cancel.cancelled();
        tokio::pin!(cancelled);
        loop {
            // Checks the token first: `select!` would only see it when it has to wait.
            if self.cancel.is_cancelled() {
                return Err(End::Aborted);
            }
            let next = tokio::select! {
                biased;
                next = stream.next() => next,
                () = &mut cancelled => return Err(End::Aborted),
            };
            let event = next.ok_or_else(ProviderError::incomplete).flatten();
            match event.and_then(|event| assembly.push(event)).map_err(End::Failed)? {
                Step::Started => {
                    *started = true;
                    self.emit_start(assembly.skeleton()).await;
                }
                Step::Grew(update) => {
                    let met = watch.as_mut().map(|watch| watch.read(&update)).unwrap_or_default();
                    self.host.emit(Event::MessageUpdate(update)).await;
                    if !met.is_empty() && self.host.on_rule_match(met).await {
                        return Err(End::Interrupted);
                    }
                }
                Step::Ignored => {}
                Step::Complete => return Ok(()),
            }
        }
    }

    async fn request(&self, setup: &RequestSetup) -> Request {
        let request = Request {
            model: setup.model.clone(),
            system: setup.system.clone(),
            messages: self.context.clone(),
            tools: setup.tools.specs(),
            forced_tool: setup.forced_tool.clone(),
            thinking: setup.thinking,
            temperature: None,
            session_id: setup.session_id.clone(),
        };
        self.host.prepare_request(request).await
    }

    async fn call(
        &self,
        setup: &RequestSetup,
        stop_reason: StopReason,
        calls: Vec<Arc<ToolCall>>,
    ) -> TurnResults {
        let batch = self.calls(setup);
        match stop_reason {
            StopReason::Length => batch.decline(calls, cut_off).await,
            // Calls of a failed message get results too: a call without a result would make the
            // conversation unusable.
            StopReason::Aborted => batch.answer_aborted(calls).await,
            StopReason::Error => batch.decline(calls, incomplete_call).await,
            _ => batch.run(calls).await,
        }
    }

    fn calls<'a>(&'a self, setup: &'a RequestSetup) -> Calls<'a, H> {
        Calls { host: self.host, setup, cancel: &self.cancel }
    }

    async fn append(
        &mut self,
        message: Arc<Message>,
        ticket: Option<QueueTicket>,
    ) -> Result<(), NotStored> {
        self.host.emit(Event::message_start(message.clone(), ticket)).await;
        let message = self.host.finalize_message(message).await;
        self.host.message_ended(message.clone()).await?;
        self.add(message);
        Ok(())
    }

    async fn append_queued(&mut self, queued: Vec<Queued>) -> Result<(), NotStored> {
        for Queued { ticket, message } in queued {
            self.append(message, Some(ticket)).await?;
        }
        Ok(())
    }

    /// Ends a turn without an answer, because a message could not be stored.
    async fn not_stored(&self, why: NotStored) -> End {
        let setup = self.host.setup().await;
        let answer = MessageBuilder::new(setup.model.clone(), self.host.now());
        let message = Message::Assistant(answer.cut(StopReason::Error, why.0.clone()));
        self.host.emit(Event::TurnEnd { message: Arc::new(message), results: Vec::new() }).await;
        End::NotStored(why)
    }

    async fn emit_start(&self, message: AssistantMessage) {
        let message = Arc::new(Message::Assistant(message));
        self.host.emit(Event::message_start(message, None)).await;
    }

    fn add(&mut self, message: Arc<Message>) {
        self.context.push(message.clone());
        self.added.push(message);
    }
}

fn abort_text(started: bool) -> &'static str {
    if started { "This operation was aborted" } else { "Request was aborted." }
}

/// The error text that clients of xcsh expect for an answer stopped by a rule.
const STOPPED: &str = "Request was aborted";

fn stopped(_: &ToolCall) -> String {
    format!("Tool execution was aborted: {STOPPED}")
}

fn incomplete_call(call: &ToolCall) -> String {
    format!(
        "Tool call \"{}\" was not executed: the response failed before it was complete.",
        call.name
    )
}

fn over_limit(reached: &ReachedLimit) -> String {
    format!("Tool call was not executed: {reached}.")
}

fn cut_off(call: &ToolCall) -> String {
    format!(
        "Tool call \"{}\" was not executed: the response hit the output token limit, so its \
         arguments may be truncated. Re-issue the tool call with complete arguments.",
        call.name
    )
}
