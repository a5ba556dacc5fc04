//! The examples in docs/protocol.md: lines of JSON in blocks, at a level.
//!
//! A block begins with ```` ```json ````, and with ```` ```json xcsh ```` if its lines are of
//! another level than `pi-delta`. A line that begins with `>` is a command.

use std::fs;
use std::path::Path;

use serde_json::Value;

/// One line of an example.
#[derive(Debug)]
pub struct Example {
    line: usize,
    /// The last heading before it.
    pub section: String,
    pub level: String,
    /// The client writes it.
    pub is_command: bool,
    /// Without the omissions.
    pub value: Value,
}

impl Example {
    /// Where it is, for an error text.
    pub fn place(&self) -> String {
        let Example { line, section, level, .. } = self;
        format!("docs/protocol.md:{line} ({section}, level {level})")
    }
}

/// The examples of the page about the protocol, in their order.
pub fn examples() -> Vec<Example> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/protocol.md");
    parse(&fs::read_to_string(path).unwrap())
}

fn parse(page: &str) -> Vec<Example> {
    let mut examples = Vec::new();
    let mut section = String::new();
    // The language and the level of the current block.
    let mut block: Option<(&str, &str)> = None;
    for (index, line) in page.lines().enumerate() {
        match (line.strip_prefix("```"), block) {
            (Some(_), Some(_)) => block = None,
            (Some(opening), None) => {
                block = Some(opening.split_once(' ').unwrap_or((opening, "pi-delta")));
            }
            (None, Some(("json", level))) if line != "…" => {
                let command = line.strip_prefix("> ");
                let text = shortened(command.unwrap_or(line));
                let value = serde_json::from_str(&text)
                    .unwrap_or_else(|err| panic!("protocol.md:{}: {err}: {line}", index + 1));
                examples.push(Example {
                    line: index + 1,
                    section: section.clone(),
                    level: level.to_owned(),
                    is_command: command.is_some(),
                    value,
                });
            }
            (None, None) if line.starts_with('#') => {
                section = line.trim_start_matches('#').trim().replace('`', "");
            }
            _ => {}
        }
    }
    examples
}

/// Removes each `…` that stands for omitted items, with the comma it needs.
fn shortened(line: &str) -> String {
    let mut out = String::new();
    let (mut in_text, mut is_escaped) = (false, false);
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        if in_text || c != '…' {
            in_text ^= c == '"' && !is_escaped;
            is_escaped = in_text && c == '\\' && !is_escaped;
            out.push(c);
            continue;
        }
        let ends = matches!(chars.peek(), Some('}' | ']'));
        if ends && out.ends_with(',') {
            out.pop();
        } else if !ends {
            chars.next_if_eq(&',');
        }
    }
    out
}

#[test]
fn shortened_example_is_still_json() {
    for (line, json) in [
        (r#"{"a":{…},"b":[…]}"#, r#"{"a":{},"b":[]}"#),
        (r#"{"a":1,…,"b":["c",…],…}"#, r#"{"a":1,"b":["c"]}"#),
        (r#"{"a":"\"…",…}"#, r#"{"a":"\"…"}"#),
    ] {
        assert_eq!(shortened(line), json);
    }
}
