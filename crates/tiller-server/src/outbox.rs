//! What a session has to say, in order, and to whom. The server hands it to the connections after
//! each request and each input.

use serde_json::value::RawValue;
use tiller_agent::event::Event;
use tiller_protocol::{ClientId, GetEvents, GetRecord, Label, Refusal, Reply};

use crate::connection::WireFormat;

#[derive(Default)]
pub(crate) struct Outbox {
    waiting: Vec<Addressed>,
}

/// Something to be written, and the client that gets it. None: all clients.
pub(crate) struct Addressed {
    pub(crate) to: Option<ClientId>,
    pub(crate) outgoing: Outgoing,
}

/// Something to be written.
pub(crate) enum Outgoing {
    Event(Event),
    Response(Label, Result<Reply, String>),
    /// A line that is no command gets this response.
    Refusal(Option<Box<RawValue>>, Refusal),
    /// Later records are written in this format.
    Format(WireFormat),
    /// The response has records that the connection keeps.
    Events(Label, GetEvents),
    /// The response has a part of a record that the connection keeps.
    RecordPiece(Label, GetRecord),
    /// A dialog needs no answer any more. For clients that share the session with others.
    DialogClosed(String),
}

impl Outbox {
    pub(crate) fn event(&mut self, event: Event) {
        self.push(None, Outgoing::Event(event));
    }

    pub(crate) fn respond(&mut self, label: Label, result: Result<Reply, String>) {
        self.push(Some(label.client), Outgoing::Response(label, result));
    }

    pub(crate) fn refuse(&mut self, client: ClientId, id: Option<Box<RawValue>>, refusal: Refusal) {
        self.push(Some(client), Outgoing::Refusal(id, refusal));
    }

    pub(crate) fn change_format(&mut self, client: ClientId, format: WireFormat) {
        self.push(Some(client), Outgoing::Format(format));
    }

    pub(crate) fn events(&mut self, label: Label, request: GetEvents) {
        self.push(Some(label.client), Outgoing::Events(label, request));
    }

    pub(crate) fn record_piece(&mut self, label: Label, request: GetRecord) {
        self.push(Some(label.client), Outgoing::RecordPiece(label, request));
    }

    /// Adds an event for one client.
    pub(crate) fn event_for(&mut self, client: ClientId, event: Event) {
        self.push(Some(client), Outgoing::Event(event));
    }

    pub(crate) fn dialog_closed(&mut self, id: String) {
        self.push(None, Outgoing::DialogClosed(id));
    }

    fn push(&mut self, to: Option<ClientId>, outgoing: Outgoing) {
        self.waiting.push(Addressed { to, outgoing });
    }

    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Addressed> {
        self.waiting.drain(..)
    }
}
