//! One settings file: read, checked key by key, kept whole.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::Settings;
use crate::jsonc;
use crate::project::text_file;

/// A file with more faults than this loses whole sections instead of single keys.
const FAULTS_MAX: usize = 32;

/// What the file says, without the values that tiller knows and cannot understand. Those are said
/// in `diagnostics`, and so is a file that cannot be read at all.
pub(crate) fn read_file(path: &Path, diagnostics: &mut Vec<String>) -> Map<String, Value> {
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
    modernise(&mut values);
    forget_nulls(&mut values);
    let mut value = Value::Object(values);
    for fault in 0.. {
        let Err(err) = serde_path_to_error::deserialize::<_, Settings>(&value) else { break };
        let mut keys: Vec<String> = err.path().iter().filter_map(key).collect();
        if fault >= FAULTS_MAX {
            keys.truncate(1);
        }
        let (name, path) = (keys.join("."), path.display());
        let reason = err.into_inner();
        diagnostics.push(format!("Invalid {name} setting in {path} is ignored: {reason}"));
        if !forget(&mut value, &keys) {
            return Map::new();
        }
    }
    match value {
        Value::Object(values) => values,
        _ => Map::new(),
    }
}

/// Names and shapes of long ago.
fn modernise(values: &mut Map<String, Value>) {
    if let Some(mode) = values.get("queueMode").cloned() {
        values.entry("steeringMode").or_insert(mode);
    }
    if let Some(Value::Object(skills)) = values.get("skills") {
        let folders = skills.get("customDirectories").cloned();
        values.insert("skills".to_owned(), folders.unwrap_or_else(|| Value::Array(Vec::new())));
    }
}

/// A key without a value is one that was not set.
fn forget_nulls(values: &mut Map<String, Value>) {
    values.retain(|_, value| !value.is_null());
    for value in values.values_mut() {
        if let Value::Object(inner) = value {
            forget_nulls(inner);
        }
    }
}

fn key(segment: &serde_path_to_error::Segment) -> Option<String> {
    match segment {
        serde_path_to_error::Segment::Map { key } => Some(key.clone()),
        // A list with a wrong item is a wrong list.
        _ => None,
    }
}

/// Removes what stands at the end of the path. False when there is nothing.
fn forget(value: &mut Value, path: &[String]) -> bool {
    let Some((last, sections)) = path.split_last() else { return false };
    let section = sections.iter().try_fold(value, |value, key| value.get_mut(key));
    let section = section.and_then(Value::as_object_mut);
    section.is_some_and(|section| section.shift_remove(last).is_some())
}

/// A setting that is read on its own, before it is known which files count.
pub(super) fn one<'a, T: Deserialize<'a>>(values: &'a Map<String, Value>, key: &str) -> Option<T> {
    T::deserialize(values.get(key)?).ok()
}
