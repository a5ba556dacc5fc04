//! Work beside the server, and the ways its results come back.
//!
//! [`Tasks`] runs work and sends its result to the server as an [`Input`]. [`Responder`] is the
//! way back: the server's one response to a task that waits. On both sides the other end may be
//! gone, because the process is ending or the task was cancelled; the value is dropped then.

use std::time::Duration;

use tiller_agent::event::Event;
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::run_host::RunRequest;
use crate::server::Input;

/// Runs work and sends its result to the server.
#[derive(Clone)]
pub(crate) struct Tasks {
    inputs: mpsc::Sender<Input>,
}

/// A delayed input. Dropping this cancels it.
pub(crate) struct Pause(#[expect(dead_code, reason = "cancels when dropped")] DropGuard);

impl Tasks {
    pub(crate) fn new(inputs: mpsc::Sender<Input>) -> Tasks {
        Tasks { inputs }
    }

    pub(crate) fn sender(&self) -> mpsc::Sender<Input> {
        self.inputs.clone()
    }

    /// Sends an input. Inputs for a server that has ended are dropped.
    pub(crate) async fn send(&self, input: impl Into<Input>) {
        self.inputs.send(input.into()).await.ok();
    }

    /// Sends an input from a thread that may block.
    pub(crate) fn send_blocking(&self, input: impl Into<Input>) {
        self.inputs.blocking_send(input.into()).ok();
    }

    /// Sends an input that is handled after the one the server is handling now.
    pub(crate) fn send_soon(&self, input: Input) {
        self.spawn(async move { input });
    }

    /// Sends a piece of output, and waits until the client can take more.
    pub(crate) async fn send_output(&self, event: Event) {
        let (responder, written) = Responder::channel();
        self.send(Input::Event(event)).await;
        self.send(Input::RunRequest(RunRequest::Throttle(responder))).await;
        written.await.ok();
    }

    /// The same from a thread that may block.
    pub(crate) fn send_output_blocking(&self, event: Event) {
        let (responder, written) = Responder::channel();
        self.send_blocking(Input::Event(event));
        self.send_blocking(Input::RunRequest(RunRequest::Throttle(responder)));
        written.blocking_recv().ok();
    }

    /// Sends what `work` returns.
    pub(crate) fn spawn<I: Into<Input>>(&self, work: impl Future<Output = I> + Send + 'static) {
        let tasks = self.clone();
        tokio::spawn(async move {
            let input = work.await.into();
            tasks.send(input).await;
        });
    }

    /// Sends what `work` returns, or the text of its panic. Returns a handle that aborts it.
    pub(crate) fn spawn_catching<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
        then: impl FnOnce(Result<T, String>) -> Input + Send + 'static,
    ) -> AbortHandle {
        let task = tokio::spawn(work);
        let abort = task.abort_handle();
        self.spawn(async move { then(task.await.map_err(|crash| crash.to_string())) });
        abort
    }

    /// Sends what `work` returns on a thread that may block, or the text of its panic.
    pub(crate) fn spawn_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
        then: impl FnOnce(Result<T, String>) -> Input + Send + 'static,
    ) {
        let task = tokio::task::spawn_blocking(work);
        self.spawn(async move { then(task.await.map_err(|crash| crash.to_string())) });
    }

    /// Sends an input after a delay.
    pub(crate) fn after(&self, delay: Duration, input: Input) -> Pause {
        let cancel = CancellationToken::new();
        let pause = Pause(cancel.clone().drop_guard());
        let tasks = self.clone();
        tokio::spawn(async move {
            let due = async {
                tokio::time::sleep(delay).await;
                tasks.send(input).await;
            };
            cancel.run_until_cancelled(due).await;
        });
        pause
    }
}

/// Where a task waits for one value from the server.
pub struct Responder<T>(oneshot::Sender<T>);

impl<T> Responder<T> {
    pub(crate) fn channel() -> (Responder<T>, oneshot::Receiver<T>) {
        let (sender, receiver) = oneshot::channel();
        (Responder(sender), receiver)
    }

    /// Sends the value. A task that no longer waits does not get it.
    pub(crate) fn respond(self, value: T) {
        self.0.send(value).ok();
    }

    /// Resolves when the task no longer waits.
    pub(crate) async fn closed(&mut self) {
        self.0.closed().await;
    }
}

impl<T: Send + 'static> Responder<T> {
    /// Sends what `work` returns.
    pub(crate) fn respond_from(self, work: impl Future<Output = T> + Send + 'static) {
        tokio::spawn(async move { self.respond(work.await) });
    }
}
