//! The lines of all transcripts, by level and definition: what the schema is tested with.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::examples::Example;
use crate::schema::{Key, name_of_record};

/// How many lines of a definition are considered. Most are steps of answers, which are alike.
const MAX_LINES: usize = 500;

/// Fields whose value may have any fields.
const OPEN: [&str; 12] = [
    "args",
    "arguments",
    "changed",
    "client",
    "compat",
    "details",
    "entries",
    "entry",
    "events",
    "id",
    "parameters",
    "settings",
];

/// Lines of one definition that have different fields.
#[derive(Default)]
pub struct Lines {
    considered: usize,
    places: BTreeSet<String>,
    lines: Vec<Value>,
}

thread_local! {
    /// Of this test only: other tests run in other threads.
    static CORPUS: RefCell<BTreeMap<Key, Lines>> = RefCell::default();
}

/// Adds a line to the corpus, if it has a field at a place where no other line has one.
pub fn add(level: &str, definition: String, line: &Value) {
    CORPUS.with_borrow_mut(|corpus| {
        let kind = corpus.entry((level.to_owned(), definition)).or_default();
        if kind.considered == MAX_LINES {
            return;
        }
        kind.considered += 1;
        let known = kind.places.len();
        kind.places.extend(fields(line).into_iter().map(|field| field.place));
        if kind.places.len() > known || kind.lines.is_empty() {
            kind.lines.push(line.clone());
        }
    });
}

/// Calls the function with the corpus.
pub fn with<T>(read: impl FnOnce(&BTreeMap<Key, Lines>) -> T) -> T {
    CORPUS.with_borrow(read)
}

impl Lines {
    pub fn lines(&self) -> &[Value] {
        &self.lines
    }
}

/// The fields in examples of records that no line of the corpus has: the place of the example
/// in the document, and that of the field.
pub fn unwritten_fields(examples: &[Example]) -> Vec<(String, String)> {
    let mut known: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    with(|corpus| {
        for ((_, definition), kind) in corpus {
            known.entry(definition.clone()).or_default().extend(kind.places.iter().cloned());
        }
    });
    let mut unwritten = Vec::new();
    for example in examples.iter().filter(|example| !example.is_command) {
        let value = &example.value;
        // Messages and models are parts of records.
        if value.get("type").is_none() {
            continue;
        }
        let known = known.entry(name_of_record(value)).or_default();
        let fields = fields(value).into_iter().map(|field| field.place);
        unwritten.extend(
            fields.filter(|field| !known.contains(field)).map(|field| (example.place(), field)),
        );
    }
    unwritten
}

/// A field somewhere in a line.
pub struct Field {
    /// Where it is, without positions in lists and with the kinds of objects:
    /// `.messages[](assistant).usage`.
    pub place: String,
    /// The object that has it, by its kind or its name; empty for the line itself.
    pub owner: String,
    pub name: String,
    /// Where it is in this line, as a JSON pointer to its object.
    pub object: String,
}

/// All fields of a line, except those below open ones.
pub fn fields(line: &Value) -> Vec<Field> {
    let mut found = Vec::new();
    visit(line, Visit::default(), &mut found);
    found
}

#[derive(Clone, Default)]
struct Visit {
    place: String,
    owner: String,
    pointer: String,
}

fn visit(value: &Value, at: Visit, found: &mut Vec<Field>) {
    match value {
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                let place = format!("{}[]", at.place);
                let pointer = format!("{}/{index}", at.pointer);
                visit(item, Visit { place, pointer, ..at.clone() }, found);
            }
        }
        Value::Object(fields) => {
            let kind = ["role", "type"].iter().find_map(|key| fields.get(*key)?.as_str());
            // The kind of the line itself is its definition.
            let kind = kind.filter(|_| !at.pointer.is_empty());
            let (place, owner) = match kind {
                Some(kind) => (format!("{}({kind})", at.place), kind.to_owned()),
                None => (at.place, at.owner),
            };
            for (name, field) in fields {
                let place = format!("{place}.{name}");
                found.push(Field {
                    place: place.clone(),
                    owner: owner.clone(),
                    name: name.clone(),
                    object: at.pointer.clone(),
                });
                // The result of an extension's tool may have fields of its own.
                let is_free = owner == "result" && name == "usage";
                if !OPEN.contains(&&**name) && !is_free {
                    let pointer = format!("{}/{name}", at.pointer);
                    visit(field, Visit { place, owner: name.clone(), pointer }, found);
                }
            }
        }
        _ => {}
    }
}

#[test]
fn fields_are_found_at_any_depth() {
    let line = serde_json::json!({
        "type": "agent_end",
        "messages": [{ "role": "user", "details": { "free": 1 } }, { "usage": { "input": 1 } }],
    });
    let found: Vec<String> = fields(&line)
        .into_iter()
        .map(|field| format!("{} {} {}", field.place, field.owner, field.object))
        .collect();
    assert_eq!(
        found,
        [
            ".type  ",
            ".messages  ",
            ".messages[](user).role user /messages/0",
            ".messages[](user).details user /messages/0",
            ".messages[].usage messages /messages/1",
            ".messages[].usage.input usage /messages/1/usage",
        ]
    );
}
