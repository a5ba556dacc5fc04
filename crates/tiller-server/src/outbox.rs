//! What a session has to say, in order. The server hands it to the connection after each request and
//! each input.

use serde_json::value::RawValue;
use tiller_agent::event::Event;
use tiller_protocol::{GetEvents, GetRecord, Label, Refusal, Reply};

use crate::connection::WireFormat;

#[derive(Default)]
pub(crate) struct Outbox {
    waiting: Vec<Outgoing>,
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
}

impl Outbox {
    pub(crate) fn event(&mut self, event: Event) {
        self.waiting.push(Outgoing::Event(event));
    }

    pub(crate) fn respond(&mut self, label: Label, result: Result<Reply, String>) {
        self.waiting.push(Outgoing::Response(label, result));
    }

    pub(crate) fn refuse(&mut self, id: Option<Box<RawValue>>, refusal: Refusal) {
        self.waiting.push(Outgoing::Refusal(id, refusal));
    }

    pub(crate) fn change_format(&mut self, format: WireFormat) {
        self.waiting.push(Outgoing::Format(format));
    }

    pub(crate) fn events(&mut self, label: Label, request: GetEvents) {
        self.waiting.push(Outgoing::Events(label, request));
    }

    pub(crate) fn record_piece(&mut self, label: Label, request: GetRecord) {
        self.waiting.push(Outgoing::RecordPiece(label, request));
    }

    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Outgoing> {
        self.waiting.drain(..)
    }
}
