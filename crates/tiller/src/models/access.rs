//! The way to a model: its key and headers, looked up when it is asked.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use futures_util::StreamExt;
use tiller_agent::model::Model;
use tiller_agent::provider::{EventStream, Provider, ProviderError, Request};
use tiller_llm::{Access, Secret};

use super::file::Headers;
use super::{BUILTIN, Models};
use crate::credentials::{Key, usual_name};

impl Models {
    /// Says how to get going when this model cannot be asked.
    pub(crate) fn check_access(&self, model: &Model) -> Result<(), String> {
        if model.provider == BUILTIN {
            return Ok(());
        }
        let provider = &model.provider;
        if let Err(reason) = self.credentials.key(provider) {
            let reason = reason.map(|why| format!(" ({why})")).unwrap_or_default();
            let variable = usual_name(provider).map(|name| format!("Set {name}, store"));
            return Err(format!(
                "No API key found for {provider}{reason}.\n\n{} one with `tiller auth set \
                 {provider}`, or add an `apiKey` for `{provider}` in models.json in the agent \
                 folder.",
                variable.unwrap_or("Store".to_owned())
            ));
        }
        if let Some(name) = missing_variable(&model.base_url) {
            return Err(format!("{provider} cannot be reached: set {name} in the environment"));
        }
        Ok(())
    }

    pub(crate) fn provider(&self, model: &Model) -> Arc<dyn Provider> {
        let builtin = self.builtin.iter().find(|builtin| {
            (&builtin.model.provider, &builtin.model.id) == (&model.provider, &model.id)
        });
        if let Some(builtin) = builtin {
            return builtin.provider.clone();
        }
        if !tiller_llm::supports(&model.api) {
            let why = format!("tiller does not speak the API {} yet", model.api);
            return Arc::new(Unable(ProviderError::fatal(why)));
        }
        if let Err(message) = self.check_access(model) {
            return Arc::new(Unable(ProviderError::Auth { message }));
        }
        let Ok(key) = self.credentials.key(&model.provider) else {
            // It was there a moment ago.
            let message = format!("No API key found for {}", model.provider);
            return Arc::new(Unable(ProviderError::Auth { message }));
        };
        let described = self.file.provider(&model.provider);
        Arc::new(Keyed {
            key,
            headers: self.file.headers(&model.provider, &model.id),
            auth_header: described.is_some_and(|provider| provider.auth_header),
            access: self.access.clone(),
            variables: self.credentials.variables().clone(),
        })
    }

    /// Fills `{NAME}` in the address from the environment.
    pub(super) fn fill_url(&self, model: &mut Model) {
        while let Some(name) = missing_variable(&model.base_url) {
            let Some(value) = self.credentials.variable(&model.provider, name) else { return };
            // A value with braces of its own would go round for ever.
            let value = value.replace(['{', '}'], "");
            model.base_url = model.base_url.replace(&format!("{{{name}}}"), &value);
        }
    }
}

/// The first name in an address that nothing was filled in for.
pub(super) fn missing_variable(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once('{')?;
    rest.split_once('}').map(|(name, _)| name)
}

/// Finds the key when it is asked, then asks the model with it.
#[derive(Clone)]
struct Keyed {
    key: Key,
    headers: Headers,
    auth_header: bool,
    access: Access,
    variables: Arc<HashMap<String, String>>,
}

impl Provider for Keyed {
    fn stream(&self, request: Request) -> EventStream {
        let keyed = self.clone();
        Box::pin(futures_util::stream::once(keyed.ask(request)).flatten())
    }
}

impl Keyed {
    async fn ask(self, request: Request) -> EventStream {
        let model = request.model.clone();
        match self.access(&model.provider).await {
            Ok(access) => match tiller_llm::provider(&model, access) {
                Some(provider) => provider.stream(request),
                None => Unable(ProviderError::fatal("the API is not spoken")).stream(request),
            },
            Err(why) => {
                let message = format!("No API key for {}: {why}", model.provider);
                Unable(ProviderError::Auth { message }).stream(request)
            }
        }
    }

    async fn access(self, provider: &str) -> Result<Access, String> {
        let key = self.key.find(provider, &self.variables).await?;
        let mut headers = BTreeMap::new();
        if let Some(key) = key.as_ref().filter(|_| self.auth_header) {
            headers.insert("Authorization".to_owned(), Secret::new(format!("Bearer {key}")));
        }
        for (name, value) in self.headers {
            let value = value.find(&self.variables).await;
            let value = value.map_err(|why| format!("header {name}: {why}"))?;
            headers.insert(name, Secret::new(value));
        }
        Ok(Access { key: key.map(Secret::new), headers, ..self.access })
    }
}

/// Answers every request with the reason why it cannot.
struct Unable(ProviderError);

impl Provider for Unable {
    fn stream(&self, _request: Request) -> EventStream {
        let error = self.0.clone();
        Box::pin(futures_util::stream::once(async { Err(error) }))
    }
}
