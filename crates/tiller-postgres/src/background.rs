//! The thread that talks to the database, and the way to wait for it.
//!
//! Sessions are synchronous: an append returns when the entry is committed. The thread has a runtime
//! of its own, so a session may wait on any thread.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use tokio::runtime::{Builder, Handle, RuntimeFlavor};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

/// The thread. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Background {
    handle: Handle,
    _end: oneshot::Sender<()>,
}

impl Background {
    pub(crate) fn start() -> std::io::Result<Background> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (end, ended) = oneshot::channel::<()>();
        thread::Builder::new().name("tiller-store".to_owned()).spawn(move || {
            // An error means that the sender was dropped, which is the end, too.
            runtime.block_on(ended).ok();
            runtime.shutdown_background();
        })?;
        Ok(Background { handle, _end: end })
    }

    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        self.handle.spawn(work).abort_handle()
    }

    /// Runs a task on the thread and waits for its result. None: it has panicked.
    pub(crate) fn wait<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        let receiver = self.result_of(work);
        block(|| receiver.recv()).ok()
    }

    /// The same, but not longer than this. The task goes on.
    pub(crate) fn wait_at_most<T: Send + 'static>(
        &self,
        limit: Duration,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        let receiver = self.result_of(work);
        block(|| receiver.recv_timeout(limit)).ok()
    }

    fn result_of<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> mpsc::Receiver<T> {
        let (sender, receiver) = mpsc::sync_channel(1);
        self.handle.spawn(async move {
            // The receiver may have given up.
            sender.send(work.await).ok();
        });
        receiver
    }
}

/// Waits. In a runtime with several threads, the other tasks of this thread go on on another one.
fn block<T>(wait: impl FnOnce() -> T) -> T {
    let is_shared = Handle::try_current()
        .is_ok_and(|current| current.runtime_flavor() == RuntimeFlavor::MultiThread);
    if is_shared { tokio::task::block_in_place(wait) } else { wait() }
}
