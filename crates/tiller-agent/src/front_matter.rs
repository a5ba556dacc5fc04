//! YAML front matter of skills, templates and rules, and of files that extensions read.
//!
//! Events of the YAML parser are folded into JSON values. Plain scalars follow the core schema of
//! YAML 1.2, as in pi. An alias copies its anchor's value; the number of copied values is limited,
//! so a small file cannot expand into a large one.

use std::collections::HashMap;

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError};
use serde_json::{Map, Value};

/// A text split into front matter and body.
#[derive(Debug, PartialEq)]
pub struct Document<'a> {
    /// The lines between the `---` lines, if the text begins with one.
    head: Option<&'a str>,
    pub body: &'a str,
}

impl<'a> Document<'a> {
    /// The front matter runs from a first line `---` to the next one. The body after it is trimmed.
    pub fn split(text: &'a str) -> Document<'a> {
        let without_head = Document { head: None, body: text };
        let Some(inside) = text.trim_start_matches('\u{feff}').strip_prefix("---") else {
            return without_head;
        };
        match inside.split_once("\n---") {
            Some((head, body)) => Document { head: Some(head), body: body.trim() },
            None => without_head,
        }
    }

    /// Parses the front matter. Null if there is none. An error names line and column of the file.
    pub fn value(&self) -> Result<Value, String> {
        self.head.map_or(Ok(Value::Null), |head| YamlReader::default().read(head))
    }

    /// Parses the front matter as a mapping.
    pub fn fields(&self) -> Result<Map<String, Value>, String> {
        match self.value()? {
            Value::Object(fields) => Ok(fields),
            Value::Null => Ok(Map::new()),
            _ => Err("expected a mapping at line 2 column 1".to_owned()),
        }
    }
}

/// Deeper than any useful front matter.
const DEPTH_MAX: usize = 32;

/// Values that aliases may add.
const COPIED_MAX: usize = 10_000;

/// A list or mapping that has not ended, and the number of its anchor.
struct OpenCollection {
    anchor: usize,
    content: Collection,
}

enum Collection {
    List(Vec<Value>),
    Mapping { fields: Map<String, Value>, key: Option<String> },
}

#[derive(Default)]
struct YamlReader {
    open: Vec<OpenCollection>,
    /// By number. Zero stands for no anchor.
    anchors: HashMap<usize, Value>,
    copied: usize,
    root: Option<Value>,
}

impl YamlReader {
    fn read(mut self, text: &str) -> Result<Value, String> {
        for event in Parser::new_from_str(text) {
            let (event, span) = event.map_err(|err| error_text(&err))?;
            self.event(event).map_err(|why| format!("{why} at line {}", span.start.line()))?;
        }
        Ok(self.root.unwrap_or(Value::Null))
    }

    fn event(&mut self, event: Event<'_>) -> Result<(), &'static str> {
        match event {
            Event::MappingStart(anchor, _) => {
                let content = Collection::Mapping { fields: Map::new(), key: None };
                self.start(anchor, content)
            }
            Event::SequenceStart(anchor, _) => self.start(anchor, Collection::List(Vec::new())),
            Event::MappingEnd | Event::SequenceEnd => match self.open.pop() {
                Some(OpenCollection { anchor, content: Collection::List(items) }) => {
                    self.add(anchor, Value::Array(items))
                }
                Some(OpenCollection { anchor, content: Collection::Mapping { fields, .. } }) => {
                    self.add(anchor, Value::Object(fields))
                }
                None => Ok(()),
            },
            Event::Scalar(text, style, anchor, _) => self.add(anchor, scalar(&text, style)),
            Event::Alias(anchor) => {
                // An alias inside its own anchor has no value yet.
                let value = self.anchors.get(&anchor).ok_or("an alias without a value")?.clone();
                self.copied += count(&value);
                if self.copied > COPIED_MAX {
                    return Err("too many aliases");
                }
                self.add(0, value)
            }
            _ => Ok(()),
        }
    }

    fn start(&mut self, anchor: usize, content: Collection) -> Result<(), &'static str> {
        if self.open.len() == DEPTH_MAX {
            return Err("too many levels");
        }
        self.open.push(OpenCollection { anchor, content });
        Ok(())
    }

    /// Adds a complete value to the list or mapping around it.
    fn add(&mut self, anchor: usize, value: Value) -> Result<(), &'static str> {
        if anchor > 0 {
            self.anchors.insert(anchor, value.clone());
        }
        match self.open.last_mut().map(|open| &mut open.content) {
            None => self.root = self.root.take().or(Some(value)),
            Some(Collection::List(items)) => items.push(value),
            Some(Collection::Mapping { fields, key }) => match key.take() {
                Some(key) => drop(fields.insert(key, value)),
                None => match value {
                    Value::String(name) => *key = Some(name),
                    Value::Array(_) | Value::Object(_) => return Err("expected a plain key"),
                    other => *key = Some(other.to_string()),
                },
            },
        }
        Ok(())
    }
}

/// How many values a value consists of.
fn count(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(count).sum::<usize>(),
        Value::Object(fields) => 1 + fields.values().map(count).sum::<usize>(),
        _ => 1,
    }
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
        _ => number(text).unwrap_or_else(|| Value::String(text.to_owned())),
    }
}

/// A number of the core schema. Infinity and NaN are texts, because JSON has neither.
fn number(text: &str) -> Option<Value> {
    if let Some(digits) = text.strip_prefix("0x") {
        return u64::from_str_radix(digits, 16).ok().map(Value::from);
    }
    if let Some(digits) = text.strip_prefix("0o") {
        return u64::from_str_radix(digits, 8).ok().map(Value::from);
    }
    if let Ok(integer) = text.parse::<i64>() {
        return Some(Value::from(integer));
    }
    // Rust also reads words such as `inf`.
    if !text.bytes().all(|b| b.is_ascii_digit() || b"+-.eE".contains(&b)) {
        return None;
    }
    let number: f64 = text.parse().ok().filter(|number: &f64| number.is_finite())?;
    // As in JavaScript, 1.0 is 1.
    let is_exact = number.fract() == 0.0 && number.abs() < (1u64 << 53) as f64;
    Some(if is_exact { Value::from(number as i64) } else { Value::from(number) })
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
    fn numbers_are_those_of_yaml_1_2() {
        check(
            "---\na: [1.5, 1.0, -0.5, .5, 5., 1e3, +7, 0x1F, 0o17, 010, 12345678901234567890]\n\
             b: [1.5.0, 1-2, .inf, .nan, 0b1, 1_000, '1', 2026-01-01, e5, '-', v1, yes, on]\n\
             1: x\n---\n",
            expect![[
                r#"{"a":[1.5,1,-0.5,0.5,5,1000,7,31,15,10,1.2345678901234567e+19],"b":["1.5.0","1-2",".inf",".nan","0b1","1_000","1","2026-01-01","e5","-","v1","yes","on"],"1":"x"} """#
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
        check("---\na: &x [1]\nb: [*x, *x]\n---\n", expect![[r#"{"a":[1],"b":[[1],[1]]} """#]]);
        check("---\na: &x [*x]\n---\n", expect![[r#"an alias without a value at line 2 """#]]);
        let lists: String = (1..9)
            .map(|at| format!("a{at}: &a{at} [{}]\n", format!("*a{}, ", at - 1).repeat(9)))
            .collect();
        check(
            &format!("---\na0: &a0 [1]\n{lists}---\n"),
            expect![[r#"too many aliases at line 6 """#]],
        );
        let deep = format!("---\na: {}\n---\n", "[".repeat(100_000));
        check(&deep, expect![[r#"recursion limit exceeded at line 2 column 259 """#]]);
    }
}
