//! `pi.events` across engines. Extensions in the same engine share an emitter; events for other
//! engines go through here, as JSON, without waiting.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard};

use serde_json::json;
use tiller_agent::mutex;

use crate::engine_handle::{Backlogged, EngineSender, HandleState};
use crate::memory::Memory;

/// Which engine has listeners for which channels.
#[derive(Default)]
pub(crate) struct Bus {
    seats: Mutex<Vec<Subscriber>>,
}

struct Subscriber {
    line: EngineSender,
    channels: HashSet<String>,
}

impl Bus {
    /// Adds an engine, or resets the listeners of one that was restarted.
    pub(crate) fn join(&self, line: EngineSender) {
        self.leave(&line.shared);
        self.seats().push(Subscriber { line, channels: HashSet::new() });
    }

    pub(crate) fn leave(&self, engine: &Arc<HandleState>) {
        self.seats().retain(|seat| !seat.is(engine));
    }

    /// Records whether this engine has listeners for a channel.
    pub(crate) fn listen(&self, engine: &Arc<HandleState>, channel: String, listens: bool) {
        if let Some(seat) = self.seats().iter_mut().find(|seat| seat.is(engine)) {
            if listens {
                seat.channels.insert(channel)
            } else {
                seat.channels.remove(&channel)
            };
        }
    }

    /// Whether another engine has a listener.
    pub(crate) fn is_heard(&self, engine: &Arc<HandleState>, channel: &str) -> bool {
        self.seats().iter().any(|seat| seat.hears(engine, channel))
    }

    /// Sends an event to all other engines. An engine with a full backlog misses it; the error says
    /// whether that has to be reported.
    pub(crate) fn tell(
        &self,
        engine: &Arc<HandleState>,
        channel: &str,
        data: Option<&str>,
        backlog_max: usize,
        memory: &Arc<Memory>,
    ) -> Result<(), Backlogged> {
        let channel_json = json!(channel);
        let data = data.map(|data| format!(r#","data":{data}"#)).unwrap_or_default();
        let event = format!(r#"{{"type":"tiller:bus","channel":{channel_json}{data}}}"#);
        let mut told = Ok(());
        for seat in self.seats().iter().filter(|seat| seat.hears(engine, channel)) {
            // Queued events count against the sender's memory, and are dropped when it is full.
            let Ok(hold) = memory.hold(event.len()) else {
                told = Err(Backlogged { is_news: true });
                continue;
            };
            if let Err(behind) = seat.line.emit("events", event.clone(), backlog_max, Some(hold)) {
                told = Err(behind);
            }
        }
        told
    }

    fn seats(&self) -> MutexGuard<'_, Vec<Subscriber>> {
        mutex::lock(&self.seats)
    }
}

impl Subscriber {
    fn is(&self, engine: &Arc<HandleState>) -> bool {
        Arc::ptr_eq(&self.line.shared, engine)
    }

    fn hears(&self, from: &Arc<HandleState>, channel: &str) -> bool {
        !self.is(from) && self.channels.contains(channel)
    }
}
