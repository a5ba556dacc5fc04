//! Expressions with look-around or back-references, which the automaton cannot match.
//!
//! Where the automaton finds their approximation, they are tried on the end of the text, at most 64
//! KB of it, when a block ends and after every further 32 KB. So each byte is searched a fixed
//! number of times, a match of up to 32 KB is always found, and the search positions do not depend
//! on how the text was split into deltas. A search in mid-text ignores the last KB: text that
//! follows may still invalidate the match.

use fancy_regex::{Regex, RegexBuilder};

const WINDOW_BYTES: usize = 64 << 10;
const STEP_BYTES: usize = 32 << 10;
const UNSURE_BYTES: usize = 1 << 10;
/// After this many backtracking steps an expression counts as not matching.
const BACKTRACK_MAX: usize = 1_000_000;

/// An expression that needs the text itself.
#[derive(Debug)]
pub(super) struct Backtracking(Regex);

impl Backtracking {
    pub(super) fn read(regex: &str) -> Result<Backtracking, String> {
        let built = RegexBuilder::new(regex).backtrack_limit(BACKTRACK_MAX).build();
        built.map(Backtracking).map_err(|err| err.to_string())
    }
}

/// A text to search.
#[derive(Clone, Copy)]
pub(super) struct MatchWindow<'a> {
    text: &'a str,
    /// A match must end before this offset.
    end_max: usize,
}

impl MatchWindow<'_> {
    pub(super) fn finds(&self, expression: &Backtracking) -> bool {
        // An expression that exceeds the limit does not match.
        let found = expression.0.find(self.text).ok().flatten();
        found.is_some_and(|found| found.end() <= self.end_max)
    }
}

/// The end of a stream.
#[derive(Default)]
pub(super) struct Window {
    text: String,
    /// Bytes since the last search.
    fresh_bytes: usize,
}

impl Window {
    /// Reads a delta, and calls `search` when a search is due.
    pub(super) fn read(&mut self, mut delta: &str, mut search: impl FnMut(MatchWindow<'_>)) {
        while self.fresh_bytes + delta.len() >= STEP_BYTES {
            let mut at = STEP_BYTES - self.fresh_bytes;
            while !delta.is_char_boundary(at) {
                at += 1;
            }
            self.text.push_str(&delta[..at]);
            delta = &delta[at..];
            let end_max = self.text.len().saturating_sub(UNSURE_BYTES);
            search(MatchWindow { text: &self.text, end_max });
            self.fresh_bytes = 0;
            let cut = self.text.len().saturating_sub(WINDOW_BYTES);
            let cut = (cut..).find(|&cut| self.text.is_char_boundary(cut)).unwrap_or(0);
            self.text.drain(..cut);
        }
        self.text.push_str(delta);
        self.fresh_bytes += delta.len();
    }

    /// Ends the text, at least for now.
    pub(super) fn end(&self) -> MatchWindow<'_> {
        MatchWindow { text: &self.text, end_max: self.text.len() }
    }
}
