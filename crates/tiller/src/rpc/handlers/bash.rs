//! `bash` and `abort_bash`: commands the client runs itself.

use super::done;
use crate::rpc::dispatch::{Answer, Handled};
use crate::rpc::state::State;
use crate::rpc::wire::Label;

pub(crate) fn bash(state: &mut State, label: &Label, command: String, hidden: bool) -> Handled {
    if command.trim().is_empty() {
        return Err(
            "Invalid command \"bash\": field `command`: expected a shell command".to_owned()
        );
    }
    state.start_bash(label.clone(), command, hidden);
    Ok(Answer::Later)
}

pub(crate) fn abort_bash(state: &mut State) -> Handled {
    state.commands.abort_all();
    done()
}
