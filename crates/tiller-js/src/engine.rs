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

/// What an engine is asked to do.
pub(crate) enum EngineMessage<'a> {
    Call {
        call: u64,
        entry: Entry,
        json: &'a str,
    },
    Emit {
        json: &'a str,
    },
    Abort {
        call: u64,
    },
    /// Fires a timer. Only the embedded engine has any: a sidecar has its own clock.
    Fire {
        timer: u64,
    },
    RunSignal(&'static str),
    Deliver {
        operation: u64,
        event: OperationEvent,
    },
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

    /// Hands a message to JavaScript for `task`, and runs all jobs that are ready. A sidecar only
    /// starts with it, and reports later that it is done.
    pub(crate) fn turn(
        &self,
        task: Task,
        limit: Duration,
        what: &'static str,
        message: EngineMessage<'_>,
    ) -> TurnOutcome {
        match self {
            Engine::Embedded(embedded) => embedded.turn(task, limit, message),
            Engine::Sidecar(sidecar) => {
                let result = sidecar.turn(task, limit, what, message);
                TurnOutcome { result, interrupted: false }
            }
        }
    }

    /// Only for an engine in this process: in a sidecar, JavaScript that runs out of memory or of
    /// time takes the process with it.
    pub(crate) fn collect_garbage(&self) {
        if let Engine::Embedded(embedded) = self {
            embedded.collect_garbage();
        }
    }

    /// Collects garbage. Returns whether JavaScript can go on: with full memory every call fails.
    pub(crate) fn has_memory(&self) -> bool {
        match self {
            Engine::Embedded(embedded) => embedded.has_memory(),
            Engine::Sidecar(_) => true,
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
