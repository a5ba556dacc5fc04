//! Masks secrets. Every line of a session passes through here before it is rendered, so a key that
//! was printed, read or typed is in no part of the page.

use std::borrow::Cow;
use std::collections::BTreeSet;

use aho_corasick::{AhoCorasick, MatchKind};
use serde_json::Value;

/// Replaces a secret.
pub(crate) const MASK: &str = "[redacted]";

/// A shorter value is as likely a word as a secret.
const SECRET_MIN_BYTES: usize = 8;

/// Replaces known secrets by `[redacted]`.
pub struct Mask {
    /// In plain text.
    plain: Option<AhoCorasick>,
    /// In lines of JSON, escaped as every known program writes them.
    written: Option<AhoCorasick>,
}

impl Mask {
    /// Values of fewer than 8 bytes are not masked.
    pub fn new(secrets: impl IntoIterator<Item = String>) -> Mask {
        let secrets: BTreeSet<String> = secrets
            .into_iter()
            .map(|secret| secret.trim().to_owned())
            .filter(|secret| secret.len() >= SECRET_MIN_BYTES)
            .collect();
        let written: BTreeSet<String> = secrets.iter().map(|secret| escaped(secret)).collect();
        Mask { plain: searcher(&secrets), written: searcher(&written) }
    }

    /// A plain text without secrets.
    pub(crate) fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        match &self.plain {
            Some(plain) if plain.is_match(text) => {
                let patterns = plain.patterns_len();
                Cow::Owned(plain.replace_all(text, &vec![MASK; patterns]))
            }
            _ => Cow::Borrowed(text),
        }
    }

    /// A line of JSON without secrets. Only strings change, so it stays JSON; a line without a
    /// secret stays the same, to the byte.
    pub fn line<'t>(&self, line: &'t str) -> Cow<'t, str> {
        let Some(written) = &self.written else { return Cow::Borrowed(line) };
        // A character may be written as `\u0041` or `\/`. Then the line has to be parsed.
        let is_spelled_out = line.contains("\\u") || line.contains("\\/");
        if !is_spelled_out && !written.is_match(line) {
            return Cow::Borrowed(line);
        }
        let Ok(mut value) = serde_json::from_str::<Value>(line) else {
            // Invalid JSON is masked as text.
            return self.text(line);
        };
        if self.value(&mut value) { Cow::Owned(value.to_string()) } else { Cow::Borrowed(line) }
    }

    /// Returns whether anything was masked.
    fn value(&self, value: &mut Value) -> bool {
        // serde_json has parsed the line, so it is at most 128 levels deep.
        match value {
            Value::String(text) => match self.text(text) {
                Cow::Borrowed(_) => false,
                Cow::Owned(masked) => {
                    *text = masked;
                    true
                }
            },
            Value::Array(items) => {
                items.iter_mut().fold(false, |found, item| self.value(item) | found)
            }
            Value::Object(fields) => {
                let named = fields.keys().any(|key| matches!(self.text(key), Cow::Owned(_)));
                if named {
                    let renamed = std::mem::take(fields).into_iter();
                    *fields = renamed.map(|(key, v)| (self.text(&key).into_owned(), v)).collect();
                }
                fields.values_mut().fold(named, |found, item| self.value(item) | found)
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        }
    }
}

fn searcher(secrets: &BTreeSet<String>) -> Option<AhoCorasick> {
    if secrets.is_empty() {
        return None;
    }
    // The longest first: a key takes precedence over its prefix.
    let builder = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(secrets);
    builder.ok()
}

fn escaped(secret: &str) -> String {
    let json = Value::from(secret).to_string();
    json[1..json.len() - 1].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mask(secrets: &[&str]) -> Mask {
        Mask::new(secrets.iter().map(|secret| (*secret).to_owned()))
    }

    #[test]
    fn secrets_are_found_wherever_they_stand() {
        let mask =
            mask(&["sk-abc-123456", "pa\"ss\\word", "short", "17947965", "sk-abc-123456-more"]);
        for (line, expected) in [
            (r#"{"a":"key sk-abc-123456."}"#, r#"{"a":"key [redacted]."}"#),
            (r#"{"a":"sk-abc-123456-more"}"#, r#"{"a":"[redacted]"}"#),
            (r#"{"a":"pa\"ss\\word!"}"#, r#"{"a":"[redacted]!"}"#),
            (r#"{"a":"sk-abc-12345\u0036"}"#, r#"{"a":"[redacted]"}"#),
            (r#"{"a":"pa\"ss\\wor\u0064"}"#, r#"{"a":"[redacted]"}"#),
            (
                r#"{"sk-abc-123456":[{"b":"xsk-abc-123456x"}]}"#,
                r#"{"[redacted]":[{"b":"x[redacted]x"}]}"#,
            ),
            // Short values are words, and numbers are not strings.
            (
                r#"{"a":"short","timestamp":1794796534732}"#,
                r#"{"a":"short","timestamp":1794796534732}"#,
            ),
            ("torn sk-abc-123456", "torn [redacted]"),
        ] {
            assert_eq!(mask.line(line), expected, "{line}");
        }
        assert_eq!(mask.text("sk-abc-123456sk-abc-123456"), "[redacted][redacted]");
    }

    #[test]
    fn a_line_without_secrets_stays_as_it_is() {
        let odd = r#"{"b" : 1.0, "a":"\u0041\/"}"#;
        assert!(matches!(mask(&["sk-abc-123456"]).line(odd), Cow::Borrowed(_)));
        assert!(matches!(mask(&[]).line(odd), Cow::Borrowed(_)));
    }
}
