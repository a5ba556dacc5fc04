//! `get_messages_page`: the conversation in pages, for clients with a limit on the length of a
//! line.

use serde_json::value::to_raw_value;
use tiller_protocol::data::MessagesPageData;
use tiller_protocol::{Json, Level, Message, PageFields};

use super::data;
use crate::dispatch::Handled;
use crate::state::SessionState;

const LIMIT: usize = 100;
const LIMIT_MAX: usize = 256;
/// A page ends before the message that would make it too long, unless it is the first.
const PAGE_MAX_BYTES: usize = 768 << 10;

pub(crate) fn get_messages_page(
    state: &mut SessionState,
    level: Level,
    page: &PageFields,
) -> Handled {
    if state.is_busy() {
        return Err("Cannot page messages while the session is changing".to_owned());
    }
    let limit = page.limit.unwrap_or(LIMIT);
    if !(1..=LIMIT_MAX).contains(&limit) {
        return Err(format!("RPC message page limit must be between 1 and {LIMIT_MAX}"));
    }
    let session = state.session.conversation().id().to_owned();
    let messages = state.session.conversation_mut().messages().map_err(|err| err.to_string())?;
    // A conversation of another length has changed: earlier pages may be wrong.
    let stamp = format!("{}_{session}", messages.len());
    let offset = match page.cursor.as_deref().map(|cursor| offset(cursor, &stamp)) {
        None => 0,
        Some(Some(offset)) if offset <= messages.len() => offset,
        Some(_) => return Err("RPC message cursor is stale".to_owned()),
    };
    let mut shown = Vec::new();
    let mut bytes = 0;
    for message in messages[offset..].iter().take(limit) {
        let text = to_raw_value(&Message::new(message, level)).expect("a message can be written");
        bytes += text.get().len();
        if bytes > PAGE_MAX_BYTES && !shown.is_empty() {
            break;
        }
        shown.push(Json::from(text));
    }
    let next = offset + shown.len();
    let next_cursor = (next < messages.len()).then(|| format!("{next}_{stamp}"));
    data(&MessagesPageData { messages: shown, next_cursor, total_messages: messages.len() })
}

/// Where a cursor points in this conversation.
fn offset(cursor: &str, stamp: &str) -> Option<usize> {
    let (offset, of) = cursor.split_once('_')?;
    (of == stamp).then(|| offset.parse().ok()).flatten()
}
