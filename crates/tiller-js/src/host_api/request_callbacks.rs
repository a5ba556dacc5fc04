//! Callbacks for one model request of an extension: `onPayload` may replace the body, `onResponse`
//! sees status and headers before any of the answer is read.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use serde::Deserialize;
use serde_json::{Value, json};
use tiller_agent::mutex;
use tokio::sync::oneshot;

/// An extension's `onPayload` and `onResponse` callbacks for one model request.
#[derive(Clone)]
pub struct RequestCallbacks {
    wants: Wants,
    send: Arc<dyn Fn(Value) + Send + Sync>,
    answers: Arc<Answers>,
}

/// Which callbacks the extension has set.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(crate) struct Wants {
    pub payload: bool,
    pub response: bool,
}

/// Calls of `onPayload` that have not returned yet, by number.
#[derive(Default)]
pub(crate) struct Answers {
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    last: u64,
    senders: HashMap<u64, oneshot::Sender<Option<Value>>>,
}

impl Answers {
    pub(crate) fn complete(&self, number: u64, answer: Option<Value>) {
        let mut open = mutex::lock(&self.open);
        if let Some(sender) = open.senders.remove(&number) {
            // The request may have been cancelled.
            sender.send(answer).ok();
        }
    }

    fn open(&self) -> (u64, oneshot::Receiver<Option<Value>>) {
        let (sender, answer) = oneshot::channel();
        let mut open = mutex::lock(&self.open);
        open.last += 1;
        let number = open.last;
        open.senders.insert(number, sender);
        (number, answer)
    }
}

impl RequestCallbacks {
    pub(crate) fn new(
        wants: Wants,
        answers: Arc<Answers>,
        send: impl Fn(Value) + Send + Sync + 'static,
    ) -> RequestCallbacks {
        RequestCallbacks { wants, send: Arc::new(send), answers }
    }

    pub fn wants_payload(&self) -> bool {
        self.wants.payload
    }

    /// Calls `onPayload` with the request body. Returns the body to send instead, if any.
    pub async fn payload(&self, payload: Value) -> Option<Value> {
        let (number, answer) = self.answers.open();
        (self.send)(json!({ "type": "payload", "number": number, "payload": payload }));
        // If the engine is gone, the payload is sent unchanged.
        answer.await.ok().flatten()
    }

    /// Calls `onResponse` without waiting for it. It runs before the extension sees any event of
    /// the answer.
    pub fn answered(&self, status: u16, headers: Value) {
        if self.wants.response {
            (self.send)(json!({ "type": "response", "status": status, "headers": headers }));
        }
    }
}

impl fmt::Debug for RequestCallbacks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RequestCallbacks").field(&self.wants).finish()
    }
}
