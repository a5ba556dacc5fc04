//! What a power failure may cost.
//!
//! Every entry is with the operating system before anybody hears of it, so ending the process,
//! in whatever way, loses nothing. Whether it is on the disk is a matter of price: a sync takes
//! from a millisecond to many. This is the setting `session.durability`.

use crate::entry::Body;
use tiller_agent::message::Message;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// A failure costs at most the work of the run under way, never what the user said.
    #[default]
    Run,
    /// Nothing that was announced is ever lost.
    Entry,
    /// The operating system decides, as with pi.
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

    /// Whether to sync between appending this and announcing it.
    pub fn syncs_after(self, body: &Body) -> bool {
        match self {
            Durability::Entry => true,
            Durability::Run => {
                matches!(body, Body::Message(message) if matches!(**message, Message::User(_)))
            }
            Durability::Os => false,
        }
    }

    /// Whether to sync when a run has ended, and before letting go of a session.
    pub fn syncs_after_run(self) -> bool {
        self != Durability::Os
    }
}
