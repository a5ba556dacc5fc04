//! What a session has to say to its client, in order. The server writes it after each input.

use serde_json::value::RawValue;
use tiller_agent::event::Event;

use super::wire::{Label, Level, Refusal, Reply, Stream};

pub(crate) struct Outbox {
    waiting: Vec<Outgoing>,
    /// How the records after these are written.
    level: Level,
    stream: Stream,
}

/// Something to be written.
pub(crate) enum Outgoing {
    Event(Event),
    Response(Label, Result<Reply, String>),
    /// A line that is no command gets this response.
    Refusal(Option<Box<RawValue>>, Refusal),
    /// Later records are written at this level.
    Level(Level, Stream),
}

impl Outbox {
    pub(crate) fn new(level: Level) -> Outbox {
        Outbox { waiting: Vec::new(), level, stream: level.stream() }
    }

    pub(crate) fn event(&mut self, event: Event) {
        self.waiting.push(Outgoing::Event(event));
    }

    pub(crate) fn respond(&mut self, label: Label, result: Result<Reply, String>) {
        self.waiting.push(Outgoing::Response(label, result));
    }

    pub(crate) fn refuse(&mut self, id: Option<Box<RawValue>>, refusal: Refusal) {
        self.waiting.push(Outgoing::Refusal(id, refusal));
    }

    pub(crate) fn change_level(&mut self, level: Level, stream: Stream) {
        self.level = level;
        self.stream = stream;
        self.waiting.push(Outgoing::Level(level, stream));
    }

    pub(crate) fn level(&self) -> Level {
        self.level
    }

    pub(crate) fn stream(&self) -> Stream {
        self.stream
    }

    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Outgoing> {
        self.waiting.drain(..)
    }
}
