//! Owns all state of a session. It handles one [`Input`] at a time; everything else reaches it
//! through channels. So there are no locks, and things happen in the order of this loop.

use std::sync::Arc;
use std::time::Duration;

use tiller_agent::driver::End;
use tiller_agent::event::Event;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use super::client_bash::{self, BashEnded};
use super::dispatch::{dispatch, receive};
use super::extensions::{
    self, ExitRequest, ExtensionRequest, ExtensionTaskDone, boundary, loading,
};
use super::host_tools::HostCall;
use super::lines::Line;
use super::out::{Out, Pipe};
use super::project_state::{self, ResourcesLoaded};
use super::run_host::RunRequest;
use super::shutdown::{SHUTDOWN_LIMIT, Shutdown};
use super::state::SessionState;
use super::todos::{self, TodoDue, TodoWrite};
use super::transition::{self, TransitionEvent};
use super::wire::{Label, Reply, Request};
use super::work::compaction::{self, SummaryDone};
use super::work::{retry, run, storing, stream_rules};
use crate::launch::ServerConfig;

/// Everything that can happen to the server.
pub enum Input {
    /// Lines that arrived in one read. They are handled together, so that an `abort` in the same
    /// write as its `prompt` is handled before the run has started.
    Lines(Vec<Line>),
    /// stdin is at its end; sent behind the last lines.
    EndOfInput,
    /// stdin is at its end; sent on the control channel, so that the last lines are read even while
    /// output is flooded.
    LastLines,
    /// stdout is closed.
    OutputClosed,
    /// A signal asks the process to end.
    Signal(Signal),
    /// A run emits an event.
    Event(Event),
    /// A run waits for a response.
    RunRequest(RunRequest),
    /// A run has ended; `Err` is the text of its panic.
    RunEnded(Result<End, String>),
    /// The pause before a retry is over.
    RetryPauseOver,
    /// The pause before a retry or a rule injection was cancelled; the run settles.
    PauseCancelled,
    /// The pause before a rule is injected is over.
    RulePauseOver,
    /// A compaction has its summary, or has failed.
    SummaryDone(Box<SummaryDone>),
    /// The model calls a tool of the client, or the call was given up.
    HostCall(HostCall),
    /// The model changes its todo list.
    TodoWrite(TodoWrite),
    /// A finished task is due to leave the todo list.
    TodoDue(TodoDue),
    /// An extension requests something.
    ExtensionRequest(Box<ExtensionRequest>),
    /// A task for extensions has finished.
    ExtensionTaskDone(Box<ExtensionTaskDone>),
    /// A step of a session change or of loading extensions has ended.
    Transition(Box<TransitionEvent>),
    /// A shell command of the client has ended.
    BashEnded(Box<BashEnded>),
    /// The files of the project have been read.
    ResourcesLoaded(Box<ResourcesLoaded>),
    /// A response that was computed on another thread.
    ResponseReady(Label, Result<Reply, String>),
}

impl From<ExtensionRequest> for Input {
    fn from(request: ExtensionRequest) -> Input {
        Input::ExtensionRequest(Box::new(request))
    }
}

impl From<ExtensionTaskDone> for Input {
    fn from(done: ExtensionTaskDone) -> Input {
        Input::ExtensionTaskDone(Box::new(done))
    }
}

impl From<TransitionEvent> for Input {
    fn from(event: TransitionEvent) -> Input {
        Input::Transition(Box::new(event))
    }
}

/// The signals that end tiller in an orderly way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Signal {
    Interrupt,
    Terminate,
    HangUp,
}

impl Signal {
    fn exit_code(self) -> u8 {
        match self {
            Signal::Interrupt => 130,
            Signal::Terminate => 143,
            Signal::HangUp => 129,
        }
    }
}

/// What happens to accepted work when the client closes stdin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum OnEof {
    /// The run is aborted and closed with its events.
    #[default]
    Abort,
    /// The run and everything queued are finished first.
    Finish,
}

/// The server's ends of its channels.
pub struct Channels {
    /// From the client.
    pub lines: mpsc::Receiver<Input>,
    /// Handled even while the client's lines are not.
    pub control: mpsc::Receiver<Input>,
    pub pipe: Pipe,
    /// Notified when a writer that was behind has caught up.
    pub caught_up: Arc<Notify>,
}

/// How many inputs may wait for the server.
pub const INPUTS_MAX: usize = 256;
/// How many inputs are handled before their output is flushed.
const BATCH: usize = 128;
/// How often a step waits for more inputs before it writes.
const ROUNDS: usize = 4;

/// Runs the server until the client, a signal or an extension ends it. Returns the exit code.
pub async fn serve(config: ServerConfig, channels: Channels) -> u8 {
    let Channels { lines, control, pipe, caught_up } = channels;
    let (work_sender, work) = mpsc::channel(INPUTS_MAX);
    let out = Out::new(config.level, pipe);
    let on_eof = config.on_eof;
    let mut config = config;
    let plan = std::mem::take(&mut config.extension_plan);
    let mut state = SessionState::new(config, work_sender);
    loading::load_at_start(&mut state, plan);
    let mut server = Server {
        state,
        out,
        lines,
        control,
        work,
        caught_up,
        on_eof,
        deferred_requests: Vec::new(),
        shutdown: None,
        ignore_flood: false,
    };
    server.out.ready(version());
    server.check_shutdown_request();
    server.out.write_outbox(&mut server.state.outbox);
    server.out.flush();
    loop {
        server.step().await;
        if let Some(code) = server.exit_code() {
            server.out.close();
            return code;
        }
    }
}

struct Server {
    state: SessionState,
    out: Out,
    /// From the client.
    lines: mpsc::Receiver<Input>,
    /// From the operating system.
    control: mpsc::Receiver<Input>,
    /// From runs and tasks.
    work: mpsc::Receiver<Input>,
    caught_up: Arc<Notify>,
    on_eof: OnEof,
    /// Requests of runs that wait until the client has read more.
    deferred_requests: Vec<RunRequest>,
    shutdown: Option<Shutdown>,
    /// stdin is at its end: the lines that are left are few, and are read even while output is
    /// flooded.
    ignore_flood: bool,
}

impl Server {
    /// Waits for an input, handles it and all others that are ready, and flushes the output.
    async fn step(&mut self) {
        let shutdown_due = self.shutdown.as_ref().and_then(Shutdown::due);
        tokio::select! {
            biased;
            Some(input) = self.control.recv() => self.process(input),
            Some(input) = self.lines.recv(), if self.accepts_lines() => self.process(input),
            Some(input) = self.work.recv() => self.process(input),
            () = self.caught_up.notified() => {}
            () = at(self.out.due()) => {}
            () = at(shutdown_due) => {}
        }
        // All ready inputs go into the same write, and the tasks that were just answered get a
        // chance to send more: one large write is cheaper than several small ones, on both sides.
        for _ in 0..ROUNDS {
            self.drain_ready();
            tokio::task::yield_now().await;
            if self.work.is_empty() && self.lines.is_empty() {
                break;
            }
        }
        self.answer_deferred();
        self.end_grace();
        self.out.write_outbox(&mut self.state.outbox);
        self.out.flush();
    }

    /// Handles the inputs that are ready. Lines and work each have a limit, so that neither a fast
    /// client nor a fast model can starve the other.
    fn drain_ready(&mut self) {
        for _ in 0..BATCH {
            if !self.accepts_lines() {
                break;
            }
            let Ok(input) = self.lines.try_recv() else { break };
            self.process(input);
        }
        for _ in 0..BATCH {
            let Ok(input) = self.work.try_recv() else { break };
            self.process(input);
        }
    }

    fn accepts_lines(&self) -> bool {
        self.ignore_flood || !self.out.is_flooded()
    }

    /// Handles an input, dispatches the held requests that can go on, and writes the outbox.
    fn process(&mut self, input: Input) {
        self.handle(input);
        self.resume_held();
        storing::emit_stored_late(&mut self.state);
        self.check_shutdown_request();
        self.out.write_outbox(&mut self.state.outbox);
    }

    fn handle(&mut self, input: Input) {
        match input {
            Input::Lines(lines) => {
                for request in lines.into_iter().filter_map(Request::read) {
                    receive(&mut self.state, request);
                }
            }
            Input::Event(event) => run::run_event(&mut self.state, event),
            Input::RunRequest(request) => self.run_request(request),
            Input::RunEnded(end) => run::run_ended(&mut self.state, end),
            Input::RetryPauseOver => retry::retry_now(&mut self.state),
            Input::PauseCancelled => boundary::run_settle_hook(&mut self.state),
            Input::RulePauseOver => stream_rules::inject_now(&mut self.state),
            Input::SummaryDone(done) => compaction::summary_done(&mut self.state, *done),
            Input::HostCall(call) => {
                if let Some(event) = self.state.tools.host_mut().handle(call) {
                    self.state.emit(event);
                }
            }
            Input::TodoWrite(write) => todos::todo_write(&mut self.state, write),
            Input::TodoDue(due) => todos::clear_todo(&mut self.state, due),
            Input::ExtensionRequest(request) => {
                extensions::handle_request(&mut self.state, *request);
            }
            Input::ExtensionTaskDone(done) => extensions::task_done(&mut self.state, *done),
            Input::Transition(event) => transition::advance(&mut self.state, *event),
            Input::BashEnded(ended) => client_bash::bash_ended(&mut self.state, *ended),
            Input::ResponseReady(label, result) => {
                self.state.transition.response_sent();
                self.state.respond(label, result);
            }
            Input::ResourcesLoaded(loaded) => project_state::loaded(&mut self.state, *loaded),
            Input::LastLines => self.ignore_flood = true,
            Input::EndOfInput => self.end_of_input(),
            Input::OutputClosed => {
                // No client is left to write to.
                run::stop(&mut self.state);
                self.shut_down(1, Some(Duration::ZERO));
            }
            Input::Signal(signal) => {
                run::stop(&mut self.state);
                self.shut_down(signal.exit_code(), Some(SHUTDOWN_LIMIT));
            }
        }
    }

    /// While the client is far behind, a run waits here before its next request, rather than in the
    /// middle of the model's stream.
    fn run_request(&mut self, request: RunRequest) {
        if request.can_wait() && self.out.is_flooded() {
            self.deferred_requests.push(request);
        } else {
            run::answer(&mut self.state, request);
        }
    }

    fn answer_deferred(&mut self) {
        if !self.deferred_requests.is_empty() && !self.out.is_flooded() {
            for request in self.deferred_requests.drain(..) {
                run::answer(&mut self.state, request);
            }
        }
    }

    /// Dispatches held requests until one has to wait again.
    fn resume_held(&mut self) {
        while !self.state.is_changing()
            && !self.state.project.is_awaited()
            && let Some(request) = self.state.transition.held_mut().pop_front()
        {
            dispatch(&mut self.state, request);
        }
    }

    fn end_of_input(&mut self) {
        match self.on_eof {
            OnEof::Abort => {
                run::stop(&mut self.state);
                self.shut_down(0, Some(SHUTDOWN_LIMIT));
            }
            OnEof::Finish => {
                for event in self.state.tools.host_mut().client_left() {
                    self.state.emit(event);
                }
                self.shut_down(0, None);
            }
        }
    }

    /// Starts the shutdown that an extension requested, or that a required extension which failed
    /// to load causes.
    fn check_shutdown_request(&mut self) {
        match self.state.extensions.take_exit_request() {
            Some(ExitRequest::Failure(code)) => {
                run::stop(&mut self.state);
                let shutdown = self.shut_down(code, Some(SHUTDOWN_LIMIT));
                // A failed start keeps its exit code, also after the client has closed stdin.
                if shutdown.code == 0 {
                    shutdown.code = code;
                }
            }
            Some(ExitRequest::Shutdown) => self.shut_down(0, None).by_extension(),
            None => {}
        }
    }

    /// The first reason for a shutdown decides the exit code.
    fn shut_down(&mut self, code: u8, within: Option<Duration>) -> &mut Shutdown {
        let shutdown = self.shutdown.get_or_insert_with(|| Shutdown::new(code));
        if let Some(within) = within {
            shutdown.set_deadline(within);
        }
        shutdown
    }

    /// Gives up what extensions have left open when their grace time is over.
    fn end_grace(&mut self) {
        let Some(shutdown) = &mut self.shutdown else { return };
        if shutdown.grace_is_over(self.state.is_occupied()) {
            shutdown.set_deadline(SHUTDOWN_LIMIT);
            run::stop(&mut self.state);
        }
    }

    fn exit_code(&mut self) -> Option<u8> {
        let shutdown = self.shutdown.as_ref()?;
        let is_idle = self.state.is_idle();
        let is_announced = (is_idle || shutdown.is_notifying_extensions())
            && extensions::announce_shutdown_once(&mut self.state);
        (is_idle && is_announced || shutdown.is_overdue()).then_some(shutdown.code)
    }
}

/// Our own version; the version of a wire level is only printed by `--version`.
pub(crate) fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

async fn at(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}
