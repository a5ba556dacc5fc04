//! The conversation that is open: who it is, and what was said in it.

use std::sync::Arc;

use tiller_agent::message::Message;
use uuid::Uuid;

/// A conversation in memory.
pub(crate) struct Conversation {
    id: String,
    pub(crate) name: Option<String>,
    /// Where it was branched from, as its creator said.
    #[expect(dead_code, reason = "written to the header once sessions are kept on disk")]
    parent: Option<String>,
    messages: Vec<Arc<Message>>,
}

impl Conversation {
    pub(crate) fn new(id: String, parent: Option<String>) -> Conversation {
        Conversation { id, name: None, parent, messages: Vec::new() }
    }

    /// An id that nobody has, and that sorts by time.
    pub(crate) fn new_id() -> String {
        Uuid::now_v7().to_string()
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    pub(crate) fn messages(&self) -> &[Arc<Message>] {
        &self.messages
    }

    pub(crate) fn push(&mut self, message: Arc<Message>) {
        self.messages.push(message);
    }
}
