//! The client or the extension that waits for a response.

use serde_json::Value;
use tiller_protocol::{Label, Reply};

use crate::state::SessionState;
use crate::tasks::Responder;

/// Where an extension waits for a response.
pub type ExtensionReply = Responder<Result<Value, String>>;

/// The client, by the label of its request, or an extension.
pub enum Requester {
    Client(Label),
    Extension(ExtensionReply),
}

impl Requester {
    /// The name of the client's command; nothing for an extension.
    pub(super) fn command(&self) -> Option<&'static str> {
        match self {
            Requester::Client(label) => Some(label.command),
            Requester::Extension(_) => None,
        }
    }
}

impl SessionState {
    /// Responds to the client with a reply, to an extension with a value.
    pub(super) fn respond_to(
        &mut self,
        requester: Requester,
        result: Result<(), String>,
        reply: impl FnOnce() -> Reply,
        value: impl FnOnce() -> Value,
    ) {
        match requester {
            Requester::Client(label) => self.respond(label, result.map(|()| reply())),
            Requester::Extension(answer) => answer.respond(result.map(|()| value())),
        }
    }
}
