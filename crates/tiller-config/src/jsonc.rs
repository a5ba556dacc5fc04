//! JSON with comments (`//`, `/* */`, `#`) and trailing commas, as people write it in configuration
//! files.

use std::iter;

use serde_json::Value;

/// Reads a configuration file's text. Positions in errors are those of the file.
pub fn parse(text: &str) -> Result<Value, serde_json::Error> {
    serde_json::from_str(&blank_out(text.trim_start_matches('\u{feff}')))
}

/// Replaces comments and trailing commas by spaces, so that everything else stays in place.
pub(crate) fn blank_out(text: &str) -> String {
    let mut blanked = text.as_bytes().to_vec();
    if json_strip_comments::strip_slice(&mut blanked).is_err() {
        // A slash that begins no comment, the last byte that was replaced: the parser names it.
        if let Some(slash) = iter::zip(&blanked, text.bytes()).rposition(|(new, old)| *new != old) {
            blanked[slash] = b'/';
        }
    }
    // Line ends inside a comment are kept, for the line numbers.
    for (new, old) in iter::zip(&mut blanked, text.bytes()) {
        if old == b'\n' {
            *new = old;
        }
    }
    String::from_utf8(blanked).expect("only ASCII and whole comments were replaced by ASCII")
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
        let err = parse("{ /* a\n */ \"a\": 1 / 2,\n} // é").unwrap_err();
        assert_eq!((err.line(), err.column()), (2, 12));
        assert!(parse("[1,,]").is_err());
        assert!(parse("/* never ends").is_err());
        assert!(parse("\"never ends\\").is_err());
    }
}
