//! What providers of extensions store about their models, in `models-store.json`, as pi does.

use serde_json::{Map, Value};
use tiller_config::credentials::change_json;
use tiller_config::project::text_file;

use super::SessionState;
use crate::requester::ExtensionReply;

const FILE: &str = "models-store.json";

/// Responds with what a provider has stored. An unreadable file counts as empty: the provider
/// fetches its models again.
pub(super) fn reply_with_stored_models(
    state: &SessionState,
    provider: String,
    answer: ExtensionReply,
) {
    at_store(state, answer, move |path| {
        let text = text_file::read(path, &mut Vec::new());
        let stored: Option<Map<String, Value>> =
            text.and_then(|text| serde_json::from_str(&text).ok());
        Ok(stored.and_then(|mut stored| stored.remove(&provider)).unwrap_or_default())
    });
}

pub(super) fn store_models(
    state: &SessionState,
    provider: String,
    entry: Value,
    answer: ExtensionReply,
) {
    at_store(state, answer, move |path| {
        let changed = change_json(path, |stored| match entry {
            Value::Null => stored.shift_remove(&provider).is_some(),
            entry => {
                stored.insert(provider, entry);
                true
            }
        });
        changed.map(|_| Value::Null)
    });
}

fn at_store(
    state: &SessionState,
    answer: ExtensionReply,
    work: impl FnOnce(&std::path::Path) -> Result<Value, String> + Send + 'static,
) {
    let env = state.extensions.env.as_ref();
    let path = env.map(|env| env.agent_dir.join(FILE));
    tokio::task::spawn_blocking(move || {
        let done = path.ok_or_else(|| "there is no agent folder".to_owned());
        answer.respond(done.and_then(|path| work(&path)));
    });
}
