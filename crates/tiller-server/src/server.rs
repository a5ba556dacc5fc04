//! Connects a session with its client, or with its clients. It handles one input at a time, of a
//! client or of the session's own tasks. So there are no locks, and things happen in the order of
//! this loop.

use std::time::Duration;

use tiller_agent::driver::End;
use tiller_agent::event::Event;
use tiller_protocol::{ClientId, Label, Reply, Request};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::client_bash::{self, BashEnded};
use crate::config::ServerConfig;
use crate::connection::{Channels, ClientInput, Connection, at};
use crate::connections::Connections;
use crate::dispatch::{dispatch, receive};
use crate::extensions::{
    self, ExitRequest, ExtensionRequest, ExtensionTaskDone, commands, dialogs, loading,
};
use crate::follow::{self, FollowEvent};
use crate::host_tools::HostCall;
use crate::hosted::{Hosted, HostedEnd, IdleEnd, SessionCommand};
use crate::mcp::{self, McpSearch};
use crate::project_state::{self, ResourcesLoaded};
use crate::prompt_results;
use crate::run_host::RunRequest;
use crate::shutdown::{SHUTDOWN_LIMIT, Shutdown};
use crate::state::SessionState;
use crate::todos::{self, TodoDue, TodoWrite};
use crate::transition::{self, TransitionEvent};
use crate::work::compaction::{self, SummaryDone};
use crate::work::{retry, run, storing, stream_rules};

/// Everything that can happen to a session, except for what its client sends.
pub enum Input {
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
    /// An MCP server has another state or other tools.
    McpServersChanged,
    /// The model searches the tools of MCP servers.
    McpSearch(Box<McpSearch>),
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
    /// Something happened to a session that another process writes.
    Follow(FollowEvent),
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

/// What happens to accepted work when the client closes stdin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnEof {
    /// The run is aborted and closed with its events.
    #[default]
    Abort,
    /// The run and everything queued are finished first.
    Finish,
}

/// How many inputs may wait for the server.
pub const INPUTS_MAX: usize = 256;
/// How many inputs are handled before their output is flushed.
const BATCH: usize = 128;
/// How often a step waits for more inputs before it writes.
const ROUNDS: usize = 4;

/// Runs a session with one client until the client, a signal or an extension ends it. Returns the
/// exit code.
pub async fn serve(config: ServerConfig, channels: Channels) -> u8 {
    let connection = Connection::only(config.level, channels);
    let mut server = Server::start(config, Connections::only(connection), None);
    for connection in server.connections.iter_mut() {
        connection.greet(version());
    }
    server.check_shutdown_request();
    server.write();
    server.connections.flush();
    loop {
        server.process_next().await;
        if let Some(code) = server.exit_code() {
            server.finish();
            server.connections.close(None, None);
            let time_left = server.shutdown.as_ref().map_or(SHUTDOWN_LIMIT, Shutdown::time_left);
            server.state.mcp.stop(time_left).await;
            return code;
        }
    }
}

/// Runs a session whose clients come and go, until it ends or goes to sleep. `first` is what has
/// woken it.
pub(crate) async fn serve_hosted(
    config: Box<ServerConfig>,
    connections: Connections,
    hosted: Box<Hosted>,
    first: Wake,
) -> HostedEnd {
    // In a box, because a future has room for each value as often as it is moved.
    let mut server = Box::new(Server::start(*config, connections, Some(hosted)));
    match first {
        Wake::Client(client, input) => server.process_client(client, input),
        Wake::Command(command) => server.command(command),
    }
    server.check_shutdown_request();
    server.end_step();
    loop {
        server.process_next().await;
        let idle_end = server.idle_end();
        if idle_end.is_none() && server.exit_code().is_none() {
            continue;
        }
        server.finish();
        let Server { state, connections, hosted, .. } = *server;
        // The session's file is free before a client learns about the end.
        drop(state);
        let hosted = hosted.expect("the session was started as a hosted one");
        return hosted.end(connections, idle_end);
    }
}

/// What wakes a hosted session, or starts it.
pub(crate) enum Wake {
    Client(ClientId, ClientInput),
    Command(SessionCommand),
}

struct Server {
    state: SessionState,
    connections: Connections,
    /// From runs and tasks.
    work: mpsc::Receiver<Input>,
    on_eof: OnEof,
    /// Requests of runs that wait until the client has read more.
    deferred_requests: Vec<RunRequest>,
    shutdown: Option<Shutdown>,
    /// Present if the session is one of many in this process.
    hosted: Option<Box<Hosted>>,
}

impl Server {
    fn start(
        mut config: ServerConfig,
        connections: Connections,
        hosted: Option<Box<Hosted>>,
    ) -> Server {
        let (work_sender, work) = mpsc::channel(INPUTS_MAX);
        let on_eof = config.on_eof;
        let plan = std::mem::take(&mut config.extension_plan);
        let mut state = SessionState::new(config, work_sender);
        loading::load_at_start(&mut state, plan);
        follow::begin(&mut state);
        let deferred_requests = Vec::new();
        Server { state, connections, work, on_eof, deferred_requests, shutdown: None, hosted }
    }

    /// Emits what is owed, because the session ends now.
    fn finish(&mut self) {
        commands::refuse_unfinished(&mut self.state);
        prompt_results::end_session(&mut self.state);
        self.write();
    }

    /// Waits for an input, handles it and all others that are ready, and flushes the output.
    async fn process_next(&mut self) {
        let due = self.due();
        tokio::select! {
            biased;
            (client, input) = self.connections.next() => {
                if let Some(input) = input {
                    self.process_client(client, input);
                }
            }
            Some(input) = self.work.recv() => self.process(input),
            Some(command) = Hosted::next_command(&mut self.hosted) => self.command(command),
            () = at(due) => {}
        }
        // All ready inputs go into the same write, and the tasks that were just answered get a
        // chance to send more: one large write is cheaper than several small ones, on both sides.
        for _ in 0..ROUNDS {
            self.drain_ready();
            tokio::task::yield_now().await;
            if self.work.is_empty() && !self.connections.has_lines() {
                break;
            }
        }
        self.answer_deferred();
        self.end_grace();
        self.end_step();
    }

    /// Writes what the step has emitted. Others see the session as it is before a client learns
    /// about it.
    fn end_step(&mut self) {
        self.write();
        if let Some(hosted) = &mut self.hosted {
            if self.state.approvals.set_attached(!self.connections.is_empty()) {
                dialogs::deny_approvals(&mut self.state);
            }
            hosted.stepped(&mut self.state, &mut self.connections);
        }
        self.connections.flush();
    }

    /// When to go on, if no input arrives before.
    fn due(&self) -> Option<Instant> {
        let shutdown = self.shutdown.as_ref().and_then(Shutdown::due);
        let hosted = self.hosted.as_ref().and_then(|hosted| hosted.due());
        shutdown.into_iter().chain(hosted).min()
    }

    /// Handles the inputs that are ready. Lines and work each have a limit, so that neither a fast
    /// client nor a fast model can starve the other.
    #[inline]
    fn drain_ready(&mut self) {
        for place in 0..self.connections.count() {
            for _ in 0..BATCH {
                let Some((client, input)) = self.connections.try_next(place) else { break };
                self.process_client(client, input);
            }
        }
        for _ in 0..BATCH {
            let Ok(input) = self.work.try_recv() else { break };
            self.process(input);
        }
    }

    /// Handles an input, and what follows from it.
    fn process(&mut self, input: Input) {
        self.handle(input);
        self.finish_input();
    }

    /// The same for an input of a client.
    fn process_client(&mut self, client: ClientId, input: ClientInput) {
        match input {
            ClientInput::Lines(lines) => {
                for request in lines.into_iter().filter_map(Request::read) {
                    let request = Request { client, ..request };
                    match self.hosted.as_ref().and_then(|hosted| hosted.refusal(&request)) {
                        Some(refusal) => self.state.outbox.refuse(client, request.id, refusal),
                        None => receive(&mut self.state, request, self.connections.format(client)),
                    }
                    self.write();
                }
            }
            ClientInput::LastLines => {
                if let Some(connection) = self.connections.find(client) {
                    connection.ignore_flood();
                }
            }
            ClientInput::EndOfInput => {
                if let Some(hosted) = &mut self.hosted {
                    hosted.close();
                }
                self.end_of_input();
            }
            ClientInput::Detached => {
                self.connections.remove(client);
                self.state.tools.host_mut().detached(client);
            }
            ClientInput::OutputClosed => {
                // No client is left to write to.
                run::stop(&mut self.state);
                self.shut_down(1, Some(Duration::ZERO));
            }
            ClientInput::Signal(signal) => {
                run::stop(&mut self.state);
                self.shut_down(signal.exit_code(), Some(SHUTDOWN_LIMIT));
            }
        }
        self.finish_input();
    }

    /// Dispatches the held requests that can go on, and writes the outbox.
    fn finish_input(&mut self) {
        self.resume_held();
        storing::emit_stored_late(&mut self.state);
        self.check_shutdown_request();
        self.write();
    }

    /// Hands what the session has emitted to the connections.
    fn write(&mut self) {
        self.connections.write(&mut self.state.outbox);
    }

    /// Carries out a command of the server with many sessions.
    fn command(&mut self, command: SessionCommand) {
        let Some(hosted) = &mut self.hosted else { return };
        match command {
            SessionCommand::Attach(request) => {
                hosted.attach(&mut self.state, &mut self.connections, *request);
            }
            SessionCommand::Close { by } => {
                hosted.close_by(by);
                run::stop(&mut self.state);
                self.shut_down(0, Some(SHUTDOWN_LIMIT));
            }
            SessionCommand::EndOfInput => {
                hosted.close();
                self.end_of_input();
            }
            SessionCommand::Stop { within } => hosted.stop_within(within),
        }
        self.finish_input();
    }

    /// Whether the session goes to sleep or ends, because it was idle for long or because the
    /// server ends.
    fn idle_end(&mut self) -> Option<IdleEnd> {
        let hosted = self.hosted.as_mut()?;
        if hosted.is_stopping() {
            if self.shutdown.is_none() && (self.state.is_idle() || hosted.is_stop_overdue()) {
                run::stop(&mut self.state);
                self.shut_down(0, Some(SHUTDOWN_LIMIT));
            }
            return None;
        }
        hosted.idle_end(&mut self.state, &self.connections)
    }

    fn handle(&mut self, input: Input) {
        match input {
            Input::Event(event) => run::run_event(&mut self.state, event),
            Input::RunRequest(request) => self.run_request(request),
            Input::RunEnded(end) => run::run_ended(&mut self.state, end),
            Input::RetryPauseOver => retry::retry_now(&mut self.state),
            Input::PauseCancelled => run::close(&mut self.state),
            Input::RulePauseOver => stream_rules::inject_now(&mut self.state),
            Input::SummaryDone(done) => compaction::summary_done(&mut self.state, *done),
            Input::HostCall(call) => {
                let owner = self.state.tools.host().owner();
                if let Some(event) = self.state.tools.host_mut().handle(call) {
                    self.state.emit_for(owner, event);
                }
            }
            Input::McpServersChanged => mcp::servers_changed(&mut self.state),
            Input::McpSearch(search) => mcp::answer_search(&mut self.state, search),
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
            Input::Follow(event) => follow::handle(&mut self.state, event),
        }
    }

    /// While the client is far behind, a run waits here before its next request, rather than in the
    /// middle of the model's stream.
    fn run_request(&mut self, request: RunRequest) {
        if request.can_wait() && self.connections.is_flooded() {
            self.deferred_requests.push(request);
        } else {
            run::answer(&mut self.state, request);
        }
    }

    fn answer_deferred(&mut self) {
        if !self.deferred_requests.is_empty() && !self.connections.is_flooded() {
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
            let format = self.connections.format(request.client);
            dispatch(&mut self.state, request, format);
            self.write();
        }
    }

    fn end_of_input(&mut self) {
        match self.on_eof {
            OnEof::Abort => {
                run::stop(&mut self.state);
                self.shut_down(0, Some(SHUTDOWN_LIMIT));
            }
            OnEof::Finish => {
                let owner = self.state.tools.host().owner();
                self.state.approvals.client_left();
                dialogs::deny_approvals(&mut self.state);
                for event in self.state.tools.host_mut().client_left() {
                    self.state.emit_for(owner, event);
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
