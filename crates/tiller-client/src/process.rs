//! The other side of the connection: a tiller process with its end, or streams of the host's.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::ClientError;

/// How much of stderr is kept.
const STDERR_TAIL_BYTES: usize = 8 << 10;
/// How long stderr is read after the end of the process: a child of it may keep it open.
const STDERR_LIMIT: Duration = Duration::from_millis(500);

/// How tiller ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Exit {
    /// Absent without a process.
    pub(crate) status: Option<ExitStatus>,
    pub(crate) stderr_tail: String,
}

/// How to start a process.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) path: PathBuf,
    pub(crate) arguments: Vec<OsString>,
    pub(crate) cwd: Option<PathBuf>,
    pub(crate) env: Vec<(OsString, OsString)>,
    /// The host's environment is left out.
    pub(crate) has_empty_env: bool,
}

/// What the connection waits for at its end.
pub(crate) enum Peer {
    Process(Box<Process>),
    /// The host owns the streams and what is behind them.
    Attached,
}

impl Peer {
    /// Waits this long for the end of the process, then kills it.
    pub(crate) async fn end(self, limit: Duration) -> Exit {
        match self {
            Peer::Process(process) => process.end(limit).await,
            Peer::Attached => Exit::default(),
        }
    }
}

/// A process whose stdin and stdout are closed or used elsewhere. Dropping it kills it.
pub(crate) struct Process {
    child: Child,
    stderr: JoinHandle<()>,
    tail: StderrTail,
}

/// The last lines of stderr.
#[derive(Clone)]
pub(crate) struct StderrTail(watch::Receiver<Vec<u8>>);

impl StderrTail {
    /// Without a process.
    pub(crate) fn empty() -> StderrTail {
        StderrTail(watch::channel(Vec::new()).1)
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.borrow()).into_owned()
    }
}

impl Program {
    pub(crate) fn start(&self) -> Result<(Process, ChildStdin, ChildStdout), ClientError> {
        let mut command = Command::new(&self.path);
        if self.has_empty_env {
            command.env_clear();
        }
        if let Some(cwd) = &self.cwd {
            command.current_dir(cwd);
        }
        command
            .args(&self.arguments)
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        // Ctrl-C in the host's terminal is for the host. If the host ends, stdin closes, and tiller
        // ends by itself.
        #[cfg(unix)]
        command.process_group(0);
        let failed = |reason: String| ClientError::ServerNotFound {
            program: self.path.display().to_string(),
            reason,
        };
        let mut child = command.spawn().map_err(|err| failed(err.to_string()))?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
            return Err(failed("it has no pipes".to_owned()));
        };
        let (sender, tail) = watch::channel(Vec::new());
        let stderr = tokio::spawn(read_tail(stderr, sender));
        Ok((Process { child, stderr, tail: StderrTail(tail) }, stdin, stdout))
    }
}

impl Process {
    pub(crate) fn id(&self) -> Option<u32> {
        self.child.id()
    }

    pub(crate) fn stderr_tail(&self) -> StderrTail {
        self.tail.clone()
    }

    async fn end(mut self, limit: Duration) -> Exit {
        let status = match timeout(limit, self.child.wait()).await {
            Ok(status) => status.ok(),
            Err(_) => {
                // It fails if the process has just ended.
                self.child.kill().await.ok();
                self.child.wait().await.ok()
            }
        };
        // What comes later is not kept.
        timeout(STDERR_LIMIT, &mut self.stderr).await.ok();
        Exit { status, stderr_tail: self.tail.text() }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A child of the process may keep stderr open.
        self.stderr.abort();
    }
}

/// Reads stderr to its end, so that the pipe does not fill, and keeps its last bytes.
async fn read_tail(mut stderr: ChildStderr, tail: watch::Sender<Vec<u8>>) {
    let mut chunk = [0; 4096];
    while let Ok(length @ 1..) = stderr.read(&mut chunk).await {
        tail.send_modify(|tail| {
            tail.extend_from_slice(&chunk[..length]);
            let excess = tail.len().saturating_sub(STDERR_TAIL_BYTES);
            tail.drain(..excess);
        });
    }
}
