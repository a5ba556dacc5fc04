//! What extensions may know about models: all there are, whose keys there are, what is wrong.

use std::sync::Arc;

use serde_json::{Value, json};
use tiller_agent::model::Model;

use super::{BUILTIN, Models};
use crate::credentials::{Key, KeySource};

impl Models {
    /// Every model there is, with a key or without.
    pub(crate) fn all(&self) -> Vec<Arc<Model>> {
        self.known().map(|known| self.model(&known)).collect()
    }

    /// A model by its full name, whether it can be asked or not.
    pub(crate) fn named(&self, provider: &str, id: &str) -> Option<Arc<Model>> {
        self.find(provider, id).map(|known| self.model(&known))
    }

    /// The names of the providers tiller knows by itself.
    pub(crate) fn catalogue_providers(&self) -> Vec<&'static str> {
        self.catalogue.providers().iter().map(|provider| provider.name).collect()
    }

    /// The models tiller knows by itself at a provider, as they are without the user's changes.
    pub(crate) fn catalogue_models(&self, provider: &str) -> Vec<Model> {
        let entries = self.catalogue.provider(provider).into_iter();
        let entries = entries.flat_map(|provider| provider.entries());
        entries.map(|entry| self.catalogue.model(&entry)).collect()
    }

    pub(crate) fn has_key(&self, provider: &str) -> bool {
        provider == BUILTIN || self.credentials.has(provider)
    }

    pub(crate) fn is_signed_in(&self, provider: &str) -> bool {
        matches!(self.credentials.source(provider), Some(KeySource::SignIn(_)))
    }

    /// What is stored for a provider, as pi stores it: a sign-in, or a key that is known without
    /// running anything.
    pub(crate) fn credential(&self, provider: &str) -> Value {
        if let Some(sign_in) = self.credentials.sign_in(provider) {
            return sign_in;
        }
        match self.credentials.key(provider) {
            Ok(Key::Known(key)) => json!({ "type": "api_key", "key": key }),
            _ => Value::Null,
        }
    }

    /// `{configured, source?, label?}`, in pi's words. Never the key itself.
    pub(crate) fn auth_status(&self, provider: &str) -> Value {
        let Some(source) = self.credentials.source(provider) else {
            return json!({ "configured": self.has_key(provider) });
        };
        let (word, label) = match &source {
            KeySource::CommandLine => ("runtime", Some("--api-key")),
            KeySource::AuthFile | KeySource::SignIn(_) => ("stored", None),
            KeySource::ModelsFile if self.credentials.is_printed(provider) => {
                ("models_json_command", None)
            }
            KeySource::ModelsFile => ("models_json_key", None),
            KeySource::Extension => ("fallback", None),
            KeySource::Variable(name) | KeySource::Ambient(name) => ("environment", Some(*name)),
        };
        match label {
            Some(label) => json!({ "configured": true, "source": word, "label": label }),
            None => json!({ "configured": true, "source": word }),
        }
    }

    /// What is wrong with `models.json`.
    pub(crate) fn file_error(&self) -> Option<String> {
        (!self.problems.is_empty()).then(|| self.problems.join("\n"))
    }
}
