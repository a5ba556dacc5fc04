//! What was odd about a session file. None of these keeps a session from opening; all of them are
//! told to whoever opened it.

use std::fmt;
use std::path::PathBuf;

/// One oddity, in words for a log: `Display` gives a sentence without a full stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The last line was cut short, as by a crash in the middle of a write. It is no longer in
    /// the file; `saved_to` has it.
    TornTail { bytes: u64, saved_to: PathBuf },
    /// The same, left where it was: the file was opened to be read, or there was nowhere to save
    /// the piece. It is not part of the session.
    TornTailLeft { bytes: u64 },
    /// The last entry was complete but for its line end, which was added.
    MissingNewline,
    /// A line that is no entry. It stays in the file.
    MalformedLine { line: u64, reason: String },
    /// A line that is an entry at first sight but is not JSON. It keeps its place in the tree and
    /// its text in the file, and is not passed on. Only a check looks at every line this closely.
    NotJson { line: u64, reason: String },
    /// A line whose end is unreadable. It keeps its place in the tree, so that what came before
    /// it is still reached, but has no content.
    DamagedLine { line: u64, id: String },
    /// Several entries on one line. All are part of the session.
    GluedLine { line: u64 },
    /// Two entries have the same id; the later one is meant when the id is named.
    DuplicateId { line: u64, id: String },
    /// An entry whose parent is not in the file before it; it starts a tree of its own.
    MissingParent { line: u64, id: String, parent: String },
    /// The file was of an older version and has been rewritten.
    Migrated { from: u64 },
    /// Written by a newer program than this one; read as well as we can.
    NewerVersion { version: u64 },
    /// The file system has no locks, so nobody else can be kept out.
    NotLocked { reason: String },
    /// Another program wrote to the file while we had it open. Its entries were taken in.
    ForeignEntries { count: u64 },
    /// The file was deleted while we had it open, and has been written again.
    Restored,
    /// More of the same, counted but not told one by one.
    More { count: u64 },
}

impl Problem {
    /// The line that this is about, if it says that the line itself is broken.
    pub(crate) fn broken_line(&self) -> Option<u64> {
        match self {
            Problem::MalformedLine { line, .. }
            | Problem::NotJson { line, .. }
            | Problem::DamagedLine { line, .. }
            | Problem::GluedLine { line } => Some(*line),
            _ => None,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::TornTail { bytes, saved_to } => {
                let to = saved_to.display();
                write!(f, "the last line was cut short; its {bytes} bytes were moved to {to}")
            }
            Problem::TornTailLeft { bytes } => {
                write!(f, "the last line was cut short; its {bytes} bytes are ignored")
            }
            Problem::MissingNewline => write!(f, "the last line had no line end; it was added"),
            Problem::MalformedLine { line, reason } => {
                write!(f, "line {line} is not an entry and is passed over: {reason}")
            }
            Problem::NotJson { line, reason } => write!(f, "line {line} is not JSON: {reason}"),
            Problem::DamagedLine { line, id } => {
                write!(f, "line {line} (entry {id}) is damaged and has no content")
            }
            Problem::GluedLine { line } => write!(f, "line {line} holds several entries"),
            Problem::DuplicateId { line, id } => {
                write!(f, "line {line}: entry id {id} was used before")
            }
            Problem::MissingParent { line, id, parent } => {
                write!(f, "line {line}: parent {parent} of entry {id} is missing")
            }
            Problem::Migrated { from } => write!(f, "migrated from version {from} to version 3"),
            Problem::NewerVersion { version } => {
                write!(f, "version {version} is newer than this program knows")
            }
            Problem::NotLocked { reason } => {
                write!(f, "the file cannot be locked against other writers: {reason}")
            }
            Problem::ForeignEntries { count } => {
                write!(f, "another program added {count} entries while the session was open")
            }
            Problem::Restored => write!(f, "the file was deleted while in use and written again"),
            Problem::More { count } => write!(f, "{count} more problems"),
        }
    }
}

/// A list that does not grow with the damage: past a hundred, unless more are wanted, problems are
/// only counted.
#[derive(Debug)]
pub(crate) struct Problems {
    told: Vec<Problem>,
    more: u64,
    max: usize,
}

impl Default for Problems {
    fn default() -> Problems {
        Problems::up_to(100)
    }
}

impl Problems {
    pub(crate) fn up_to(max: usize) -> Problems {
        Problems { told: Vec::new(), more: 0, max }
    }

    pub(crate) fn push(&mut self, problem: Problem) {
        if self.told.len() < self.max {
            self.told.push(problem);
        } else {
            self.more += 1;
        }
    }

    pub(crate) fn list(&self) -> Vec<Problem> {
        let mut list = self.told.clone();
        if self.more > 0 {
            list.push(Problem::More { count: self.more });
        }
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_stays_short_however_bad_the_file() {
        let mut problems = Problems::default();
        for line in 0..1000 {
            problems.push(Problem::GluedLine { line });
        }
        let list = problems.list();
        assert_eq!(list.len(), 101);
        assert_eq!(list[100].to_string(), "900 more problems");
    }
}
