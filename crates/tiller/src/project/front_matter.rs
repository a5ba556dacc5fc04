//! YAML front matter of skills, templates and rules.
//!
//! Events of the YAML parser are folded into JSON values. Anchors are refused, so a small file
//! cannot expand into a large value.

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError};
use serde_json::{Map, Value};

/// A text split into front matter and body.
#[derive(Debug, PartialEq)]
pub(crate) struct Document<'a> {
    /// The lines between the `---` lines, if the text begins with one.
    head: Option<&'a str>,
    pub(crate) body: &'a str,
}

impl<'a> Document<'a> {
    /// The front matter runs from a first line `---` to the next one. The body after it is trimmed.
    pub(crate) fn split(text: &'a str) -> Document<'a> {
        let whole = Document { head: None, body: text };
        let Some(inside) = text.trim_start_matches('\u{feff}').strip_prefix("---") else {
            return whole;
        };
        match inside.split_once("\n---") {
            Some((head, body)) => Document { head: Some(head), body: body.trim() },
            None => whole,
        }
    }

    /// Parses the front matter. An error names line and column of the file.
    pub(crate) fn fields(&self) -> Result<Map<String, Value>, String> {
        let Some(head) = self.head else { return Ok(Map::new()) };
        match parse(head)? {
            Value::Object(fields) => Ok(fields),
            Value::Null => Ok(Map::new()),
            _ => Err("expected a mapping at line 2 column 1".to_owned()),
        }
    }
}

/// Deeper than any useful front matter.
const DEPTH_MAX: usize = 32;

/// A list or mapping that has not ended.
enum Open {
    List(Vec<Value>),
    Mapping { fields: Map<String, Value>, key: Option<String> },
}

fn parse(text: &str) -> Result<Value, String> {
    let mut open: Vec<Open> = Vec::new();
    let mut whole = None;
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|err| error_text(&err))?;
        let refuse = |why: &str| Err(format!("{why} at line {}", span.start.line()));
        let value = match event {
            Event::MappingStart(..) | Event::SequenceStart(..) if open.len() == DEPTH_MAX => {
                return refuse("too many levels");
            }
            Event::MappingStart(..) => {
                open.push(Open::Mapping { fields: Map::new(), key: None });
                continue;
            }
            Event::SequenceStart(..) => {
                open.push(Open::List(Vec::new()));
                continue;
            }
            Event::MappingEnd | Event::SequenceEnd => match open.pop() {
                Some(Open::List(items)) => Value::Array(items),
                Some(Open::Mapping { fields, .. }) => Value::Object(fields),
                None => continue,
            },
            Event::Scalar(text, style, ..) => scalar(&text, style),
            Event::Alias(_) => return refuse("aliases are not supported"),
            _ => continue,
        };
        match open.last_mut() {
            None => whole = whole.or(Some(value)),
            Some(Open::List(items)) => items.push(value),
            Some(Open::Mapping { fields, key }) => match key.take() {
                Some(key) => drop(fields.insert(key, value)),
                None => match value {
                    Value::String(name) => *key = Some(name),
                    Value::Array(_) | Value::Object(_) => return refuse("expected a plain key"),
                    other => *key = Some(other.to_string()),
                },
            },
        }
    }
    Ok(whole.unwrap_or(Value::Null))
}

/// A plain scalar may be a number, a boolean or null.
fn scalar(text: &str, style: ScalarStyle) -> Value {
    if style != ScalarStyle::Plain {
        return Value::String(text.to_owned());
    }
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        _ => match text.parse::<i64>() {
            Ok(number) => Value::from(number),
            Err(_) => Value::String(text.to_owned()),
        },
    }
}

/// Line numbers are relative to the file, whose first line is the opening `---`.
fn error_text(err: &ScanError) -> String {
    let marker = err.marker();
    format!("{} at line {} column {}", err.info(), marker.line(), marker.col() + 1)
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(text: &str, expected: Expect) {
        let document = Document::split(text);
        let fields = match document.fields() {
            Ok(fields) => Value::Object(fields).to_string(),
            Err(why) => why,
        };
        expected.assert_eq(&format!("{fields} {:?}", document.body));
    }

    #[test]
    fn front_matter_and_body_are_split() {
        check("no head\n", expect![[r#"{} "no head\n""#]]);
        check("---\nname: a\n---\n\nBody.\n", expect![[r#"{"name":"a"} "Body.""#]]);
        check("---\r\nname: a\r\n---\r\nBody.\r\n", expect![[r#"{"name":"a"} "Body.""#]]);
        check("\u{feff}---\nname: a\n---\nBody.", expect![[r#"{"name":"a"} "Body.""#]]);
        check("---\n---\nBody.", expect![[r#"{} "Body.""#]]);
        check("---\n# only a comment\n---\nBody.", expect![[r#"{} "Body.""#]]);
        check("---\nname: never ends", expect![[r#"{} "---\nname: never ends""#]]);
        check(
            "---\na: \"x: y\"\nb: >-\n  one\n  two\nc: [1, two, {d: ~}]\ne: true\nf: 'true'\n---\n",
            expect![[
                r#"{"a":"x: y","b":"one two","c":[1,"two",{"d":null}],"e":true,"f":"true"} """#
            ]],
        );
    }

    #[test]
    fn errors_name_line_and_column() {
        check(
            "---\nname: a\ndescription: use it: now\n---\nBody.",
            expect![[
                r#"mapping values are not allowed in this context at line 3 column 20 "Body.""#
            ]],
        );
        check("---\n- a\n---\n", expect![[r#"expected a mapping at line 2 column 1 """#]]);
        check(
            "---\na: &x [1]\nb: [*x, *x]\n---\n",
            expect![[r#"aliases are not supported at line 3 """#]],
        );
        let deep = format!("---\na: {}\n---\n", "[".repeat(100_000));
        check(&deep, expect![[r#"recursion limit exceeded at line 2 column 259 """#]]);
    }
}
