//! New, switch, fork and clone. Small steps are taken at once; reading or writing a whole file
//! happens on another thread, while the server goes on.

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::json;
use tiller_agent::event::Event;
use tiller_agent::message::UnixMs;
use tiller_js::event::{Event as ExtensionEvent, ShutdownReason, StartReason};
use tiller_session::{Body, Error, Forked, Session, SessionId};

use super::extensions::session_hooks;
use super::requester::Requester;
use super::state::SessionState;
use super::transition::{self, SessionStart, Transition, TransitionEvent};
use super::tree_navigation::{self, Navigation};
use super::work::deferred::{self, Deferred};
use super::{model_state, project_state};
use crate::conversation::Conversation;
use crate::session_store::SessionStore;
use tiller_protocol::Reply;

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

/// The session to change to.
pub struct LoadedSession {
    session: Session,
    /// The reason in `session_start`.
    reason: StartReason,
    /// The text of the message that was forked from.
    text: Option<String>,
    setup: Vec<Body>,
}

impl LoadedSession {
    fn new(session: Session, reason: StartReason) -> LoadedSession {
        LoadedSession { session, reason, text: None, setup: Vec::new() }
    }
}

/// A session change that is about to be made.
pub struct PendingSwitch {
    requester: Requester,
    conversation: Conversation,
    reason: StartReason,
    text: Option<String>,
    setup: Vec<Body>,
}

#[derive(Serialize)]
struct ChangeData {
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    cancelled: bool,
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

/// Starts a change when nothing runs. The response follows at once or at the end of the
/// transition.
pub(super) fn change(state: &mut SessionState, requester: Requester, change: SessionChange) {
    match change {
        SessionChange::New { parent, setup } => {
            let cwd = state.workspace.cwd().to_owned();
            let session = state.session.successor(cwd, parent, state.clock.now());
            let other = LoadedSession { setup, ..LoadedSession::new(session, StartReason::New) };
            change_to(state, requester, Ok(Box::new(other)));
        }
        SessionChange::Navigate(navigation) => {
            tree_navigation::navigate(state, requester, navigation)
        }
        SessionChange::Switch { path } if state.session.conversation().session().is_at(&path) => {
            state.queues.clear();
            respond_to_change(state, requester, Ok(None));
        }
        SessionChange::Switch { path } => {
            let store = state.session.store().clone();
            let cwd = state.workspace.shared_cwd();
            load_in_background(state, requester, move || open(&store, &path, &cwd));
        }
        SessionChange::Fork { entry_id } => {
            fork_in_background(state, requester, move |session, store, now| {
                let storage = store.storage_beside(session);
                let forked = session.fork(&entry_id, SessionId::fresh(), storage, now)?;
                let Forked { session, text } = forked;
                Ok(LoadedSession {
                    text: Some(text),
                    ..LoadedSession::new(session, StartReason::Fork)
                })
            });
        }
        SessionChange::ForkAt { entry_id } => {
            fork_in_background(state, requester, move |session, store, now| {
                let storage = store.storage_beside(session);
                let session = session.fork_at(&entry_id, SessionId::fresh(), storage, now)?;
                Ok(LoadedSession::new(session, StartReason::Fork))
            })
        }
        SessionChange::Clone => fork_in_background(state, requester, |session, store, now| {
            let storage = store.storage_beside(session);
            let session = session.clone_at_leaf(SessionId::fresh(), storage, now)?;
            Ok(LoadedSession::new(session, StartReason::Fork))
        }),
    }
}

/// Makes a new session out of this one. Entries in a file are read from the file, on another
/// thread.
fn fork_in_background(
    state: &mut SessionState,
    requester: Requester,
    branch: impl FnOnce(&Session, &SessionStore, UnixMs) -> Result<LoadedSession, Error>
    + Send
    + 'static,
) {
    let (store, now) = (state.session.store().clone(), state.clock.now());
    let session = state.session.conversation().session();
    match session.path().filter(|_| session.is_on_disk()).map(Path::to_owned) {
        Some(path) => load_in_background(state, requester, move || {
            let source = Session::open_read_only(&path).map_err(|err| err.to_string())?;
            branch(&source, &store, now).map_err(|err| err.to_string())
        }),
        None => {
            let other = branch(session, &store, now).map_err(|err| err.to_string());
            change_to(state, requester, other.map(Box::new));
        }
    }
}

fn load_in_background(
    state: &mut SessionState,
    requester: Requester,
    work: impl FnOnce() -> Result<LoadedSession, String> + Send + 'static,
) {
    state.transition.begin(Transition::Loading { requester });
    state.tasks.spawn_blocking(work, |result| {
        let crashed = |crash| Err(format!("internal error: {crash}"));
        TransitionEvent::SessionLoaded(result.unwrap_or_else(crashed).map(Box::new)).into()
    });
}

/// The other session is loaded, or cannot be; then this one stays.
pub(super) fn change_to(
    state: &mut SessionState,
    requester: Requester,
    result: Result<Box<LoadedSession>, String>,
) {
    let durability = state.project.settings().session.durability;
    let resumed = result.and_then(|other| {
        let LoadedSession { session, reason, text, setup } = *other;
        let conversation = Conversation::resume(session, durability, state.clock.now());
        Ok((conversation.map_err(|err| err.to_string())?, reason, text, setup))
    });
    match resumed {
        Ok((conversation, reason, text, setup)) => {
            let switch = PendingSwitch { requester, conversation, reason, text, setup };
            announce_shutdown(state, switch);
        }
        Err(error) => respond_to_change(state, requester, Err(error)),
    }
}

/// Sends `session_shutdown` while the old session is still there.
fn announce_shutdown(state: &mut SessionState, switch: PendingSwitch) {
    let host = state.extensions.listening_host("session_shutdown");
    let Some(host) = host.cloned() else { return finish_switch(state, switch) };
    let reason = match switch.reason {
        StartReason::New => ShutdownReason::New,
        StartReason::Fork => ShutdownReason::Fork,
        StartReason::Reload => ShutdownReason::Reload,
        StartReason::Resume | StartReason::Startup => ShutdownReason::Resume,
    };
    let target_session_file = switch.conversation.file().map(|file| file.display().to_string());
    state.transition.begin(Transition::ShuttingDown(Box::new(switch)));
    state.tasks.spawn(async move {
        host.emit_and_wait(&ExtensionEvent::SessionShutdown { reason, target_session_file }).await;
        TransitionEvent::ShutdownAnnounced
    });
}

/// Replaces the session. Extensions follow it.
pub(super) fn finish_switch(state: &mut SessionState, switch: PendingSwitch) {
    let PendingSwitch { requester, conversation, reason, text, setup } = switch;
    let is_new = conversation.session().is_empty();
    let problems = conversation.session().problems();
    let is_other_folder = project_state::set_cwd(state, conversation.cwd());
    // Commands that the client ran there are not appended to another session.
    state.client_bash.abort_all();
    state.project.add_diagnostics(problems.iter().map(ToString::to_string));
    let previous = state.session.replace(conversation);
    state.queues.forget();
    state.todos.forget();
    if reason == StartReason::New {
        model_state::select_for_new_session(state);
    }
    if is_new {
        model_state::append_choices(state);
    } else {
        model_state::restore(state);
    }
    for body in setup {
        if let Err(err) = state.session.append_setup_entry(body, state.clock.now()) {
            state.emit(Event::SessionError { error: err.to_string() });
        }
    }
    let start = SessionStart { reason, previous };
    transition::follow_session(state, start, is_other_folder, requester, text);
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

/// Opens a stored session, unless its folder is gone.
fn open(store: &SessionStore, path: &Path, cwd: &Path) -> Result<LoadedSession, String> {
    let session = store.open(path).map_err(|err| err.to_string())?;
    if !session.cwd().is_dir() {
        return Err(format!(
            "Stored session working directory does not exist: {}\nSession file: {}\nCurrent \
             working directory: {}",
            session.cwd().display(),
            path.display(),
            cwd.display(),
        ));
    }
    Ok(LoadedSession::new(session, StartReason::Resume))
}
