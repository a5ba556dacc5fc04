//! One server's life: started when it is needed, restarted when it dies, ended when nothing needs it
//! any more. A task owns the connection; everything else sees the [`Status`].
//!
//! ```text
//! Idle ──▶ Starting ──▶ Ready
//!             ▲  │        │
//!             │  ▼        ▼
//!             └─ Restarting ──▶ Failed ──▶ Starting, when a call needs it
//! ```

use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::service::Peer;
use serde_json::Map;
use tiller_agent::mcp::McpServer;
use tiller_agent::tool::{Failure, ToolContext, ToolOutput, ToolResult};
use tiller_tools::image::Resize;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::connection::{self, CallError, Connection, OpenError, RemoteTool};
use crate::environment::Environment;
use crate::result::tool_result;
use crate::traffic::Progress;

/// The pause before the first restart; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// After as many failures in a row, a server is not restarted by itself.
const FAILURES_MAX: u32 = 6;
/// A server that was ready for this long starts again from the first pause.
const STABLE: Duration = Duration::from_secs(60);
/// Announcements of another list of tools within this time are one.
const LIST_PAUSE: Duration = Duration::from_millis(100);

/// What a server is doing.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// It was not needed so far.
    Idle,
    Starting,
    Ready,
    /// It has failed, and is started again after a pause.
    Restarting {
        why: Arc<str>,
    },
    /// It is started again when a call needs it.
    Failed {
        why: Arc<str>,
    },
}

/// A server as others see it.
#[derive(Clone)]
pub struct Status {
    pub step: Step,
    /// Those of the last list; they stay while the server is restarted.
    pub tools: Arc<[RemoteTool]>,
    /// What is wrong with tools that are left out.
    pub problems: Arc<[String]>,
    /// Name and version, as the server says.
    pub version: Option<Arc<str>>,
    /// The revision of the protocol.
    pub protocol_version: Option<Arc<str>>,
    peer: Option<Peer<RoleClient>>,
    /// How many attempts to start it have ended, well or badly.
    attempts: u64,
}

impl Status {
    fn idle() -> Status {
        Status {
            step: Step::Idle,
            tools: Arc::default(),
            problems: Arc::default(),
            version: None,
            protocol_version: None,
            peer: None,
            attempts: 0,
        }
    }

    /// Why the server does not work, if that is so.
    pub fn error(&self) -> Option<&str> {
        match &self.step {
            Step::Restarting { why } | Step::Failed { why } => Some(why),
            Step::Idle | Step::Starting | Step::Ready => None,
        }
    }
}

/// What follows a failure.
#[derive(Debug, PartialEq)]
enum Next {
    RestartAfter(Duration),
    GiveUp,
}

/// `failures` counts those in a row, this one included.
fn next(failures: u32, is_final: bool) -> Next {
    if is_final || failures >= FAILURES_MAX {
        return Next::GiveUp;
    }
    let pause = FIRST_PAUSE * 2_u32.pow(failures.saturating_sub(1).min(8));
    Next::RestartAfter(pause.min(PAUSE_MAX))
}

/// A server of a session. Dropping it ends the server.
pub(crate) struct Server {
    pub(crate) config: Arc<McpServer>,
    pub(crate) handle: ServerHandle,
    status: Arc<watch::Sender<Status>>,
    stop: CancellationToken,
    task: Option<JoinHandle<()>>,
}

/// What calls have of a server.
#[derive(Clone)]
pub(crate) struct ServerHandle {
    config: Arc<McpServer>,
    status: watch::Receiver<Status>,
    needed: Arc<Notify>,
}

impl Server {
    pub(crate) fn new(config: McpServer) -> Server {
        let config = Arc::new(config);
        let (status, seen) = watch::channel(Status::idle());
        let handle = ServerHandle { config: config.clone(), status: seen, needed: Arc::default() };
        let stop = CancellationToken::new();
        Server { config, handle, status: Arc::new(status), stop, task: None }
    }

    /// Starts the server unless it was started before.
    pub(crate) fn start(&mut self, environment: &Arc<Environment>) {
        if self.task.is_none() {
            self.status.send_modify(|status| status.step = Step::Starting);
            let life = Life {
                config: self.config.clone(),
                environment: environment.clone(),
                status: self.status.clone(),
                needed: self.handle.needed.clone(),
            };
            let stop = self.stop.clone();
            self.task = Some(tokio::spawn(life.run(stop)));
        }
    }

    pub(crate) fn status(&self) -> Status {
        self.handle.status.borrow().clone()
    }

    /// Ends the server. The future resolves when it has ended.
    pub(crate) fn stop(mut self) -> impl Future<Output = ()> + Send + 'static {
        self.stop.cancel();
        let task = self.task.take();
        async move {
            if let Some(task) = task {
                // A task that panicked has dropped its connection, which kills the server.
                task.await.ok();
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// The task of a server.
struct Life {
    config: Arc<McpServer>,
    environment: Arc<Environment>,
    status: Arc<watch::Sender<Status>>,
    needed: Arc<Notify>,
}

impl Life {
    async fn run(self, stop: CancellationToken) {
        let mut failures = 0;
        loop {
            self.show(Step::Starting);
            let opening = self.open();
            let opened = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                opened = opening => opened,
            };
            let (why, is_final, was_ready) = match opened {
                Ok(connection) => {
                    let since = Instant::now();
                    let Some(why) = self.serve(connection, &stop).await else { return };
                    if since.elapsed() >= STABLE {
                        failures = 0;
                    }
                    (why, false, true)
                }
                Err(OpenError { why, is_final }) => (why, is_final, false),
            };
            failures += 1;
            let why = Arc::from(why);
            let pause = match next(failures, is_final) {
                Next::RestartAfter(pause) => {
                    self.fail(Step::Restarting { why }, was_ready);
                    Some(pause)
                }
                Next::GiveUp => {
                    self.fail(Step::Failed { why }, was_ready);
                    failures = 0;
                    None
                }
            };
            let ready_to_start = async {
                match pause {
                    Some(pause) => sleep(pause).await,
                    None => self.needed.notified().await,
                }
            };
            if stop.run_until_cancelled(ready_to_start).await.is_none() {
                return;
            }
        }
    }

    async fn open(&self) -> Result<Connection, OpenError> {
        let target = self.environment.target(&self.config).await;
        let target = target.map_err(|why| OpenError { why, is_final: true })?;
        let limit = self.config.timeout;
        let connection = Connection::open(target, limit, self.environment.holds_clock).await?;
        // A server that cannot list its tools is of no use.
        match connection.list_tools(limit).await {
            Ok(list) => {
                connection.subscribe();
                self.update(|status| {
                    status.step = Step::Ready;
                    status.tools = list.tools.into();
                    status.problems = list.problems.into();
                    status.version = connection.server_version().map(Arc::from);
                    status.protocol_version = connection.protocol_version().map(Arc::from);
                    status.peer = Some(connection.peer().clone());
                    status.attempts += 1;
                });
                Ok(connection)
            }
            Err(why) => {
                connection.stop().await;
                Err(OpenError { why, is_final: false })
            }
        }
    }

    /// Keeps a connection until it is closed; returns why. Nothing if it was ended on purpose.
    async fn serve(&self, connection: Connection, stop: &CancellationToken) -> Option<String> {
        let why = loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break None,
                why = connection.closed() => break Some(why),
                () = connection.traffic.tools_changed.notified() => {
                    let listing = async {
                        sleep(LIST_PAUSE).await;
                        self.list_again(&connection).await;
                    };
                    // The next round sees which end it is.
                    tokio::select! {
                        biased;
                        () = stop.cancelled() => {}
                        () = connection.traffic.closed.cancelled() => {}
                        () = listing => {}
                    }
                }
            }
        };
        self.status.send_modify(|status| status.peer = None);
        connection.stop().await;
        why
    }

    async fn list_again(&self, connection: &Connection) {
        match connection.list_tools(self.config.timeout).await {
            Ok(list) => self.update(|status| {
                status.tools = list.tools.into();
                status.problems = list.problems.into();
            }),
            // The old list stays.
            Err(why) => self.update(|status| status.problems = [why].into()),
        }
    }

    fn show(&self, step: Step) {
        self.status.send_modify(|status| status.step = step);
    }

    /// The end of a connection is not that of an attempt, so calls wait for the next attempt.
    fn fail(&self, step: Step, was_ready: bool) {
        self.update(|status| {
            status.step = step;
            status.peer = None;
            status.attempts += u64::from(!was_ready);
        });
    }

    fn update(&self, change: impl FnOnce(&mut Status)) {
        self.status.send_modify(change);
        (self.environment.on_change)();
    }
}

impl ServerHandle {
    pub(crate) fn name(&self) -> &str {
        &self.config.name
    }

    /// Resolves when the first attempt to start the server has ended, well or badly.
    pub(crate) async fn attempted(&self) {
        let mut status = self.status.clone();
        // Fails if the server was removed, which ends the attempt, too.
        status.wait_for(|status| status.attempts > 0).await.ok();
    }

    /// Calls a tool. `tool` is the server's name for it, `called` the model's.
    pub(crate) async fn call(
        &self,
        tool: &str,
        called: &str,
        arguments: Map<String, serde_json::Value>,
        cx: ToolContext,
    ) -> ToolResult {
        let peer = self.peer(&cx.cancel).await?;
        let limit = self.config.timeout;
        let show = |progress: &Progress| cx.show(ToolOutput::text(progress.to_string()));
        let answer = connection::call(&peer, tool, arguments, limit, &cx.cancel, show).await;
        match answer {
            Ok(result) => tool_result(called, result, Resize::ToFit).await,
            Err(err) => Err(self.failure(err).await),
        }
    }

    /// The connection. A server that is not ready is waited for, and one that has failed is started
    /// again.
    async fn peer(&self, cancel: &CancellationToken) -> Result<Peer<RoleClient>, Failure> {
        let mut status = self.status.clone();
        let attempts = status.borrow().attempts;
        if let Some(peer) = &status.borrow().peer {
            return Ok(peer.clone());
        }
        self.needed.notify_one();
        let attempted = status.wait_for(|now| now.peer.is_some() || now.attempts > attempts);
        let waited = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(self.sentence("the call was aborted")),
            waited = timeout(self.config.timeout, attempted) => waited,
        };
        let Ok(waited) = waited else {
            return Err(self.sentence("it is not ready; try again later"));
        };
        let Ok(now) = waited else {
            return Err(self.sentence("it was removed from this session"));
        };
        match &now.peer {
            Some(peer) => Ok(peer.clone()),
            None => {
                let why = now.error().unwrap_or("it was stopped");
                Err(self.sentence(&format!("it cannot be started: {why}")))
            }
        }
    }

    async fn failure(&self, err: CallError) -> Failure {
        match err {
            CallError::Refused(why) => Failure::new(why),
            CallError::Aborted => self.sentence("the call was aborted"),
            CallError::TimedOut(limit) => self.sentence(&format!(
                "no answer and no progress within {} s, so the call was cancelled. Ask for less, \
                 or tell the user to raise `timeout` of this server in mcp.json",
                limit.as_secs_f64()
            )),
            CallError::TookTooLong => self.sentence(&format!(
                "the call took more than {} minutes and was cancelled",
                connection::CALL_MAX.as_secs() / 60
            )),
            CallError::Closed => {
                let mut status = self.status.clone();
                let ended = status.wait_for(|status| status.error().is_some());
                // The server's task takes a moment to find out why.
                let ended = timeout(Duration::from_secs(2), ended).await;
                let why = match ended {
                    Ok(Ok(status)) => status.error().unwrap_or_default().to_owned(),
                    _ => "the connection was closed".to_owned(),
                };
                self.sentence(&format!(
                    "{why}. The call has no result, and may or may not have had an effect: check \
                     before you call again. The server is being restarted"
                ))
            }
        }
    }

    fn sentence(&self, what: &str) -> Failure {
        Failure::new(format!("MCP server {}: {what}", self.name()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_end() {
        let pauses: Vec<Next> = (1..=7).map(|failures| next(failures, false)).collect();
        let after = |seconds| Next::RestartAfter(Duration::from_secs(seconds));
        let expected =
            [after(1), after(2), after(4), after(8), after(16), Next::GiveUp, Next::GiveUp];
        assert_eq!(pauses, expected);
        assert_eq!(next(1, true), Next::GiveUp);
    }
}
