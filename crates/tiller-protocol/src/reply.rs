//! The data of a response.

use serde::Serialize;
use serde_json::value::RawValue;

/// The command that a response belongs to.
#[derive(Clone, Debug)]
pub struct Label {
    pub id: Option<Box<RawValue>>,
    pub command: &'static str,
}

/// The data of a successful response as JSON text, or nothing.
#[derive(Debug)]
pub struct Reply(Option<Vec<u8>>);

impl Reply {
    pub const DONE: Reply = Reply(None);

    pub fn data(data: &impl Serialize) -> Reply {
        Reply(Some(serde_json::to_vec(data).expect("our own shapes can be written")))
    }

    /// Data that is JSON text already.
    pub fn text(data: Vec<u8>) -> Reply {
        Reply(Some(data))
    }

    pub(crate) fn into_json(self) -> Option<Vec<u8>> {
        self.0
    }
}

/// What happened to a `prompt`, `steer` or `follow_up`.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Disposition {
    /// A run starts with it: `agent_start` follows.
    Started,
    /// It waits in a queue.
    Queued,
    /// An extension has handled it. No run follows, and no `agent_settled`.
    Handled,
}

impl From<Disposition> for Reply {
    fn from(disposition: Disposition) -> Reply {
        #[derive(Serialize)]
        struct Data {
            disposition: Disposition,
        }
        Reply::data(&Data { disposition })
    }
}
