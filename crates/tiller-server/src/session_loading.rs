//! The session that a change leads to: new, stored, forked or cloned. Small ones are made at once;
//! reading or writing a whole file happens on another thread, while the server goes on.

use std::path::Path;

use tiller_agent::message::UnixMs;
use tiller_js::event::StartReason;
use tiller_session::{Body, Error, Forked, Session, SessionId};

use crate::session_change::SessionChange;
use crate::session_store::SessionStore;
use crate::state::SessionState;
use crate::tree_navigation::Navigation;

/// The session to change to.
pub struct LoadedSession {
    pub(crate) session: Session,
    /// The reason in `session_start`.
    pub(crate) reason: StartReason,
    /// The text of the message that was forked from.
    pub(crate) text: Option<String>,
    /// The entries that it starts with.
    pub(crate) setup: Vec<Body>,
}

impl LoadedSession {
    fn new(session: Session, reason: StartReason) -> LoadedSession {
        LoadedSession { session, reason, text: None, setup: Vec::new() }
    }
}

/// What a session change does.
pub(super) enum ChangePlan {
    /// The session is open already.
    Stay,
    Navigate(Navigation),
    /// The session is there, or cannot be.
    Open(Result<Box<LoadedSession>, String>),
    /// The session is loaded on another thread.
    Load(Box<dyn FnOnce() -> Result<LoadedSession, String> + Send>),
}

/// Decides how the session of a change is reached.
pub(super) fn plan(state: &SessionState, change: SessionChange) -> ChangePlan {
    match change {
        SessionChange::New { parent, setup } => {
            let cwd = state.workspace.cwd().to_owned();
            let session = state.session.successor(cwd, parent, state.clock.now());
            let other = LoadedSession { setup, ..LoadedSession::new(session, StartReason::New) };
            ChangePlan::Open(Ok(Box::new(other)))
        }
        SessionChange::Navigate(navigation) => ChangePlan::Navigate(navigation),
        SessionChange::Switch { path } if state.session.conversation().session().is_at(&path) => {
            ChangePlan::Stay
        }
        SessionChange::Switch { path } => {
            let store = state.session.store().clone();
            let cwd = state.workspace.shared_cwd();
            ChangePlan::Load(Box::new(move || open(&store, &path, &cwd)))
        }
        SessionChange::Fork { entry_id } => branch(state, move |session, store, now| {
            let storage = store.storage_beside(session);
            let forked = session.fork(&entry_id, SessionId::fresh(), storage, now)?;
            let Forked { session, text } = forked;
            Ok(LoadedSession { text: Some(text), ..LoadedSession::new(session, StartReason::Fork) })
        }),
        SessionChange::ForkAt { entry_id } => branch(state, move |session, store, now| {
            let storage = store.storage_beside(session);
            let session = session.fork_at(&entry_id, SessionId::fresh(), storage, now)?;
            Ok(LoadedSession::new(session, StartReason::Fork))
        }),
        SessionChange::Clone => branch(state, |session, store, now| {
            let storage = store.storage_beside(session);
            let session = session.clone_at_leaf(SessionId::fresh(), storage, now)?;
            Ok(LoadedSession::new(session, StartReason::Fork))
        }),
    }
}

/// A new session out of the open one. Entries that are stored are read from the store.
fn branch(
    state: &SessionState,
    make: impl FnOnce(&Session, &SessionStore, UnixMs) -> Result<LoadedSession, Error> + Send + 'static,
) -> ChangePlan {
    let store = state.session.store().clone();
    let now = state.clock.now();
    let session = state.session.conversation().session();
    match session.path().filter(|_| session.is_stored()).map(Path::to_owned) {
        Some(path) => ChangePlan::Load(Box::new(move || {
            let source = store.store.open_read_only(&path).map_err(|err| err.to_string())?;
            make(&source, &store, now).map_err(|err| err.to_string())
        })),
        None => {
            let made = make(session, &store, now);
            ChangePlan::Open(made.map(Box::new).map_err(|err| err.to_string()))
        }
    }
}

/// Opens a stored session, unless its folder is gone.
fn open(store: &SessionStore, path: &Path, cwd: &Path) -> Result<LoadedSession, String> {
    let session = store.store.open(path).map_err(|err| err.to_string())?;
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
