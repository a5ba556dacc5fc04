//! The session tree: its entries and the current one.

use tiller_protocol::data::{ForkMessage, ForkMessagesData};
use tiller_protocol::{GetEntries, Label, ListRange, Reply};
use tiller_session::{Error, PageRange, Session};

use super::session::change;
use super::{data, done, page};
use crate::connection::WireFormat;
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

pub(crate) fn get_entries(
    state: &SessionState,
    format: &WireFormat,
    request: &GetEntries,
) -> Handled {
    let GetEntries { since, offset, limit } = request;
    let session = state.session.conversation().session();
    let range = page::range(&ListRange { offset: *offset, limit: *limit }, format);
    let mut text = br#"{"entries":"#.to_vec();
    let written =
        session.write_entries_page(since.as_deref(), range.unwrap_or(PageRange::ALL), &mut text);
    let written = written.map_err(|err| err.to_string())?;
    write_leaf(session, &mut text);
    if range.is_some() {
        page::write_fields(&written, &mut text);
    }
    text.push(b'}');
    Ok(Response::Now(Reply::text(text)))
}

pub(crate) fn get_tree(state: &SessionState) -> Handled {
    let session = state.session.conversation().session();
    let mut text = br#"{"tree":"#.to_vec();
    session.write_tree(&mut text).map_err(|err| err.to_string())?;
    write_leaf(session, &mut text);
    text.push(b'}');
    Ok(Response::Now(Reply::text(text)))
}

/// Writes the current entry behind a list that came straight from the session. The text, in the
/// form of `EntriesData` or `TreeData`, is built once.
fn write_leaf(session: &Session, text: &mut Vec<u8>) {
    text.extend_from_slice(br#","leafId":"#);
    serde_json::to_writer(text, &session.leaf()).expect("writing to a Vec cannot fail");
}
