//! All extensions, as the rest of the program sees them.

mod engines;
mod placement;
mod providers;

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use serde::Serialize;
use serde_json::{Value, json};
use tiller_agent::mutex;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use self::engines::Engines;
use crate::bus::Bus;
use crate::coalesce::{self, JoinText, Progress};
use crate::config::{Config, Extension, HookObserver, HookTiming};
use crate::engine_handle::{Backlogged, CallError, EngineHandle, JsError, PendingCall, RunSignal};
use crate::entry::Entry;
use crate::event::Event;
use crate::hook::{Hook, Operations, ToolCall, UserBash};
use crate::host_api::{ExtensionError, HostApi};
use crate::registrations::{ExtensionRegistrations, LoadError, Registrations};

/// A handle to all extensions. Cheap to clone; no thread runs until an extension is loaded.
#[derive(Clone)]
pub struct Extensions {
    inner: Arc<Inner>,
}

struct Inner {
    config: Arc<Config>,
    host: Arc<dyn HostApi>,
    bus: Arc<Bus>,
    engines: Mutex<Engines>,
}

/// The outcome of loading.
#[derive(Clone, Debug, Default)]
pub struct LoadReport {
    pub registrations: Registrations,
    /// Extensions that could not be loaded, and name conflicts.
    pub errors: Vec<LoadError>,
}

/// A hook that fails closed has no result: the action must not happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookRefused {
    pub reason: String,
}

impl Extensions {
    pub fn new(config: Config, host: Arc<dyn HostApi>) -> Extensions {
        let config = Arc::new(config);
        let bus = Arc::default();
        let engines = Mutex::default();
        Extensions { inner: Arc::new(Inner { config, host, bus, engines }) }
    }

    /// Loads extensions in order, after those already loaded. An extension that fails to load is
    /// reported and left out.
    pub async fn load(&self, extensions: &[Extension]) -> LoadReport {
        let last = self.engines().last_number();
        let numbered: Vec<_> = (last + 1..).zip(extensions.iter().cloned()).collect();
        let mut errors = self.load_at(&numbered).await;
        let registrations = self.registrations();
        errors.extend(registrations.conflicts.iter().cloned());
        LoadReport { registrations, errors }
    }

    /// Loads extensions under given numbers, in ascending order from 1. Name conflicts are not
    /// reported.
    pub async fn load_at(&self, extensions: &[(u32, Extension)]) -> Vec<LoadError> {
        let mut errors = Vec::new();
        for (number, extension) in extensions {
            errors.extend(self.load_one(*number, extension).await.err());
        }
        errors
    }

    /// What the extensions currently register.
    pub fn registrations(&self) -> Registrations {
        let mut all: Vec<(ExtensionRegistrations, EngineHandle)> = Vec::new();
        for engine in self.all_engines() {
            let own = engine.registrations().into_iter();
            all.extend(
                own.filter(|own| self.is_at(own.number, &engine)).map(|own| (own, engine.clone())),
            );
        }
        all.sort_by_key(|(own, _)| own.number);
        Registrations::merge(&all)
    }

    /// Sets flag values from the command line, by name. Unknown names are ignored.
    pub async fn set_flags(&self, values: &serde_json::Map<String, Value>) {
        for engine in self.all_engines() {
            // Setting a flag cannot fail; an engine that is gone has no flags.
            engine.call(Entry::Flags, values).await.ok();
        }
    }

    /// Allows extensions to act: before this, they can only register. Registrations made by then
    /// are visible in [`Extensions::registrations`].
    pub async fn bind(&self) {
        for engine in self.all_engines() {
            // `bind` cannot fail.
            engine.call(Entry::Bind, &Value::Null).await.ok();
        }
    }

    /// Whether an extension listens to this event, or a lost one guarded it: then the hook must
    /// still run, and fails closed.
    pub fn has_listener(&self, name: &str) -> bool {
        let is_guarded = matches!(name, ToolCall::NAME | UserBash::NAME);
        let listens = |engine: &EngineHandle| {
            engine.listens_to(name) || (is_guarded && engine.lost_guard().is_some())
        };
        self.all_engines().iter().any(listens)
    }

    /// Emits an event to all listeners without waiting. Events keep their order. Returns false if
    /// an engine with a full backlog misses it, which is reported.
    pub fn emit(&self, event: &Event) -> bool {
        let mut json = None;
        let mut is_complete = true;
        for engine in self.all_engines().iter().filter(|engine| engine.listens_to(event.name())) {
            let json = json.get_or_insert_with(|| to_json(event)).clone();
            let sent =
                engine.sender.emit(event.name(), json, self.inner.config.limits.backlog, None);
            if let Err(Backlogged { is_first }) = sent {
                is_complete = false;
                if is_first {
                    // Emitting does not wait for the report.
                    drop(self.report_in_background(event.name(), BEHIND));
                }
            }
        }
        is_complete
    }

    /// Emits an event and waits until all handlers are done, within the time limit of a hook.
    pub async fn emit_and_wait(&self, event: &Event) {
        for engine in self.all_engines().iter().filter(|engine| engine.listens_to(event.name())) {
            let call = engine.call_about(Entry::EmitAndWait, event.name(), event, None, None);
            if let Err(err) = self.timed(event.name(), call).await {
                self.report(event.name(), &err.to_string()).await;
            }
        }
    }

    /// The same for the last event: after `each`, the next engine receives it even if this one
    /// is not done.
    pub async fn emit_to_each_within(&self, event: &Event, each: Duration) {
        let mut calls = FuturesUnordered::new();
        for engine in self.all_engines().iter().filter(|engine| engine.listens_to(event.name())) {
            let call = engine.call_about(Entry::EmitAndWait, event.name(), event, None, None);
            calls.push(self.timed(event.name(), call));
            // Engines that are not done yet are awaited together with the others.
            if let Ok(Some(Err(err))) = tokio::time::timeout(each, calls.next()).await {
                self.report(event.name(), &err.to_string()).await;
            }
        }
        while let Some(result) = calls.next().await {
            if let Err(err) = result {
                self.report(event.name(), &err.to_string()).await;
            }
        }
    }

    /// Runs a hook and returns the handlers' combined result. An error means that the action must
    /// not happen; only hooks that fail closed return one.
    pub async fn run_hook<H: Hook>(&self, hook: H) -> Result<H::Outcome, HookRefused> {
        self.run_hook_until(hook, None).await
    }

    /// The same for hooks whose event has a `signal`, which fires with `cancel`.
    pub async fn run_hook_until<H: Hook>(
        &self,
        hook: H,
        cancel: Option<CancellationToken>,
    ) -> Result<H::Outcome, HookRefused> {
        let mut outcome = None;
        for (engine, extensions) in self.engine_groups() {
            if H::FAILS_CLOSED
                && let Some(path) = engine.lost_guard()
            {
                let reason = format!("the extension {path}, which guards this, is gone");
                return Err(HookRefused { reason });
            }
            if !engine.listens_to(H::NAME) {
                continue;
            }
            let input = HookCall { name: H::NAME, event: &hook, so_far: &outcome, extensions };
            let call = engine.call_about(Entry::Ask, H::NAME, &input, cancel.clone(), None);
            match self.timed(H::NAME, call).await {
                Ok(answer) => {
                    let answer: Value = serde_json::from_str(&answer).unwrap_or_default();
                    let before = outcome.as_ref().map(|outcome: &Value| &outcome["outcome"]);
                    if let Err(reason) =
                        hook.check_answer(before, &answer["outcome"], engine.permissions)
                    {
                        if H::FAILS_CLOSED {
                            return Err(HookRefused { reason });
                        }
                        self.report(H::NAME, &reason).await;
                        continue;
                    }
                    let ends = answer.get("ends") == Some(&Value::Bool(true));
                    outcome = Some(answer);
                    if ends {
                        break;
                    }
                }
                Err(err) if H::FAILS_CLOSED => {
                    return Err(HookRefused { reason: err.to_string() });
                }
                Err(err) => self.report(H::NAME, &err.to_string()).await,
            }
        }
        let Some(mut outcome) = outcome else { return Ok(H::Outcome::default()) };
        match serde_json::from_value(outcome["outcome"].take()) {
            Ok(outcome) => Ok(outcome),
            Err(err) if H::FAILS_CLOSED => Err(HookRefused { reason: err.to_string() }),
            Err(err) => {
                self.report(H::NAME, &format!("the result is invalid: {err}")).await;
                Ok(H::Outcome::default())
            }
        }
    }

    /// Awaits a hook and reports its duration to the observer.
    async fn timed(&self, name: &'static str, hook: PendingCall) -> Result<String, CallError> {
        let Some(HookObserver(observer)) = &self.inner.config.hook_observer else {
            return hook.await;
        };
        let started = Instant::now();
        let result = hook.await;
        let error = result.as_ref().err().map(ToString::to_string);
        observer(HookTiming { name, after: started.elapsed(), error });
        result
    }

    /// Runs a command by its name in [`Registrations::commands`]. An error has the fields of an
    /// `extension_error` and is not reported elsewhere; `None` means there is no such command.
    pub async fn command(&self, name: &str, args: &str) -> Option<Result<(), ExtensionError>> {
        let registrations = self.registrations();
        let command = registrations.commands.iter().find(|command| command.name == name)?;
        let engine = self.engine_of(command.extension)?;
        let input =
            json!({ "extension": command.extension, "name": command.own_name, "args": args });
        let failed = |thrown: JsError| ExtensionError {
            extension_path: format!("command:{name}"),
            event: "command".into(),
            error: thrown.message,
            at: thrown.at,
            stack: thrown.stack,
        };
        Some(match engine.call(Entry::Command, &input).await {
            // A command that stops its engine has asked for a reload.
            Ok(_) | Err(CallError::Stopped) => Ok(()),
            Err(CallError::Thrown(thrown)) => Err(failed(thrown)),
            Err(err) => Err(failed(JsError { message: err.to_string(), ..JsError::default() })),
        })
    }

    /// Runs a shell command with the operations an extension provided. Streams its output, and at
    /// the end the result, as in [`UserBashOutcome`](crate::hook::UserBashOutcome). Drops the
    /// oldest output if the receiver is slow.
    pub fn run_operations(
        &self,
        operations: &Operations,
        command: &str,
        cwd: &str,
        cancel: CancellationToken,
    ) -> (Progress<JoinText>, impl Future<Output = Result<Value, HookRefused>> + use<>) {
        let (sink, progress) = coalesce::channel();
        let input = json!({ "operations": operations, "command": command, "cwd": cwd });
        let running = self.engine_of(operations.extension).map(|engine| {
            engine.call_about(Entry::Bash, "user_bash", &input, Some(cancel), Some(sink))
        });
        let end = async move {
            let refused = |reason: String| HookRefused { reason };
            let gone = || refused("the extension is no longer loaded".into());
            let result = running.ok_or_else(gone)?.await;
            let result = result.map_err(|err| refused(err.to_string()))?;
            serde_json::from_str(&result).map_err(|err| refused(err.to_string()))
        };
        (progress, end)
    }

    /// A run began: sets `ctx.signal`.
    pub fn run_began(&self) {
        self.run_signal(RunSignal::Began);
    }

    /// The run is being aborted: fires `ctx.signal`.
    pub fn run_aborted(&self) {
        self.run_signal(RunSignal::Aborted);
    }

    pub fn run_ended(&self) {
        self.run_signal(RunSignal::Ended);
    }

    /// Starts the extensions over for another session: contexts handed out so far become stale, and
    /// the extensions register fresh handlers. Their modules stay loaded. Call this between
    /// `session_shutdown` and `session_start`.
    pub async fn start_over(&self) -> Vec<LoadError> {
        let mut errors = Vec::new();
        for engine in self.all_engines() {
            match engine.call(Entry::Renew, &Value::Null).await {
                Ok(failed) => {
                    let failed: Vec<(String, String)> =
                        serde_json::from_str(&failed).unwrap_or_default();
                    let error = |(path, error)| LoadError { path, error, at: None };
                    errors.extend(failed.into_iter().map(error));
                }
                Err(err) => self.report("renew", &err.to_string()).await,
            }
        }
        errors
    }

    /// Removes all loaded extensions, so that others can be loaded. Running commands finish first,
    /// in the session that is open by then.
    pub async fn retire(&self) {
        let engines = self.all_engines();
        let before = std::mem::take(&mut *self.engines());
        before.retired.iter().for_each(EngineHandle::stop);
        for engine in &engines {
            // `retire` cannot fail.
            engine.call(Entry::Retire, &Value::Null).await.ok();
            engine.retire();
        }
        self.engines().retired = engines;
    }

    /// Stops all engines. Pending calls fail with `Stopped`.
    pub fn stop(&self) {
        let engines = std::mem::take(&mut *self.engines());
        engines.stop();
    }

    fn run_signal(&self, signal: RunSignal) {
        for engine in self.all_engines() {
            engine.run_signal(signal);
        }
    }

    fn engine_groups(&self) -> Vec<(EngineHandle, (u32, u32))> {
        self.engines().groups()
    }

    fn all_engines(&self) -> Vec<EngineHandle> {
        self.engines().all()
    }

    fn engine_of(&self, extension: u32) -> Option<EngineHandle> {
        self.engines().of(extension).cloned()
    }

    /// Whether the extension with this number runs in that engine. Engines are not trusted to name
    /// only their own.
    fn is_at(&self, extension: u32, engine: &EngineHandle) -> bool {
        self.engines().of(extension).is_some_and(|known| known.is(engine))
    }

    fn engines(&self) -> MutexGuard<'_, Engines> {
        mutex::lock(&self.inner.engines)
    }

    /// Reports an error, and returns when the host has it.
    async fn report(&self, event: &str, error: &str) {
        // Fails only when the runtime shuts down.
        self.report_in_background(event, error).await.ok();
    }

    /// Reports on another thread, because the host may block.
    fn report_in_background(&self, event: &str, error: &str) -> JoinHandle<()> {
        let error = ExtensionError {
            extension_path: "<runtime>".into(),
            event: event.into(),
            error: error.into(),
            at: None,
            stack: None,
        };
        let host = self.inner.host.clone();
        self.inner.config.runtime.spawn_blocking(move || host.report(error))
    }
}

const BEHIND: &str = "dropped, like others from here on: the extension is too far behind";

/// The input of a hook in one engine.
#[derive(Serialize)]
struct HookCall<'q, H> {
    name: &'static str,
    event: &'q H,
    /// The combined result of earlier engines.
    so_far: &'q Option<Value>,
    /// The first and the last extension this is for.
    extensions: (u32, u32),
}

fn to_json(event: &Event) -> String {
    serde_json::to_string(event).unwrap_or_else(|_| "null".into())
}
