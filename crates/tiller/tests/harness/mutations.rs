//! The schema is strict: a line without a field, or with a field of another type, does not fit.
//!
//! Fields that a line may lack are listed in `optional_fields.txt`, with the levels at which they were
//! seen. `UPDATE_EXPECT=1 cargo test` writes the list, and its diff is reviewed: a field that is
//! always written does not belong there.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::corpus::{self, Field, fields};
use crate::schema::{fits, names_of_lines};

/// What became of the changed lines.
#[derive(Default)]
pub struct Mutations {
    /// The fields that may be dropped, and the levels at which they were.
    optional: BTreeMap<String, BTreeSet<String>>,
    /// The fields that fit with another type, except those that may have any value.
    pub free: BTreeSet<String>,
    /// How many changed lines did not fit.
    pub refused: usize,
}

/// Drops and changes each field of the corpus once.
pub fn mutate() -> Mutations {
    let mut mutations = Mutations::default();
    corpus::with(|corpus| {
        for ((level, definition), kind) in corpus {
            let mut done = BTreeSet::new();
            for line in kind.lines() {
                for field in fields(line).into_iter().filter(|one| done.insert(one.place.clone())) {
                    mutations.mutate(level, definition, line, &field);
                }
            }
        }
    });
    mutations
}

impl Mutations {
    fn mutate(&mut self, level: &str, definition: &str, line: &Value, field: &Field) {
        let fits = |line: &Value| fits(level, definition, line).is_ok();
        let name = full_name(definition, field);
        if fits(&without(line, field)) {
            self.optional.entry(name.clone()).or_default().insert(level.to_owned());
        } else {
            self.refused += 1;
        }
        match with_another_type(line, field) {
            Some(changed) if !fits(&changed) => self.refused += 1,
            Some(_) if !is_any(definition, field) => {
                self.free.insert(name);
            }
            _ => {}
        }
    }

    /// The fields that may be dropped, one per line.
    pub fn optional(&self) -> String {
        let line = |(name, levels): (&String, &BTreeSet<String>)| {
            let levels: Vec<&str> = levels.iter().map(String::as_str).collect();
            format!("{name}: {}\n", levels.join(", "))
        };
        self.optional.iter().map(line).collect()
    }
}

/// A field's name with the object that has it: `assistant.errorHint`, `GetStateResponse.data.model`.
fn full_name(definition: &str, field: &Field) -> String {
    let Field { owner, name, .. } = field;
    let is_response = definition.ends_with("Response");
    match &**owner {
        "" if name == "seq" || name == "epoch" || name == "cut" => format!("any record.{name}"),
        "" if name == "id" && is_response => "any response.id".to_owned(),
        "" if name == "id" && definition.ends_with("Command") => "any command.id".to_owned(),
        "" => format!("{definition}.{name}"),
        "data" => format!("{definition}.data.{name}"),
        _ => format!("{owner}.{name}"),
    }
}

fn without(line: &Value, field: &Field) -> Value {
    let mut line = line.clone();
    if let Some(Value::Object(fields)) = line.pointer_mut(&field.object) {
        fields.shift_remove(&field.name);
    }
    line
}

/// The line with a value of another type, unless the field is `null`.
fn with_another_type(line: &Value, field: &Field) -> Option<Value> {
    let mut line = line.clone();
    let value = &mut line.pointer_mut(&field.object)?[&field.name];
    *value = match value {
        Value::Null => return None,
        Value::Number(_) => json!("text"),
        _ => json!(1.5),
    };
    Some(line)
}

/// Whether a field may have any JSON value.
fn is_any(definition: &str, field: &Field) -> bool {
    match &*field.name {
        "compat" | "details" => true,
        // The client's own, of a command with a response.
        "id" if field.owner.is_empty() => {
            definition.ends_with("Response")
                || definition.ends_with("Command")
                || ["PromptResultEvent", "BashExecutionUpdateEvent"].contains(&definition)
        }
        "client" => definition == "HelloCommand",
        _ => false,
    }
}

/// The lines of the corpus that do not fit exactly one of the two roots of their schema: the line of
/// a client or that of tiller.
pub fn ambiguous() -> Vec<String> {
    let mut found = Vec::new();
    corpus::with(|corpus| {
        for ((level, definition), kind) in corpus {
            let is_command = definition.ends_with("Command");
            for line in kind.lines() {
                let fits = |root: &str| fits(level, root, line).is_ok();
                if (fits("ClientLine"), fits("ServerLine")) != (is_command, !is_command) {
                    found.push(format!("{level} {definition}: {line}\n"));
                }
            }
        }
    });
    found
}

/// The definitions of commands and records of which the corpus has none at any level.
pub fn unseen() -> BTreeSet<String> {
    let mut names = names_of_lines();
    corpus::with(|corpus| {
        corpus.keys().for_each(|(_, name)| {
            names.remove(name);
        });
    });
    names
}
