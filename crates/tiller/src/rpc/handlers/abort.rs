//! `abort` and `abort_and_prompt`: stop what is under way.

use tiller_agent::message::Block;

use super::done;
use super::prompt::{can_start, refuse_commands, user_message};
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
    can_start(state)?;
    refuse_commands(state, &text)?;
    let message = Box::new(user_message(state, text, images)?);
    state.defer(Deferred::Prompt { label: label.clone(), message });
    Ok(Response::Later)
}
