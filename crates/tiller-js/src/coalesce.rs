//! The channel for the progress of a call: what an extension emits before the call ends.
//!
//! JavaScript cannot be made to wait, and the receiver may be slow. So events that are still queued
//! are merged, in the way that loses the least. The result of the call takes another path and is
//! never merged.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use serde_json::{Value, json};
use tiller_agent::mutex;
use tokio::sync::Notify;

/// Upper bound on queued output. Older output is dropped.
const TEXT_MAX_BYTES: usize = 1 << 20;
/// Output is dropped in pieces of about this size.
const PIECE_BYTES: usize = 4 << 10;
/// Upper bound on queued events that cannot be merged; more is treated as a runaway extension.
const EVENTS_MAX: usize = 10_000;

/// The sending end. Dropping it ends the stream after what is queued.
pub(crate) type BoxedProgressSink = Box<dyn ProgressSink>;

pub(crate) trait ProgressSink: Send {
    fn send(&self, item: String);
}

/// The receiving end.
pub struct Progress<M> {
    shared: Arc<ProgressState<M>>,
}

/// How queued items are merged.
pub trait Coalesce: Default + Send + 'static {
    type Item;

    fn push(&mut self, item: String);
    fn pop(&mut self) -> Option<Self::Item>;
}

/// A channel for the progress of one call.
pub(crate) fn channel<M: Coalesce>() -> (BoxedProgressSink, Progress<M>) {
    let shared = Arc::new(ProgressState::<M> { waiting: Mutex::default(), changed: Notify::new() });
    (Box::new(ProgressSender { shared: shared.clone() }), Progress { shared })
}

impl<M: Coalesce> Progress<M> {
    /// The next item, or `None` when the sender is gone and the queue is empty.
    pub async fn next(&mut self) -> Option<M::Item> {
        loop {
            let changed = self.shared.changed.notified();
            {
                let mut waiting = self.shared.waiting();
                if let Some(item) = waiting.queue.pop() {
                    return Some(item);
                }
                if waiting.is_over {
                    return None;
                }
            }
            changed.await;
        }
    }
}

struct ProgressState<M> {
    waiting: Mutex<Waiting<M>>,
    /// Stores a wake-up if the receiver is not waiting.
    changed: Notify,
}

#[derive(Default)]
struct Waiting<M> {
    queue: M,
    is_over: bool,
}

impl<M> ProgressState<M> {
    fn waiting(&self) -> MutexGuard<'_, Waiting<M>> {
        mutex::lock(&self.waiting)
    }
}

struct ProgressSender<M> {
    shared: Arc<ProgressState<M>>,
}

impl<M: Coalesce> ProgressSink for ProgressSender<M> {
    fn send(&self, item: String) {
        self.shared.waiting().queue.push(item);
        self.shared.changed.notify_one();
    }
}

impl<M> Drop for ProgressSender<M> {
    fn drop(&mut self) {
        self.shared.waiting().is_over = true;
        self.shared.changed.notify_one();
    }
}

/// Keeps only the newest item.
#[derive(Default)]
pub struct KeepNewest(Option<String>);

impl Coalesce for KeepNewest {
    type Item = String;

    fn push(&mut self, item: String) {
        self.0 = Some(item);
    }

    fn pop(&mut self) -> Option<String> {
        self.0.take()
    }
}

/// Joins pieces of text.
#[derive(Default)]
pub struct JoinText {
    pieces: VecDeque<String>,
    bytes: usize,
}

impl Coalesce for JoinText {
    type Item = String;

    fn push(&mut self, item: String) {
        self.bytes += item.len();
        // Fills up the last piece, so that a million single bytes do not become a million pieces.
        match self.pieces.back_mut() {
            Some(last) if last.len() < PIECE_BYTES => last.push_str(&item),
            _ => self.pieces.push_back(item),
        }
        while self.bytes > TEXT_MAX_BYTES
            && self.pieces.len() > 1
            && let Some(oldest) = self.pieces.pop_front()
        {
            self.bytes -= oldest.len();
        }
    }

    fn pop(&mut self) -> Option<String> {
        self.bytes = 0;
        let pieces = std::mem::take(&mut self.pieces);
        (!pieces.is_empty()).then(|| pieces.into_iter().collect())
    }
}

/// Events of an assistant message. Deltas of one block are joined, so the queue is about as long as
/// the message, however many deltas it came in.
#[derive(Default)]
pub struct JoinDeltas {
    waiting: VecDeque<Value>,
    is_too_much: bool,
}

impl Coalesce for JoinDeltas {
    type Item = Value;

    fn push(&mut self, item: String) {
        self.add(serde_json::from_str(&item).unwrap_or_default());
    }

    fn pop(&mut self) -> Option<Value> {
        self.waiting.pop_front()
    }
}

impl JoinDeltas {
    pub(crate) fn add(&mut self, event: Value) {
        if self.is_too_much {
            return;
        }
        if let Some(last) = self.waiting.back_mut()
            && let Some(more) = more_of(last, &event)
            && let Some(Value::String(delta)) = last.get_mut("delta")
        {
            delta.push_str(more);
            return;
        }
        self.is_too_much = self.waiting.len() >= EVENTS_MAX;
        self.waiting.push_back(if self.is_too_much {
            json!({ "type": "error", "reason": "error", "error": { "errorMessage": TOO_MUCH } })
        } else {
            event
        });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

const TOO_MUCH: &str = "the answer has more events than can be handled";

/// The delta of `second`, if it continues the same block as `first`.
fn more_of<'e>(first: &Value, second: &'e Value) -> Option<&'e str> {
    let is_delta = |event: &Value| {
        let kind = event["type"].as_str().unwrap_or_default();
        kind.ends_with("_delta") && event.as_object().is_some_and(|event| event.len() == 3)
    };
    let goes_on = is_delta(first)
        && is_delta(second)
        && first["type"] == second["type"]
        && first["contentIndex"] == second["contentIndex"];
    second["delta"].as_str().filter(|_| goes_on)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delta(index: u32, delta: &str) -> Value {
        json!({ "type": "text_delta", "contentIndex": index, "delta": delta })
    }

    #[tokio::test]
    async fn deltas_of_one_block_are_joined_in_order() {
        let (sender, mut progress) = channel::<JoinDeltas>();
        let start = json!({ "type": "text_start", "contentIndex": 1 });
        for event in [delta(0, "a"), delta(0, "b"), start.clone(), delta(1, "c"), delta(1, "d")] {
            sender.send(event.to_string());
        }
        drop(sender);
        for expected in [delta(0, "ab"), start, delta(1, "cd")] {
            assert_eq!(progress.next().await, Some(expected));
        }
        assert_eq!(progress.next().await, None);
    }

    #[tokio::test]
    async fn an_endless_answer_ends_with_an_error() {
        let (sender, mut progress) = channel::<JoinDeltas>();
        let start = json!({ "type": "text_start", "contentIndex": 0 }).to_string();
        (0..EVENTS_MAX * 2).for_each(|_| sender.send(start.clone()));
        drop(sender);
        let mut received = 0;
        let mut last = Value::Null;
        while let Some(event) = progress.next().await {
            (received, last) = (received + 1, event);
        }
        assert_eq!((received, &last["error"]["errorMessage"]), (EVENTS_MAX + 1, &json!(TOO_MUCH)));
    }

    #[tokio::test]
    async fn unread_text_keeps_the_newest_part() {
        let (sender, mut progress) = channel::<JoinText>();
        let piece = "x".repeat(1000);
        (0..10_000).for_each(|_| sender.send(piece.clone()));
        sender.send("the end".to_owned());
        let received = progress.next().await.unwrap();
        assert!(
            received.len() <= TEXT_MAX_BYTES && received.ends_with("xthe end"),
            "{}",
            received.len()
        );
        drop(sender);
        assert_eq!(progress.next().await, None);
    }

    #[test]
    fn small_pieces_of_text_are_joined() {
        let mut text = JoinText::default();
        (0..100_000).for_each(|_| text.push(String::new()));
        (0..100_000).for_each(|_| text.push("x".to_owned()));
        assert_eq!(text.pieces.len(), 100_000usize.div_ceil(PIECE_BYTES));
        assert_eq!(text.pop().unwrap().len(), 100_000);
    }

    #[tokio::test]
    async fn keep_newest_delivers_the_newest() {
        let (sender, mut progress) = channel::<KeepNewest>();
        ["one", "two"].into_iter().for_each(|item| sender.send(item.to_owned()));
        assert_eq!(progress.next().await.as_deref(), Some("two"));
        drop(sender);
        assert_eq!(progress.next().await, None);
    }
}
