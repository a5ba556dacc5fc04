//! JSON objects whose fields know their line, so that an error can name it. Errors never quote
//! values: they may be secrets.

use std::fmt;

use serde::de::{DeserializeOwned, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// An error and its line.
#[derive(Debug, PartialEq)]
pub(super) struct JsonProblem {
    pub(super) line: usize,
    pub(super) what: String,
}

/// A JSON value that is not parsed yet.
#[derive(Clone, Copy)]
pub(super) struct Piece<'a> {
    /// The text of the whole file.
    file: &'a str,
    text: &'a str,
}

pub(super) struct Object<'a> {
    file: &'a str,
    fields: Vec<(String, &'a RawValue)>,
}

impl<'a> Piece<'a> {
    pub(super) fn root(file: &'a str) -> Piece<'a> {
        Piece { file, text: file }
    }

    pub(super) fn problem(&self, what: impl Into<String>) -> JsonProblem {
        // `text` is a slice of `file`, so its offset gives the line.
        let before = self.text.as_ptr() as usize - self.file.as_ptr() as usize;
        let lines = memchr::memchr_iter(b'\n', &self.file.as_bytes()[..before]).count();
        JsonProblem { line: lines + 1, what: what.into() }
    }

    pub(super) fn object(&self) -> Result<Object<'a>, JsonProblem> {
        let Fields(fields) =
            serde_json::from_str(self.text).map_err(|_| self.problem("expected an object"))?;
        Ok(Object { file: self.file, fields })
    }

    pub(super) fn list(&self) -> Result<Vec<Piece<'a>>, JsonProblem> {
        let list: Vec<&'a RawValue> =
            serde_json::from_str(self.text).map_err(|_| self.problem("expected a list"))?;
        Ok(list.into_iter().map(|raw| Piece { file: self.file, text: raw.get() }).collect())
    }
}

impl<'a> Object<'a> {
    /// Removes and returns a field. `null` counts as absent.
    pub(super) fn piece(&mut self, name: &str) -> Option<Piece<'a>> {
        let at = self.fields.iter().rposition(|(field, _)| field == name)?;
        let (_, raw) = self.fields.remove(at);
        let text = raw.get();
        (text != "null").then_some(Piece { file: self.file, text })
    }

    /// Removes and parses a field; `expected` describes it in the error.
    pub(super) fn take<T: DeserializeOwned>(
        &mut self,
        name: &str,
        expected: &str,
    ) -> Result<Option<T>, JsonProblem> {
        let Some(piece) = self.piece(name) else { return Ok(None) };
        match serde_json::from_str(piece.text) {
            Ok(value) => Ok(Some(value)),
            Err(_) => Err(piece.problem(format!("field `{name}`: expected {expected}"))),
        }
    }

    /// The fields that were not taken.
    pub(super) fn rest(self) -> impl Iterator<Item = (String, Piece<'a>)> {
        let file = self.file;
        self.fields.into_iter().map(move |(name, raw)| (name, Piece { file, text: raw.get() }))
    }
}

/// All fields in file order.
struct Fields<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Fields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Fields<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields<'de>, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(Reader)
    }
}
