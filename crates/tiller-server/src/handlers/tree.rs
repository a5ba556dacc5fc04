//! The session tree: its entries and the current one.

use tiller_protocol::data::{ForkMessage, ForkMessagesData};
use tiller_protocol::{Label, Reply};
use tiller_session::{Error, Session};

use super::session::change;
use super::{data, done};
use crate::dispatch::{Handled, Response};
use crate::session_change::SessionChange;
use crate::state::SessionState;
use crate::tree_navigation::Navigation;

pub(crate) fn navigate(state: &mut SessionState, label: &Label, entry_id: String) -> Handled {
    if !state.session.conversation().session().contains(&entry_id) {
        return Err(Error::EntryNotFound(entry_id).to_string());
    }
    let navigation = Navigation { target: entry_id, resend: false, options: Default::default() };
    change(state, label, SessionChange::Navigate(navigation))
}

pub(crate) fn set_label(
    state: &mut SessionState,
    entry_id: &str,
    label: Option<String>,
) -> Handled {
    let now = state.clock.now();
    let labelled = state.session.conversation_mut().set_label(entry_id, label.as_deref(), now);
    labelled.map_err(|err| err.to_string())?;
    done()
}

pub(crate) fn get_fork_messages(state: &SessionState) -> Handled {
    let messages = state.session.conversation().session().fork_messages();
    let messages = messages.map_err(|err| err.to_string())?.into_iter();
    let messages = messages
        .map(|tiller_session::ForkMessage { entry_id, text }| ForkMessage { entry_id, text });
    data(&ForkMessagesData { messages: messages.collect() })
}

pub(crate) fn get_entries(state: &SessionState, since: Option<&str>) -> Handled {
    let session = state.session.conversation().session();
    with_leaf(session, "entries", |out| session.write_entries(since, out))
}

pub(crate) fn get_tree(state: &SessionState) -> Handled {
    let session = state.session.conversation().session();
    with_leaf(session, "tree", |out| session.write_tree(out))
}

/// A list straight from the session, and the current entry, as `EntriesData` and `TreeData` have
/// them. The text is built once.
fn with_leaf(
    session: &Session,
    name: &str,
    write: impl FnOnce(&mut Vec<u8>) -> Result<(), Error>,
) -> Handled {
    let mut text = format!("{{\"{name}\":").into_bytes();
    write(&mut text).map_err(|err| err.to_string())?;
    text.extend_from_slice(br#","leafId":"#);
    let leaf = serde_json::to_writer(&mut text, &session.leaf());
    leaf.expect("writing to a Vec cannot fail");
    text.push(b'}');
    Ok(Response::Now(Reply::text(text)))
}
