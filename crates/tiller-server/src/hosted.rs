//! A session of a server with many: its clients come and go, it is dropped from memory when it was
//! idle for long, and it ends when a client closes it or the server ends.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::value::RawValue;
use tiller_agent::limits::Limits;
use tiller_protocol::{
    AttachMode, ClientId, ClosedReason, Command, DetachedReason, ErrorCode, Json, Label, Level,
    OpenSessionStatus, OpenedData, Refusal, ReplayData, Reply, Request, Response, ServerRecord,
};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::connection::{ClientIdentity, Connection};
use crate::connections::Connections;
use crate::dispatch::Response as Handled;
use crate::handlers::get_state::get_state;
use crate::outbox::Outgoing;
use crate::server::version;
use crate::state::SessionState;

/// What a session is asked beside the lines of its clients.
pub(crate) enum SessionCommand {
    Attach(Box<AttachRequest>),
    /// A client closes the session. It gets a response; the others are told by a record.
    Close {
        by: ClientIdentity,
    },
    /// The only input of the process has ended.
    EndOfInput,
    /// The server ends: no new run starts, and the current one has this long to finish.
    Stop {
        within: Duration,
    },
}

/// A client that joins.
pub(crate) struct AttachRequest {
    pub(crate) connection: Connection,
    pub(crate) mode: AttachMode,
    /// The epoch and the number of the last record that the client has.
    pub(crate) resume: Option<(String, u64)>,
    /// Of the command that is answered.
    pub(crate) label: Label,
    /// Told when the command is answered.
    pub(crate) attached: oneshot::Sender<()>,
}

/// What others see of an open session.
#[derive(Clone, Debug, Default)]
pub(crate) struct SessionInfo {
    pub(crate) durable_id: String,
    /// Its file, or its address in a database.
    pub(crate) file: Option<PathBuf>,
    pub(crate) cwd: PathBuf,
    pub(crate) name: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) status: OpenSessionStatus,
    pub(crate) clients: usize,
    pub(crate) message_count: usize,
    pub(crate) queued: usize,
    pub(crate) last_active: u64,
    /// It was opened for reading, so another session may write it.
    pub(crate) is_read_only: bool,
}

/// How the serving of a session ended.
pub(crate) enum HostedEnd {
    Ended {
        reason: ClosedReason,
        connections: Connections,
        /// Dropped when the clients have been told.
        hosted: Box<Hosted>,
    },
    /// It was idle for long. The next input wakes it.
    Asleep { connections: Connections, hosted: Box<Hosted> },
}

/// What an idle session does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum IdleEnd {
    Sleep,
    Close,
}

/// The part of a session that knows of the server around it.
pub(crate) struct Hosted {
    handle: Arc<str>,
    commands: mpsc::UnboundedReceiver<SessionCommand>,
    info: Arc<Mutex<SessionInfo>>,
    /// How long a session stays in memory without anything happening.
    idle_limit: Option<Duration>,
    idle_since: Option<Instant>,
    /// The limits that the session started with.
    limits: Limits,
    has_extensions: bool,
    reason: Option<ClosedReason>,
    /// The client that has closed the session.
    closer: Option<ClientIdentity>,
    /// When the last run must have ended, because the server ends.
    stop_at: Option<Instant>,
}

impl Hosted {
    pub(crate) fn new(
        handle: Arc<str>,
        commands: mpsc::UnboundedReceiver<SessionCommand>,
        info: Arc<Mutex<SessionInfo>>,
        idle_limit: Option<Duration>,
    ) -> Hosted {
        Hosted {
            handle,
            commands,
            info,
            idle_limit,
            idle_since: None,
            limits: Limits::default(),
            has_extensions: false,
            reason: None,
            closer: None,
            stop_at: None,
        }
    }

    /// The session is about to be served.
    pub(crate) fn begin(&mut self, limits: Limits, has_extensions: bool) {
        self.limits = limits;
        self.has_extensions = has_extensions;
        self.idle_since = None;
    }

    /// The next command. Without a server of many sessions there is none.
    pub(crate) async fn next_command(hosted: &mut Option<Box<Hosted>>) -> Option<SessionCommand> {
        match hosted {
            Some(hosted) => Some(hosted.command().await),
            None => std::future::pending().await,
        }
    }

    /// The next command. A server that is gone closes its sessions.
    pub(crate) async fn command(&mut self) -> SessionCommand {
        match self.commands.recv().await {
            Some(command) => command,
            None if self.reason.is_none() => SessionCommand::EndOfInput,
            None => std::future::pending().await,
        }
    }

    /// A client, or the end of its connection, ends the session.
    pub(crate) fn close(&mut self) {
        self.reason.get_or_insert(ClosedReason::Closed);
        self.set_status(OpenSessionStatus::Closing);
    }

    /// This client closes the session, so it needs no record about it.
    pub(crate) fn close_by(&mut self, client: ClientIdentity) {
        self.closer.get_or_insert(client);
        self.close();
    }

    pub(crate) fn closer(&self) -> Option<&ClientIdentity> {
        self.closer.as_ref()
    }

    /// The earliest time counts: a second signal ends the session at once.
    pub(crate) fn stop_within(&mut self, within: Duration) {
        self.reason.get_or_insert(ClosedReason::ServerStopping);
        let at = Instant::now() + within;
        self.stop_at = Some(self.stop_at.map_or(at, |earlier| earlier.min(at)));
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stop_at.is_some()
    }

    pub(crate) fn is_stop_overdue(&self) -> bool {
        self.stop_at.is_some_and(|at| Instant::now() >= at)
    }

    /// When to look at the session again, if nothing happens before.
    pub(crate) fn due(&self) -> Option<Instant> {
        let is_later = |at: &Instant| *at > Instant::now();
        let idle = self.idle_since.zip(self.idle_limit).map(|(since, limit)| since + limit);
        self.stop_at.filter(is_later).into_iter().chain(idle.filter(is_later)).min()
    }

    /// Why a request is refused while the server ends.
    pub(crate) fn refusal(&self, request: &Request) -> Option<Refusal> {
        let command = request.command.as_ref().ok()?;
        let starts_work = matches!(
            command,
            Command::Prompt(_)
                | Command::FollowUp(_)
                | Command::AbortAndPrompt(_)
                | Command::Compact(_)
                | Command::Bash(_)
        );
        (self.is_stopping() && starts_work).then(|| Refusal {
            code: Some(ErrorCode::ServerStopping),
            ..Refusal::of(
                &Label { client: request.client, id: None, command: command.name() },
                "The server is about to end and starts nothing new".to_owned(),
            )
        })
    }

    /// Adds a client: its response, and what it needs to follow the session from here.
    pub(crate) fn attach(
        &mut self,
        state: &mut SessionState,
        connections: &mut Connections,
        request: AttachRequest,
    ) {
        let AttachRequest { mut connection, mode, resume, label, attached } = request;
        if mode == AttachMode::Takeover {
            let others: Vec<_> = connections.iter_mut().map(|other| other.id()).collect();
            for client in others {
                self.detach(state, connections, client, DetachedReason::TakenOver);
            }
        }
        let level = connection.format().level;
        let stream =
            resume.as_ref().and_then(|(epoch, since)| connections.take_stream(epoch, *since));
        let state_data = state_json(state, level);
        let response = |replay| self.response(&label, &state_data, replay);
        let connection = match stream {
            Some((old, lines)) => {
                let replay = ReplayData { records: lines.len(), truncated: false };
                let detached = self.detached_line(DetachedReason::TakenOver);
                old.resume(connection, &detached, &response(Some(replay)), &lines)
            }
            None => {
                connection.set_id(connections.next_id());
                let replay = resume.map(|_| ReplayData { records: 0, truncated: true });
                connection.plain_line(&response(replay));
                connection.greet(version());
                let open = connections.observer().map(|observer| observer.open_records());
                for event in open.into_iter().flatten() {
                    connection.write(Outgoing::Event(event));
                }
                connection
            }
        };
        connections.add(connection);
        // The client may be gone already.
        attached.send(()).ok();
    }

    fn response(&self, label: &Label, state: &RawValue, replay: Option<ReplayData>) -> String {
        let session_id = (&*self.handle).into();
        let data = OpenedData { session_id, state: Json::from(state), replay };
        let data = serde_json::value::to_raw_value(&data).expect("our own types serialize to JSON");
        let mut response = Response::success(label.id.as_deref(), label.command);
        response.data = Some(Json::from(&*data));
        serde_json::to_string(&response).expect("our own types serialize to JSON")
    }

    /// Removes a client, and tells it why.
    fn detach(
        &self,
        state: &mut SessionState,
        connections: &mut Connections,
        client: ClientId,
        reason: DetachedReason,
    ) {
        if let Some(connection) = connections.find(client) {
            connection.plain_line(&self.detached_line(reason));
        }
        connections.remove(client);
        state.tools.host_mut().detached(client);
    }

    fn detached_line(&self, reason: DetachedReason) -> String {
        line(&ServerRecord::SessionDetached { session_id: (&*self.handle).into(), reason })
    }

    /// After each step: clients that hold others back are removed, and the list of sessions shows
    /// the session as it is.
    pub(crate) fn stepped(&mut self, state: &mut SessionState, connections: &mut Connections) {
        for client in connections.too_slow() {
            self.detach(state, connections, client, DetachedReason::TooSlow);
        }
        let is_idle = state.is_idle();
        if !is_idle {
            self.idle_since = None;
        } else if self.idle_since.is_none() {
            self.idle_since = Some(Instant::now());
        }
        self.publish(state, connections, is_idle);
    }

    fn publish(&self, state: &SessionState, connections: &Connections, is_idle: bool) {
        let mut info = self.info.lock().unwrap_or_else(PoisonError::into_inner);
        let conversation = state.session.conversation();
        info.status = match self.reason {
            Some(ClosedReason::Closed) => OpenSessionStatus::Closing,
            _ if is_idle => OpenSessionStatus::Idle,
            _ => OpenSessionStatus::Running,
        };
        info.clients = connections.count();
        info.is_read_only = conversation.session().is_read_only();
        info.message_count = conversation.message_count();
        info.queued = state.queues.in_view();
        info.last_active = state.clock.now();
        if info.durable_id != conversation.id() {
            info.durable_id = conversation.id().to_owned();
        }
        if info.file.as_deref() != conversation.file() {
            info.file = conversation.file().map(Into::into);
        }
        if info.name.as_deref() != conversation.name() {
            info.name = conversation.name().map(str::to_owned);
        }
        if info.cwd != *state.workspace.cwd() {
            info.cwd = state.workspace.cwd().to_owned();
        }
        let model = state.models.current();
        let is_same = match (&info.model, model) {
            (Some(shown), Some(model)) => {
                shown.split_once('/') == Some((model.provider.as_str(), model.id.as_str()))
            }
            (shown, model) => shown.is_none() && model.is_none(),
        };
        if !is_same {
            info.model = model.map(|model| format!("{}/{}", model.provider, model.id));
        }
    }

    /// Whether the session was idle for so long that it is dropped, and how.
    pub(crate) fn idle_end(
        &mut self,
        state: &mut SessionState,
        connections: &Connections,
    ) -> Option<IdleEnd> {
        if state.follower.is_some() && connections.is_empty() && self.reason.is_none() {
            // Nothing is lost, and the next client opens it again.
            return Some(IdleEnd::Close);
        }
        let (since, limit) = self.idle_since.zip(self.idle_limit)?;
        if since.elapsed() < limit || self.reason.is_some() {
            return None;
        }
        let end = idle_end(&IdleFacts {
            is_stored: state.session.store().has(state.session.conversation().session()),
            has_changes: self.has_changes(state),
            has_clients: !connections.is_empty(),
        });
        if end.is_none() {
            self.idle_since = Some(Instant::now());
        }
        end
    }

    /// Whether something is in memory that the stored session does not have.
    fn has_changes(&self, state: &SessionState) -> bool {
        self.has_extensions
            // While it sleeps, its clients would not learn what the other process stores.
            || state.follower.is_some()
            || state.tools.has_client_changes()
            || state.mcp.has_client_servers()
            || state.project.setting_overrides().iter().next().is_some()
            || *state.budget.limits() != self.limits
            || !state.queues.is_empty()
            || state.session.conversation().owes().is_some()
    }

    /// The session is no longer served.
    pub(crate) fn end(
        mut self: Box<Self>,
        mut connections: Connections,
        idle: Option<IdleEnd>,
    ) -> HostedEnd {
        match idle {
            Some(IdleEnd::Sleep) => {
                connections.forget_streams();
                self.idle_since = None;
                self.set_status(OpenSessionStatus::Asleep);
                HostedEnd::Asleep { connections, hosted: self }
            }
            Some(IdleEnd::Close) => {
                HostedEnd::Ended { reason: ClosedReason::Closed, connections, hosted: self }
            }
            None => {
                let reason = self.reason.unwrap_or(ClosedReason::Ended);
                HostedEnd::Ended { reason, connections, hosted: self }
            }
        }
    }

    /// The file of the session, or its address in a database, and its working directory.
    pub(crate) fn place(&self) -> (Option<PathBuf>, PathBuf) {
        let info = self.info.lock().unwrap_or_else(PoisonError::into_inner);
        (info.file.clone(), info.cwd.clone())
    }

    /// A client has left while the session sleeps.
    pub(crate) fn set_clients(&self, count: usize) {
        self.info.lock().unwrap_or_else(PoisonError::into_inner).clients = count;
    }

    fn set_status(&self, status: OpenSessionStatus) {
        self.info.lock().unwrap_or_else(PoisonError::into_inner).status = status;
    }

    /// The line that tells clients about the end of the session.
    pub(crate) fn closed_line(handle: &str, reason: ClosedReason, error: Option<&str>) -> String {
        let error = error.map(Into::into);
        line(&ServerRecord::SessionClosed { session_id: handle.into(), reason, error })
    }
}

/// What decides about an idle session.
struct IdleFacts {
    is_stored: bool,
    /// Something is in memory that the store does not have.
    has_changes: bool,
    has_clients: bool,
}

/// What an idle session does when its time is over. None: it stays.
fn idle_end(facts: &IdleFacts) -> Option<IdleEnd> {
    match facts {
        IdleFacts { is_stored: true, has_changes: false, .. } => Some(IdleEnd::Sleep),
        IdleFacts { has_clients: false, .. } => Some(IdleEnd::Close),
        _ => None,
    }
}

/// The data of `get_state`. At level `xcsh` it needs the project's files, which may not be there
/// yet; then it is the data of the other levels.
fn state_json(state: &mut SessionState, level: Level) -> Box<RawValue> {
    let is_incomplete = level == Level::Xcsh && !state.project.is_loaded();
    let level = if is_incomplete { Level::Pi } else { level };
    let reply = match get_state(state, level) {
        Ok(Handled::Now(reply)) => reply,
        _ => Reply::DONE,
    };
    let text = reply.into_text().unwrap_or_else(|| "null".to_owned());
    RawValue::from_string(text).expect("our own types serialize to JSON")
}

fn line(record: &ServerRecord<'_>) -> String {
    serde_json::to_string(record).expect("our own types serialize to JSON")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_session_sleeps_only_if_its_file_has_everything() {
        for (is_stored, has_changes, has_clients, expected) in [
            (true, false, true, Some(IdleEnd::Sleep)),
            (true, false, false, Some(IdleEnd::Sleep)),
            (true, true, true, None),
            (true, true, false, Some(IdleEnd::Close)),
            (false, false, true, None),
            (false, false, false, Some(IdleEnd::Close)),
        ] {
            let facts = IdleFacts { is_stored, has_changes, has_clients };
            assert_eq!(idle_end(&facts), expected, "{is_stored} {has_changes} {has_clients}");
        }
    }
}
