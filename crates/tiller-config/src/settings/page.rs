//! Generates `docs/settings.md` from the types: a new key without its row fails the test.

use std::fmt::Write;

use expect_test::expect_file;
use serde_json::{Map, Value};

use super::Settings;

const HEAD: &str = include_str!("page-head.txt");
const TAIL: &str = include_str!("page-tail.txt");

#[test]
fn settings_page_matches_the_types() {
    let schema = schemars::schema_for!(Settings).to_value();
    let definitions = schema["$defs"].as_object().unwrap();
    let fields = schema["properties"].as_object().unwrap();
    let mut page = HEAD.to_owned();
    page.push_str("| key | value | default | |\n|---|---|---|---|\n");
    for (key, field) in fields {
        row(&mut page, key, field, definitions);
    }
    page.push_str(TAIL);
    expect_file!["../../../../docs/settings.md"].assert_eq(&page);
}

/// One row for a key, or one for each key of a section.
fn row(page: &mut String, key: &str, field: &Value, definitions: &Map<String, Value>) {
    let section = reference(field).map(|name| &definitions[name]);
    let inside = section.and_then(|section| section["properties"].as_object());
    if let Some(inside) = inside {
        for (name, inner) in inside {
            row(page, &format!("{key}.{name}"), inner, definitions);
        }
        return;
    }
    let default = match &field["default"] {
        Value::Null => String::new(),
        default if *default == Value::Array(Vec::new()) => String::new(),
        default if *default == Value::Object(Map::new()) => String::new(),
        default => format!("`{default}`"),
    };
    let kind = kind(field, definitions);
    let meaning = field["description"].as_str().unwrap_or_else(|| panic!("{key} says nothing"));
    writeln!(page, "| `{key}` | {kind} | {default} | {} |", meaning.replace('\n', " ")).unwrap();
    let entries = reference(&field["additionalProperties"]).map(|name| &definitions[name]);
    let entries = entries.and_then(|entry| entry["properties"].as_object());
    for (name, inner) in entries.into_iter().flatten() {
        row(page, &format!("{key}.*.{name}"), inner, definitions);
    }
}

fn reference(field: &Value) -> Option<&str> {
    let reference = field["$ref"].as_str().or_else(|| field["allOf"][0]["$ref"].as_str());
    reference?.strip_prefix("#/$defs/")
}

/// The type of a value, in a word.
fn kind(field: &Value, definitions: &Map<String, Value>) -> String {
    if let Some(name) = reference(field) {
        return names(&definitions[name]);
    }
    let kind = match &field["type"] {
        Value::Array(kinds) => kinds[0].as_str(),
        kind => kind.as_str(),
    };
    match kind {
        Some("boolean") => "`true` or `false`".to_owned(),
        Some("integer") => "number".to_owned(),
        Some("array") if reference(&field["items"]).is_some() => "list".to_owned(),
        Some("array") => "list of strings".to_owned(),
        Some("object") => "object".to_owned(),
        _ => "text".to_owned(),
    }
}

/// The names of an enumeration, some of which may have comments.
fn names(definition: &Value) -> String {
    let plain = definition["enum"].as_array().into_iter().flatten();
    let described = definition["oneOf"].as_array().into_iter().flatten();
    let described = described.flat_map(|variant| {
        let many = variant["enum"].as_array().into_iter().flatten();
        variant.get("const").into_iter().chain(many)
    });
    let names: Vec<String> = plain.chain(described).map(|name| format!("`{name}`")).collect();
    names.join(", ")
}
