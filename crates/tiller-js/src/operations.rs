//! Operations that JavaScript calls by name. `sync` operations return their result; `start`ed ones
//! send it later. Each kind has a file of its own. All pass the check in `access.rs`.

use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::access::{self, Access, Denied};
use crate::engine_handle::Message;
use crate::engine_loop::OperationEvent;
use crate::engine_state::EngineState;
use crate::mailbox::Mailbox;
use crate::memory::Memory;
use crate::modules::builtin;

mod bus;
mod child;
mod crypto;
mod files;
mod fs;
mod http;
mod net;
mod os;
mod host;
pub(crate) mod resources;
mod session;
mod text;
mod url;
mod waiting;
mod zlib;

pub(crate) use url::file_url;
pub(crate) use waiting::BlockingWait;

/// The input of an operation.
pub(crate) struct OpInput {
    pub json: String,
    pub bytes: Option<Vec<u8>>,
}

impl OpInput {
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<T, OpError> {
        let json = if self.json.is_empty() { "null" } else { &self.json };
        serde_json::from_str(json).map_err(|err| OpError::typed(err.to_string()))
    }

    fn bytes(self) -> Vec<u8> {
        self.bytes.unwrap_or_default()
    }
}

/// The output of an operation.
#[derive(Debug)]
pub(crate) enum OpOutput {
    Nothing,
    Text(String),
    Bytes(Vec<u8>),
    Json(String),
}

impl OpOutput {
    fn bytes(&self) -> usize {
        match self {
            OpOutput::Nothing => 0,
            OpOutput::Text(text) | OpOutput::Json(text) => text.len(),
            OpOutput::Bytes(bytes) => bytes.len(),
        }
    }

    pub(crate) fn json(value: &impl serde::Serialize) -> OpOutput {
        OpOutput::Json(serde_json::to_string(value).unwrap_or_else(|_| "null".into()))
    }
}

/// An error with node's fields.
#[derive(Debug, Default)]
pub(crate) struct OpError {
    pub message: String,
    /// The error's class, if it is not `Error`.
    pub name: Option<&'static str>,
    pub fields: Vec<(&'static str, Value)>,
}

impl OpError {
    pub(crate) fn new(message: impl Into<String>) -> OpError {
        OpError { message: message.into(), ..OpError::default() }
    }

    pub(crate) fn coded(code: &str, message: impl Into<String>) -> OpError {
        let fields = vec![("code", code.into())];
        OpError { message: message.into(), name: None, fields }
    }

    /// A module that cannot be loaded.
    pub(crate) fn of_module(message: String) -> OpError {
        if message.starts_with("Cannot find module") {
            OpError::coded("MODULE_NOT_FOUND", message)
        } else if message.contains(builtin::LACKING) {
            OpError::coded("ERR_TILLER_UNSUPPORTED", message)
        } else if message.starts_with("EACCES: ") {
            OpError::coded("EACCES", message)
        } else {
            OpError::new(message)
        }
    }

    fn typed(message: String) -> OpError {
        let fields = vec![("code", "ERR_INVALID_ARG_TYPE".into())];
        OpError { message, name: Some("TypeError"), fields }
    }

    /// The extension's permissions do not allow this.
    pub(crate) fn denied(denied: Denied) -> OpError {
        OpError::coded("EACCES", denied.to_string())
    }
}

pub(crate) type OpReply = Result<OpOutput, OpError>;
pub(crate) type OpFuture = Pin<Box<dyn Future<Output = OpReply> + Send>>;

/// Sends an operation's events and result to its engine.
#[derive(Clone)]
pub(crate) struct OpEvents {
    memory: Arc<Memory>,
    pub id: u64,
    pub to: Mailbox,
}

impl OpEvents {
    fn done(&self, result: OpReply) {
        self.send(OperationEvent::Done(result));
    }

    /// Sends an event.
    pub(crate) fn emit(&self, output: OpOutput) {
        self.send(OperationEvent::Event(output));
    }

    /// Whether so much is queued for the engine that nothing more should be read.
    fn is_full(&self) -> bool {
        self.memory.is_full()
    }

    fn send(&self, event: OperationEvent) {
        let bytes = match &event {
            OperationEvent::Event(output) | OperationEvent::Done(Ok(output)) => output.bytes(),
            OperationEvent::Done(Err(err)) => err.message.len(),
        };
        let hold = self.memory.note(bytes);
        // If the engine's thread is gone, nothing waits for the result.
        self.to.send(Message::Operation { id: self.id, event, _hold: hold }).ok();
    }
}

pub(crate) fn sync(state: &Rc<EngineState>, name: &str, input: OpInput) -> OpReply {
    allow(state, name)?;
    state.memory.check_json(&input.json)?;
    match name.split_once('.') {
        Some(("fs", name)) => fs::sync(state, name, input),
        Some(("os", name)) => os::sync(state, name, &input),
        Some(("text", name)) => text::sync(name, input),
        Some(("session", name)) => session::sync(name, &input),
        Some(("url", name)) => url::sync(name, &input),
        Some(("crypto", name)) => crypto::sync(state, name, input),
        Some(("zlib", name)) => zlib::sync(state, name, input),
        Some(("child", name)) => child::sync(state, name, input),
        Some(("net", name)) => net::sync(state, name, input),
        Some(("bus", name)) => bus::sync(state, name, &input),
        _ => host::sync(state, name, &input),
    }
}

/// Estimated memory of a pending operation, beside its input.
const OPERATION_BYTES: usize = 1 << 10;

/// Starts an operation and returns its number.
pub(crate) fn launch(state: &Rc<EngineState>, name: &str, input: OpInput) -> u64 {
    let id = state.begin();
    let sink = OpEvents { memory: state.memory.clone(), id, to: state.to.clone() };
    let room = input.json.len() + input.bytes.as_ref().map_or(0, Vec::len) + OPERATION_BYTES;
    let started = state.memory.hold(room).and_then(|hold| {
        state.memory.check_json(&input.json)?;
        Ok((start(state, name, input, sink.clone())?, hold))
    });
    match started {
        Ok((future, hold)) => {
            let work = async move {
                let result = future.await;
                drop(hold);
                sink.done(result);
            };
            let abort = state.config.runtime.spawn(work).abort_handle();
            if let Some(operation) = state.operations.borrow_mut().get_mut(&id) {
                operation.abort = Some(abort);
            }
        }
        Err(err) => sink.done(Err(err)),
    }
    id
}

fn start(
    state: &Rc<EngineState>,
    name: &str,
    input: OpInput,
    sink: OpEvents,
) -> Result<OpFuture, OpError> {
    allow(state, name)?;
    match name.split_once('.') {
        Some(("fs", name)) => fs::start(state, name, input),
        Some(("http", name)) => http::start(state, name, input),
        Some(("child", name)) => child::start(state, name, &input, sink),
        Some(("net", name)) => net::start(state, name, &input, sink),
        Some(("zlib", name)) => zlib::start(state, name, input),
        _ => host::start(state, name, &input, sink),
    }
}

/// An operation without a row in the table of permissions does not exist.
fn allow(state: &EngineState, name: &str) -> Result<(), OpError> {
    if access::operation(name).is_none() {
        return Err(unknown(name));
    }
    state.allow(Access::Operation(name))
}

fn unknown(name: &str) -> OpError {
    OpError::new(format!("no operation \"{name}\""))
}
