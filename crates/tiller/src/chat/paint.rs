//! Colours, and text that a terminal cannot obey.

use tiller_tools::ansi::AnsiStripper;

/// How a text looks on a terminal with colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    Plain,
    Dim,
    Bold,
    Red,
    Green,
    Yellow,
    Cyan,
}

/// Adds colours, if the terminal has them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Paint {
    pub(super) has_color: bool,
}

impl Paint {
    pub(super) fn apply(self, tone: Tone, text: &str) -> String {
        let code = match tone {
            _ if !self.has_color || text.is_empty() => return text.to_owned(),
            Tone::Plain => return text.to_owned(),
            Tone::Bold => "1",
            Tone::Dim => "2",
            Tone::Red => "31",
            Tone::Green => "32",
            Tone::Yellow => "33",
            Tone::Cyan => "36",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}

/// Makes a text of a model, a tool or a file inert: without escape sequences, control characters,
/// and characters that reverse the direction of what follows.
#[derive(Default)]
pub(super) struct InertText {
    stripper: AnsiStripper,
}

impl InertText {
    /// The next part of a text. An escape sequence may begin in one part and end in another.
    pub(super) fn push(&mut self, text: &str) -> String {
        let mut plain = self.stripper.push(text.as_bytes());
        plain.retain(|c| !reverses(c));
        plain
    }
}

/// A whole text without what a terminal would obey. Line breaks stay.
pub(super) fn inert(text: &str) -> String {
    InertText::default().push(text)
}

fn reverses(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_inert() {
        for (text, expected) in [
            ("plain\ttext\n", "plain\ttext\n"),
            ("a\u{1b}[2Jb\u{7}c\r\nd", "abc\nd"),
            ("\u{1b}]0;title\u{7}after", "after"),
            ("\u{9b}31mred", "red"),
            ("user\u{202e}gpj.exe", "usergpj.exe"),
        ] {
            assert_eq!(inert(text), expected);
        }
    }

    #[test]
    fn escape_sequence_in_two_parts_is_left_out() {
        let mut text = InertText::default();
        assert_eq!(text.push("a\u{1b}["), "a");
        assert_eq!(text.push("31mb"), "b");
    }
}
