//! A JSON object as an ordered list of fields whose values are raw text. Used to change one field
//! of another program's line and write all others back unchanged.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};

pub(crate) struct Fields<'a>(Vec<(String, Cow<'a, RawValue>)>);

impl<'a> Fields<'a> {
    pub(crate) fn read(object: &'a str) -> Result<Fields<'a>, serde_json::Error> {
        serde_json::from_str(object)
    }

    pub(crate) fn get(&self, key: &str) -> Option<&RawValue> {
        // The last duplicate wins, as in JavaScript.
        self.0.iter().rev().find(|(name, _)| name == key).map(|(_, value)| &**value)
    }

    /// The field's value if it is a string.
    pub(crate) fn text(&self, key: &str) -> Option<String> {
        self.get(key).and_then(|value| serde_json::from_str(value.get()).ok())
    }

    pub(crate) fn number(&self, key: &str) -> Option<u64> {
        self.get(key).and_then(|value| serde_json::from_str(value.get()).ok())
    }

    /// Replaces the field in place, or appends it.
    pub(crate) fn set(&mut self, key: &str, value: &(impl Serialize + ?Sized)) {
        let value = to_raw_value(value).expect("plain data is always JSON");
        match self.0.iter_mut().rev().find(|(name, _)| name == key) {
            Some(field) => field.1 = Cow::Owned(value),
            None => self.0.push((key.to_owned(), Cow::Owned(value))),
        }
    }

    pub(crate) fn remove(&mut self, key: &str) {
        self.0.retain(|(name, _)| name != key);
    }

    pub(crate) fn write(&self) -> String {
        serde_json::to_string(self).expect("fields are JSON already")
    }
}

impl Serialize for Fields<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, value)| (key, &**value)))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visit;
        impl<'de> Visitor<'de> for Visit {
            type Value = Fields<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = Vec::new();
                while let Some((key, value)) = map.next_entry::<String, &'de RawValue>()? {
                    fields.push((key, Cow::Borrowed(value)));
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(Visit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unchanged_fields_keep_their_text() {
        let line =
            r#"{"a":1.50,"big":123456789012345678901234567890,"s":"\u0041","a2":{"x": [ ]}}"#;
        let mut fields = Fields::read(line).unwrap();
        assert_eq!(fields.write(), line);
        fields.set("s", "b");
        fields.set("id", "x");
        fields.remove("a");
        assert_eq!(
            fields.write(),
            r#"{"big":123456789012345678901234567890,"s":"b","a2":{"x": [ ]},"id":"x"}"#
        );
    }
}
