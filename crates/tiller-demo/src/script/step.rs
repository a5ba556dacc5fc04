//! The steps of a parsed answer, which the player takes in order.

use std::mem;
use std::time::Duration;

use tiller_agent::provider::{ProviderError, StreamEvent};

use super::expect::Expectation;

/// One step of an answer. A stream without further steps simply ends: a complete answer has
/// `StreamEvent::Done` as its last step.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    Event(StreamEvent),
    /// Everything that one line adds to a block, delta by delta.
    Deltas {
        index: usize,
        kind: BlockKind,
        pieces: Pieces,
        /// The delay before each delta.
        pace: Duration,
    },
    Wait(Duration),
    Expect(Expectation),
    Fail(ProviderError),
    /// Never ends, except by an abort.
    Hang,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum BlockKind {
    Text,
    Thinking,
    Call,
}

impl BlockKind {
    pub(crate) fn delta(self, index: usize, delta: String) -> StreamEvent {
        match self {
            BlockKind::Text => StreamEvent::TextDelta { index, delta },
            BlockKind::Thinking => StreamEvent::ThinkingDelta { index, delta },
            BlockKind::Call => StreamEvent::CallDelta { index, delta },
        }
    }
}

/// How a text is split into deltas.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) enum TextChunk {
    #[default]
    Whole,
    /// This many characters each.
    Chars(usize),
    /// One word each, with the white space before it.
    Words,
}

/// Longer words are split, as are texts in scripts without spaces.
const WORD_MAX_CHARS: usize = 24;

impl TextChunk {
    /// The length in bytes of the first delta of `text`.
    fn first(self, text: &str) -> usize {
        match self {
            TextChunk::Whole => text.len(),
            TextChunk::Chars(count) => end_of(text, count),
            TextChunk::Words => {
                let space = text.len() - text.trim_start().len();
                let word = text[space..].find(char::is_whitespace).unwrap_or(text.len() - space);
                space + end_of(&text[space..space + word], WORD_MAX_CHARS)
            }
        }
    }
}

/// The byte offset after the first `count` characters.
fn end_of(text: &str, count: usize) -> usize {
    text.char_indices().nth(count).map_or(text.len(), |(at, _)| at)
}

/// The deltas of one step, created on demand.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Pieces {
    Text {
        text: String,
        chunk: TextChunk,
        /// The offset of the next delta.
        at: usize,
    },
    /// `template` with `{i}` replaced by 1, 2, … `times`.
    Repeat {
        template: String,
        times: u32,
        given: u32,
    },
    Used,
}

impl Pieces {
    pub(crate) fn text(text: impl Into<String>, chunk: TextChunk) -> Pieces {
        Pieces::Text { text: text.into(), chunk, at: 0 }
    }

    pub(crate) fn repeat(template: impl Into<String>, times: u32) -> Pieces {
        Pieces::Repeat { template: template.into(), times, given: 0 }
    }
}

impl Iterator for Pieces {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        match self {
            Pieces::Text { text, chunk, at } => {
                let length = chunk.first(&text[*at..]);
                let end = *at + length;
                // The last delta ends the text. An empty text is one empty delta.
                if end < text.len() {
                    let piece = text[*at..end].to_owned();
                    *at = end;
                    return Some(piece);
                }
                let mut piece = mem::take(text);
                piece.drain(..*at);
                *self = Pieces::Used;
                Some(piece)
            }
            Pieces::Repeat { template, times, given } if *given < *times => {
                *given += 1;
                Some(template.replace("{i}", &given.to_string()))
            }
            Pieces::Repeat { .. } | Pieces::Used => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, chunk: TextChunk, expected: &[&str]) {
        assert_eq!(Pieces::text(text, chunk).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn texts_are_split_into_deltas() {
        check("", TextChunk::Whole, &[""]);
        check("", TextChunk::Chars(3), &[""]);
        check("one two", TextChunk::Whole, &["one two"]);
        check("äöüß", TextChunk::Chars(3), &["äöü", "ß"]);
        check("abcdef", TextChunk::Chars(3), &["abc", "def"]);
        check("one  two\nthree ", TextChunk::Words, &["one", "  two", "\nthree", " "]);
        check(&"語".repeat(50), TextChunk::Words, &[&"語".repeat(24), &"語".repeat(24), "語語"]);
    }

    #[test]
    fn deltas_join_to_the_text() {
        let text = "A text, with  two spaces,\n\n\ttabs and 日本語のことば。 \n";
        for chunk in (1..40).map(TextChunk::Chars).chain([TextChunk::Whole, TextChunk::Words]) {
            assert_eq!(Pieces::text(text, chunk).collect::<String>(), text, "{chunk:?}");
        }
    }

    #[test]
    fn template_index_starts_at_one() {
        let pieces: Vec<_> = Pieces::repeat("tok{i}/{i} ", 3).collect();
        assert_eq!(pieces, ["tok1/1 ", "tok2/2 ", "tok3/3 "]);
        assert_eq!(Pieces::repeat("x", 0).count(), 0);
    }
}
