//! The output of a client with many sessions. Sessions take turns, so that one that writes a lot
//! does not hold back the records of another.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::Unsent;

/// Whole lines from one session.
pub struct Chunk {
    bytes: Vec<u8>,
    unsent: Unsent,
    /// Set while the chunk is being written.
    in_flight: Option<Arc<InFlight>>,
}

/// The chunks that were taken from a queue and are not written yet.
#[derive(Default)]
struct InFlight {
    count: AtomicUsize,
    changed: Notify,
}

impl Chunk {
    pub(super) fn new(bytes: Vec<u8>, unsent: Unsent) -> Chunk {
        Chunk { bytes, unsent, in_flight: None }
    }

    /// One or more lines of JSON, each with its LF.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Reports that the lines have been written.
    pub fn written(self) {}
}

impl Drop for Chunk {
    /// What is dropped unwritten does not wait any more, either.
    fn drop(&mut self) {
        self.unsent.wrote(self.bytes.len());
        if let Some(in_flight) = &self.in_flight {
            in_flight.count.fetch_sub(1, Ordering::AcqRel);
            in_flight.changed.notify_waiters();
        }
    }
}

/// What waits to be written to one client.
#[derive(Default)]
pub struct OutputQueue {
    state: Mutex<Lanes>,
    changed: Notify,
    in_flight: Arc<InFlight>,
}

/// Chunks by session. A session without chunks has no lane.
#[derive(Default)]
struct Lanes {
    lanes: HashMap<u64, VecDeque<Chunk>>,
    /// The lanes with chunks, in the order of their turns.
    turns: VecDeque<u64>,
    last_lane: u64,
    /// No more chunks are added.
    is_finished: bool,
    /// Nothing is written any more; chunks are dropped.
    is_closed: bool,
}

impl OutputQueue {
    pub(crate) fn new_lane(&self) -> u64 {
        let mut lanes = self.lock();
        lanes.last_lane += 1;
        lanes.last_lane
    }

    pub(super) fn push(&self, lane: u64, chunk: Chunk) {
        let mut lanes = self.lock();
        if lanes.is_closed {
            return;
        }
        let chunks = lanes.lanes.entry(lane).or_default();
        chunks.push_back(chunk);
        if chunks.len() == 1 {
            lanes.turns.push_back(lane);
        }
        drop(lanes);
        self.changed.notify_one();
    }

    /// The next chunk, in turn. None: all is written, and nothing more follows.
    pub async fn next(&self) -> Option<Chunk> {
        loop {
            {
                let mut lanes = self.lock();
                if let Some(mut chunk) = lanes.take_turn() {
                    self.in_flight.count.fetch_add(1, Ordering::AcqRel);
                    chunk.in_flight = Some(self.in_flight.clone());
                    return Some(chunk);
                }
                if lanes.is_finished || lanes.is_closed {
                    return None;
                }
            }
            self.changed.notified().await;
        }
    }

    /// Waits until all that was added has been written, or dropped.
    pub(crate) async fn written(&self) {
        loop {
            let changed = self.in_flight.changed.notified();
            let is_empty = self.lock().turns.is_empty();
            if is_empty && self.in_flight.count.load(Ordering::Acquire) == 0 {
                return;
            }
            changed.await;
        }
    }

    /// Nothing more is added.
    pub fn finish(&self) {
        self.lock().is_finished = true;
        self.changed.notify_one();
    }

    /// The client is gone: drops what waits, and what is added later.
    pub fn close(&self) {
        let mut lanes = self.lock();
        lanes.is_closed = true;
        lanes.lanes.clear();
        lanes.turns.clear();
        drop(lanes);
        self.changed.notify_one();
        self.in_flight.changed.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, Lanes> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lanes {
    fn take_turn(&mut self) -> Option<Chunk> {
        let lane = self.turns.pop_front()?;
        let chunks = self.lanes.get_mut(&lane)?;
        let chunk = chunks.pop_front();
        if chunks.is_empty() {
            self.lanes.remove(&lane);
        } else {
            self.turns.push_back(lane);
        }
        chunk
    }
}

#[cfg(test)]
mod tests {
    use super::super::Pipe;
    use super::*;

    async fn text(queue: &OutputQueue) -> String {
        let chunk = queue.next().await.unwrap();
        let text = String::from_utf8(chunk.bytes().to_vec()).unwrap();
        chunk.written();
        text
    }

    #[tokio::test]
    async fn sessions_take_turns() {
        let queue = Arc::new(OutputQueue::default());
        let (a, _) = Pipe::into_lane(queue.clone(), queue.new_lane());
        let (b, _) = Pipe::into_lane(queue.clone(), queue.new_lane());
        for text in ["a1", "a2", "a3"] {
            a.send(text.into());
        }
        b.send("b1".into());
        assert_eq!((a.waiting_bytes(), b.waiting_bytes()), (6, 2));
        for expected in ["a1", "b1", "a2", "a3"] {
            assert_eq!(text(&queue).await, expected);
        }
        assert_eq!((a.waiting_bytes(), b.waiting_bytes()), (0, 0));
        queue.finish();
        assert!(queue.next().await.is_none());
    }

    #[tokio::test]
    async fn chunk_in_flight_is_not_written() {
        let queue = Arc::new(OutputQueue::default());
        let (pipe, _) = Pipe::into_lane(queue.clone(), queue.new_lane());
        pipe.send("text".into());
        let chunk = queue.next().await.unwrap();
        let mut written = Box::pin(queue.written());
        assert!(futures_util::FutureExt::now_or_never(&mut written).is_none());
        chunk.written();
        written.await;
    }

    #[tokio::test]
    async fn closed_queue_keeps_nothing() {
        let queue = Arc::new(OutputQueue::default());
        let (pipe, _) = Pipe::into_lane(queue.clone(), queue.new_lane());
        pipe.send("lost".into());
        queue.close();
        pipe.send("lost, too".into());
        assert!(queue.next().await.is_none());
        assert!(queue.lock().lanes.is_empty());
    }
}
