//! Reads one settings file and validates it key by key.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use tiller_agent::approvals::ApprovalMode;
use tiller_agent::sandbox::SandboxMode;

use super::Settings;
use crate::jsonc;
use crate::project::text_file;

/// A file with more invalid values than this loses whole sections instead of single keys.
const FAULTS_MAX: usize = 32;

/// The content of the file without invalid values of known keys. These are reported in
/// `diagnostics`, and so is an unreadable file.
pub fn read_file(path: &Path, diagnostics: &mut Vec<String>) -> Map<String, Value> {
    let Some(text) = text_file::read(path, diagnostics) else { return Map::new() };
    let mut values = match jsonc::parse(&text) {
        Ok(Value::Object(values)) => values,
        Ok(_) => {
            let path = path.display();
            diagnostics.push(format!("Invalid settings file {path}: expected an object"));
            return Map::new();
        }
        Err(err) => {
            let path = path.display();
            diagnostics.push(format!(
                "Invalid settings file {path}: {err}; none of its settings are used"
            ));
            return Map::new();
        }
    };
    migrate_old_names(&mut values);
    remove_nulls(&mut values);
    let mut value = Value::Object(values);
    // Fails closed: a mistake in what restricts tools must not allow them.
    let (mut asks, mut restricts) = (false, false);
    for fault in 0.. {
        let Err(err) = serde_path_to_error::deserialize::<_, Settings>(&value) else { break };
        let mut keys: Vec<String> = err.path().iter().filter_map(key).collect();
        if fault >= FAULTS_MAX {
            keys.truncate(1);
        }
        let name = keys.join(".");
        let path = path.display();
        let reason = err.into_inner();
        diagnostics.push(format!("Invalid {name} setting in {path} is ignored: {reason}"));
        restricts |= keys.first().is_some_and(|key| key == "sandbox");
        asks |= keys.first().is_some_and(|key| key == "approvals" || key == "permissions");
        if !remove_at(&mut value, &keys) {
            return Map::new();
        }
    }
    if restricts && let Value::Object(values) = &mut value {
        let path = path.display();
        diagnostics.push(format!("Tools may change no files because of {path}"));
        values.insert("sandbox".to_owned(), json!({ "mode": SandboxMode::ReadOnly }));
    }
    if asks && let Value::Object(values) = &mut value {
        let path = path.display();
        diagnostics.push(format!("Tool calls need an approval because of {path}"));
        let mode = read_one(values, "approvals").unwrap_or_default();
        values.insert("approvals".to_owned(), ApprovalMode::Ask.max(mode).name().into());
    }
    match value {
        Value::Object(values) => values,
        _ => Map::new(),
    }
}

/// Converts old names and formats.
fn migrate_old_names(values: &mut Map<String, Value>) {
    if let Some(mode) = values.get("queueMode").cloned() {
        values.entry("steeringMode").or_insert(mode);
    }
    if let Some(Value::Object(skills)) = values.get("skills") {
        let folders = skills.get("customDirectories").cloned();
        values.insert("skills".to_owned(), folders.unwrap_or_else(|| Value::Array(Vec::new())));
    }
}

/// A `null` value counts as not set.
fn remove_nulls(values: &mut Map<String, Value>) {
    values.retain(|_, value| !value.is_null());
    for value in values.values_mut() {
        if let Value::Object(inner) = value {
            remove_nulls(inner);
        }
    }
}

fn key(segment: &serde_path_to_error::Segment) -> Option<String> {
    match segment {
        serde_path_to_error::Segment::Map { key } => Some(key.clone()),
        // A list with an invalid item is invalid as a whole.
        _ => None,
    }
}

/// Removes the value at the end of the path. Returns false if there is none.
fn remove_at(value: &mut Value, path: &[String]) -> bool {
    let Some((last, sections)) = path.split_last() else { return false };
    let section = sections.iter().try_fold(value, |value, key| value.get_mut(key));
    let section = section.and_then(Value::as_object_mut);
    section.is_some_and(|section| section.shift_remove(last).is_some())
}

/// Reads a single setting, before it is known which files count.
pub(super) fn read_one<'a, T: Deserialize<'a>>(
    values: &'a Map<String, Value>,
    key: &str,
) -> Option<T> {
    T::deserialize(values.get(key)?).ok()
}
