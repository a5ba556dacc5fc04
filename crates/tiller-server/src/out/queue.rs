//! The output of a client with many sessions. Sessions take turns, so that one that writes a lot
//! does not hold back the records of another.

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, mpsc};

use super::Unsent;

/// Whole lines from one session.
pub struct Chunk {
    bytes: Vec<u8>,
    unsent: Unsent,
}

impl Chunk {
    pub(super) fn new(bytes: Vec<u8>, unsent: Unsent) -> Chunk {
        Chunk { bytes, unsent }
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
    }
}

/// With more than this unwritten, the client's lines wait.
const QUEUE_MAX_BYTES: usize = 64 << 20;

/// What waits to be written to one client.
#[derive(Default)]
pub struct OutputQueue {
    state: Mutex<Lanes>,
    changed: Notify,
    /// Notified when there is room again.
    drained: Notify,
    /// Dropped with the queue, which tells the server that the client has got everything.
    _open: Option<mpsc::Sender<Infallible>>,
}

/// Chunks by session. A session without chunks has no lane.
#[derive(Default)]
struct Lanes {
    lanes: HashMap<u64, VecDeque<Chunk>>,
    /// The lanes with chunks, in the order of their turns.
    turns: VecDeque<u64>,
    last_lane: u64,
    bytes: usize,
    /// No more chunks are added.
    is_finished: bool,
    /// Nothing is written any more; chunks are dropped.
    is_closed: bool,
}

impl OutputQueue {
    pub(crate) fn new(open: Option<mpsc::Sender<Infallible>>) -> OutputQueue {
        OutputQueue { _open: open, ..OutputQueue::default() }
    }

    pub(super) fn new_lane(&self) -> u64 {
        let mut lanes = self.lock();
        lanes.last_lane += 1;
        lanes.last_lane
    }

    pub(super) fn push(&self, lane: u64, chunk: Chunk) {
        let mut lanes = self.lock();
        if lanes.is_closed {
            return;
        }
        lanes.bytes += chunk.bytes.len();
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
                if let Some(chunk) = lanes.take_turn() {
                    if lanes.has_room() {
                        self.drained.notify_one();
                    }
                    return Some(chunk);
                }
                if lanes.is_finished || lanes.is_closed {
                    return None;
                }
            }
            self.changed.notified().await;
        }
    }

    /// Waits while so much waits for the client that its lines should not add to it.
    pub(crate) async fn has_room(&self) {
        while !self.lock().has_room() {
            self.drained.notified().await;
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
        lanes.bytes = 0;
        drop(lanes);
        self.drained.notify_one();
        self.changed.notify_one();
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
        self.bytes -= chunk.as_ref().map_or(0, |chunk| chunk.bytes.len());
        chunk
    }

    fn has_room(&self) -> bool {
        self.bytes <= QUEUE_MAX_BYTES
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

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
        let (a, _) = Pipe::into_queue(queue.clone());
        let (b, _) = Pipe::into_queue(queue.clone());
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
    async fn closed_queue_keeps_nothing() {
        let queue = Arc::new(OutputQueue::default());
        let (pipe, _) = Pipe::into_queue(queue.clone());
        pipe.send("lost".into());
        queue.close();
        pipe.send("lost, too".into());
        assert!(queue.next().await.is_none());
        assert!(queue.lock().lanes.is_empty());
    }
}
