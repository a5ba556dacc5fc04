//! Events with their numbers, the queues from the connection to their readers, and streams of them.

use std::collections::VecDeque;
use std::sync::Arc;

use tiller_protocol::{Record, Stamp, Step};
use tokio::sync::mpsc;

use crate::ClientError;
use crate::requester::Requester;

/// How many events wait for a reader. The connection does not wait for readers, because responses
/// come the same way; a reader that is further behind loses its place and can use a replay.
pub(crate) const UNREAD_EVENTS_MAX: usize = 1 << 16;

/// A record that is not a response, with its number.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    record: Arc<Record<'static>>,
    stamp: Stamp,
}

impl Event {
    pub(crate) fn new(record: Record<'static>, stamp: Stamp) -> Event {
        Event { record: Arc::new(record), stamp }
    }

    /// The record.
    pub fn record(&self) -> &Record<'static> {
        &self.record
    }

    /// The number of the record. A replay can continue behind it.
    pub fn seq(&self) -> u64 {
        self.stamp.seq.unwrap_or_default()
    }

    /// Where the record is in the stream.
    pub fn position(&self) -> Position {
        Position { seq: self.seq(), epoch: self.stamp.epoch.clone() }
    }

    /// The text that the record adds to an answer, if it adds any.
    pub fn text_delta(&self) -> Option<&str> {
        let Record::MessageUpdate { assistant_message_event, .. } = self.record() else {
            return None;
        };
        match &assistant_message_event.step {
            Step::TextDelta { delta, .. } => Some(delta),
            _ => None,
        }
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

/// The reader was too slow. The last item of a queue that was full.
pub(crate) struct Overflow;

/// The connection's end of a queue.
pub(crate) struct EventSender(mpsc::Sender<Result<Event, Overflow>>);

/// The reader's end of a queue.
pub(crate) struct EventReceiver(mpsc::Receiver<Result<Event, Overflow>>);

pub(crate) fn event_queue() -> (EventSender, EventReceiver) {
    let (sender, receiver) = mpsc::channel(UNREAD_EVENTS_MAX + 1);
    (EventSender(sender), EventReceiver(receiver))
}

impl EventSender {
    /// Returns false if there is no reader any more, or it is too slow: the queue is then of no
    /// further use. The last place of a queue is for the mark that it was full.
    pub(crate) fn send(&self, event: &Event) -> bool {
        let has_room = self.0.capacity() > 1;
        let item = if has_room { Ok(event.clone()) } else { Err(Overflow) };
        self.0.try_send(item).is_ok() && has_room
    }
}

impl EventReceiver {
    /// The next event, or nothing if the connection sends no more.
    pub(crate) async fn next(&mut self) -> Result<Option<Event>, ClientError> {
        match self.0.recv().await {
            Some(Ok(event)) => Ok(Some(event)),
            Some(Err(Overflow)) => {
                let reason = format!("more than {UNREAD_EVENTS_MAX} events were not read in time");
                Err(ClientError::EventsLost { reason })
            }
            None => Ok(None),
        }
    }

    /// Drops the events that were not read, and refuses further ones.
    pub(crate) fn close(&mut self) {
        self.0.close();
        while self.0.try_recv().is_ok() {}
    }
}

/// All events from a position on, from [`Client::events`](crate::Client::events) or
/// [`Client::replay`](crate::Client::replay).
pub struct EventStream {
    /// Events of the past, which come first.
    past: VecDeque<Event>,
    /// Live events up to this number are among those of the past. There is none without a replay.
    replayed_to: Option<u64>,
    live: EventReceiver,
    requester: Requester,
}

impl EventStream {
    pub(crate) fn new(live: EventReceiver, requester: Requester) -> EventStream {
        EventStream { past: VecDeque::new(), replayed_to: None, live, requester }
    }

    /// Puts events of the past before the live ones, which began before the replay was requested.
    pub(crate) fn after(self, past: VecDeque<Event>, replayed_to: u64) -> EventStream {
        EventStream { past, replayed_to: Some(replayed_to), ..self }
    }

    /// The next event. There are no more once the client is closed; if tiller ends by itself, that
    /// is an error.
    pub async fn next(&mut self) -> Result<Option<Event>, ClientError> {
        if let Some(event) = self.past.pop_front() {
            return Ok(Some(event));
        }
        while let Some(event) = self.live.next().await? {
            if self.replayed_to.is_none_or(|replayed_to| event.seq() > replayed_to) {
                return Ok(Some(event));
            }
        }
        match self.requester.end_reason() {
            ClientError::Closed => Ok(None),
            reason => Err(reason),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(seq: u64) -> Event {
        Event::new(Record::AgentStart, Stamp { seq: Some(seq), ..Stamp::default() })
    }

    #[tokio::test]
    async fn slow_reader_gets_what_was_queued_and_then_an_error() {
        let (sender, mut receiver) = event_queue();
        let accepted = (1..).take_while(|seq| sender.send(&event(*seq))).count();
        assert_eq!(accepted, UNREAD_EVENTS_MAX);
        drop(sender);
        for seq in 1..=accepted as u64 {
            let next = receiver.next().await.unwrap().unwrap();
            assert_eq!(next.seq(), seq);
        }
        let lost = receiver.next().await.unwrap_err();
        assert_eq!(lost.to_string(), "more than 65536 events were not read in time");
        assert_eq!(receiver.next().await, Ok(None));
    }

    #[tokio::test]
    async fn closed_reader_refuses_events() {
        let (sender, mut receiver) = event_queue();
        assert!(sender.send(&event(1)));
        receiver.close();
        assert!(!sender.send(&event(2)));
        assert_eq!(receiver.next().await, Ok(None));
    }
}
