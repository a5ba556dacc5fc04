//! The handle to an engine's thread: sends messages and awaits results.

use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use serde::Serialize;
use tiller_agent::mutex;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;

use crate::access::{self, Access};
use crate::bus::Bus;
use crate::coalesce::BoxedProgressSink;
use crate::config::{Config, Extension, Permissions, Runtime};
use crate::engine::sidecar;
use crate::engine_loop;
use crate::entry::Entry;
use crate::event;
use crate::host_api::HostApi;
use crate::mailbox::{Mailbox, mailbox};
use crate::memory::MemoryHold;
use crate::modules::OwnFiles;
use crate::registrations::ExtensionRegistrations;

/// A handle to an engine's thread, which ends on [`EngineHandle::stop`].
#[derive(Clone)]
pub(crate) struct EngineHandle {
    pub(crate) sender: EngineSender,
    /// The permissions of its extensions.
    pub(crate) permissions: Permissions,
    /// How long after a turn's deadline the thread counts as stuck.
    grace: Duration,
    runtime: tokio::runtime::Handle,
}

/// Sends messages that need no answer.
#[derive(Clone)]
pub(crate) struct EngineSender {
    pub to: Mailbox,
    pub shared: Arc<HandleState>,
}

impl EngineSender {
    /// Queues an event, unless the backlog is full.
    pub(crate) fn emit(
        &self,
        what: &'static str,
        json: String,
        backlog_max: usize,
        hold: Option<MemoryHold>,
    ) -> Result<(), Backlogged> {
        let backlog = self.shared.backlog.load(Ordering::Relaxed);
        if backlog >= backlog_max {
            let is_first = !self.shared.is_behind.swap(true, Ordering::Relaxed);
            return Err(Backlogged { is_first });
        }
        if backlog == 0 {
            self.shared.is_behind.store(false, Ordering::Relaxed);
        }
        self.shared.backlog.fetch_add(1, Ordering::Relaxed);
        // If the thread is gone, the event is not needed.
        self.to.send(Message::Emit { what, json, _hold: hold }).ok();
        Ok(())
    }
}

/// State that the handle and the thread share.
#[derive(Default)]
pub(crate) struct HandleState {
    /// The events that have a listener in this engine.
    pub listeners: AtomicU64,
    /// Events sent and not yet handled.
    pub backlog: AtomicUsize,
    /// The backlog was full, and that was reported.
    is_behind: AtomicBool,
    /// What its extensions registered.
    pub registrations: Mutex<Vec<ExtensionRegistrations>>,
    /// Extensions with a fail-closed handler that could not be loaded again after a restart.
    pub lost_guards: Mutex<Vec<String>>,
    next_call: AtomicU64,
    /// Continues across restarts, so that a late result is not taken for that of a new operation.
    pub next_operation: AtomicU64,
    /// How many sidecars this engine has had.
    pub generations: AtomicU64,
    is_stopped: AtomicBool,
    /// The deadline of the current turn, in milliseconds since the first turn; zero between turns
    /// and while the time limit is paused.
    turn_ends_ms: AtomicU64,
}

impl HandleState {
    pub(crate) fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
    }

    pub(crate) fn turn_ends_by(&self, deadline: Option<Instant>) {
        let ms = deadline.map_or(0, |deadline| deadline.duration_since(epoch()).as_millis() as u64);
        self.turn_ends_ms.store(ms, Ordering::Relaxed);
    }

    /// Whether a turn is past its deadline by more than `grace`. Some JavaScript operations cannot
    /// be interrupted.
    fn is_stuck(&self, grace: Duration) -> bool {
        let ends = self.turn_ends_ms.load(Ordering::Relaxed);
        let now = Instant::now().duration_since(epoch());
        ends != 0 && now > Duration::from_millis(ends) + grace
    }
}

fn epoch() -> Instant {
    static EPOCH: OnceLock<Instant> = OnceLock::new();
    *EPOCH.get_or_init(Instant::now)
}

/// The kind of an engine.
#[derive(Clone)]
pub(crate) enum EngineSpec {
    Embedded,
    Sidecar(sidecar::Program),
}

pub(crate) enum Message {
    Call(EngineCall),
    /// An event. Needs no answer.
    Emit {
        what: &'static str,
        json: String,
        /// Memory of the engine that emitted it, until it is handled.
        _hold: Option<MemoryHold>,
    },
    /// The caller no longer wants the result of this call.
    Abort {
        call: u64,
    },
    /// An event or the result of an operation.
    Operation {
        id: u64,
        event: engine_loop::OperationEvent,
        _hold: MemoryHold,
    },
    /// A run began, was aborted, or ended.
    Run(RunSignal),
    /// An event from the sidecar.
    Sidecar(sidecar::SidecarEvent),
    /// The time that the thread waits for has come.
    Wake,
    /// Stop when no call is pending.
    Retire,
    Stop,
}

impl EngineSpec {
    /// Which sidecar program it runs, if any.
    pub(crate) fn runtime(&self) -> Option<Runtime> {
        match self {
            EngineSpec::Embedded => None,
            EngineSpec::Sidecar(program) => Some(program.runtime),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunSignal {
    Began,
    Aborted,
    Ended,
}

/// A call of a function of the JavaScript runtime.
pub(crate) struct EngineCall {
    pub id: u64,
    pub entry: Entry,
    /// A label for reports: an event's name, or the entry's.
    pub what: &'static str,
    pub json: String,
    pub reply: oneshot::Sender<Result<String, CallError>>,
    /// Receives the call's progress.
    pub progress: Option<BoxedProgressSink>,
}

/// The backlog was full and the event was dropped. Reported once, until the backlog is empty again.
pub(crate) struct Backlogged {
    pub is_first: bool,
}

/// Why a call has no result.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum CallError {
    Thrown(JsError),
    /// It blocked the thread for too long, or never settled.
    TimedOut(Duration),
    /// It blocks the thread and cannot be interrupted.
    Stuck,
    /// The engine freed everything that could have answered: the handler ran out of memory, was
    /// interrupted, or waits for a promise that nothing can settle.
    Unanswerable,
    /// The engine was stopped or restarted during the call.
    Stopped,
    /// The sidecar exited; the text says how.
    Exited(String),
    /// There is no engine: it did not start, or was abandoned.
    NoEngine(String),
}

/// A JavaScript error, with positions in the author's source.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct JsError {
    pub message: String,
    pub at: Option<String>,
    pub stack: Option<String>,
    /// A sentence about what the extension needs and the embedded engine lacks.
    pub lacks: Option<String>,
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CallError::Thrown(thrown) => f.write_str(&thrown.message),
            CallError::TimedOut(limit) => write!(f, "stopped after {} ms", limit.as_millis()),
            CallError::Stuck => f.write_str("the extension does not come to an end"),
            CallError::Unanswerable => f.write_str(
                "the extension cannot answer any more: it ran out of memory, was interrupted, or waits for a promise that nothing settles",
            ),
            CallError::Stopped => f.write_str("the extension was stopped"),
            CallError::Exited(why) | CallError::NoEngine(why) => f.write_str(why),
        }
    }
}

impl EngineHandle {
    /// Starts an engine on its own thread. Start errors are returned by the first call.
    pub(crate) fn start(
        config: Arc<Config>,
        host: Arc<dyn HostApi>,
        extension: &Extension,
        spec: EngineSpec,
        bus: Arc<Bus>,
    ) -> std::io::Result<EngineHandle> {
        let permissions = extension.permissions;
        let (to, from) = mailbox(&config);
        let shared = Arc::new(HandleState::default());
        let runtime = config.runtime.clone();
        let grace = config.limits.slice.max(GRACE_MIN);
        let context = engine_loop::EngineContext {
            config,
            host,
            permissions,
            own_files: access::check(permissions, Access::ForeignFile)
                .is_err()
                .then(|| OwnFiles::of(&extension.path)),
            spec,
            bus,
            shared: shared.clone(),
            to: to.clone(),
            from,
        };
        std::thread::Builder::new()
            .name("extensions".into())
            // Room for deep recursion in scripts and in the parser; only touched pages use memory.
            .stack_size(16 << 20)
            .spawn(move || engine_loop::run(context))?;
        Ok(EngineHandle { sender: EngineSender { to, shared }, permissions, grace, runtime })
    }

    /// Whether both are handles to the same thread.
    pub(crate) fn is(&self, other: &EngineHandle) -> bool {
        Arc::ptr_eq(&self.sender.shared, &other.sender.shared)
    }

    pub(crate) fn listens_to(&self, name: &str) -> bool {
        self.sender.shared.listeners.load(Ordering::Acquire) & event::bit(name) != 0
    }

    /// What its extensions registered.
    pub(crate) fn registrations(&self) -> Vec<ExtensionRegistrations> {
        mutex::lock(&self.sender.shared.registrations).clone()
    }

    /// An extension with a fail-closed handler that is gone.
    pub(crate) fn lost_guard(&self) -> Option<String> {
        let lost = mutex::lock(&self.sender.shared.lost_guards);
        lost.first().cloned()
    }

    pub(crate) fn run_signal(&self, signal: RunSignal) {
        self.send(Message::Run(signal));
    }

    pub(crate) fn retire(&self) {
        self.send(Message::Retire);
    }

    pub(crate) fn stop(&self) {
        self.sender.shared.is_stopped.store(true, Ordering::Relaxed);
        self.send(Message::Stop);
    }

    pub(crate) fn call(&self, entry: Entry, input: &impl Serialize) -> PendingCall {
        self.call_about(entry, entry.name(), input, None, None)
    }

    pub(crate) fn call_about(
        &self,
        entry: Entry,
        what: &'static str,
        input: &impl Serialize,
        cancel: Option<CancellationToken>,
        progress: Option<BoxedProgressSink>,
    ) -> PendingCall {
        let id = self.sender.shared.next_call.fetch_add(1, Ordering::Relaxed) + 1;
        let (reply, result) = oneshot::channel();
        let json = serde_json::to_string(input).unwrap_or_else(|_| "null".into());
        self.send(Message::Call(EngineCall { id, entry, what, json, reply, progress }));
        let watcher = cancel.map(|cancel| {
            let to = self.sender.to.clone();
            let watch = async move {
                cancel.cancelled().await;
                // If the thread is gone, there is nothing to abort.
                to.send(Message::Abort { call: id }).ok();
            };
            self.runtime.spawn(watch).abort_handle()
        });
        PendingCall {
            result,
            id,
            sender: self.sender.clone(),
            grace: self.grace,
            alarm: None,
            watcher,
            ended: false,
        }
    }

    fn send(&self, message: Message) {
        // If the thread is gone, it has dropped the reply channels, and callers see that.
        self.sender.to.send(message).ok();
    }
}

/// A pending call. Dropping it aborts the call.
pub(crate) struct PendingCall {
    result: oneshot::Receiver<Result<String, CallError>>,
    id: u64,
    sender: EngineSender,
    grace: Duration,
    /// When to check again whether the engine is stuck.
    alarm: Option<Pin<Box<tokio::time::Sleep>>>,
    watcher: Option<AbortHandle>,
    ended: bool,
}

impl Future for PendingCall {
    type Output = Result<String, CallError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Poll::Ready(result) = Pin::new(&mut self.result).poll(cx) {
            self.ended = true;
            return Poll::Ready(result.unwrap_or(Err(CallError::Stopped)));
        }
        loop {
            let grace = self.grace;
            if self.sender.shared.is_stuck(grace) {
                return Poll::Ready(Err(CallError::Stuck));
            }
            let alarm = self.alarm.get_or_insert_with(|| Box::pin(tokio::time::sleep(grace)));
            if alarm.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            self.alarm = None;
        }
    }
}

/// A thread that the machine does not schedule for a moment is not stuck.
const GRACE_MIN: Duration = Duration::from_secs(1);

impl Drop for PendingCall {
    fn drop(&mut self) {
        if let Some(watcher) = &self.watcher {
            watcher.abort();
        }
        if !self.ended {
            // If the thread is gone, there is nothing to abort.
            self.sender.to.send(Message::Abort { call: self.id }).ok();
        }
    }
}
