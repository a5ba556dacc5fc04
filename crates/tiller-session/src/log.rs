//! The bytes of a session: lines, one after the other, in memory until there is a file and in the
//! file from then on. A place in one is the same place in the other.

use std::borrow::Cow;
use std::io;
use std::ops::Range;

use crate::file::{Disk, Syncer};

pub(crate) struct Log {
    bytes: Bytes,
    /// Where the next line goes. What lies behind it on disk is not ours.
    end: u64,
    /// A failed write left something behind `end`, and taking it back failed, too.
    is_torn: bool,
    /// The last line has no end yet.
    is_open: bool,
}

enum Bytes {
    Memory(Vec<u8>),
    Disk(Box<dyn Disk>),
}

/// What became of the file since we last looked.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Change {
    None,
    /// Somebody added lines, and it now ends here.
    Grown(u64),
    /// Somebody cut it.
    Shrunk,
    /// It has no name any more: deleted, or another file is in its place.
    Unlinked,
}

impl Log {
    pub(crate) fn in_memory(bytes: Vec<u8>) -> Log {
        let end = bytes.len() as u64;
        Log { bytes: Bytes::Memory(bytes), end, is_torn: false, is_open: false }
    }

    pub(crate) fn on_disk(disk: Box<dyn Disk>, end: u64) -> Log {
        Log { bytes: Bytes::Disk(disk), end, is_torn: false, is_open: false }
    }

    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// The whole log, while it is in memory.
    pub(crate) fn memory(&self) -> Option<&[u8]> {
        match &self.bytes {
            Bytes::Memory(bytes) => Some(bytes),
            Bytes::Disk(_) => None,
        }
    }

    pub(crate) fn change(&self) -> io::Result<Change> {
        let Bytes::Disk(disk) = &self.bytes else {
            return Ok(Change::None);
        };
        let state = disk.state()?;
        Ok(match state.len {
            _ if !state.linked => Change::Unlinked,
            len if len < self.end => Change::Shrunk,
            // What a failed write of ours left behind is nobody's line.
            len if len > self.end && !self.is_torn => Change::Grown(len),
            _ => Change::None,
        })
    }

    /// Goes on in another file with the same content.
    pub(crate) fn move_to(&mut self, disk: Box<dyn Disk>) {
        self.bytes = Bytes::Disk(disk);
        self.is_torn = false;
    }

    /// Takes what somebody else added as part of the log.
    pub(crate) fn extend(&mut self, end: u64) {
        self.end = end;
    }

    /// Ends the last line, now or, when that fails, together with the next one.
    pub(crate) fn close_line(&mut self) {
        if let Bytes::Disk(disk) = &mut self.bytes {
            match disk.append(b"\n") {
                Ok(at) => self.end = at + 1,
                Err(_) => self.is_open = true,
            }
        }
    }

    pub(crate) fn truncate(&mut self, end: u64) -> io::Result<()> {
        if let Bytes::Disk(disk) = &mut self.bytes {
            disk.truncate(end)?;
        }
        self.end = end;
        Ok(())
    }

    /// Adds a line, all of it or nothing, and says where it lies.
    pub(crate) fn append(&mut self, line: &str) -> io::Result<Range<u64>> {
        let lead = if self.is_open { "\n" } else { "" };
        let text = [lead, line, "\n"].concat();
        let at = match &mut self.bytes {
            Bytes::Memory(bytes) => {
                bytes.extend_from_slice(text.as_bytes());
                self.end
            }
            Bytes::Disk(disk) => {
                if self.is_torn {
                    disk.truncate(self.end)?;
                    self.is_torn = false;
                }
                match disk.append(text.as_bytes()) {
                    Ok(at) => at,
                    Err(err) => {
                        self.is_torn = disk.truncate(self.end).is_err();
                        return Err(err);
                    }
                }
            }
        };
        self.is_open = false;
        self.end = at + text.len() as u64;
        let start = at + lead.len() as u64;
        Ok(start..start + line.len() as u64)
    }

    pub(crate) fn syncer(&self) -> Option<Syncer> {
        match &self.bytes {
            Bytes::Memory(_) => None,
            Bytes::Disk(disk) => disk.syncer(),
        }
    }

    /// One stretch, as text. Where it is not UTF-8 it gets replacement characters, as in pi.
    pub(crate) fn text(&self, at: Range<u64>) -> io::Result<String> {
        Ok(self.reader().text(at)?.into_owned())
    }

    /// For reading many lines, best in the order of the file.
    pub(crate) fn reader(&self) -> Reader<'_> {
        Reader { log: self, window: Vec::new(), window_at: 0, last_end: 0 }
    }

    /// For reading everything from here on.
    pub(crate) fn read_from(&self, at: u64) -> Stream<'_> {
        Stream { log: self, at }
    }

    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        match &self.bytes {
            Bytes::Memory(bytes) => {
                let rest = usize::try_from(at).ok().and_then(|at| bytes.get(at..)).unwrap_or(&[]);
                let len = rest.len().min(buffer.len());
                buffer[..len].copy_from_slice(&rest[..len]);
                Ok(len)
            }
            Bytes::Disk(disk) => disk.read_at(buffer, at),
        }
    }
}

/// Reads lines through a window onto the file, so that neighbours cost one read together.
pub(crate) struct Reader<'a> {
    log: &'a Log,
    window: Vec<u8>,
    window_at: u64,
    last_end: u64,
}

impl Reader<'_> {
    const WINDOW: u64 = 256 * 1024;
    /// A gap up to this size still counts as reading on.
    const GAP: u64 = 64 * 1024;

    pub(crate) fn text(&mut self, at: Range<u64>) -> io::Result<Cow<'_, str>> {
        let bytes = self.bytes(at)?;
        // Nearly always whole, and then checked several times faster than mended.
        Ok(match str::from_utf8(bytes) {
            Ok(text) => Cow::Borrowed(text),
            Err(_) => String::from_utf8_lossy(bytes),
        })
    }

    pub(crate) fn bytes(&mut self, at: Range<u64>) -> io::Result<&[u8]> {
        if let Bytes::Memory(bytes) = &self.log.bytes {
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
        let goes_on = at.start >= self.last_end && at.start - self.last_end <= Reader::GAP;
        let wanted = at.end - at.start;
        let len = if goes_on { wanted.max(Reader::WINDOW) } else { wanted };
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

/// A log from some place to its end on disk, as a plain reader.
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
