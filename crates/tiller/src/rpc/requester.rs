//! Who asked for something that takes a while, and is answered at its end.

use serde_json::Value;

use super::state::SessionState;
use super::tasks::Responder;
use super::wire::{Label, Reply};

/// The way back to a call of an extension.
pub type ExtensionReply = Responder<Result<Value, String>>;

/// The client, by the label of its request, or an extension that waits.
pub enum Requester {
    Client(Label),
    Extension(ExtensionReply),
}

impl Requester {
    /// The name of the client's command, where a client asked.
    pub(super) fn command(&self) -> Option<&'static str> {
        match self {
            Requester::Client(label) => Some(label.command),
            Requester::Extension(_) => None,
        }
    }
}

impl SessionState {
    /// Answers each in its own words.
    pub(super) fn respond_to(
        &mut self,
        asker: Requester,
        result: Result<(), String>,
        reply: impl FnOnce() -> Reply,
        value: impl FnOnce() -> Value,
    ) {
        match asker {
            Requester::Client(label) => self.respond(label, result.map(|()| reply())),
            Requester::Extension(answer) => answer.respond(result.map(|()| value())),
        }
    }
}
