//! The sandbox of a session's tools, as the other crates see it: its modes, where the work of tools
//! runs, and what it reports. `tiller-sandbox` implements it.

use std::fmt;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the tools of a session may change, from the least strict mode to the strictest.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum SandboxMode {
    /// Whatever the user may change.
    #[default]
    Off,
    /// Files in the working directory.
    WorkspaceWrite,
    /// No files of the user.
    ReadOnly,
}

impl SandboxMode {
    pub const ALL: [SandboxMode; 3] =
        [SandboxMode::Off, SandboxMode::ReadOnly, SandboxMode::WorkspaceWrite];

    pub fn name(self) -> &'static str {
        match self {
            SandboxMode::Off => "off",
            SandboxMode::WorkspaceWrite => "workspace-write",
            SandboxMode::ReadOnly => "read-only",
        }
    }

    pub fn read(name: &str) -> Option<SandboxMode> {
        SandboxMode::ALL.into_iter().find(|mode| mode.name() == name)
    }
}

/// Where the work of tools runs. The kernel decides there what is allowed, not a check of paths.
pub trait Confinement: fmt::Debug + Send + Sync {
    /// Runs work on a thread inside the sandbox, or says why no tool may run.
    fn run(&self, work: Box<dyn FnOnce() + Send>) -> Result<(), String>;

    /// Prepares the start of a program in the sandbox, or says why no tool may run. Blocks.
    fn prepare(&self) -> Result<(), String>;

    /// Puts the calling process into the sandbox for good. Called between fork and exec, after
    /// [`prepare`](Confinement::prepare): it makes system calls and does nothing else. An error is the
    /// number of the operating system.
    fn enter(&self) -> Result<(), i32>;

    /// Variables for the programs in the sandbox.
    fn variables(&self) -> Vec<(String, String)>;

    /// What is allowed, as a sentence for a model whose call was denied.
    fn allowed(&self) -> String;
}

/// The data of `get_sandbox`: what was requested, and what is true.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SandboxReport {
    pub mode: SandboxMode,
    /// Whether everything that the mode promises was tried and is enforced. If not, tools are
    /// refused, unless `--sandbox-best-effort` allows less.
    pub enforced: bool,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    pub mechanisms: SandboxMechanisms,
    pub writes: WriteAccess,
    pub reads: ReadAccess,
    pub network: NetworkAccess,
    pub signals: SignalAccess,
    /// What the sandbox does not prevent, in sentences.
    pub not_covered: Vec<String>,
    /// What a program in the sandbox has tried.
    pub canary: Vec<CanaryResult>,
}

/// What the kernel offers, and is used.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SandboxMechanisms {
    /// The version of Landlock; 0 if the kernel has none.
    pub landlock: u32,
    pub seccomp: bool,
    pub no_new_privileges: bool,
}

/// Which files can be changed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WriteAccess {
    pub enforced: bool,
    /// The folders in which files can be changed.
    pub roots: Vec<PathBuf>,
}

/// Which files can be read: all but these.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReadAccess {
    pub enforced: bool,
    pub hidden: Vec<PathBuf>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NetworkAccess {
    pub enforced: bool,
    /// Whether tools may use the network.
    pub allowed: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SignalAccess {
    pub enforced: bool,
}

/// An attempt to leave the sandbox, made by a program that was started like one of a tool, or by a
/// thread that tools run on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CanaryResult {
    pub attempt: String,
    pub blocked: bool,
    /// The error of the operating system, or what went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// `sandbox` in `get_state` and `hello`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SandboxSummary {
    pub mode: SandboxMode,
    pub enforced: bool,
}
