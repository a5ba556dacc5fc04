//! Lines in both directions: splits what tiller writes, and holds what tiller has yet to read.

use std::io;

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};

pub(crate) type Reader = Box<dyn AsyncRead + Send + Unpin>;
pub(crate) type Writer = Box<dyn AsyncWrite + Send + Unpin>;

/// How much is read at once.
const CHUNK_BYTES: usize = 64 << 10;
/// A longer line does not come from tiller: no record has this size.
const LINE_MAX_BYTES: usize = 1 << 30;
/// With more than this to write, no further command is accepted until tiller has read some.
const OUTBOX_BYTES: usize = 1 << 20;

/// Splits the output of tiller at LF, and at no other character.
pub(crate) struct LineReader {
    reader: BufReader<Reader>,
    /// The beginning of the next line.
    line: Vec<u8>,
}

impl LineReader {
    pub(crate) fn new(reader: Reader) -> LineReader {
        LineReader { reader: BufReader::with_capacity(CHUNK_BYTES, reader), line: Vec::new() }
    }

    /// The next line without its LF, or nothing at the end. A last line without an LF is
    /// incomplete and dropped. Nothing is lost if the future is dropped.
    pub(crate) async fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            let chunk = self.reader.fill_buf().await?;
            if chunk.is_empty() {
                return Ok(None);
            }
            let end = chunk.iter().position(|byte| *byte == b'\n');
            let part = &chunk[..end.unwrap_or(chunk.len())];
            if self.line.len() + part.len() > LINE_MAX_BYTES {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "a line is too long"));
            }
            self.line.extend_from_slice(part);
            let read = part.len() + usize::from(end.is_some());
            self.reader.consume(read);
            if end.is_some() {
                return Ok(Some(std::mem::take(&mut self.line)));
            }
        }
    }
}

/// Lines that are to be written.
pub(crate) struct Outbox {
    /// Absent once it is closed.
    writer: Option<Writer>,
    bytes: Vec<u8>,
    /// How many of the bytes are written.
    written: usize,
    needs_flush: bool,
    is_closing: bool,
    /// The handle of the session in each command, if the connection carries several sessions.
    session_id: Option<String>,
}

impl Outbox {
    pub(crate) fn new(writer: Writer) -> Outbox {
        Outbox {
            session_id: None,
            writer: Some(writer),
            bytes: Vec::new(),
            written: 0,
            needs_flush: false,
            is_closing: false,
        }
    }

    /// The commands are for this session of the connection.
    pub(crate) fn for_session(self, session_id: String) -> Outbox {
        Outbox { session_id: Some(session_id), ..self }
    }

    /// Adds a line without its LF. Returns false if the outbox is closing.
    pub(crate) fn push(&mut self, line: &str) -> bool {
        if self.is_closing || self.writer.is_none() {
            return false;
        }
        match (&self.session_id, line.strip_suffix('}')) {
            (Some(session_id), Some(begin)) => {
                let session_id = serde_json::Value::from(session_id.as_str());
                let line = format!("{begin},\"sessionId\":{session_id}}}");
                self.bytes.extend_from_slice(line.as_bytes());
            }
            _ => self.bytes.extend_from_slice(line.as_bytes()),
        }
        self.bytes.push(b'\n');
        true
    }

    pub(crate) fn has_room(&self) -> bool {
        self.bytes.len() < OUTBOX_BYTES
    }

    /// Closes the writer as soon as everything is written.
    pub(crate) fn close(&mut self) {
        self.is_closing = true;
    }

    /// Closes the writer and drops the rest.
    pub(crate) fn abandon(&mut self) {
        self.writer = None;
        self.bytes.clear();
    }

    /// Whether [`Outbox::write`] has something to do.
    pub(crate) fn is_pending(&self) -> bool {
        let has_work = !self.bytes.is_empty() || self.needs_flush || self.is_closing;
        self.writer.is_some() && has_work
    }

    /// One step: writes some bytes, or flushes, or closes. Nothing is lost or written twice if the
    /// future is dropped.
    pub(crate) async fn write(&mut self) -> io::Result<()> {
        let Some(writer) = &mut self.writer else { return Ok(()) };
        if !self.bytes.is_empty() {
            let length = writer.write(&self.bytes[self.written..]).await?;
            if length == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            self.written += length;
            if self.written == self.bytes.len() {
                self.bytes = Vec::new();
                self.written = 0;
                self.needs_flush = true;
            }
        } else if self.needs_flush {
            writer.flush().await?;
            self.needs_flush = false;
        } else {
            writer.shutdown().await?;
            // A pipe closes when it is dropped.
            self.writer = None;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, duplex};

    use super::*;

    async fn lines(bytes: &[u8]) -> Vec<String> {
        // A pipe of one byte gives every possible split.
        let (near, mut far) = duplex(1);
        let bytes = bytes.to_vec();
        let writing = tokio::spawn(async move { far.write_all(&bytes).await.unwrap() });
        let mut reader = LineReader::new(Box::new(near));
        let mut lines = Vec::new();
        while let Some(line) = reader.next().await.unwrap() {
            lines.push(String::from_utf8(line).unwrap());
        }
        writing.await.unwrap();
        lines
    }

    #[tokio::test]
    async fn only_line_feeds_end_lines() {
        let text = "a\u{2028}b\u{85}c\rd\n\nlast\nno end";
        assert_eq!(lines(text.as_bytes()).await, ["a\u{2028}b\u{85}c\rd", "", "last"]);
        assert!(lines(b"").await.is_empty());
    }

    #[tokio::test]
    async fn outbox_writes_everything_before_it_closes() {
        let (near, mut far) = duplex(3);
        let mut outbox = Outbox::new(Box::new(near));
        assert!(!outbox.is_pending());
        assert!(outbox.push("first"));
        assert!(outbox.push("second"));
        outbox.close();
        assert!(!outbox.push("too late"));
        let reading = tokio::spawn(async move {
            let mut text = String::new();
            far.read_to_string(&mut text).await.unwrap();
            text
        });
        while outbox.is_pending() {
            outbox.write().await.unwrap();
        }
        assert_eq!(reading.await.unwrap(), "first\nsecond\n");
    }

    #[tokio::test]
    async fn outbox_is_full_until_some_is_written() {
        let (near, mut far) = duplex(2 * OUTBOX_BYTES);
        let mut outbox = Outbox::new(Box::new(near));
        outbox.push(&"x".repeat(OUTBOX_BYTES));
        assert!(!outbox.has_room());
        outbox.write().await.unwrap();
        assert!(outbox.has_room());
        let mut line = vec![0; OUTBOX_BYTES + 1];
        far.read_exact(&mut line).await.unwrap();
        assert_eq!(line.last(), Some(&b'\n'));
    }
}
