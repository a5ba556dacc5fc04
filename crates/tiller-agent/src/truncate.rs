//! Truncates long texts for the model, for tools and for extensions: keeps the head of a file, or the tail of a command's output.
//! Cuts fall between lines and never inside a character.
//!
//! A line ends with `\n`; text after the last one is a line only if it is not empty.

use serde::Serialize;

pub const MAX_LINES: usize = 2000;
pub const MAX_BYTES: usize = 50 * 1024;

/// What was kept of a text and why. Sent to the client in `details.truncation`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Truncation {
    pub content: String,
    pub truncated: bool,
    pub truncated_by: Option<TruncatedBy>,
    pub total_lines: usize,
    pub total_bytes: usize,
    pub output_lines: usize,
    pub output_bytes: usize,
    /// The only line shown is itself cut; only by `tail`.
    pub last_line_partial: bool,
    /// Nothing is shown, because the first line alone is too long; only by `head`.
    pub first_line_exceeds_limit: bool,
    pub max_lines: usize,
    pub max_bytes: usize,
}

impl Truncation {
    /// Drops a final newline that is over the byte limit. Tools show it; in pi it counts.
    pub fn without_excess_newline(mut self) -> Truncation {
        if self.output_bytes > self.max_bytes && self.content.ends_with('\n') {
            self.content.pop();
            self.output_bytes -= 1;
            self.truncated = true;
            self.truncated_by = Some(TruncatedBy::Bytes);
        }
        self
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TruncatedBy {
    Lines,
    Bytes,
}

/// The size of a text of which perhaps only one end is in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TextSize {
    pub lines: usize,
    pub bytes: usize,
}

impl TextSize {
    pub fn of(text: &str) -> TextSize {
        let newlines = memchr::memchr_iter(b'\n', text.as_bytes()).count();
        let unfinished = !text.is_empty() && !text.ends_with('\n');
        TextSize { lines: newlines + usize::from(unfinished), bytes: text.len() }
    }
}

/// The limits for everything the model reads.
#[derive(Clone, Copy, Debug)]
pub struct TextLimits {
    pub lines: usize,
    pub bytes: usize,
}

impl TextLimits {
    pub const TEXT: TextLimits = TextLimits { lines: MAX_LINES, bytes: MAX_BYTES };
    /// For lists whose length has a limit of its own. The number is JavaScript's largest safe
    /// integer.
    pub const LIST: TextLimits = TextLimits { lines: (1 << 53) - 1, bytes: MAX_BYTES };
}

/// Keeps whole lines from the start. `text` may be just the beginning of a text of size `total`, as
/// long as it is longer than the limits.
pub fn head(text: &str, total: TextSize, limits: TextLimits) -> Truncation {
    let mut end = 0;
    let mut lines = 0;
    let mut cut = None;
    while lines < total.lines {
        if lines == limits.lines {
            cut = Some(TruncatedBy::Lines);
            break;
        }
        // The newline before this line counts only once the line itself is kept.
        let start = if lines == 0 { 0 } else { end + 1 };
        let rest = text.get(start..).unwrap_or_default();
        let stop = start + memchr::memchr(b'\n', rest.as_bytes()).unwrap_or(rest.len());
        if stop > limits.bytes {
            cut = Some(TruncatedBy::Bytes);
            break;
        }
        end = stop;
        lines += 1;
    }
    let content = if cut.is_some() { &text[..end] } else { text };
    Truncation {
        first_line_exceeds_limit: cut == Some(TruncatedBy::Bytes) && lines == 0,
        ..truncation(content, lines, cut, total, limits)
    }
}

/// Keeps whole lines from the end, or the end of the last one if it alone is too long. `text` may
/// be just the end of a text of size `total`, as long as it is longer than the limits.
pub fn tail(text: &str, total: TextSize, limits: TextLimits) -> Truncation {
    let body = text.strip_suffix('\n').unwrap_or(text);
    let mut start = body.len();
    let mut lines = 0;
    let mut cut = None;
    while lines < total.lines {
        if lines == limits.lines {
            cut = Some(TruncatedBy::Lines);
            break;
        }
        let stop = if lines == 0 { body.len() } else { start.saturating_sub(1) };
        let first = memchr::memrchr(b'\n', &body.as_bytes()[..stop]).map_or(0, |at| at + 1);
        if body.len() - first > limits.bytes {
            cut = Some(TruncatedBy::Bytes);
            break;
        }
        start = first;
        lines += 1;
    }
    if cut.is_none() {
        return truncation(text, lines, None, total, limits);
    }
    if lines > 0 {
        return truncation(&body[start..], lines, cut, total, limits);
    }
    let too_much = body.len() - limits.bytes;
    let start = (too_much..body.len()).find(|&at| body.is_char_boundary(at)).unwrap_or(body.len());
    let end_of_line = &body[start..];
    Truncation { last_line_partial: true, ..truncation(end_of_line, 1, cut, total, limits) }
}

fn truncation(
    content: &str,
    lines: usize,
    cut: Option<TruncatedBy>,
    total: TextSize,
    limits: TextLimits,
) -> Truncation {
    Truncation {
        content: content.to_owned(),
        truncated: cut.is_some(),
        truncated_by: cut,
        total_lines: total.lines,
        total_bytes: total.bytes,
        output_lines: lines,
        output_bytes: content.len(),
        last_line_partial: false,
        first_line_exceeds_limit: false,
        max_lines: limits.lines,
        max_bytes: limits.bytes,
    }
}

/// `512B`, `58.6KB`, `1.0MB`.
pub fn size_text(bytes: usize) -> String {
    const KB: usize = 1024;
    const MB: usize = KB * KB;
    let unit = match bytes {
        0..KB => return format!("{bytes}B"),
        KB..MB => KB,
        _ => MB,
    };
    // As in JavaScript, a half is rounded up.
    let tenths = (bytes.saturating_mul(10) + unit / 2) / unit;
    let name = if unit == KB { "KB" } else { "MB" };
    format!("{}.{}{name}", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use proptest::prelude::*;

    use super::*;

    const SMALL: TextLimits = TextLimits { lines: 3, bytes: 10 };

    fn check(texts: &[&str], expect: Expect) {
        let mut report = String::new();
        for text in texts {
            report += &format!("{text:?}\n");
            let total = TextSize::of(text);
            for (end, t) in [("head", head(text, total, SMALL)), ("tail", tail(text, total, SMALL))]
            {
                let by = match t.truncated_by {
                    None => "all",
                    Some(TruncatedBy::Lines) => "lines",
                    Some(TruncatedBy::Bytes) => "bytes",
                };
                let odd = match (t.last_line_partial, t.first_line_exceeds_limit) {
                    (true, _) => ", partial",
                    (_, true) => ", first line too long",
                    _ => "",
                };
                let (shown, of) = (t.output_lines, t.total_lines);
                report += &format!("  {end} {:?} {by}, {shown} of {of}{odd}\n", t.content);
            }
        }
        expect.assert_eq(&report);
    }

    #[test]
    fn head_and_tail() {
        check(
            &[
                "",
                "\n",
                "a",
                "a\nb\nc\n",
                "a\nb\nc\nd",
                "a\nb\nc\nd\n",
                "1234567890",
                "1234567890\n",
                "12345678901",
                "12345\n12345",
                "123\n456\n789\n",
                "12345\n12\n",
                "aéééééé",
                "12345678901\nb",
                "a\n12345678901\n",
                "\n\n\n\n",
            ],
            expect![[r#"
                ""
                  head "" all, 0 of 0
                  tail "" all, 0 of 0
                "\n"
                  head "\n" all, 1 of 1
                  tail "\n" all, 1 of 1
                "a"
                  head "a" all, 1 of 1
                  tail "a" all, 1 of 1
                "a\nb\nc\n"
                  head "a\nb\nc\n" all, 3 of 3
                  tail "a\nb\nc\n" all, 3 of 3
                "a\nb\nc\nd"
                  head "a\nb\nc" lines, 3 of 4
                  tail "b\nc\nd" lines, 3 of 4
                "a\nb\nc\nd\n"
                  head "a\nb\nc" lines, 3 of 4
                  tail "b\nc\nd" lines, 3 of 4
                "1234567890"
                  head "1234567890" all, 1 of 1
                  tail "1234567890" all, 1 of 1
                "1234567890\n"
                  head "1234567890\n" all, 1 of 1
                  tail "1234567890\n" all, 1 of 1
                "12345678901"
                  head "" bytes, 0 of 1, first line too long
                  tail "2345678901" bytes, 1 of 1, partial
                "12345\n12345"
                  head "12345" bytes, 1 of 2
                  tail "12345" bytes, 1 of 2
                "123\n456\n789\n"
                  head "123\n456" bytes, 2 of 3
                  tail "456\n789" bytes, 2 of 3
                "12345\n12\n"
                  head "12345\n12\n" all, 2 of 2
                  tail "12345\n12\n" all, 2 of 2
                "aéééééé"
                  head "" bytes, 0 of 1, first line too long
                  tail "ééééé" bytes, 1 of 1, partial
                "12345678901\nb"
                  head "" bytes, 0 of 2, first line too long
                  tail "b" bytes, 1 of 2
                "a\n12345678901\n"
                  head "a" bytes, 1 of 2
                  tail "2345678901" bytes, 1 of 2, partial
                "\n\n\n\n"
                  head "\n\n" lines, 3 of 4
                  tail "\n\n" lines, 3 of 4
            "#]],
        );
    }

    #[test]
    fn sizes() {
        let sizes = [0, 1023, 1024, 1280, 60_000, 51_200, 1_048_575, 1_048_576, 5_000_000_000];
        assert_eq!(
            sizes.map(size_text),
            ["0B", "1023B", "1.0KB", "1.3KB", "58.6KB", "50.0KB", "1024.0KB", "1.0MB", "4768.4MB"]
        );
    }

    #[test]
    fn truncation_serialises_as_in_pi() {
        let truncation = tail("a\nb\nc\nd\n", TextSize { lines: 4, bytes: 8 }, SMALL);
        assert_eq!(
            serde_json::to_string(&truncation).unwrap(),
            r#"{"content":"b\nc\nd","truncated":true,"truncatedBy":"lines","totalLines":4,"totalBytes":8,"outputLines":3,"outputBytes":5,"lastLinePartial":false,"firstLineExceedsLimit":false,"maxLines":3,"maxBytes":10}"#
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn kept_text_is_within_limits_and_an_end_of_the_text(text in "([a-zé]{0,4}\n?){0,6}") {
            let total = TextSize::of(&text);
            let (head, tail) = (head(&text, total, SMALL), tail(&text, total, SMALL));
            prop_assert!(text.starts_with(&head.content));
            prop_assert!(text.trim_end_matches('\n').ends_with(tail.content.trim_end_matches('\n')));
            for t in [head, tail] {
                prop_assert_eq!(t.truncated, t.truncated_by.is_some());
                prop_assert_eq!(t.truncated || t.content == text, true);
                prop_assert!(t.output_lines <= SMALL.lines);
                prop_assert!(t.content.trim_end_matches('\n').len() <= SMALL.bytes);
                prop_assert_eq!(t.output_bytes, t.content.len());
            }
        }
    }
}
