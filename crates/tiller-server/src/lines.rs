//! Splits bytes into lines. A line ends with LF and nothing else: U+2028 and U+2029 are ordinary
//! characters of JSON strings, whatever some line readers do. A CR before the LF is dropped.

pub use tiller_protocol::{LINE_MAX_BYTES, Line};

/// Collects bytes until a line is complete. Each byte is scanned once, however it arrives.
#[derive(Debug)]
pub struct Lines {
    partial: Vec<u8>,
    too_long: bool,
    max_bytes: usize,
}

impl Lines {
    /// Longer lines than `max_bytes` are skipped.
    pub fn new(max_bytes: usize) -> Lines {
        Lines { partial: Vec::new(), too_long: false, max_bytes }
    }

    /// Adds `bytes` and passes each completed line to `each`.
    pub fn push(&mut self, mut bytes: &[u8], mut each: impl FnMut(Line)) {
        while let Some(end) = memchr::memchr(b'\n', bytes) {
            self.extend(&bytes[..end]);
            bytes = &bytes[end + 1..];
            each(self.next_line());
        }
        self.extend(bytes);
    }

    /// What is left when the input ends without a last LF.
    pub fn finish(mut self) -> Option<Line> {
        (self.too_long || !self.partial.is_empty()).then(|| self.next_line())
    }

    fn extend(&mut self, bytes: &[u8]) {
        if self.too_long {
            return;
        }
        if self.partial.len() + bytes.len() > self.max_bytes {
            self.too_long = true;
            self.partial = Vec::new();
            return;
        }
        self.partial.extend_from_slice(bytes);
    }

    fn next_line(&mut self) -> Line {
        if std::mem::take(&mut self.too_long) {
            return Line::TooLong;
        }
        let mut line = std::mem::take(&mut self.partial);
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        Line::Text(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(chunks: &[&[u8]], max_bytes: usize) -> Vec<Line> {
        let mut lines = Lines::new(max_bytes);
        let mut read = Vec::new();
        for chunk in chunks {
            lines.push(chunk, |line| read.push(line));
        }
        read.extend(lines.finish());
        read
    }

    fn text(line: &str) -> Line {
        Line::Text(line.as_bytes().to_vec())
    }

    #[test]
    fn only_lf_ends_a_line() {
        let read = lines(&["a\r\nb\u{2028}c\u{85}\x0bd\n\nlast".as_bytes()], 100);
        assert_eq!(read, [text("a"), text("b\u{2028}c\u{85}\x0bd"), text(""), text("last")]);
    }

    #[test]
    fn lines_are_the_same_byte_by_byte() {
        let input = "one\r\ntwo\u{2029}\nthree".as_bytes();
        let bytes: Vec<&[u8]> = input.chunks(1).collect();
        assert_eq!(lines(&bytes, 100), lines(&[input], 100));
    }

    #[test]
    fn line_over_the_limit_is_skipped_to_its_end() {
        let read = lines(&[b"12345\n123", b"456\n12\n1234567"], 5);
        assert_eq!(read, [text("12345"), Line::TooLong, text("12"), Line::TooLong]);
    }
}
