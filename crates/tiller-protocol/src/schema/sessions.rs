//! The JSON Schema of what a server of many sessions adds to the protocol. It is the same at every
//! level; the commands and records of the sessions are in the schema of the level.

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::{
    any_of, definition, insert_property, kind, pascal, refusal, remove_unused_from, response,
    variants,
};
use crate::Level;
use crate::schema::marks;
use crate::sessions::{
    ErrorCode, InUseData, OpenSessionsData, OpenedData, ServerCommand, ServerRecord,
};

/// The definitions that all others belong to.
const ROOTS: [&str; 3] = ["ClientLine", "ServerLine", "SessionField"];

/// The schema of the lines that only a server of many sessions has.
pub fn schema() -> Value {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let mut generator = settings.into_generator();
    let mut definitions = Map::new();
    let commands = definition::<ServerCommand>(&mut generator);
    let mut names = Vec::new();
    for mut command in variants(&commands) {
        let name = format!("{}Command", pascal(&kind(&command)));
        let id = json!({ "description": "Any JSON value. The response has the same." });
        insert_property(&mut command, "id", id);
        definitions.insert(name.clone(), command);
        names.push(name);
    }
    definitions.insert("ClientLine".to_owned(), any_of("A command for the server.", &names));
    let records = definition::<ServerRecord<'static>>(&mut generator);
    let mut names = Vec::new();
    for record in variants(&records) {
        let name = format!("{}Event", pascal(&kind(&record)));
        definitions.insert(name.clone(), record);
        names.push(name);
    }
    let opened = Value::from(generator.subschema_for::<OpenedData<'static>>());
    let sessions = Value::from(generator.subschema_for::<OpenSessionsData>());
    for (command, data) in [
        ("open_session", Some(opened.clone())),
        ("attach", Some(opened)),
        ("list_open_sessions", Some(sessions)),
        ("close_session", None),
        ("detach", None),
    ] {
        let name = format!("{}Response", pascal(command));
        definitions.insert(name.clone(), response(command, data));
        names.push(name);
    }
    let mut refusal = refusal();
    insert_property(&mut refusal, "code", Value::from(generator.subschema_for::<ErrorCode>()));
    let in_use = Value::from(generator.subschema_for::<InUseData>());
    insert_property(&mut refusal, "data", in_use);
    definitions.insert("RefusalResponse".to_owned(), refusal);
    names.push("RefusalResponse".to_owned());
    definitions.insert("ServerLine".to_owned(), any_of("A line of the server.", &names));
    definitions.insert("SessionField".to_owned(), session_field());
    for (name, definition) in generator.take_definitions(true) {
        definitions.insert(name, definition);
    }
    for definition in definitions.values_mut() {
        marks::apply(definition, Level::PiDelta).expect("the marks of our own types are valid");
    }
    remove_unused_from(&mut definitions, &ROOTS);
    definitions.sort_keys();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "What a server of many sessions adds to the protocol of tiller",
        "description": "Beside these lines a client writes the commands of a session and reads its \
                        records, each with the `SessionField`. They are in the schema of the level.",
        "oneOf": ROOTS[..2].iter().map(|name| json!({ "$ref": format!("#/$defs/{name}") })).collect::<Vec<_>>(),
        "$defs": definitions,
    })
}

fn session_field() -> Value {
    json!({
        "description": "The session that a command is for, and that a record is from.",
        "type": "object",
        "properties": {
            "sessionId": { "description": "The handle of the session.", "type": "string" },
        },
        "required": ["sessionId"],
    })
}

/// The schema as it is printed and kept in a file.
pub fn text() -> String {
    format!("{:#}\n", schema())
}
