//! Who asked for something that takes a while, and is answered at its end.

use serde_json::Value;
use tokio::sync::oneshot;

use super::state::State;
use super::wire::{Label, Reply};

/// The client, by the label of its request, or an extension that waits.
pub enum Asker {
    Client(Label),
    Guest(oneshot::Sender<Result<Value, String>>),
}

impl Asker {
    /// The name of the client's command, where a client asked.
    pub(super) fn command(&self) -> Option<&'static str> {
        match self {
            Asker::Client(label) => Some(label.command),
            Asker::Guest(_) => None,
        }
    }
}

impl State {
    /// Answers each in its own words.
    pub(super) fn answer_asker(
        &mut self,
        asker: Asker,
        result: Result<(), String>,
        reply: impl FnOnce() -> Reply,
        value: impl FnOnce() -> Value,
    ) {
        match asker {
            Asker::Client(label) => self.settle_answer(label, result.map(|()| reply())),
            // Whoever asked may be gone.
            Asker::Guest(answer) => answer.send(result.map(|()| value())).unwrap_or(()),
        }
    }
}
