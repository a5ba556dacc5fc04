//! The session itself: its name, and a fresh one.

use tiller_agent::event::Event;

use super::done;
use crate::rpc::dispatch::{Answer, Handled};
use crate::rpc::state::{AfterRun, State};
use crate::rpc::wire::Label;

pub(crate) fn set_name(state: &mut State, name: &str) -> Handled {
    let name = one_line(name.trim());
    if name.is_empty() {
        return Err("Session name cannot be empty".to_owned());
    }
    state.conversation.name = Some(name.clone());
    state.emit(Event::SessionInfoChanged { name: Some(name) });
    done()
}

pub(crate) fn new_session(state: &mut State, label: &Label, parent: Option<String>) -> Handled {
    let parent = parent.filter(|path| !path.is_empty());
    state.after_run(AfterRun::NewSession { label: label.clone(), parent });
    Ok(Answer::Later)
}

/// Line ends become one space each, however many stand together: names are shown in lists.
pub(crate) fn one_line(name: &str) -> String {
    name.split(['\r', '\n']).filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}
