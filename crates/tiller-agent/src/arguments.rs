//! Arguments checked against a tool's schema before the tool sees them.
//!
//! Models send `"2"` for 2 and `null` for nothing. What can be understood is converted; what
//! cannot is refused with every violation named, so that the model can mend them all at once.
//! Only the keywords that tool schemas use are known here; an unknown keyword allows everything.

use std::fmt::Write;

use serde_json::{Number, Value};

use crate::message::Arguments;

/// References are followed this often before a schema counts as circular.
const REFERENCE_MAX: usize = 32;

/// Converts `arguments` to what `schema` asks for, or says in words for the model why it cannot.
pub fn check(tool: &str, schema: &Value, arguments: &Arguments) -> Result<Arguments, String> {
    let mut value = Value::Object(arguments.clone());
    let mut checker = Checker { root: schema, violations: Vec::new() };
    checker.value(schema, &mut value, &mut Path::default());
    match value {
        Value::Object(checked) if checker.violations.is_empty() => Ok(checked),
        _ => Err(complaint(tool, &checker.violations, arguments)),
    }
}

fn complaint(tool: &str, violations: &[Violation], arguments: &Arguments) -> String {
    let mut text = format!("Validation failed for tool \"{tool}\":\n");
    for Violation { path, message } in violations {
        let path = if path.is_empty() { "root" } else { path };
        // Writing to a string cannot fail.
        writeln!(text, "  - {path}: {message}").expect("a string takes every text");
    }
    let received = serde_json::to_string_pretty(arguments).expect("JSON values can be written");
    write!(text, "\nReceived arguments:\n{received}").expect("a string takes every text");
    text
}

struct Violation {
    path: String,
    message: String,
}

#[derive(Default)]
struct Path(Vec<String>);

impl Path {
    fn with<T>(&mut self, step: &str, f: impl FnOnce(&mut Path) -> T) -> T {
        self.0.push(step.to_owned());
        let result = f(self);
        self.0.pop();
        result
    }
}

struct Checker<'a> {
    root: &'a Value,
    violations: Vec<Violation>,
}

impl<'a> Checker<'a> {
    fn value(&mut self, schema: &'a Value, value: &mut Value, path: &mut Path) {
        let schema = self.resolve(schema);
        if schema == &Value::Bool(false) {
            return self.complain(path, "is not allowed");
        }
        if let Some(choices) = schema.get("anyOf").or_else(|| schema.get("oneOf")) {
            self.any_of(choices, value, path);
        }
        if let Some(types) = schema.get("type")
            && !self.has_type(types, value, path)
        {
            return;
        }
        self.allowed_values(schema, value, path);
        match value {
            Value::Object(_) => self.object(schema, value, path),
            Value::Array(items) => self.array(schema, items, path),
            Value::String(text) => {
                let length = text.chars().count() as f64;
                self.bounds(schema, length, ("minLength", "maxLength"), path, "characters");
            }
            Value::Number(number) => {
                let number = number.as_f64().unwrap_or(0.0);
                self.bounds(schema, number, ("minimum", "maximum"), path, "");
            }
            _ => {}
        }
    }

    /// Follows references to other parts of the same schema.
    fn resolve(&self, mut schema: &'a Value) -> &'a Value {
        for _ in 0..REFERENCE_MAX {
            let Some(reference) = schema.get("$ref").and_then(Value::as_str) else { break };
            let target = reference.strip_prefix('#').and_then(|at| self.root.pointer(at));
            let Some(target) = target else { break };
            schema = target;
        }
        schema
    }

    /// A form that the value has as it is comes before one that it can be converted to.
    fn any_of(&mut self, choices: &'a Value, value: &mut Value, path: &mut Path) {
        let mut converted = None;
        for choice in choices.as_array().into_iter().flatten() {
            let mut attempt = value.clone();
            let mut checker = Checker { root: self.root, violations: Vec::new() };
            checker.value(choice, &mut attempt, path);
            match checker.violations.is_empty() {
                true if attempt == *value => return,
                true => converted = converted.or(Some(attempt)),
                false => {}
            }
        }
        match converted {
            Some(attempt) => *value = attempt,
            None => self.complain(path, "must match one of the allowed forms"),
        }
    }

    /// Whether the value has one of the types, after conversion if need be.
    fn has_type(&mut self, types: &Value, value: &mut Value, path: &Path) -> bool {
        let names: Vec<&str> = match types {
            Value::String(name) => vec![name],
            Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
            _ => return true,
        };
        if names.iter().any(|name| is_a(name, value)) {
            return true;
        }
        if let Some(converted) = names.iter().find_map(|name| convert(name, value)) {
            *value = converted;
            return true;
        }
        self.complain(path, &format!("must be {}", names.join(" or ")));
        false
    }

    fn allowed_values(&mut self, schema: &Value, value: &Value, path: &Path) {
        if let Some(allowed) = schema.get("enum").and_then(Value::as_array)
            && !allowed.contains(value)
        {
            let allowed: Vec<String> = allowed.iter().map(Value::to_string).collect();
            self.complain(path, &format!("must be one of {}", allowed.join(", ")));
        }
        if let Some(constant) = schema.get("const")
            && constant != value
        {
            self.complain(path, &format!("must be {constant}"));
        }
    }

    fn object(&mut self, schema: &'a Value, value: &mut Value, path: &mut Path) {
        let Value::Object(object) = value else { return };
        let required: Vec<&str> = schema
            .get("required")
            .and_then(Value::as_array)
            .map(|names| names.iter().filter_map(Value::as_str).collect())
            .unwrap_or_default();
        for name in &required {
            if !object.contains_key(*name) {
                let message = format!("must have required properties {name}");
                path.with(name, |path| self.complain(path, &message));
            }
        }
        let properties = schema.get("properties").and_then(Value::as_object);
        // `null` for something optional means that it was left out.
        object.retain(|name, value| {
            let known = properties.and_then(|properties| properties.get(name));
            !(value.is_null()
                && !required.contains(&name.as_str())
                && known.is_some_and(|schema| !accepts_null(self.resolve(schema))))
        });
        let additional = schema.get("additionalProperties");
        for (name, value) in object.iter_mut() {
            match (properties.and_then(|properties| properties.get(name)), additional) {
                (Some(schema), _) => path.with(name, |path| self.value(schema, value, path)),
                (None, Some(Value::Bool(false))) => {
                    self.complain(path, "must not have additional properties");
                }
                (None, Some(schema @ Value::Object(_))) => {
                    path.with(name, |path| self.value(schema, value, path));
                }
                (None, _) => {}
            }
        }
    }

    fn array(&mut self, schema: &'a Value, items: &mut [Value], path: &mut Path) {
        self.bounds(schema, items.len() as f64, ("minItems", "maxItems"), path, "items");
        if let Some(schema) = schema.get("items") {
            for (index, item) in items.iter_mut().enumerate() {
                path.with(&index.to_string(), |path| self.value(schema, item, path));
            }
        }
    }

    fn bounds(
        &mut self,
        schema: &Value,
        size: f64,
        (least, most): (&str, &str),
        path: &Path,
        unit: &str,
    ) {
        let space = if unit.is_empty() { "" } else { " " };
        if let Some(least) = schema.get(least).and_then(Value::as_f64)
            && size < least
        {
            self.complain(path, &format!("must be >= {least}{space}{unit}"));
        }
        if let Some(most) = schema.get(most).and_then(Value::as_f64)
            && size > most
        {
            self.complain(path, &format!("must be <= {most}{space}{unit}"));
        }
    }

    fn complain(&mut self, path: &Path, message: &str) {
        self.violations.push(Violation { path: path.0.join("."), message: message.to_owned() });
    }
}

fn is_a(name: &str, value: &Value) -> bool {
    match name {
        "string" => value.is_string(),
        "number" => value.is_number(),
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        "boolean" => value.is_boolean(),
        "object" => value.is_object(),
        "array" => value.is_array(),
        "null" => value.is_null(),
        _ => true,
    }
}

fn convert(name: &str, value: &Value) -> Option<Value> {
    let converted = match (name, value) {
        ("number" | "integer", Value::String(text)) => Value::Number(read_number(text)?),
        ("boolean", Value::String(text)) => match text.to_lowercase().as_str() {
            "true" | "1" => Value::Bool(true),
            "false" | "0" => Value::Bool(false),
            _ => return None,
        },
        ("boolean", Value::Number(number)) if number.as_f64() == Some(0.0) => Value::Bool(false),
        ("boolean", Value::Number(number)) if number.as_f64() == Some(1.0) => Value::Bool(true),
        ("string", Value::Number(number)) => Value::String(number.to_string()),
        ("string", Value::Bool(truth)) => Value::String(truth.to_string()),
        // One thing where a list is wanted is a list of one.
        ("array", one) if !one.is_null() => Value::Array(vec![one.clone()]),
        _ => return None,
    };
    is_a(name, &converted).then_some(converted)
}

fn read_number(text: &str) -> Option<Number> {
    let text = text.trim();
    if let Ok(whole) = text.parse::<i64>() {
        return Some(whole.into());
    }
    Number::from_f64(text.parse::<f64>().ok()?)
}

fn accepts_null(schema: &Value) -> bool {
    let types = match schema.get("type") {
        Some(Value::String(name)) => return name == "null",
        Some(Value::Array(names)) => names.iter().any(|name| name == "null"),
        _ => false,
    };
    types
        || schema
            .get("anyOf")
            .and_then(Value::as_array)
            .is_some_and(|choices| choices.iter().any(accepts_null))
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::json;

    use super::*;

    fn try_it(arguments: Value, expect: Expect) {
        let schema = json!({
            "type": "object",
            "properties": {
                "path": {"type": "string"},
                "limit": {"type": "number"},
                "deep": {"type": "boolean"},
                "count": {"type": "integer", "minimum": 1},
                "edits": {"type": "array", "items": {"$ref": "#/$defs/edit"}},
                "mode": {"enum": ["a", "b"]},
                "either": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            },
            "required": ["path"],
            "$defs": {"edit": {
                "type": "object",
                "properties": {"old": {"type": "string"}},
                "required": ["old"],
                "additionalProperties": false,
            }},
        });
        let Value::Object(arguments) = arguments else { panic!("an object") };
        let text = match check("t", &schema, &arguments) {
            Ok(checked) => Value::Object(checked).to_string(),
            Err(complaint) => complaint,
        };
        expect.assert_eq(&text);
    }

    #[test]
    fn what_can_be_understood_is_converted() {
        try_it(
            json!({"path": 5, "limit": "2", "deep": 1, "count": 3.0, "extra": null}),
            expect![[r#"{"path":"5","limit":2,"deep":true,"count":3.0,"extra":null}"#]],
        );
        try_it(
            json!({"path": "a", "limit": null, "either": null, "deep": "False"}),
            expect![[r#"{"path":"a","either":null,"deep":false}"#]],
        );
        try_it(
            json!({"path": "a", "edits": {"old": 5}}),
            expect![[r#"{"path":"a","edits":[{"old":"5"}]}"#]],
        );
    }

    #[test]
    fn what_fits_as_it_is_stays_as_it_is() {
        let either = json!({"anyOf": [{"type": "number"}, {"type": "string"}]});
        let schema = json!({"type": "object", "properties": {"v": either}});
        for (given, checked) in
            [(json!("5"), json!("5")), (json!(5), json!(5)), (json!(true), json!("true"))]
        {
            let arguments = Arguments::from_iter([("v".to_owned(), given)]);
            assert_eq!(check("t", &schema, &arguments).unwrap()["v"], checked);
        }
    }

    #[test]
    fn every_violation_is_named() {
        try_it(
            json!({"limit": "many", "edits": [{"old": []}, {"olt": "x"}], "mode": "c", "count": 0}),
            expect![[r#"
                Validation failed for tool "t":
                  - path: must have required properties path
                  - limit: must be number
                  - edits.0.old: must be string
                  - edits.1.old: must have required properties old
                  - edits.1: must not have additional properties
                  - mode: must be one of "a", "b"
                  - count: must be >= 1

                Received arguments:
                {
                  "limit": "many",
                  "edits": [
                    {
                      "old": []
                    },
                    {
                      "olt": "x"
                    }
                  ],
                  "mode": "c",
                  "count": 0
                }"#]],
        );
    }

    #[test]
    fn null_for_something_required_is_wrong() {
        try_it(
            json!({"path": null}),
            expect![[r#"
                Validation failed for tool "t":
                  - path: must be string

                Received arguments:
                {
                  "path": null
                }"#]],
        );
    }

    #[test]
    fn a_circular_schema_does_not_hang() {
        let schema = json!({"$ref": "#"});
        assert!(check("t", &schema, &Arguments::new()).is_ok());
    }
}
