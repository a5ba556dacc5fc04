//! Providers that extensions bring: models of their own, another way to models we know, or both.
//!
//! What an extension says about a provider has the fields of `models.json` and is read by the same
//! code. It lies on top of everything else: its models take the place of all others under the
//! provider's name, and when it goes, what was there before is there again.

use std::sync::Arc;

use serde_json::{Map, Value as Json, json};
use tiller_agent::model::Model;
use tiller_agent::provider::{EventStream, Request};

use super::auth::ResolvedAuth;
use super::file::{DescribedProvider, Headers};
use super::spanned_json::Piece;
use super::{BUILTIN, ModelOrigin, ModelRef, Models};
use crate::credentials::SignIn;

/// What an extension says about a provider.
pub(crate) struct ProviderRegistration {
    /// `baseUrl`, `apiKey`, `models` and so on.
    pub(crate) config: Json,
    /// Set where the extension answers itself.
    pub(crate) answers: Option<Arc<dyn StreamsAnswers>>,
    /// Set where it knows what to do with a stored sign-in.
    pub(crate) sign_in: Option<Arc<dyn SignIn>>,
}

/// Somebody who answers without one of our APIs.
pub(crate) trait StreamsAnswers: Send + Sync {
    fn answer(&self, request: Request, papers: ResolvedAuth) -> EventStream;
}

pub(super) struct RegisteredProvider {
    described: DescribedProvider,
    /// How a person calls it.
    title: Option<String>,
    has_models: bool,
    /// The names of those that are not to be had with the account there is.
    unavailable: Vec<String>,
    /// The API that the extension speaks for us; all of them where it names none.
    own_api: Option<String>,
    answers: Option<Arc<dyn StreamsAnswers>>,
}

impl Models {
    /// Takes a provider up, in the place of what the same name stood for. The error means that
    /// nothing was taken up; what is wrong with single models is told and the others count.
    pub(crate) fn add_extension_provider(
        &mut self,
        name: &str,
        offer: ProviderRegistration,
    ) -> Result<Vec<String>, String> {
        if name.is_empty() || name == BUILTIN {
            return Err(format!("the name {name:?} is not to be had"));
        }
        let ProviderRegistration { config, answers, sign_in } = offer;
        let has_models = !config["models"].is_null();
        let text = written_down(&config, answers.is_some()).to_string();
        let mut problems = Vec::new();
        let described = DescribedProvider::read(
            name.to_owned(),
            Piece::whole(&text),
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
        self.credentials.take_from_extension(name, described.api_key.clone(), sign_in, is_keyless);
        let title = config["name"].as_str().map(str::to_owned);
        let own_api = config["api"].as_str().map(str::to_owned);
        let speaks = |what: &String| answers.is_none() || !what.contains("does not speak the API");
        let place = format!("provider `{name}`: ");
        let inside = |what: String| what.strip_prefix(&place).map(str::to_owned).unwrap_or(what);
        let problems = problems.into_iter().map(|problem| inside(problem.what));
        let problems = problems.filter(speaks).collect();
        let names = config["unavailable"].as_array().into_iter().flatten();
        let unavailable = names.filter_map(|name| name.as_str().map(str::to_owned)).collect();
        self.brought.push(RegisteredProvider {
            described,
            title,
            has_models,
            unavailable,
            own_api,
            answers,
        });
        Ok(problems)
    }

    /// Takes a provider away again. What it replaced is back.
    pub(crate) fn remove_extension_provider(&mut self, name: &str) {
        self.brought.retain(|brought| brought.described.name != name);
        self.credentials.forget_extension(name);
    }

    /// The names of those who were brought.
    pub(crate) fn brought_names(&self) -> Vec<String> {
        self.brought.iter().map(|brought| brought.described.name.clone()).collect()
    }

    /// How a person calls a provider.
    pub(crate) fn title(&self, provider: &str) -> String {
        let title = self.brought(provider).and_then(|brought| brought.title.clone());
        title.unwrap_or_else(|| provider.to_owned())
    }

    pub(super) fn brought(&self, provider: &str) -> Option<&RegisteredProvider> {
        self.brought.iter().find(|brought| brought.described.name == provider)
    }

    /// Whether models of this name are only those that an extension brings.
    pub(super) fn is_replaced(&self, provider: &str) -> bool {
        self.brought(provider).is_some_and(|brought| brought.has_models)
    }

    /// Whether an extension says that the account there is does not have this model.
    pub(super) fn is_withheld(&self, model: &Model) -> bool {
        let brought = self.brought(&model.provider);
        brought.is_some_and(|brought| brought.unavailable.contains(&model.id))
    }

    /// Who answers for this model, if an extension does.
    pub(super) fn answers(&self, model: &Model) -> Option<Arc<dyn StreamsAnswers>> {
        let brought = self.brought(&model.provider)?;
        let is_own = brought.own_api.as_ref().is_none_or(|api| *api == model.api);
        let answers = brought.answers.as_ref()?;
        (is_own || !tiller_llm::supports(&model.api)).then(|| answers.clone())
    }

    /// A model as an extension wants it reached.
    pub(super) fn with_provider_overrides(&self, mut model: Arc<Model>) -> Arc<Model> {
        if let Some(brought) = self.brought(&model.provider) {
            brought.described.repoint(Arc::make_mut(&mut model));
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
        models.map(|model| ModelRef::of(model, ModelOrigin::Brought(model)))
    }

    pub(super) fn headers(&self, id: &str) -> Headers {
        self.described.headers_for(id)
    }

    pub(super) fn auth_header(&self) -> bool {
        self.described.auth_header
    }
}

/// What is data in a configuration, as it would stand in `models.json`. Other fields are of use
/// to the extension alone.
fn written_down(config: &Json, answers: bool) -> Json {
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
        // Nobody but the extension wants to know where its models are, and what they speak.
        provider.entry("baseUrl").or_insert(json!(""));
        provider.entry("api").or_insert(json!("extension"));
    }
    if let Some(models) = config["models"].as_array() {
        let models = models.iter().map(|model| match model.is_object() {
            true => Json::Object(picked(model, OF_MODEL)),
            false => model.clone(),
        });
        provider.insert("models".to_owned(), models.collect());
    } else if !config["models"].is_null() {
        // Told as what it is: no list.
        provider.insert("models".to_owned(), config["models"].clone());
    }
    Json::Object(provider)
}

fn picked(object: &Json, names: &[&str]) -> Map<String, Json> {
    let there = names.iter().filter_map(|name| Some((*name, object.get(*name)?)));
    there.map(|(name, value)| (name.to_owned(), value.clone())).collect()
}
