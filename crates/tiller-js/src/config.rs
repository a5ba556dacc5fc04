//! With what extensions are run.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// What does not change while we run.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where answers that take their time are worked on.
    pub runtime: tokio::runtime::Handle,
    pub limits: Limits,
    /// The working folder at the start. Later ones are asked for with [`Query::Cwd`].
    ///
    /// [`Query::Cwd`]: crate::world::Query::Cwd
    pub cwd: PathBuf,
    /// The agent folder, `~/.pi/agent` unless told otherwise.
    pub agent_dir: PathBuf,
    pub home_dir: PathBuf,
    /// `tui`, `rpc`, `json` or `print`.
    pub mode: String,
    /// Whether there is anybody to ask.
    pub has_ui: bool,
    /// The version extensions see as the agent's.
    pub version: String,
    /// What `process.execPath` says, for extensions that start the agent again.
    pub exec_path: PathBuf,
    /// What `process.env` says.
    pub env: Vec<(String, String)>,
    /// Whether extensions may run in a process of their own at all.
    pub sidecars: bool,
    pub clock: EngineClock,
    /// Hears how long each hook took, for a log.
    pub hook_observer: Option<HookObserver>,
}

/// What timers and deadlines in engines go by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EngineClock {
    #[default]
    Wall,
    /// The clock of the runtime, for tests that pause it. Engines in this process only.
    Runtime,
}

/// What became of one hook in one engine.
#[derive(Clone, Debug)]
pub struct HookTiming {
    pub name: &'static str,
    pub after: Duration,
    pub error: Option<String>,
}

#[derive(Clone)]
pub struct HookObserver(pub Arc<dyn Fn(HookTiming) + Send + Sync>);

impl fmt::Debug for HookObserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HookObserver")
    }
}

/// How much an extension may take before it is stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Memory of one engine.
    pub memory_bytes: usize,
    /// How long JavaScript may keep the thread without a pause.
    pub slice: Duration,
    /// The same while a file is loaded or a tool or command runs.
    pub long_slice: Duration,
    /// How long an extension may take to load, in the same sense as `hook`.
    pub load: Duration,
    /// How long a hook may take in all. The time in which it waits for somebody else (a dialog,
    /// a child, the network) does not count.
    pub hook: Duration,
    /// How long a hook may take even so.
    pub hook_max: Duration,
    /// How long a hook waits for events told before it that are still being handled.
    pub patience: Duration,
    /// So many times over a limit, and the engine is started anew.
    pub strikes: u32,
    /// Events that may wait for an engine. What comes then is dropped and reported.
    pub backlog: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            memory_bytes: 256 << 20,
            slice: Duration::from_secs(2),
            long_slice: Duration::from_secs(20),
            load: Duration::from_secs(30),
            hook: Duration::from_secs(30),
            hook_max: Duration::from_secs(600),
            patience: Duration::from_millis(250),
            strikes: 3,
            backlog: 4096,
        }
    }
}

/// What an extension may touch by itself. One that may not everything gets an engine of its own,
/// so that nobody can lend it what it lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permissions {
    pub fs: bool,
    pub exec: bool,
    pub net: bool,
    pub env: bool,
}

impl Permissions {
    pub const ALL: Permissions = Permissions { fs: true, exec: true, net: true, env: true };
}

/// An extension to load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extension {
    pub path: PathBuf,
    /// Whether it has an engine of its own and shares nothing with others.
    pub isolate: bool,
    pub permissions: Permissions,
    pub engine: EngineChoice,
}

/// What runs an extension.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EngineChoice {
    /// The engine in this process; a sidecar if the extension needs what that one lacks.
    #[default]
    Auto,
    /// The engine in this process and no other.
    Embedded,
    /// A sidecar of this kind.
    Sidecar(Runtime),
}

/// A program that can be a sidecar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runtime {
    Node,
    Bun,
}

impl Extension {
    /// An extension that may do everything, in the engine all share.
    pub fn new(path: impl Into<PathBuf>) -> Extension {
        let path = path.into();
        Extension {
            path,
            isolate: false,
            permissions: Permissions::ALL,
            engine: EngineChoice::Auto,
        }
    }

    pub(crate) fn shares(&self) -> bool {
        !self.isolate && self.permissions == Permissions::ALL
    }
}
