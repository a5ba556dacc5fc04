//! Work that may wait for a disk, done away from the runtime's only thread.

use tiller_agent::tool::{Failure, ToolContext};
use tokio::task::{JoinError, spawn_blocking};

/// Runs `work` on a blocking thread. When the call is cancelled the answer is given up at once;
/// the work itself should look at the token from time to time.
pub(crate) async fn run<T, F>(cx: &ToolContext, work: F) -> Result<T, Failure>
where
    T: Send + 'static,
    F: FnOnce() -> Result<T, Failure> + Send + 'static,
{
    if cx.cancel.is_cancelled() {
        return Err(Failure::aborted());
    }
    tokio::select! {
        // A result that is there counts, even if the cancellation came with it.
        biased;
        done = spawn_blocking(work) => done.unwrap_or_else(|err| Err(lost(err))),
        () = cx.cancel.cancelled() => Err(Failure::aborted()),
    }
}

/// Runs work that is to be completed whatever happens.
pub(crate) async fn finish<T, F>(work: F) -> Result<T, Failure>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    spawn_blocking(work).await.map_err(lost)
}

/// Work that gave no result. A panic is a bug; it is caught where the call is joined, as one in
/// any other tool.
pub(crate) fn lost(err: JoinError) -> Failure {
    match err.try_into_panic() {
        Ok(panic) => std::panic::resume_unwind(panic),
        // The runtime is shutting down.
        Err(_) => Failure::aborted(),
    }
}
