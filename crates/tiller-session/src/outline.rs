//! A session for reading from end to end: the parent of every entry, and its line on request. Lines
//! are read on request only, one at a time.

use std::borrow::Cow;

use crate::entry::{Body, Entry};
use crate::error::Error;
use crate::head::Kind;
use crate::log::Reader;
use crate::session::Session;
use crate::tree::Index;

/// The entries of a session by their position in the file, starting at 0.
pub struct Outline<'a> {
    session: &'a Session,
    reader: Reader<'a>,
    all: Vec<Index>,
}

impl Session {
    pub fn outline(&self) -> Outline<'_> {
        let all = self.tree().all().collect();
        Outline { session: self, reader: self.log().reader(), all }
    }
}

impl Outline<'_> {
    pub fn len(&self) -> usize {
        self.all.len()
    }

    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub fn id(&self, index: usize) -> &str {
        self.session.tree().id(self.all[index])
    }

    /// Always before the entry itself.
    pub fn parent(&self, index: usize) -> Option<usize> {
        self.session.tree().parent(self.all[index]).map(Index::position)
    }

    pub fn leaf(&self) -> Option<usize> {
        self.session.tree().leaf().map(Index::position)
    }

    pub fn label(&self, index: usize) -> Option<&str> {
        self.session.tree().label(self.all[index]).map(|label| label.text.as_str())
    }

    /// Whether its end is unreadable: its place in the tree is known, its content is not.
    pub fn is_damaged(&self, index: usize) -> bool {
        self.session.tree().kind(self.all[index]) == Kind::Damaged
    }

    /// The length of its line.
    pub fn bytes(&self, index: usize) -> u64 {
        let at = self.session.tree().at(self.all[index]);
        at.end - at.start
    }

    /// Parses the entry from this line, which may be an edited copy of its own. Unknown parts of a
    /// message are dropped.
    pub fn entry(&self, index: usize, line: &str) -> Option<Entry> {
        let kind = self.session.tree().kind(self.all[index]);
        if !kind.is_message() {
            return Entry::read(line);
        }
        let body = self.session.message(kind, line).ok().map(Body::message);
        Some(Entry { body, ..Entry::read_place(line)? })
    }

    /// The line as it is in the file. Neighbouring lines cost one read.
    pub fn line(&mut self, index: usize) -> Result<Cow<'_, str>, Error> {
        let at = self.session.tree().at(self.all[index]);
        self.reader.text(at).map_err(self.session.read_error())
    }
}
