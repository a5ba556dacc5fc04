//! The bytes of a session: lines, in memory until there is a file and in the file from then on, or
//! in a local copy if the session is in a database. Offsets are the same in all of them.

use std::borrow::Cow;
use std::io;
use std::ops::Range;

use crate::file::{FileDisk, FileLocation, Syncer};
use crate::spool::{Spool, copy_from};

pub(crate) struct Log {
    bytes: Bytes,
    /// The offset of the next line. Bytes after it on disk are not part of the log.
    end: u64,
    torn: Option<Torn>,
    /// The last line has no line end yet.
    is_open: bool,
}

enum Bytes {
    Memory(Vec<u8>),
    Disk(FileDisk),
    Spool(Spool),
}

/// A failed write left a part of a line after `Log::end`, and removing it failed, too.
struct Torn {
    /// The file's length then, if it could be read.
    len: Option<u64>,
}

/// How the file has changed since the last check.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Change {
    None,
    /// Another program appended lines; the new length.
    Grown(u64),
    /// Another program shortened it.
    Shrunk,
    Deleted,
    /// It was renamed.
    Moved,
    /// Another file is at its path.
    Replaced,
}

/// The end of a log, to return to.
#[derive(Clone, Copy)]
pub(crate) struct Mark {
    end: u64,
    is_open: bool,
}

impl Log {
    pub(crate) fn in_memory(bytes: Vec<u8>) -> Log {
        let end = bytes.len() as u64;
        Log { bytes: Bytes::Memory(bytes), end, torn: None, is_open: false }
    }

    pub(crate) fn on_disk(disk: FileDisk, end: u64) -> Log {
        Log { bytes: Bytes::Disk(disk), end, torn: None, is_open: false }
    }

    /// A local copy of a session that is stored elsewhere.
    pub(crate) fn spooled(spool: Spool, end: u64) -> Log {
        Log { bytes: Bytes::Spool(spool), end, torn: None, is_open: false }
    }

    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    pub(crate) fn mark(&self) -> Mark {
        Mark { end: self.end, is_open: self.is_open }
    }

    /// The whole log while it is in memory.
    pub(crate) fn memory(&self) -> Option<&[u8]> {
        match &self.bytes {
            Bytes::Memory(bytes) => Some(bytes),
            Bytes::Disk(_) | Bytes::Spool(_) => None,
        }
    }

    pub(crate) fn disk(&self) -> Option<&FileDisk> {
        match &self.bytes {
            Bytes::Memory(_) | Bytes::Spool(_) => None,
            Bytes::Disk(disk) => Some(disk),
        }
    }

    pub(crate) fn change(&self) -> io::Result<Change> {
        let Some(disk) = self.disk() else {
            return Ok(Change::None);
        };
        match disk.location()? {
            FileLocation::InPlace => (),
            FileLocation::Deleted => return Ok(Change::Deleted),
            FileLocation::Moved => return Ok(Change::Moved),
            FileLocation::Replaced => return Ok(Change::Replaced),
        }
        // The rest of our own failed write is not another program's line.
        let was_written_here =
            |len| self.torn.as_ref().is_some_and(|torn| torn.len.is_none_or(|torn| torn == len));
        Ok(match disk.len()? {
            len if len < self.end => Change::Shrunk,
            len if len > self.end && !was_written_here(len) => Change::Grown(len),
            _ => Change::None,
        })
    }

    /// Continues in another file with the same content.
    pub(crate) fn move_to(&mut self, disk: FileDisk) {
        self.bytes = Bytes::Disk(disk);
        self.torn = None;
    }

    /// Makes the bytes that another program appended part of the log.
    pub(crate) fn extend(&mut self, end: u64) {
        self.end = end;
        self.torn = None;
    }

    /// Terminates the last line, now or, if that fails, together with the next one.
    pub(crate) fn close_line(&mut self) {
        if let Bytes::Disk(disk) = &mut self.bytes {
            match disk.append(b"\n") {
                Ok(at) => self.end = at + 1,
                Err(_) => self.is_open = true,
            }
        }
    }

    /// Appends whole lines to a local copy, and returns their offset.
    pub(crate) fn append_lines(&mut self, text: &str) -> io::Result<u64> {
        let at = self.end;
        if let Bytes::Spool(spool) = &mut self.bytes {
            spool.write(at, text.as_bytes())?;
            self.end += text.len() as u64;
        }
        Ok(at)
    }

    pub(crate) fn truncate(&mut self, end: u64) -> io::Result<()> {
        if let Bytes::Disk(disk) = &mut self.bytes {
            disk.truncate(end)?;
        }
        self.end = end;
        Ok(())
    }

    /// Appends a line completely or not at all, and returns its range.
    pub(crate) fn append(&mut self, line: &str) -> io::Result<Range<u64>> {
        let lead = if self.is_open { "\n" } else { "" };
        let text = [lead, line, "\n"].concat();
        let mut is_ended = true;
        let at = match &mut self.bytes {
            Bytes::Memory(bytes) => {
                bytes.extend_from_slice(text.as_bytes());
                self.end
            }
            Bytes::Spool(spool) => {
                spool.write(self.end, text.as_bytes())?;
                self.end
            }
            Bytes::Disk(disk) => {
                if self.torn.is_some() {
                    disk.truncate(self.end)?;
                    self.torn = None;
                }
                match disk.append(text.as_bytes()) {
                    Ok(at) => at,
                    Err(err) => match after_failed_write(disk, self.end, text.len() as u64) {
                        Left::Nothing => return Err(err),
                        Left::Part(torn) => {
                            self.torn = Some(torn);
                            return Err(err);
                        }
                        Left::Line { ended } => {
                            is_ended = ended;
                            self.end
                        }
                    },
                }
            }
        };
        self.is_open = !is_ended;
        self.end = at + text.len() as u64 - u64::from(self.is_open);
        let start = at + lead.len() as u64;
        Ok(start..start + line.len() as u64)
    }

    /// Removes the last line again. False if the line stays: truncating failed, or another program
    /// has appended after it.
    pub(crate) fn take_back(&mut self, mark: Mark) -> bool {
        match &mut self.bytes {
            Bytes::Memory(bytes) => bytes.truncate(mark.end as usize),
            // The next line is written over it.
            Bytes::Spool(_) => {}
            Bytes::Disk(disk) => {
                let is_last = disk.len().is_ok_and(|len| len == self.end);
                if !is_last || disk.truncate(mark.end).is_err() {
                    return false;
                }
            }
        }
        (self.end, self.is_open) = (mark.end, mark.is_open);
        true
    }

    pub(crate) fn syncer(&self) -> Option<Syncer> {
        self.disk().map(FileDisk::syncer)
    }

    /// A range as text. Invalid UTF-8 becomes replacement characters, as in pi.
    pub(crate) fn text(&self, at: Range<u64>) -> io::Result<String> {
        Ok(self.reader().text(at)?.into_owned())
    }

    /// A reader for many lines, best in file order.
    pub(crate) fn reader(&self) -> Reader<'_> {
        Reader { log: self, window: Vec::new(), window_at: 0, last_end: 0 }
    }

    /// Reads everything from this offset.
    pub(crate) fn read_from(&self, at: u64) -> Stream<'_> {
        Stream { log: self, at }
    }

    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        match &self.bytes {
            Bytes::Memory(bytes) => Ok(copy_from(bytes, buffer, at)),
            Bytes::Disk(disk) => disk.read_at(buffer, at),
            Bytes::Spool(spool) => spool.read_at(buffer, at),
        }
    }
}

/// What a failed write left in the file.
enum Left {
    Nothing,
    Part(Torn),
    /// The whole line, perhaps without its line end: a reader would parse it as an entry.
    Line {
        ended: bool,
    },
}

/// Removes what a failed write left behind. If that fails, the content decides: a line that a
/// reader would parse is an entry here, too.
fn after_failed_write(disk: &mut FileDisk, end: u64, wrote: u64) -> Left {
    if disk.truncate(end).is_ok() {
        return Left::Nothing;
    }
    match disk.len() {
        Ok(len) if len <= end => Left::Nothing,
        Ok(len) if len == end + wrote => Left::Line { ended: true },
        Ok(len) if len == end + wrote - 1 => Left::Line { ended: false },
        len => Left::Part(Torn { len: len.ok() }),
    }
}

/// Reads lines through a buffer, so that neighbouring lines cost one read.
pub(crate) struct Reader<'a> {
    log: &'a Log,
    window: Vec<u8>,
    window_at: u64,
    last_end: u64,
}

impl Reader<'_> {
    const WINDOW: u64 = 256 * 1024;
    /// Up to this size, a gap is read rather than skipped.
    const GAP: u64 = 64 * 1024;

    pub(crate) fn text(&mut self, at: Range<u64>) -> io::Result<Cow<'_, str>> {
        let bytes = self.bytes(at)?;
        // Almost always valid, and validating is several times faster than the lossy conversion.
        Ok(match str::from_utf8(bytes) {
            Ok(text) => Cow::Borrowed(text),
            Err(_) => String::from_utf8_lossy(bytes),
        })
    }

    pub(crate) fn bytes(&mut self, at: Range<u64>) -> io::Result<&[u8]> {
        let memory = match &self.log.bytes {
            Bytes::Memory(bytes) => Some(bytes.as_slice()),
            Bytes::Spool(spool) => spool.memory(),
            Bytes::Disk(_) => None,
        };
        if let Some(bytes) = memory {
            return Ok(&bytes[at.start as usize..at.end as usize]);
        }
        let window = self.window_at..self.window_at + self.window.len() as u64;
        if at.start < window.start || at.end > window.end {
            self.fill(&at)?;
        }
        self.last_end = at.end;
        let start = (at.start - self.window_at) as usize;
        Ok(&self.window[start..start + (at.end - at.start) as usize])
    }

    fn fill(&mut self, at: &Range<u64>) -> io::Result<()> {
        let continues = at.start >= self.last_end && at.start - self.last_end <= Reader::GAP;
        let wanted = at.end - at.start;
        let len = if continues { wanted.max(Reader::WINDOW) } else { wanted };
        let len = len.min(self.log.end - at.start);
        self.window.resize(len as usize, 0);
        self.window_at = at.start;
        let mut filled = 0;
        while filled < self.window.len() {
            match self.log.read_at(&mut self.window[filled..], at.start + filled as u64) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(err) if err.kind() == io::ErrorKind::Interrupted => (),
                Err(err) => {
                    self.window.clear();
                    return Err(err);
                }
            }
        }
        self.window.truncate(filled);
        if (filled as u64) < wanted {
            self.window.clear();
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(())
    }
}

/// A reader from an offset of the log to its end on disk.
pub(crate) struct Stream<'a> {
    log: &'a Log,
    at: u64,
}

impl io::Read for Stream<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.log.read_at(buffer, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}
