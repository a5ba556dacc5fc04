//! The loop of an engine's thread. It handles one message at a time; between messages it fires
//! timers and enforces time limits.
//!
//! No caller waits forever: a turn that blocks the thread too long is interrupted; a call that
//! never settles is failed here, because an interrupted function never settles by itself; and an
//! engine that had to be interrupted too often is restarted.

mod restart;

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::bus::Bus;
use crate::config::{Config, EngineClock, Permissions};
use crate::engine::sidecar::Sidecar;
use crate::engine::{Engine, EngineMessage};
use crate::engine_handle::{
    CallError, EngineCall, EngineSender, EngineSpec, HandleState, JsError, Message, RunSignal,
};
use crate::engine_state::{ActiveCall, EngineState, Task};
use crate::entry::EntryLimits;
use crate::host_api::HostApi;
use crate::mailbox::{Gone, Inbox, Mailbox};
use crate::modules::{Modules, OwnFiles};
use crate::operations::{OpError, OpOutput};
use restart::{ReplayLog, ReplayedCall, abandon, refuse_all};

/// What an engine's thread is started with.
pub(crate) struct EngineContext {
    pub config: Arc<Config>,
    pub host: Arc<dyn HostApi>,
    pub permissions: Permissions,
    /// The only files it may load, if it may not read others.
    pub own_files: Option<OwnFiles>,
    pub spec: EngineSpec,
    pub bus: Arc<Bus>,
    pub shared: Arc<HandleState>,
    pub to: Mailbox,
    pub from: Inbox,
}

/// What an operation sends to its engine.
pub(crate) enum OperationEvent {
    /// An event before the result.
    Event(OpOutput),
    Done(Result<OpOutput, OpError>),
}

/// How long after a turn garbage is collected while a call without a time limit is pending.
const COLLECT_AFTER: Duration = Duration::from_secs(5);

/// How many timers fire before the next message is handled.
const TIMERS_AT_ONCE: usize = 64;

/// Runs until `Stop`, or until all senders are gone.
pub(crate) fn run(context: EngineContext) {
    // Inside the runtime's context, `Instant::now` is the runtime's time.
    let runtime = context.config.runtime.clone();
    let _entered = (context.config.clock == EngineClock::Runtime).then(|| runtime.enter());
    serve_all(&context);
    context.bus.leave(&context.shared);
}

fn serve_all(context: &EngineContext) {
    let mut replay = ReplayLog::default();
    loop {
        context.bus.join(EngineSender { to: context.to.clone(), shared: context.shared.clone() });
        let state = Rc::new(EngineState::new(
            context.config.clone(),
            context.host.clone(),
            context.permissions,
            Modules::new(context.spec.runtime(), context.own_files.clone()),
            context.shared.clone(),
            context.to.clone(),
            context.bus.clone(),
        ));
        let engine = match Engine::start(&context.spec, state.clone()) {
            Ok(engine) => engine,
            Err(thrown) => {
                abandon(&state, replay.guards, &thrown);
                return refuse_all(context, &state, &thrown);
            }
        };
        let mut engine_loop = EngineLoop {
            state: state.clone(),
            engine,
            replay: &mut replay,
            is_retired: false,
            collect_at: None,
        };
        engine_loop.restore();
        match engine_loop.serve(&context.from) {
            End::Stop => return state.cancel_all(),
            End::Restart => (),
            End::GiveUp(thrown) => {
                drop(engine_loop);
                return refuse_all(context, &state, &thrown);
            }
        }
    }
}

enum End {
    Stop,
    Restart,
    GiveUp(JsError),
}

struct EngineLoop<'m> {
    state: Rc<EngineState>,
    engine: Engine,
    replay: &'m mut ReplayLog,
    /// Another engine has replaced this one: it ends with the last pending call.
    is_retired: bool,
    /// When to check for calls that JavaScript cannot answer any more.
    collect_at: Option<Instant>,
}

impl EngineLoop<'_> {
    fn serve(&mut self, from: &Inbox) -> End {
        loop {
            let message = match self.wait(from) {
                Ok(message) => message,
                Err(Gone) => return End::Stop,
            };
            match message {
                Some(Message::Stop) => return End::Stop,
                Some(Message::Retire) => self.is_retired = true,
                Some(message) => self.handle(message),
                None => (),
            }
            self.fire_timers();
            self.fail_overdue();
            self.fail_unanswerable();
            if self.is_retired && self.is_done() {
                return End::Stop;
            }
            if self.state.violations.get() >= self.state.config.limits.violations {
                return self.restart_interrupted();
            }
            if self.state.memory_in_doubt.take() && !self.engine.has_memory() {
                return self.restart_full();
            }
            if let Some(end) = self.check_sidecar() {
                return end;
            }
        }
    }

    /// Whether no call is pending, or the engine would have to be restarted to finish them.
    fn is_done(&self) -> bool {
        let is_broken = self.state.violations.get() >= self.state.config.limits.violations;
        let sidecar = self.engine.sidecar();
        let has_failed = sidecar.is_some_and(|sidecar| sidecar.failure(Instant::now()).is_some());
        is_broken || has_failed || self.state.calls.borrow().is_empty()
    }

    /// The next message, or `None` if a timer or a deadline is due first.
    fn wait(&self, from: &Inbox) -> Result<Option<Message>, Gone> {
        let timer = self.state.timers.borrow_mut().next_due();
        let calls = self.state.calls.borrow();
        let deadline = calls.values().filter_map(|call| call.deadline).min();
        drop(calls);
        let sidecar = self.engine.sidecar().and_then(Sidecar::due);
        let Some(due) = [timer, deadline, sidecar, self.collect_at].into_iter().flatten().min()
        else {
            return from.recv().map(Some);
        };
        from.recv_until(due)
    }

    fn handle(&mut self, message: Message) {
        match message {
            Message::Call(call) => self.call(call),
            Message::Emit { what, json, .. } => {
                let limit = self.state.config.limits.slice;
                self.turn(Task::default(), limit, what, EngineMessage::Emit { json: &json });
            }
            Message::Abort { call } => {
                let limit = self.state.config.limits.slice;
                let task = Task { call, extension: 0 };
                self.turn(task, limit, "abort", EngineMessage::Abort { call });
            }
            Message::Operation { id, event, .. } => self.operation(id, event),
            Message::Run(signal) => {
                let limit = self.state.config.limits.slice;
                let signal = match signal {
                    RunSignal::Began => "began",
                    RunSignal::Aborted => "aborted",
                    RunSignal::Ended => "ended",
                };
                self.turn(Task::default(), limit, "run", EngineMessage::RunSignal(signal));
            }
            Message::Sidecar(event) => {
                if let Some(sidecar) = self.engine.sidecar() {
                    sidecar.handle_event(event);
                }
            }
            Message::Wake | Message::Retire | Message::Stop => (),
        }
    }

    fn call(&mut self, call: EngineCall) {
        let since = Instant::now();
        let EntryLimits { slice, total, .. } = call.entry.limits(&self.state.config.limits);
        if call.entry.is_replayed() {
            let step = ReplayedCall { call: call.id, entry: call.entry, json: call.json.clone() };
            self.replay.steps.push(step);
        }
        let active = ActiveCall {
            entry: call.entry,
            what: call.what,
            reply: call.reply,
            progress: call.progress,
            since,
            deadline: total.map(|total| since + total),
            limit: total.unwrap_or_default(),
        };
        self.state.calls.borrow_mut().insert(call.id, active);
        let task = Task { call: call.id, extension: 0 };
        let message = EngineMessage::Call { call: call.id, entry: call.entry, json: &call.json };
        self.turn(task, slice, call.what, message);
    }

    fn operation(&mut self, id: u64, event: OperationEvent) {
        let is_last = matches!(event, OperationEvent::Done(_));
        let task = if is_last {
            self.state.operations.borrow_mut().remove(&id).map(|operation| operation.task)
        } else {
            self.state.operations.borrow().get(&id).map(|operation| operation.task)
        };
        // The operation was cancelled.
        let Some(task) = task else { return };
        let limit = self.slice_of(task);
        self.turn(task, limit, "operation", EngineMessage::Deliver { operation: id, event });
    }

    fn fire_timers(&mut self) {
        let now = Instant::now();
        for _ in 0..TIMERS_AT_ONCE {
            let Some((id, task)) = self.state.timers.borrow_mut().take_due(now) else { return };
            let limit = self.slice_of(task);
            self.turn(task, limit, "timer", EngineMessage::Fire { timer: id });
        }
    }

    fn slice_of(&self, task: Task) -> Duration {
        let limits = &self.state.config.limits;
        match self.state.calls.borrow().get(&task.call) {
            Some(call) => call.entry.limits(limits).later_slice,
            None => limits.slice,
        }
    }

    /// Runs one turn of JavaScript and all jobs that follow from it. A turn that exceeds its limit
    /// is a violation, and its call fails.
    fn turn(
        &mut self,
        task: Task,
        limit: Duration,
        what: &'static str,
        message: EngineMessage<'_>,
    ) {
        // Work that a call started is reported under the call's label.
        let what = self.state.calls.borrow().get(&task.call).map_or(what, |call| call.what);
        let outcome = self.engine.turn(task, limit, what, message);
        let collect_at = self.collect_at.unwrap_or_else(|| Instant::now() + COLLECT_AFTER);
        self.collect_at = Some(collect_at);
        let extension = self.state.task.get().extension;
        if outcome.interrupted {
            self.state.count_violation();
            self.state.memory_in_doubt.set(true);
            // The turn may have been interrupted in the middle of another call.
            self.collect_at = Some(Instant::now());
            let path = self.state.path(extension).unwrap_or_else(|| "<runtime>".into());
            let message = format!("stopped after {} ms of work without a pause", limit.as_millis());
            let thrown = JsError { message, ..JsError::default() };
            self.state.report(path, what.into(), thrown);
            if task.call != 0 {
                self.state.answer(task.call, Err(CallError::TimedOut(limit)));
            }
            return;
        }
        // The runtime catches what extensions throw, so this error is out of memory or a bug of
        // ours.
        match outcome.result {
            Ok(()) => (),
            Err(thrown) if task.call != 0 => {
                self.state.answer(task.call, Err(CallError::Thrown(thrown)));
            }
            Err(thrown) => self.state.report("<runtime>".into(), what.into(), thrown),
        }
    }

    fn fail_overdue(&mut self) {
        let now = Instant::now();
        let limits = &self.state.config.limits;
        let mut overdue = Vec::new();
        for (id, call) in self.state.calls.borrow_mut().iter_mut() {
            let Some(deadline) = call.deadline.filter(|deadline| *deadline <= now) else {
                continue;
            };
            // Time spent waiting for a dialog, a child or the network does not count, up to
            // `hook_max`.
            if self.state.is_outside(*id) && now < call.since + limits.hook_max {
                call.deadline = Some((now + call.limit).min(call.since + limits.hook_max));
            } else {
                overdue.push((*id, deadline.saturating_duration_since(call.since)));
            }
        }
        for (id, lasted) in overdue {
            self.state.answer(id, Err(CallError::TimedOut(lasted)));
            let limit = self.state.config.limits.slice;
            let task = Task { call: id, extension: 0 };
            self.turn(task, limit, "abort", EngineMessage::Abort { call: id });
        }
    }

    /// Fails calls that would wait for ever. Where memory runs out or a turn is interrupted, a
    /// promise may never settle, and only a collection shows that nothing refers to it any more.
    fn fail_unanswerable(&mut self) {
        if !self.state.has_unlimited_call() || self.engine.sidecar().is_some() {
            self.collect_at = None;
        }
        if self.collect_at.is_some_and(|at| at <= Instant::now()) {
            self.collect_at = None;
            self.engine.collect_garbage();
        }
        self.state.fail_unanswerable();
    }
}
