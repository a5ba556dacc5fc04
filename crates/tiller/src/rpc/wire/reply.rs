//! The data of a response.

use serde::Serialize;
use serde_json::value::RawValue;

/// The command that a response belongs to.
#[derive(Clone, Debug)]
pub struct Label {
    pub(crate) id: Option<Box<RawValue>>,
    pub(crate) command: &'static str,
}

/// The data of a successful response as JSON text, or nothing.
#[derive(Debug)]
pub struct Reply(Option<Vec<u8>>);

impl Reply {
    pub(crate) const DONE: Reply = Reply(None);

    pub(crate) fn data(data: &impl Serialize) -> Reply {
        Reply(Some(serde_json::to_vec(data).expect("our own shapes can be written")))
    }

    /// Data that is JSON text already.
    pub(crate) fn text(data: Vec<u8>) -> Reply {
        Reply(Some(data))
    }

    pub(super) fn into_json(self) -> Option<Vec<u8>> {
        self.0
    }
}

/// What happened to a `prompt`, `steer` or `follow_up`.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Disposition {
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
