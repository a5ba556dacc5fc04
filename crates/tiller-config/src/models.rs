//! The model registry: every known model, and which of them can be used.
//!
//! Models come from the catalogue in the program, the user's `models.json`, extensions, and the
//! built-in models that need no account. [`Models`] merges them into one list. `resolve` finds the
//! model a user typed, `scope` selects the models to cycle through, and `auth` resolves the key and
//! headers of a request.

mod spanned_json;
pub(crate) mod file;
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
use std::sync::Arc;
use std::time::Duration;

use tiller_agent::address;
use tiller_agent::model::{Modality, Model, Price, ThinkingLevel};
use tiller_agent::provider::Provider;
use tiller_llm::{CacheRetention, Interceptor, Observer, RequestOptions, ThinkingBudgets};

pub use auth::{RequestOverrides, ResolvedAuth};
pub use extension_providers::{ProviderRegistration, StreamsAnswers};
pub use list::ModelTable;
pub use resolve::Resolved;
pub use scope::ScopedModel;

use crate::catalogue::{Catalogue, CatalogueEntry};
use crate::config_files::ConfigFiles;
use crate::credentials::Credentials;
use crate::settings::Settings;
use extension_providers::RegisteredProvider;
use file::ModelsFile;

/// The provider of the models that need no account.
pub const BUILTIN: &str = "tiller";

/// The model registry.
pub struct Models {
    catalogue: Catalogue,
    file: Arc<ModelsFile>,
    builtin: Vec<Builtin>,
    /// Providers registered by extensions. They override all others.
    registered: Vec<RegisteredProvider>,
    credentials: Credentials,
    options: RequestOptions,
    /// Hooks that may change the requests of the conversation.
    interceptor: Option<Interceptor>,
    scope: Vec<ScopedModel>,
    /// Problems in `models.json`.
    problems: Vec<String>,
    /// The user's thinking level for single models, by full name.
    thinking: BTreeMap<String, ThinkingLevel>,
}

struct Builtin {
    model: Arc<Model>,
    provider: Arc<dyn Provider>,
}

/// A model's names and origin. [`Models::model`] builds the whole model.
#[derive(Clone, Copy)]
struct ModelRef<'a> {
    provider: &'a str,
    id: &'a str,
    name: &'a str,
    origin: ModelOrigin<'a>,
}

#[derive(Clone, Copy)]
enum ModelOrigin<'a> {
    Catalogue(CatalogueEntry),
    File(&'a Arc<Model>),
    Builtin(&'a Arc<Model>),
    Extension(&'a Arc<Model>),
}

impl Models {
    /// An empty registry, except for the catalogue.
    pub fn new(credentials: Credentials, settings: &Settings, cache: CacheRetention) -> Models {
        let mut models = Models {
            catalogue: Catalogue::default(),
            file: Arc::default(),
            builtin: Vec::new(),
            registered: Vec::new(),
            credentials,
            options: RequestOptions { cache_retention: cache, ..RequestOptions::default() },
            interceptor: None,
            scope: Vec::new(),
            problems: Vec::new(),
            thinking: BTreeMap::new(),
        };
        models.apply_settings(settings);
        models
    }

    /// Applies the user's request settings, from the next request on.
    pub fn apply_settings(&mut self, settings: &Settings) {
        let defaults = ThinkingBudgets::default();
        let budgets = settings.thinking_budgets;
        let silence = Duration::from_millis(settings.http_idle_timeout_ms);
        self.options.idle_timeout = (!silence.is_zero()).then_some(silence);
        self.options.thinking_budgets = ThinkingBudgets {
            minimal: budgets.minimal.unwrap_or(defaults.minimal),
            low: budgets.low.unwrap_or(defaults.low),
            medium: budgets.medium.unwrap_or(defaults.medium),
            high: budgets.high.unwrap_or(defaults.high),
        };
        self.options.block_images = settings.images.block_images;
        self.thinking = settings.model_thinking_levels.clone();
    }

    /// Adds a built-in model, which needs no account.
    pub fn add_builtin(&mut self, model: Model, provider: Arc<dyn Provider>) {
        self.builtin.push(Builtin { model: Arc::new(model), provider });
    }

    /// Sets the hooks that may change the requests of the conversation.
    pub fn set_interceptor(&mut self, interceptor: Interceptor) {
        self.interceptor = Some(interceptor);
    }

    /// Records every request from now on.
    pub fn observe(&mut self, observer: Option<Observer>) {
        self.options.observer = observer;
    }

    /// The keys, to add some.
    pub fn credentials_mut(&mut self) -> &mut Credentials {
        &mut self.credentials
    }

    /// The keys.
    pub fn credentials(&self) -> &Credentials {
        &self.credentials
    }

    /// Reads `models.json` if there is one.
    pub fn load(&mut self, files: &ConfigFiles, diagnostics: &mut Vec<String>) {
        let before = diagnostics.len();
        self.file = files.models(&self.catalogue, diagnostics);
        self.problems = diagnostics[before..].to_vec();
        for provider in &self.file.providers {
            if let Some(key) = &provider.api_key {
                self.credentials.add_models_file_key(&provider.name, key.clone());
            }
        }
    }

    /// The usable models: those of the catalogue by provider, then the user's own in file order.
    /// Built-in models are listed only if there is nothing else; they can always be selected by
    /// name.
    pub fn available(&self) -> Vec<Arc<Model>> {
        let usable: Vec<_> = self.with_account().collect();
        if usable.is_empty() {
            return self.builtin.iter().map(|builtin| builtin.model.clone()).collect();
        }
        usable
    }

    /// The models shown to a client. Clients treat a listed model as a configured provider, so
    /// built-in models are shown only if one of them is selected.
    pub fn offered(&self, chosen: Option<&Model>) -> Vec<Arc<Model>> {
        let mut offered: Vec<_> = self.with_account().collect();
        if chosen.is_some_and(|model| model.provider == BUILTIN) {
            offered.extend(self.builtin.iter().map(|builtin| builtin.model.clone()));
        }
        offered
    }

    /// The usable models that need an account.
    fn with_account(&self) -> impl Iterator<Item = Arc<Model>> {
        self.known_at(|provider| provider != BUILTIN && self.credentials.has(provider))
            .filter(|known| self.is_supported(known))
            .map(|known| self.model(&known))
            .filter(|model| auth::missing_variable(&model.base_url).is_none())
            .filter(|model| !self.is_unavailable(model))
    }

    /// Finds a model by its full name, if it can be used.
    pub fn usable(&self, provider: &str, id: &str) -> Option<Arc<Model>> {
        let model = self.model(&self.find(provider, id)?);
        self.check_access(&model).is_ok().then_some(model)
    }

    /// The user's thinking level for this model, if one is set.
    pub fn thinking(&self, model: &Model) -> Option<ThinkingLevel> {
        self.thinking.get(&full_name(&model.provider, &model.id)).copied()
    }

    /// The model of a new session if none was requested: the user's default, else the default of a
    /// provider with a key, else the first usable model.
    pub fn default_model(&self, settings: &Settings) -> Option<Arc<Model>> {
        self.preferred(settings)
            .or_else(|| self.first_default())
            .or_else(|| self.with_account().next())
    }

    /// The user's default. It also counts without a key: the prompt then fails with a text that
    /// says what is missing.
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

    /// The default of the first provider that has a key.
    fn first_default(&self) -> Option<Arc<Model>> {
        let others = self.catalogue.providers().iter().map(|provider| provider.name);
        let others = others.filter(|name| !FIRST.contains(name));
        let with_key = FIRST.iter().copied().chain(others);
        with_key.filter(|name| self.credentials.has(name)).find_map(|name| {
            let model = self.model(&self.default_of(name)?);
            self.check_access(&model).is_ok().then_some(model)
        })
    }

    /// The provider's model if none was requested.
    fn default_of(&self, provider: &str) -> Option<ModelRef<'_>> {
        let catalogued = self.catalogue.provider(provider);
        catalogued
            .and_then(|catalogued| self.find(catalogued.name, catalogued.default))
            .filter(|known| self.is_supported(known))
            .or_else(|| {
                self.known_at(|name| name == provider).find(|known| self.is_supported(known))
            })
            .or_else(|| self.known_at(|name| name == provider).next())
    }

    fn find(&self, provider: &str, id: &str) -> Option<ModelRef<'_>> {
        let is_registered = self.registered(provider).is_some();
        let provider = if is_registered { provider } else { azure::canonical(provider) };
        if self.is_replaced(provider) {
            return self.registered(provider)?.models().find(|known| known.id == id);
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

    /// All models of the providers for which `accepts` is true. A model in `models.json` replaces the
    /// catalogue's model of the same name.
    fn known_at(&self, accepts: impl Fn(&str) -> bool) -> impl Iterator<Item = ModelRef<'_>> {
        // `accepts` may be expensive and a provider has many models, so ask once per provider.
        let is_accepted = |provider: &str| !self.is_replaced(provider) && accepts(provider);
        let catalogue: Vec<_> = self
            .catalogue
            .providers()
            .iter()
            .filter(|provider| is_accepted(provider.name))
            .collect();
        let described: Vec<_> =
            self.file.providers.iter().filter(|provider| is_accepted(&provider.name)).collect();
        let registered: Vec<_> =
            self.registered.iter().filter(|provider| accepts(provider.name())).collect();
        let builtin: &[Builtin] = if accepts(BUILTIN) { &self.builtin } else { &[] };
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
        let registered = registered.into_iter().flat_map(RegisteredProvider::models);
        entries.chain(described).chain(registered).chain(builtin)
    }

    fn entry(&self, entry: CatalogueEntry) -> ModelRef<'_> {
        let name = self.file.name(entry.provider, entry.id).unwrap_or(entry.name);
        ModelRef {
            provider: entry.provider,
            id: entry.id,
            name,
            origin: ModelOrigin::Catalogue(entry),
        }
    }

    fn model(&self, known: &ModelRef<'_>) -> Arc<Model> {
        self.resolve_placeholders(self.base_model(known))
    }

    /// A model of a known provider under an unknown id.
    fn model_like(&self, known: &ModelRef<'_>, id: &str) -> Arc<Model> {
        let like = (*self.base_model(known)).clone();
        self.resolve_placeholders(Arc::new(Model {
            id: id.to_owned(),
            name: id.to_owned(),
            ..like
        }))
    }

    /// The model as described, without values from the environment.
    fn base_model(&self, known: &ModelRef<'_>) -> Arc<Model> {
        match known.origin {
            ModelOrigin::Builtin(model) | ModelOrigin::Extension(model) => model.clone(),
            ModelOrigin::File(model) => self.with_provider_overrides(model.clone()),
            ModelOrigin::Catalogue(entry) => {
                let mut model = self.catalogue.model(&entry);
                self.file.apply(&mut model);
                self.with_provider_overrides(Arc::new(model))
            }
        }
    }

    /// Whether its API is implemented. The user's own models always count as supported, so that
    /// using one reports what is wrong instead of hiding it.
    fn is_supported(&self, known: &ModelRef<'_>) -> bool {
        match known.origin {
            ModelOrigin::Catalogue(entry) => tiller_llm::supports(self.catalogue.api(&entry)),
            ModelOrigin::File(_) | ModelOrigin::Builtin(_) | ModelOrigin::Extension(_) => true,
        }
    }

    /// The context window of each known model, by `provider/id`.
    pub fn context_windows(&self) -> HashMap<String, u64> {
        let window = |known: ModelRef<'_>| (known.full_name(), self.model(&known).context_window);
        self.known().map(window).collect()
    }

    /// Every value that must not be shown: keys, and passwords in URLs.
    pub fn secrets(&self) -> Vec<String> {
        let mut secrets = self.credentials.secrets();
        for known in self.known() {
            secrets.extend(address::secrets(&self.model(&known).base_url));
        }
        secrets
    }

    /// The names of all known providers. Some occur more than once.
    pub fn provider_names(&self) -> impl Iterator<Item = &str> {
        let described = self.file.providers.iter().map(|provider| &*provider.name);
        let builtin = self.builtin.iter().map(|builtin| &*builtin.model.provider);
        let known = self.catalogue.providers().iter().map(|provider| provider.name);
        let registered = self.registered.iter().map(RegisteredProvider::name);
        described.chain(builtin).chain(known).chain(registered)
    }

    /// A provider's name in the registry's own spelling.
    fn provider_name(&self, name: &str) -> Option<&str> {
        let called =
            |name: &str| self.provider_names().find(|known| known.eq_ignore_ascii_case(name));
        called(name).or_else(|| called(azure::canonical(name)))
    }

    /// A placeholder where there is no model; it cannot be used.
    pub fn none() -> Arc<Model> {
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

    /// pi's placeholder for no model.
    pub fn unknown() -> Model {
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

/// Provider order for the default model if several have keys; the others follow by name.
const FIRST: &[&str] = &["anthropic", "openai", "deepseek", "google", "openrouter", "groq"];

impl<'a> ModelRef<'a> {
    fn described(model: &'a Arc<Model>) -> ModelRef<'a> {
        ModelRef::of(model, ModelOrigin::File(model))
    }

    fn builtin(model: &'a Arc<Model>) -> ModelRef<'a> {
        ModelRef::of(model, ModelOrigin::Builtin(model))
    }

    fn of(model: &'a Model, place: ModelOrigin<'a>) -> ModelRef<'a> {
        ModelRef { provider: &model.provider, id: &model.id, name: &model.name, origin: place }
    }

    fn is_builtin(&self) -> bool {
        matches!(self.origin, ModelOrigin::Builtin(_))
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
