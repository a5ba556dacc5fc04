//! The clock. Messages carry the wall-clock time; tests stop it.

use std::time::{SystemTime, UNIX_EPOCH};

use tiller_agent::message::UnixMs;
use tokio::time::Instant;

#[derive(Clone, Copy, Debug)]
pub enum Clock {
    System,
    /// Starts at a given time and follows the runtime's clock, which a test may pause.
    From {
        start: UnixMs,
        since: Instant,
    },
}

impl Clock {
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
