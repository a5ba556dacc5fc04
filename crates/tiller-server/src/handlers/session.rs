//! Session commands: the name, and changes to another session.

use std::path::{Path, PathBuf};

use tiller_agent::event::Event;
use tiller_protocol::data::{SessionSummary, SessionsData};
use tiller_protocol::{Label, ListSessions, Reply};
use tiller_session::list::{Cursor, ListQuery, SessionInfo};
use tiller_session::{Error, Store};

use super::done;
use crate::dispatch::{Handled, Response};
use crate::requester::Requester;
use crate::session_change::{self, SessionChange};
use crate::state::SessionState;

pub(crate) fn set_name(state: &mut SessionState, name: &str) -> Handled {
    let now = state.clock.now();
    let name =
        state.session.conversation_mut().set_name(name, now).map_err(|err| err.to_string())?;
    state.emit(Event::SessionInfoChanged { name: Some(name) });
    done()
}

pub(crate) fn new_session(
    state: &mut SessionState,
    label: &Label,
    parent: Option<String>,
) -> Handled {
    let parent = parent.filter(|path| !path.is_empty());
    change(state, label, SessionChange::New { parent, setup: Vec::new() })
}

pub(crate) fn switch(state: &mut SessionState, label: &Label, path: PathBuf) -> Handled {
    change(state, label, SessionChange::Switch { path: stored_at(state, &path)? })
}

/// The location of the session to change to. A missing file is refused before the current run is
/// closed.
pub(crate) fn stored_at(state: &SessionState, named: &Path) -> Result<PathBuf, String> {
    let store = &state.session.store().store;
    let location = store.location(named, state.workspace.cwd());
    if !store.may_have(&location) {
        return Err(Error::NotFound(location).to_string());
    }
    Ok(location)
}

pub(crate) fn fork(state: &mut SessionState, label: &Label, entry_id: String) -> Handled {
    if !state.session.conversation().session().contains(&entry_id) {
        let what = if label.command == "branch" { "branching" } else { "forking" };
        return Err(format!("Invalid entry ID for {what}"));
    }
    change(state, label, SessionChange::Fork { entry_id })
}

pub(crate) fn clone(state: &mut SessionState, label: &Label) -> Handled {
    if state.session.conversation().session().holds_only_choices() {
        return Err("Cannot clone session: no current entry selected".to_owned());
    }
    change(state, label, SessionChange::Clone)
}

pub(super) fn change(state: &mut SessionState, label: &Label, change: SessionChange) -> Handled {
    session_change::request(state, Requester::Client(label.clone()), change);
    Ok(Response::Later)
}

/// How many sessions are listed by default.
const LIST_LIMIT: usize = 100;

pub(crate) fn list(state: &mut SessionState, label: &Label, options: ListSessions) -> Handled {
    let cwd = match (&options.cwd, options.all) {
        (Some(cwd), _) => Some(cwd.clone()),
        (None, true) => None,
        (None, false) => Some(state.workspace.cwd().to_owned()),
    };
    let query = list_query(options, cwd)?;
    let store = state.session.store().store.clone();
    state.respond_from_thread(label.clone(), move || Ok(Reply::data(&listing(&*store, &query)?)));
    Ok(Response::Later)
}

/// What is asked of the list of the sessions of this working directory, or of all.
pub(crate) fn list_query(options: ListSessions, cwd: Option<PathBuf>) -> Result<ListQuery, String> {
    let ListSessions { limit, before, name, search, modified_since, modified_until, .. } = options;
    let before = match before.as_deref().map(Cursor::read) {
        Some(None) => return Err("Invalid command \"list_sessions\": field `before`: expected the `next` of an earlier answer".to_owned()),
        Some(cursor) => cursor,
        None => None,
    };
    let limit = limit.unwrap_or(LIST_LIMIT);
    Ok(ListQuery { cwd, name, text: search, modified_since, modified_until, limit, before })
}

/// Reads the store, so it is called on a thread that may block.
pub(crate) fn listing(store: &dyn Store, query: &ListQuery) -> Result<SessionsData, String> {
    let listing = store.list(query).map_err(|err| err.to_string())?;
    let sessions = listing.sessions.into_iter().map(summary).collect();
    let next = listing.next.map(|cursor| cursor.to_string());
    Ok(SessionsData { sessions, next })
}

fn summary(session: SessionInfo) -> SessionSummary {
    let SessionInfo {
        id,
        path,
        name,
        cwd,
        parent_session,
        created,
        modified,
        message_count,
        first_message,
    } = session;
    SessionSummary {
        id,
        path,
        name,
        cwd,
        parent_session,
        created,
        modified,
        message_count,
        first_message,
    }
}
