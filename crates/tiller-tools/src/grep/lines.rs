//! The lines of one file in a search result: matches and their context, each line cut to the limit.

use std::io;

use grep_searcher::{Searcher, Sink, SinkContext, SinkMatch};
use tiller_agent::truncate::MAX_BYTES;

use crate::walk::SearchHit;

pub(super) const LINE_MAX_CHARS: usize = 500;

/// The lines found in one file.
#[derive(Default)]
pub(super) struct Lines {
    lines: Vec<Line>,
    pub matches: usize,
    bytes: usize,
}

pub(super) struct Line {
    pub number: u64,
    pub text: String,
    /// False for a context line.
    pub is_match: bool,
    /// Whether the line was cut.
    pub cut: bool,
}

impl Lines {
    fn push(&mut self, number: Option<u64>, bytes: &[u8], is_match: bool) {
        self.matches += usize::from(is_match);
        // More than this is never returned; matches are still counted.
        if self.bytes > 2 * MAX_BYTES {
            return;
        }
        let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        // A character has at most four bytes, so this is enough to cut at the right one.
        let text = String::from_utf8_lossy(&bytes[..bytes.len().min(4 * LINE_MAX_CHARS + 4)]);
        let end = text.char_indices().nth(LINE_MAX_CHARS).map(|(at, _)| at);
        let text = match end {
            Some(end) => format!("{}... [truncated]", &text[..end]),
            None => text.into_owned(),
        };
        self.bytes += text.len();
        self.lines.push(Line { number: number.unwrap_or(0), text, is_match, cut: end.is_some() });
    }

    /// The lines of this many matches, with their context.
    pub(super) fn up_to(&self, matches: usize, context: usize) -> &[Line] {
        let mut found = self.lines.iter().enumerate().filter(|(_, line)| line.is_match);
        let Some(last) = matches.checked_sub(1).and_then(|before| found.nth(before)) else {
            return if matches == 0 { &[] } else { &self.lines };
        };
        // Excludes the next match and the context before it.
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
