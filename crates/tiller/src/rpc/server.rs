//! The owner of all state. It takes one [`Input`] at a time; everything else talks to it through
//! channels, so there are no locks, and the order of things is the order of this loop.

use std::sync::Arc;
use std::time::Duration;

use tiller_agent::driver::End;
use tiller_agent::event::Event;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use super::client_bash::BashEnded;
use super::compaction::SummaryDone;
use super::dispatch::{dispatch, receive};
use super::extensions::ExtensionInput;
use super::host_tools::HostCall;
use super::lines::Line;
use super::out::{Out, Pipe};
use super::resources::ResourcesLoaded;
use super::run_host::RunRequest;
use super::session_change::SessionLoaded;
use super::shutdown::{SHUTDOWN_LIMIT, Shutdown};
use super::state::SessionState;
use super::todos::{TodoDue, TodoWrite};
use super::wire::{Label, Reply, Request};
use crate::launch::ServerConfig;

/// Everything that can happen to the server.
pub enum Input {
    /// What the client said in one breath. Lines that arrive together are taken together, so
    /// that an `abort` glued to its `prompt` meets the run before the run has begun.
    Lines(Vec<Line>),
    /// The client will say nothing more; this stands behind everything it has said.
    EndOfInput,
    /// The same, ahead of what it has said: however much waits to be read, the rest is taken in.
    LastLines,
    /// Nobody reads what we write.
    OutputClosed,
    /// The operating system wants us gone.
    Signal(Signal),
    /// A run tells what happened.
    Event(Event),
    /// A run waits for an answer.
    RunRequest(RunRequest),
    /// A run is over; `Err` says how it crashed.
    RunEnded(Result<End, String>),
    /// The pause before another try is over.
    RetryPauseOver,
    /// There will be no other try.
    RetryCancelled,
    /// The pause before the model goes on under a rule is over.
    RulePauseOver,
    /// The summary for a compaction is there, or will never be.
    SummaryDone(Box<SummaryDone>),
    /// A tool of the client's is called, or no longer waited for.
    HostCall(HostCall),
    /// The model changes its todo list.
    TodoWrite(TodoWrite),
    /// A finished task leaves the list.
    TodoDue(TodoDue),
    /// An extension wants something, or has decided.
    Extension(Box<ExtensionInput>),
    /// A command of the client's is over.
    BashEnded(Box<BashEnded>),
    /// The session that was asked for is there, or cannot be had.
    SessionLoaded(Box<SessionLoaded>),
    /// Somebody has looked at the files of the place we work in.
    ResourcesLoaded(Box<ResourcesLoaded>),
    /// Something that took a while is answered.
    ResponseReady(Label, Result<Reply, String>),
}

impl From<ExtensionInput> for Input {
    fn from(input: ExtensionInput) -> Input {
        Input::Extension(Box::new(input))
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

/// What becomes of accepted work when the client closes its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum OnEof {
    /// The run is aborted and closed with its events.
    #[default]
    Abort,
    /// The run and everything queued is finished first.
    Finish,
}

/// The server's ends of its channels.
pub struct Channels {
    /// What the client says.
    pub lines: mpsc::Receiver<Input>,
    /// What must be heard even when the client's lines are not.
    pub control: mpsc::Receiver<Input>,
    pub pipe: Pipe,
    /// Fires when a writer who was behind has caught up.
    pub caught_up: Arc<Notify>,
}

/// How many inputs may wait for the server.
pub const INPUTS_MAX: usize = 256;
/// How many inputs are taken before their output is handed on.
const BATCH: usize = 128;
/// How often more is waited for before a write.
const ROUNDS: usize = 4;

/// Runs the server until its client, the system or its own end stops it. Returns the exit code.
pub async fn serve(launch: ServerConfig, channels: Channels) -> u8 {
    let Channels { lines, control, pipe, caught_up } = channels;
    let (work_sender, work) = mpsc::channel(INPUTS_MAX);
    let out = Out::new(launch.level, pipe);
    let on_eof = launch.on_eof;
    let mut launch = launch;
    let house = std::mem::take(&mut launch.house);
    let mut state = SessionState::new(launch, work_sender);
    state.load_extensions(house);
    let (unasked, leaving, takes_all) = (Vec::new(), None, false);
    let mut server = Server {
        state,
        out,
        lines,
        control,
        work,
        caught_up,
        on_eof,
        deferred_requests: unasked,
        shutdown: leaving,
        ignore_flood: takes_all,
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
    /// From the run.
    work: mpsc::Receiver<Input>,
    caught_up: Arc<Notify>,
    on_eof: OnEof,
    /// Questions put off until the client has read what there is.
    deferred_requests: Vec<RunRequest>,
    shutdown: Option<Shutdown>,
    /// What the client still has to say is limited, so it need not be held back any more.
    ignore_flood: bool,
}

impl Server {
    /// Waits for something to happen, takes it and whatever else is ready, writes what came of it.
    async fn step(&mut self) {
        let leaves = self.shutdown.as_ref().and_then(Shutdown::due);
        tokio::select! {
            biased;
            Some(input) = self.control.recv() => self.process(input),
            Some(input) = self.lines.recv(), if self.accepts_lines() => self.process(input),
            Some(input) = self.work.recv() => self.process(input),
            () = self.caught_up.notified() => {}
            () = at(self.out.due()) => {}
            () = at(leaves) => {}
        }
        // Whatever else is ready goes into the same write, and whoever was just answered gets a
        // chance to say more: one large write is cheaper than several small ones, for us and for
        // the client.
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

    /// Takes what does not have to be waited for. Both sides get their share, so that neither a
    /// chatty client nor a fast model can silence the other.
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

    /// Handles an input, then takes up the requests that may go on now, then writes what there is
    /// to say.
    fn process(&mut self, input: Input) {
        self.handle(input);
        self.resume_held();
        self.state.tell_stored_late();
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
            Input::Event(event) => self.state.run_event(event),
            Input::RunRequest(request) => self.run_request(request),
            Input::RunEnded(end) => self.state.run_ended(end),
            Input::RetryPauseOver => self.state.retry_now(),
            Input::RetryCancelled => self.state.run_settle_hook(),
            Input::RulePauseOver => self.state.inject_now(),
            Input::SummaryDone(done) => self.state.summarised(*done),
            Input::HostCall(call) => self.state.host_call(call),
            Input::TodoWrite(write) => self.state.todo_write(write),
            Input::TodoDue(due) => self.state.clear_todo(due),
            Input::Extension(input) => self.state.handle_extension_input(*input),
            Input::BashEnded(ended) => self.state.bash_ended(*ended),
            Input::SessionLoaded(loaded) => {
                self.state.session_loaded(*loaded);
                self.state.run_deferred_if_idle();
            }
            Input::ResponseReady(label, result) => {
                self.state.pending_responses -= 1;
                self.state.respond(label, result);
            }
            Input::ResourcesLoaded(loaded) => self.state.resources_loaded(*loaded),
            Input::LastLines => self.ignore_flood = true,
            Input::EndOfInput => self.end_of_input(),
            Input::OutputClosed => {
                // Nothing we could still say would be heard.
                self.state.stop();
                self.shut_down(1, Some(Duration::ZERO));
            }
            Input::Signal(signal) => {
                self.state.stop();
                self.shut_down(signal.exit_code(), Some(SHUTDOWN_LIMIT));
            }
        }
    }

    /// A run may not go on to its next request while the client is hopelessly behind; that, and
    /// not the model's stream, is where it waits.
    fn run_request(&mut self, request: RunRequest) {
        if request.can_wait() && self.out.is_flooded() {
            self.deferred_requests.push(request);
        } else {
            self.state.answer(request);
        }
    }

    fn answer_deferred(&mut self) {
        if !self.deferred_requests.is_empty() && !self.out.is_flooded() {
            for question in self.deferred_requests.drain(..) {
                self.state.answer(question);
            }
        }
    }

    /// Takes up what waited for a session change.
    fn resume_held(&mut self) {
        while !self.state.is_changing()
            && !self.state.resources.is_awaited()
            && let Some(request) = self.state.held_requests.pop_front()
        {
            dispatch(&mut self.state, request);
        }
    }

    fn end_of_input(&mut self) {
        match self.on_eof {
            OnEof::Abort => {
                self.state.stop();
                self.shut_down(0, Some(SHUTDOWN_LIMIT));
            }
            OnEof::Finish => {
                self.state.lose_host();
                self.shut_down(0, None);
            }
        }
    }

    /// An extension may end us in order, and one that must be there but is not does.
    fn check_shutdown_request(&mut self) {
        if let Some(code) = self.state.extensions.fatal.take() {
            self.state.stop();
            self.shut_down(code, Some(SHUTDOWN_LIMIT));
            // A start that failed has failed, also for a client that has said all it had to say.
            if let Some(leaving) = self.shutdown.as_mut().filter(|leaving| leaving.code == 0) {
                leaving.code = code;
            }
        } else if std::mem::take(&mut self.state.shutdown_requested) {
            self.shut_down(0, None).by_extension();
        }
    }

    /// The first reason to leave gives the exit code.
    fn shut_down(&mut self, code: u8, within: Option<Duration>) -> &mut Shutdown {
        let leaving = self.shutdown.get_or_insert_with(|| Shutdown::new(code));
        if let Some(within) = within {
            leaving.set_deadline(within);
        }
        leaving
    }

    /// Gives up what extensions have left open when the time for it is over.
    fn end_grace(&mut self) {
        let Some(shutdown) = &mut self.shutdown else { return };
        if shutdown.grace_is_over(self.state.is_occupied()) {
            shutdown.set_deadline(SHUTDOWN_LIMIT);
            self.state.stop();
        }
    }

    fn exit_code(&mut self) -> Option<u8> {
        let leaving = self.shutdown.as_ref()?;
        let is_idle = self.state.is_idle();
        let have_parted =
            (is_idle || leaving.is_notifying_extensions()) && self.state.announce_shutdown_once();
        (is_idle && have_parted || leaving.is_overdue()).then_some(leaving.code)
    }
}

/// Our own version; what a wire level pretends to be is only said by `--version`.
pub(crate) fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

async fn at(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}
