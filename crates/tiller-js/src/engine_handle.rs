//! An engine's thread, seen from outside: what can be sent to it and what comes back.

use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use serde::Serialize;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;

use crate::access::{self, Access};
use crate::bus::Bus;
use crate::coalesce::Teller;
use crate::config::{Config, Extension, Permissions, Runtime};
use crate::engine::sidecar;
use crate::engine_loop;
use crate::event;
use crate::mailbox::{Mailbox, mailbox};
use crate::memory::Hold;
use crate::modules::OwnFiles;
use crate::registrations::OwnRegistrations;
use crate::world::HostApi;

/// A handle to an engine's thread. The thread ends when it is told to stop.
#[derive(Clone)]
pub(crate) struct EngineHandle {
    pub(crate) line: EngineSender,
    /// What its extensions may touch.
    pub(crate) permissions: Permissions,
    /// How long it may take to notice that its time is over.
    grace: Duration,
    runtime: tokio::runtime::Handle,
}

/// The way into an engine for what nobody waits for.
#[derive(Clone)]
pub(crate) struct EngineSender {
    pub to: Mailbox,
    pub shared: Arc<HandleState>,
}

impl EngineSender {
    /// Tells an event, unless there is no more room for one.
    pub(crate) fn emit(
        &self,
        what: &'static str,
        json: String,
        backlog_max: usize,
        hold: Option<Hold>,
    ) -> Result<(), Backlogged> {
        let backlog = self.shared.backlog.load(Ordering::Relaxed);
        if backlog >= backlog_max {
            let is_news = !self.shared.is_behind.swap(true, Ordering::Relaxed);
            return Err(Backlogged { is_news });
        }
        if backlog == 0 {
            self.shared.is_behind.store(false, Ordering::Relaxed);
        }
        self.shared.backlog.fetch_add(1, Ordering::Relaxed);
        // A thread that is gone hears nothing, and nobody waits for it to.
        self.to.send(Message::Emit { what, json, _hold: hold }).ok();
        Ok(())
    }
}

/// What both sides look at.
#[derive(Default)]
pub(crate) struct HandleState {
    /// The events somebody in this engine listens to.
    pub listeners: AtomicU64,
    /// Events told and not yet handled.
    pub backlog: AtomicUsize,
    /// There was no room for an event, and that was told.
    is_behind: AtomicBool,
    /// What its extensions say of themselves.
    pub own: Mutex<Vec<OwnRegistrations>>,
    /// Extensions that guarded something and did not come back when the engine was started anew.
    pub lost_guards: Mutex<Vec<String>>,
    next_call: AtomicU64,
    /// Engines that were started anew go on counting, so that nobody takes news for another's.
    pub next_operation: AtomicU64,
    /// Sidecars there have been.
    pub generations: AtomicU64,
    is_stopped: AtomicBool,
    /// When the turn under way is to end, in milliseconds since the first of all turns; zero where
    /// there is none, or where it waits for something that is not its own fault.
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

    /// Whether a turn was to end so long ago and has not. Some of what JavaScript can do cannot be
    /// interrupted.
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

/// What an engine is.
#[derive(Clone)]
pub(crate) enum EngineSpec {
    Embedded,
    Sidecar(sidecar::Program),
}

pub(crate) enum Message {
    Call(EngineCall),
    /// Tell those who listen; nobody waits.
    Emit {
        what: &'static str,
        json: String,
        /// Of the engine that said it, until it is heard.
        _hold: Option<Hold>,
    },
    /// The result of this call is no longer wanted.
    Abort {
        call: u64,
    },
    /// Something an operation has to tell.
    Operation {
        id: u64,
        news: engine_loop::OperationEvent,
        _hold: Hold,
    },
    /// A run began, was aborted, or ended.
    Run(RunSignal),
    /// Something came from the program that runs the extensions.
    Sidecar(sidecar::SidecarEvent),
    /// A time has come that the thread waits for.
    Wake,
    /// Stop when nobody waits for anything here any more.
    Retire,
    Stop,
}

impl EngineSpec {
    /// What kind of sidecar it is, if it is one.
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

/// A call of a function of the runtime's, by name.
pub(crate) struct EngineCall {
    pub id: u64,
    pub entry: &'static str,
    /// What it is about, for reports: an event's name, or the entry's.
    pub what: &'static str,
    pub json: String,
    pub reply: oneshot::Sender<Result<String, CallError>>,
    /// For what it tells before it ends.
    pub progress: Option<Teller>,
}

/// An event that was not told. Once is enough to say so, until everything before it was heard.
pub(crate) struct Backlogged {
    pub is_news: bool,
}

/// Why a call has no result.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum CallError {
    Thrown(JsError),
    /// It kept the thread too long, or never came to an end.
    TimedOut(Duration),
    /// It keeps the thread too long and cannot be interrupted.
    Stuck,
    /// The engine was stopped or started anew meanwhile.
    Stopped,
    /// The process it ran in is gone, in these words.
    Fallen(String),
    /// There is no engine: it did not start, or it was given up.
    NoEngine(String),
}

/// An error in JavaScript, in the author's terms.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct JsError {
    pub message: String,
    pub at: Option<String>,
    pub stack: Option<String>,
    /// What the engine in this process cannot do and the extension needs, as a sentence.
    pub lacks: Option<String>,
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CallError::Thrown(thrown) => f.write_str(&thrown.message),
            CallError::TimedOut(limit) => write!(f, "stopped after {} ms", limit.as_millis()),
            CallError::Stuck => f.write_str("the extension does not come to an end"),
            CallError::Stopped => f.write_str("the extension was stopped"),
            CallError::Fallen(why) | CallError::NoEngine(why) => f.write_str(why),
        }
    }
}

impl EngineHandle {
    /// Starts a thread with an engine. What goes wrong there shows with the first call.
    pub(crate) fn start(
        config: Arc<Config>,
        world: Arc<dyn HostApi>,
        extension: &Extension,
        body: EngineSpec,
        bus: Arc<Bus>,
    ) -> std::io::Result<EngineHandle> {
        let permissions = extension.permissions;
        let (to, from) = mailbox(&config);
        let shared = Arc::new(HandleState::default());
        let runtime = config.runtime.clone();
        let grace = config.limits.slice;
        let seat = engine_loop::EngineContext {
            config,
            world,
            permissions,
            own_files: access::check(permissions, Access::ForeignFile)
                .is_err()
                .then(|| OwnFiles::of(&extension.path)),
            body,
            bus,
            shared: shared.clone(),
            to: to.clone(),
            from,
        };
        std::thread::Builder::new()
            .name("extensions".into())
            // Room for deep recursion in scripts and in the parser; only what is used costs.
            .stack_size(16 << 20)
            .spawn(move || engine_loop::run(seat))?;
        Ok(EngineHandle { line: EngineSender { to, shared }, permissions, grace, runtime })
    }

    /// Whether both are handles to one thread.
    pub(crate) fn is(&self, other: &EngineHandle) -> bool {
        Arc::ptr_eq(&self.line.shared, &other.line.shared)
    }

    pub(crate) fn hears(&self, name: &str) -> bool {
        self.line.shared.listeners.load(Ordering::Acquire) & event::bit(name) != 0
    }

    /// What its extensions say of themselves.
    pub(crate) fn own(&self) -> Vec<OwnRegistrations> {
        self.line.shared.own.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// An extension that guarded something and is gone.
    pub(crate) fn lost_guard(&self) -> Option<String> {
        let lost = self.line.shared.lost_guards.lock().unwrap_or_else(PoisonError::into_inner);
        lost.first().cloned()
    }

    pub(crate) fn run_signal(&self, signal: RunSignal) {
        self.send(Message::Run(signal));
    }

    pub(crate) fn retire(&self) {
        self.send(Message::Retire);
    }

    pub(crate) fn stop(&self) {
        self.line.shared.is_stopped.store(true, Ordering::Relaxed);
        self.send(Message::Stop);
    }

    pub(crate) fn call(&self, entry: &'static str, input: &impl Serialize) -> PendingCall {
        self.call_about(entry, entry, input, None, None)
    }

    pub(crate) fn call_about(
        &self,
        entry: &'static str,
        what: &'static str,
        input: &impl Serialize,
        cancel: Option<CancellationToken>,
        progress: Option<Teller>,
    ) -> PendingCall {
        let id = self.line.shared.next_call.fetch_add(1, Ordering::Relaxed) + 1;
        let (reply, result) = oneshot::channel();
        let json = serde_json::to_string(input).unwrap_or_else(|_| "null".into());
        self.send(Message::Call(EngineCall { id, entry, what, json, reply, progress }));
        let watcher = cancel.map(|cancel| {
            let to = self.line.to.clone();
            let watch = async move {
                cancel.cancelled().await;
                // A thread that is gone needs no telling.
                to.send(Message::Abort { call: id }).ok();
            };
            self.runtime.spawn(watch).abort_handle()
        });
        PendingCall {
            result,
            id,
            line: self.line.clone(),
            grace: self.grace,
            alarm: None,
            watcher,
            ended: false,
        }
    }

    fn send(&self, message: Message) {
        // A thread that is gone has dropped whoever waited, and they know by that.
        self.line.to.send(message).ok();
    }
}

/// A call under way. Whoever drops it is no longer interested, and the extension is told.
pub(crate) struct PendingCall {
    result: oneshot::Receiver<Result<String, CallError>>,
    id: u64,
    line: EngineSender,
    grace: Duration,
    /// When the engine is looked at again.
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
            if self.line.shared.is_stuck(grace) {
                return Poll::Ready(Err(CallError::Stuck));
            }
            let alarm = self
                .alarm
                .get_or_insert_with(|| Box::pin(tokio::time::sleep(grace.max(PERIOD_MIN))));
            if alarm.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            self.alarm = None;
        }
    }
}

/// An engine is not looked at more often than this.
const PERIOD_MIN: Duration = Duration::from_millis(100);

impl Drop for PendingCall {
    fn drop(&mut self) {
        if let Some(watcher) = &self.watcher {
            watcher.abort();
        }
        if !self.ended {
            // A thread that is gone needs no telling.
            self.line.to.send(Message::Abort { call: self.id }).ok();
        }
    }
}
