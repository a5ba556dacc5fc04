//! Runs work that may wait for a disk outside the runtime's only thread: on a thread of the sandbox,
//! if there is one.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use serde_json::json;
use tiller_agent::tool::{Failure, ToolContext};
use tokio::sync::oneshot;
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
    if cx.confinement.is_some() {
        return tokio::select! {
            biased;
            done = confined(cx, work) => done,
            () = cx.cancel.cancelled() => Err(Failure::aborted()),
        };
    }
    tokio::select! {
        // A finished result is returned, even if the call was cancelled at the same time.
        biased;
        done = spawn_blocking(work) => done.unwrap_or_else(|err| Err(join_error(err))),
        () = cx.cancel.cancelled() => Err(Failure::aborted()),
    }
}

/// Runs work of a call that always runs to completion, even if the call is cancelled.
pub(crate) async fn finish_call<T, F>(cx: &ToolContext, work: F) -> Result<T, Failure>
where
    T: Send + 'static,
    F: FnOnce() -> Result<T, Failure> + Send + 'static,
{
    if cx.confinement.is_some() { confined(cx, work).await } else { finish(work).await? }
}

/// Runs work on a thread of the sandbox. What it denies is explained to the model.
async fn confined<T, F>(cx: &ToolContext, work: F) -> Result<T, Failure>
where
    T: Send + 'static,
    F: FnOnce() -> Result<T, Failure> + Send + 'static,
{
    let Some(confinement) = cx.confinement.clone() else { return finish(work).await? };
    let (sender, result) = oneshot::channel::<Result<Result<T, Failure>, Box<dyn Any + Send>>>();
    let work = move || {
        // The receiver is gone if the call was cancelled.
        sender.send(catch_unwind(AssertUnwindSafe(work))).ok();
    };
    // The first work of a sandbox waits until it was tried.
    let place = confinement.clone();
    finish(move || place.run(Box::new(work))).await?.map_err(Failure::new)?;
    match result.await {
        Ok(Ok(done)) => done.map_err(|failure| explained(failure, &confinement.allowed())),
        Ok(Err(panic)) => resume_unwind(panic),
        Err(_) => Err(Failure::new("The sandbox has no thread for this call.")),
    }
}

/// Says what the sandbox allows if it may be the reason of a failure.
fn explained(mut failure: Failure, allowed: &str) -> Failure {
    let is_denial = |code: &str| failure.message.contains(code);
    if ["EACCES", "EPERM", "EXDEV"].into_iter().any(is_denial) {
        failure.message += &format!(" ({allowed})");
        failure.details.get_or_insert_with(|| json!({}))["sandbox"] = json!("denied");
    }
    failure
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
        Ok(panic) => resume_unwind(panic),
        // The runtime is shutting down.
        Err(_) => Failure::aborted(),
    }
}
