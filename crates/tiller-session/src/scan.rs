//! Reads the lines of a file into a tree, and collects problems.

use std::io::{self, Read};
use std::ops::ControlFlow;

use serde::de::IgnoredAny;

use crate::entry::{Header, VERSION};
use crate::head::{Head, HeadLine, Kind};
use crate::lines;
use crate::problem::{Problem, Problems};
use crate::tree::Tree;

/// How much is read at a time: little enough to stay in the processor's cache.
const BLOCK: u64 = 256 * 1024;
const TYPICAL_LINE: u64 = 600;

/// A scan in progress.
pub(crate) struct Scan {
    pub header: Option<Header>,
    pub tree: Tree,
    pub problems: Problems,
    line: u64,
}

/// How a file ends.
pub(crate) enum Ending {
    Clean,
    /// The last line has no line end, but is a complete entry, or blank.
    Open {
        is_blank: bool,
    },
    /// The last line was cut short.
    Torn {
        at: u64,
        bytes: Vec<u8>,
    },
}

/// Why a scan stopped early.
pub(crate) enum Stop {
    /// The first readable line is not a header.
    NotASession,
    /// The file has an older version, which must be migrated first.
    OldVersion(u64),
}

impl Scan {
    /// For a file of about this many bytes.
    pub(crate) fn new(bytes: u64, problems: Problems) -> Scan {
        let tree = Tree::with_room_for(bytes / TYPICAL_LINE);
        Scan { header: None, tree, problems, line: 0 }
    }

    /// Continues an earlier scan.
    pub(crate) fn resume(header: Header, tree: Tree, problems: Problems, line: u64) -> Scan {
        Scan { header: Some(header), tree, problems, line }
    }

    /// For a session whose header was read, with this many lines after it.
    pub(crate) fn with_header(header: Header, lines: u64) -> Scan {
        let mut scan = Scan::new(lines.saturating_mul(TYPICAL_LINE), Problems::default());
        scan.set_header(header);
        scan.line = 1;
        scan
    }

    /// How many lines were read.
    pub(crate) fn lines_read(&self) -> u64 {
        self.line
    }

    /// Reads this many bytes, including the last line if only its line end is missing.
    pub(crate) fn read_all(
        &mut self,
        source: impl Read,
        at: u64,
        len: u64,
    ) -> io::Result<Result<Ending, Stop>> {
        let buffer_len = len.clamp(4096, BLOCK) as usize;
        let tail =
            match lines::lines(buffer_len, source.take(len), at, |line, at| self.take(line, at))? {
                ControlFlow::Continue(tail) => tail,
                ControlFlow::Break(stop) => return Ok(Err(stop)),
            };
        let is_blank = tail.bytes.trim_ascii().is_empty();
        if tail.bytes.is_empty() {
            return Ok(Ok(Ending::Clean));
        }
        if !is_blank && serde_json::from_slice::<IgnoredAny>(&tail.bytes).is_err() {
            return Ok(Ok(Ending::Torn { at: tail.at, bytes: tail.bytes }));
        }
        let blanks = tail.bytes.len() - tail.bytes.trim_ascii_start().len();
        match self.take(tail.bytes.trim_ascii(), tail.at + blanks as u64) {
            ControlFlow::Continue(()) => Ok(Ok(Ending::Open { is_blank })),
            ControlFlow::Break(stop) => Ok(Err(stop)),
        }
    }

    /// Adds one line of a copy, without its line end.
    pub(crate) fn line(&mut self, line: &str, at: u64) {
        let trimmed = line.trim_ascii_start();
        let blanks = (line.len() - trimmed.len()) as u64;
        // It comes after a header, so the scan does not stop.
        let _goes_on = self.take(trimmed.trim_ascii_end().as_bytes(), at + blanks);
    }

    /// Adds a trimmed line.
    fn take(&mut self, line: &[u8], at: u64) -> ControlFlow<Stop> {
        self.line += 1;
        if line.is_empty() {
            return ControlFlow::Continue(());
        }
        match HeadLine::read(line) {
            HeadLine::Entry(_) if self.header.is_none() => {
                return ControlFlow::Break(Stop::NotASession);
            }
            HeadLine::Entry(head) => self.entry(&head, at, line.len()),
            HeadLine::Header if self.header.is_none() => return self.read_header(line),
            HeadLine::Header => self.malformed("a second header".to_owned()),
            HeadLine::Damaged { .. } | HeadLine::Malformed(_) if self.glued(line, at) => (),
            HeadLine::Damaged { id, parent } => {
                self.problems.push(Problem::DamagedLine { line: self.line, id: id.to_string() });
                let head = Head {
                    kind: Kind::Damaged,
                    id,
                    parent,
                    refers: None,
                    text: None,
                    replaces: false,
                    calls: 0,
                    spent: None,
                };
                self.entry(&head, at, line.len());
            }
            HeadLine::Malformed(reason) => self.malformed(reason),
        }
        ControlFlow::Continue(())
    }

    fn read_header(&mut self, line: &[u8]) -> ControlFlow<Stop> {
        let Some(header) = Header::read(&String::from_utf8_lossy(line)) else {
            return ControlFlow::Break(Stop::NotASession);
        };
        if header.version < VERSION {
            return ControlFlow::Break(Stop::OldVersion(header.version));
        }
        self.set_header(header);
        ControlFlow::Continue(())
    }

    fn set_header(&mut self, header: Header) {
        if header.version > VERSION {
            self.problems.push(Problem::NewerVersion { version: header.version });
        }
        self.tree.set_name(header.title.clone().filter(|title| !title.is_empty()));
        self.header = Some(header);
    }

    fn entry(&mut self, head: &Head<'_>, at: u64, len: usize) {
        if self.tree.is_full(&head.id, len as u64) {
            return self.malformed("the entry is too large".to_owned());
        }
        let pushed = self.tree.push(head, at..at + len as u64);
        if pushed.duplicate {
            let id = head.id.to_string();
            self.problems.push(Problem::DuplicateId { line: self.line, id });
        }
        if pushed.orphan {
            let parent = head.parent.as_deref().unwrap_or_default().to_owned();
            let id = head.id.to_string();
            self.problems.push(Problem::MissingParent { line: self.line, id, parent });
        }
    }

    fn malformed(&mut self, reason: String) {
        self.problems.push(Problem::MalformedLine { line: self.line, reason });
    }

    /// Adds a line that contains several complete entries, as left by a program that appended after
    /// a missing line end. Unreadable text may follow them.
    fn glued(&mut self, line: &[u8], at: u64) -> bool {
        let mut values = serde_json::Deserializer::from_slice(line).into_iter::<IgnoredAny>();
        let mut start = 0;
        let mut found = false;
        while let Some(Ok(_)) = values.next() {
            let end = values.byte_offset();
            let value = &line[start..end];
            let blanks = value.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
            let value = value.trim_ascii();
            if let HeadLine::Entry(head) = HeadLine::read(value)
                && self.header.is_some()
            {
                self.entry(&head, at + (start + blanks) as u64, value.len());
                found = true;
            }
            start = end;
        }
        if found {
            self.problems.push(Problem::GluedLine { line: self.line });
        }
        found
    }
}
