//! Runs one command in a shell. The `bash` tool and the client's own `bash` command both use this;
//! they differ in what they do with the output.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tiller_agent::mutex;
use tiller_agent::sandbox::Confinement;
use tiller_agent::tool::Failure;
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;

use crate::process::{KillHandle, ProcessEvent, Tree};
use crate::{blocking, os_error};

/// The user's shell settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shell {
    /// The shell's path; by default bash, if it is installed.
    pub path: Option<PathBuf>,
    /// Put on a line before every command.
    pub prefix: Option<String>,
    /// Environment variables that commands do not inherit.
    pub withheld: Arc<[String]>,
}

/// A command and where it runs.
pub(crate) struct Invocation {
    pub command: String,
    pub cwd: Arc<PathBuf>,
    /// Added to tiller's own environment.
    pub env: Arc<[(String, String)]>,
    pub shell: Shell,
    pub timeout: Option<Duration>,
    /// The most address space of each process, in bytes.
    pub memory: Option<u64>,
    pub confinement: Option<Arc<dyn Confinement>>,
}

/// Receives the output. Runs on a blocking thread and may block; a command that writes faster has
/// to wait.
pub(crate) trait Listener: Send + 'static {
    fn on_output(&mut self, output: &[u8]);

    /// When `tick` should be called next, even without new output.
    fn due(&self) -> Option<Instant> {
        None
    }

    fn tick(&mut self) {}
}

/// Why the command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// 128 plus the signal's number for a shell that was killed.
    Exited(i32),
    TimedOut,
    Cancelled,
}

/// Runs the command and returns the listener after all output. If the future is dropped, or
/// `cancel` fires, the command is killed with everything it has started.
pub(crate) async fn run<L: Listener>(
    invocation: Invocation,
    mut listener: L,
    cancel: &CancellationToken,
) -> Result<(End, L), Failure> {
    if cancel.is_cancelled() {
        return Ok((End::Cancelled, listener));
    }
    let reins = Arc::new(CommandHandle::default());
    let on_drop = EndOnDrop(reins.clone());
    let mut work = spawn_blocking(move || {
        let timeout = invocation.timeout;
        let tree = start(invocation)?;
        reins.take(tree.ender());
        let end = pump(tree, &mut listener, timeout)
            .map_err(|err| Failure::new(format!("Cannot follow the command: {err}")))?;
        Ok((end, listener))
    });
    let (done, cancelled) = tokio::select! {
        biased;
        done = &mut work => (done, false),
        () = cancel.cancelled() => {
            on_drop.0.pull();
            (work.await, true)
        }
    };
    on_drop.0.release();
    match done {
        Ok(Ok((_, listener))) if cancelled => Ok((End::Cancelled, listener)),
        Ok(result) => result,
        Err(err) => Err(blocking::join_error(err)),
    }
}

fn start(invocation: Invocation) -> Result<Tree, Failure> {
    let cwd = invocation.cwd.as_path();
    if !cwd.is_dir() {
        return Err(Failure::new(format!(
            "Working directory does not exist: {}\nCannot execute bash commands.",
            cwd.display()
        )));
    }
    let shell = invocation.shell.path.unwrap_or_else(default_shell);
    let line = match invocation.shell.prefix {
        Some(prefix) => format!("{prefix}\n{}", invocation.command),
        None => invocation.command,
    };
    let mut command = Command::new(&shell);
    command.arg("-c").arg(line).current_dir(cwd);
    for name in invocation.shell.withheld.iter() {
        command.env_remove(name);
    }
    for (name, value) in invocation.env.iter() {
        // An empty value takes a variable out of what is inherited.
        if value.is_empty() {
            command.env_remove(name);
        } else {
            command.env(name, value);
        }
    }
    if let Some(confinement) = &invocation.confinement {
        confinement.prepare().map_err(Failure::new)?;
        command.envs(confinement.variables());
    }
    Tree::spawn(command, invocation.memory, invocation.confinement).map_err(|err| {
        let why = os_error::describe(&err);
        Failure::new(format!("Cannot start {}: {why}", shell.display()))
    })
}

fn default_shell() -> PathBuf {
    let default = Path::new("/bin/bash");
    if default.exists() {
        return default.to_owned();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut elsewhere = std::env::split_paths(&path).map(|dir| dir.join("bash"));
    elsewhere.find(|bash| bash.is_file()).unwrap_or_else(|| PathBuf::from("sh"))
}

/// Background children may hold the pipe open forever. Once the shell has ended, output is read
/// until there has been none for this long,
const SILENCE: Duration = Duration::from_millis(100);
/// or until this much time has passed, if they keep writing.
const DRAIN_MAX: Duration = Duration::from_secs(2);

fn pump(
    mut tree: Tree,
    listener: &mut impl Listener,
    timeout: Option<Duration>,
) -> io::Result<End> {
    let mut buffer = vec![0; 256 * 1024];
    let ender = tree.ender();
    let mut deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let mut end = None;
    let (mut timed_out, mut closed) = (false, false);
    // Set when the shell has ended: when reading stops at the latest.
    let (mut silence, mut last_call) = (None, None);
    loop {
        let next = [deadline, listener.due(), silence, last_call].into_iter().flatten().min();
        let wait = next.map(|at| at.saturating_duration_since(Instant::now()));
        let event = tree.next(&mut buffer, wait)?;
        let now = Instant::now();
        match event {
            ProcessEvent::Output(n) => {
                listener.on_output(&buffer[..n]);
                silence = end.map(|_| now + SILENCE);
            }
            ProcessEvent::OutputClosed => closed = true,
            ProcessEvent::Ended(code) => {
                end = Some(if timed_out { End::TimedOut } else { End::Exited(code) });
                deadline = None;
                (silence, last_call) = (Some(now + SILENCE), Some(now + DRAIN_MAX));
            }
            ProcessEvent::Quiet => (),
        }
        if deadline.is_some_and(|deadline| now >= deadline) {
            (deadline, timed_out) = (None, true);
            ender.end();
        }
        if listener.due().is_some_and(|due| now >= due) {
            listener.tick();
        }
        let over = [silence, last_call].into_iter().flatten().any(|at| now >= at);
        match end {
            Some(end) if closed || over => return Ok(end),
            _ => (),
        }
    }
}

/// The state of a command, before it runs and while it does.
#[derive(Default)]
struct CommandHandle(Mutex<HandleState>);

#[derive(Default)]
enum HandleState {
    #[default]
    NotStarted,
    Running(KillHandle),
    /// Killed, or no longer managed.
    Released {
        ended: bool,
    },
}

impl CommandHandle {
    fn take(&self, ender: KillHandle) {
        let mut hold = mutex::lock(&self.0);
        match *hold {
            HandleState::Released { ended: true } => ender.end(),
            _ => *hold = HandleState::Running(ender),
        }
    }

    fn pull(&self) {
        let mut hold = mutex::lock(&self.0);
        if let HandleState::Running(ender) = &*hold {
            ender.end();
        }
        if !matches!(*hold, HandleState::Released { .. }) {
            *hold = HandleState::Released { ended: true };
        }
    }

    /// Called when the command has ended. Its background children stay.
    fn release(&self) {
        *mutex::lock(&self.0) = HandleState::Released { ended: false };
    }
}

struct EndOnDrop(Arc<CommandHandle>);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.pull();
    }
}
