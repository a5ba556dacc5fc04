//! `bash` and `abort_bash`: shell commands of the client.

use tiller_protocol::{Label, Level};

use super::done;
use crate::client_bash;
use crate::dispatch::{Handled, Response};
use crate::state::SessionState;

pub(crate) fn bash(
    state: &mut SessionState,
    level: Level,
    label: &Label,
    command: String,
    hidden: bool,
) -> Handled {
    if command.trim().is_empty() {
        return Err(
            "Invalid command \"bash\": field `command`: expected a shell command".to_owned()
        );
    }
    client_bash::start_bash(state, level, label.clone(), command, hidden);
    Ok(Response::Later)
}

pub(crate) fn abort_bash(state: &mut SessionState) -> Handled {
    state.client_bash.abort_all();
    done()
}
