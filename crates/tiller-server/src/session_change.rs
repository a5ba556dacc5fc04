//! A change to another session or entry: its request, the hooks before it, and its response. The
//! steps between are in `transition`.

use std::path::PathBuf;

use serde_json::json;
use tiller_protocol::Reply;
use tiller_protocol::data::ChangeData;
use tiller_session::Body;

use crate::extensions::session_hooks;
use crate::requester::Requester;
use crate::state::SessionState;
use crate::tree_navigation::Navigation;
use crate::work::deferred::{self, Deferred};

/// The target of a session change.
pub enum SessionChange {
    /// A new session with these entries.
    New {
        parent: Option<String>,
        setup: Vec<Body>,
    },
    Switch {
        path: PathBuf,
    },
    /// Before a user message.
    Fork {
        entry_id: String,
    },
    /// After an entry.
    ForkAt {
        entry_id: String,
    },
    Clone,
    /// Another entry of the same session.
    Navigate(Navigation),
}

/// Changes the session when the hooks allow it and nothing runs.
pub(crate) fn request(state: &mut SessionState, requester: Requester, change: SessionChange) {
    match session_hooks::before_change(state, &change) {
        None => deferred::defer(state, Deferred::Change { requester, change }),
        Some(hook) => {
            state.transition.hooks_started(&requester);
            state.tasks.spawn(hook.run(requester, change));
        }
    }
}

/// The hooks have finished.
pub(super) fn hooks_done(
    state: &mut SessionState,
    requester: Requester,
    change: SessionChange,
    is_cancelled: bool,
) {
    state.transition.hooks_ended(&requester);
    if is_cancelled {
        cancel(state, requester, Some(&change));
    } else {
        deferred::defer(state, Deferred::Change { requester, change });
    }
}

/// An extension has cancelled the change.
pub(super) fn cancel(
    state: &mut SessionState,
    requester: Requester,
    change: Option<&SessionChange>,
) {
    let text = match change {
        Some(SessionChange::Fork { entry_id }) => {
            state.session.conversation().session().user_text(entry_id)
        }
        _ => None,
    };
    let reply = || Reply::data(&ChangeData { text, cancelled: true });
    state.respond_to(requester, Ok(()), reply, || json!({ "cancelled": true }));
}

pub(super) fn respond_to_change(
    state: &mut SessionState,
    requester: Requester,
    result: Result<Option<String>, String>,
) {
    // The same error, in the wording of the client's level.
    let is_branch = requester.command() == Some("branch");
    let (result, text) = match result {
        Ok(text) => (Ok(()), text),
        Err(error) if is_branch && error == "Invalid entry ID for forking" => {
            (Err("Invalid entry ID for branching".to_owned()), None)
        }
        Err(error) => (Err(error), None),
    };
    let reply = || Reply::data(&ChangeData { text, cancelled: false });
    state.respond_to(requester, result, reply, || json!({ "cancelled": false }));
}
