//! JSON with comments and trailing commas, as people write it in configuration files.

use serde_json::Value;

/// Reads a configuration file's text. Positions in errors are those of the file.
pub fn parse(text: &str) -> Result<Value, serde_json::Error> {
    serde_json::from_str(&blank_out(text.trim_start_matches('\u{feff}')))
}

/// Replaces comments and trailing commas by spaces, so that everything else stays in place.
pub(crate) fn blank_out(text: &str) -> String {
    let mut out: Vec<u8> = Vec::with_capacity(text.len());
    let bytes = text.as_bytes();
    let mut at = 0;
    // Where a comma stands that may turn out to be the last thing in its list.
    let mut comma = None;
    while at < bytes.len() {
        let end = token_end(text, at);
        match bytes[at] {
            b'/' if end > at + 1 => {
                // Line ends are kept, for the line numbers.
                out.extend(bytes[at..end].iter().map(|&b| if b == b'\n' { b } else { b' ' }));
            }
            b'}' | b']' => {
                if let Some(comma) = comma.take() {
                    out[comma] = b' ';
                }
                out.push(bytes[at]);
            }
            b => {
                if b == b',' {
                    comma = Some(out.len());
                } else if !b.is_ascii_whitespace() {
                    comma = None;
                }
                out.extend_from_slice(&bytes[at..end]);
            }
        }
        at = end;
    }
    String::from_utf8(out).expect("only ASCII was replaced, and by ASCII")
}

/// The end of the string or comment that begins at `at`, or of the single byte there.
fn token_end(text: &str, at: usize) -> usize {
    let rest = &text.as_bytes()[at..];
    if rest.starts_with(b"//") {
        return text[at..].find('\n').map_or(text.len(), |end| at + end);
    }
    if rest.starts_with(b"/*") {
        return text[at + 2..].find("*/").map_or(text.len(), |end| at + 2 + end + 2);
    }
    if rest[0] != b'"' {
        // Whole characters, because strings are cut only at their borders.
        return at + text[at..].chars().next().map_or(1, char::len_utf8);
    }
    let mut end = at + 1;
    while end < text.len() {
        match text.as_bytes()[end] {
            b'\\' => end += 2,
            b'"' => return end + 1,
            _ => end += 1,
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn comments_and_trailing_commas_are_allowed() {
        let text =
            "\u{feff}{ // one\n \"a\": \"x // no \\\" é\", /* two\n */ \"b\": [1, 2, ],\n}\n";
        assert_eq!(parse(text).unwrap(), json!({"a": "x // no \" é", "b": [1, 2]}));
    }

    #[test]
    fn errors_name_the_line_of_the_file() {
        let err = parse("{\n  // comment\n  /* a\n b */\n  \"a\": nope\n}").unwrap_err();
        assert_eq!((err.line(), err.column()), (5, 9));
        assert!(parse("[1,,]").is_err());
        assert!(parse("/* never ends").is_err());
        assert!(parse("\"never ends\\").is_err());
    }
}
