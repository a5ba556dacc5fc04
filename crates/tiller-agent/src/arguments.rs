//! Checks tool arguments against the tool's schema.
//!
//! Models send `"2"` for 2 and `null` for a missing value. Values that can be converted are
//! converted; others are refused with every violation named, so that the model can fix them all at
//! once. Only the keywords that tool schemas use are supported; unknown keywords are ignored.

mod effort;
mod schema;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::fmt::Write;

use serde_json::{Map, Number, Value};

use self::effort::{Effort, Exceeded};
pub use self::schema::check_schema;
use crate::message::Arguments;

/// After this many references a schema counts as circular.
const REFERENCE_MAX: usize = 32;
/// Only the first violations are listed.
const VIOLATIONS_MAX: usize = 100;

/// Converts `arguments` to the types in `schema`, or returns an error text for the model.
pub fn check(tool: &str, schema: &Value, arguments: &Arguments) -> Result<Arguments, String> {
    let mut value = Value::Object(arguments.clone());
    let mut checker = Checker::new(schema);
    if let Err(exceeded) = checker.value(schema, &mut value, &mut Path::default()) {
        return Err(format!("Validation failed for tool \"{tool}\": {}", exceeded.reason()));
    }
    match value {
        Value::Object(checked) if checker.violations.is_empty() => Ok(checked),
        _ => Err(violation_message(tool, &checker.violations, arguments)),
    }
}

fn violation_message(tool: &str, violations: &[Violation], arguments: &Arguments) -> String {
    let mut text = format!("Validation failed for tool \"{tool}\":\n");
    for Violation { path, message } in violations.iter().take(VIOLATIONS_MAX) {
        let path = if path.is_empty() { "root" } else { path };
        // Writing to a string cannot fail.
        writeln!(text, "  - {path}: {message}").expect("writing to a String cannot fail");
    }
    if let Some(more) = violations.len().checked_sub(VIOLATIONS_MAX + 1) {
        writeln!(text, "  - and {} more", more + 1).expect("writing to a String cannot fail");
    }
    let received = serde_json::to_string_pretty(arguments).expect("JSON values can be written");
    write!(text, "\nReceived arguments:\n{received}").expect("writing to a String cannot fail");
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
    effort: Effort,
}

/// Follows references to other parts of the same schema.
fn resolve<'a>(
    root: &'a Value,
    mut schema: &'a Value,
    effort: &mut Effort,
) -> Result<&'a Value, Exceeded> {
    effort.spend(1)?;
    for _ in 0..REFERENCE_MAX {
        let Some(reference) = schema.get("$ref").and_then(Value::as_str) else { break };
        effort.spend_bytes(reference.len())?;
        let target = reference.strip_prefix('#').and_then(|at| root.pointer(at));
        let Some(target) = target else { break };
        schema = target;
    }
    Ok(schema)
}

impl<'a> Checker<'a> {
    fn new(root: &'a Value) -> Checker<'a> {
        Checker { root, violations: Vec::new(), effort: Effort::new() }
    }

    fn value(
        &mut self,
        schema: &'a Value,
        value: &mut Value,
        path: &mut Path,
    ) -> Result<(), Exceeded> {
        self.effort.descend()?;
        self.resolved_value(schema, value, path)?;
        self.effort.ascend();
        Ok(())
    }

    fn resolved_value(
        &mut self,
        schema: &'a Value,
        value: &mut Value,
        path: &mut Path,
    ) -> Result<(), Exceeded> {
        let schema = resolve(self.root, schema, &mut self.effort)?;
        if schema == &Value::Bool(false) {
            return self.report(path, "is not allowed");
        }
        if let Some(choices) = schema.get("anyOf").or_else(|| schema.get("oneOf")) {
            self.any_of(choices, value, path)?;
        }
        if let Some(types) = schema.get("type")
            && !self.has_type(types, value, path)?
        {
            return Ok(());
        }
        self.allowed_values(schema, value, path)?;
        match value {
            Value::Object(_) => self.object(schema, value, path),
            Value::Array(items) => self.array(schema, items, path),
            Value::String(text) => {
                self.effort.spend_bytes(text.len())?;
                let length = text.chars().count() as f64;
                self.bounds(schema, length, ("minLength", "maxLength"), path, "characters")
            }
            Value::Number(number) => {
                let number = number.as_f64().unwrap_or(0.0);
                self.bounds(schema, number, ("minimum", "maximum"), path, "")
            }
            _ => Ok(()),
        }
    }

    /// A form that the value matches unchanged is preferred over one that needs conversion.
    fn any_of(
        &mut self,
        choices: &'a Value,
        value: &mut Value,
        path: &mut Path,
    ) -> Result<(), Exceeded> {
        let mut converted = None;
        let size = size_of(value);
        self.effort.spend(size)?;
        for choice in choices.as_array().into_iter().flatten() {
            // The value is copied and compared with its copy.
            self.effort.spend(2 * size)?;
            let mut attempt = value.clone();
            let before = std::mem::take(&mut self.violations);
            self.value(choice, &mut attempt, path)?;
            let fits = std::mem::replace(&mut self.violations, before).is_empty();
            if fits && attempt == *value {
                return Ok(());
            }
            if fits {
                converted = converted.or(Some(attempt));
            }
        }
        match converted {
            Some(attempt) => *value = attempt,
            None => self.report(path, "must match one of the allowed forms")?,
        }
        Ok(())
    }

    /// Whether the value has one of the types, if necessary after conversion.
    fn has_type(
        &mut self,
        types: &Value,
        value: &mut Value,
        path: &Path,
    ) -> Result<bool, Exceeded> {
        let names: Vec<&str> = match types {
            Value::String(name) => vec![name],
            Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
            _ => return Ok(true),
        };
        self.effort.spend(names.len())?;
        if names.iter().any(|name| is_a(name, value)) {
            return Ok(true);
        }
        self.effort.spend(size_of(value).saturating_mul(names.len()))?;
        if let Some(converted) = names.iter().find_map(|name| convert(name, value)) {
            *value = converted;
            return Ok(true);
        }
        self.report(path, &format!("must be {}", names.join(" or ")))?;
        Ok(false)
    }

    fn allowed_values(
        &mut self,
        schema: &Value,
        value: &Value,
        path: &Path,
    ) -> Result<(), Exceeded> {
        if let Some(allowed) = schema.get("enum").and_then(Value::as_array) {
            self.effort.spend(allowed.len().saturating_mul(size_of(value)))?;
            if !allowed.contains(value) {
                let allowed: Vec<String> = allowed.iter().map(Value::to_string).collect();
                self.report(path, &format!("must be one of {}", allowed.join(", ")))?;
            }
        }
        if let Some(constant) = schema.get("const") {
            self.effort.spend(size_of(value))?;
            if constant != value {
                self.report(path, &format!("must be {constant}"))?;
            }
        }
        Ok(())
    }

    fn object(
        &mut self,
        schema: &'a Value,
        value: &mut Value,
        path: &mut Path,
    ) -> Result<(), Exceeded> {
        let Value::Object(object) = value else { return Ok(()) };
        let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
        let required: Vec<&str> = required.filter_map(Value::as_str).collect();
        self.effort.spend(2 * required.len() + object.len())?;
        for name in &required {
            if !object.contains_key(*name) {
                let message = format!("must have required properties {name}");
                path.with(name, |path| self.report(path, &message))?;
            }
        }
        let properties = schema.get("properties").and_then(Value::as_object);
        self.remove_nulls(properties, &required, object)?;
        let additional = schema.get("additionalProperties");
        for (name, value) in object.iter_mut() {
            match (properties.and_then(|properties| properties.get(name)), additional) {
                (Some(schema), _) => path.with(name, |path| self.value(schema, value, path))?,
                (None, Some(Value::Bool(false))) => {
                    self.report(path, "must not have additional properties")?;
                }
                (None, Some(schema @ Value::Object(_))) => {
                    path.with(name, |path| self.value(schema, value, path))?;
                }
                (None, _) => {}
            }
        }
        Ok(())
    }

    /// `null` for an optional property means that it was left out.
    fn remove_nulls(
        &mut self,
        properties: Option<&'a Map<String, Value>>,
        required: &[&str],
        object: &mut Map<String, Value>,
    ) -> Result<(), Exceeded> {
        let required: HashSet<&str> = required.iter().copied().collect();
        let mut left_out = HashSet::new();
        for (name, _) in object.iter().filter(|(_, value)| value.is_null()) {
            let known = properties.and_then(|properties| properties.get(name));
            if let Some(schema) = known.filter(|_| !required.contains(name.as_str())) {
                let schema = resolve(self.root, schema, &mut self.effort)?;
                if !accepts_null(schema, &mut self.effort)? {
                    left_out.insert(name.clone());
                }
            }
        }
        object.retain(|name, _| !left_out.contains(name));
        Ok(())
    }

    fn array(
        &mut self,
        schema: &'a Value,
        items: &mut [Value],
        path: &mut Path,
    ) -> Result<(), Exceeded> {
        self.bounds(schema, items.len() as f64, ("minItems", "maxItems"), path, "items")?;
        if let Some(schema) = schema.get("items") {
            for (index, item) in items.iter_mut().enumerate() {
                path.with(&index.to_string(), |path| self.value(schema, item, path))?;
            }
        }
        Ok(())
    }

    fn bounds(
        &mut self,
        schema: &Value,
        size: f64,
        (least, most): (&str, &str),
        path: &Path,
        unit: &str,
    ) -> Result<(), Exceeded> {
        let space = if unit.is_empty() { "" } else { " " };
        if let Some(least) = schema.get(least).and_then(Value::as_f64)
            && size < least
        {
            self.report(path, &format!("must be >= {least}{space}{unit}"))?;
        }
        if let Some(most) = schema.get(most).and_then(Value::as_f64)
            && size > most
        {
            self.report(path, &format!("must be <= {most}{space}{unit}"))?;
        }
        Ok(())
    }

    fn report(&mut self, path: &Path, message: &str) -> Result<(), Exceeded> {
        let path = path.0.join(".");
        self.effort.spend_bytes(path.len() + message.len())?;
        self.violations.push(Violation { path, message: message.to_owned() });
        Ok(())
    }
}

/// The number of steps for copying a value or comparing two.
fn size_of(value: &Value) -> usize {
    // Values were parsed by serde_json or `partial_json` and are at most 128 levels deep.
    match value {
        Value::Array(items) => 1 + items.iter().map(size_of).sum::<usize>(),
        Value::Object(fields) => {
            let sizes = fields.iter().map(|(key, value)| 1 + key.len() / 16 + size_of(value));
            1 + sizes.sum::<usize>()
        }
        Value::String(text) => 1 + text.len() / 16,
        Value::Null | Value::Bool(_) | Value::Number(_) => 1,
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
        // A single value where a list is expected becomes a list of one.
        ("array", one) if !one.is_null() => Value::Array(vec![one.clone()]),
        _ => return None,
    };
    is_a(name, &converted).then_some(converted)
}

fn read_number(text: &str) -> Option<Number> {
    let text = text.trim();
    if let Ok(integer) = text.parse::<i64>() {
        return Some(integer.into());
    }
    Number::from_f64(text.parse::<f64>().ok()?)
}

/// Checks the schema itself, without following references.
fn accepts_null(schema: &Value, effort: &mut Effort) -> Result<bool, Exceeded> {
    effort.spend(1)?;
    match schema.get("type") {
        Some(Value::String(name)) => return Ok(name == "null"),
        Some(Value::Array(names)) => {
            effort.spend(names.len())?;
            if names.iter().any(|name| name == "null") {
                return Ok(true);
            }
        }
        _ => {}
    }
    for choice in schema.get("anyOf").and_then(Value::as_array).into_iter().flatten() {
        if accepts_null(choice, effort)? {
            return Ok(true);
        }
    }
    Ok(false)
}
