//! Finds where the edits belong in a file, and applies them.
//!
//! All edits are matched against the original file. Models sometimes write straight quotes where
//! the file has curly ones, or drop spaces at the end of a line; so if a text is not found exactly,
//! all edits are matched against a normalised copy. Only lines that an edit touches are rewritten:
//! every other byte of the file stays.

use std::borrow::Cow;
use std::ops::Range;

use unicode_normalization::UnicodeNormalization;

use super::Replacement;
use crate::path::is_odd_space;

/// Returns the edited file, or an error text for the model, which calls the file `name`.
pub(super) fn edited(file: &str, edits: &[Replacement], name: &str) -> Result<String, String> {
    if edits.is_empty() {
        return Err(
            "Edit tool input is invalid. edits must contain at least one replacement.".to_owned()
        );
    }
    let refusal = Refusal { name, only: edits.len() == 1 };
    let edits: Vec<Replacement> = edits
        .iter()
        .map(|edit| Replacement {
            old_text: lf(&edit.old_text).into_owned(),
            new_text: lf(&edit.new_text).into_owned(),
        })
        .collect();
    if let Some(index) = edits.iter().position(|edit| edit.old_text.is_empty()) {
        return Err(refusal.empty(index));
    }
    let (mark, text) = match file.strip_prefix('\u{feff}') {
        Some(text) => ("\u{feff}", text),
        None => ("", file),
    };
    let exact = lf(text);
    let alike = alike(&exact);
    let as_written = edits.iter().all(|edit| exact.contains(&edit.old_text));
    let base = if as_written { &exact } else { &alike };

    let mut spans = Vec::with_capacity(edits.len());
    for (index, edit) in edits.iter().enumerate() {
        let sought = if as_written {
            Cow::Borrowed(edit.old_text.as_str())
        } else {
            self::alike(&edit.old_text)
        };
        let start = if sought.is_empty() { None } else { base.find(&*sought) };
        let start = start.ok_or_else(|| refusal.not_found(index))?;
        let count = occurrences(&exact, &alike, &edit.old_text);
        if count > 1 {
            return Err(refusal.ambiguous(index, count));
        }
        spans.push(Span { range: start..start + sought.len(), new: &edit.new_text, index });
    }
    spans.sort_by_key(|span| span.range.start);
    for pair in spans.windows(2) {
        if pair[0].range.end > pair[1].range.start {
            return Err(refusal.overlap(pair[0].index, pair[1].index));
        }
    }
    let new = format!("{mark}{}", rewrite(text, base, &spans));
    if new == file {
        return Err(refusal.unchanged());
    }
    Ok(new)
}

/// The text with every line ending as `\n`.
pub(super) fn lf(text: &str) -> Cow<'_, str> {
    if !text.contains('\r') {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.replace("\r\n", "\n").replace('\r', "\n"))
}

/// A text that occurs twice after normalisation is ambiguous, even if only one occurrence matches
/// exactly: the model may not have seen the difference.
fn occurrences(exact: &str, alike: &str, old: &str) -> usize {
    let sought = self::alike(old);
    let approximate = if sought.is_empty() { 0 } else { alike.matches(&*sought).count() };
    approximate.max(exact.matches(old).count())
}

/// The text without invisible differences. Has the same number of lines.
fn alike(text: &str) -> Cow<'_, str> {
    let is_plain = |line: &str| line.is_ascii() && line.trim_end() == line;
    if text.split('\n').all(is_plain) {
        return Cow::Borrowed(text);
    }
    let mut alike = String::with_capacity(text.len());
    for (index, line) in text.split('\n').enumerate() {
        if index > 0 {
            alike.push('\n');
        }
        if line.is_ascii() {
            alike.push_str(line.trim_end());
        } else {
            let line: String = line.nfkc().map(plain).collect();
            alike.push_str(line.trim_end());
        }
    }
    Cow::Owned(alike)
}

fn plain(c: char) -> char {
    match c {
        '\u{2018}'..='\u{201b}' => '\'',
        '\u{201c}'..='\u{201f}' => '"',
        '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
        c if is_odd_space(c) => ' ',
        c => c,
    }
}

/// Where one edit is applied.
struct Span<'e> {
    range: Range<usize>,
    new: &'e str,
    index: usize,
}

/// Applies the edits. `base` has the same lines as `text`, perhaps normalised; `spans` are ranges
/// of it, sorted and without overlap.
fn rewrite(text: &str, base: &str, spans: &[Span<'_>]) -> String {
    let ending = line_ending(text);
    let originals: Vec<&str> = lines(text).collect();
    let starts: Vec<usize> = line_starts(base);
    let line_of = |at: usize| starts.partition_point(|&start| start <= at) - 1;
    let start_of = |line: usize| starts.get(line).copied().unwrap_or(base.len());

    let mut new = String::with_capacity(text.len());
    let mut next_line = 0;
    let mut spans = spans.iter().peekable();
    while let Some(span) = spans.next() {
        let first = line_of(span.range.start);
        let mut last = line_of(span.range.end - 1);
        new.extend(originals[next_line..first].iter().copied());
        let mut rewritten = base[start_of(first)..span.range.start].to_owned() + span.new;
        let mut done = span.range.end;
        while let Some(span) = spans.next_if(|span| line_of(span.range.start) <= last) {
            rewritten += &base[done..span.range.start];
            rewritten += span.new;
            done = span.range.end;
            last = line_of(span.range.end - 1);
        }
        rewritten += &base[done..start_of(last + 1)];
        if ending == "\n" {
            new.push_str(&rewritten);
        } else {
            new.push_str(&rewritten.replace('\n', ending));
        }
        next_line = last + 1;
    }
    new.extend(originals[next_line..].iter().copied());
    new
}

/// The file's line ending, taken from its first line.
fn line_ending(text: &str) -> &'static str {
    match text.find('\n') {
        Some(at) if text[..at].ends_with('\r') => "\r\n",
        None if text.contains('\r') => "\r",
        _ => "\n",
    }
}

/// The lines with their endings, of whatever kind.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let bytes = rest.as_bytes();
        let end = match memchr::memchr2(b'\n', b'\r', bytes) {
            Some(at) if bytes[at..].starts_with(b"\r\n") => at + 2,
            Some(at) => at + 1,
            None => rest.len(),
        };
        let (line, after) = rest.split_at(end);
        rest = after;
        (!line.is_empty()).then_some(line)
    })
}

fn line_starts(text: &str) -> Vec<usize> {
    let after = memchr::memchr_iter(b'\n', text.as_bytes()).map(|at| at + 1);
    std::iter::once(0).chain(after).filter(|&start| start < text.len()).collect()
}

/// Error texts in the wording that models know from pi.
struct Refusal<'n> {
    name: &'n str,
    only: bool,
}

impl Refusal<'_> {
    fn empty(&self, index: usize) -> String {
        let which = if self.only { String::new() } else { format!("edits[{index}].") };
        format!("{which}oldText must not be empty in {}.", self.name)
    }

    fn not_found(&self, index: usize) -> String {
        let name = self.name;
        if self.only {
            return format!(
                "Could not find the exact text in {name}. The old text must match exactly including all whitespace and newlines."
            );
        }
        format!(
            "Could not find edits[{index}] in {name}. The oldText must match exactly including all whitespace and newlines."
        )
    }

    fn ambiguous(&self, index: usize, count: usize) -> String {
        let name = self.name;
        if self.only {
            return format!(
                "Found {count} occurrences of the text in {name}. The text must be unique. Please provide more context to make it unique."
            );
        }
        format!(
            "Found {count} occurrences of edits[{index}] in {name}. Each oldText must be unique. Please provide more context to make it unique."
        )
    }

    fn overlap(&self, one: usize, other: usize) -> String {
        format!(
            "edits[{one}] and edits[{other}] overlap in {}. Merge them into one edit or target disjoint regions.",
            self.name
        )
    }

    fn unchanged(&self) -> String {
        let name = self.name;
        if self.only {
            return format!(
                "No changes made to {name}. The replacement produced identical content. This might indicate an issue with special characters or the text not existing as expected."
            );
        }
        format!("No changes made to {name}. The replacements produced identical content.")
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use proptest::prelude::*;

    use super::*;
    use crate::testing::cases;

    fn edit(old: &str, new: &str) -> Replacement {
        Replacement { old_text: old.to_owned(), new_text: new.to_owned() }
    }

    fn check(file: &str, edits: &[(&str, &str)], expect: Expect) {
        let edits: Vec<Replacement> = edits.iter().map(|(old, new)| edit(old, new)).collect();
        let result = match edited(file, &edits, "f") {
            Ok(new) => format!("{new:?}"),
            Err(refusal) => refusal,
        };
        expect.assert_eq(&result);
    }

    #[test]
    fn as_written() {
        check("a b c\n", &[("b", "B")], expect![[r#""a B c\n""#]]);
        check("a b c\n", &[("c\n", ""), ("a ", "")], expect![[r#""b ""#]]);
        check("a\nb\nc", &[("a\nb\n", "x\n")], expect![[r#""x\nc""#]]);
        // Matched against the original: the next edit does not match what this one writes.
        check("a b", &[("a", "b"), ("b", "c")], expect![[r#""b c""#]]);
        check("abc", &[("a", "1"), ("b", "2"), ("c", "3")], expect![[r#""123""#]]);
    }

    #[test]
    fn endings_and_marks() {
        check("a\r\nb\r\n", &[("a\nb", "x\ny\nz")], expect![[r#""x\r\ny\r\nz\r\n""#]]);
        check("a\r\nb\r\n", &[("a\r\nb", "x\ny")], expect![[r#""x\r\ny\r\n""#]]);
        check("\u{feff}a\n", &[("a", "b")], expect![[r#""\u{feff}b\n""#]]);
        check("a\rb\r", &[("a\nb", "x\ny")], expect![[r#""x\ry\r""#]]);
        // Lines that are not touched keep their endings, even inconsistent ones.
        check("a\r\nb\nc\r\nd\re\n", &[("c", "x\ny")], expect![[r#""a\r\nb\nx\r\ny\r\nd\re\n""#]]);
    }

    #[test]
    fn alike() {
        check(
            "say “hi” — now\nrest\n",
            &[("say \"hi\" - now", "bye")],
            expect![[r#""bye\nrest\n""#]],
        );
        check("a  \nb\t\nc  \n", &[("a\nb", "x\ny")], expect![[r#""x\ny\nc  \n""#]]);
        check("x = ‘1’\ny = ‘2’  \n", &[("'1'", "'3'")], expect![[r#""x = '3'\ny = ‘2’  \n""#]]);
        check("ﬁle\u{a0}name\nother ﬁ\n", &[("file name", "x")], expect![[r#""x\nother ﬁ\n""#]]);
        // If one edit needs normalisation, all are matched that way; lines between stay unchanged.
        check("“a”\n“b”\nc  \n", &[("\"a\"", "A"), ("c", "C")], expect![[r#""A\n“b”\nC\n""#]]);
        check("“a” “b”\n", &[("\"a\"", "A"), ("\"b\"", "B")], expect![[r#""A B\n""#]]);
    }

    #[test]
    fn refusals() {
        check(
            "a",
            &[],
            expect!["Edit tool input is invalid. edits must contain at least one replacement."],
        );
        check("a", &[("", "b")], expect!["oldText must not be empty in f."]);
        check("a", &[("a", "b"), ("", "b")], expect!["edits[1].oldText must not be empty in f."]);
        check(
            "a",
            &[("b", "c")],
            expect![
                "Could not find the exact text in f. The old text must match exactly including all whitespace and newlines."
            ],
        );
        check(
            "a",
            &[("a", "b"), ("c", "d")],
            expect![
                "Could not find edits[1] in f. The oldText must match exactly including all whitespace and newlines."
            ],
        );
        check(
            "a",
            &[("   ", "d")],
            expect![
                "Could not find the exact text in f. The old text must match exactly including all whitespace and newlines."
            ],
        );
        check(
            "a a a",
            &[("a", "b")],
            expect![
                "Found 3 occurrences of the text in f. The text must be unique. Please provide more context to make it unique."
            ],
        );
        check(
            "'a' ‘a’ b",
            &[("b", "c"), ("'a'", "b")],
            expect![
                "Found 2 occurrences of edits[1] in f. Each oldText must be unique. Please provide more context to make it unique."
            ],
        );
        check(
            "abcd",
            &[("bcd", "x"), ("abc", "y")],
            expect![
                "edits[1] and edits[0] overlap in f. Merge them into one edit or target disjoint regions."
            ],
        );
        check(
            "abcd",
            &[("b", "b")],
            expect![
                "No changes made to f. The replacement produced identical content. This might indicate an issue with special characters or the text not existing as expected."
            ],
        );
        check(
            "abcd",
            &[("b", "b"), ("c", "c")],
            expect!["No changes made to f. The replacements produced identical content."],
        );
        check(
            "",
            &[("b", "b")],
            expect![
                "Could not find the exact text in f. The old text must match exactly including all whitespace and newlines."
            ],
        );
    }

    #[test]
    fn long_file_is_matched_quickly() {
        let file = "some line with words – and dashes  \n".repeat(100_000) + "end\n";
        let edits = [edit("end", "END")];
        assert!(edited(&file, &edits, "f").unwrap().ends_with("  \nEND\n"));
        let edits: Vec<Replacement> =
            (0..500).map(|i| edit(&format!("<{i}>"), &format!("[{i}]"))).collect();
        let file: String = (0..500).map(|i| format!("<{i}> “x”\n").repeat(1)).collect();
        assert_eq!(edited(&file, &edits, "f").unwrap(), file.replace('<', "[").replace('>', "]"));
    }

    /// Words that occur once, between others that may occur often.
    fn file() -> impl Strategy<Value = Vec<String>> {
        prop::collection::vec("[a-c “é\t]{0,6}(\n|\r\n)?", 1..24).prop_map(|fillers| {
            let pieces = fillers.into_iter().enumerate();
            pieces.flat_map(|(i, filler)| [format!("<{i}>"), filler]).collect()
        })
    }

    proptest! {
        #![proptest_config(cases(1000))]

        /// Compares with a simple model of an edit: a list of pieces, some of them replaced.
        #[test]
        fn random_edits(
            mut pieces in file(),
            picks in prop::collection::vec((any::<prop::sample::Index>(), "[x-z\n]{0,5}"), 1..8),
            crlf in any::<bool>(),
        ) {
            for piece in &mut pieces {
                *piece = lf(piece).into_owned();
                if crlf { *piece = piece.replace('\n', "\r\n"); }
            }
            let old = pieces.concat();
            let ending = if old.contains("\r\n") { "\r\n" } else { "\n" };
            let mut edits = std::collections::BTreeMap::new();
            for (pick, new) in picks {
                // Every other piece is a word that occurs only once.
                let index = pick.index(pieces.len() / 2) * 2;
                edits.entry(index).or_insert(new);
            }
            let replacements: Vec<Replacement> =
                edits.iter().map(|(&index, new)| edit(&pieces[index], new)).collect();
            for (index, new) in &edits {
                pieces[*index] = new.replace('\n', ending);
            }
            prop_assert_eq!(edited(&old, &replacements, "f").unwrap(), pieces.concat());
        }
    }
}
