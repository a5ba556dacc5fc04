//! A sidecar: node or bun as a child process, for extensions that need what the embedded engine
//! lacks. It runs the same `js/runtime`; only the node and web modules are its own.
//!
//! Two sockets connect them. The sidecar writes everything to the *line*, and blocks there until
//! each of its requests is answered. It reads messages from the *news* socket, asynchronously. Its
//! stdout and stderr are not part of the protocol and go to the log.
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
use crate::engine_handle::{CallError, JsError, Message};
use crate::engine_loop::OperationEvent;
use crate::engine_state::{EngineState, Task};
use crate::mailbox::Mailbox;
use crate::modules::builtin;
use crate::operations::{self, OpError, OpOutput};
use crate::world::{Child, Query};

/// How long the program may take to send its first line.
const START_MAX: Duration = Duration::from_secs(10);
/// How long a sidecar that waits for an answer may take to read it.
const READ_MAX: Duration = Duration::from_secs(5);
/// Upper bound on lines that were read and not handled yet.
const UNHEARD_MAX: usize = 256;
const SIGKILL: i32 = 9;

pub(crate) struct Sidecar {
    core: Rc<EngineState>,
    name: &'static str,
    child: Box<dyn Child>,
    line: UnixStream,
    /// Shut down explicitly, because children of the sidecar may hold the other end open.
    news_line: UnixStream,
    news: mpsc::Sender<String>,
    /// One item for every line that was read and not handled yet.
    unheard: mpsc::Receiver<()>,
    generation: u64,
    turns: RefCell<Turns>,
    /// Task, time limit and label of the next message.
    next: Cell<(Task, Duration, &'static str)>,
    /// The extension whose code last ran, as far as is known.
    whose: Cell<u32>,
    end: RefCell<Option<String>>,
}

/// An event from one of the threads that read a sidecar's sockets and output.
pub(crate) struct SidecarEvent {
    generation: u64,
    sound: Sound,
}

enum Sound {
    Line(String),
    /// The line is closed.
    Silence,
    End {
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
    pub(crate) fn start(program: &Program, core: Rc<EngineState>) -> Result<Sidecar, JsError> {
        let name = program.runtime.name();
        let failed = |why: &dyn std::fmt::Display| JsError {
            message: format!("{name} ({}) cannot be used: {why}", program.path.display()),
            ..JsError::default()
        };
        let generation = core.shared.generations.fetch_add(1, Ordering::Relaxed);
        let (line, their_line) = UnixStream::pair().map_err(|err| failed(&err))?;
        let (news, their_news) = UnixStream::pair().map_err(|err| failed(&err))?;
        let keeps = [their_line, their_news].map(|end| Arc::new(OwnedFd::from(end)));
        let files = [keeps[0].as_raw_fd(), keeps[1].as_raw_fd()];
        let request = ChildProgram {
            command: program.path.to_string_lossy().into_owned(),
            args: program.arguments(core.config.limits.memory_bytes, files),
            cwd: folder(&core),
            env: core.config.env.clone(),
            stdin: false,
            argv0: None,
            keeps: keeps.into(),
        };
        let to = core.to.clone();
        let ended = Box::new(move |code, signal| {
            // If the engine's thread is gone, the event is not needed.
            to.send(Message::Sidecar(SidecarEvent {
                generation,
                sound: Sound::End { code, signal },
            }))
            .ok();
        });
        let sink = output::sink(core.world.clone(), ended);
        let child = core.world.spawn(request, sink).map_err(|err| failed(&err))?;
        let begun = greet(&line).and_then(|reader| {
            line.set_write_timeout(Some(READ_MAX))?;
            let (permits, unheard) = mpsc::sync_channel(UNHEARD_MAX);
            let to = core.to.clone();
            let max = core.config.limits.memory_bytes;
            thread("sidecar", move || listen(reader, max, &permits, &to, generation))?;
            let (sender, told) = mpsc::channel();
            let news_line = news.try_clone()?;
            thread("sidecar news", move || carry(news, &told))?;
            Ok((news_line, sender, unheard))
        });
        let (news_line, news, unheard) = match begun {
            Ok(begun) => begun,
            Err(err) => {
                child.kill(SIGKILL);
                return Err(failed(&err));
            }
        };
        Ok(Sidecar {
            core,
            name,
            child,
            line,
            news_line,
            news,
            unheard,
            generation,
            turns: RefCell::default(),
            next: Cell::default(),
            whose: Cell::new(0),
            end: RefCell::default(),
        })
    }

    /// Sets the task of the next message, and how long that may block the sidecar's thread.
    pub(super) fn next_turn(&self, task: Task, limit: Duration, what: &'static str) {
        self.next.set((task, limit, what));
    }

    pub(super) fn call(&self, id: u64, entry: &str, json: &str) -> Result<(), JsError> {
        self.tell(ToSidecarKind::Call { id, entry, json })
    }

    pub(super) fn emit(&self, json: &str) -> Result<(), JsError> {
        self.tell(ToSidecarKind::Emit { json })
    }

    pub(super) fn abort(&self, id: u64) -> Result<(), JsError> {
        self.tell(ToSidecarKind::Abort { id })
    }

    pub(super) fn run_signal(&self, word: &str) -> Result<(), JsError> {
        self.tell(ToSidecarKind::RunSignal { word })
    }

    pub(super) fn deliver(&self, id: u64, news: OperationEvent) -> Result<(), JsError> {
        self.tell(match news {
            OperationEvent::Event(given) => ToSidecarKind::Event { id, given: given.into() },
            OperationEvent::Done(result) => ToSidecarKind::Done { id, given: result.into() },
        })
    }

    fn tell(&self, word: ToSidecarKind<'_>) -> Result<(), JsError> {
        let (task, limit, what) = self.next.get();
        let is_event = matches!(word, ToSidecarKind::Emit { .. });
        let turn = self.turns.borrow_mut().begin(task, limit, what, is_event, Instant::now());
        let told = ToSidecar { turn, task: (task.call, task.extension), word };
        let mut text = serde_json::to_string(&told)
            .map_err(|err| JsError { message: err.to_string(), ..JsError::default() })?;
        text.push('\n');
        // If the writer thread is gone, so is the process, and its exit is reported separately.
        self.news.send(text).ok();
        Ok(())
    }

    /// Handles an event from this sidecar. Events of an earlier one are ignored.
    pub(crate) fn hear(&self, heard: SidecarEvent) {
        if heard.generation != self.generation {
            return;
        }
        match heard.sound {
            Sound::Line(line) => {
                // The reader put an item there before it sent the line.
                self.unheard.try_recv().ok();
                match serde_json::from_str(&line) {
                    Ok(said) => self.take(said),
                    Err(err) => self.give_up(format!("said what makes no sense: {err}")),
                }
            }
            // The exit event that follows says how it ended.
            Sound::Silence => self.child.kill(SIGKILL),
            Sound::End { code: Some(code), .. } => self.give_up(format!("ended with code {code}")),
            Sound::End { signal, .. } => {
                let signal = signal.map(|signal| format!(" {signal}")).unwrap_or_default();
                self.give_up(format!("was ended by signal{signal}"));
            }
        }
    }

    fn take(&self, said: FromSidecar) {
        let core = &self.core;
        match said {
            FromSidecar::Sync(operation) => {
                core.task.set(operation.task());
                let (name, asked) = operation.into_asked();
                self.answer(operations::sync(core, &name, asked).into());
            }
            FromSidecar::Start(operation) => {
                core.task.set(operation.task());
                let (name, asked) = operation.into_asked();
                let id = operations::launch(core, &name, asked);
                self.answer(OpOutput::json(&id).into());
            }
            FromSidecar::Entry { path, number } => {
                core.paths.borrow_mut().insert(number, path.clone());
                let id = core.modules.borrow_mut().entry(Path::new(&path), number, false);
                self.answer_text(id);
            }
            FromSidecar::Resolve { importer, name } => {
                let id = core.modules.borrow_mut().resolve(&importer, &name);
                self.answer_text(id);
            }
            FromSidecar::Locate { importer, name } => {
                let path = core.modules.borrow_mut().find(&importer, &name);
                self.answer_text(path);
            }
            FromSidecar::Packages => self.answer(OpOutput::json(&builtin::packages()).into()),
            FromSidecar::Load { id } => {
                let module = core.modules.borrow_mut().source(&id);
                self.answer(match module {
                    Ok((source, is_script)) => SidecarReply::Module { source, is_script },
                    Err(message) => Err(OpError::of_module(message)).into(),
                });
            }
            FromSidecar::Cancel { id } => core.cancel(id),
            FromSidecar::Reply { call, json } => core.answer(call, Ok(json)),
            FromSidecar::Fail { call, message, stack } => {
                let thrown = core.thrown(message, stack.as_deref());
                core.answer(call, Err(CallError::Thrown(thrown)));
            }
            FromSidecar::Progress { call, json } => core.progress(call, json),
            FromSidecar::Report { path, event, message, stack } => {
                core.report(path, event, core.thrown(message, stack.as_deref()));
            }
            FromSidecar::As { extension } => self.whose.set(extension),
            FromSidecar::Took { turn } => {
                let events = self.turns.borrow_mut().end(turn, Instant::now());
                core.shared.backlog.fetch_sub(events, Ordering::Relaxed);
            }
            FromSidecar::Pause => self.turns.borrow_mut().pause(Instant::now()),
            FromSidecar::Resume => self.turns.borrow_mut().resume(Instant::now()),
        }
        for text in core.modules.borrow_mut().take_warnings() {
            bindings::warn(core, text);
        }
    }

    fn answer_text(&self, result: Result<String, String>) {
        self.answer(result.map(OpOutput::Text).map_err(OpError::of_module).into());
    }

    fn answer(&self, answer: SidecarReply) {
        let text = serde_json::to_string(&answer).unwrap_or_else(|_| "\"nothing\"".into());
        if let Err(err) = (&self.line).write_all(format!("{text}\n").as_bytes()) {
            self.give_up(format!("does not listen: {err}"));
        }
    }

    fn give_up(&self, why: String) {
        self.end.borrow_mut().get_or_insert(why);
    }

    /// When the engine's loop has to check this sidecar, even without a message.
    pub(crate) fn due(&self) -> Option<Instant> {
        let turns = self.turns.borrow();
        let nudge = turns.idle_since().filter(|_| !self.core.calls.borrow().is_empty());
        turns.deadline().or(nudge.map(|since| since + self.core.config.limits.slice / 2))
    }

    /// Checks that an idle sidecar still responds while calls wait for it: a loop after an `await`
    /// belongs to no message that was sent.
    pub(crate) fn nudge(&self, now: Instant) {
        let idle = self.turns.borrow().idle_since();
        if idle.is_none() || self.due().is_none_or(|due| due > now) {
            return;
        }
        let limits = &self.core.config.limits;
        let calls = self.core.calls.borrow();
        let limit = if calls.values().any(|call| !call.entry.is_hook()) {
            limits.long_slice
        } else {
            limits.slice
        };
        let (task, what) = match calls.iter().next() {
            Some((&call, waiting)) if calls.len() == 1 => {
                (Task { call, extension: self.whose.get() }, waiting.what)
            }
            _ => (Task::default(), "sidecar"),
        };
        drop(calls);
        self.next_turn(task, limit, what);
        // An object of three numbers always serializes.
        self.tell(ToSidecarKind::Nudge).ok();
    }

    /// Why the sidecar cannot be used any longer, if so.
    pub(crate) fn fall(&self, now: Instant) -> Option<SidecarFailure> {
        if let Some(how) = self.end.borrow_mut().take() {
            let how = format!("{} {how}", self.name);
            return Some(SidecarFailure::Gone { extension: self.whose.get(), how });
        }
        let Turn { task, limit, what, .. } = self.turns.borrow().overdue(now)?;
        let task = Task { extension: self.whose.get(), ..task };
        Some(SidecarFailure::Stuck { task, limit, what })
    }
}

impl Drop for Sidecar {
    fn drop(&mut self) {
        self.child.kill(SIGKILL);
        for socket in [&self.line, &self.news_line] {
            // It may already be closed.
            socket.shutdown(Shutdown::Both).ok();
        }
        let events = self.turns.borrow().events();
        self.core.shared.backlog.fetch_sub(events, Ordering::Relaxed);
    }
}

/// The sidecar's working folder: the session's, which need not be tiller's.
fn folder(core: &EngineState) -> PathBuf {
    let told = core.world.query(Query::Cwd).ok();
    let told = told.and_then(|told| told.as_str().map(PathBuf::from));
    told.filter(|folder| folder.is_dir()).unwrap_or_else(|| core.config.cwd.clone())
}

/// Waits for the first line.
fn greet(line: &UnixStream) -> io::Result<BufReader<UnixStream>> {
    line.set_read_timeout(Some(START_MAX))?;
    let mut reader = BufReader::new(line.try_clone()?);
    let mut first = String::new();
    if reader.read_line(&mut first)? == 0 {
        return Err(io::Error::other("it ended before it began"));
    }
    line.set_read_timeout(None)?;
    match serde_json::from_str(&first) {
        Ok(Greeting::Hello) => Ok(reader),
        Ok(Greeting::Unfit { why }) => Err(io::Error::other(why)),
        Err(err) => Err(err.into()),
    }
}

/// Reads the line until it ends, or until a message is too long.
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
        let sound = match String::from_utf8(line) {
            Ok(line) if is_whole => Sound::Line(line),
            _ => Sound::Silence,
        };
        let is_last = matches!(sound, Sound::Silence);
        let is_heard = is_last || permits.send(()).is_ok();
        let told = to.send(Message::Sidecar(SidecarEvent { generation, sound }));
        if is_last || !is_heard || told.is_err() {
            return;
        }
    }
}

/// Writes messages until the channel or the socket closes.
fn carry(mut news: UnixStream, told: &mpsc::Receiver<String>) {
    while let Ok(text) = told.recv() {
        if news.write_all(text.as_bytes()).is_err() {
            return;
        }
    }
}

fn thread(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new().name(name.to_owned()).spawn(work).map(drop)
}
