//! The clock. Messages carry the wall-clock time; tests stop it.

use std::time::{SystemTime, UNIX_EPOCH};

use tiller_agent::message::UnixMs;
use tokio::time::Instant;

/// Where the time of messages and entries comes from.
#[derive(Clone, Copy, Debug)]
pub enum Clock {
    /// The wall clock.
    System,
    /// Starts at a given time and follows the runtime's clock, which a test may pause.
    From { start: UnixMs, since: Instant },
}

impl Clock {
    /// The time now, in milliseconds since 1970.
    pub fn now(&self) -> UnixMs {
        match self {
            Clock::System => {
                let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
                since_1970.map_or(0, |elapsed| elapsed.as_millis() as UnixMs)
            }
            Clock::From { start, since } => start + since.elapsed().as_millis() as UnixMs,
        }
    }
}
