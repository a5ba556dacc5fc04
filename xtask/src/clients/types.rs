//! Turns definitions into named types that a language without inheritance can express: a record has
//! all its fields, and each variant of a union is a type of its own.

use super::shape::{Definition, Field, Object, Shape, Variant};

/// The union of all lines of the server.
const SERVER_LINE: &str = "ServerLine";

/// A type with a name.
#[derive(Debug)]
pub(super) enum Type {
    Record { name: String, note: String, fields: Vec<Field> },
    Alias { name: String, note: String, shape: Shape },
}

/// The types of these definitions, in their order. Variants come before their union.
pub(super) fn flatten(definitions: &[Definition]) -> Result<Vec<Type>, String> {
    let mut types = Vec::new();
    for definition in definitions {
        let flattener = Flattener { definitions, types: &mut types };
        let Definition { name, note, shape } = definition;
        flattener.define(name, note, shape).map_err(|why| format!("{name}: {why}"))?;
        if name == SERVER_LINE {
            split_server_line(definitions, shape, &mut types)?;
        }
    }
    Ok(types)
}

/// Defines `ServerResponse` and `ServerEvent`, the two kinds of lines of the server.
fn split_server_line(
    definitions: &[Definition],
    shape: &Shape,
    types: &mut Vec<Type>,
) -> Result<(), String> {
    let Shape::Union(lines) = shape else {
        return Err(format!("{SERVER_LINE} is not a union"));
    };
    let is_response = |line: &Variant| {
        let Shape::Reference(name) = &line.shape else { return false };
        let Some(Shape::Object(object)) = find(definitions, name) else { return false };
        let mut fields = object.fields.iter();
        fields.any(|field| field.name == "type" && field.shape.tag() == Some("response"))
    };
    let (responses, events): (Vec<_>, Vec<_>) = lines.iter().cloned().partition(is_response);
    for (name, note, lines) in [
        ("ServerResponse", "Any response.", responses),
        ("ServerEvent", "Any line of tiller that is not a response.", events),
    ] {
        let shape = Shape::Union(lines);
        types.push(Type::Alias { name: name.to_owned(), note: note.to_owned(), shape });
    }
    Ok(())
}

fn find<'a>(definitions: &'a [Definition], name: &str) -> Option<&'a Shape> {
    definitions.iter().find(|one| one.name == name).map(|one| &one.shape)
}

struct Flattener<'a> {
    definitions: &'a [Definition],
    types: &'a mut Vec<Type>,
}

/// A way to fill an object: one of each of its choices.
struct Filling {
    note: String,
    fields: Vec<Field>,
}

impl Flattener<'_> {
    fn define(mut self, name: &str, note: &str, shape: &Shape) -> Result<(), String> {
        let shape = self.hoist(name, note, shape)?;
        // An object has been defined under its own name.
        if !matches!(&shape, Shape::Reference(own) if own == name) {
            let (name, note) = (name.to_owned(), note.to_owned());
            self.types.push(Type::Alias { name, note, shape });
        }
        Ok(())
    }

    /// The same shape with references in place of objects, which are defined as `name` or, if there
    /// are several, with `name` as their prefix.
    fn hoist(&mut self, name: &str, note: &str, shape: &Shape) -> Result<Shape, String> {
        let shape = match shape {
            Shape::Array(items) => {
                Shape::Array(Box::new(self.hoist(&format!("{name}Item"), "", items)?))
            }
            Shape::Map(items) => {
                Shape::Map(Box::new(self.hoist(&format!("{name}Value"), "", items)?))
            }
            Shape::Union(variants) if is_object(variants) => {
                // What has a definition has a name already.
                let (defined, choices): (Vec<_>, Vec<_>) = variants
                    .iter()
                    .cloned()
                    .partition(|variant| matches!(variant.shape, Shape::Reference(_)));
                let whole = Object { fields: Vec::new(), base: None, choices };
                match self.hoist_object(name, note, &whole)? {
                    Shape::Union(own) => Shape::Union([own, defined].concat()),
                    other => other,
                }
            }
            Shape::Union(variants) => {
                let hoist = |variant: &Variant| {
                    let shape = self.hoist(name, &variant.note, &variant.shape)?;
                    Ok(Variant { note: variant.note.clone(), shape })
                };
                Shape::Union(variants.iter().map(hoist).collect::<Result<_, String>>()?)
            }
            Shape::Object(object) => self.hoist_object(name, note, object)?,
            other => other.clone(),
        };
        Ok(shape)
    }

    fn hoist_object(&mut self, name: &str, note: &str, object: &Object) -> Result<Shape, String> {
        let mut fillings = self.fill(object)?;
        if let ([filling], true) = (&mut *fillings, object.choices.is_empty()) {
            self.record(name, note, std::mem::take(&mut filling.fields))?;
            return Ok(Shape::Reference(name.to_owned()));
        }
        let tag = tag(&fillings)?;
        let mut variants = Vec::new();
        for Filling { note, fields } in fillings {
            let value =
                fields.iter().find(|field| field.name == tag).and_then(|field| field.shape.tag());
            let variant = format!("{name}{}", pascal(value.unwrap_or_default()));
            self.record(&variant, &note, fields)?;
            variants.push(Variant { note, shape: Shape::Reference(variant) });
        }
        Ok(Shape::Union(variants))
    }

    fn record(&mut self, name: &str, note: &str, fields: Vec<Field>) -> Result<(), String> {
        let mut flat = Vec::new();
        for field in fields {
            let inner = format!("{name}{}", pascal(&field.name));
            let shape = self.hoist(&inner, &field.note, &field.shape)?;
            flat.push(Field { shape, ..field });
        }
        // What tells variants apart comes first.
        flat.sort_by_key(|field| field.shape.tag().is_none());
        self.types.push(Type::Record {
            name: name.to_owned(),
            note: note.to_owned(),
            fields: flat,
        });
        Ok(())
    }

    /// All ways to fill an object: its own fields, then those of its base and of one choice.
    fn fill(&self, object: &Object) -> Result<Vec<Filling>, String> {
        let mut fillings = vec![Filling { note: String::new(), fields: object.fields.clone() }];
        if let Some(base) = &object.base {
            let base = Shape::Reference(base.clone());
            fillings = combine(&fillings, &self.fill_shape(&base, "")?);
        }
        if object.choices.is_empty() {
            return Ok(fillings);
        }
        let mut choices = Vec::new();
        for choice in &object.choices {
            choices.extend(self.fill_shape(&choice.shape, &choice.note)?);
        }
        Ok(combine(&fillings, &choices))
    }

    fn fill_shape(&self, shape: &Shape, note: &str) -> Result<Vec<Filling>, String> {
        let mut fillings = match shape {
            Shape::Object(object) => self.fill(object)?,
            Shape::Union(variants) => {
                let whole = Object { fields: Vec::new(), base: None, choices: variants.clone() };
                self.fill(&whole)?
            }
            Shape::Reference(name) => {
                let shape = find(self.definitions, name);
                self.fill_shape(shape.ok_or_else(|| format!("`{name}` is not defined"))?, "")?
            }
            _ => return Err("only an object can be a part of an object".to_owned()),
        };
        for filling in fillings.iter_mut().filter(|filling| filling.note.is_empty()) {
            note.clone_into(&mut filling.note);
        }
        Ok(fillings)
    }
}

/// Whether a union is one of objects that are not defined elsewhere.
fn is_object(variants: &[Variant]) -> bool {
    variants.iter().any(|variant| matches!(variant.shape, Shape::Object(_)))
}

/// Each of the first with each of the second. A field of the first wins.
fn combine(first: &[Filling], second: &[Filling]) -> Vec<Filling> {
    let mut combined = Vec::new();
    for one in first {
        for two in second {
            let mut fields = one.fields.clone();
            let is_new = |field: &&Field| one.fields.iter().all(|own| own.name != field.name);
            fields.extend(two.fields.iter().filter(is_new).cloned());
            let note = if two.note.is_empty() { &one.note } else { &two.note };
            combined.push(Filling { note: note.clone(), fields });
        }
    }
    combined
}

/// The field whose value is another one in each of these.
fn tag(fillings: &[Filling]) -> Result<String, String> {
    let value = |filling: &Filling, name: &str| {
        let field = filling.fields.iter().find(|field| field.name == name)?;
        field.shape.tag().map(str::to_owned)
    };
    let is_tag = |field: &&Field| {
        let values: Option<Vec<String>> =
            fillings.iter().map(|filling| value(filling, &field.name)).collect();
        values.is_some_and(|mut values| {
            values.sort();
            values.dedup();
            values.len() == fillings.len()
        })
    };
    let fields = fillings.iter().flat_map(|filling| &filling.fields);
    let tag = fields.clone().find(is_tag).map(|field| field.name.clone());
    tag.ok_or_else(|| "the variants have no field that tells them apart".to_owned())
}

/// `text_delta` and `textDelta` as `TextDelta`.
fn pascal(name: &str) -> String {
    let words = name.split(|c: char| !c.is_ascii_alphanumeric()).map(|word| {
        let mut chars = word.chars();
        let first = chars.next().map(|first| first.to_ascii_uppercase());
        first.into_iter().chain(chars).collect::<String>()
    });
    words.collect()
}
