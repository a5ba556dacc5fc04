//! Server-sent events: bytes in, events out, however the bytes were split into chunks.
//!
//! This follows the WHATWG's specification of `text/event-stream`: lines end with LF, CR or CRLF, a
//! blank line ends an event, and an event that is cut off by the end of the stream is dropped. `id`
//! and `retry` are for reconnecting, which a model's answer cannot do, so they are ignored.

use std::borrow::Cow;

/// More than any answer sends at once. It keeps a broken server from exhausting memory.
const EVENT_MAX_BYTES: usize = 64 << 20;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Event<'a> {
    /// The value of `event:`; empty if it is absent.
    pub name: &'a str,
    pub data: &'a str,
}

/// Assembles events from chunks. Every byte is scanned once and copied at most twice.
#[derive(Debug, Default)]
pub(crate) struct SseDecoder {
    /// The beginning of a line whose end has not arrived.
    line: Vec<u8>,
    /// The last chunk ended with CR; a LF at the start of the next one belongs to it.
    after_cr: bool,
    /// A byte order mark is allowed only before the first line.
    past_first_line: bool,
    name: Vec<u8>,
    data: Vec<u8>,
    /// Whether there was a `data` line: an empty one makes an event, none does not.
    has_data: bool,
}

/// One event is larger than [`EVENT_MAX_BYTES`].
#[derive(Debug, PartialEq)]
pub(crate) struct TooLarge;

impl SseDecoder {
    /// Parses the next bytes and passes on every event they complete. Stops at the first error.
    pub(crate) fn push<E: From<TooLarge>>(
        &mut self,
        bytes: &[u8],
        mut each: impl FnMut(Event<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut rest = bytes;
        if self.after_cr && !rest.is_empty() {
            self.after_cr = false;
            rest = rest.strip_prefix(b"\n").unwrap_or(rest);
        }
        while let Some(end) = memchr::memchr2(b'\n', b'\r', rest) {
            let head = &rest[..end];
            let tail = &rest[end + 1..];
            rest = match (rest[end], tail.first()) {
                (b'\r', Some(b'\n')) => &tail[1..],
                (b'\r', None) => {
                    self.after_cr = true;
                    tail
                }
                _ => tail,
            };
            if self.line.is_empty() {
                self.take_line(head, &mut each)?;
            } else {
                let mut line = std::mem::take(&mut self.line);
                line.extend_from_slice(head);
                self.take_line(&line, &mut each)?;
                line.clear();
                self.line = line;
            }
        }
        self.line.extend_from_slice(rest);
        self.check_size(self.line.len())
    }

    fn take_line<E: From<TooLarge>>(
        &mut self,
        mut line: &[u8],
        each: &mut impl FnMut(Event<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if !self.past_first_line {
            self.past_first_line = true;
            line = line.strip_prefix("\u{FEFF}".as_bytes()).unwrap_or(line);
        }
        if line.is_empty() {
            return self.end_event(each);
        }
        let (field, value) = match memchr::memchr(b':', line) {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &[][..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => {
                self.check_size(value.len())?;
                if self.has_data {
                    self.data.push(b'\n');
                }
                self.has_data = true;
                self.data.extend_from_slice(value);
            }
            b"event" => {
                self.name.clear();
                self.name.extend_from_slice(value);
            }
            // Comments (fields without a name), `id`, `retry`, and unknown fields.
            _ => (),
        }
        Ok(())
    }

    fn end_event<E>(&mut self, each: &mut impl FnMut(Event<'_>) -> Result<(), E>) -> Result<(), E> {
        let result = if self.has_data {
            let (name, data) = (text(&self.name), text(&self.data));
            each(Event { name: &name, data: &data })
        } else {
            Ok(())
        };
        self.name.clear();
        self.data.clear();
        self.has_data = false;
        result
    }

    fn check_size<E: From<TooLarge>>(&self, more: usize) -> Result<(), E> {
        if self.data.len() + more > EVENT_MAX_BYTES { Err(TooLarge.into()) } else { Ok(()) }
    }
}

/// Invalid UTF-8 becomes U+FFFD, as in a browser.
fn text(bytes: &[u8]) -> Cow<'_, str> {
    // Validating is several times faster than repairing, which is rarely needed.
    match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => String::from_utf8_lossy(bytes),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    /// Decodes whole, then split at every offset, then byte by byte; all must agree.
    fn check(input: impl AsRef<[u8]>, expect: Expect) {
        let input = input.as_ref();
        let whole = decode(&[input]);
        for cut in 0..=input.len() {
            assert_eq!(decode(&[&input[..cut], &input[cut..]]), whole, "cut at {cut}");
        }
        assert_eq!(decode(&input.chunks(1).collect::<Vec<_>>()), whole, "byte by byte");
        expect.assert_eq(&whole);
    }

    fn decode(chunks: &[&[u8]]) -> String {
        let mut decoder = SseDecoder::default();
        let mut printed = String::new();
        for chunk in chunks {
            decoder
                .push(chunk, |event| {
                    printed += &format!("{:?} {:?}\n", event.name, event.data);
                    Ok::<_, TooLarge>(())
                })
                .unwrap();
        }
        printed
    }

    #[test]
    fn all_line_ends_are_accepted() {
        check(
            "event: a\ndata: 1\n\nevent: b\r\ndata: 2\r\n\r\nevent: c\rdata: 3\r\rdata: 4\n\r\n",
            expect![[r#"
                "a" "1"
                "b" "2"
                "c" "3"
                "" "4"
            "#]],
        );
    }

    #[test]
    fn several_data_lines_are_one_text() {
        check(
            "data: one\ndata:two\ndata\ndata:  four\n\n",
            expect![[r#"
                "" "one\ntwo\n\n four"
            "#]],
        );
    }

    #[test]
    fn comments_and_unknown_fields_are_ignored() {
        check(
            ": keep-alive\n\n:\n\nid: 7\nretry: 10\nevent: lonely\n\nnonsense\ndata: x\n\n",
            expect![[r#"
                "" "x"
            "#]],
        );
    }

    #[test]
    fn event_needs_a_data_line() {
        check(
            "data:\n\ndata\n\nevent: e\n\n\n\n",
            expect![[r#"
                "" ""
                "" ""
            "#]],
        );
    }

    #[test]
    fn byte_order_mark_is_skipped_only_at_the_start() {
        check(
            "\u{FEFF}data: a\n\n\u{FEFF}data: b\n\n",
            expect![[r#"
                "" "a"
            "#]],
        );
    }

    #[test]
    fn characters_may_be_split_between_chunks() {
        check(
            "data: hé 日本 😀\n\n",
            expect![[r#"
                "" "hé 日本 😀"
            "#]],
        );
    }

    #[test]
    fn invalid_utf8_is_replaced() {
        check(
            b"data: a\xFFb\xED\xA0\xBD\n\n",
            expect![[r#"
                "" "a�b���"
            "#]],
        );
    }

    #[test]
    fn unterminated_event_is_dropped() {
        check(
            "data: whole\n\ndata: half\n",
            expect![[r#"
                "" "whole"
            "#]],
        );
    }

    #[test]
    fn too_large_event_is_refused() {
        let line = [b"data: ".as_slice(), &[b'x'; 1 << 20], b"\n"].concat();
        let mut decoder = SseDecoder::default();
        let mut push = |bytes| decoder.push(bytes, |_| Ok::<_, TooLarge>(()));
        let taken = (0..100).take_while(|_| push(&line).is_ok()).count();
        assert_eq!(taken, 63, "64 MiB, less the line feeds between");

        let mut decoder = SseDecoder::default();
        let mut push = |bytes| decoder.push(bytes, |_| Ok::<_, TooLarge>(()));
        assert!((0..100).any(|_| push(&[b'x'; 1 << 20]) == Err(TooLarge)), "a line without end");
    }

    #[test]
    fn error_stops_the_chunk() {
        let mut seen = 0;
        let result = SseDecoder::default().push(b"data: 1\n\ndata: 2\n\n", |_| {
            seen += 1;
            Err(TooLarge)
        });
        assert_eq!((result, seen), (Err(TooLarge), 1));
    }
}
