//! `abort` and `abort_and_prompt`: stop the current run.

use tiller_agent::message::Block;

use super::done;
use crate::rpc::deferred::Deferred;
use crate::rpc::dispatch::{Handled, Response};
use crate::rpc::state::SessionState;
use crate::rpc::wire::Label;

pub(crate) fn abort(state: &mut SessionState, label: &Label) -> Handled {
    if !state.is_occupied() {
        return done();
    }
    state.defer(Deferred::Answer(label.clone()));
    Ok(Response::Later)
}

pub(crate) fn abort_and_prompt(
    state: &mut SessionState,
    label: &Label,
    text: String,
    images: Vec<Block>,
) -> Handled {
    state.check_can_start()?;
    state.refuse_extension_command(&text)?;
    let message = Box::new(state.user_message(text, images)?);
    state.defer(Deferred::Prompt { label: label.clone(), message });
    Ok(Response::Later)
}
