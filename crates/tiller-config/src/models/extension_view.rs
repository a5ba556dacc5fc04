//! What extensions may read about models: the full list, which have keys, and problems.

use std::sync::Arc;

use serde_json::{Value, json};
use tiller_agent::model::Model;

use super::{BUILTIN, Models};
use crate::credentials::{Key, KeySource};

impl Models {
    /// Every model, with a key or without.
    pub fn all(&self) -> Vec<Arc<Model>> {
        self.known().map(|known| self.model(&known)).collect()
    }

    /// Finds a model by its full name, usable or not.
    pub fn named(&self, provider: &str, id: &str) -> Option<Arc<Model>> {
        self.find(provider, id).map(|known| self.model(&known))
    }

    /// The names of the catalogue's providers.
    pub fn catalogue_providers(&self) -> Vec<&'static str> {
        self.catalogue.providers().iter().map(|provider| provider.name).collect()
    }

    /// The catalogue's models of a provider, without the user's changes.
    pub fn catalogue_models(&self, provider: &str) -> Vec<Model> {
        let entries = self.catalogue.provider(provider).into_iter();
        let entries = entries.flat_map(|provider| provider.entries());
        entries.map(|entry| self.catalogue.model(&entry)).collect()
    }

    /// Whether the provider can be used.
    pub fn has_key(&self, provider: &str) -> bool {
        provider == BUILTIN || self.credentials.has(provider)
    }

    /// Whether a sign-in authenticates the provider.
    pub fn is_signed_in(&self, provider: &str) -> bool {
        matches!(self.credentials.source(provider), Some(KeySource::SignIn(_)))
    }

    /// What is stored for a provider, in pi's format: a sign-in, or a key that is known without
    /// running a command.
    pub fn credential(&self, provider: &str) -> Value {
        if let Some(sign_in) = self.credentials.sign_in(provider) {
            return sign_in;
        }
        match self.credentials.key(provider) {
            Ok(Key::Known(key)) => json!({ "type": "api_key", "key": key }),
            _ => Value::Null,
        }
    }

    /// `{configured, source?, label?}`, in pi's format. Never the key itself.
    pub fn auth_status(&self, provider: &str) -> Value {
        let Some(source) = self.credentials.source(provider) else {
            return json!({ "configured": self.has_key(provider) });
        };
        let (word, label) = match &source {
            KeySource::CommandLine => ("runtime", Some("--api-key")),
            KeySource::AuthFile | KeySource::SignIn(_) => ("stored", None),
            KeySource::ModelsFile if self.credentials.is_from_command(provider) => {
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

    /// The problems in `models.json`.
    pub fn file_error(&self) -> Option<String> {
        (!self.problems.is_empty()).then(|| self.problems.join("\n"))
    }
}
