//! `abort` and `abort_and_prompt`: stop the current run.

use tiller_agent::message::Block;
use tiller_protocol::Label;

use super::done;
use crate::dispatch::{Handled, Response};
use crate::extensions::commands;
use crate::prompt;
use crate::prompt_results::Origin;
use crate::state::SessionState;
use crate::work::deferred::{self, Deferred};

pub(crate) fn abort(state: &mut SessionState, label: &Label) -> Handled {
    if !state.is_occupied() {
        return done();
    }
    deferred::defer(state, Deferred::Answer(label.clone()));
    Ok(Response::Later)
}

pub(crate) fn abort_and_prompt(
    state: &mut SessionState,
    origin: Origin,
    text: String,
    images: Vec<Block>,
) -> Handled {
    prompt::check_can_start(state)?;
    commands::refuse_extension_command(state, &text)?;
    let message = Box::new(prompt::user_message(state, text, images)?);
    deferred::defer(state, Deferred::Prompt { origin, message });
    Ok(Response::Later)
}
