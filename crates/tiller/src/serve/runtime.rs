//! The runtime of a process with many sessions, and what the process needs from the system.

use tokio::runtime::{Builder, Runtime};

/// The most threads that may block. A shell command takes one while it runs, so fewer would let the
/// commands of some sessions keep all others from opening, reading and writing files.
const BLOCKING_THREADS_MAX: usize = 8_192;

pub(crate) fn start() -> Result<Runtime, String> {
    raise_file_limit();
    Builder::new_multi_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS_MAX)
        .build()
        .map_err(|err| format!("cannot start the runtime: {err}"))
}

/// Connections, requests and commands need file descriptors; systems allow more than they grant at
/// first.
fn raise_file_limit() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        // With the lower limit, fewer sessions can work at the same time.
        setrlimit(Resource::RLIMIT_NOFILE, hard, hard).ok();
    }
}
