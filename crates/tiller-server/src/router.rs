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
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tiller_protocol::{Level, OpenSession, OpenSessionStatus};
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

    /// Where sessions are stored.
    fn store(&self) -> SessionStore;
}

/// Why a session cannot be opened.
#[derive(Debug)]
pub struct OpenError {
    pub error: String,
    /// The file of the session, if another writer has it open.
    pub in_use: Option<std::path::PathBuf>,
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
    /// The outputs of the connected clients, and of some that are gone.
    outputs: Mutex<Vec<Weak<OutputQueue>>>,
    stopping: watch::Sender<Option<Duration>>,
}

#[derive(Default)]
struct Sessions {
    open: HashMap<Arc<str>, Entry>,
    /// Sessions that are being opened.
    opening: usize,
    /// Sessions that have ended and whose clients are being told.
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
        Router {
            shared: Arc::new(Shared {
                opener,
                config,
                sessions: Mutex::default(),
                ended: Notify::new(),
                opening: Semaphore::new(OPENING_MAX),
                extensions,
                metrics: Arc::default(),
                clients: AtomicUsize::new(0),
                outputs: Mutex::default(),
                stopping: watch::Sender::new(None),
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
        let queue = Arc::new(OutputQueue::default());
        self.shared.add_output(&queue);
        tokio::spawn(client::run(self.shared.clone(), when_gone, receiver, queue.clone()));
        (ClientInputs(inputs), queue)
    }

    /// Ends all sessions in order. Returns when the last one has ended, or when that takes longer
    /// than it may.
    pub async fn end(&self, end: RouterEnd) {
        let limit = match end {
            RouterEnd::EndOfInput => None,
            RouterEnd::Stop { within } => {
                self.shared.stopping.send_replace(Some(within));
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
        if let RouterEnd::Stop { .. } = end {
            self.shared.flush_outputs().await;
        }
    }

    /// Whether the server is about to end.
    pub fn is_stopping(&self) -> bool {
        self.shared.stopping.borrow().is_some()
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

/// How long clients have to read the last records.
const FLUSH_LIMIT: Duration = Duration::from_secs(2);
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

    fn outputs(&self) -> MutexGuard<'_, Vec<Weak<OutputQueue>>> {
        self.outputs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add_output(&self, queue: &Arc<OutputQueue>) {
        let mut outputs = self.outputs();
        // Those of clients that are gone are forgotten from time to time.
        if outputs.len().is_power_of_two() {
            outputs.retain(|output| output.strong_count() > 0);
        }
        outputs.push(Arc::downgrade(queue));
    }

    /// Waits until all clients have read what was written, or long enough.
    async fn flush_outputs(&self) {
        let outputs: Vec<_> = self.outputs().iter().filter_map(Weak::upgrade).collect();
        let all_written = async {
            for output in &outputs {
                output.finish();
                output.written().await;
            }
        };
        // A client that does not read loses the last records.
        tokio::time::timeout(FLUSH_LIMIT, all_written).await.ok();
    }

    fn find(&self, handle: &str) -> Option<Entry> {
        self.sessions().open.get(handle).cloned()
    }

    fn entries(&self) -> Vec<(Arc<str>, Entry)> {
        let sessions = self.sessions();
        sessions.open.iter().map(|(handle, entry)| (handle.clone(), entry.clone())).collect()
    }

    /// The open session with this file.
    fn with_file(&self, file: &Path) -> Option<Arc<str>> {
        let file = file.canonicalize().ok()?;
        let is_it = |(_, entry): &(Arc<str>, Entry)| {
            let open = entry.info().file.clone();
            open.and_then(|open| open.canonicalize().ok()).is_some_and(|open| open == file)
        };
        self.entries().into_iter().find(is_it).map(|(handle, _)| handle)
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

    /// A session has ended: nothing can be sent to it any more. It counts until it is forgotten.
    fn hide(&self, handle: &str) {
        let mut sessions = self.sessions();
        sessions.open.remove(handle);
        sessions.ending += 1;
    }

    /// The clients of a session that has ended have been told.
    fn forget(&self) {
        self.sessions().ending -= 1;
        self.ended.notify_waiters();
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

/// How long the opening of a session took, for the metrics.
fn observe_opening(metrics: &Metrics, since: Instant) {
    metrics.opening.observe(since.elapsed());
}
