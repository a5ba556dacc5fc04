//! How much a power failure may lose.
//!
//! Every entry is handed to the operating system before it is announced, so killing the process
//! loses nothing. Whether it is also on the disk has a price: a sync takes from one to many
//! milliseconds. This is the setting `session.durability`.

use crate::entry::Body;
use tiller_agent::message::Message;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// Loses at most the work of the current run, never a user message.
    #[default]
    Run,
    /// Loses nothing that was announced.
    Entry,
    /// The operating system decides when to write, as with pi.
    Os,
}

impl Durability {
    pub fn read(name: &str) -> Option<Durability> {
        match name {
            "run" => Some(Durability::Run),
            "entry" => Some(Durability::Entry),
            "os" => Some(Durability::Os),
            _ => None,
        }
    }

    /// Whether to sync after appending this entry and before announcing it.
    pub fn syncs_after(self, body: &Body) -> bool {
        match self {
            Durability::Entry => true,
            Durability::Run => {
                matches!(body, Body::Message(message) if matches!(**message, Message::User(_)))
            }
            Durability::Os => false,
        }
    }

    /// Whether to sync after a run and before closing a session.
    pub fn syncs_after_run(self) -> bool {
        self != Durability::Os
    }
}
