//! A client of many sessions: its commands to the server, and its lines on their way to sessions.

mod follow;
mod refusals;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;
use tiller_protocol::{
    Attach, AttachMode, ClosedReason, Command, ErrorCode, Label, OpenSession, OpenSessionSummary,
    OpenSessionsData, Refusal, Request, ServerCommand, ServerRecord, ServerRequest,
};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use uuid::Uuid;

use super::lines::{
    CLOSING, changes_nothing, closing_line, commands, is_close, json, label, refusal_line, success,
    success_without_data,
};
use super::session_task::{LoadError, NewSession};
use super::{Reservation, ServerPhase, Shared, observe_opening};
use crate::connection::{
    Channels, ClientIdentity, ClientInput, ClientLink, Connection, ConnectionEnded, Membership,
    WireFormat, line_bytes,
};
use crate::handlers::hello::{capabilities, chosen, hello_data};
use crate::handlers::session::{list_query, listing};
use crate::hosted::{AttachRequest, Hosted, SessionCommand};
use crate::lines::Line;
use crate::out::{OutputQueue, Pipe};

/// How long the sessions of a client that is gone may take to answer its last commands.
const LEAVE_LIMIT: Duration = Duration::from_secs(2);
/// How many bytes of lines may wait for one session.
const WAITING_MAX_BYTES: usize = 16 << 20;
/// In how many reads they may have come.
const WAITING_READS: usize = 1024;

/// What becomes of a client's sessions when it is gone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum WhenGone {
    /// They go on.
    Detach,
    /// They end, as at the end of stdin.
    End,
}

/// Serves a client until it is gone.
pub(super) async fn run(
    shared: Arc<Shared>,
    when_gone: WhenGone,
    mut inputs: mpsc::Receiver<ClientInput>,
    queue: Arc<OutputQueue>,
) {
    shared.clients.fetch_add(1, Ordering::Relaxed);
    let (ended, mut endings) = mpsc::unbounded_channel();
    let (done, mut finished) = mpsc::unbounded_channel();
    let mut phase = shared.phase.subscribe();
    let format = WireFormat::new(shared.config.level);
    let mut client = Client {
        output: Output(Pipe::into_queue(queue.clone()).0),
        shared: shared.clone(),
        queue: queue.clone(),
        format,
        wants_sequence: false,
        attachments: HashMap::new(),
        last_attachment: 0,
        leaving: Vec::new(),
        dedicated: None,
        opening: 0,
        ended,
        done,
    };
    loop {
        tokio::select! {
            biased;
            Some(end) = endings.recv() => client.connection_ended(&end),
            Some(finished) = finished.recv() => client.finished(finished),
            Ok(()) = phase.changed() => match *phase.borrow_and_update() {
                ServerPhase::Serving => {}
                ServerPhase::Stopping(within) => client.server_stops(within),
                ServerPhase::Disconnecting => break,
            },
            // A client that does not read is not listened to.
            input = async { queue.has_room().await; inputs.recv().await } => match input {
                Some(ClientInput::Lines(lines)) => client.lines(lines).await,
                Some(ClientInput::EndOfInput) | None => break,
                Some(_) => {}
            },
        }
    }
    shared.clients.fetch_sub(1, Ordering::Relaxed);
    let when_gone = if client.dedicated.is_some() { WhenGone::End } else { when_gone };
    // The commands before the end of the input are answered, and sessions that end with the client
    // write their last records, before the output ends.
    let rest = async {
        client.leave(when_gone);
        while client.opening > 0 || !client.attachments.is_empty() {
            tokio::select! {
                Some(end) = endings.recv() => client.connection_ended(&end),
                Some(finished) = finished.recv() => {
                    client.finished(finished);
                    client.leave(when_gone);
                }
            }
        }
    };
    match when_gone {
        WhenGone::End => rest.await,
        // A session that hangs is not waited for.
        WhenGone::Detach => drop(tokio::time::timeout(LEAVE_LIMIT, rest).await),
    }
    drop(client);
    queue.finish();
}

struct Client {
    shared: Arc<Shared>,
    queue: Arc<OutputQueue>,
    output: Output,
    /// Of sessions that it opens or attaches to from now on.
    format: WireFormat,
    wants_sequence: bool,
    attachments: HashMap<Arc<str>, Attachment>,
    last_attachment: u64,
    /// Attachments that the client has ended, until their sessions have dropped them.
    leaving: Vec<Leaving>,
    /// How many sessions are being opened.
    opening: usize,
    /// The only session of this connection.
    dedicated: Option<Arc<str>>,
    ended: mpsc::UnboundedSender<ConnectionEnded>,
    done: mpsc::UnboundedSender<Finished>,
}

/// The client's side of a connection with a session.
struct Attachment {
    number: u64,
    mode: AttachMode,
    lines: mpsc::Sender<ClientInput>,
    control: mpsc::Sender<ClientInput>,
    /// The bytes of lines that the session has not read yet.
    unread: Arc<AtomicUsize>,
    /// The session was told that the input has ended.
    is_ending: bool,
    /// Where the session's records go, for a response behind them.
    records: Pipe,
}

/// The `detach` of an attachment, which is answered behind the last record.
struct Leaving {
    attachment: u64,
    label: Label,
    records: Pipe,
}

/// Work beside the client's task has finished.
enum Finished {
    /// The line is the response to a command.
    Line(String),
    /// A session has its files.
    Loaded(Box<Opening>),
}

/// A session that is being opened.
struct Opening {
    label: Label,
    is_dedicated: bool,
    /// What the client may do with it.
    mode: AttachMode,
    since: Instant,
    loaded: Result<(Reservation, NewSession), LoadError>,
}

impl Client {
    /// Handles the lines of one read. Those that follow each other for one session are passed on
    /// together.
    async fn lines(&mut self, lines: Vec<Line>) {
        let mut batch: Option<(Arc<str>, Vec<Line>)> = None;
        for line in lines {
            let target = match self.dedicated.clone() {
                Some(_) if is_close(&line) => {
                    self.leave(WhenGone::End);
                    None
                }
                Some(handle) => Some(handle),
                None => self.route(&line).await,
            };
            match (target, &mut batch) {
                (Some(handle), Some((current, waiting))) if handle == *current => {
                    waiting.push(line)
                }
                (target, batch) => {
                    if let Some((handle, lines)) = batch.take() {
                        self.forward(&handle, lines);
                    }
                    *batch = target.map(|handle| (handle, vec![line]));
                }
            }
        }
        if let Some((handle, lines)) = batch {
            self.forward(&handle, lines);
        }
    }

    /// The session that the line is for. None: the line has been answered here.
    async fn route(&mut self, line: &Line) -> Option<Arc<str>> {
        let Line::Text(bytes) = line else {
            if let Some(Request { id, command: Err(refusal), .. }) = Request::read(Line::TooLong) {
                self.refuse(id.as_deref(), &refusal);
            }
            return None;
        };
        if bytes.iter().all(u8::is_ascii_whitespace) {
            return None;
        }
        let text = String::from_utf8_lossy(bytes);
        let request = match ServerRequest::read(&text) {
            Ok(request) => request,
            Err(refusal) => {
                self.refuse(None, &refusal);
                return None;
            }
        };
        let ServerRequest { id, command, session_id } = request;
        if let Some(read) = ServerCommand::read(&command, &text) {
            match read {
                Ok(command) => self.command(id, command).await,
                Err(refusal) => self.refuse(id.as_deref(), &refusal),
            }
            return None;
        }
        let Some(session_id) = session_id else {
            self.own_command(bytes.clone());
            return None;
        };
        let Some((handle, attachment)) = self.attachments.get_key_value(&*session_id) else {
            let error = format!("No open session {session_id:?} that this client is attached to");
            self.refuse_with(id.as_deref(), &command, ErrorCode::UnknownSession, error);
            return None;
        };
        if attachment.mode == AttachMode::Watch && !changes_nothing(&command) {
            self.refuse_watching(id.as_deref(), &command);
            return None;
        }
        Some(handle.clone())
    }

    /// A session's command without a session: some have a meaning for the server.
    fn own_command(&mut self, line: Vec<u8>) {
        let Some(Request { id, command, .. }) = Request::read(Line::Text(line)) else { return };
        let id = id.as_deref();
        match command {
            Err(refusal) => self.refuse(id, &refusal),
            Ok(Command::Hello(hello)) => {
                self.format = chosen(&hello, self.format);
                self.wants_sequence = self.format.epoch.is_some();
                self.respond(id, "hello", &hello_data(self.format, commands(), Vec::new()));
            }
            Ok(Command::GetCapabilities) => {
                self.respond(id, "get_capabilities", &capabilities(self.format, commands()));
            }
            Ok(Command::ListSessions(options)) => {
                let label = label(id, "list_sessions");
                let cwd = options.cwd.clone();
                let query = match list_query(options, cwd) {
                    Ok(query) => query,
                    Err(error) => return self.refuse(id, &Refusal::of(&label, error)),
                };
                let opener = self.shared.opener.clone();
                let done = self.done.clone();
                tokio::task::spawn_blocking(move || {
                    let listed = opener.store().and_then(|store| listing(&*store.store, &query));
                    let line = match listed {
                        Ok(data) => success(label.id.as_deref(), label.command, &data),
                        Err(error) => {
                            refusal_line(label.id.as_deref(), &Refusal::of(&label, error))
                        }
                    };
                    // A client that is gone needs no response.
                    done.send(Finished::Line(line)).ok();
                });
            }
            Ok(command) => {
                let error = "missing field `sessionId`: this server has many sessions. Send \
                             open_session first"
                    .to_owned();
                let error = format!("Invalid command {:?}: {error}", command.name());
                self.refuse_with(id, command.name(), ErrorCode::MissingSessionId, error);
            }
        }
    }

    async fn command(&mut self, id: Option<Box<RawValue>>, command: ServerCommand) {
        match command {
            ServerCommand::OpenSession(request) => self.open(id, request).await,
            ServerCommand::CloseSession(target) => self.close(id, &target.session_id),
            ServerCommand::ListOpenSessions => self.list(id),
            ServerCommand::Attach(request) => self.attach(id.as_deref(), request),
            ServerCommand::Detach(target) => self.detach(id, &target.session_id),
        }
    }

    /// Loads the session beside this task. Only a client that will have no other session waits.
    async fn open(&mut self, id: Option<Box<RawValue>>, request: OpenSession) {
        let label = label(id.as_deref(), "open_session");
        let reservation = match self.shared.reserve() {
            Ok(reservation) => reservation,
            Err(why) => return self.refuse_room(&label, why),
        };
        let shared = self.shared.clone();
        let is_dedicated = request.dedicated;
        let since = Instant::now();
        let load = async move {
            let loaded = shared.load_new(request).await.map(|session| (reservation, session));
            let mode = AttachMode::Control;
            Opening { label, is_dedicated, mode, since, loaded }
        };
        if is_dedicated {
            let opening = load.await;
            return self.opened(opening);
        }
        self.load_beside(load);
    }

    /// Loads a session beside this task.
    fn load_beside(&mut self, load: impl Future<Output = Opening> + Send + 'static) {
        self.opening += 1;
        let done = self.done.clone();
        tokio::spawn(async move {
            // A client that is gone needs no session.
            done.send(Finished::Loaded(Box::new(load.await))).ok();
        });
    }

    fn finished(&mut self, finished: Finished) {
        match finished {
            Finished::Line(line) => self.output.line(&line),
            Finished::Loaded(opening) => {
                self.opening -= 1;
                self.opened(*opening);
            }
        }
    }

    /// Starts a session that has its files.
    fn opened(&mut self, opening: Opening) {
        let Opening { label, is_dedicated, mode, since, loaded } = opening;
        let (reservation, mut session) = match loaded {
            Ok(loaded) => loaded,
            Err(why) => return self.refuse_opening(&label, &why),
        };
        session.config.level = self.format.level;
        let shared = self.shared.clone();
        let waiting_label = label.clone();
        let mut attachment = None;
        let started = shared.start(reservation, session, |handle| {
            let named = (!is_dedicated).then(|| handle.clone());
            let (request, own) = self.join(named, mode, None, waiting_label);
            attachment = Some(own);
            request
        });
        match (started, attachment) {
            (Ok(handle), Some(attachment)) => {
                if is_dedicated {
                    self.dedicated = Some(handle.clone());
                }
                self.attachments.insert(handle, attachment);
                observe_opening(&self.shared.metrics, since);
            }
            (Err(why), _) => self.refuse_room(&label, why),
            (Ok(_), None) => {}
        }
    }

    /// Makes both ends of a connection with a session.
    fn join(
        &mut self,
        handle: Option<Arc<str>>,
        mode: AttachMode,
        resume: Option<(String, u64)>,
        label: Label,
    ) -> (AttachRequest, Attachment) {
        self.last_attachment += 1;
        let number = self.last_attachment;
        let (lines, lines_receiver) = mpsc::channel(WAITING_READS);
        let (control, control_receiver) = mpsc::channel(1);
        let (pipe, caught_up) = Pipe::into_queue(self.queue.clone());
        let records = pipe.clone();
        let channels =
            Channels { lines: lines_receiver, control: control_receiver, pipe, caught_up };
        let unread = Arc::new(AtomicUsize::new(0));
        let link = ClientLink::new(self.ended.clone(), number);
        let membership = Membership { link, handle, unread: unread.clone() };
        // Each session counts its own records.
        let epoch = self.wants_sequence.then(Uuid::new_v4);
        let connection =
            Connection::member(WireFormat { epoch, ..self.format }, channels, membership);
        let (attached, answered) = oneshot::channel();
        let done = self.done.clone();
        let late = label.clone();
        tokio::spawn(async move {
            if answered.await.is_err() {
                let line = closing_line(&late);
                done.send(Finished::Line(line)).ok();
            }
        });
        let request = AttachRequest { connection, mode, resume, label, attached };
        (request, Attachment { number, mode, lines, control, unread, is_ending: false, records })
    }

    fn attach(&mut self, id: Option<&RawValue>, request: Attach) {
        let Some(entry) = self.shared.find(&request.session_id) else {
            return self.follow(id, request);
        };
        let Attach { session_id, mode, since, epoch } = request;
        let label = label(id, "attach");
        let handle: Arc<str> = session_id.into();
        // The new attachment takes the place of an older one of this client.
        if let Some(old) = self.attachments.remove(&handle) {
            old.leave();
        }
        let resume = since.map(|since| (epoch.unwrap_or_default(), since));
        let (request, attachment) = self.join(Some(handle.clone()), mode, resume, label);
        self.attachments.insert(handle, attachment);
        // If the session has just ended, dropping the request answers the command.
        entry.commands.send(SessionCommand::Attach(Box::new(request))).ok();
    }

    fn detach(&mut self, id: Option<Box<RawValue>>, handle: &str) {
        let label = label(id.as_deref(), "detach");
        let Some(attachment) = self.attachments.remove(handle) else {
            return self.refuse_unknown(&label, handle);
        };
        let Attachment { number, ref records, .. } = attachment;
        self.leaving.push(Leaving { attachment: number, label, records: records.clone() });
        attachment.leave();
    }

    /// The response comes when the session has ended, behind its last records.
    fn close(&mut self, id: Option<Box<RawValue>>, handle: &str) {
        let label = label(id.as_deref(), "close_session");
        let Some(entry) = self.shared.find(handle) else {
            return self.refuse_unknown(&label, handle);
        };
        let attachment = self.attachments.get(handle);
        if attachment.is_some_and(|attachment| attachment.mode == AttachMode::Watch) {
            return self.refuse_watching(label.id.as_deref(), label.command);
        }
        let records = attachment.map_or(&self.output.0, |attachment| &attachment.records).clone();
        let closed = entry.commands.clone();
        let by = ClientIdentity(self.ended.clone());
        // A session that has just ended is closed.
        entry.commands.send(SessionCommand::Close { by }).ok();
        tokio::spawn(async move {
            closed.closed().await;
            records.send_line(&success_without_data(&label));
        });
    }

    fn list(&mut self, id: Option<Box<RawValue>>) {
        let mut sessions: Vec<OpenSessionSummary> = Vec::new();
        for (handle, entry) in self.shared.entries() {
            let info = entry.info().clone();
            sessions.push(OpenSessionSummary {
                attached: self.attachments.contains_key(&handle),
                session_id: handle.to_string(),
                durable_id: info.durable_id,
                session_file: info.file,
                cwd: info.cwd,
                name: info.name,
                status: info.status,
                clients: info.clients,
                message_count: info.message_count,
                queued_message_count: info.queued,
                model: info.model,
                last_active: info.last_active,
            });
        }
        sessions.sort_by_key(|session| std::cmp::Reverse(session.last_active));
        self.respond(id.as_deref(), "list_open_sessions", &OpenSessionsData { sessions });
    }

    /// Passes lines on to a session. If too many wait already, they are refused.
    fn forward(&mut self, handle: &str, lines: Vec<Line>) {
        let Some(attachment) = self.attachments.get(handle) else {
            // The session has just ended.
            for line in lines {
                self.refuse_line(line, ErrorCode::SessionClosing, CLOSING);
            }
            return;
        };
        let bytes = line_bytes(&lines);
        let unread = attachment.unread.fetch_add(bytes, Ordering::AcqRel);
        let refused = if unread > WAITING_MAX_BYTES {
            Some(lines)
        } else {
            match attachment.lines.try_send(ClientInput::Lines(lines)) {
                Ok(()) => return,
                Err(
                    mpsc::error::TrySendError::Full(ClientInput::Lines(lines))
                    | mpsc::error::TrySendError::Closed(ClientInput::Lines(lines)),
                ) => Some(lines),
                Err(_) => None,
            }
        };
        attachment.unread.fetch_sub(bytes, Ordering::AcqRel);
        let is_closed = attachment.lines.is_closed();
        for line in refused.into_iter().flatten() {
            if is_closed {
                self.refuse_line(line, ErrorCode::SessionClosing, CLOSING);
            } else {
                self.refuse_line(line, ErrorCode::SessionBusy, BUSY);
            }
        }
    }

    /// A session has dropped the connection.
    fn connection_ended(&mut self, end: &ConnectionEnded) {
        let leaving = self.leaving.iter().position(|one| one.attachment == end.attachment);
        if let Some(Leaving { label, records, .. }) = leaving.map(|at| self.leaving.remove(at)) {
            records.send_line(&success_without_data(&label));
            return;
        }
        let is_it =
            |(_, attachment): &(&Arc<str>, &Attachment)| attachment.number == end.attachment;
        let Some(handle) = self.attachments.iter().find(is_it).map(|(handle, _)| handle.clone())
        else {
            return;
        };
        self.attachments.remove(&handle);
        if !end.is_in_order {
            let error = Some("internal error: the session has failed");
            self.output.line(&Hosted::closed_line(&handle, ClosedReason::Crashed, error));
        }
        if self.dedicated.as_ref() == Some(&handle) {
            self.dedicated = None;
            // Nothing more comes on this connection.
            self.queue.finish();
        }
    }

    fn server_stops(&mut self, within: Duration) {
        if self.dedicated.is_none() {
            self.output.line(&json(&ServerRecord::ServerStopping { seconds: within.as_secs() }));
        }
    }

    /// Tells all sessions that the client sends nothing more.
    fn leave(&mut self, when_gone: WhenGone) {
        for attachment in self.attachments.values_mut().filter(|one| !one.is_ending) {
            attachment.is_ending = true;
            attachment.send(match when_gone {
                WhenGone::Detach => ClientInput::Detached,
                WhenGone::End => ClientInput::EndOfInput,
            });
        }
    }

    fn respond(&mut self, id: Option<&RawValue>, command: &str, data: &impl Serialize) {
        self.output.line(&success(id, command, data));
    }
}

impl Attachment {
    /// Ends the attachment behind the lines that were sent. The session goes on.
    fn leave(self) {
        self.send(ClientInput::Detached);
    }

    /// Sends an input behind the lines; to a session that does not read them, beside them.
    fn send(&self, input: ClientInput) {
        if let Err(mpsc::error::TrySendError::Full(input)) = self.lines.try_send(input) {
            self.control.try_send(input).ok();
        }
    }
}

/// Lines of the server itself.
struct Output(Pipe);

impl Output {
    fn line(&self, line: &str) {
        self.0.send_line(line);
    }
}

const BUSY: &str =
    "Too many commands wait for this session. Send this one again when some are answered";
