//! Storing messages, also when a write fails: the client gets no message that is not stored, and
//! each stored tool call gets its result.

use std::sync::Arc;

use tiller_agent::driver::NotStored;
use tiller_agent::event::Event;
use tiller_agent::message::Message;
use tiller_session::Error;

use super::state::SessionState;

impl SessionState {
    /// Appends a message. If the write fails, the client is told and the conversation stays as it
    /// is on disk.
    pub(super) fn append_message(&mut self, message: Arc<Message>) -> Result<(), NotStored> {
        let now = self.clock.now();
        self.conversation.push(message, now).map_err(|err| self.not_stored(&err))
    }

    fn not_stored(&mut self, err: &Error) -> NotStored {
        let error = err.to_string();
        self.emit(Event::SessionError { error: error.clone() });
        NotStored(error)
    }

    /// The same for a message of a run, which ends if the write fails. A stored tool call must have
    /// its result, so a result that cannot be stored now is stored later.
    pub(super) fn store(&mut self, message: Arc<Message>) -> Result<(), NotStored> {
        let owes = self.conversation.owes().map(|why| NotStored(why.to_owned()));
        let failed = self.run.as_ref().and_then(|run| run.not_stored.clone());
        if let Some(why) = failed.or(owes) {
            // For earlier results the error was reported.
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
                // The line is in the file, only the sync failed.
                Error::NotSynced { .. } => self.conversation.owe_results_of(&message, &why.0, now),
                _ => self.conversation.owe(message, &why.0),
            }
            if let Some(run) = &mut self.run {
                run.not_stored = Some(why.clone());
            }
            // This abort was not requested by the client.
            let abort_requested = self.abort_requested;
            self.abort();
            self.abort_requested = abort_requested;
            why
        })
    }

    /// Stores results that earlier writes failed to store.
    pub(super) fn store_owed(&mut self) -> Result<(), NotStored> {
        let now = self.clock.now();
        let stored = self.conversation.store_owed(now);
        self.emit_stored_late();
        stored.map_err(|err| NotStored(err.to_string()))
    }

    /// Emits results that were stored after their run, outside of any run.
    pub(super) fn emit_stored_late(&mut self) {
        if self.run.is_some() {
            return;
        }
        for message in self.conversation.take_stored_late() {
            self.emit(Event::MessageStart { message: message.clone(), ticket: None });
            self.emit(Event::MessageEnd { message });
        }
    }
}
