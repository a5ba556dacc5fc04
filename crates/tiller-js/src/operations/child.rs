//! Child processes. The host spawns them, so that none outlives tiller; this file passes on their
//! input and output.

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::json;
use tiller_agent::mutex;
use tiller_agent::program::{Program, ProgramEvent};

use super::{OpError, OpEvents, OpFuture, OpInput, OpOutput, OpReply, unknown};
use crate::engine_state::EngineState;

/// Upper bound on output that the extension has not read yet.
const WAITING_MAX_BYTES: usize = 4 << 20;
/// How long a killed child may take to close its output before we stop waiting.
const LINGER: Duration = Duration::from_millis(500);
/// How often a synchronous wait checks whether it was abandoned.
const CHECK_EVERY: Duration = Duration::from_millis(50);
const SIGKILL: i32 = 9;

pub(super) fn sync(state: &Rc<EngineState>, name: &str, op_input: OpInput) -> OpReply {
    match name {
        "spawnSync" => {
            let wait: Wait = op_input.read()?;
            state.budget.pause(|| spawn_and_wait(state, wait, op_input.bytes))
        }
        "write" => {
            let id: u64 = op_input.read()?;
            if let Some(child) = state.resources.borrow().children.get(&id) {
                let bytes = op_input.bytes();
                let hold = state.memory.hold(bytes.len())?;
                child.write(bytes, Box::new(hold));
            }
            Ok(OpOutput::Nothing)
        }
        "end" => {
            if let Some(child) = state.resources.borrow().children.get(&op_input.read()?) {
                child.close_stdin();
            }
            Ok(OpOutput::Nothing)
        }
        "kill" => {
            let (id, signal): (u64, i32) = op_input.read()?;
            let resources = state.resources.borrow();
            let child = resources.children.get(&id);
            if let Some(child) = child {
                child.kill(signal);
            }
            Ok(OpOutput::json(&child.is_some()))
        }
        "read" => {
            // The extension has read this many bytes.
            let (id, bytes): (u64, usize) = op_input.read()?;
            if let Some(flow) = state.resources.borrow().flows.get(&id) {
                flow.remove(bytes);
            }
            Ok(OpOutput::Nothing)
        }
        "forget" => {
            let id: u64 = op_input.read()?;
            let mut resources = state.resources.borrow_mut();
            resources.children.remove(&id);
            resources.flows.remove(&id);
            Ok(OpOutput::Nothing)
        }
        _ => Err(unknown(name)),
    }
}

/// `child.spawn`: first sends `{id, pid}`, then the child's events, and ends with it.
pub(super) fn start(
    state: &Rc<EngineState>,
    name: &str,
    op_input: &OpInput,
    op_events: OpEvents,
) -> Result<OpFuture, OpError> {
    if name != "spawn" {
        return Err(unknown(name));
    }
    let request: Program = op_input.read()?;
    let command = request.command.clone();
    let flow = Arc::new(Flow::default());
    let (ended, end) = tokio::sync::oneshot::channel();
    let mut ended = Some(ended);
    let id = state.resources.borrow_mut().number();
    let early = Arc::new(Mutex::new(EarlyEvents::default()));
    let sink = {
        let (flow, op_events, early) = (flow.clone(), op_events.clone(), early.clone());
        Box::new(move |event: ProgramEvent| {
            if let ProgramEvent::Stdout(bytes) | ProgramEvent::Stderr(bytes) = &event {
                flow.add(bytes.len());
            }
            if event == ProgramEvent::Closed {
                // The receiver may be gone.
                ended.take().map(|ended| ended.send(()));
                return;
            }
            let mut early = mutex::lock(&early);
            if early.is_announced {
                emit_child_event(&op_events, event)
            } else {
                early.events.push_back(event)
            }
        })
    };
    let spawned = state.budget.pause(|| state.host.spawn(request, sink));
    let child = spawned.map_err(|err| spawn_failed(&err, &command))?;
    op_events.emit(OpOutput::json(&json!({ "id": id, "pid": child.pid() })));
    {
        let mut early = mutex::lock(&early);
        early.is_announced = true;
        for event in early.events.drain(..) {
            emit_child_event(&op_events, event);
        }
    }
    let mut resources = state.resources.borrow_mut();
    resources.children.insert(id, child.into());
    resources.flows.insert(id, flow);
    Ok(Box::pin(async move {
        // An error means the sink was dropped: no more events follow.
        end.await.ok();
        Ok(OpOutput::Nothing)
    }))
}

/// Events that arrive before the extension has the child's id.
#[derive(Default)]
struct EarlyEvents {
    is_announced: bool,
    events: VecDeque<ProgramEvent>,
}

fn emit_child_event(op_events: &OpEvents, event: ProgramEvent) {
    match event {
        // Announced by a JSON event, because bytes are sent alone.
        ProgramEvent::Stdout(bytes) => {
            op_events.emit(OpOutput::Text("stdout".into()));
            op_events.emit(OpOutput::Bytes(bytes));
        }
        ProgramEvent::Stderr(bytes) => {
            op_events.emit(OpOutput::Text("stderr".into()));
            op_events.emit(OpOutput::Bytes(bytes));
        }
        ProgramEvent::Exit { code, signal } => {
            op_events.emit(OpOutput::json(&json!({ "code": code, "signal": signal })));
        }
        ProgramEvent::Closed => (),
    }
}

/// Limits a child to the speed at which the extension reads.
#[derive(Default)]
pub(crate) struct Flow {
    waiting: Mutex<usize>,
    read: Condvar,
}

impl Flow {
    /// Blocks while too much is unread.
    fn add(&self, bytes: usize) {
        let mut waiting = mutex::lock(&self.waiting);
        while *waiting > WAITING_MAX_BYTES {
            // A stopped engine reads no more, so the wait is bounded.
            let limit = Duration::from_secs(5);
            let (guard, timeout) =
                self.read.wait_timeout(waiting, limit).unwrap_or_else(PoisonError::into_inner);
            waiting = guard;
            if timeout.timed_out() {
                break;
            }
        }
        *waiting += bytes;
    }

    fn remove(&self, bytes: usize) {
        let mut waiting = mutex::lock(&self.waiting);
        *waiting = waiting.saturating_sub(bytes);
        self.read.notify_all();
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wait {
    #[serde(flatten)]
    request: Program,
    #[serde(default)]
    timeout_ms: Option<u64>,
    #[serde(default)]
    kill_signal: Option<i32>,
    max_buffer: usize,
}

/// Blocks the engine as node's `spawnSync` blocks node. Returns a line of JSON, then stdout and
/// stderr one after the other; the line has their lengths.
fn spawn_and_wait(state: &Rc<EngineState>, wait: Wait, input: Option<Vec<u8>>) -> OpReply {
    let max_buffer = wait.max_buffer.min(state.config.limits.memory_bytes / 4);
    let (to, events) = mpsc::channel();
    let command = wait.request.command.clone();
    let sink = Box::new(move |event| {
        // The receiver is gone after a timeout.
        to.send(event).ok();
    });
    let child = state.host.spawn(wait.request, sink).map_err(|err| spawn_failed(&err, &command))?;
    if let Some(input) = input {
        let hold = state.memory.hold(input.len())?;
        child.write(input, Box::new(hold));
    }
    child.close_stdin();
    let mut deadline = wait.timeout_ms.map(|ms| Instant::now() + Duration::from_millis(ms));
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let (mut code, mut signal, mut error) = (None, None, None);
    loop {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let event = events.recv_timeout(left.unwrap_or(CHECK_EVERY).min(CHECK_EVERY));
        if event == Err(RecvTimeoutError::Timeout) && left.is_none_or(|left| left > CHECK_EVERY) {
            if state.shared.is_stopped() || state.is_call_overdue() {
                child.kill(SIGKILL);
                error.get_or_insert("ETIMEDOUT");
                deadline = Some(Instant::now() + LINGER);
            }
            continue;
        }
        match event {
            Ok(ProgramEvent::Stdout(bytes)) => stdout.extend(bytes),
            Ok(ProgramEvent::Stderr(bytes)) => stderr.extend(bytes),
            Ok(ProgramEvent::Exit { code: with, signal: by }) => (code, signal) = (with, by),
            Ok(ProgramEvent::Closed) | Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) if error.is_some() => break,
            Err(RecvTimeoutError::Timeout) => {
                child.kill(wait.kill_signal.unwrap_or(15));
                error = Some("ETIMEDOUT");
                deadline = Some(Instant::now() + LINGER);
            }
        }
        if stdout.len().max(stderr.len()) > max_buffer && error.is_none() {
            child.kill(wait.kill_signal.unwrap_or(15));
            error = Some("ENOBUFS");
            deadline = Some(Instant::now() + LINGER);
        }
    }
    stdout.truncate(max_buffer);
    stderr.truncate(max_buffer);
    let mut all = json!({
        "pid": child.pid(), "code": code, "signal": signal, "error": error,
        "stdout": stdout.len(), "stderr": stderr.len(),
    })
    .to_string()
    .into_bytes();
    all.push(b'\n');
    all.extend(stdout);
    all.extend(stderr);
    Ok(OpOutput::Bytes(all))
}

/// `spawn git ENOENT`, as in node.
fn spawn_failed(err: &std::io::Error, command: &str) -> OpError {
    let number = err.raw_os_error().unwrap_or(nix::libc::EIO);
    let code = format!("{:?}", nix::errno::Errno::from_raw(number));
    OpError {
        message: format!("spawn {command} {code}"),
        name: None,
        fields: vec![
            ("errno", (-number).into()),
            ("code", code.into()),
            ("syscall", format!("spawn {command}").into()),
            ("path", command.into()),
        ],
    }
}
