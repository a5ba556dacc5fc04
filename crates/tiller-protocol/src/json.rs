//! Any JSON value, kept as text: ids of clients, data of responses, entries of sessions.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

/// A JSON value as text. The server writes it as it was spelled; a client that reads it gets the
/// spelling of `serde_json`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(transparent)]
#[schemars(description = "Any JSON value.")]
pub struct Json<'a>(#[schemars(with = "Value")] Cow<'a, RawValue>);

impl Json<'_> {
    pub fn text(&self) -> &str {
        self.0.get()
    }

    /// The value as a type of the caller's choice.
    pub fn read<'de, T: Deserialize<'de>>(&'de self) -> serde_json::Result<T> {
        serde_json::from_str(self.text())
    }
}

impl<'a> From<&'a RawValue> for Json<'a> {
    fn from(text: &'a RawValue) -> Json<'a> {
        Json(Cow::Borrowed(text))
    }
}

impl From<Box<RawValue>> for Json<'_> {
    fn from(text: Box<RawValue>) -> Self {
        Json(Cow::Owned(text))
    }
}

impl PartialEq for Json<'_> {
    fn eq(&self, other: &Json<'_>) -> bool {
        self.text() == other.text()
    }
}

impl<'de> Deserialize<'de> for Json<'_> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Records are tagged, so serde has parsed the value already: there is no text to borrow.
        let value = Value::deserialize(deserializer)?;
        let text = serde_json::value::to_raw_value(&value).map_err(serde::de::Error::custom)?;
        Ok(Json(Cow::Owned(text)))
    }
}

/// For an optional field whose `null` is not the same as its absence.
pub(crate) fn present<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    T::deserialize(deserializer).map(Some)
}
