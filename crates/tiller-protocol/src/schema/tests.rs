use std::fs;
use std::path::Path;

use sha2::{Digest, Sha256};

use super::*;
use crate::{COMMANDS, EVENTS};

const LEVELS: [Level; 3] = Level::ALL;

fn computed_hash(level: Level) -> String {
    let digest = Sha256::digest(schema(level).to_string());
    let digits: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{digits}")
}

#[test]
fn hashes_are_those_of_the_schemas() {
    let lines = LEVELS.map(|level| format!("{} {}\n", level.name(), computed_hash(level)));
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
    let digits = computed_hash(Level::PiDelta)["sha256:".len()..][..12].to_owned();
    assert!(
        fs::read_to_string(changelog).unwrap().contains(&digits),
        "CHANGELOG.md does not name the schema {digits}: describe what has changed for clients"
    );
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
    }
}

#[test]
fn fields_of_a_level_are_only_there() {
    let usage = |level: Level| schema(level)["$defs"]["Usage"].clone();
    assert!(usage(Level::Pi)["properties"].get("reasoning").is_none());
    let newer = usage(Level::PiDelta);
    assert_eq!(newer["properties"]["reasoning"]["type"], "integer");
    assert!(newer["required"].as_array().unwrap().contains(&json!("reasoning")));
    assert!(!schema(Level::PiDelta).to_string().contains("x-level"));
}

#[test]
fn every_reference_leads_to_a_definition() {
    fn references(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| references(item, found)),
            Value::Object(fields) => {
                if let Some(Value::String(reference)) = fields.get("$ref") {
                    found.push(reference.clone());
                }
                fields.values().for_each(|field| references(field, found));
            }
            _ => {}
        }
    }
    let schema = schema(Level::PiDelta);
    let mut found = Vec::new();
    references(&schema, &mut found);
    assert!(found.len() > 100, "{} references", found.len());
    for reference in found {
        let name = reference.strip_prefix("#/$defs/").unwrap();
        assert!(schema["$defs"].get(name).is_some(), "{reference}");
    }
}
