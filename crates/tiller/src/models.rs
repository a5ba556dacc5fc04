//! The models there are, and which of them can be asked.
//!
//! Three places know models: the catalogue in the program, the user's `models.json`, and those
//! built in that need no account. Here they are one list; `resolve` finds what a person means in
//! it, `scope` the few they want to cycle through, `access` the way to the one that is asked.

mod spanned_json;
mod file;
mod resolve;
mod order;
pub(crate) mod glob;
mod scope;
mod auth;
pub(crate) mod azure;
mod bedrock;
pub(crate) mod hints;
mod list;
mod extension_view;
mod extension_providers;

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tiller_agent::address;
use tiller_agent::model::{Modality, Model, Price, ThinkingLevel};
use tiller_agent::provider::Provider;
use tiller_llm::{CacheRetention, Interceptor, Observer, RequestOptions, ThinkingBudgets};

pub(crate) use auth::{RequestOverrides, ResolvedAuth};
pub(crate) use extension_providers::{ProviderRegistration, StreamsAnswers};
pub use list::ModelTable;
pub use resolve::Resolved;
pub(crate) use scope::Scoped;

use crate::catalogue::{Catalogue, CatalogueEntry};
use crate::credentials::Credentials;
use crate::settings::Settings;
use extension_providers::RegisteredProvider;
use file::ModelsFile;

/// The provider of the models that need no account.
pub const BUILTIN: &str = "tiller";

pub struct Models {
    catalogue: Catalogue,
    file: ModelsFile,
    builtin: Vec<Builtin>,
    /// What extensions bring, on top of all others.
    brought: Vec<RegisteredProvider>,
    credentials: Credentials,
    access: RequestOptions,
    /// Who has a say in the requests of the conversation.
    onlooker: Option<Interceptor>,
    scope: Vec<Scoped>,
    /// What is wrong with the user's file.
    problems: Vec<String>,
    /// How hard the user wants single models to think, by their full names.
    thinking: HashMap<String, ThinkingLevel>,
}

struct Builtin {
    model: Arc<Model>,
    provider: Arc<dyn Provider>,
}

/// A model as far as names go; [`Models::model`] gives all of it.
#[derive(Clone, Copy)]
struct ModelRef<'a> {
    provider: &'a str,
    id: &'a str,
    name: &'a str,
    place: ModelOrigin<'a>,
}

#[derive(Clone, Copy)]
enum ModelOrigin<'a> {
    Catalogue(CatalogueEntry),
    File(&'a Arc<Model>),
    Builtin(&'a Arc<Model>),
    Brought(&'a Arc<Model>),
}

impl Models {
    pub fn new(credentials: Credentials, settings: &Settings, cache: CacheRetention) -> Models {
        let mut models = Models {
            catalogue: Catalogue::default(),
            file: ModelsFile::default(),
            builtin: Vec::new(),
            brought: Vec::new(),
            credentials,
            access: RequestOptions { cache_retention: cache, ..RequestOptions::default() },
            onlooker: None,
            scope: Vec::new(),
            problems: Vec::new(),
            thinking: HashMap::new(),
        };
        models.prefer(settings);
        models
    }

    /// Asks models in the way the user prefers, from the next request on.
    pub(crate) fn prefer(&mut self, settings: &Settings) {
        let (defaults, wanted) = (ThinkingBudgets::default(), settings.thinking_budgets);
        let silence = Duration::from_millis(settings.http_idle_timeout_ms);
        self.access.idle_timeout = (!silence.is_zero()).then_some(silence);
        self.access.thinking_budgets = ThinkingBudgets {
            minimal: wanted.minimal.unwrap_or(defaults.minimal),
            low: wanted.low.unwrap_or(defaults.low),
            medium: wanted.medium.unwrap_or(defaults.medium),
            high: wanted.high.unwrap_or(defaults.high),
        };
        self.access.block_images = settings.images.block_images;
        self.thinking = settings.model_thinking_levels.clone();
    }

    /// Adds a model that answers without an account.
    pub fn add_builtin(&mut self, model: Model, provider: Arc<dyn Provider>) {
        self.builtin.push(Builtin { model: Arc::new(model), provider });
    }

    /// Somebody wants to look at the requests of the conversation.
    pub(crate) fn set_interceptor(&mut self, onlooker: Interceptor) {
        self.onlooker = Some(onlooker);
    }

    /// Has every request from here on recorded.
    pub(crate) fn observe(&mut self, observer: Option<Observer>) {
        self.access.observer = observer;
    }

    pub fn credentials_mut(&mut self) -> &mut Credentials {
        &mut self.credentials
    }

    pub(crate) fn credentials(&self) -> &Credentials {
        &self.credentials
    }

    /// Reads `models.json` if there is one.
    pub fn load(&mut self, path: &Path, diagnostics: &mut Vec<String>) {
        let before = diagnostics.len();
        self.file = ModelsFile::load(path, &self.catalogue, diagnostics);
        self.problems = diagnostics[before..].to_vec();
        for provider in &self.file.providers {
            if let Some(key) = &provider.api_key {
                self.credentials.take_from_models_file(&provider.name, key.clone());
            }
        }
    }

    /// The models that can be asked right now: those of the catalogue by provider, then the
    /// user's own in the order of their file. Those that need no account are only offered when
    /// there is nothing else; who asks for one by name gets it in any case.
    pub(crate) fn available(&self) -> Vec<Arc<Model>> {
        let usable: Vec<_> = self.with_key().collect();
        if usable.is_empty() {
            return self.builtin.iter().map(|builtin| builtin.model.clone()).collect();
        }
        usable
    }

    /// The models that a client is shown. Clients take a listed model for a sign-in, so those that
    /// need no account are shown only if one of them was chosen.
    pub(crate) fn offered(&self, chosen: Option<&Model>) -> Vec<Arc<Model>> {
        let mut offered: Vec<_> = self.with_key().collect();
        if chosen.is_some_and(|model| model.provider == BUILTIN) {
            offered.extend(self.builtin.iter().map(|builtin| builtin.model.clone()));
        }
        offered
    }

    /// Those an account is there for.
    fn with_key(&self) -> impl Iterator<Item = Arc<Model>> {
        self.known_at(|provider| provider != BUILTIN && self.credentials.has(provider))
            .filter(|known| self.is_supported(known))
            .map(|known| self.model(&known))
            .filter(|model| auth::missing_variable(&model.base_url).is_none())
            .filter(|model| !self.is_withheld(model))
    }

    /// A model by its full name, if it can be asked.
    pub(crate) fn usable(&self, provider: &str, id: &str) -> Option<Arc<Model>> {
        let model = self.model(&self.find(provider, id)?);
        self.check_access(&model).is_ok().then_some(model)
    }

    /// How hard the user wants this model to think, if they said so for this one.
    pub(crate) fn thinking(&self, model: &Model) -> Option<ThinkingLevel> {
        self.thinking.get(&full_name(&model.provider, &model.id)).copied()
    }

    /// What a new session starts with when nobody asked for a model: the user's default, else a
    /// provider's own, else the first that can be asked.
    pub fn default_model(&self, settings: &Settings) -> Option<Arc<Model>> {
        self.preferred(settings).or_else(|| self.first_default()).or_else(|| self.with_key().next())
    }

    /// The user's default. It counts also without a key: the prompt then says what is missing.
    fn preferred(&self, settings: &Settings) -> Option<Arc<Model>> {
        let provider = settings.default_provider.as_deref();
        let known = match (provider, settings.default_model.as_deref()) {
            (Some(provider), Some(id)) => self.find(provider, id)?,
            (Some(provider), None) => self.default_of(provider)?,
            (None, Some(id)) => {
                let same = || self.known().filter(|known| known.id == id);
                same()
                    .find(|known| self.credentials.has(known.provider))
                    .or_else(|| same().next())?
            }
            (None, None) => return None,
        };
        Some(self.model(&known))
    }

    /// The default of the first provider there is a key for.
    fn first_default(&self) -> Option<Arc<Model>> {
        let others = self.catalogue.providers().iter().map(|provider| provider.name);
        let others = others.filter(|name| !FIRST.contains(name));
        let with_key = FIRST.iter().copied().chain(others);
        with_key.filter(|name| self.credentials.has(name)).find_map(|name| {
            let model = self.model(&self.default_of(name)?);
            self.check_access(&model).is_ok().then_some(model)
        })
    }

    /// The model this provider is asked when nobody chose one.
    fn default_of(&self, provider: &str) -> Option<ModelRef<'_>> {
        let usual = self.catalogue.provider(provider);
        usual
            .and_then(|usual| self.find(usual.name, usual.default))
            .filter(|known| self.is_supported(known))
            .or_else(|| {
                self.known_at(|name| name == provider).find(|known| self.is_supported(known))
            })
            .or_else(|| self.known_at(|name| name == provider).next())
    }

    fn find(&self, provider: &str, id: &str) -> Option<ModelRef<'_>> {
        let is_brought = self.brought(provider).is_some();
        let provider = if is_brought { provider } else { azure::canonical(provider) };
        if self.is_replaced(provider) {
            return self.brought(provider)?.models().find(|known| known.id == id);
        }
        let builtin = || {
            let mut models = self.builtin.iter().map(|builtin| &builtin.model);
            models.find(|model| model.provider == provider && model.id == id).map(ModelRef::builtin)
        };
        let known = || self.catalogue.find(provider, id).map(|entry| self.entry(entry));
        self.file.model(provider, id).map(ModelRef::described).or_else(builtin).or_else(known)
    }

    fn known(&self) -> impl Iterator<Item = ModelRef<'_>> {
        self.known_at(|_| true)
    }

    /// Every model at the providers that are wanted. A described model takes the place of the one
    /// the catalogue has under its name.
    fn known_at(&self, wanted: impl Fn(&str) -> bool) -> impl Iterator<Item = ModelRef<'_>> {
        // The question may cost something, and a provider has many models.
        let is_meant = |provider: &str| !self.is_replaced(provider) && wanted(provider);
        let catalogue: Vec<_> =
            self.catalogue.providers().iter().filter(|provider| is_meant(provider.name)).collect();
        let described: Vec<_> =
            self.file.providers.iter().filter(|provider| is_meant(&provider.name)).collect();
        let brought: Vec<_> =
            self.brought.iter().filter(|brought| wanted(brought.name())).collect();
        let builtin: &[Builtin] = if wanted(BUILTIN) { &self.builtin } else { &[] };
        let entries = catalogue.into_iter().flat_map(|provider| provider.entries());
        let entries = entries.map(|entry| {
            let described = self.file.model(entry.provider, entry.id);
            described.map_or_else(|| self.entry(entry), ModelRef::described)
        });
        let described = described.into_iter().flat_map(|provider| &provider.models);
        let described = described.map(|described| &described.model);
        let described = described
            .filter(|model| self.catalogue.find(&model.provider, &model.id).is_none())
            .map(ModelRef::described);
        let builtin = builtin.iter().map(|builtin| ModelRef::builtin(&builtin.model));
        let brought = brought.into_iter().flat_map(RegisteredProvider::models);
        entries.chain(described).chain(brought).chain(builtin)
    }

    fn entry(&self, entry: CatalogueEntry) -> ModelRef<'_> {
        let name = self.file.name(entry.provider, entry.id).unwrap_or(entry.name);
        ModelRef {
            provider: entry.provider,
            id: entry.id,
            name,
            place: ModelOrigin::Catalogue(entry),
        }
    }

    fn model(&self, known: &ModelRef<'_>) -> Arc<Model> {
        self.resolve_placeholders(self.base_model(known))
    }

    /// A model of a known provider under a name that nobody has heard of.
    fn model_like(&self, known: &ModelRef<'_>, id: &str) -> Arc<Model> {
        let like = (*self.base_model(known)).clone();
        self.resolve_placeholders(Arc::new(Model {
            id: id.to_owned(),
            name: id.to_owned(),
            ..like
        }))
    }

    /// As it is written down, before the environment has a say.
    fn base_model(&self, known: &ModelRef<'_>) -> Arc<Model> {
        match known.place {
            ModelOrigin::Builtin(model) | ModelOrigin::Brought(model) => model.clone(),
            ModelOrigin::File(model) => self.with_provider_overrides(model.clone()),
            ModelOrigin::Catalogue(entry) => {
                let mut model = self.catalogue.model(&entry);
                self.file.apply(&mut model);
                self.with_provider_overrides(Arc::new(model))
            }
        }
    }

    /// Whether we know how to talk to it. The user's own models are always offered: who described
    /// one is told what is wrong with it, not left to wonder where it went.
    fn is_supported(&self, known: &ModelRef<'_>) -> bool {
        match known.place {
            ModelOrigin::Catalogue(entry) => tiller_llm::supports(self.catalogue.api(&entry)),
            ModelOrigin::File(_) | ModelOrigin::Builtin(_) | ModelOrigin::Brought(_) => true,
        }
    }

    /// How much each known model can hold, by `provider/id`.
    pub(crate) fn windows(&self) -> HashMap<String, u64> {
        let window = |known: ModelRef<'_>| (known.full_name(), self.model(&known).context_window);
        self.known().map(window).collect()
    }

    /// Every value that others must not see: keys, and passwords in addresses.
    pub(crate) fn secrets(&self) -> Vec<String> {
        let mut secrets = self.credentials.secrets();
        for known in self.known() {
            secrets.extend(address::secrets(&self.model(&known).base_url));
        }
        secrets
    }

    pub(crate) fn provider_names(&self) -> impl Iterator<Item = &str> {
        let described = self.file.providers.iter().map(|provider| &*provider.name);
        let builtin = self.builtin.iter().map(|builtin| &*builtin.model.provider);
        let known = self.catalogue.providers().iter().map(|provider| provider.name);
        let brought = self.brought.iter().map(RegisteredProvider::name);
        described.chain(builtin).chain(known).chain(brought)
    }

    /// A provider's name as it is written here.
    fn provider_name(&self, name: &str) -> Option<&str> {
        let called =
            |name: &str| self.provider_names().find(|known| known.eq_ignore_ascii_case(name));
        called(name).or_else(|| called(azure::canonical(name)))
    }

    /// Stands where there is no model; it cannot be asked anything.
    pub(crate) fn none() -> Arc<Model> {
        let name = String::from("none");
        Arc::new(Model {
            id: name.clone(),
            name: name.clone(),
            api: name.clone(),
            provider: name,
            input: vec![Modality::Text],
            ..Models::unknown()
        })
    }

    /// pi's own placeholder for no model.
    pub(crate) fn unknown() -> Model {
        Model {
            id: "unknown".into(),
            name: "unknown".into(),
            api: "unknown".into(),
            provider: "unknown".into(),
            base_url: String::new(),
            reasoning: false,
            thinking_level_map: None,
            input: Vec::new(),
            cost: Price::default(),
            context_window: 0,
            max_tokens: 0,
            headers: BTreeMap::new(),
            compat: None,
        }
    }
}

/// Whose default comes first when there are keys for several; the others follow by name.
const FIRST: &[&str] = &["anthropic", "openai", "deepseek", "google", "openrouter", "groq"];

impl<'a> ModelRef<'a> {
    fn described(model: &'a Arc<Model>) -> ModelRef<'a> {
        ModelRef::of(model, ModelOrigin::File(model))
    }

    fn builtin(model: &'a Arc<Model>) -> ModelRef<'a> {
        ModelRef::of(model, ModelOrigin::Builtin(model))
    }

    fn of(model: &'a Model, place: ModelOrigin<'a>) -> ModelRef<'a> {
        ModelRef { provider: &model.provider, id: &model.id, name: &model.name, place }
    }

    fn is_builtin(&self) -> bool {
        matches!(self.place, ModelOrigin::Builtin(_))
    }

    fn full_name(&self) -> String {
        full_name(self.provider, self.id)
    }
}

fn full_name(provider: &str, id: &str) -> String {
    format!("{provider}/{id}")
}

#[cfg(test)]
mod tests;
