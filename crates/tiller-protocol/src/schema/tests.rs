use std::fs;
use std::path::Path;

use sha2::{Digest, Sha256};

use super::*;
use crate::{COMMANDS, EVENTS};

const LEVELS: [Level; 3] = Level::ALL;
/// Events of level `xcsh` only.
const XCSH_EVENTS: [&str; 2] = ["auto_compaction_start", "auto_compaction_end"];

fn computed_hash(level: Level) -> String {
    hash_of_schema(&schema(level))
}

fn hash_of_schema(schema: &Value) -> String {
    let digest = Sha256::digest(schema.to_string());
    let digits: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{digits}")
}

#[test]
fn hashes_are_those_of_the_schemas() {
    let mut lines =
        LEVELS.map(|level| format!("{} {}\n", level.name(), computed_hash(level))).to_vec();
    let of_sessions = hash_of_schema(&sessions::schema());
    lines.push(format!("sessions {of_sessions}\n"));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/schema/hashes.txt");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(&path, lines.concat()).unwrap();
    }
    assert_eq!(
        fs::read_to_string(&path).unwrap(),
        lines.concat(),
        "The protocol has changed. Run UPDATE_EXPECT=1 cargo test -p tiller-protocol, and describe \
         the change in CHANGELOG.md with the first 12 digits of the hash of level pi-delta"
    );
    let changelog = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../CHANGELOG.md");
    let changelog = fs::read_to_string(changelog).unwrap();
    for hash in [computed_hash(Level::PiDelta), of_sessions] {
        let digits = &hash["sha256:".len()..][..12];
        assert!(
            changelog.contains(digits),
            "CHANGELOG.md does not name the schema {digits}: describe what has changed for clients"
        );
    }
}

#[test]
fn every_command_and_event_has_a_definition() {
    for level in LEVELS {
        let schema = schema(level);
        let has = |name: String| schema["$defs"].get(&name).is_some();
        for command in COMMANDS {
            assert!(has(format!("{}Command", pascal(command))), "{command}");
        }
        for event in EVENTS {
            let is_there = has(format!("{}Event", pascal(event)));
            let is_elsewhere = level != Level::Xcsh && XCSH_EVENTS.contains(event);
            assert_eq!(is_there, !is_elsewhere, "{event} at level {}", level.name());
        }
        assert_eq!(has("ReadyEvent".to_owned()), level == Level::Xcsh);
    }
}

/// What a definition says about a field at a level: not there, optional or required, and whether
/// `null` is allowed.
fn field(level: Level, definition: &str, field: &str) -> &'static str {
    let schema = schema(level);
    let definition = &schema["$defs"][definition];
    let Some(property) = definition["properties"].get(field) else { return "absent" };
    let is_required =
        definition["required"].as_array().is_some_and(|names| names.contains(&json!(field)));
    match (is_required, property.to_string().contains("\"null\"")) {
        (true, true) => "required or null",
        (true, false) => "required",
        (false, true) => "optional or null",
        (false, false) => "optional",
    }
}

#[test]
fn fields_are_there_at_the_levels_that_write_them() {
    for (definition, name, at_each_level) in [
        ("Usage", "reasoning", ["absent", "required", "absent"]),
        ("UsageCost", "totalFromProvider", ["absent", "required", "absent"]),
        ("AssistantMessage", "durationMs", ["absent", "optional", "absent"]),
        ("ToolCallBlock", "argumentsError", ["absent", "optional", "absent"]),
        ("ToolCallBlock", "type", ["required", "required", "required"]),
        ("LastTextData", "text", ["required or null", "required or null", "optional"]),
        ("CompactionEndEvent", "result", ["required or null", "optional", "required or null"]),
        ("StateData", "todoPhases", ["absent", "absent", "required"]),
        ("StateData", "model", ["required or null", "required", "required or null"]),
        ("StatsData", "premiumRequests", ["absent", "absent", "required"]),
        ("BashData", "totalLines", ["absent", "absent", "required"]),
        ("ThinkingLevelChangedEvent", "thinkingLevel", ["absent", "absent", "required"]),
        ("PromptResultEvent", "reason", ["optional", "optional", "optional"]),
    ] {
        let actual = Level::ALL.map(|level| field(level, definition, name));
        assert_eq!(actual, at_each_level, "{definition}.{name}");
    }
}

#[test]
fn no_mark_is_published() {
    for level in LEVELS {
        let text = text(level);
        let mark = text.lines().find(|line| line.trim().starts_with("\"x-"));
        assert_eq!(mark, None, "at level {}", level.name());
    }
}

/// Calls the function with each schema inside this one, and with the names that lead to it.
fn visit(value: &Value, path: &str, found: &mut impl FnMut(&str, &Map<String, Value>)) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| visit(item, path, found)),
        Value::Object(fields) => {
            found(path, fields);
            for (name, field) in fields {
                visit(field, &format!("{path}/{name}"), found);
            }
        }
        _ => {}
    }
}

#[test]
fn every_definition_can_be_reached() {
    for level in LEVELS {
        let schema = schema(level);
        let definitions = schema["$defs"].as_object().unwrap();
        let mut reached = vec!["ClientLine".to_owned(), "ServerLine".to_owned()];
        let mut next = 0;
        while let Some(name) = reached.get(next).cloned() {
            next += 1;
            let definition = definitions.get(&name).unwrap_or_else(|| panic!("no {name}"));
            visit(definition, &name, &mut |_, fields| {
                let Some(Value::String(reference)) = fields.get("$ref") else { return };
                let name = reference.strip_prefix("#/$defs/").unwrap();
                if !reached.iter().any(|other| other == name) {
                    reached.push(name.to_owned());
                }
            });
        }
        let unreached: Vec<_> = definitions.keys().filter(|name| !reached.contains(name)).collect();
        assert!(unreached.is_empty(), "at level {}: {unreached:?}", level.name());
        assert!(reached.len() > 250, "{} definitions", reached.len());
    }
}

#[test]
fn names_of_definitions_differ_in_more_than_case() {
    for level in LEVELS {
        let schema = schema(level);
        let mut lower = std::collections::BTreeMap::new();
        for name in schema["$defs"].as_object().unwrap().keys() {
            assert!(name.starts_with(|c: char| c.is_ascii_uppercase()), "{name}");
            if let Some(other) = lower.insert(name.to_lowercase(), name) {
                panic!("{other} and {name}");
            }
        }
    }
}

#[test]
fn descriptions_are_plain_text_with_names_of_the_wire() {
    for level in LEVELS {
        let schema = schema(level);
        let text = schema.to_string();
        let mut count = 0;
        visit(&schema["$defs"], "", &mut |path, fields| {
            let Some(Value::String(description)) = fields.get("description") else { return };
            count += 1;
            for link in ["::", "[`", "]: ", "]("] {
                assert!(!description.contains(link), "{path}: a link in {description:?}");
            }
            for name in description.split('`').skip(1).step_by(2) {
                let is_on_the_wire = text.contains(&format!("\"{name}\""));
                assert!(
                    is_on_the_wire || !name.contains('_'),
                    "{path}: no `{name}` in {description:?}"
                );
            }
        });
        assert!(count > 400, "{count} descriptions");
    }
}

#[test]
fn server_of_many_sessions_has_a_schema() {
    let schema = sessions::schema();
    let has = |name: String| schema["$defs"].get(&name).is_some();
    for command in crate::SERVER_COMMANDS {
        assert!(has(format!("{}Command", pascal(command))), "{command}");
        assert!(has(format!("{}Response", pascal(command))), "{command}");
    }
    for event in ["SessionClosedEvent", "SessionDetachedEvent", "ServerStoppingEvent"] {
        assert!(has(event.to_owned()), "{event}");
    }
    let mut references = Vec::new();
    super::references(&schema, &mut references);
    assert!(references.iter().all(|name| has(name.clone())), "{references:?}");
    assert!(!schema.to_string().contains("\"x-"), "a mark is published");
}
