//! The models there are, and which of them can be asked.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value};
use tiller_agent::model::{Modality, Model, Price, ThinkingLevel};
use tiller_agent::provider::{EventStream, Provider, ProviderError, Request};
use tiller_llm::{Access, CacheRetention, Secret, ThinkingBudgets};

use crate::credentials::{Credentials, interpolate};
use crate::jsonc;
use crate::settings::Settings;

/// The provider of the models that need no account.
pub const BUILTIN: &str = "tiller";

pub struct Models {
    /// From `models.json`, in its order.
    described: Vec<Arc<Model>>,
    builtin: Vec<Builtin>,
    /// Headers by provider: they may hold secrets, so they are not part of the model.
    headers: HashMap<String, BTreeMap<String, Secret>>,
    credentials: Credentials,
    access: Access,
}

struct Builtin {
    model: Arc<Model>,
    provider: Arc<dyn Provider>,
}

impl Models {
    pub fn new(credentials: Credentials, settings: &Settings, cache: CacheRetention) -> Models {
        let defaults = ThinkingBudgets::default();
        let wanted = settings.thinking_budgets;
        let access = Access {
            idle_timeout: match settings.http_idle_timeout_ms {
                0 => None,
                ms => Some(Duration::from_millis(ms)),
            },
            thinking_budgets: ThinkingBudgets {
                minimal: wanted.minimal.unwrap_or(defaults.minimal),
                low: wanted.low.unwrap_or(defaults.low),
                medium: wanted.medium.unwrap_or(defaults.medium),
                high: wanted.high.unwrap_or(defaults.high),
            },
            block_images: settings.images.block_images,
            cache_retention: cache,
            ..Access::default()
        };
        let (described, builtin, headers) = Default::default();
        Models { described, builtin, headers, credentials, access }
    }

    /// Adds a model that answers without an account.
    pub fn add_builtin(&mut self, model: Model, provider: Arc<dyn Provider>) {
        self.builtin.push(Builtin { model: Arc::new(model), provider });
    }

    pub fn credentials_mut(&mut self) -> &mut Credentials {
        &mut self.credentials
    }

    /// Reads `models.json` if there is one. A provider that is described wrongly is left out and
    /// said so; the others stay.
    pub fn load(
        &mut self,
        path: &Path,
        environment: &HashMap<String, String>,
        diagnostics: &mut Vec<String>,
    ) {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(err) if err.kind() == std::io::ErrorKind::NotFound => return,
            Err(err) => return diagnostics.push(format!("cannot read {}: {err}", path.display())),
        };
        let file = match jsonc::parse(&text) {
            Ok(file) => file,
            Err(err) => return diagnostics.push(format!("invalid {}: {err}", path.display())),
        };
        let nothing = Map::new();
        let providers = file.get("providers").and_then(Value::as_object).unwrap_or(&nothing);
        for (name, described) in providers {
            if let Err(why) = self.add_provider(name, described, environment) {
                diagnostics.push(format!("{}: provider `{name}`: {why}", path.display()));
            }
        }
    }

    fn add_provider(
        &mut self,
        name: &str,
        described: &Value,
        environment: &HashMap<String, String>,
    ) -> Result<(), String> {
        let provider: DescribedProvider = serde_path_to_error::deserialize(described)
            .map_err(|err| format!("field `{}`: {}", err.path(), err.inner()))?;
        let mut models = Vec::with_capacity(provider.models.len());
        for model in &provider.models {
            models.push(Arc::new(model.complete(name, &provider)?));
        }
        if let Some(key) = &provider.api_key {
            self.credentials.from_models_file(name, interpolate(key, environment)?);
        }
        let mut headers = BTreeMap::new();
        for (header, value) in &provider.headers {
            headers.insert(header.clone(), Secret::new(interpolate(value, environment)?));
        }
        self.headers.insert(name.to_owned(), headers);
        self.described.extend(models);
        Ok(())
    }

    /// The models that can be asked right now. Those that need no account are only offered when
    /// there is nothing else; who asks for one by name gets it in any case.
    pub(crate) fn available(&self) -> Vec<Arc<Model>> {
        let has_key = |model: &&Arc<Model>| self.credentials.key(&model.provider).is_some();
        let usable: Vec<_> = self.described.iter().filter(has_key).cloned().collect();
        if usable.is_empty() {
            return self.builtin.iter().map(|builtin| builtin.model.clone()).collect();
        }
        usable
    }

    /// A model by its full name, if it can be asked.
    pub(crate) fn usable(&self, provider: &str, id: &str) -> Option<Arc<Model>> {
        let model = self.all().find(|model| model.provider == provider && model.id == id)?;
        self.check_access(model).is_ok().then(|| model.clone())
    }

    fn all(&self) -> impl Iterator<Item = &Arc<Model>> {
        self.described.iter().chain(self.builtin.iter().map(|builtin| &builtin.model))
    }

    /// Says how to get going when there is no key for the model's provider.
    pub(crate) fn check_access(&self, model: &Model) -> Result<(), String> {
        if model.provider == BUILTIN || self.credentials.key(&model.provider).is_some() {
            return Ok(());
        }
        Err(format!(
            "No API key found for {provider}.\n\nSet the provider's environment variable, or add \
             an `apiKey` for `{provider}` in models.json or auth.json in the agent folder.",
            provider = model.provider
        ))
    }

    /// What a new session starts with when nobody asked for a model: the user's default, else the
    /// first that can be asked.
    pub fn default_model(&self, settings: &Settings) -> Option<Arc<Model>> {
        let provider = settings.default_provider.as_deref();
        let preferred = settings.default_model.as_deref().and_then(|id| {
            self.all().find(|model| {
                model.id == id && provider.is_none_or(|provider| model.provider == provider)
            })
        });
        preferred
            .cloned()
            .or_else(|| self.available().into_iter().find(|model| model.provider != BUILTIN))
    }

    /// Finds what `--model` (and `--provider`) mean: a full name, an id, or a part of one, with
    /// an optional thinking level behind a colon.
    pub fn resolve(
        &self,
        provider: Option<&str>,
        pattern: &str,
    ) -> Result<(Arc<Model>, Option<ThinkingLevel>), String> {
        if let Some(model) = self.matching(provider, pattern) {
            return Ok((model, None));
        }
        if let Some((pattern, level)) = pattern.rsplit_once(':')
            && let Some(level) = ThinkingLevel::read(level)
            && let Some(model) = self.matching(provider, pattern)
        {
            return Ok((model, Some(level)));
        }
        Err(format!("Model \"{pattern}\" not found. Use --list-models to see available models."))
    }

    fn matching(&self, provider: Option<&str>, pattern: &str) -> Option<Arc<Model>> {
        let pattern = pattern.to_lowercase();
        let candidates = || {
            self.all().filter(|model| {
                provider.is_none_or(|name| model.provider.eq_ignore_ascii_case(name))
            })
        };
        let full_name = |model: &Model| format!("{}/{}", model.provider, model.id).to_lowercase();
        let exact = candidates()
            .find(|model| full_name(model) == pattern)
            .or_else(|| candidates().find(|model| model.id.to_lowercase() == pattern));
        let part = || {
            candidates().find(|model| {
                full_name(model).contains(&pattern) || model.name.to_lowercase().contains(&pattern)
            })
        };
        exact.or_else(part).cloned()
    }

    pub(crate) fn provider(&self, model: &Model) -> Arc<dyn Provider> {
        let builtin = self.builtin.iter().find(|builtin| {
            (&builtin.model.provider, &builtin.model.id) == (&model.provider, &model.id)
        });
        if let Some(builtin) = builtin {
            return builtin.provider.clone();
        }
        if let Err(why) = self.check_access(model) {
            return Arc::new(Unable(ProviderError::Auth { message: why }));
        }
        let access = Access {
            key: self.credentials.key(&model.provider).cloned(),
            headers: self.headers.get(&model.provider).cloned().unwrap_or_default(),
            ..self.access.clone()
        };
        tiller_llm::provider(model, access).unwrap_or_else(|| {
            let why = format!("tiller does not speak the API {} yet", model.api);
            Arc::new(Unable(ProviderError::fatal(why)))
        })
    }

    /// Stands where there is no model; it cannot be asked anything.
    pub(crate) fn none() -> Arc<Model> {
        Arc::new(Model {
            id: "none".into(),
            name: "none".into(),
            api: "none".into(),
            provider: "none".into(),
            base_url: String::new(),
            reasoning: false,
            thinking_level_map: None,
            input: vec![Modality::Text],
            cost: Price::default(),
            context_window: 0,
            max_tokens: 0,
            headers: BTreeMap::new(),
            compat: None,
        })
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

/// A provider as `models.json` describes it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DescribedProvider {
    base_url: Option<String>,
    api_key: Option<String>,
    api: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    compat: Option<Value>,
    #[serde(default)]
    models: Vec<DescribedModel>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DescribedModel {
    id: String,
    name: Option<String>,
    api: Option<String>,
    base_url: Option<String>,
    #[serde(default)]
    reasoning: bool,
    thinking_level_map: Option<BTreeMap<String, Option<String>>>,
    input: Option<Vec<Modality>>,
    #[serde(default)]
    cost: Price,
    context_window: Option<u64>,
    max_tokens: Option<u64>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    compat: Option<Value>,
}

const CONTEXT_WINDOW: u64 = 128_000;
const MAX_TOKENS: u64 = 16_384;

impl DescribedModel {
    fn complete(&self, name: &str, provider: &DescribedProvider) -> Result<Model, String> {
        let missing = |field| format!("model `{}`: missing field `{field}`", self.id);
        let api = self.api.as_ref().or(provider.api.as_ref()).ok_or_else(|| missing("api"))?;
        let base_url = self.base_url.as_ref().or(provider.base_url.as_ref());
        let base_url = base_url.map(String::as_str).or_else(|| usual_url(api));
        // Levels of newer versions are nothing we could ask for; `max` is our highest.
        let levels = self.thinking_level_map.as_ref().map(|map| {
            let known = |(level, name): (&String, &Option<String>)| {
                ThinkingLevel::read(level).map(|level| (level, name.clone()))
            };
            // Both names mean the same level; where both stand, the seeds' own one counts.
            let is_double = |level: &str| level == "max" && map.contains_key("xhigh");
            map.iter().filter(|(level, _)| !is_double(level)).filter_map(known).collect()
        });
        Ok(Model {
            id: self.id.clone(),
            name: self.name.clone().unwrap_or_else(|| self.id.clone()),
            api: api.clone(),
            provider: name.to_owned(),
            base_url: base_url.ok_or_else(|| missing("baseUrl"))?.to_owned(),
            reasoning: self.reasoning,
            thinking_level_map: levels,
            input: self.input.clone().unwrap_or_else(|| vec![Modality::Text]),
            cost: self.cost.clone(),
            context_window: self.context_window.unwrap_or(CONTEXT_WINDOW),
            max_tokens: self.max_tokens.unwrap_or(MAX_TOKENS),
            headers: self.headers.clone(),
            compat: self.compat.clone().or_else(|| provider.compat.clone()),
        })
    }
}

fn usual_url(api: &str) -> Option<&'static str> {
    match api {
        "anthropic-messages" => Some("https://api.anthropic.com"),
        _ => None,
    }
}
