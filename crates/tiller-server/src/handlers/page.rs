//! Lists in pages, for clients with a limit on the length of a line: `offset` and `limit` of the
//! commands that have them, and `get_messages_page`, which has a cursor.

use std::io::Write;

use serde::Serialize;
use serde_json::value::to_raw_value;
use tiller_protocol::data::MessagesPageData;
use tiller_protocol::{Json, Level, ListRange, Message, PageFields};
use tiller_session::{Page, PageRange, PageSpace};

use super::data;
use crate::connection::WireFormat;
use crate::dispatch::Handled;
use crate::state::SessionState;

const LIMIT: usize = 100;
const LIMIT_MAX: usize = 256;
const PAGE_MAX_BYTES: usize = 768 << 10;

/// What a line has besides its list: the fields of the response, of `data` and of the record.
const FRAME_OVERHEAD_BYTES: usize = 1 << 10;

/// The page that a command wants. None: the whole list, in a response without the fields of a page.
pub(super) fn range(wanted: &ListRange, format: &WireFormat) -> Option<PageRange> {
    if (wanted.offset, wanted.limit, format.max_frame_bytes) == (None, None, None) {
        return None;
    }
    Some(PageRange {
        offset: wanted.offset.unwrap_or(0),
        limit: wanted.limit.unwrap_or(usize::MAX),
        max_bytes: format
            .max_frame_bytes
            .map_or(usize::MAX, |bytes| bytes.saturating_sub(FRAME_OVERHEAD_BYTES)),
    })
}

/// The items of a page of this list.
pub(super) fn items<T: Serialize>(
    list: impl ExactSizeIterator<Item = T>,
    range: PageRange,
) -> (Vec<Json<'static>>, Page) {
    let total = list.len();
    let mut space = PageSpace::new(range);
    let texts = list
        .skip(range.offset)
        .take(range.limit)
        .map(|item| to_raw_value(&item).expect("our own types serialize to JSON"));
    let fitting = texts.take_while(|text| space.take(text.get().len()));
    let items: Vec<Json> = fitting.map(Json::from).collect();
    let page = Page::before(range.offset.saturating_add(items.len()), total);
    (items, page)
}

/// Writes the fields of a page behind others.
pub(super) fn write_fields(page: &Page, text: &mut Vec<u8>) {
    let total = write!(text, r#","total":{}"#, page.total);
    let next = page.next.map_or(Ok(()), |next| write!(text, r#","nextOffset":{next}"#));
    total.and(next).expect("writing to a Vec cannot fail");
}

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
    let range = PageRange { offset, limit, max_bytes: PAGE_MAX_BYTES };
    let list = messages.iter().map(|message| Message::new(message, level));
    let (messages, Page { total, next }) = items(list, range);
    let next_cursor = next.map(|next| format!("{next}_{stamp}"));
    data(&MessagesPageData { messages, next_cursor, total_messages: total })
}

/// Where a cursor points in this conversation.
fn offset(cursor: &str, stamp: &str) -> Option<usize> {
    let (offset, of) = cursor.split_once('_')?;
    (of == stamp).then(|| offset.parse().ok()).flatten()
}
