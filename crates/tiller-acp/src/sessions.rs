//! The open sessions of a client, by both of their names.

use std::collections::HashMap;
use std::sync::Arc;

use agent_client_protocol_schema::v1::SessionId;

use crate::session::Session;

/// The sessions by their handles. The client names a session by the id of its stored conversation.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    by_handle: HashMap<Arc<str>, Session>,
    handles: HashMap<SessionId, Arc<str>>,
}

impl Sessions {
    pub(crate) fn add(&mut self, session: Session) {
        self.handles.insert(session.id().clone(), session.handle().clone());
        self.by_handle.insert(session.handle().clone(), session);
    }

    pub(crate) fn remove(&mut self, handle: &str) -> Option<Session> {
        let session = self.by_handle.remove(handle)?;
        // The client may have opened it again.
        if self.handles.get(session.id()).is_some_and(|newest| **newest == *handle) {
            self.handles.remove(session.id());
        }
        Some(session)
    }

    pub(crate) fn by_handle(&mut self, handle: &str) -> Option<&mut Session> {
        self.by_handle.get_mut(handle)
    }

    /// The session that the client names.
    pub(crate) fn by_id(&mut self, id: &SessionId) -> Option<&mut Session> {
        let session = self.by_handle.get_mut(self.handles.get(id)?)?;
        session.is_known().then_some(session)
    }

    /// Whether the session is about to end.
    pub(crate) fn is_closing(&self, id: &SessionId) -> bool {
        let session = self.handles.get(id).and_then(|handle| self.by_handle.get(handle));
        session.is_some_and(Session::is_closing)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Session> {
        self.by_handle.values_mut()
    }
}
