//! Providers registered by extensions: new models, another way to reach known models, or both.
//!
//! A registration has the fields of `models.json` and is parsed by the same code. It overrides
//! everything else: its models replace all others under the provider's name. When it is removed,
//! the replaced models are back.

use std::sync::Arc;

use serde_json::{Map, Value as Json, json};
use tiller_agent::model::Model;
use tiller_agent::provider::{EventStream, Request};

use super::auth::ResolvedAuth;
use super::file::{DescribedProvider, Headers};
use super::spanned_json::Piece;
use super::{BUILTIN, ModelOrigin, ModelRef, Models};
use crate::credentials::SignIn;

/// A provider as an extension registers it.
pub struct ProviderRegistration {
    /// `baseUrl`, `apiKey`, `models` and so on.
    pub config: Json,
    /// Set if the extension answers requests itself.
    pub answers: Option<Arc<dyn StreamsAnswers>>,
    /// Set if the extension turns a stored sign-in into a key.
    pub sign_in: Option<Arc<dyn SignIn>>,
}

/// Answers requests without one of our APIs.
pub trait StreamsAnswers: Send + Sync {
    /// Streams one answer.
    fn answer(&self, request: Request, auth: ResolvedAuth) -> EventStream;
}

pub(super) struct RegisteredProvider {
    described: DescribedProvider,
    /// The display name.
    title: Option<String>,
    has_models: bool,
    /// Ids of models that the user's account does not include.
    unavailable: Vec<String>,
    /// The API that the extension implements; all APIs if it names none.
    api: Option<String>,
    answers: Option<Arc<dyn StreamsAnswers>>,
}

impl Models {
    /// Registers a provider and replaces any of the same name. On an error nothing is registered.
    /// Problems in single models are reported and the other models count.
    pub fn add_extension_provider(
        &mut self,
        name: &str,
        offer: ProviderRegistration,
    ) -> Result<Vec<String>, String> {
        if name.is_empty() || name == BUILTIN {
            return Err(format!("provider name {name:?} is reserved"));
        }
        let ProviderRegistration { config, answers, sign_in } = offer;
        let has_models = !config["models"].is_null();
        let text = models_json_fields(&config, answers.is_some()).to_string();
        let mut problems = Vec::new();
        let described = DescribedProvider::read(
            name.to_owned(),
            Piece::root(&text),
            &self.catalogue,
            &mut problems,
        )
        .map_err(|problem| problem.what)?;
        let is_known = self.provider_names().any(|known| known == name);
        let brings_key = described.api_key.is_some() || sign_in.is_some() || answers.is_some();
        if has_models && !is_known && !brings_key && !self.credentials.has(name) {
            return Err("\"apiKey\" or \"oauth\" is required when defining models".to_owned());
        }
        self.remove_extension_provider(name);
        let is_keyless = answers.is_some() && described.api_key.is_none() && sign_in.is_none();
        self.credentials.add_extension(name, described.api_key.clone(), sign_in, is_keyless);
        let title = config["name"].as_str().map(str::to_owned);
        let own_api = config["api"].as_str().map(str::to_owned);
        let speaks =
            |what: &String| answers.is_none() || !what.contains("does not support the API");
        let place = format!("provider `{name}`: ");
        let inside = |what: String| what.strip_prefix(&place).map(str::to_owned).unwrap_or(what);
        let problems = problems.into_iter().map(|problem| inside(problem.what));
        let problems = problems.filter(speaks).collect();
        let names = config["unavailable"].as_array().into_iter().flatten();
        let unavailable = names.filter_map(|name| name.as_str().map(str::to_owned)).collect();
        self.registered.push(RegisteredProvider {
            described,
            title,
            has_models,
            unavailable,
            api: own_api,
            answers,
        });
        Ok(problems)
    }

    /// Removes a provider. What it replaced is back.
    pub fn remove_extension_provider(&mut self, name: &str) {
        self.registered.retain(|entry| entry.described.name != name);
        self.credentials.remove_extension(name);
    }

    /// The names of all registered providers.
    pub fn registered_names(&self) -> Vec<String> {
        self.registered.iter().map(|entry| entry.described.name.clone()).collect()
    }

    /// The display name of a provider.
    pub fn display_name(&self, provider: &str) -> String {
        let title = self.registered(provider).and_then(|entry| entry.title.clone());
        title.unwrap_or_else(|| provider.to_owned())
    }

    pub(super) fn registered(&self, provider: &str) -> Option<&RegisteredProvider> {
        self.registered.iter().find(|entry| entry.described.name == provider)
    }

    /// Whether an extension replaces all models of this provider.
    pub(super) fn is_replaced(&self, provider: &str) -> bool {
        self.registered(provider).is_some_and(|entry| entry.has_models)
    }

    /// Whether an extension says that the user's account does not include this model.
    pub(super) fn is_unavailable(&self, model: &Model) -> bool {
        let entry = self.registered(&model.provider);
        entry.is_some_and(|entry| entry.unavailable.contains(&model.id))
    }

    /// The extension that answers for this model, if any.
    pub(super) fn answering_extension(&self, model: &Model) -> Option<Arc<dyn StreamsAnswers>> {
        let entry = self.registered(&model.provider)?;
        let is_own = entry.api.as_ref().is_none_or(|api| *api == model.api);
        let answers = entry.answers.as_ref()?;
        (is_own || !tiller_llm::supports(&model.api)).then(|| answers.clone())
    }

    /// A model with the address and other overrides of its registered provider.
    pub(super) fn with_provider_overrides(&self, mut model: Arc<Model>) -> Arc<Model> {
        if let Some(entry) = self.registered(&model.provider) {
            entry.described.repoint(Arc::make_mut(&mut model));
        }
        model
    }
}

impl RegisteredProvider {
    pub(super) fn name(&self) -> &str {
        &self.described.name
    }

    pub(super) fn models(&self) -> impl Iterator<Item = ModelRef<'_>> {
        let models = self.described.models.iter().map(|described| &described.model);
        models.map(|model| ModelRef::of(model, ModelOrigin::Extension(model)))
    }

    pub(super) fn headers(&self, id: &str) -> Headers {
        self.described.headers_for(id)
    }

    pub(super) fn auth_header(&self) -> bool {
        self.described.auth_header
    }
}

/// The fields of a registration that `models.json` has too. The other fields concern only the
/// extension.
fn models_json_fields(config: &Json, answers: bool) -> Json {
    const OF_PROVIDER: &[&str] = &["baseUrl", "apiKey", "api", "headers", "authHeader", "compat"];
    const OF_MODEL: &[&str] = &[
        "id",
        "name",
        "api",
        "baseUrl",
        "reasoning",
        "thinkingLevelMap",
        "input",
        "cost",
        "contextWindow",
        "maxTokens",
        "headers",
        "compat",
    ];
    let mut provider = picked(config, OF_PROVIDER);
    if answers && config["models"].is_array() {
        // Fill in the address and the API: only the extension uses them.
        provider.entry("baseUrl").or_insert(json!(""));
        provider.entry("api").or_insert(json!("extension"));
    }
    if let Some(models) = config["models"].as_array() {
        let models = models.iter().map(|model| {
            if model.is_object() { Json::Object(picked(model, OF_MODEL)) } else { model.clone() }
        });
        provider.insert("models".to_owned(), models.collect());
    } else if !config["models"].is_null() {
        // Kept, so that the parser reports that it is not a list.
        provider.insert("models".to_owned(), config["models"].clone());
    }
    Json::Object(provider)
}

fn picked(object: &Json, names: &[&str]) -> Map<String, Json> {
    let present = names.iter().filter_map(|name| Some((*name, object.get(*name)?)));
    present.map(|(name, value)| (name.to_owned(), value.clone())).collect()
}
