//! Text for the page: invisible characters are made visible, and HTML is escaped. All content of a
//! session passes through here or through Markdown, which does the same.

use std::borrow::Cow;

/// Escapes for text and for attributes in double quotes.
pub(crate) fn escape(text: &str, out: &mut String) {
    let mut rest = text;
    while let Some(at) = rest.find(['&', '<', '>', '"', '\'']) {
        out.push_str(&rest[..at]);
        out.push_str(match rest.as_bytes()[at] {
            b'&' => "&amp;",
            b'<' => "&lt;",
            b'>' => "&gt;",
            b'"' => "&quot;",
            _ => "&#39;",
        });
        rest = &rest[at + 1..];
    }
    out.push_str(rest);
}

/// Makes visible, then escapes: for all content outside Markdown.
pub(crate) fn show(text: &str, out: &mut String) {
    escape(&visible(text), out);
}

/// The same, as a value.
pub(crate) fn shown(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    show(text, &mut out);
    out
}

/// Makes a text readable as it is: terminal colours are removed, control characters become symbols,
/// and characters that reverse the text direction are spelled out.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    let Some(first) = text.bytes().position(may_hide) else { return Cow::Borrowed(text) };
    // Such a byte is always the first of its character.
    let mut out = String::with_capacity(text.len());
    out.push_str(&text[..first]);
    let mut rest = &text[first..];
    while let Some(char) = rest.chars().next() {
        let len = match char {
            '\u{1b}' => match terminal_sequence(rest.as_bytes()) {
                0 => {
                    out.push('␛');
                    1
                }
                len => len,
            },
            '\r' => {
                if !rest.starts_with("\r\n") {
                    out.push('\n');
                }
                1
            }
            '\n' | '\t' => {
                out.push(char);
                1
            }
            '\0'..='\u{1f}' => {
                out.extend(char::from_u32(0x2400 + u32::from(char)));
                1
            }
            '\u{7f}' => {
                out.push('␡');
                1
            }
            '\u{80}'..='\u{9f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                out.push_str(&format!("⟨U+{:04X}⟩", u32::from(char)));
                char.len_utf8()
            }
            _ => {
                let next = rest.bytes().skip(1).position(may_hide);
                let plain = next.map_or(rest.len(), |at| at + 1);
                out.push_str(&rest[..plain]);
                plain
            }
        };
        rest = &rest[len..];
    }
    Cow::Owned(out)
}

/// The first bytes of everything that [`visible`] changes, and a few more.
fn may_hide(byte: u8) -> bool {
    matches!(byte, 0..=0x08 | 0x0b..=0x1f | 0x7f | 0xc2 | 0xe2)
}

/// The length of the terminal sequence that begins here, or 0 if there is none.
fn terminal_sequence(bytes: &[u8]) -> usize {
    match bytes.get(1) {
        // Colours, cursor movements: parameters, then one letter.
        Some(b'[') => {
            let parameters = bytes[2..].iter().take_while(|byte| (0x20..=0x3f).contains(*byte));
            let end = 2 + parameters.count();
            if bytes.get(end).is_some_and(|byte| (0x40..=0x7e).contains(byte)) {
                end + 1
            } else {
                0
            }
        }
        // Titles and links: anything, then a bell or the string terminator.
        Some(b']') => {
            let body = bytes[2..].iter().take_while(|byte| **byte >= 0x20 && byte.is_ascii());
            let end = 2 + body.count();
            match bytes.get(end) {
                Some(0x07) => end + 1,
                Some(0x1b) if bytes.get(end + 1) == Some(&b'\\') => end + 2,
                _ => 0,
            }
        }
        _ => 0,
    }
}

/// The beginning of a text on one line, for lists.
pub(crate) fn one_line(text: &str, chars_max: usize) -> String {
    let mut line = String::new();
    let mut count = 0;
    let mut gap = false;
    // Only the beginning is processed, however long the text is.
    for char in visible(head(text, chars_max * 16)).chars() {
        if char.is_whitespace() {
            gap = !line.is_empty();
            continue;
        }
        if count + usize::from(gap) >= chars_max {
            line.push('…');
            return line;
        }
        if std::mem::take(&mut gap) {
            line.push(' ');
            count += 1;
        }
        line.push(char);
        count += 1;
    }
    line
}

/// The beginning of a text without the most common Markdown markup, for lists.
pub(crate) fn unmarked(text: &str) -> String {
    let mut words = String::new();
    for line in head(text, UNMARKED_BYTES).lines().map(str::trim_start) {
        if line.starts_with("```") || line.starts_with("~~~") {
            continue;
        }
        let untitled = line.trim_start_matches('#');
        let is_title = untitled.len() < line.len() && untitled.starts_with(' ');
        let line = if is_title { untitled } else { line };
        let line = line.strip_prefix("> ").unwrap_or(line);
        words.push_str(&line.replace("**", "").replace('`', ""));
        words.push('\n');
    }
    words
}

/// Enough for the longest line of a list, whatever its characters.
const UNMARKED_BYTES: usize = 2048;

/// At most this many bytes, ending at a character boundary.
pub(crate) fn head(text: &str, bytes_max: usize) -> &str {
    let mut end = bytes_max.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// `12,345`
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `950`, `12.3k`, `4.5M`.
pub(crate) fn brief(number: u64) -> String {
    let short = |unit: f64, letter: &str| {
        let value = number as f64 / unit;
        if value < 99.95 { format!("{value:.1}{letter}") } else { format!("{value:.0}{letter}") }
    };
    match number {
        0..1_000 => number.to_string(),
        1_000..1_000_000 => short(1e3, "k"),
        1_000_000..1_000_000_000 => short(1e6, "M"),
        _ => short(1e9, "G"),
    }
}

/// `1 line`, `2 lines`.
pub(crate) fn counted(count: u64, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", grouped(count))
}

/// `1 entry`, `2 entries`.
pub(crate) fn entries(count: usize) -> String {
    if count == 1 { "1 entry".to_owned() } else { format!("{} entries", grouped(count as u64)) }
}

/// Dollars, with more digits for a small sum.
pub(crate) fn dollars(sum: f64) -> String {
    if sum >= 1.0 || sum == 0.0 { format!("${sum:.2}") } else { format!("${sum:.4}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_can_leave_its_place() {
        for (text, expected) in [
            ("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"),
            ("a & b", "a &amp; b"),
            ("\" onload='x'", "&quot; onload=&#39;x&#39;"),
            ("]]> --> <!-- $& $1", "]]&gt; --&gt; &lt;!-- $&amp; $1"),
            ("", ""),
            ("漢字 é 😀", "漢字 é 😀"),
        ] {
            assert_eq!(shown(text), expected);
        }
    }

    #[test]
    fn nothing_can_hide() {
        for (text, expected) in [
            ("a\0b", "a␀b"),
            ("\u{1b}[1;31mred\u{1b}[0m", "red"),
            ("\u{1b}]8;;http://x\u{1b}\\link\u{1b}]8;;\u{7}", "link"),
            ("\u{1b}[", "␛["),
            ("\u{1b}", "␛"),
            ("one\r\ntwo\rthree", "one\ntwo\nthree"),
            ("tab\tstays", "tab\tstays"),
            ("user\u{202e}gnp.exe", "user⟨U+202E⟩gnp.exe"),
            ("\u{2066}x\u{2069}", "⟨U+2066⟩x⟨U+2069⟩"),
            ("“quoted” – … é\u{a0}", "“quoted” – … é\u{a0}"),
            ("\u{85}\u{9b}31m", "⟨U+0085⟩⟨U+009B⟩31m"),
            ("bell\u{7}\u{7f}", "bell␇␡"),
            ("سلام", "سلام"),
        ] {
            assert_eq!(visible(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_line_for_a_list_is_short() {
        assert_eq!(one_line("  one\n\n two  ", 80), "one two");
        let marked = "## A **bold** title\n> said `once`\n```rust\nlet a = 2 * 3;\n```\n#not one";
        assert_eq!(
            one_line(&unmarked(marked), 80),
            "A bold title said once let a = 2 * 3; #not one"
        );
        assert_eq!(one_line("abcdef", 3), "abc…");
        assert_eq!(one_line("ab cd", 3), "ab…");
        assert_eq!(one_line("", 3), "");
        assert_eq!(one_line(&"é".repeat(100), 5), "ééééé…");
    }

    #[test]
    fn numbers_are_for_people() {
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(grouped(999), "999");
        assert_eq!(
            [brief(999), brief(12_345), brief(123_456), brief(4_500_000)].join(" "),
            "999 12.3k 123k 4.5M"
        );
        assert_eq!(
            [dollars(0.0), dollars(0.0123), dollars(12.345)].join(" "),
            "$0.00 $0.0123 $12.35"
        );
    }
}
