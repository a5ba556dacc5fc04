//! Many sessions in one process. Each is a task of its own; a client is another one, which passes
//! its lines on to the sessions that they name.
//!
//! A line's way: [`ClientInputs`] → `router/client` → the session's task (`hosted`, `server`), and
//! back through the client's [`OutputQueue`].

mod client;
mod lines;
mod metrics;
mod session_task;

use std::collections::HashMap;
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tiller_protocol::{Level, OpenSession, OpenSessionStatus};
use tiller_session::Owner;
use tokio::sync::{Notify, Semaphore, mpsc, watch};
use tokio::time::Instant;
use uuid::Uuid;

use crate::config::ServerConfig;
use crate::connection::ClientInput;
use crate::hosted::{SessionCommand, SessionInfo};
use crate::out::OutputQueue;
use crate::session_store::SessionStore;

use client::WhenGone;
pub use metrics::{Gauges, Metrics};

/// How many sessions are opened at the same time, each on a thread that may block.
const OPENING_MAX: usize = 4;
/// How many reads of a client may wait for its task.
const READS_MAX: usize = 8;

/// Opens sessions for the router. It knows the command line, the environment and the files.
pub trait SessionOpener: Send + Sync + 'static {
    /// What the session starts with. Called on a thread that may block.
    fn open(&self, request: &OpenSession) -> Result<ServerConfig, OpenError>;

    /// The location of the stored session that is asked for, if there is one. Called on a thread that
    /// may block.
    fn location(&self, request: &OpenSession) -> Option<PathBuf>;

    /// Where sessions are stored.
    fn store(&self) -> Result<SessionStore, String>;
}

/// Why a session cannot be opened.
#[derive(Debug)]
pub struct OpenError {
    pub error: String,
    /// Set if another writer has the session open.
    pub in_use: Option<Box<SessionInUse>>,
}

/// A session that another writer has open.
#[derive(Clone, Debug)]
pub struct SessionInUse {
    /// Its path, or its address in a database.
    pub location: PathBuf,
    /// The writer, if it could be found out.
    pub owner: Option<Box<Owner>>,
}

/// The limits of a server.
#[derive(Clone, Debug)]
pub struct RouterConfig {
    /// The level of clients that do not choose one.
    pub level: Level,
    /// A session is dropped from memory when it was idle for so long. None: never.
    pub idle_limit: Option<Duration>,
    pub max_sessions: usize,
    /// The most extensions that the open sessions may load, all together.
    pub max_extensions: usize,
}

/// The sessions of a process. Clones are the same router.
#[derive(Clone)]
pub struct Router {
    shared: Arc<Shared>,
    outputs_ended: Arc<tokio::sync::Mutex<mpsc::Receiver<Infallible>>>,
}

/// What the tasks of sessions and clients share.
struct Shared {
    opener: Arc<dyn SessionOpener>,
    config: RouterConfig,
    sessions: Mutex<Sessions>,
    /// Notified when a session has ended.
    ended: Notify,
    opening: Semaphore,
    extensions: Arc<Semaphore>,
    metrics: Arc<Metrics>,
    clients: AtomicUsize,
    phase: watch::Sender<ServerPhase>,
    /// Each client's output has a sender, so that the end of the last one can be waited for.
    outputs: Mutex<Option<mpsc::Sender<Infallible>>>,
}

/// What the server as a whole does.
#[derive(Clone, Copy, Debug, PartialEq)]
enum ServerPhase {
    Serving,
    /// Runs have this long to finish.
    Stopping(Duration),
    /// All sessions have ended. Clients get the rest of their records.
    Disconnecting,
}

#[derive(Default)]
struct Sessions {
    open: HashMap<Arc<str>, Entry>,
    /// Sessions that are being opened.
    opening: usize,
    /// Sessions whose last records are being written.
    ending: usize,
    last: u64,
    /// No session is opened any more.
    is_closed: bool,
}

/// The router's side of an open session.
#[derive(Clone)]
struct Entry {
    commands: mpsc::UnboundedSender<SessionCommand>,
    info: Arc<Mutex<SessionInfo>>,
}

/// How all sessions end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RouterEnd {
    /// The only client has closed its input: as at the end of stdin.
    EndOfInput,
    /// Runs have this long to finish, and nothing new starts.
    Stop { within: Duration },
}

impl Router {
    pub fn new(config: RouterConfig, opener: Arc<dyn SessionOpener>) -> Router {
        let extensions = Arc::new(Semaphore::new(config.max_extensions));
        let (outputs, outputs_ended) = mpsc::channel(1);
        Router {
            outputs_ended: Arc::new(tokio::sync::Mutex::new(outputs_ended)),
            shared: Arc::new(Shared {
                opener,
                config,
                sessions: Mutex::default(),
                ended: Notify::new(),
                opening: Semaphore::new(OPENING_MAX),
                extensions,
                metrics: Arc::default(),
                clients: AtomicUsize::new(0),
                phase: watch::Sender::new(ServerPhase::Serving),
                outputs: Mutex::new(Some(outputs)),
            }),
        }
    }

    /// A client has connected. Its task runs until the inputs are dropped or end. Its sessions go
    /// on then.
    pub fn connect(&self) -> (ClientInputs, Arc<OutputQueue>) {
        self.connect_client(WhenGone::Detach)
    }

    /// The only client of the process. The end of its input is that of its sessions.
    pub fn connect_only_client(&self) -> (ClientInputs, Arc<OutputQueue>) {
        self.connect_client(WhenGone::End)
    }

    fn connect_client(&self, when_gone: WhenGone) -> (ClientInputs, Arc<OutputQueue>) {
        let (inputs, receiver) = mpsc::channel(READS_MAX);
        let outputs = self.shared.outputs.lock().unwrap_or_else(PoisonError::into_inner);
        let queue = Arc::new(OutputQueue::new(outputs.clone()));
        drop(outputs);
        tokio::spawn(client::run(self.shared.clone(), when_gone, receiver, queue.clone()));
        (ClientInputs(inputs), queue)
    }

    /// Ends all sessions in order. Returns when the last one has ended, or when that takes longer
    /// than it may.
    pub async fn end(&self, end: RouterEnd) {
        let limit = match end {
            RouterEnd::EndOfInput => None,
            RouterEnd::Stop { within } => {
                self.shared.phase.send_replace(ServerPhase::Stopping(within));
                Some(within + END_GRACE)
            }
        };
        let entries: Vec<Entry> = {
            let mut sessions = self.shared.sessions();
            sessions.is_closed = true;
            sessions.open.values().cloned().collect()
        };
        for entry in entries {
            // A session that has just ended needs no command.
            entry
                .commands
                .send(match end {
                    RouterEnd::EndOfInput => SessionCommand::EndOfInput,
                    RouterEnd::Stop { within } => SessionCommand::Stop { within },
                })
                .ok();
        }
        let all_ended = async {
            loop {
                let ended = self.shared.ended.notified();
                if self.shared.sessions().is_empty() {
                    return;
                }
                ended.await;
            }
        };
        match limit {
            // A session that does not end is given up.
            Some(limit) => drop(tokio::time::timeout(limit, all_ended).await),
            None => all_ended.await,
        }
    }

    /// Waits until the clients have got their last records and are disconnected, but no longer
    /// than this. Called when all sessions have ended.
    pub async fn disconnect_clients(&self, within: Duration) {
        self.shared.outputs.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.shared.phase.send_replace(ServerPhase::Disconnecting);
        let mut outputs = self.outputs_ended.lock().await;
        // A client that does not read is given up.
        tokio::time::timeout(within, outputs.recv()).await.ok();
    }

    /// Fails if sessions cannot be stored.
    pub fn check_store(&self) -> Result<(), String> {
        self.shared.opener.store().map(|_| ())
    }

    /// Whether the server is about to end.
    pub fn is_stopping(&self) -> bool {
        *self.shared.phase.borrow() != ServerPhase::Serving
    }

    /// The page for `GET /metrics`.
    pub fn metrics_page(&self) -> String {
        self.shared.metrics.page(self.gauges())
    }

    /// What the sessions are doing now.
    pub fn gauges(&self) -> Gauges {
        let clients = self.shared.clients.load(Ordering::Relaxed);
        let mut gauges = Gauges { clients, ..Gauges::default() };
        for (_, entry) in self.shared.entries() {
            let info = entry.info();
            gauges.queued_messages += info.queued;
            match info.status {
                OpenSessionStatus::Running => gauges.running_sessions += 1,
                OpenSessionStatus::Asleep => gauges.sleeping_sessions += 1,
                OpenSessionStatus::Idle | OpenSessionStatus::Closing => gauges.idle_sessions += 1,
            }
        }
        gauges
    }
}

/// What a session may take to end beyond the time of its run.
const END_GRACE: Duration = Duration::from_secs(5);

/// Where the lines of a client go.
pub struct ClientInputs(mpsc::Sender<ClientInput>);

impl ClientInputs {
    /// Sends lines, or that there are no more. Waits while the client's task is busy. False: the
    /// task has ended.
    pub async fn send(&self, input: ClientInput) -> bool {
        self.0.send(input).await.is_ok()
    }

    /// The same from a thread that may block.
    pub fn send_blocking(&self, input: ClientInput) -> bool {
        self.0.blocking_send(input).is_ok()
    }
}

impl Shared {
    fn sessions(&self) -> MutexGuard<'_, Sessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, handle: &str) -> Option<Entry> {
        self.sessions().open.get(handle).cloned()
    }

    fn entries(&self) -> Vec<(Arc<str>, Entry)> {
        let sessions = self.sessions();
        sessions.open.iter().map(|(handle, entry)| (handle.clone(), entry.clone())).collect()
    }

    /// The open session that may write at this location. May look at the disk.
    fn open_at(&self, location: &Path) -> Option<Arc<str>> {
        if !location.is_absolute() {
            // An address in a database.
            return self.find_by(|open| open == location);
        }
        let file = location.canonicalize().ok()?;
        self.find_by(|open| {
            // The names tell almost all files apart without a look at the disk.
            open.file_name() == file.file_name()
                && open.canonicalize().is_ok_and(|open| open == file)
        })
    }

    /// The open session with this durable id: the one that writes it rather than one that reads it.
    fn with_durable_id(&self, id: &str) -> Option<Arc<str>> {
        let entries = self.entries().into_iter();
        let found = entries.filter(|(_, entry)| entry.info().durable_id == id);
        found.min_by_key(|(_, entry)| entry.info().is_read_only).map(|(handle, _)| handle)
    }

    /// The open session that may write and whose location is this one.
    fn find_by(&self, is_it: impl Fn(&Path) -> bool) -> Option<Arc<str>> {
        let has_it = |(_, entry): &(Arc<str>, Entry)| {
            let info = entry.info();
            let open = info.file.clone().filter(|_| !info.is_read_only);
            drop(info);
            open.is_some_and(|open| is_it(&open))
        };
        self.entries().into_iter().find(has_it).map(|(handle, _)| handle)
    }

    /// Makes room for a session. The reservation is given back when it is dropped.
    fn reserve(self: &Arc<Self>) -> Result<Reservation, NoRoom> {
        let mut sessions = self.sessions();
        if sessions.is_closed {
            return Err(NoRoom::Stopping);
        }
        if sessions.open.len() + sessions.opening >= self.config.max_sessions {
            return Err(NoRoom::TooMany(self.config.max_sessions));
        }
        sessions.opening += 1;
        Ok(Reservation { shared: self.clone() })
    }

    /// Adds a session under a new handle.
    fn add(&self, reservation: Reservation, entry: Entry) -> Result<Arc<str>, NoRoom> {
        let mut sessions = self.sessions();
        if sessions.is_closed {
            drop(sessions);
            drop(reservation);
            return Err(NoRoom::Stopping);
        }
        sessions.last += 1;
        // The random part keeps the handles of a former process unknown.
        let random = &Uuid::new_v4().simple().to_string()[..6];
        let handle: Arc<str> = format!("s{}-{random}", sessions.last).into();
        sessions.open.insert(handle.clone(), entry);
        drop(sessions);
        drop(reservation);
        self.metrics.session_opened();
        Ok(handle)
    }

    /// From here on, the session is not open any more. Its end is complete when the result is
    /// dropped.
    fn remove(self: &Arc<Self>, handle: &str) -> EndingSession {
        let mut sessions = self.sessions();
        sessions.open.remove(handle);
        sessions.ending += 1;
        EndingSession { shared: self.clone() }
    }
}

impl Sessions {
    fn is_empty(&self) -> bool {
        self.open.is_empty() && self.opening == 0 && self.ending == 0
    }
}

impl Entry {
    fn info(&self) -> MutexGuard<'_, SessionInfo> {
        self.info.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why no session can be opened.
#[derive(Clone, Copy, Debug, PartialEq)]
enum NoRoom {
    Stopping,
    TooMany(usize),
}

/// Room for one session that is being opened.
struct Reservation {
    shared: Arc<Shared>,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.shared.sessions().opening -= 1;
        self.shared.ended.notify_waiters();
    }
}

/// A session that has ended, and whose last records are being written.
struct EndingSession {
    shared: Arc<Shared>,
}

impl Drop for EndingSession {
    fn drop(&mut self) {
        self.shared.sessions().ending -= 1;
        self.shared.ended.notify_waiters();
    }
}

/// How long the opening of a session took, for the metrics.
fn observe_opening(metrics: &Metrics, since: Instant) {
    metrics.opening.observe(since.elapsed());
}
