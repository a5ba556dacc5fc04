//! Diffs: removed lines, added lines, and context.

use crate::text::{escape, visible};

/// A diff with line numbers, as the `edit` tool stores it with its result:
///
/// ```text
///  1 alpha
/// -2 beta
/// +2 BETA
///    ...
/// ```
pub(crate) fn numbered(diff: &str, out: &mut String) {
    out.push_str("<pre class=\"diff\"><code>");
    for line in visible(diff).lines() {
        let (class, rest) = sign(line);
        let text = rest.trim_start_matches(' ');
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, text) = match text.get(digits..) {
            Some(after) if digits > 0 && (after.is_empty() || after.starts_with(' ')) => {
                (&text[..digits], after.strip_prefix(' ').unwrap_or(after))
            }
            // Lines omitted between two changes.
            _ if text == "..." => ("", "⋯"),
            _ => ("", rest),
        };
        span(class, number, text, out);
    }
    out.push_str("</code></pre>");
}

/// A unified diff, without the surrounding `pre`.
pub(crate) fn unified(diff: &str, out: &mut String) {
    for line in diff.lines() {
        let class = match line {
            _ if line.starts_with("@@") => "hunk",
            _ if line.starts_with("+++") || line.starts_with("---") => "file",
            _ => sign(line).0,
        };
        span(class, "", line, out);
    }
}

/// Old and new texts, each pair a change.
pub(crate) fn replaced(pairs: &[(&str, &str)], out: &mut String) {
    out.push_str("<pre class=\"diff\"><code>");
    for (at, (old, new)) in pairs.iter().enumerate() {
        if at > 0 {
            span("", "", "⋯", out);
        }
        for line in visible(old).lines() {
            span("del", " ", line, out);
        }
        for line in visible(new).lines() {
            span("add", " ", line, out);
        }
    }
    out.push_str("</code></pre>");
}

/// How many lines were added and removed.
pub(crate) fn changes(diff: &str) -> (u64, u64) {
    diff.lines().fold((0, 0), |(added, removed), line| match line.as_bytes().first() {
        Some(b'+') => (added + 1, removed),
        Some(b'-') => (added, removed + 1),
        _ => (added, removed),
    })
}

fn sign(line: &str) -> (&'static str, &str) {
    match line.as_bytes().first() {
        Some(b'+') => ("add", &line[1..]),
        Some(b'-') => ("del", &line[1..]),
        Some(b' ') => ("", &line[1..]),
        _ => ("", line),
    }
}

fn span(class: &str, number: &str, text: &str, out: &mut String) {
    if class.is_empty() {
        out.push_str("<span>");
    } else {
        out.push_str("<span class=\"");
        out.push_str(class);
        out.push_str("\">");
    }
    if !number.is_empty() {
        out.push_str("<i>");
        escape(number, out);
        out.push_str("</i>");
    }
    escape(text, out);
    out.push_str("\n</span>");
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn lines_keep_their_numbers_and_signs() {
        let mut out = String::new();
        numbered("    ...\n 1 alpha\n-2 <beta>\n+2 BETA\n 10 10 green\n+11\n odd", &mut out);
        expect![[r#"
            <pre class="diff"><code><span>⋯
            </span><span><i>1</i>alpha
            </span><span class="del"><i>2</i>&lt;beta&gt;
            </span><span class="add"><i>2</i>BETA
            </span><span><i>10</i>10 green
            </span><span class="add"><i>11</i>
            </span><span>odd
            </span></code></pre>"#]]
        .assert_eq(&out);
        assert_eq!(changes("+1 a\n-1 b\n+2 c\n 3 d"), (2, 1));
    }

    #[test]
    fn replaced_texts_are_changes_without_numbers() {
        let mut out = String::new();
        replaced(&[("a\n<b>", "B"), ("c", "")], &mut out);
        expect![[r#"
            <pre class="diff"><code><span class="del"><i> </i>a
            </span><span class="del"><i> </i>&lt;b&gt;
            </span><span class="add"><i> </i>B
            </span><span>⋯
            </span><span class="del"><i> </i>c
            </span></code></pre>"#]]
        .assert_eq(&out);
    }

    #[test]
    fn a_patch_is_read_by_its_first_column() {
        let mut out = String::new();
        unified("--- a\n+++ b\n@@ -1 +1 @@\n-old\n+new\n same\n\\ No newline", &mut out);
        expect![[r#"
            <span class="file">--- a
            </span><span class="file">+++ b
            </span><span class="hunk">@@ -1 +1 @@
            </span><span class="del">-old
            </span><span class="add">+new
            </span><span> same
            </span><span>\ No newline
            </span>"#]]
        .assert_eq(&out);
    }
}
