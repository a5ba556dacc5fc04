//! The JSON Schema of each level as validators of single lines.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, LazyLock, Mutex};

use jsonschema::Validator;
use serde_json::{Value, json};
use tiller_protocol::{Level, schema};

static SCHEMAS: LazyLock<Vec<(&'static str, Value)>> =
    LazyLock::new(|| Level::ALL.map(|level| (level.name(), schema::schema(level))).to_vec());

/// A level, and the name of a definition.
pub type Key = (String, String);

static VALIDATORS: LazyLock<Mutex<HashMap<Key, Arc<Validator>>>> = LazyLock::new(Mutex::default);

/// The names of the definitions of all commands and records, of all levels.
pub fn names_of_lines() -> BTreeSet<String> {
    let roots = SCHEMAS.iter().flat_map(|(_, schema)| {
        ["ClientLine", "ServerLine"].map(|root| &schema["$defs"][root]["anyOf"])
    });
    let lines = roots.flat_map(|lines| lines.as_array().unwrap());
    let names = lines.map(|line| line["$ref"].as_str().unwrap().strip_prefix("#/$defs/").unwrap());
    names.map(str::to_owned).collect()
}

/// The definitions of a level, by name.
fn definitions(level: &str) -> Result<&'static Value, String> {
    let found = SCHEMAS.iter().find(|(other, _)| *other == level);
    found.map(|(_, schema)| &schema["$defs"]).ok_or_else(|| format!("no level {level}"))
}

fn validator(level: &str, name: &str) -> Result<Arc<Validator>, String> {
    let key = (level.to_owned(), name.to_owned());
    if let Some(found) = VALIDATORS.lock().unwrap().get(&key) {
        return Ok(found.clone());
    }
    let definitions = definitions(level)?;
    if definitions.get(name).is_none() {
        return Err(format!("the schema of level {level} has no {name}"));
    }
    let reference = json!({ "$ref": format!("#/$defs/{name}"), "$defs": definitions });
    let validator = jsonschema::validator_for(&reference).map_err(|err| err.to_string())?;
    let validator = Arc::new(validator);
    VALIDATORS.lock().unwrap().insert(key, validator.clone());
    Ok(validator)
}

/// Whether a value fits a definition of a level, and why not.
pub fn fits(level: &str, name: &str, value: &Value) -> Result<(), String> {
    let validator = validator(level, name)?;
    let wrong = validator.iter_errors(value).next();
    wrong.map_or(Ok(()), |err| Err(format!("not a {name}: {err}: {value}")))
}

/// The name of the definition of a record.
pub fn name_of_record(record: &Value) -> String {
    match record["type"].as_str().unwrap_or_default() {
        "response" if record["success"] == false => "RefusalResponse".to_owned(),
        "response" => {
            format!("{}Response", pascal(record["command"].as_str().unwrap_or_default()))
        }
        kind => format!("{}Event", pascal(kind)),
    }
}

/// The name of the definition of a command.
pub fn name_of_command(command: &str) -> String {
    format!("{}Command", pascal(command))
}

fn pascal(name: &str) -> String {
    let words = name.split('_').map(|word| match word.split_at_checked(1) {
        Some((first, rest)) => first.to_uppercase() + rest,
        None => word.to_owned(),
    });
    words.collect()
}
