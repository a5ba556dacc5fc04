//! The task of a session: serve it, let it sleep, wake it, end it.

use std::sync::{Arc, Mutex};

use tiller_protocol::{ClosedReason, ErrorCode, Level, OpenSession, Refusal, RefusalKind, Request};
use tiller_session::Owner;
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use super::{Entry, OpenError, SessionInUse, Shared};
use crate::config::ServerConfig;
use crate::connection::ClientInput;
use crate::connections::Connections;
use crate::hosted::{AttachRequest, Hosted, HostedEnd, SessionCommand};
use crate::outbox::Outbox;
use crate::server::{Wake, serve_hosted};
use crate::session_observer::SessionObserver;

/// A session that is about to be served.
pub(super) struct NewSession {
    /// In a box, because it is large and passes through several futures.
    pub(super) config: Box<ServerConfig>,
    /// The tools that the client has asked for.
    pub(super) tools: Option<Vec<String>>,
    pub(super) extensions: OwnedSemaphorePermit,
}

impl Shared {
    /// Loads a session for a client, unless it is open here, awake or asleep.
    pub(super) async fn load_new(
        self: &Arc<Self>,
        request: OpenSession,
    ) -> Result<NewSession, LoadError> {
        if !request.is_stored_session() || request.read_only {
            return self.load(request).await;
        }
        let shared = self.clone();
        let wanted = request.clone();
        let open = tokio::task::spawn_blocking(move || {
            let location = shared.opener.location(&wanted)?;
            shared.open_at(&location).map(|handle| (location, handle))
        });
        if let Ok(Some((location, handle))) = open.await {
            let error = format!(
                "Session {} is open in this server already, as {handle}: attach to it",
                location.display()
            );
            return Err(LoadError::OpenHere { error, handle });
        }
        self.load(request).await
    }

    /// Reads what a session starts with, and reserves its extensions.
    pub(super) async fn load(
        self: &Arc<Self>,
        request: OpenSession,
    ) -> Result<NewSession, LoadError> {
        // The semaphore is never closed.
        let _turn =
            self.opening.acquire().await.map_err(|err| LoadError::other(err.to_string()))?;
        let shared = self.clone();
        let tools = request.tools.clone();
        let opened = tokio::task::spawn_blocking(move || {
            shared.opener.open(&request).map_err(|refused| shared.load_error(refused))
        });
        let opened = opened.await;
        let config =
            opened.map_err(|crash| LoadError::other(format!("internal error: {crash}")))??;
        let count = config.extension_plan.count();
        match self.extensions.clone().try_acquire_many_owned(count as u32) {
            Ok(extensions) => Ok(NewSession { config: Box::new(config), tools, extensions }),
            Err(_) => Err(LoadError::TooManyExtensions { count, max: self.config.max_extensions }),
        }
    }

    /// The writer that has the session may be another session of this server, which has begun to
    /// write it in the meantime.
    fn load_error(&self, refused: OpenError) -> LoadError {
        let OpenError { error, in_use } = refused;
        let Some(in_use) = in_use else { return LoadError::Refused { error } };
        let SessionInUse { location, owner } = *in_use;
        match self.open_at(&location) {
            Some(handle) => LoadError::OpenHere { error, handle },
            None => LoadError::OpenElsewhere { error, owner },
        }
    }

    /// Starts the task of a session with its first client. Returns its handle.
    pub(super) fn start(
        self: &Arc<Self>,
        reservation: super::Reservation,
        session: NewSession,
        attach: impl FnOnce(&Arc<str>) -> AttachRequest,
    ) -> Result<Arc<str>, super::NoRoom> {
        let (commands, receiver) = mpsc::unbounded_channel();
        let info = Arc::new(Mutex::default());
        let entry = Entry { commands, info: info.clone() };
        let handle = self.add(reservation, entry)?;
        let hosted = Hosted::new(handle.clone(), receiver, info, self.config.idle_limit);
        let first = SessionCommand::Attach(Box::new(attach(&handle)));
        let level = session.config.level;
        let observer = SessionObserver::new(self.metrics.clone());
        let task = SessionTask {
            shared: self.clone(),
            handle: handle.clone(),
            connections: Connections::shared(level, observer),
            hosted: Box::new(hosted),
            tools: session.tools.clone(),
            level,
        };
        let shared = self.clone();
        let own_handle = handle.clone();
        let task = tokio::spawn(task.run(session, Wake::Command(first)));
        tokio::spawn(async move {
            // The panic of a session has dropped its connections, which tells its clients.
            if task.await.is_err() {
                shared.metrics.session_crashed();
                drop(shared.remove(&own_handle));
            }
        });
        Ok(handle)
    }
}

/// Why a session cannot be loaded.
pub(super) enum LoadError {
    Refused {
        error: String,
    },
    /// This server has the session open.
    OpenHere {
        error: String,
        handle: Arc<str>,
    },
    /// There is no session with this id.
    Unknown {
        session: String,
    },
    /// Another process has the session open.
    OpenElsewhere {
        error: String,
        owner: Option<Box<Owner>>,
    },
    TooManyExtensions {
        count: usize,
        max: usize,
    },
}

impl LoadError {
    fn other(error: String) -> LoadError {
        LoadError::Refused { error }
    }

    pub(super) fn text(&self) -> String {
        match self {
            LoadError::Refused { error }
            | LoadError::OpenHere { error, .. }
            | LoadError::OpenElsewhere { error, .. } => error.clone(),
            LoadError::Unknown { session } => format!("No open session {session:?}"),
            LoadError::TooManyExtensions { count, max } => format!(
                "the session has {count} extensions, and the open sessions of this server may \
                 have {max} (--max-extensions)"
            ),
        }
    }
}

struct SessionTask {
    shared: Arc<Shared>,
    handle: Arc<str>,
    connections: Connections,
    hosted: Box<Hosted>,
    /// What the session was opened with, and its file does not have.
    tools: Option<Vec<String>>,
    level: Level,
}

impl SessionTask {
    async fn run(mut self, first: NewSession, mut wake: Wake) {
        let mut session = first;
        loop {
            let NewSession { config, extensions, .. } = session;
            let limits = config.limits.clone();
            self.hosted.begin(limits, config.extension_plan.count() > 0);
            let end = serve_hosted(config, self.connections, self.hosted, wake).await;
            drop(extensions);
            match end {
                HostedEnd::Ended { reason, connections, hosted } => {
                    let _ending = self.shared.remove(&self.handle);
                    let line = Hosted::closed_line(&self.handle, reason, None);
                    return connections.close(Some(&line), hosted.closer());
                }
                HostedEnd::Asleep { connections, hosted } => {
                    (self.connections, self.hosted) = (connections, hosted);
                }
            }
            let reason = match self.sleep().await {
                Sleep::Woken(input) => match self.reload().await {
                    Ok(loaded) => {
                        (session, wake) = (loaded, input);
                        continue;
                    }
                    Err(why) => {
                        self.refuse(input, &why);
                        Err(why)
                    }
                },
                Sleep::Ended(reason) => Ok(reason),
            };
            let _ending = self.shared.remove(&self.handle);
            let line = match &reason {
                Ok(reason) => Hosted::closed_line(&self.handle, *reason, None),
                Err(why) => Hosted::closed_line(&self.handle, ClosedReason::Crashed, Some(why)),
            };
            return self.connections.close(Some(&line), self.hosted.closer());
        }
    }

    /// Waits for a command that the session itself must answer.
    async fn sleep(&mut self) -> Sleep {
        loop {
            let wake = tokio::select! {
                (client, Some(input)) = self.connections.next() => Wake::Client(client, input),
                command = self.hosted.command() => Wake::Command(command),
            };
            match wake {
                Wake::Client(client, ClientInput::Detached) => {
                    self.connections.remove(client);
                    self.hosted.set_clients(self.connections.count());
                }
                Wake::Client(_, ClientInput::EndOfInput)
                | Wake::Command(SessionCommand::EndOfInput) => {
                    return Sleep::Ended(ClosedReason::Closed);
                }
                Wake::Command(SessionCommand::Close { by }) => {
                    self.hosted.close_by(by);
                    return Sleep::Ended(ClosedReason::Closed);
                }
                Wake::Command(SessionCommand::Stop { .. }) => {
                    return Sleep::Ended(ClosedReason::ServerStopping);
                }
                wake => return Sleep::Woken(wake),
            }
        }
    }

    /// Reads the session from its store again.
    async fn reload(&self) -> Result<NewSession, String> {
        let (session_path, cwd) = self.hosted.place();
        let tools = self.tools.clone();
        let request = OpenSession { session_path, cwd: Some(cwd), tools, ..OpenSession::default() };
        let session = self.shared.load(request).await.map_err(|why| why.text())?;
        let config = ServerConfig { level: self.level, ..*session.config };
        Ok(NewSession { config: Box::new(config), ..session })
    }

    /// Answers the commands that should have woken the session. A client that was about to attach
    /// is answered when its request is dropped.
    fn refuse(&mut self, wake: Wake, why: &str) {
        let Wake::Client(client, ClientInput::Lines(lines)) = wake else { return };
        let mut outbox = Outbox::default();
        for Request { id, command, .. } in lines.into_iter().filter_map(Request::read) {
            let command = match command {
                Ok(command) => command.name().to_owned(),
                Err(refusal) => refusal.command,
            };
            let kind = RefusalKind::Refused;
            let code = Some(ErrorCode::CannotOpen);
            outbox.refuse(client, id, Refusal { command, kind, error: why.to_owned(), code });
        }
        self.connections.write(&mut outbox);
    }
}

/// How the sleep of a session ended.
enum Sleep {
    Woken(Wake),
    Ended(ClosedReason),
}
