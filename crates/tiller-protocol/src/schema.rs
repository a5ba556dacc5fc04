//! The JSON Schema of the protocol at each level, generated from the types that read and write the
//! lines. Doc comments are the descriptions.
//!
//! `ClientLine` is any line of a client and `ServerLine` any line of tiller. Each command, event and
//! response has a definition of its own: `GetStateCommand`, `AgentEndEvent`, `GetStateResponse`. A
//! record may have fields that the schema does not name; clients ignore them.

mod marks;
pub mod sessions;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::data::{RESPONSES, ResponseData};
use crate::{Command, Level, Record, Stamp};

use self::marks::Marks;

/// The definitions that all others belong to.
const ROOTS: [&str; 2] = ["ClientLine", "ServerLine"];

const HASHES: &str = include_str!("schema/hashes.txt");

/// The hash of the schema of a level, as `hello` returns it.
pub fn hash(level: Level) -> &'static str {
    hash_of(level.name())
}

/// The hash of the schema of a server of many sessions.
pub fn sessions_hash() -> &'static str {
    hash_of("sessions")
}

fn hash_of(name: &str) -> &'static str {
    let line = HASHES.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_default()
}

/// The schema of all lines at a level.
pub fn schema(level: Level) -> Value {
    let definitions = definitions(level).expect("the marks of our own types are valid");
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": format!("The protocol of tiller at level {}", level.name()),
        "description": "A client writes `ClientLine`s and reads `ServerLine`s, one JSON object per \
                        line. Ignore records and fields that are not described here.",
        "oneOf": ROOTS.map(|name| json!({ "$ref": format!("#/$defs/{name}") })),
        "$defs": definitions,
    })
}

/// The definitions of all lines at a level and of everything in them, by name.
fn definitions(level: Level) -> Result<Map<String, Value>, String> {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let mut generator = settings.into_generator();
    let mut definitions = Map::new();
    let commands = commands(&mut generator, &mut definitions);
    let records = records(&mut generator, level, &mut definitions)?;
    definitions.insert("ClientLine".to_owned(), any_of("Any line of a client.", &commands));
    definitions.insert("ServerLine".to_owned(), any_of("Any line of tiller.", &records));
    for (name, definition) in generator.take_definitions(true) {
        definitions.insert(name, definition);
    }
    share_tool_call(&mut definitions);
    for (name, definition) in &mut definitions {
        marks::apply(definition, level).map_err(|why| format!("{name}: {why}"))?;
    }
    remove_unused_from(&mut definitions, &ROOTS);
    definitions.sort_keys();
    Ok(definitions)
}

/// The schema of a level as it is printed and kept in files.
pub fn text(level: Level) -> String {
    format!("{:#}\n", schema(level))
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
) -> Result<Vec<String>, String> {
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
    for mut event in variants(&schema) {
        let kind = kind(&event);
        // Responses have no name of their own; they follow.
        if kind.is_empty() || kind == "response" {
            continue;
        }
        let marks = event.as_object_mut().map_or(Ok(Marks::default()), Marks::take);
        if marks.map_err(|why| format!("{kind}: {why}"))?.are_written_at(level) {
            define(format!("{}Event", pascal(&kind)), event);
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
    Ok(names)
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

/// A tool call among the blocks of a message is the same object as the `toolCall` of an update: both
/// refer to one definition.
fn share_tool_call(definitions: &mut Map<String, Value>) {
    let Some(Value::Array(blocks)) = definitions.get_mut("Block").map(|block| &mut block["oneOf"])
    else {
        return;
    };
    if let Some(block) = blocks.iter_mut().find(|block| kind(block) == "toolCall") {
        *block = json!({ "$ref": "#/$defs/ToolCallBlock" });
    }
}

/// Removes the definitions that no line refers to: types of fields that another level writes.
fn remove_unused_from(definitions: &mut Map<String, Value>, roots: &[&str]) {
    let mut used: Vec<String> = roots.iter().map(|name| (*name).to_owned()).collect();
    let mut next = 0;
    while let Some(name) = used.get(next) {
        let mut found = Vec::new();
        definitions.get(name).inspect(|definition| references(definition, &mut found));
        for name in found {
            if !used.contains(&name) {
                used.push(name);
            }
        }
        next += 1;
    }
    definitions.retain(|name, _| used.contains(name));
}

/// The names of the definitions that a schema refers to.
fn references(schema: &Value, found: &mut Vec<String>) {
    match schema {
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        Value::Object(fields) => {
            let reference = fields.get("$ref").and_then(Value::as_str);
            found.extend(
                reference.and_then(|path| path.strip_prefix("#/$defs/")).map(str::to_owned),
            );
            fields.values().for_each(|field| references(field, found));
        }
        _ => {}
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
