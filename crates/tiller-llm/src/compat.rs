//! The options in `model.compat`, for servers that deviate from their API.

use serde_json::Value;
use tiller_agent::model::Model;

/// A boolean option. Any other type counts as not set.
pub(crate) fn flag(model: &Model, name: &str, default: bool) -> bool {
    let set = model.compat.as_ref().and_then(|compat| compat.get(name)?.as_bool());
    set.unwrap_or(default)
}

/// A string option. Any other type counts as not set.
pub(crate) fn text<'a>(model: &'a Model, name: &str) -> Option<&'a str> {
    model.compat.as_ref().and_then(|compat| compat.get(name)?.as_str())
}

/// An option of any type, passed on unchanged.
pub(crate) fn setting<'a>(model: &'a Model, name: &str) -> Option<&'a Value> {
    model.compat.as_ref()?.get(name)
}
