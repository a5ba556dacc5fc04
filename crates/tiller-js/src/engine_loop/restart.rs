//! Restarts an engine that is stuck or gone, replays to the new one what configured it, and gives
//! up when that happens too often.

use std::sync::atomic::Ordering;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::{End, EngineContext, EngineLoop};
use crate::engine::EngineMessage;
use crate::engine::sidecar::SidecarFailure;
use crate::engine_handle::{CallError, JsError, Message};
use crate::engine_state::{EngineState, Task, VIOLATIONS_COUNT_FOR};
use crate::entry::Entry;

/// What has to be replayed to a restarted engine.
#[derive(Default)]
pub(super) struct ReplayLog {
    /// The calls that configured it, in order.
    pub(super) steps: Vec<ReplayedCall>,
    /// Extensions with a fail-closed handler.
    pub(super) guards: Vec<String>,
    /// How often the sidecar has failed lately, or the memory was full.
    crashes: CrashCount,
}

pub(super) struct ReplayedCall {
    pub(super) call: u64,
    pub(super) entry: Entry,
    pub(super) json: String,
}

/// Counts recent failures.
#[derive(Default)]
struct CrashCount {
    count: u32,
    last: Option<Instant>,
}

impl CrashCount {
    /// Counts a failure, and forgets failures that were long ago.
    fn note(&mut self, now: Instant) -> u32 {
        let before = self.last.replace(now);
        let is_recent = before.is_some_and(|before| now - before < VIOLATIONS_COUNT_FOR);
        self.count = if is_recent { self.count + 1 } else { 1 };
        self.count
    }
}

impl EngineLoop<'_> {
    /// Replaces an engine that was interrupted too often.
    pub(super) fn restart_interrupted(&mut self) -> End {
        let count = self.state.violations.get();
        self.fail_calls();
        self.report_restart(format!("the engine was started anew after {count} interruptions"));
        End::Restart
    }

    /// Replaces an engine whose memory is full, unless that happens too often: the extensions may
    /// fill it whenever they are loaded.
    pub(super) fn restart_full(&mut self) -> End {
        self.fail_calls();
        let count = self.replay.crashes.note(Instant::now());
        if count < self.state.config.limits.violations {
            let message = "the engine was started anew because its memory was full";
            self.report_restart(message.to_owned());
            return End::Restart;
        }
        let message = format!("given up: the memory was full {count} times within a minute");
        let thrown = JsError { message, ..JsError::default() };
        abandon(&self.state, std::mem::take(&mut self.replay.guards), &thrown);
        End::GiveUp(thrown)
    }

    fn report_restart(&self, message: String) {
        let thrown = JsError { message, ..JsError::default() };
        self.state.report("<runtime>".into(), "restart".into(), thrown);
    }

    /// Fails all pending calls, because the engine is about to be dropped.
    fn fail_calls(&mut self) {
        self.state.cancel_all();
        self.replay.guards = self.state.guards();
        let calls: Vec<u64> = self.state.calls.borrow().keys().copied().collect();
        for call in calls {
            self.state.answer(call, Err(CallError::Stopped));
        }
    }

    /// Replaces a sidecar that is stuck or gone, unless that happens too often.
    pub(super) fn check_sidecar(&mut self) -> Option<End> {
        let sidecar = self.engine.sidecar()?;
        let now = Instant::now();
        sidecar.ping(now);
        let failure = sidecar.failure(now)?;
        self.state.cancel_all();
        self.replay.guards = self.state.guards();
        let (path, what, message, stuck) = match failure {
            SidecarFailure::Stuck { task, limit, what } => {
                let message =
                    format!("stopped after {} ms of work without a pause", limit.as_millis());
                (self.state.path(task.extension), what, message, Some((task.call, limit)))
            }
            SidecarFailure::Gone { extension, how } => {
                (self.state.path(extension), "sidecar", how, None)
            }
        };
        let path = path.unwrap_or_else(|| "<runtime>".into());
        let thrown = JsError { message, ..JsError::default() };
        self.state.report(path, what.into(), thrown.clone());
        let crashes = self.replay.crashes.note(now);
        let end = if crashes < self.state.config.limits.violations {
            End::Restart
        } else {
            let message = format!("given up: {} ({crashes} times within a minute)", thrown.message);
            let thrown = JsError { message, ..JsError::default() };
            abandon(&self.state, std::mem::take(&mut self.replay.guards), &thrown);
            End::GiveUp(thrown)
        };
        if let Some((call, limit)) = stuck {
            self.state.answer(call, Err(CallError::TimedOut(limit)));
        }
        let calls: Vec<u64> = self.state.calls.borrow().keys().copied().collect();
        // A call that was being replayed when the sidecar failed is not tried again.
        let was_running = |step: &ReplayedCall| {
            calls.contains(&step.call) || Some(step.call) == stuck.map(|it| it.0)
        };
        self.replay.steps.retain(|step| !was_running(step));
        for call in calls {
            self.state.answer(call, Err(CallError::Exited(thrown.message.clone())));
        }
        Some(end)
    }

    /// Replays the configuring calls to a new engine.
    pub(super) fn restore(&mut self) {
        if self.replay.steps.is_empty() {
            return;
        }
        let steps: Vec<Value> = self
            .replay
            .steps
            .iter()
            .map(|ReplayedCall { entry, json, .. }| {
                let input: Value = serde_json::from_str(json).unwrap_or_default();
                json!({ "entry": entry.name(), "input": input })
            })
            .collect();
        let json = json!({ "steps": steps, "guards": self.replay.guards }).to_string();
        let limit = self.state.config.limits.long_slice;
        let message = EngineMessage::Call { call: 0, entry: Entry::Restore, json: &json };
        self.turn(Task::default(), limit, "restart", message);
    }
}

/// Drops what the extensions of an engine registered. What their fail-closed handlers guarded stays
/// blocked.
pub(super) fn abandon(state: &EngineState, guards: Vec<String>, thrown: &JsError) {
    state.set_lost_guards(guards);
    state.set_listeners(0);
    if state.set_registrations(Vec::new()) {
        state.host.changed();
        state.report("<runtime>".into(), "restart".into(), thrown.clone());
    }
}

/// Without an engine, every call fails with the reason.
pub(super) fn refuse_all(context: &EngineContext, state: &EngineState, thrown: &JsError) {
    while let Ok(message) = context.from.recv() {
        match message {
            Message::Call(call) => {
                // The caller may have dropped the receiver.
                call.reply.send(Err(CallError::NoEngine(thrown.message.clone()))).ok();
            }
            Message::Emit { .. } => {
                state.shared.backlog.fetch_sub(1, Ordering::Relaxed);
            }
            Message::Retire | Message::Stop => return,
            _ => (),
        }
    }
}
