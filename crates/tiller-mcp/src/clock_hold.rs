//! Keeps the clock of a paused runtime still while a server works, so that a test that waits until
//! everything is idle waits for servers too. A paused runtime does not advance its clock while a
//! blocking task is open. Outside of tests there is nothing to hold.

use std::sync::mpsc;
use std::time::Duration;

/// A server that does not answer at all holds the clock for this long of real time.
const HOLD_MAX: Duration = Duration::from_secs(10);

/// Dropping it releases the clock.
pub(crate) struct ClockHold {
    #[expect(dead_code, reason = "the task ends when it is dropped")]
    sender: mpsc::Sender<()>,
}

impl ClockHold {
    /// Must be called inside a runtime if it is enabled.
    pub(crate) fn new(is_enabled: bool) -> Option<ClockHold> {
        is_enabled.then(|| {
            let (sender, released) = mpsc::channel::<()>();
            // Fails when the hold is dropped.
            tokio::task::spawn_blocking(move || released.recv_timeout(HOLD_MAX).ok());
            ClockHold { sender }
        })
    }
}
