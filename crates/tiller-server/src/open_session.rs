//! The open session: its conversation, and the store it comes from.

use tiller_agent::message::UnixMs;
use tiller_session::{Body, Error, NewSession, Session, SessionId, Storage};

use crate::conversation::Conversation;
use crate::session_store::SessionStore;

pub(crate) struct OpenSession {
    conversation: Conversation,
    store: SessionStore,
}

impl OpenSession {
    pub(super) fn new(conversation: Conversation, store: SessionStore) -> OpenSession {
        OpenSession { conversation, store }
    }

    pub(crate) fn conversation(&self) -> &Conversation {
        &self.conversation
    }

    pub(crate) fn conversation_mut(&mut self) -> &mut Conversation {
        &mut self.conversation
    }

    pub(crate) fn store(&self) -> &SessionStore {
        &self.store
    }

    /// Where a session that follows this one is stored.
    pub(super) fn storage_beside(&self) -> Storage {
        self.store.storage_beside(self.conversation.session())
    }

    /// A new, empty session that would follow this one.
    pub(super) fn successor(
        &self,
        cwd: std::path::PathBuf,
        parent_session: Option<String>,
        now: UnixMs,
    ) -> Session {
        let new = NewSession { id: SessionId::fresh(), cwd, parent_session, now };
        Session::new(new, self.storage_beside())
    }

    /// Opens another session. Returns the file of the one before.
    pub(super) fn replace(&mut self, conversation: Conversation) -> Option<String> {
        let previous = self.conversation.file().map(|file| file.display().to_string());
        self.conversation = conversation;
        previous
    }

    /// Appends an entry to a new session, without an event.
    pub(super) fn append_setup_entry(&mut self, body: Body, now: UnixMs) -> Result<(), Error> {
        match body {
            Body::Message(message) => self.conversation.push(message, now),
            Body::SessionInfo { name } => self.conversation.set_name(&name, now).map(|_| ()),
            body => self.conversation.record(body, now).map(|_| ()),
        }
    }
}
