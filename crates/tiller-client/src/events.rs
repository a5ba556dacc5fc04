//! All records of tiller as a stream, with their numbers, and the records of earlier.

use std::collections::VecDeque;

use tiller_protocol::{Record, Stamp};
use tokio::sync::mpsc;

/// A record with its number.
#[derive(Clone, Debug, PartialEq)]
pub struct StampedRecord {
    record: Record<'static>,
    stamp: Stamp,
}

impl StampedRecord {
    pub(crate) fn new(record: Record<'static>, stamp: Stamp) -> StampedRecord {
        StampedRecord { record, stamp }
    }

    /// The record.
    pub fn record(&self) -> &Record<'static> {
        &self.record
    }

    /// The record without its number.
    pub fn into_record(self) -> Record<'static> {
        self.record
    }

    /// Where the record is in the stream; absent before the first response.
    pub fn position(&self) -> Option<Position> {
        Some(Position { seq: self.stamp.seq?, epoch: self.stamp.epoch.clone() })
    }
}

/// A place in the stream of records: behind the record with this number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// The number of the record; 0 is the beginning.
    pub seq: u64,
    /// The process that counted. By default the current one.
    pub epoch: Option<String>,
}

impl From<u64> for Position {
    fn from(seq: u64) -> Position {
        Position { seq, epoch: None }
    }
}

/// Records of earlier, from [`Client::replay`](crate::Client::replay).
#[derive(Clone, Debug, PartialEq)]
pub struct Replay {
    /// The records in their order. Responses to `get_events` are not among them.
    pub records: Vec<StampedRecord>,
    /// Some records after the position are no longer kept, or it belongs to another process.
    pub is_truncated: bool,
    /// Where the replay ends.
    pub end: Position,
}

/// All records of tiller, responses included. Records wait in memory until they are read.
pub struct Events {
    /// Records of earlier, to be returned first.
    replayed: VecDeque<StampedRecord>,
    /// Records up to this number were replayed.
    replayed_to: u64,
    is_truncated: bool,
    live: mpsc::UnboundedReceiver<StampedRecord>,
}

impl Events {
    pub(crate) fn new(live: mpsc::UnboundedReceiver<StampedRecord>) -> Events {
        Events { replayed: VecDeque::new(), replayed_to: 0, is_truncated: false, live }
    }

    /// Returns the records of the replay before the live ones, which began before it.
    pub(crate) fn after(self, replay: Replay) -> Events {
        Events {
            replayed: replay.records.into(),
            replayed_to: replay.end.seq,
            is_truncated: replay.is_truncated,
            live: self.live,
        }
    }

    /// Whether records are missing between the requested position and the first record.
    pub fn is_truncated(&self) -> bool {
        self.is_truncated
    }

    /// The next record, or nothing once tiller has ended.
    pub async fn next(&mut self) -> Option<StampedRecord> {
        if let Some(record) = self.replayed.pop_front() {
            return Some(record);
        }
        loop {
            let record = self.live.recv().await?;
            if record.stamp.seq.is_none_or(|seq| seq > self.replayed_to) {
                return Some(record);
            }
        }
    }
}
