//! The tool calls of one turn: prepared in order, run in parallel, results added in order. If one
//! of the tools is sequential, all calls of the turn run one after another.
//!
//! Every call gets a result, whatever happens to it: providers refuse a conversation with an
//! unanswered call.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::arguments;
use crate::driver::{Approval, CallDecision, CallOutcome, Driver, NotStored, RequestSetup};
use crate::event::Event;
use crate::message::{Arguments, Block, Message, ToolCall, ToolResultMessage};
use crate::tool::{Failure, Tool, ToolContext, ToolFuture, ToolOutput, ToolResult};

/// How long a cancelled tool may take to return before it is abandoned. Shorter than the time a
/// host waits at shutdown, so that the run still ends with all its events.
const GRACE: Duration = Duration::from_secs(1);

/// One turn's calls and what they run with.
pub(crate) struct Calls<'a, H> {
    pub(crate) host: &'a H,
    pub(crate) setup: &'a RequestSetup,
    pub(crate) cancel: &'a CancellationToken,
}

/// The results of a turn's calls.
pub(crate) struct TurnResults {
    /// As messages, in the order of the calls.
    pub(crate) results: Vec<Arc<Message>>,
    /// Every result asks to end the run without another request.
    pub(crate) ends_run: bool,
    /// A result could not be stored. It and those after it are not in `results`; the host has them
    /// and stores them when it can.
    pub(crate) not_stored: Option<NotStored>,
}

/// A call with valid arguments.
struct PreparedCall {
    index: usize,
    call: Arc<ToolCall>,
    arguments: Arguments,
    work: ToolFuture,
    shown: watch::Receiver<Option<ToolOutput>>,
}

impl<H: Driver> Calls<'_, H> {
    pub(crate) async fn run(&self, calls: Vec<Arc<ToolCall>>) -> TurnResults {
        let runs_alone = |call: &Arc<ToolCall>| {
            self.setup.tools.get(&call.name).is_some_and(|tool| tool.sequential)
        };
        if calls.iter().any(runs_alone) {
            return self.run_one_by_one(calls).await;
        }
        let mut outcomes: Vec<Option<Ended>> = calls.iter().map(|_| None).collect();
        let stop = self.cancel.child_token();
        let mut prepared = Vec::new();
        for (index, call) in calls.iter().enumerate() {
            match self.start(index, call, &stop).await {
                Ok(ready) => prepared.push(ready),
                Err(outcome) => outcomes[index] = Some(self.end(call, outcome, None).await),
            }
        }
        self.run_together(prepared, &stop, &mut outcomes).await;
        self.answer(calls, outcomes).await
    }

    /// Runs each call and adds its result before the next one starts.
    async fn run_one_by_one(&self, calls: Vec<Arc<ToolCall>>) -> TurnResults {
        let results = Vec::with_capacity(calls.len());
        let mut answers = TurnResults { results, ends_run: true, not_stored: None };
        let stop = self.cancel.child_token();
        let mut skipping = false;
        for call in calls {
            let mut outcomes = vec![None];
            if skipping {
                self.host.emit(Event::ToolStart { call: call.clone() }).await;
                outcomes[0] = Some(self.end(&call, refused(skipped()), None).await);
            } else {
                match self.start(0, &call, &stop).await {
                    Ok(ready) => self.run_together(vec![ready], &stop, &mut outcomes).await,
                    Err(outcome) => outcomes[0] = Some(self.end(&call, outcome, None).await),
                }
                skipping = self.host.interrupted().await;
            }
            let answered = self.answer(vec![call], outcomes).await;
            answers.results.extend(answered.results);
            answers.ends_run &= answered.ends_run;
            answers.not_stored = answers.not_stored.or(answered.not_stored);
        }
        answers
    }

    /// Adds error results for calls that are not run.
    pub(crate) async fn decline(
        &self,
        calls: Vec<Arc<ToolCall>>,
        why: impl Fn(&ToolCall) -> String,
    ) -> TurnResults {
        let mut outcomes = Vec::with_capacity(calls.len());
        for call in &calls {
            self.host.emit(Event::ToolStart { call: call.clone() }).await;
            outcomes.push(Some(self.end(call, refused(Failure::new(why(call))), None).await));
        }
        self.answer(calls, outcomes).await
    }

    /// Adds results for the calls of an aborted answer. They never started, so there are no tool
    /// execution events.
    pub(crate) async fn answer_aborted(&self, calls: Vec<Arc<ToolCall>>) -> TurnResults {
        let outcomes = calls.iter().map(|_| Some(Ended::aborted())).collect();
        self.answer(calls, outcomes).await
    }

    /// Emits the start of a call and prepares it. Where calls need approvals, a call starts when
    /// it is decided: a client that shows a call as running can rely on that.
    async fn start(
        &self,
        index: usize,
        call: &Arc<ToolCall>,
        stop: &CancellationToken,
    ) -> Result<PreparedCall, CallOutcome> {
        if self.host.has_approvals() {
            let prepared = self.prepare(index, call, stop).await;
            self.host.emit(Event::ToolStart { call: call.clone() }).await;
            return prepared;
        }
        self.host.emit(Event::ToolStart { call: call.clone() }).await;
        self.prepare(index, call, stop).await
    }

    async fn prepare(
        &self,
        index: usize,
        call: &Arc<ToolCall>,
        stop: &CancellationToken,
    ) -> Result<PreparedCall, CallOutcome> {
        let tool = self.setup.tools.get(&call.name);
        let unknown = || refused(Failure::new(format!("Tool {} not found", call.name)));
        let tool = tool.ok_or_else(unknown)?;
        let arguments = checked(tool, call).await.map_err(refused)?;
        let arguments = match self.host.before_call(call, &arguments).await {
            CallDecision::Run => arguments,
            CallDecision::RunWith(arguments) => arguments,
            CallDecision::Block { reason, ends_run } => {
                let mut outcome = refused(Failure::new(reason));
                outcome.output.ends_run = ends_run;
                if ends_run {
                    outcome.output.other.insert("terminate".to_owned(), true.into());
                }
                return Err(outcome);
            }
        };
        if self.host.has_approvals()
            && let Approval::Denied(why) = self.host.approve(call, tool, &arguments).await
        {
            return Err(refused(Failure::new(why)));
        }
        if self.cancel.is_cancelled() {
            return Err(refused(Failure::aborted()));
        }
        let (mut cx, shown) = ToolContext::new(
            self.setup.cwd.clone(),
            stop.clone(),
            self.setup.model.sees_images(),
            self.setup.env.clone(),
        );
        cx.call_id = call.id.as_str().into();
        cx.process_limits = self.setup.process_limits;
        cx.confinement.clone_from(&self.setup.confinement);
        let work = tool.run(arguments.clone(), cx);
        Ok(PreparedCall { index, call: call.clone(), arguments, work, shown })
    }

    async fn run_together(
        &self,
        prepared: Vec<PreparedCall>,
        stop: &CancellationToken,
        outcomes: &mut [Option<Ended>],
    ) {
        let mut running: FuturesUnordered<_> =
            prepared.into_iter().map(|ready| self.drive(ready, stop)).collect();
        let mut skipping = false;
        while let Some(FinishedCall { index, call, arguments, result, duration_ms }) =
            running.next().await
        {
            let outcome = match result {
                // A steering message is waiting: calls that have not finished are skipped.
                _ if skipping => refused(skipped()),
                Ok(output) => CallOutcome { output, is_error: false },
                Err(failure) => refused(failure),
            };
            let outcome = self.host.after_call(&call, &arguments, outcome).await;
            outcomes[index] = Some(self.end(&call, outcome, Some(duration_ms)).await);
            if !skipping && !running.is_empty() && self.host.interrupted().await {
                skipping = true;
                stop.cancel();
            }
        }
    }

    /// Runs one call and emits its events.
    async fn drive(&self, ready: PreparedCall, stop: &CancellationToken) -> FinishedCall {
        let PreparedCall { index, call, arguments, work, mut shown } = ready;
        // In a task of its own: a panic ends only this call.
        let began = Instant::now();
        let mut task = tokio::spawn(work);
        let overdue = async {
            stop.cancelled().await;
            tokio::time::sleep(GRACE).await;
        };
        tokio::pin!(overdue);
        let result = loop {
            tokio::select! {
                biased;
                Ok(()) = shown.changed() => self.show(&call, &mut shown).await,
                done = &mut task => {
                    // The last update may have arrived together with the result.
                    if shown.has_changed().unwrap_or(false) {
                        self.show(&call, &mut shown).await;
                    }
                    break done.unwrap_or_else(|_| Err(crashed(&call.name)));
                }
                () = &mut overdue => {
                    task.abort();
                    break Err(Failure::aborted());
                }
            }
        };
        let duration_ms = began.elapsed().as_millis() as u64;
        FinishedCall { index, call, arguments, result, duration_ms }
    }

    async fn show(&self, call: &Arc<ToolCall>, shown: &mut watch::Receiver<Option<ToolOutput>>) {
        let partial = shown.borrow_and_update().clone();
        if let Some(partial) = partial {
            self.host
                .emit(Event::ToolUpdate { call: call.clone(), partial: Box::new(partial) })
                .await;
        }
    }

    async fn end(
        &self,
        call: &Arc<ToolCall>,
        outcome: CallOutcome,
        duration_ms: Option<u64>,
    ) -> Ended {
        let CallOutcome { output, is_error } = outcome.clone();
        let call = call.clone();
        let result = Box::new(output);
        self.host.emit(Event::ToolEnd { call, result, is_error, duration_ms }).await;
        Ended { outcome, duration_ms }
    }

    async fn answer(&self, calls: Vec<Arc<ToolCall>>, outcomes: Vec<Option<Ended>>) -> TurnResults {
        let mut results = Vec::with_capacity(calls.len());
        let mut ends_run = true;
        let mut not_stored = None;
        for (call, outcome) in calls.into_iter().zip(outcomes) {
            let Ended { outcome, duration_ms } = outcome.unwrap_or_else(Ended::aborted);
            ends_run &= outcome.output.ends_run;
            let message = Arc::new(Message::ToolResult(ToolResultMessage {
                tool_call_id: call.id.clone(),
                tool_name: call.name.clone(),
                content: outcome.output.content,
                details: outcome.output.details,
                is_error: outcome.is_error,
                usage: outcome.output.usage.map(|usage| *usage),
                timestamp: self.host.now(),
                duration_ms,
            }));
            if not_stored.is_none() {
                let start = Event::message_start(message.clone(), None);
                self.host.emit(start).await;
            }
            let message = self.host.finalize_message(message).await;
            match self.host.message_ended(message.clone()).await {
                Ok(()) => results.push(message),
                Err(why) => not_stored = not_stored.or(Some(why)),
            }
        }
        TurnResults { results, ends_run, not_stored }
    }
}

/// A call that has run.
struct FinishedCall {
    index: usize,
    call: Arc<ToolCall>,
    arguments: Arguments,
    result: ToolResult,
    duration_ms: u64,
}

/// A call whose end event was emitted.
struct Ended {
    outcome: CallOutcome,
    duration_ms: Option<u64>,
}

impl Ended {
    fn aborted() -> Ended {
        Ended { outcome: refused(Failure::aborted()), duration_ms: None }
    }
}

async fn checked(tool: &Tool, call: &ToolCall) -> Result<Arguments, Failure> {
    if let Some(error) = &call.arguments_error {
        return Err(Failure::new(format!("Invalid arguments for tool \"{}\": {error}", call.name)));
    }
    let arguments = tool.prepared(call.arguments.clone()).await?;
    arguments::check(&call.name, &tool.spec.parameters, &arguments).map_err(Failure::new)
}

/// Clients expect `details` on a failed result even if there are none.
fn refused(failure: Failure) -> CallOutcome {
    let details = failure.details.unwrap_or_else(|| serde_json::json!({}));
    let content = [Block::text(failure.message)].into_iter().chain(failure.images).collect();
    let output = ToolOutput { content, details: Some(details), ..ToolOutput::default() };
    CallOutcome { output, is_error: true }
}

fn skipped() -> Failure {
    Failure::new("Skipped due to queued user message.")
}

fn crashed(name: &str) -> Failure {
    Failure::new(format!("the tool {name} crashed; this is a bug in the tool, not in your call"))
}
