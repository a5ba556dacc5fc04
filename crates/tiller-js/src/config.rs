//! Configuration of the engines.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Settings that do not change while tiller runs.
#[derive(Clone, Debug)]
pub struct Config {
    /// Runs asynchronous operations.
    pub runtime: tokio::runtime::Handle,
    pub limits: Limits,
    /// The working folder at the start. The current one is [`Query::Cwd`].
    ///
    /// [`Query::Cwd`]: crate::host_api::Query::Cwd
    pub cwd: PathBuf,
    /// The agent folder, by default `~/.pi/agent`.
    pub agent_dir: PathBuf,
    pub home_dir: PathBuf,
    /// `tui`, `rpc`, `json` or `print`.
    pub mode: String,
    /// Whether a client can show dialogs.
    pub has_ui: bool,
    /// The agent's version that extensions see.
    pub version: String,
    /// `process.execPath`, for extensions that start the agent again.
    pub exec_path: PathBuf,
    /// `process.env`.
    pub env: Vec<(String, String)>,
    /// Whether sidecars are allowed.
    pub sidecars: bool,
    pub clock: EngineClock,
    /// Receives the duration of each hook, for the log.
    pub hook_observer: Option<HookObserver>,
}

/// The clock for timers and deadlines in engines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EngineClock {
    #[default]
    Wall,
    /// The runtime's clock, for tests that pause it. Embedded engines only.
    Runtime,
}

/// The duration of one hook in one engine.
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

/// Limits of an extension's time and memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Memory of one engine.
    pub memory_bytes: usize,
    /// How long JavaScript may block the thread.
    pub slice: Duration,
    /// The same while a file is loaded or a tool or command runs.
    pub long_slice: Duration,
    /// How long an extension may take to load, counted like `hook`.
    pub load: Duration,
    /// How long a hook may take in all, not counting the time it waits for a dialog, a child or the
    /// network.
    pub hook: Duration,
    /// How long a hook may take including such waits.
    pub hook_max: Duration,
    /// How long a hook waits for earlier events that are still being handled.
    pub event_wait: Duration,
    /// The engine is restarted after this many violations.
    pub violations: u32,
    /// Upper bound on queued events. Further events are dropped and reported.
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
            event_wait: Duration::from_millis(250),
            violations: 3,
            backlog: 4096,
        }
    }
}

/// What an extension may access by itself. An extension that lacks a permission gets its own
/// engine, so that no other extension can lend it access.
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
    /// Whether it has its own engine and shares nothing with other extensions.
    pub isolate: bool,
    pub permissions: Permissions,
    pub engine: EngineChoice,
}

/// Where an extension runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EngineChoice {
    /// The embedded engine; a sidecar if the extension needs what that lacks.
    #[default]
    Auto,
    /// Only the embedded engine.
    Embedded,
    /// A sidecar of this kind.
    Sidecar(Runtime),
}

/// A program that can run a sidecar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runtime {
    Node,
    Bun,
}

impl Extension {
    /// An extension with all permissions, in the shared engine.
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
