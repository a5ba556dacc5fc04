//! The JSON Schema of the protocol at each level, generated from the types that read and write the
//! lines. Doc comments are the descriptions.
//!
//! `ClientLine` is any line of a client and `ServerLine` any line of tiller. Each command, event and
//! response has a definition of its own: `GetStateCommand`, `AgentEndEvent`, `GetStateResponse`. A
//! record may have fields that the schema does not name; clients ignore them.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::data::{RESPONSES, ResponseData};
use crate::{Command, Level, Record, Stamp};

/// Marks a field that only one level writes.
const LEVEL_MARK: &str = "x-level";
/// Marks such a field that is always written there.
const ALWAYS_MARK: &str = "x-always";
/// Events of level `xcsh` only.
const XCSH_EVENTS: [&str; 3] = ["ready", "auto_compaction_start", "auto_compaction_end"];
/// Optional fields whose `null` is not the same as their absence.
const NULLABLE: [(&str, &str); 2] = [("CompactionEndEvent", "result"), ("LastTextData", "text")];

const HASHES: &str = include_str!("schema/hashes.txt");

/// The hash of the schema of a level, as `hello` returns it.
pub fn hash(level: Level) -> &'static str {
    let line = HASHES.lines().find_map(|line| line.strip_prefix(level.name())?.strip_prefix(' '));
    line.unwrap_or_default()
}

/// The schema of all lines at a level.
pub fn schema(level: Level) -> Value {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let mut generator = settings.into_generator();
    let mut definitions = Map::new();
    let commands = commands(&mut generator, &mut definitions);
    let records = records(&mut generator, level, &mut definitions);
    definitions.insert("ClientLine".to_owned(), any_of("Any line of a client.", &commands));
    definitions.insert("ServerLine".to_owned(), any_of("Any line of tiller.", &records));
    for (name, definition) in generator.take_definitions(true) {
        definitions.insert(name, definition);
    }
    for (name, definition) in &mut definitions {
        forbid_null(name, definition);
        apply_level(definition, level);
    }
    definitions.sort_keys();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": format!("The protocol of tiller at level {}", level.name()),
        "description": "A client writes `ClientLine`s and reads `ServerLine`s, one JSON object per \
                        line. Ignore records and fields that are not described here.",
        "oneOf": [{ "$ref": "#/$defs/ClientLine" }, { "$ref": "#/$defs/ServerLine" }],
        "$defs": definitions,
    })
}

/// Defines each command. Returns the names of the definitions.
fn commands(generator: &mut SchemaGenerator, definitions: &mut Map<String, Value>) -> Vec<String> {
    let schema = definition::<Command>(generator);
    let variants = variants(&schema);
    let names = variants.iter().map(|variant| {
        let (command, mut variant) = (kind(variant), variant.clone());
        let name = format!("{}Command", pascal(&command));
        let is_answered = RESPONSES
            .iter()
            .any(|(name, data)| *name == command && !matches!(data, ResponseData::Never));
        if is_answered {
            let id = json!({
                "description": "Any JSON value. The response has the same.",
            });
            insert_property(&mut variant, "id", id);
        }
        definitions.insert(name.clone(), variant);
        name
    });
    names.collect()
}

/// Defines each event and each response. Returns the names of the definitions.
fn records(
    generator: &mut SchemaGenerator,
    level: Level,
    definitions: &mut Map<String, Value>,
) -> Vec<String> {
    let stamp = definition::<Stamp>(generator);
    let schema = definition::<Record<'static>>(generator);
    let mut names = Vec::new();
    let mut define = |name: String, mut definition: Value| {
        let stamps = stamp["properties"].as_object().into_iter().flatten();
        for (field, schema) in stamps {
            insert_property(&mut definition, field, schema.clone());
        }
        definitions.insert(name.clone(), definition);
        names.push(name);
    };
    for event in variants(&schema).iter().filter(|variant| !kind(variant).is_empty()) {
        let kind = kind(event);
        let is_elsewhere = level != Level::Xcsh && XCSH_EVENTS.contains(&&*kind);
        if kind != "response" && !is_elsewhere {
            define(format!("{}Event", pascal(&kind)), event.clone());
        }
    }
    for (command, data) in RESPONSES {
        let data = match data {
            ResponseData::Never => continue,
            ResponseData::Nothing => None,
            ResponseData::Always(data) => Some(Value::from(data(generator))),
            ResponseData::OrNull(data) => {
                Some(json!({ "anyOf": [Value::from(data(generator)), { "type": "null" }] }))
            }
        };
        define(format!("{}Response", pascal(command)), response(command, data));
    }
    define("RefusalResponse".to_owned(), refusal());
    names
}

fn response(command: &str, data: Option<Value>) -> Value {
    let mut schema = json!({
        "description": format!("The response to a `{command}` that has succeeded."),
        "type": "object",
        "properties": {
            "id": { "description": "As in the command; absent if it had none." },
            "type": { "const": "response" },
            "command": { "const": command },
            "success": { "const": true },
        },
        "required": ["type", "command", "success"],
    });
    if let Some(data) = data {
        insert_property(&mut schema, "data", data);
        require(&mut schema, "data");
    }
    schema
}

fn refusal() -> Value {
    json!({
        "description": "The response to a command that was refused. Nothing has changed.",
        "type": "object",
        "properties": {
            "id": { "description": "As in the command; absent if it had none." },
            "type": { "const": "response" },
            "command": {
                "description": "The command's name as the client wrote it, or `parse`.",
                "type": "string",
            },
            "success": { "const": false },
            "error": { "description": "A text for people.", "type": "string" },
        },
        "required": ["type", "command", "success", "error"],
    })
}

/// The schema of a type itself, not a reference to it.
fn definition<T: JsonSchema>(generator: &mut SchemaGenerator) -> Value {
    Value::from(T::json_schema(generator))
}

/// The schemas of an enum's variants.
fn variants(schema: &Value) -> Vec<Value> {
    let list = schema.get("oneOf").or_else(|| schema.get("anyOf"));
    list.and_then(Value::as_array).cloned().unwrap_or_default()
}

/// The value of a record's or a command's `type`.
fn kind(schema: &Value) -> String {
    schema["properties"]["type"]["const"].as_str().unwrap_or_default().to_owned()
}

fn any_of(description: &str, names: &[String]) -> Value {
    let references = names.iter().map(|name| json!({ "$ref": format!("#/$defs/{name}") }));
    json!({ "description": description, "anyOf": references.collect::<Vec<_>>() })
}

fn insert_property(schema: &mut Value, name: &str, property: Value) {
    if let Some(schema) = schema.as_object_mut() {
        let properties = schema.entry("properties").or_insert_with(|| json!({}));
        properties[name] = property;
    }
}

fn require(schema: &mut Value, name: &str) {
    if let Some(schema) = schema.as_object_mut() {
        let required = schema.entry("required").or_insert_with(|| json!([]));
        if let Some(required) = required.as_array_mut() {
            required.push(json!(name));
        }
    }
}

/// Removes fields of other levels, everywhere in the schema.
fn apply_level(schema: &mut Value, level: Level) {
    match schema {
        Value::Array(items) => items.iter_mut().for_each(|item| apply_level(item, level)),
        Value::Object(fields) => {
            let mut always = Vec::new();
            if let Some(Value::Object(properties)) = fields.get_mut("properties") {
                properties.retain(|_, property| {
                    property.get(LEVEL_MARK).is_none_or(|only| *only == level.name())
                });
                for (name, property) in properties {
                    let Some(property) = property.as_object_mut() else { continue };
                    property.shift_remove(LEVEL_MARK);
                    if property.shift_remove(ALWAYS_MARK).is_some() {
                        always.push(name.clone());
                    }
                }
            }
            fields.values_mut().for_each(|field| apply_level(field, level));
            always.iter().for_each(|name| require(schema, name));
        }
        _ => {}
    }
}

/// An optional field is absent, not `null`.
fn forbid_null(name: &str, schema: &mut Value) {
    match schema {
        Value::Array(items) => items.iter_mut().for_each(|item| forbid_null(name, item)),
        Value::Object(fields) => {
            let required = fields.get("required").cloned().unwrap_or_default();
            let is_required = |field: &str| {
                required.as_array().is_some_and(|all| all.iter().any(|one| one == field))
            };
            if let Some(Value::Object(properties)) = fields.get_mut("properties") {
                for (field, property) in properties {
                    if !is_required(field) && !NULLABLE.contains(&(name, field)) {
                        without_null(property);
                    }
                }
            }
            fields.values_mut().for_each(|field| forbid_null(name, field));
        }
        _ => {}
    }
}

fn without_null(property: &mut Value) {
    let Some(fields) = property.as_object_mut() else { return };
    if let Some(Value::Array(types)) = fields.get_mut("type") {
        types.retain(|kind| kind != "null");
        if let [single] = &**types {
            let single = single.clone();
            fields.insert("type".to_owned(), single);
        }
    }
    if let Some(Value::Array(choices)) = fields.get_mut("anyOf") {
        choices.retain(|choice| choice["type"] != "null");
        if let [Value::Object(single)] = &**choices {
            let single = single.clone();
            fields.shift_remove("anyOf");
            fields.extend(single);
        }
    }
}

/// `get_state` as `GetState`.
fn pascal(name: &str) -> String {
    let words = name.split('_').map(|word| {
        let mut chars = word.chars();
        let first = chars.next().map(|first| first.to_ascii_uppercase());
        first.into_iter().chain(chars).collect::<String>()
    });
    words.collect()
}

#[cfg(test)]
mod tests;
