//! The lines of one file that a search shows: those that match and those around them, as much of
//! each as fits.

use std::io;

use grep_searcher::{Searcher, Sink, SinkContext, SinkMatch};

use crate::truncate::MAX_BYTES;
use crate::walk::SearchHit;

pub(super) const LINE_MAX_CHARS: usize = 500;

/// What one file has to show.
#[derive(Default)]
pub(super) struct Lines {
    lines: Vec<Line>,
    pub matches: usize,
    bytes: usize,
}

pub(super) struct Line {
    pub number: u64,
    pub text: String,
    /// Or one of those around it.
    pub is_match: bool,
    /// Whether the line goes on.
    pub cut: bool,
}

impl Lines {
    fn push(&mut self, number: Option<u64>, bytes: &[u8], is_match: bool) {
        self.matches += usize::from(is_match);
        // More than this is never shown; the matches still count.
        if self.bytes > 2 * MAX_BYTES {
            return;
        }
        let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        // No character is longer than four bytes, so this is enough to cut at the right one.
        let text = String::from_utf8_lossy(&bytes[..bytes.len().min(4 * LINE_MAX_CHARS + 4)]);
        let end = text.char_indices().nth(LINE_MAX_CHARS).map(|(at, _)| at);
        let text = match end {
            Some(end) => format!("{}... [truncated]", &text[..end]),
            None => text.into_owned(),
        };
        self.bytes += text.len();
        self.lines.push(Line { number: number.unwrap_or(0), text, is_match, cut: end.is_some() });
    }

    /// The lines of so many matches, with what is around them.
    pub(super) fn up_to(&self, matches: usize, context: usize) -> &[Line] {
        let mut found = self.lines.iter().enumerate().filter(|(_, line)| line.is_match);
        let Some(last) = matches.checked_sub(1).and_then(|before| found.nth(before)) else {
            return if matches == 0 { &[] } else { &self.lines };
        };
        // The next match does not belong to it, nor what is only before that.
        let end = found.next().map_or(self.lines.len(), |(next, _)| next);
        let around = last.1.number.saturating_add(context as u64);
        let end = self.lines[..end].partition_point(|line| line.number <= around);
        &self.lines[..end]
    }
}

impl SearchHit for Lines {
    fn count(&self) -> usize {
        self.matches
    }

    fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Sink for Lines {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        self.push(found.line_number(), found.bytes(), true);
        Ok(true)
    }

    fn context(&mut self, _: &Searcher, around: &SinkContext<'_>) -> io::Result<bool> {
        self.push(around.line_number(), around.bytes(), false);
        Ok(true)
    }
}
