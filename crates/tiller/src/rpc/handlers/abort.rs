//! `abort` and `abort_and_prompt`: stop what is under way.

use tiller_agent::message::Block;

use super::done;
use super::prompt::{can_start, refuse_commands, user_message};
use crate::rpc::after_run::AfterRun;
use crate::rpc::dispatch::{Answer, Handled};
use crate::rpc::state::State;
use crate::rpc::wire::Label;

pub(crate) fn abort(state: &mut State, label: &Label) -> Handled {
    if !state.is_occupied() {
        return done();
    }
    state.after_run(AfterRun::Answer(label.clone()));
    Ok(Answer::Later)
}

pub(crate) fn abort_and_prompt(
    state: &mut State,
    label: &Label,
    text: String,
    images: Vec<Block>,
) -> Handled {
    can_start(state)?;
    refuse_commands(state, &text)?;
    let message = Box::new(user_message(state, text, images)?);
    state.after_run(AfterRun::Prompt { label: label.clone(), message });
    Ok(Answer::Later)
}
