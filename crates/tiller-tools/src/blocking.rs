//! Runs work that may wait for a disk outside the runtime's only thread.

use tiller_agent::tool::{Failure, ToolContext};
use tokio::task::{JoinError, spawn_blocking};

/// Runs `work` on a blocking thread. If the call is cancelled, returns at once; `work` itself
/// should check the token from time to time.
pub(crate) async fn run<T, F>(cx: &ToolContext, work: F) -> Result<T, Failure>
where
    T: Send + 'static,
    F: FnOnce() -> Result<T, Failure> + Send + 'static,
{
    if cx.cancel.is_cancelled() {
        return Err(Failure::aborted());
    }
    tokio::select! {
        // A finished result is returned, even if the call was cancelled at the same time.
        biased;
        done = spawn_blocking(work) => done.unwrap_or_else(|err| Err(join_error(err))),
        () = cx.cancel.cancelled() => Err(Failure::aborted()),
    }
}

/// Runs work that always runs to completion, even if the call is cancelled.
pub(crate) async fn finish<T, F>(work: F) -> Result<T, Failure>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    spawn_blocking(work).await.map_err(join_error)
}

/// Handles work without a result. A panic is a bug; it is resumed and caught where the call is
/// joined, as in any other tool.
pub(crate) fn join_error(err: JoinError) -> Failure {
    match err.try_into_panic() {
        Ok(panic) => std::panic::resume_unwind(panic),
        // The runtime is shutting down.
        Err(_) => Failure::aborted(),
    }
}
