//! The switches of `model.compat`: where a server only nearly speaks its API.

use serde_json::Value;
use tiller_agent::model::Model;

/// A switch as the model's description sets it. Anything but a boolean counts as not set.
pub(crate) fn flag(model: &Model, name: &str, default: bool) -> bool {
    let set = model.compat.as_ref().and_then(|compat| compat.get(name)?.as_bool());
    set.unwrap_or(default)
}

/// A choice as the model's description makes it. Anything but a text counts as not made.
pub(crate) fn text<'a>(model: &'a Model, name: &str) -> Option<&'a str> {
    model.compat.as_ref().and_then(|compat| compat.get(name)?.as_str())
}

/// Something of the user's own that is passed on as it is.
pub(crate) fn setting<'a>(model: &'a Model, name: &str) -> Option<&'a Value> {
    model.compat.as_ref()?.get(name)
}
