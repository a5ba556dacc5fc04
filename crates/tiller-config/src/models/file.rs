//! `models.json`: the user's own models and providers, and changes to the catalogue's.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value as Json};
use tiller_agent::model::{Modality, Model, Price, PriceTier};

use super::azure;
use super::spanned_json::{JsonProblem, Object, Piece};
use crate::catalogue::{Catalogue, level_names};
use crate::credentials::ConfigValue;
use crate::jsonc;
use crate::project::text_file;

#[derive(Default)]
pub(crate) struct ModelsFile {
    /// In file order.
    pub(crate) providers: Vec<DescribedProvider>,
}

#[derive(Default)]
pub(crate) struct DescribedProvider {
    pub(super) name: String,
    pub(super) api_key: Option<ConfigValue>,
    base_url: Option<String>,
    api: Option<String>,
    compat: Option<Map<String, Json>>,
    headers: Headers,
    /// Also send the key in the `Authorization` header.
    pub(super) auth_header: bool,
    pub(super) models: Vec<DescribedModel>,
    /// Changes to catalogue models, by id.
    changes: Vec<(String, ModelOverride)>,
}

pub(crate) struct DescribedModel {
    pub(super) model: Arc<Model>,
    /// Whether the file sets its address.
    has_address: bool,
    headers: Headers,
}

/// Kept outside the model because they may hold secrets.
pub(super) type Headers = Vec<(String, ConfigValue)>;

/// A partial description of a model. Fields that are absent stay unchanged.
#[derive(Default)]
struct ModelOverride {
    name: Option<String>,
    api: Option<String>,
    base_url: Option<String>,
    reasoning: Option<bool>,
    levels: Option<BTreeMap<String, Option<String>>>,
    input: Option<Vec<Modality>>,
    cost: Option<PartialPrice>,
    context_window: Option<u64>,
    max_tokens: Option<u64>,
    headers: Headers,
    compat: Option<Map<String, Json>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PartialPrice {
    input: Option<f64>,
    output: Option<f64>,
    cache_read: Option<f64>,
    cache_write: Option<f64>,
    tiers: Option<Vec<PriceTier>>,
}

impl ModelsFile {
    /// Reads the file if it exists. Invalid parts are skipped and reported with their line;
    /// everything else counts.
    pub(crate) fn load(
        path: &Path,
        catalogue: &Catalogue,
        diagnostics: &mut Vec<String>,
    ) -> ModelsFile {
        let Some(text) = text_file::read(path, diagnostics) else { return ModelsFile::default() };
        let mut problems = Vec::new();
        let file = ModelsFile::read(&text, catalogue, &mut problems);
        let named = |JsonProblem { line, what }| format!("{}:{line}: {what}", path.display());
        diagnostics.extend(problems.into_iter().map(named));
        file
    }

    pub(super) fn read(
        text: &str,
        catalogue: &Catalogue,
        problems: &mut Vec<JsonProblem>,
    ) -> ModelsFile {
        let text = jsonc::blank_out(text.trim_start_matches('\u{feff}'));
        // Parts that are never read have to be valid JSON too.
        if let Err(err) = serde_json::from_str::<serde::de::IgnoredAny>(&text) {
            problems.push(JsonProblem { line: err.line(), what: err.to_string() });
            return ModelsFile::default();
        }
        let mut file = ModelsFile::default();
        if let Err(problem) = file.fill(Piece::root(&text), catalogue, problems) {
            problems.push(problem);
        }
        file
    }

    fn fill(
        &mut self,
        root: Piece<'_>,
        catalogue: &Catalogue,
        problems: &mut Vec<JsonProblem>,
    ) -> Result<(), JsonProblem> {
        let mut object = root.object()?;
        let providers = object.piece("providers");
        unknown(object, "", problems);
        let Some(providers) = providers else { return Ok(()) };
        let providers = providers.object().map_err(|JsonProblem { line, .. }| JsonProblem {
            line,
            what: "field `providers`: expected an object".to_owned(),
        })?;
        for (name, piece) in providers.rest() {
            let place = format!("provider `{name}`: ");
            let name = azure::canonical(&name).to_owned();
            if self.provider(&name).is_some() {
                problems
                    .push(piece.problem(format!(
                        "{place}defined twice; the second definition is ignored"
                    )));
                continue;
            }
            match DescribedProvider::read(name, piece, catalogue, problems) {
                Ok(provider) => self.providers.push(provider),
                Err(JsonProblem { line, what }) => {
                    problems.push(JsonProblem { line, what: format!("{place}{what}") });
                }
            }
        }
        Ok(())
    }

    pub(super) fn provider(&self, name: &str) -> Option<&DescribedProvider> {
        self.providers.iter().find(|provider| provider.name == name)
    }

    pub(super) fn model(&self, provider: &str, id: &str) -> Option<&Arc<Model>> {
        self.provider(provider)?.model(id).map(|described| &described.model)
    }

    /// Whether this file sets this model's address.
    pub(super) fn sets_address(&self, provider: &str, id: &str) -> bool {
        self.provider(provider).is_some_and(|provider| {
            provider.base_url.is_some()
                || provider.model(id).is_some_and(|model| model.has_address)
                || provider.change(id).is_some_and(|change| change.base_url.is_some())
        })
    }

    /// The headers of every request to this model.
    pub(super) fn headers(&self, provider: &str, id: &str) -> Headers {
        self.provider(provider).map(|provider| provider.headers_for(id)).unwrap_or_default()
    }

    /// Applies the file's changes to a catalogue model.
    pub(super) fn apply(&self, model: &mut Model) {
        let Some(provider) = self.provider(&model.provider) else { return };
        provider.repoint(model);
        if let Some(change) = provider.change(&model.id) {
            change.apply(model);
        }
    }

    /// The name this file gives a catalogue model.
    pub(super) fn name(&self, provider: &str, id: &str) -> Option<&str> {
        self.provider(provider)?.change(id)?.name.as_deref()
    }
}

impl DescribedProvider {
    /// The headers of every request to this model.
    pub(super) fn headers_for(&self, id: &str) -> Headers {
        let of_change = self.change(id).map(|change| &change.headers);
        let of_model = self.model(id).map(|model| &model.headers);
        let all = [Some(&self.headers), of_model, of_change];
        all.into_iter().flatten().flatten().cloned().collect()
    }

    /// Points a model at this provider's address.
    pub(super) fn repoint(&self, model: &mut Model) {
        if let Some(url) = &self.base_url {
            model.base_url.clone_from(url);
        }
        merge(&mut model.compat, self.compat.as_ref());
    }

    pub(super) fn read(
        name: String,
        piece: Piece<'_>,
        catalogue: &Catalogue,
        problems: &mut Vec<JsonProblem>,
    ) -> Result<DescribedProvider, JsonProblem> {
        let place = format!("provider `{name}`: ");
        let mut object = piece.object()?;
        let api_key: Option<String> = object.take("apiKey", "a string")?;
        let mut provider = DescribedProvider {
            api_key: api_key.as_deref().map(ConfigValue::read),
            base_url: object.take("baseUrl", "a string")?,
            api: object.take("api", "a string")?,
            compat: object.take("compat", "an object")?,
            headers: headers(&mut object)?,
            auth_header: object.take("authHeader", "true or false")?.unwrap_or(false),
            name,
            ..DescribedProvider::default()
        };
        // The display name.
        object.take::<String>("name", "a string")?;
        let (models, changes) = (object.piece("models"), object.piece("modelOverrides"));
        unknown(object, &place, problems);
        for piece in models.map(|models| models.list()).transpose()?.unwrap_or_default() {
            if let Err(JsonProblem { line, what }) = provider.add(piece, catalogue, problems) {
                problems.push(JsonProblem { line, what: format!("{place}{what}") });
            }
        }
        if let Some(changes) = changes {
            provider.read_changes(changes, catalogue, problems)?;
        }
        Ok(provider)
    }

    fn add(
        &mut self,
        piece: Piece<'_>,
        catalogue: &Catalogue,
        problems: &mut Vec<JsonProblem>,
    ) -> Result<(), JsonProblem> {
        let mut object = piece.object()?;
        let id: Option<String> = object.take("id", "a string")?;
        let id = id.ok_or_else(|| piece.problem("a model without the field `id`"))?;
        let place = format!("model `{id}`: ");
        let named = |what: &str| piece.problem(format!("{place}{what}"));
        if self.model(&id).is_some() {
            return Err(named("defined twice; the second definition is ignored"));
        }
        let mut change =
            ModelOverride::read(&mut object).map_err(|JsonProblem { line, what }| JsonProblem {
                line,
                what: format!("{place}{what}"),
            })?;
        unknown(object, &format!("provider `{}`: {place}", self.name), problems);
        if change.cost.as_ref().is_some_and(|cost| !cost.is_complete()) {
            return Err(named("field `cost`: expected input, output, cacheRead and cacheWrite"));
        }
        // A new model of a catalogue provider uses that provider's address.
        let default = || {
            let provider = catalogue.provider(&self.name)?;
            catalogue.find(provider.name, provider.default).map(|entry| catalogue.model(&entry))
        };
        let api = change.api.take().or_else(|| self.api.clone()).or_else(|| Some(default()?.api));
        let api = api.ok_or_else(|| named("missing field `api`"))?;
        let base_url = change.base_url.take().or_else(|| self.base_url.clone());
        let has_address = base_url.is_some();
        let base_url = base_url.or_else(|| Some(default()?.base_url));
        let base_url = base_url.or_else(|| default_url(&api).map(str::to_owned));
        let base_url = base_url.ok_or_else(|| named("missing field `baseUrl`"))?;
        if !tiller_llm::supports(&api) {
            let what = format!("{place}tiller does not support the API `{api}`");
            problems.push(piece.problem(format!("provider `{}`: {what}", self.name)));
        }
        let mut model = Model {
            name: id.clone(),
            id,
            api,
            provider: self.name.clone(),
            base_url,
            reasoning: false,
            thinking_level_map: None,
            input: vec![Modality::Text],
            cost: Price::default(),
            context_window: CONTEXT_WINDOW,
            max_tokens: MAX_TOKENS,
            headers: BTreeMap::new(),
            compat: self.compat.clone().map(Json::Object),
        };
        change.apply(&mut model);
        let headers = std::mem::take(&mut change.headers);
        self.models.push(DescribedModel { model: Arc::new(model), has_address, headers });
        Ok(())
    }

    fn read_changes(
        &mut self,
        piece: Piece<'_>,
        catalogue: &Catalogue,
        problems: &mut Vec<JsonProblem>,
    ) -> Result<(), JsonProblem> {
        for (id, piece) in piece.object()?.rest() {
            let place = format!("provider `{}`: change to `{id}`: ", self.name);
            let mut object = piece.object()?;
            let change = match ModelOverride::read(&mut object) {
                Ok(change) => change,
                Err(JsonProblem { line, what }) => {
                    problems.push(JsonProblem { line, what: format!("{place}{what}") });
                    continue;
                }
            };
            unknown(object, &place, problems);
            if let Some(described) = self.models.iter_mut().find(|model| model.model.id == id) {
                change.apply(Arc::make_mut(&mut described.model));
            } else if catalogue.find(&self.name, &id).is_none() {
                problems.push(piece.problem(format!("{place}there is no such model")));
            }
            self.changes.push((id, change));
        }
        Ok(())
    }

    fn model(&self, id: &str) -> Option<&DescribedModel> {
        self.models.iter().find(|described| described.model.id == id)
    }

    fn change(&self, id: &str) -> Option<&ModelOverride> {
        self.changes.iter().find(|(changed, _)| changed == id).map(|(_, change)| change)
    }
}

impl ModelOverride {
    fn read(object: &mut Object<'_>) -> Result<ModelOverride, JsonProblem> {
        Ok(ModelOverride {
            name: object.take("name", "a string")?,
            api: object.take("api", "a string")?,
            base_url: object.take("baseUrl", "a string")?,
            reasoning: object.take("reasoning", "true or false")?,
            levels: object.take("thinkingLevelMap", "a string or null for each level")?,
            input: object.take("input", "a list of text and image")?,
            cost: object
                .take("cost", "a number for each price, and all prices in each of `tiers`")?,
            context_window: object.take("contextWindow", "a number of tokens")?,
            max_tokens: object.take("maxTokens", "a number of tokens")?,
            headers: headers(object)?,
            compat: object.take("compat", "an object")?,
        })
    }

    fn apply(&self, model: &mut Model) {
        fn set<T: Clone>(place: &mut T, value: &Option<T>) {
            if let Some(value) = value {
                place.clone_from(value);
            }
        }
        set(&mut model.name, &self.name);
        set(&mut model.api, &self.api);
        set(&mut model.base_url, &self.base_url);
        set(&mut model.reasoning, &self.reasoning);
        set(&mut model.input, &self.input);
        set(&mut model.context_window, &self.context_window);
        set(&mut model.max_tokens, &self.max_tokens);
        if let Some(cost) = &self.cost {
            set(&mut model.cost.input, &cost.input);
            set(&mut model.cost.output, &cost.output);
            set(&mut model.cost.cache_read, &cost.cache_read);
            set(&mut model.cost.cache_write, &cost.cache_write);
            set(&mut model.cost.tiers, &cost.tiers);
        }
        if let Some(levels) = &self.levels {
            let named = levels.iter().map(|(level, name)| (&**level, name.as_deref()));
            model.thinking_level_map.get_or_insert_default().extend(level_names(named));
        }
        merge(&mut model.compat, self.compat.as_ref());
    }
}

impl PartialPrice {
    fn is_complete(&self) -> bool {
        let PartialPrice { input, output, cache_read, cache_write, tiers: _ } = self;
        [input, output, cache_read, cache_write].iter().all(|price| price.is_some())
    }
}

const CONTEXT_WINDOW: u64 = 128_000;
const MAX_TOKENS: u64 = 16_384;

fn headers(object: &mut Object<'_>) -> Result<Headers, JsonProblem> {
    let headers: Option<BTreeMap<String, String>> =
        object.take("headers", "a string for each header")?;
    let headers = headers.unwrap_or_default().into_iter();
    Ok(headers.map(|(name, value)| (name, ConfigValue::read(&value))).collect())
}

/// Later values win.
fn merge(compat: &mut Option<Json>, more: Option<&Map<String, Json>>) {
    let Some(more) = more else { return };
    match compat {
        Some(Json::Object(compat)) => {
            compat.extend(more.iter().map(|(name, value)| (name.clone(), value.clone())));
        }
        _ => *compat = Some(Json::Object(more.clone())),
    }
}

fn unknown(object: Object<'_>, place: &str, problems: &mut Vec<JsonProblem>) {
    for (name, piece) in object.rest() {
        let what = format!("{place}field `{name}` is unknown and ignored");
        problems.push(piece.problem(what));
    }
}

fn default_url(api: &str) -> Option<&'static str> {
    match api {
        "anthropic-messages" => Some("https://api.anthropic.com"),
        "openai-completions" | "openai-responses" => Some("https://api.openai.com/v1"),
        "google-generative-ai" => Some("https://generativelanguage.googleapis.com/v1beta"),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
