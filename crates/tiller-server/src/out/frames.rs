//! Numbers lines, keeps them for a client that asks for them again, and limits their length: each
//! only if the client has asked for it with `hello`.

use std::borrow::Cow;
use std::collections::VecDeque;

use serde_json::value::RawValue;
use tiller_protocol::{EventsData, GetEvents, GetRecord, Json, RecordPiece};
use uuid::Uuid;

use super::cut;

/// How many lines are kept for `get_events`, and how many bytes they may have.
const KEPT_LINES: usize = 10_000;
const KEPT_BYTES: usize = 16 << 20;
/// How many records `get_events` returns by default, and how many bytes they may have if the length
/// of a line is not limited.
const PAGE_RECORDS: usize = 1_000;
const PAGE_BYTES: usize = 8 << 20;
/// How many cut records are kept whole for `get_record`, and how many bytes they may have. The
/// newest is kept in any case.
const CUT_RECORDS: usize = 256;
const CUT_BYTES: usize = 64 << 20;
/// Room for the fields of a response around the records or the text that it carries.
const RESPONSE_BYTES: usize = 4 << 10;
/// Room for `seq` and `epoch`.
const STAMP_BYTES: usize = 96;

#[derive(Default)]
pub(super) struct Frames {
    /// The field that names the session, for a client with several.
    session: Option<Box<str>>,
    sequence: Option<Sequence>,
    max_bytes: Option<usize>,
    cut_records: CutRecords,
}

/// The count of lines.
struct Sequence {
    epoch: String,
    id: Uuid,
    last: u64,
    kept: VecDeque<Box<str>>,
    kept_bytes: usize,
}

/// Records that were too long, as they were.
#[derive(Default)]
struct CutRecords {
    count: u64,
    records: VecDeque<(String, String)>,
    bytes: usize,
}

impl Frames {
    /// Numbers lines from now on, or no longer, and limits them from now on.
    pub(super) fn change(&mut self, epoch: Option<Uuid>, max_bytes: Option<usize>) {
        if self.sequence.as_ref().map(|sequence| sequence.id) != epoch {
            self.sequence = epoch.map(Sequence::new);
        }
        self.max_bytes = max_bytes;
    }

    /// Names the session in every line from now on.
    pub(super) fn name_session(&mut self, handle: &str) {
        self.session = Some(format!(",\"sessionId\":\"{handle}\"}}\n").into());
    }

    pub(super) fn names_session(&self) -> bool {
        self.session.is_some()
    }

    /// Whether a line may need [`Frames::finish`].
    pub(super) fn is_active(&self) -> bool {
        self.session.is_some() || self.sequence.is_some() || self.max_bytes.is_some()
    }

    /// The lines after this number, if all of them are kept.
    pub(super) fn kept_since(&self, since: u64) -> Option<Vec<Box<str>>> {
        let sequence = self.sequence.as_ref()?;
        let first_kept = sequence.last + 1 - sequence.kept.len() as u64;
        if since > sequence.last || since + 1 < first_kept {
            return None;
        }
        let skipped = (since + 1 - first_kept) as usize;
        let lines = sequence.kept.iter().skip(skipped).filter(|line| !line.is_empty());
        Some(lines.cloned().collect())
    }

    /// Whether a record of about this length would be cut.
    pub(super) fn is_too_long(&self, bytes: usize) -> bool {
        self.max_bytes.is_some_and(|max| bytes + self.stamp_bytes() > max)
    }

    /// Cuts and numbers the line at the end of `batch` that begins at `start`. `Keep::No` is for
    /// responses that repeat earlier records.
    pub(super) fn finish(&mut self, batch: &mut Vec<u8>, start: usize, keep: Keep) {
        if batch.len() == start {
            return;
        }
        self.limit(batch, start);
        if let Some(session) = &self.session {
            batch.truncate(batch.len() - b"}\n".len());
            batch.extend_from_slice(session.as_bytes());
        }
        if let Some(sequence) = &mut self.sequence {
            sequence.number(batch, start, keep);
        }
    }

    /// Room for the fields that follow a record's own.
    fn stamp_bytes(&self) -> usize {
        STAMP_BYTES + self.session.as_ref().map_or(0, |field| field.len())
    }

    fn limit(&mut self, batch: &mut Vec<u8>, start: usize) {
        let Some(max) = self.max_bytes else { return };
        let room = max - self.stamp_bytes();
        if batch.len() - start <= room {
            return;
        }
        let line = String::from_utf8_lossy(&batch[start..]).trim_end().to_owned();
        let marker = self.cut_records.next_marker(line.len());
        let Some(short) = cut::shorten(&line, room - 1, &marker) else { return };
        batch.truncate(start);
        batch.extend_from_slice(short.as_bytes());
        batch.push(b'\n');
        self.cut_records.keep(marker.record_id, line);
    }

    /// The data of the response to `get_events`.
    pub(super) fn events(&self, request: &GetEvents) -> Result<EventsData<'_>, String> {
        let sequence = self.sequence.as_ref().ok_or_else(|| NO_SEQUENCE.to_owned())?;
        let max_bytes = self.max_bytes.map_or(PAGE_BYTES, |max| max - RESPONSE_BYTES);
        Ok(sequence.events(request, max_bytes))
    }

    /// The data of the response to `get_record`.
    pub(super) fn piece(&self, request: &GetRecord) -> Result<RecordPiece<'_>, String> {
        let id = &request.record_id;
        let record = self.cut_records.get(id).ok_or_else(|| format!("Record not found: {id}"))?;
        let offset = request.offset.unwrap_or(0);
        if !record.is_char_boundary(offset) {
            return Err(format!(
                "Invalid command \"get_record\": field `offset`: expected the `nextOffset` of an \
                 earlier response, at most {}",
                record.len()
            ));
        }
        // JSON text in a JSON string is at most twice as long.
        let max_bytes = self.max_bytes.map_or(PAGE_BYTES, |max| (max - RESPONSE_BYTES) / 2);
        // Four bytes have room for any character, so that each part makes progress.
        let length = request.limit.unwrap_or(max_bytes).clamp(4, max_bytes);
        let end = record.floor_char_boundary(offset.saturating_add(length));
        Ok(RecordPiece {
            record_id: Cow::Owned(id.clone()),
            bytes: record.len(),
            offset,
            text: Cow::Borrowed(&record[offset..end]),
            next_offset: (end < record.len()).then_some(end),
        })
    }
}

/// Whether a line is kept for `get_events`.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Keep {
    Yes,
    No,
}

impl Sequence {
    fn new(id: Uuid) -> Sequence {
        let epoch = id.to_string();
        Sequence { epoch, id, last: 0, kept: VecDeque::new(), kept_bytes: 0 }
    }

    /// Adds the next number to a line, before its closing brace.
    fn number(&mut self, batch: &mut Vec<u8>, start: usize, keep: Keep) {
        self.last += 1;
        batch.truncate(batch.len() - b"}\n".len());
        let stamp = format!(",\"seq\":{},\"epoch\":\"{}\"}}\n", self.last, self.epoch);
        batch.extend_from_slice(stamp.as_bytes());
        let line: &[u8] = match keep {
            Keep::Yes => &batch[start..batch.len() - 1],
            // The place is kept, so that the position of a line follows from its number.
            Keep::No => b"",
        };
        self.kept_bytes += line.len();
        self.kept.push_back(String::from_utf8_lossy(line).into());
        while self.kept.len() > KEPT_LINES || self.kept_bytes > KEPT_BYTES {
            let dropped = self.kept.pop_front().map_or(0, |line| line.len());
            self.kept_bytes -= dropped;
        }
    }

    fn events(&self, request: &GetEvents, max_bytes: usize) -> EventsData<'_> {
        let is_other_epoch = request.epoch.as_ref().is_some_and(|epoch| *epoch != self.epoch);
        let is_unknown = is_other_epoch || request.since > self.last;
        let since = if is_unknown { 0 } else { request.since };
        let first_kept = self.last + 1 - self.kept.len() as u64;
        let skipped = (since + 1).saturating_sub(first_kept) as usize;
        let limit = request.limit.unwrap_or(PAGE_RECORDS).max(1);
        let mut events: Vec<Json<'_>> = Vec::new();
        let mut bytes = 0;
        let mut more = false;
        for line in self.kept.iter().skip(skipped).filter(|line| !line.is_empty()) {
            bytes += line.len() + 1;
            if events.len() == limit || bytes > max_bytes && !events.is_empty() {
                more = true;
                break;
            }
            let text: &RawValue = serde_json::from_str(line).expect("a record is JSON");
            events.push(Json::from(text));
        }
        EventsData {
            epoch: Cow::Borrowed(&self.epoch),
            events,
            truncated: is_unknown || since + 1 < first_kept,
            last_seq: self.last,
            more,
        }
    }
}

impl CutRecords {
    fn next_marker(&mut self, bytes: usize) -> tiller_protocol::Cut {
        self.count += 1;
        tiller_protocol::Cut { record_id: format!("r{}", self.count), bytes }
    }

    fn keep(&mut self, id: String, record: String) {
        self.bytes += record.len();
        self.records.push_back((id, record));
        while self.records.len() > CUT_RECORDS || self.bytes > CUT_BYTES && self.records.len() > 1 {
            let dropped = self.records.pop_front().map_or(0, |(_, record)| record.len());
            self.bytes -= dropped;
        }
    }

    fn get(&self, id: &str) -> Option<&str> {
        let found = self.records.iter().find(|(other, _)| other == id);
        found.map(|(_, record)| record.as_str())
    }
}

const NO_SEQUENCE: &str =
    "Records are not numbered. Send {\"type\":\"hello\",\"sequence\":true} first";

#[cfg(test)]
mod tests;
