//! A sidecar: node or bun as a child process, for extensions that need what the embedded engine
//! lacks. It runs the same `js/runtime`; only the node and web modules are its own.
//!
//! Two sockets connect them. The sidecar writes everything to the *request* socket, and blocks there
//! until each of its requests is answered. It reads messages from the *message* socket,
//! asynchronously. Its stdout and stderr are not part of the protocol and go to the log.
//!
//! JavaScript in a sidecar cannot be interrupted: a sidecar that takes too long is killed and
//! restarted.

use std::cell::{Cell, RefCell};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use tiller_agent::program::Program as ChildProgram;
use tokio::time::Instant;

mod output;
mod program;
mod pending;
mod protocol;

use pending::{Turn, Turns};
pub(crate) use program::Program;
use protocol::{FromSidecar, Greeting, SidecarReply, ToSidecar, ToSidecarKind};

use crate::bindings;
use crate::engine::EngineMessage;
use crate::engine_handle::{CallError, JsError, Message};
use crate::engine_loop::OperationEvent;
use crate::engine_state::{EngineState, Task};
use crate::host_api::{Child, Query};
use crate::mailbox::Mailbox;
use crate::modules::builtin;
use crate::operations::{self, OpError, OpOutput};

/// How long the program may take to send its first line.
const START_MAX: Duration = Duration::from_secs(10);
/// How long a sidecar that waits for an answer may take to read it.
const READ_MAX: Duration = Duration::from_secs(5);
/// Upper bound on lines that were read and not handled yet.
const UNHANDLED_MAX: usize = 256;
const SIGKILL: i32 = 9;

pub(crate) struct Sidecar {
    state: Rc<EngineState>,
    name: &'static str,
    child: Box<dyn Child>,
    request_socket: UnixStream,
    /// Shut down explicitly, because children of the sidecar may hold the other end open.
    message_socket: UnixStream,
    messages: mpsc::Sender<String>,
    /// One item for every line that was read and not handled yet.
    unhandled: mpsc::Receiver<()>,
    generation: u64,
    turns: RefCell<Turns>,
    /// The extension whose code last ran, as far as is known.
    running_extension: Cell<u32>,
    end: RefCell<Option<String>>,
}

/// An event from one of the threads that read a sidecar's sockets and output.
pub(crate) struct SidecarEvent {
    generation: u64,
    kind: SidecarEventKind,
}

enum SidecarEventKind {
    Line(String),
    /// The request socket is closed.
    Closed,
    Exited {
        code: Option<i32>,
        signal: Option<i32>,
    },
}

/// Why a sidecar cannot be used any longer.
pub(crate) enum SidecarFailure {
    /// It blocked its thread for too long.
    Stuck { task: Task, limit: Duration, what: &'static str },
    /// The process exited, or sent an invalid line.
    Gone { extension: u32, how: String },
}

impl Sidecar {
    pub(crate) fn start(program: &Program, state: Rc<EngineState>) -> Result<Sidecar, JsError> {
        let name = program.runtime.name();
        let failed = |why: &dyn std::fmt::Display| JsError {
            message: format!("{name} ({}) cannot be used: {why}", program.path.display()),
            ..JsError::default()
        };
        let generation = state.shared.generations.fetch_add(1, Ordering::Relaxed);
        let (request_socket, their_request_socket) =
            UnixStream::pair().map_err(|err| failed(&err))?;
        let (message_writer, their_message_socket) =
            UnixStream::pair().map_err(|err| failed(&err))?;
        let inherited =
            [their_request_socket, their_message_socket].map(|end| Arc::new(OwnedFd::from(end)));
        let files = [inherited[0].as_raw_fd(), inherited[1].as_raw_fd()];
        let request = ChildProgram {
            command: program.path.to_string_lossy().into_owned(),
            args: program.arguments(state.config.limits.memory_bytes, files),
            cwd: folder(&state),
            env: state.config.env.clone(),
            stdin: false,
            argv0: None,
            inherited: inherited.into(),
        };
        let to = state.to.clone();
        let ended = Box::new(move |code, signal| {
            // If the engine's thread is gone, the event is not needed.
            to.send(Message::Sidecar(SidecarEvent {
                generation,
                kind: SidecarEventKind::Exited { code, signal },
            }))
            .ok();
        });
        let sink = output::sink(state.host.clone(), ended);
        let child = state.host.spawn(request, sink).map_err(|err| failed(&err))?;
        let started = wait_for_greeting(&request_socket).and_then(|reader| {
            request_socket.set_write_timeout(Some(READ_MAX))?;
            let (permits, unhandled) = mpsc::sync_channel(UNHANDLED_MAX);
            let to = state.to.clone();
            let max = state.config.limits.memory_bytes;
            thread("sidecar", move || listen(reader, max, &permits, &to, generation))?;
            let (sender, messages) = mpsc::channel();
            let message_socket = message_writer.try_clone()?;
            thread("sidecar messages", move || write_messages(message_writer, &messages))?;
            Ok((message_socket, sender, unhandled))
        });
        let (message_socket, messages, unhandled) = match started {
            Ok(started) => started,
            Err(err) => {
                child.kill(SIGKILL);
                return Err(failed(&err));
            }
        };
        Ok(Sidecar {
            state,
            name,
            child,
            request_socket,
            message_socket,
            messages,
            unhandled,
            generation,
            turns: RefCell::default(),
            running_extension: Cell::new(0),
            end: RefCell::default(),
        })
    }

    /// Sends a message for `task`, which may block the sidecar's thread no longer than `limit`.
    pub(super) fn turn(
        &self,
        task: Task,
        limit: Duration,
        what: &'static str,
        message: EngineMessage<'_>,
    ) -> Result<(), JsError> {
        let kind = match message {
            EngineMessage::Call { call: id, entry, json } => {
                ToSidecarKind::Call { id, entry: entry.name(), json }
            }
            EngineMessage::Emit { json } => ToSidecarKind::Emit { json },
            EngineMessage::Abort { call: id } => ToSidecarKind::Abort { id },
            EngineMessage::Fire { .. } => return Ok(()),
            EngineMessage::RunSignal(signal) => ToSidecarKind::RunSignal { signal },
            EngineMessage::Deliver { operation: id, event: OperationEvent::Event(output) } => {
                ToSidecarKind::Event { id, output: output.into() }
            }
            EngineMessage::Deliver { operation: id, event: OperationEvent::Done(result) } => {
                ToSidecarKind::Done { id, output: result.into() }
            }
        };
        self.send(task, limit, what, kind)
    }

    fn send(
        &self,
        task: Task,
        limit: Duration,
        what: &'static str,
        kind: ToSidecarKind<'_>,
    ) -> Result<(), JsError> {
        let is_event = matches!(kind, ToSidecarKind::Emit { .. });
        let turn = self.turns.borrow_mut().begin(task, limit, what, is_event, Instant::now());
        let message = ToSidecar { turn, task: (task.call, task.extension), kind };
        let mut text = serde_json::to_string(&message)
            .map_err(|err| JsError { message: err.to_string(), ..JsError::default() })?;
        text.push('\n');
        // If the writer thread is gone, so is the process, and its exit is reported separately.
        self.messages.send(text).ok();
        Ok(())
    }

    /// Handles an event from this sidecar. Events of an earlier one are ignored.
    pub(crate) fn handle_event(&self, event: SidecarEvent) {
        if event.generation != self.generation {
            return;
        }
        match event.kind {
            SidecarEventKind::Line(line) => {
                // The reader put an item there before it sent the line.
                self.unhandled.try_recv().ok();
                match serde_json::from_str(&line) {
                    Ok(request) => self.handle_request(request),
                    Err(err) => self.give_up(format!("sent an invalid line: {err}")),
                }
            }
            // The exit event that follows says how it ended.
            SidecarEventKind::Closed => self.child.kill(SIGKILL),
            SidecarEventKind::Exited { code: Some(code), .. } => {
                self.give_up(format!("ended with code {code}"))
            }
            SidecarEventKind::Exited { signal, .. } => {
                let signal = signal.map(|signal| format!(" {signal}")).unwrap_or_default();
                self.give_up(format!("was ended by signal{signal}"));
            }
        }
    }

    fn handle_request(&self, request: FromSidecar) {
        let state = &self.state;
        match request {
            FromSidecar::Sync(operation) => {
                state.task.set(operation.task());
                let (name, input) = operation.into_input();
                self.answer(operations::sync(state, &name, input).into());
            }
            FromSidecar::Start(operation) => {
                state.task.set(operation.task());
                let (name, input) = operation.into_input();
                let id = operations::launch(state, &name, input);
                self.answer(OpOutput::json(&id).into());
            }
            FromSidecar::Entry { path, number } => {
                state.paths.borrow_mut().insert(number, path.clone());
                let id = state.modules.borrow_mut().entry(Path::new(&path), number, false);
                self.answer_text(id);
            }
            FromSidecar::Resolve { importer, name } => {
                let id = state.modules.borrow_mut().resolve(&importer, &name);
                self.answer_text(id);
            }
            FromSidecar::Locate { importer, name } => {
                let path = state.modules.borrow_mut().find(&importer, &name);
                self.answer_text(path);
            }
            FromSidecar::Packages => self.answer(OpOutput::json(&builtin::packages()).into()),
            FromSidecar::Load { id } => {
                let module = state.modules.borrow_mut().source(&id);
                self.answer(match module {
                    Ok((source, is_script)) => SidecarReply::Module { source, is_script },
                    Err(message) => Err(OpError::of_module(message)).into(),
                });
            }
            FromSidecar::Cancel { id } => state.cancel(id),
            FromSidecar::Reply { call, json } => state.answer(call, Ok(json)),
            FromSidecar::Fail { call, message, stack } => {
                let thrown = state.thrown(message, stack.as_deref());
                state.answer(call, Err(CallError::Thrown(thrown)));
            }
            FromSidecar::Progress { call, json } => state.progress(call, json),
            FromSidecar::Report { path, event, message, stack } => {
                state.report(path, event, state.thrown(message, stack.as_deref()));
            }
            FromSidecar::Running { extension } => self.running_extension.set(extension),
            FromSidecar::Handled { turn } => {
                let events = self.turns.borrow_mut().end(turn, Instant::now());
                state.shared.backlog.fetch_sub(events, Ordering::Relaxed);
            }
            FromSidecar::Pause => self.turns.borrow_mut().pause(Instant::now()),
            FromSidecar::Resume => self.turns.borrow_mut().resume(Instant::now()),
        }
        for text in state.modules.borrow_mut().take_warnings() {
            bindings::warn(state, text);
        }
    }

    fn answer_text(&self, result: Result<String, String>) {
        self.answer(result.map(OpOutput::Text).map_err(OpError::of_module).into());
    }

    fn answer(&self, answer: SidecarReply) {
        let text = serde_json::to_string(&answer).unwrap_or_else(|_| "\"nothing\"".into());
        if let Err(err) = (&self.request_socket).write_all(format!("{text}\n").as_bytes()) {
            self.give_up(format!("does not listen: {err}"));
        }
    }

    fn give_up(&self, why: String) {
        self.end.borrow_mut().get_or_insert(why);
    }

    /// When the engine's loop has to check this sidecar, even without a message.
    pub(crate) fn due(&self) -> Option<Instant> {
        let turns = self.turns.borrow();
        let ping = turns.idle_since().filter(|_| !self.state.calls.borrow().is_empty());
        turns.deadline().or(ping.map(|since| since + self.state.config.limits.slice / 2))
    }

    /// Checks that an idle sidecar still responds while calls wait for it: a loop after an `await`
    /// belongs to no message that was sent.
    pub(crate) fn ping(&self, now: Instant) {
        let idle = self.turns.borrow().idle_since();
        if idle.is_none() || self.due().is_none_or(|due| due > now) {
            return;
        }
        let limits = &self.state.config.limits;
        let calls = self.state.calls.borrow();
        let limit = if calls.values().any(|call| !call.entry.is_hook()) {
            limits.long_slice
        } else {
            limits.slice
        };
        let (task, what) = match calls.iter().next() {
            Some((&call, active)) if calls.len() == 1 => {
                (Task { call, extension: self.running_extension.get() }, active.what)
            }
            _ => (Task::default(), "sidecar"),
        };
        drop(calls);
        // An object of three numbers always serializes.
        self.send(task, limit, what, ToSidecarKind::Ping).ok();
    }

    /// Why the sidecar cannot be used any longer, if so.
    pub(crate) fn failure(&self, now: Instant) -> Option<SidecarFailure> {
        if let Some(how) = self.end.borrow_mut().take() {
            let how = format!("{} {how}", self.name);
            return Some(SidecarFailure::Gone { extension: self.running_extension.get(), how });
        }
        let Turn { task, limit, what, .. } = self.turns.borrow().overdue(now)?;
        let task = Task { extension: self.running_extension.get(), ..task };
        Some(SidecarFailure::Stuck { task, limit, what })
    }
}

impl Drop for Sidecar {
    fn drop(&mut self) {
        self.child.kill(SIGKILL);
        for socket in [&self.request_socket, &self.message_socket] {
            // It may already be closed.
            socket.shutdown(Shutdown::Both).ok();
        }
        let events = self.turns.borrow().events();
        self.state.shared.backlog.fetch_sub(events, Ordering::Relaxed);
    }
}

/// The sidecar's working folder: the session's, which need not be tiller's.
fn folder(state: &EngineState) -> PathBuf {
    let cwd = state.host.query(Query::Cwd).ok();
    let cwd = cwd.and_then(|cwd| cwd.as_str().map(PathBuf::from));
    cwd.filter(|folder| folder.is_dir()).unwrap_or_else(|| state.config.cwd.clone())
}

/// Waits for the first line.
fn wait_for_greeting(socket: &UnixStream) -> io::Result<BufReader<UnixStream>> {
    socket.set_read_timeout(Some(START_MAX))?;
    let mut reader = BufReader::new(socket.try_clone()?);
    let mut first = String::new();
    if reader.read_line(&mut first)? == 0 {
        return Err(io::Error::other("it ended before it began"));
    }
    socket.set_read_timeout(None)?;
    match serde_json::from_str(&first) {
        Ok(Greeting::Hello) => Ok(reader),
        Ok(Greeting::Unfit { why }) => Err(io::Error::other(why)),
        Err(err) => Err(err.into()),
    }
}

/// Reads requests until the socket is closed or a line is too long.
fn listen(
    mut reader: BufReader<UnixStream>,
    line_max_bytes: usize,
    permits: &mpsc::SyncSender<()>,
    to: &Mailbox,
    generation: u64,
) {
    loop {
        let mut line = Vec::new();
        let read = reader.by_ref().take(line_max_bytes as u64).read_until(b'\n', &mut line);
        let is_whole = read.is_ok() && line.ends_with(b"\n");
        let kind = match String::from_utf8(line) {
            Ok(line) if is_whole => SidecarEventKind::Line(line),
            _ => SidecarEventKind::Closed,
        };
        let is_last = matches!(kind, SidecarEventKind::Closed);
        let has_room = is_last || permits.send(()).is_ok();
        let sent = to.send(Message::Sidecar(SidecarEvent { generation, kind }));
        if is_last || !has_room || sent.is_err() {
            return;
        }
    }
}

/// Writes messages until the channel or the socket closes.
fn write_messages(mut socket: UnixStream, messages: &mpsc::Receiver<String>) {
    while let Ok(text) = messages.recv() {
        if socket.write_all(text.as_bytes()).is_err() {
            return;
        }
    }
}

fn thread(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new().name(name.to_owned()).spawn(work).map(drop)
}
