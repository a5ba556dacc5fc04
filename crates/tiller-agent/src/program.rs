//! A child process: what to start, and its events. The crates that start one and those that ask
//! for one share these types.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use serde::Deserialize;

/// What to start, and how.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Program {
    /// A path, or a name to search in the `PATH` of `env`.
    pub command: String,
    pub args: Vec<String>,
    pub cwd: PathBuf,
    /// The complete environment.
    pub env: Vec<(String, String)>,
    /// Whether stdin is a pipe; otherwise it is empty.
    pub stdin: bool,
    /// `argv[0]`, if it is not the command's name.
    #[serde(default)]
    pub argv0: Option<String>,
    /// Open files that the child inherits beside the standard three, with the same descriptor
    /// numbers.
    #[serde(skip)]
    pub inherited: Vec<Arc<OwnedFd>>,
}

/// Events of a program, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProgramEvent {
    Stdout(Vec<u8>),
    Stderr(Vec<u8>),
    /// The program exited with a code or was killed by a signal. Its own output was reported
    /// before; its children may still write.
    Exit {
        code: Option<i32>,
        signal: Option<i32>,
    },
    /// The last event: the program has ended and its pipes are closed.
    Closed,
}

/// Receives the events. It may block: the program then waits in its next write, so that memory is
/// bounded.
pub type ProgramSink = Box<dyn FnMut(ProgramEvent) + Send>;
