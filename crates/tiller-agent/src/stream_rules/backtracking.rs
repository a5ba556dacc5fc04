//! What no automaton can do: expressions that look ahead, behind or back.
//!
//! Where the automaton thinks it worth while, they are tried over the end of the text, at most
//! 64 KB of it, when a block ends and each time another 32 KB have come. So they cost a fixed number of looks at each byte, a match of up to
//! 32 KB is always found, and the places of the looks do not depend on how the text was cut into
//! deltas. A look in mid-text leaves the last KB alone: what follows may still speak against it.

use fancy_regex::{Regex, RegexBuilder};

const WINDOW_BYTES: usize = 64 << 10;
const STEP_BYTES: usize = 32 << 10;
const UNSURE_BYTES: usize = 1 << 10;
/// After so many wrong turns an expression is taken not to match.
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

/// A text to look into.
#[derive(Clone, Copy)]
pub(super) struct MatchWindow<'a> {
    text: &'a str,
    /// A match must end by then.
    end_max: usize,
}

impl MatchWindow<'_> {
    pub(super) fn finds(&self, expression: &Backtracking) -> bool {
        // An expression that cannot be decided does not match.
        let found = expression.0.find(self.text).ok().flatten();
        found.is_some_and(|found| found.end() <= self.end_max)
    }
}

/// The end of a stream.
#[derive(Default)]
pub(super) struct Window {
    text: String,
    /// What has come since the last look.
    fresh_bytes: usize,
}

impl Window {
    /// Reads on, and has `look` look when it is time to.
    pub(super) fn read(&mut self, mut delta: &str, mut look: impl FnMut(MatchWindow<'_>)) {
        while self.fresh_bytes + delta.len() >= STEP_BYTES {
            let mut at = STEP_BYTES - self.fresh_bytes;
            while !delta.is_char_boundary(at) {
                at += 1;
            }
            self.text.push_str(&delta[..at]);
            delta = &delta[at..];
            let end_max = self.text.len().saturating_sub(UNSURE_BYTES);
            look(MatchWindow { text: &self.text, end_max });
            self.fresh_bytes = 0;
            let cut = self.text.len().saturating_sub(WINDOW_BYTES);
            let cut = (cut..).find(|&cut| self.text.is_char_boundary(cut)).unwrap_or(0);
            self.text.drain(..cut);
        }
        self.text.push_str(delta);
        self.fresh_bytes += delta.len();
    }

    /// The text ends here, at least for now.
    pub(super) fn end(&self) -> MatchWindow<'_> {
        MatchWindow { text: &self.text, end_max: self.text.len() }
    }
}
