//! Storing messages, and what becomes of those that the disk does not take: nothing is told that is
//! not stored, and every call that is stored gets its result.

use std::sync::Arc;

use tiller_agent::driver::NotStored;
use tiller_agent::event::Event;
use tiller_agent::message::Message;
use tiller_session::Error;

use super::state::SessionState;

impl SessionState {
    /// Puts a message into the conversation. If the disk does not take it, the client is told,
    /// and what is in memory is what is on disk.
    pub(super) fn keep(&mut self, message: Arc<Message>) -> Result<(), NotStored> {
        let now = self.clock.now();
        self.conversation.push(message, now).map_err(|err| self.not_stored(&err))
    }

    fn not_stored(&mut self, err: &Error) -> NotStored {
        let error = err.to_string();
        self.emit(Event::SessionError { error: error.clone() });
        NotStored(error)
    }

    /// The same for a message of the run, which ends when the disk does not take it. A call that
    /// is stored must have its result, so a result is stored later if it cannot be stored now.
    pub(super) fn store(&mut self, message: Arc<Message>) -> Result<(), NotStored> {
        let owes = self.conversation.owes().map(|why| NotStored(why.to_owned()));
        let failed = self.run.as_ref().and_then(|run| run.not_stored.clone());
        if let Some(why) = failed.or(owes) {
            // That the results before it were not stored was told.
            if !matches!(*message, Message::ToolResult(_)) {
                self.emit(Event::SessionError { error: why.0.clone() });
            }
            self.conversation.owe(message, &why.0);
            return Err(why);
        }
        let now = self.clock.now();
        self.conversation.push(message.clone(), now).map_err(|err| {
            let why = self.not_stored(&err);
            match err {
                // It is there all the same.
                Error::NotSynced { .. } => self.conversation.owe_results_of(&message, &why.0, now),
                _ => self.conversation.owe(message, &why.0),
            }
            if let Some(run) = &mut self.run {
                run.not_stored = Some(why.clone());
            }
            // The client has not asked for this end.
            let abort_requested = self.abort_requested;
            self.abort();
            self.abort_requested = abort_requested;
            why
        })
    }

    /// Stores the results that are owed, if there are any and the disk takes them now.
    pub(super) fn store_owed(&mut self) -> Result<(), NotStored> {
        let now = self.clock.now();
        let stored = self.conversation.store_owed(now);
        self.tell_stored_late();
        stored.map_err(|err| NotStored(err.to_string()))
    }

    /// Tells of results that were stored after their run, outside of any run.
    pub(super) fn tell_stored_late(&mut self) {
        if self.run.is_some() {
            return;
        }
        for message in self.conversation.take_stored_late() {
            self.emit(Event::MessageStart { message: message.clone(), ticket: None });
            self.emit(Event::MessageEnd { message });
        }
    }
}
