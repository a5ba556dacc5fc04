//! Runs JavaScript: QuickJS on this thread, or node or bun as a child process. Both take the same
//! messages. The embedded engine has finished a message when the call returns; a sidecar reports it
//! later.

use std::rc::Rc;
use std::time::Duration;

mod embedded;
pub(crate) mod sidecar;

use embedded::Embedded;
use sidecar::Sidecar;

use crate::engine_handle::{EngineSpec, JsError};
use crate::engine_loop::OperationEvent;
use crate::engine_state::{EngineState, Task};
use crate::entry::Entry;

pub(crate) enum Engine {
    Embedded(Embedded),
    Sidecar(Sidecar),
}

/// The outcome of a turn.
pub(crate) struct TurnOutcome {
    pub result: Result<(), JsError>,
    pub interrupted: bool,
}

impl Engine {
    pub(crate) fn start(spec: &EngineSpec, state: Rc<EngineState>) -> Result<Engine, JsError> {
        match spec {
            EngineSpec::Embedded => Embedded::start(state).map(Engine::Embedded),
            EngineSpec::Sidecar(program) => Sidecar::start(program, state).map(Engine::Sidecar),
        }
    }

    /// Runs `work` for `task`, then all jobs that are ready. A sidecar only starts with it, and
    /// reports later that it is done.
    pub(crate) fn turn(
        &self,
        task: Task,
        limit: Duration,
        what: &'static str,
        work: impl FnOnce(&Engine) -> Result<(), JsError>,
    ) -> TurnOutcome {
        match self {
            Engine::Embedded(embedded) => embedded.turn(task, limit, || work(self)),
            Engine::Sidecar(sidecar) => {
                sidecar.next_turn(task, limit, what);
                TurnOutcome { result: work(self), interrupted: false }
            }
        }
    }

    pub(crate) fn call(&self, call: u64, entry: Entry, json: &str) -> Result<(), JsError> {
        match self {
            Engine::Embedded(embedded) => embedded.call(call, entry.name(), json),
            Engine::Sidecar(sidecar) => sidecar.call(call, entry.name(), json),
        }
    }

    pub(crate) fn emit(&self, json: &str) -> Result<(), JsError> {
        match self {
            Engine::Embedded(embedded) => embedded.emit(json),
            Engine::Sidecar(sidecar) => sidecar.emit(json),
        }
    }

    pub(crate) fn abort(&self, call: u64) -> Result<(), JsError> {
        match self {
            Engine::Embedded(embedded) => embedded.abort(call),
            Engine::Sidecar(sidecar) => sidecar.abort(call),
        }
    }

    /// Fires a timer. Only the embedded engine has any: a sidecar has its own clock.
    pub(crate) fn fire(&self, timer: u64) -> Result<(), JsError> {
        match self {
            Engine::Embedded(embedded) => embedded.fire(timer),
            Engine::Sidecar(_) => Ok(()),
        }
    }

    pub(crate) fn run_signal(&self, signal: &'static str) -> Result<(), JsError> {
        match self {
            Engine::Embedded(embedded) => embedded.run_signal(signal),
            Engine::Sidecar(sidecar) => sidecar.run_signal(signal),
        }
    }

    pub(crate) fn deliver(&self, operation: u64, event: OperationEvent) -> Result<(), JsError> {
        match self {
            Engine::Embedded(embedded) => embedded.deliver(operation, event),
            Engine::Sidecar(sidecar) => sidecar.deliver(operation, event),
        }
    }

    /// Only for an engine in this process: in a sidecar, JavaScript that runs out of memory or of
    /// time takes the process with it.
    pub(crate) fn collect_garbage(&self) {
        if let Engine::Embedded(embedded) = self {
            embedded.collect_garbage();
        }
    }

    /// The sidecar, if this engine is one.
    pub(crate) fn sidecar(&self) -> Option<&Sidecar> {
        match self {
            Engine::Embedded(_) => None,
            Engine::Sidecar(sidecar) => Some(sidecar),
        }
    }
}
