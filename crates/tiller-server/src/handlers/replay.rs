//! `get_events` and `get_record`: records that the connection keeps.

use tiller_protocol::{GetEvents, GetRecord, Label};

use crate::dispatch::{Handled, Response};
use crate::state::SessionState;

/// The connection answers, because it has the records.
pub(crate) fn get_events(state: &mut SessionState, label: &Label, request: GetEvents) -> Handled {
    state.outbox.events(label.clone(), request);
    Ok(Response::Later)
}

/// The connection answers, because it has the record.
pub(crate) fn get_record(state: &mut SessionState, label: &Label, request: GetRecord) -> Handled {
    state.outbox.record_piece(label.clone(), request);
    Ok(Response::Later)
}
