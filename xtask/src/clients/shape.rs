//! Reads a JSON Schema, as far as the protocol uses it. An unknown construct is refused, so that no
//! generated type is wrong without notice.

use serde_json::{Map, Value};

/// Keywords that say nothing about the shape.
const NOTES: &[&str] = &["description", "title", "default", "format", "minimum", "maximum"];

/// A definition of the schema.
#[derive(Clone, Debug)]
pub(super) struct Definition {
    pub(super) name: String,
    pub(super) note: String,
    pub(super) shape: Shape,
}

/// The values that a schema allows.
#[derive(Clone, Debug)]
pub(super) enum Shape {
    /// Any JSON value.
    Any,
    Null,
    Boolean,
    Integer,
    Number,
    String,
    /// One of these values: strings, integers, booleans.
    Literal(Vec<Value>),
    Array(Box<Shape>),
    /// An object whose keys are data.
    Map(Box<Shape>),
    /// Another definition, by name.
    Reference(String),
    Union(Vec<Variant>),
    Object(Object),
}

#[derive(Clone, Debug)]
pub(super) struct Variant {
    pub(super) note: String,
    pub(super) shape: Shape,
}

/// An object with known fields. It has those of `base` and of one of the `choices`, too.
#[derive(Clone, Debug)]
pub(super) struct Object {
    pub(super) fields: Vec<Field>,
    pub(super) base: Option<String>,
    pub(super) choices: Vec<Variant>,
}

#[derive(Clone, Debug)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) note: String,
    pub(super) is_required: bool,
    pub(super) shape: Shape,
}

impl Shape {
    /// The only string that is allowed, if there is only one.
    pub(super) fn tag(&self) -> Option<&str> {
        match self {
            Shape::Literal(values) if values.len() == 1 => values[0].as_str(),
            _ => None,
        }
    }
}

/// The definitions of a schema, in its order.
pub(super) fn parse(schema: &Value) -> Result<Vec<Definition>, String> {
    let definitions = schema["$defs"].as_object().ok_or("the schema has no `$defs`")?;
    let define = |(name, schema): (&String, &Value)| {
        let shape = shape(schema).map_err(|why| format!("{name}: {why}"))?;
        Ok(Definition { name: name.clone(), note: note_with_values(schema), shape })
    };
    definitions.iter().map(define).collect()
}

fn shape(schema: &Value) -> Result<Shape, String> {
    let schema = match schema {
        Value::Bool(true) => return Ok(Shape::Any),
        Value::Object(schema) => schema,
        other => return Err(format!("`{other}` is not a schema")),
    };
    let keys: Vec<&str> = schema.keys().map(String::as_str).filter(|key| !is_note(key)).collect();
    let has = |key: &str| keys.contains(&key);
    refuse_others(&keys)?;
    if has("properties") || (schema.get("type") == Some(&"object".into()) && has("oneOf")) {
        return object(schema).map(Shape::Object);
    }
    if let Some(target) = schema.get("$ref") {
        return reference(target).map(Shape::Reference);
    }
    if let Some(value) = schema.get("const") {
        return literal(std::slice::from_ref(value));
    }
    if let Some(values) = schema.get("enum") {
        return literal(values.as_array().map(Vec::as_slice).unwrap_or_default());
    }
    if has("oneOf") || has("anyOf") {
        return Ok(union(variants(schema)?));
    }
    match schema.get("type") {
        None => Ok(Shape::Any),
        Some(Value::Array(names)) => {
            let shape = |name| Ok(Variant { note: String::new(), shape: named(name, schema)? });
            Ok(Shape::Union(names.iter().map(shape).collect::<Result<_, String>>()?))
        }
        Some(name) => named(name, schema),
    }
}

/// The shape of a schema with this `type`.
fn named(name: &Value, schema: &Map<String, Value>) -> Result<Shape, String> {
    let inner = |key: &str| schema.get(key).map_or(Ok(Shape::Any), shape).map(Box::new);
    match name.as_str() {
        Some("null") => Ok(Shape::Null),
        Some("boolean") => Ok(Shape::Boolean),
        Some("integer") => Ok(Shape::Integer),
        Some("number") => Ok(Shape::Number),
        Some("string") => Ok(Shape::String),
        Some("array") => Ok(Shape::Array(inner("items")?)),
        Some("object") => Ok(Shape::Map(inner("additionalProperties")?)),
        _ => Err(format!("the type {name} is not known")),
    }
}

fn object(schema: &Map<String, Value>) -> Result<Object, String> {
    // All records may have further fields.
    if schema.get("additionalProperties").is_some_and(|others| *others != Value::Bool(true)) {
        return Err("`additionalProperties` beside `properties` must be true".to_owned());
    }
    let is_required = |name: &str| {
        let names = schema.get("required").and_then(Value::as_array);
        names.is_some_and(|names| names.iter().any(|one| one == name))
    };
    let properties = schema.get("properties").and_then(Value::as_object);
    let field = |(name, schema): (&String, &Value)| {
        let shape = shape(schema).map_err(|why| format!("{name}: {why}"))?;
        let (name, is_required) = (name.clone(), is_required(name));
        Ok(Field { name, note: note_with_values(schema), is_required, shape })
    };
    Ok(Object {
        fields: properties.into_iter().flatten().map(field).collect::<Result<_, String>>()?,
        base: schema.get("$ref").map(reference).transpose()?,
        choices: variants(schema)?,
    })
}

fn variants(schema: &Map<String, Value>) -> Result<Vec<Variant>, String> {
    let lists = ["oneOf", "anyOf"].iter().filter_map(|key| schema.get(*key)?.as_array());
    let variant =
        |schema: &Value| Ok(Variant { note: note(schema).to_owned(), shape: shape(schema)? });
    lists.flatten().filter(|schema| !is_condition(schema)).map(variant).collect()
}

/// Whether a schema only says which optional fields must be there. Types cannot say that.
fn is_condition(schema: &Value) -> bool {
    schema.as_object().is_some_and(|keywords| keywords.keys().eq(["required"]))
}

/// A union; values that are all literal are one list of values.
fn union(variants: Vec<Variant>) -> Shape {
    let values = variants.iter().map(|variant| match &variant.shape {
        Shape::Literal(values) => Some(values.clone()),
        _ => None,
    });
    let values: Option<Vec<_>> = values.collect();
    values.map_or(Shape::Union(variants), |values| Shape::Literal(values.concat()))
}

fn literal(values: &[Value]) -> Result<Shape, String> {
    let unknown =
        values.iter().find(|value| !(value.is_string() || value.is_boolean() || value.is_i64()));
    match unknown {
        Some(value) => Err(format!("the literal {value} is not known")),
        None => Ok(Shape::Literal(values.to_vec())),
    }
}

fn reference(target: &Value) -> Result<String, String> {
    let name = target.as_str().and_then(|target| target.strip_prefix("#/$defs/"));
    name.map(str::to_owned).ok_or_else(|| format!("the reference {target} is not to a definition"))
}

fn is_note(key: &str) -> bool {
    NOTES.contains(&key)
}

fn refuse_others(keys: &[&str]) -> Result<(), String> {
    const KNOWN: &[&str] = &[
        "$ref",
        "type",
        "properties",
        "required",
        "additionalProperties",
        "items",
        "const",
        "enum",
        "oneOf",
        "anyOf",
    ];
    match keys.iter().find(|key| !KNOWN.contains(key)) {
        Some(key) => Err(format!("the keyword `{key}` is not known")),
        None => Ok(()),
    }
}

fn note(schema: &Value) -> &str {
    schema["description"].as_str().unwrap_or_default()
}

/// The description, followed by those of literal values.
fn note_with_values(schema: &Value) -> String {
    let mut text = note(schema).to_owned();
    for value in schema["oneOf"].as_array().into_iter().flatten() {
        if let (Some(literal), false) = (value["const"].as_str(), note(value).is_empty()) {
            if !text.is_empty() {
                text.push('\n');
            }
            text += &format!("`{literal}`: {}", note(value));
        }
    }
    text
}
