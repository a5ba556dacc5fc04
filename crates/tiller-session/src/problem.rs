//! Problems found in a session file. None of them prevents opening it; all of them are reported to
//! the caller that opened it.

use std::fmt;
use std::path::PathBuf;

/// One problem. `Display` is a sentence for a log, without a full stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The last line was cut short, as by a crash in the middle of a write. It was moved from the
    /// file to `saved_to`.
    TornTail { bytes: u64, saved_to: PathBuf },
    /// Like `TornTail`, but still in the file: it was opened read-only, or the line could not be
    /// saved. It is not part of the session.
    TornTailLeft { bytes: u64 },
    /// The last entry had no line end, which was added.
    MissingNewline,
    /// A line that is not an entry. It stays in the file.
    MalformedLine { line: u64, reason: String },
    /// A line that looks like an entry but is not valid JSON. It keeps its place in the tree and
    /// its text in the file, and is not passed on. Only a check parses every line.
    NotJson { line: u64, reason: String },
    /// A line whose end is unreadable. It keeps its place in the tree, so that its ancestors are
    /// still reached, but has no content.
    DamagedLine { line: u64, id: String },
    /// Several entries on one line. All are part of the session.
    GluedLine { line: u64 },
    /// Two entries have the same id; the id refers to the later one.
    DuplicateId { line: u64, id: String },
    /// An entry whose parent is not before it in the file; it becomes a root.
    MissingParent { line: u64, id: String, parent: String },
    /// The file had an older version and was rewritten.
    Migrated { from: u64 },
    /// The file was written by a newer program and may contain unknown entries.
    NewerVersion { version: u64 },
    /// The file system has no locks, so another process may write to the file, too.
    NotLocked { reason: String },
    /// Another program wrote to the file while we had it open. Its entries are now part of the
    /// session.
    ForeignEntries { count: u64 },
    /// The file was deleted while we had it open, and was written again.
    Restored,
    /// Further problems, counted but not listed.
    More { count: u64 },
}

impl Problem {
    /// The number of the line, if this problem says that the line itself is broken.
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
                write!(f, "line {line} is not an entry and is ignored: {reason}")
            }
            Problem::NotJson { line, reason } => write!(f, "line {line} is not JSON: {reason}"),
            Problem::DamagedLine { line, id } => {
                write!(f, "line {line} (entry {id}) is damaged and has no content")
            }
            Problem::GluedLine { line } => write!(f, "line {line} holds several entries"),
            Problem::DuplicateId { line, id } => {
                write!(f, "line {line}: entry id {id} is used twice")
            }
            Problem::MissingParent { line, id, parent } => {
                write!(f, "line {line}: parent {parent} of entry {id} is missing")
            }
            Problem::Migrated { from } => write!(f, "migrated from version {from} to version 3"),
            Problem::NewerVersion { version } => {
                write!(f, "version {version} is newer than this program supports")
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

/// A list of bounded size: past the limit, a hundred by default, problems are only counted.
#[derive(Debug)]
pub(crate) struct Problems {
    listed: Vec<Problem>,
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
        Problems { listed: Vec::new(), more: 0, max }
    }

    pub(crate) fn push(&mut self, problem: Problem) {
        if self.listed.len() < self.max {
            self.listed.push(problem);
        } else {
            self.more += 1;
        }
    }

    pub(crate) fn list(&self) -> Vec<Problem> {
        let mut list = self.listed.clone();
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
    fn problem_list_is_bounded() {
        let mut problems = Problems::default();
        for line in 0..1000 {
            problems.push(Problem::GluedLine { line });
        }
        let list = problems.list();
        assert_eq!(list.len(), 101);
        assert_eq!(list[100].to_string(), "900 more problems");
    }
}
