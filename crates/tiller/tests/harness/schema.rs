//! Every line fits the JSON Schema of its level, and a changed one does not.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, LazyLock, Mutex};

use jsonschema::Validator;
use serde_json::{Value, json};
use tiller_protocol::{Level, Line, Request, schema};

static SCHEMAS: LazyLock<Vec<(&'static str, Value)>> =
    LazyLock::new(|| Level::ALL.map(|level| (level.name(), schema::schema(level))).to_vec());

/// A level, and the name of a definition.
type Key = (String, String);

static VALIDATORS: LazyLock<Mutex<HashMap<Key, Arc<Validator>>>> = LazyLock::new(Mutex::default);

/// One record of each definition that was seen, by level and name.
static SEEN: LazyLock<Mutex<BTreeMap<Key, Value>>> = LazyLock::new(Mutex::default);

fn validator(level: &str, name: &str) -> Result<Arc<Validator>, String> {
    let key = (level.to_owned(), name.to_owned());
    if let Some(found) = VALIDATORS.lock().unwrap().get(&key) {
        return Ok(found.clone());
    }
    let (_, schema) = SCHEMAS.iter().find(|(other, _)| *other == level).ok_or("no such level")?;
    if schema["$defs"].get(name).is_none() {
        return Err(format!("the schema of level {level} has no {name}"));
    }
    let reference = json!({ "$ref": format!("#/$defs/{name}"), "$defs": schema["$defs"] });
    let validator = jsonschema::validator_for(&reference).map_err(|err| err.to_string())?;
    let validator = Arc::new(validator);
    VALIDATORS.lock().unwrap().insert(key, validator.clone());
    Ok(validator)
}

fn fits(level: &str, name: &str, value: &Value) -> Result<(), String> {
    let validator = validator(level, name)?;
    let wrong = validator.iter_errors(value).next();
    wrong.map_or(Ok(()), |err| Err(format!("not a {name}: {err}: {value}")))
}

fn pascal(name: &str) -> String {
    let words = name.split('_').map(|word| word[..1].to_uppercase() + &word[1..]);
    words.collect()
}

/// Checks a record of the server.
pub fn check_record(level: &str, record: &Value) -> Result<(), String> {
    let name = match record["type"].as_str().unwrap_or_default() {
        "response" if record["success"] == false => "RefusalResponse".to_owned(),
        "response" => {
            format!("{}Response", pascal(record["command"].as_str().unwrap_or_default()))
        }
        kind => format!("{}Event", pascal(kind)),
    };
    fits(level, &name, record)?;
    SEEN.lock().unwrap().entry((level.to_owned(), name)).or_insert_with(|| record.clone());
    Ok(())
}

/// Checks a command that tiller accepts, as `tiller-protocol` writes it.
pub fn check_command(level: &str, line: &str) -> Result<(), String> {
    let request = Request::read(Line::Text(line.as_bytes().to_vec()));
    let Some(command) = request.and_then(|request| request.command.ok()) else { return Ok(()) };
    let line: Value = serde_json::from_str(&command.to_line(Some("1"))).unwrap();
    fits(level, &format!("{}Command", pascal(command.name())), &line)
}

/// Fields that may have any value, or any of several types.
const OPEN: [&str; 2] = ["id", "cut"];

/// Drops each required field and changes the type of each field of every record that was seen.
/// Returns how many changes were refused.
pub fn mutate_seen() -> Result<usize, String> {
    let mut refused = 0;
    for ((level, name), record) in SEEN.lock().unwrap().iter() {
        let (_, schema) = SCHEMAS.iter().find(|(other, _)| other == level).unwrap();
        let definition = &schema["$defs"][name];
        let required = definition["required"].as_array().cloned().unwrap_or_default();
        for field in required.iter().filter_map(Value::as_str) {
            let mut changed = record.clone();
            changed.as_object_mut().unwrap().shift_remove(field);
            if fits(level, name, &changed).is_ok() {
                return Err(format!("{name} of level {level} is valid without {field}"));
            }
            refused += 1;
        }
        for (field, schema) in definition["properties"].as_object().into_iter().flatten() {
            let is_open = OPEN.contains(&&**field) || *schema == json!(true);
            if is_open || record.get(field).is_none() || is_any(schema) {
                continue;
            }
            let mut changed = record.clone();
            changed[field] = if record[field].is_array() { json!(1) } else { json!([]) };
            if fits(level, name, &changed).is_ok() {
                return Err(format!("{name} of level {level} is valid with another {field}"));
            }
            refused += 1;
        }
    }
    Ok(refused)
}

/// Whether a schema allows every value.
fn is_any(schema: &Value) -> bool {
    let says_nothing = |name: &String| name == "description";
    let is_empty = schema.as_object().is_some_and(|fields| fields.keys().all(says_nothing));
    is_empty || schema["$ref"] == "#/$defs/Json"
}
