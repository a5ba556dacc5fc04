//! Storing messages, also when a write fails: the client gets no message that is not stored, and
//! each stored tool call gets its result.

use std::sync::Arc;

use tiller_agent::driver::NotStored;
use tiller_agent::event::Event;
use tiller_agent::message::Message;
use tiller_session::Error;

use super::run;
use crate::state::SessionState;

/// Appends a message. If the write fails, the client gets an error and the conversation stays as it
/// is on disk.
pub(crate) fn append_message(
    state: &mut SessionState,
    message: Arc<Message>,
) -> Result<(), NotStored> {
    let now = state.clock.now();
    state.session.conversation_mut().push(message, now).map_err(|err| not_stored(state, &err))
}

fn not_stored(state: &mut SessionState, err: &Error) -> NotStored {
    let error = err.to_string();
    state.emit(Event::SessionError { error: error.clone() });
    NotStored(error)
}

/// The same for a message of a run, which ends if the write fails. A stored tool call must have
/// its result, so a result that cannot be stored now is stored later.
pub(super) fn store(state: &mut SessionState, message: Arc<Message>) -> Result<(), NotStored> {
    let owes = state.session.conversation().owes().map(|why| NotStored(why.to_owned()));
    let failed = state.work.run().and_then(|run| run.not_stored.clone());
    if let Some(why) = failed.or(owes) {
        // For earlier results the error was reported.
        if !matches!(*message, Message::ToolResult(_)) {
            state.emit(Event::SessionError { error: why.0.clone() });
        }
        state.session.conversation_mut().owe(message, &why.0);
        return Err(why);
    }
    let now = state.clock.now();
    state.session.conversation_mut().push(message.clone(), now).map_err(|err| {
        let why = not_stored(state, &err);
        match err {
            // The line is in the file, only the sync failed.
            Error::NotSynced { .. } => {
                state.session.conversation_mut().owe_results_of(&message, &why.0, now)
            }
            _ => state.session.conversation_mut().owe(message, &why.0),
        }
        if let Some(run) = state.work.run_mut() {
            run.not_stored = Some(why.clone());
        }
        // This abort was not requested by the client.
        let abort_requested = state.work.abort_requested;
        run::abort(state);
        state.work.abort_requested = abort_requested;
        why
    })
}

/// Stores results that earlier writes failed to store.
pub(super) fn store_owed(state: &mut SessionState) -> Result<(), NotStored> {
    let now = state.clock.now();
    let stored = state.session.conversation_mut().store_owed(now);
    emit_stored_late(state);
    stored.map_err(|err| NotStored(err.to_string()))
}

/// Emits results that were stored after their run, outside of any run.
pub(crate) fn emit_stored_late(state: &mut SessionState) {
    if state.work.is_running() {
        return;
    }
    for message in state.session.conversation_mut().take_stored_late() {
        state.emit(Event::message_start(message.clone(), None));
        state.emit(Event::MessageEnd { message });
    }
}
