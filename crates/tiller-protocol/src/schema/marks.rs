//! Marks of the wire types that say how a field or an event depends on the level. schemars puts them
//! into the schema; here they are applied to one level and removed.
//!
//! ```text
//! #[schemars(extend("x-levels" = ["xcsh"], "x-required" = ["xcsh"]))]
//! ```

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::Level;

/// The levels that write the field or the event; without it, all do.
const LEVELS: &str = "x-levels";
/// The levels that always write the field, although its type is optional.
const REQUIRED: &str = "x-required";
/// The levels at which the field may be `null`; without it, only a field that its type requires.
const NULLABLE: &str = "x-nullable";
/// How the name of every mark begins.
const PREFIX: &str = "x-";

/// The marks of one field or event.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Marks {
    levels: Option<Vec<Level>>,
    required: Vec<Level>,
    nullable: Option<Vec<Level>>,
}

impl Marks {
    /// Removes the marks from a schema. A mark that is not one of these is an error.
    pub(super) fn take(schema: &mut Map<String, Value>) -> Result<Marks, String> {
        let names: Vec<String> =
            schema.keys().filter(|name| name.starts_with(PREFIX)).cloned().collect();
        let mut marks = Marks::default();
        for name in names {
            let value = schema.shift_remove(&name).unwrap_or_default();
            let levels = serde_json::from_value::<Vec<Level>>(value)
                .map_err(|err| format!("mark `{name}`: {err}"))?;
            match &*name {
                LEVELS => marks.levels = Some(levels),
                REQUIRED => marks.required = levels,
                NULLABLE => marks.nullable = Some(levels),
                _ => return Err(format!("unknown mark `{name}`")),
            }
        }
        Ok(marks)
    }

    pub(super) fn are_written_at(&self, level: Level) -> bool {
        self.levels.as_ref().is_none_or(|levels| levels.contains(&level))
    }

    fn allow_null_at(&self, level: Level, is_required_by_type: bool) -> bool {
        match &self.nullable {
            Some(levels) => levels.contains(&level),
            None => is_required_by_type,
        }
    }
}

/// Applies the marks of all fields in a schema to a level: removes fields of other levels, requires
/// those that are always written, and forbids `null` where a field is absent instead.
pub(super) fn apply(schema: &mut Value, level: Level) -> Result<(), String> {
    match schema {
        Value::Array(items) => items.iter_mut().try_for_each(|item| apply(item, level)),
        Value::Object(keywords) => {
            if let Some(mark) = keywords.keys().find(|name| name.starts_with(PREFIX)) {
                return Err(format!("mark `{mark}` is not on a field"));
            }
            apply_to_fields(keywords, level)?;
            // The keys of `properties` are names of fields.
            let others = keywords.iter_mut().filter(|(keyword, _)| *keyword != "properties");
            others.map(|(_, inner)| inner).try_for_each(|inner| apply(inner, level))
        }
        _ => Ok(()),
    }
}

fn apply_to_fields(schema: &mut Map<String, Value>, level: Level) -> Result<(), String> {
    let by_type: Vec<String> =
        schema.get("required").and_then(|names| Vec::deserialize(names).ok()).unwrap_or_default();
    let Some(Value::Object(properties)) = schema.get_mut("properties") else { return Ok(()) };
    let (mut others, mut always) = (Vec::new(), by_type.clone());
    for (name, property) in properties.iter_mut() {
        let place = |why| format!("field `{name}`: {why}");
        let marks = property.as_object_mut().map_or(Ok(Marks::default()), Marks::take);
        let marks = marks.map_err(place)?;
        if !marks.are_written_at(level) {
            others.push(name.clone());
            continue;
        }
        let is_required = by_type.contains(name);
        if !marks.allow_null_at(level, is_required) {
            forbid_null(property);
        }
        if marks.required.contains(&level) && !is_required {
            always.push(name.clone());
        }
        if let (true, Some(keywords)) = (always.contains(name), property.as_object_mut()) {
            // The default of the reader: the writer never leaves the field out.
            keywords.shift_remove("default");
        }
        apply(property, level).map_err(place)?;
    }
    for name in &others {
        properties.shift_remove(name);
        always.retain(|other| other != name);
    }
    if !always.is_empty() {
        schema.insert("required".to_owned(), json!(always));
    }
    Ok(())
}

/// Removes `null` from the types that a field may have.
fn forbid_null(property: &mut Value) {
    let Some(keywords) = property.as_object_mut() else { return };
    if let Some(Value::Array(types)) = keywords.get_mut("type") {
        types.retain(|kind| kind != "null");
        if let [single] = &**types {
            let single = single.clone();
            keywords.insert("type".to_owned(), single);
        }
    }
    if let Some(Value::Array(choices)) = keywords.get_mut("anyOf") {
        choices.retain(|choice| choice["type"] != "null");
        if let [Value::Object(single)] = &**choices {
            let single = single.clone();
            keywords.shift_remove("anyOf");
            keywords.extend(single);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(mut schema: Value, level: Level) -> Result<Value, String> {
        apply(&mut schema, level).map(|()| schema)
    }

    #[test]
    fn marks_are_applied_at_any_depth_and_removed() {
        let schema = json!({
            "anyOf": [{
                "properties": {
                    "a": { "type": ["string", "null"], "x-required": ["pi"] },
                    "b": { "type": ["string", "null"], "x-levels": ["xcsh"] },
                    "c": { "type": ["string", "null"], "x-nullable": ["xcsh"] },
                    "d": { "type": ["string", "null"], "default": null },
                },
                "required": ["c", "d"],
            }],
        });
        let at_pi = json!({
            "anyOf": [{
                "properties": {
                    "a": { "type": "string" },
                    "c": { "type": "string" },
                    "d": { "type": ["string", "null"] },
                },
                "required": ["c", "d", "a"],
            }],
        });
        let at_xcsh = json!({
            "anyOf": [{
                "properties": {
                    "a": { "type": "string" },
                    "b": { "type": "string" },
                    "c": { "type": ["string", "null"] },
                    "d": { "type": ["string", "null"] },
                },
                "required": ["c", "d"],
            }],
        });
        assert_eq!(applied(schema.clone(), Level::Pi), Ok(at_pi));
        assert_eq!(applied(schema, Level::Xcsh), Ok(at_xcsh));
    }

    #[test]
    fn wrong_mark_is_an_error() {
        for (property, error) in [
            (json!({ "x-level": ["pi"] }), "field `a`: unknown mark `x-level`"),
            (
                json!({ "x-levels": "pi" }),
                "field `a`: mark `x-levels`: invalid type: string \"pi\", expected a sequence",
            ),
            (
                json!({ "x-required": ["pie"] }),
                "field `a`: mark `x-required`: unknown variant `pie`, expected one of `pi`, \
                 `pi-delta`, `pi@1`, `xcsh`",
            ),
            (
                json!({ "items": { "x-levels": ["pi"] } }),
                "field `a`: mark `x-levels` is not on a field",
            ),
        ] {
            let schema = json!({ "properties": { "a": property } });
            let actual = applied(schema, Level::Pi).unwrap_err();
            assert_eq!(actual, error);
        }
    }

    #[test]
    fn field_may_have_a_name_like_a_mark() {
        let schema = json!({ "properties": { "x-levels": { "type": "string" } } });
        assert_eq!(applied(schema.clone(), Level::Pi), Ok(schema));
    }
}
