//! The switches of `model.compat`: where a server only nearly speaks its API.

use tiller_agent::model::Model;

/// A switch as the model's description sets it. Anything but a boolean counts as not set.
pub(crate) fn flag(model: &Model, name: &str, default: bool) -> bool {
    let set = model.compat.as_ref().and_then(|compat| compat.get(name)?.as_bool());
    set.unwrap_or(default)
}
