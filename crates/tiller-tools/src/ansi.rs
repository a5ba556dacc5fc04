//! Converts a command's output to plain text: decodes UTF-8 and removes terminal escape sequences.
//! Chunks may end anywhere, inside a character or an escape sequence.

use std::str;

/// Converts chunks of output to text.
#[derive(Default)]
pub struct AnsiStripper {
    /// The first bytes of a character whose rest has not arrived yet.
    partial: Vec<u8>,
    state: State,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Text,
    /// After ESC.
    Escape,
    /// After `ESC [`: parameters, then a final letter.
    Sequence,
    /// After `ESC ]` and similar: a string, up to BEL or `ESC \`.
    String,
    /// ESC inside such a string.
    StringEscape,
}

impl AnsiStripper {
    /// The text of the next chunk.
    pub fn push(&mut self, bytes: &[u8]) -> String {
        let mut text = String::with_capacity(bytes.len() + self.partial.len());
        if self.partial.is_empty() {
            self.decode(bytes, &mut text);
        } else {
            let mut joined = std::mem::take(&mut self.partial);
            joined.extend_from_slice(bytes);
            self.decode(&joined, &mut text);
        }
        text
    }

    /// An incomplete character becomes a replacement character.
    pub fn finish(&mut self) -> String {
        let rest = std::mem::take(&mut self.partial);
        if rest.is_empty() || self.state != State::Text {
            String::new()
        } else {
            "\u{fffd}".to_owned()
        }
    }

    fn decode(&mut self, bytes: &[u8], text: &mut String) {
        let mut rest = bytes;
        loop {
            match str::from_utf8(rest) {
                Ok(valid) => return self.strip(valid, text),
                Err(err) => {
                    let (valid, after) = rest.split_at(err.valid_up_to());
                    self.strip(str::from_utf8(valid).unwrap_or_default(), text);
                    let Some(bad) = err.error_len() else {
                        self.partial = after.to_vec();
                        return;
                    };
                    self.strip("\u{fffd}", text);
                    rest = &after[bad..];
                }
            }
        }
    }

    fn strip(&mut self, from: &str, text: &mut String) {
        let is_plain = |byte: &u8| matches!(byte, b'\t' | b'\n' | b' '..=b'~');
        // Fast path: most output contains no control characters.
        if self.state == State::Text && from.as_bytes().iter().all(is_plain) {
            text.push_str(from);
            return;
        }
        text.extend(from.chars().filter(|&c| self.is_text(c)));
    }

    fn is_text(&mut self, c: char) -> bool {
        let (state, keep) = match (self.state, c) {
            (State::StringEscape, '\\') => (State::Text, false),
            (_, '\u{1b}') if self.state == State::String => (State::StringEscape, false),
            (_, '\u{1b}') => (State::Escape, false),
            (State::Escape | State::StringEscape, '[') => (State::Sequence, false),
            (State::Escape | State::StringEscape, ']' | 'P' | 'X' | '^' | '_') => {
                (State::String, false)
            }
            // Intermediate characters of a two-letter command.
            (State::Escape, ' '..='/') => (State::Escape, false),
            (State::Escape | State::StringEscape, '0'..='~') => (State::Text, false),
            (State::Sequence, ' '..='?') => (State::Sequence, false),
            (State::Sequence, '@'..='~') => (State::Text, false),
            // An unterminated string must not swallow the rest of the output.
            (State::String, '\u{7}' | '\u{9c}') => (State::Text, false),
            (State::String, '\n') => (State::Text, true),
            (State::String, _) => (State::String, false),
            (State::Text, '\u{9b}') => (State::Sequence, false),
            (_, '\t' | '\n') => (State::Text, true),
            (_, '\u{fff9}'..='\u{fffb}') => (State::Text, false),
            (_, c) => (State::Text, !c.is_control()),
        };
        self.state = state;
        keep
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    /// Whole, and then byte by byte: the results must be equal.
    fn check(outputs: &[&[u8]], expect: Expect) {
        let lines = outputs.iter().map(|&output| {
            let mut plain = AnsiStripper::default();
            let whole = plain.push(output) + &plain.finish();
            let mut plain = AnsiStripper::default();
            let pieces: String = output.chunks(1).map(|byte| plain.push(byte)).collect();
            assert_eq!(pieces + &plain.finish(), whole);
            format!("{whole:?}\n")
        });
        expect.assert_eq(&lines.collect::<String>());
    }

    #[test]
    fn escape_sequences_are_removed() {
        check(
            &[
                b"plain\ttext\n",
                b"\x1b[31mred\x1b[0m\n\xc3\xa9",
                b"\x1b[38;2;1;2;3mx\x1b[?25l\x1b[2Ky",
                b"\x1b]0;title\x07a\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\b",
                b"\x1bPdevice\x1b\\c\x1b(Bd\x1b7e\x1b=f",
                b"10%\r20%\r\n\x00\x08\x7fx",
                b"\x1b]0;never ends\nnext line",
                b"\xef\xbf\xb9a\xef\xbf\xbbb",
                b"\xc2\x9b1mx\xc2\x85y",
                b"ends in \x1b[3",
            ],
            expect![[r#"
                "plain\ttext\n"
                "red\né"
                "xy"
                "alinkb"
                "cdef"
                "10%20%\nx"
                "\nnext line"
                "ab"
                "xy"
                "ends in "
            "#]],
        );
    }

    #[test]
    fn utf8_is_decoded_across_chunks() {
        check(
            &[
                "日本語 😀".as_bytes(),
                b"caf\xe9 au lait",
                b"cut \xf0\x9f\x98",
                b"\xff\xfe",
                b"\xe2\x28\xa1",
            ],
            expect![[r#"
                "日本語 😀"
                "caf� au lait"
                "cut �"
                "��"
                "�(�"
            "#]],
        );
    }
}
