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
    subscribers: Mutex<Vec<Subscriber>>,
}

struct Subscriber {
    sender: EngineSender,
    channels: HashSet<String>,
}

impl Bus {
    /// Adds an engine, or resets the listeners of one that was restarted.
    pub(crate) fn join(&self, sender: EngineSender) {
        self.leave(&sender.shared);
        self.subscribers().push(Subscriber { sender, channels: HashSet::new() });
    }

    pub(crate) fn leave(&self, engine: &Arc<HandleState>) {
        self.subscribers().retain(|subscriber| !subscriber.is(engine));
    }

    /// Records whether this engine has listeners for a channel.
    pub(crate) fn listen(&self, engine: &Arc<HandleState>, channel: String, listens: bool) {
        if let Some(subscriber) =
            self.subscribers().iter_mut().find(|subscriber| subscriber.is(engine))
        {
            if listens {
                subscriber.channels.insert(channel)
            } else {
                subscriber.channels.remove(&channel)
            };
        }
    }

    /// Whether another engine has a listener.
    pub(crate) fn has_listener(&self, engine: &Arc<HandleState>, channel: &str) -> bool {
        self.subscribers().iter().any(|subscriber| subscriber.listens_to(engine, channel))
    }

    /// Sends an event to all other engines. An engine with a full backlog misses it; the error says
    /// whether that has to be reported.
    pub(crate) fn emit(
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
        let mut sent = Ok(());
        for subscriber in
            self.subscribers().iter().filter(|subscriber| subscriber.listens_to(engine, channel))
        {
            // Queued events count against the sender's memory, and are dropped when it is full.
            let Ok(hold) = memory.hold(event.len()) else {
                sent = Err(Backlogged { is_first: true });
                continue;
            };
            if let Err(backlogged) =
                subscriber.sender.emit("events", event.clone(), backlog_max, Some(hold))
            {
                sent = Err(backlogged);
            }
        }
        sent
    }

    fn subscribers(&self) -> MutexGuard<'_, Vec<Subscriber>> {
        mutex::lock(&self.subscribers)
    }
}

impl Subscriber {
    fn is(&self, engine: &Arc<HandleState>) -> bool {
        Arc::ptr_eq(&self.sender.shared, engine)
    }

    fn listens_to(&self, from: &Arc<HandleState>, channel: &str) -> bool {
        !self.is(from) && self.channels.contains(channel)
    }
}
