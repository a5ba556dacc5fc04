//! Resolves what a user typed for `--model` to a model.

use std::cmp::Ordering;
use std::sync::Arc;

use tiller_agent::model::{Model, ThinkingLevel};

use super::order::{compare, is_alias, is_maker};
use super::{BUILTIN, ModelRef, Models};

/// The result of resolving `--model`.
#[derive(Debug)]
pub struct Resolved {
    pub model: Arc<Model>,
    /// The thinking level after the colon, if any.
    pub thinking: Option<ThinkingLevel>,
    /// A warning for the user.
    pub warning: Option<String>,
}

/// A parsed pattern.
struct ModelPattern<'a> {
    /// Search only this provider.
    provider: Option<&'a str>,
    /// The model id without the provider.
    id: &'a str,
    /// The whole pattern as typed, if the provider is a guess: ids may contain slashes.
    typed: Option<&'a str>,
}

impl Models {
    /// Resolves `--model` (and `--provider`): a full name, an id, or a part of one, with an
    /// optional thinking level after a colon.
    pub fn resolve(&self, provider: Option<&str>, pattern: &str) -> Result<Resolved, String> {
        let provider_flag = provider.map(|name| self.known_provider(name)).transpose()?;
        let found = |known: ModelRef<'_>, thinking| {
            let model = self.model(&known);
            Ok(Resolved { model, thinking, warning: None })
        };
        let target = self.parse_pattern(provider_flag, pattern);
        if let Some(known) = self.search(&target)? {
            return found(known, None);
        }
        let (shorter, level) = split_level(pattern);
        if level.is_some()
            && let Some(known) = self.search(&self.parse_pattern(provider_flag, shorter))?
        {
            return found(known, level);
        }
        let target = self.parse_pattern(provider_flag, shorter);
        if (target.provider, target.id) == (Some(BUILTIN), "script") {
            let why = "tiller/script plays a conversation file: name it with --script FILE";
            return Err(why.to_owned());
        }
        let other_provider = target.provider.filter(|provider| *provider != BUILTIN);
        if let Some(provider) = other_provider.filter(|_| !target.id.is_empty())
            && let Some(like) = self.default_of(provider)
        {
            let id = target.id;
            let warning = format!(
                "Model \"{id}\" not found for provider \"{provider}\". Using custom model id."
            );
            let model = self.model_like(&like, id);
            return Ok(Resolved { model, thinking: level, warning: Some(warning) });
        }
        Err(format!("Model \"{pattern}\" not found. Use --list-models to see available models."))
    }

    /// The model of a provider if only `--provider` was given.
    pub fn resolve_provider(&self, provider: &str) -> Result<Arc<Model>, String> {
        let provider = self.known_provider(provider)?;
        let known = self.default_of(provider);
        let known = known.ok_or_else(|| format!("Provider \"{provider}\" has no models."))?;
        Ok(self.model(&known))
    }

    fn known_provider(&self, name: &str) -> Result<&str, String> {
        self.provider_name(name).ok_or_else(|| {
            format!(
                "Unknown provider \"{name}\". Use --list-models to see available providers/models."
            )
        })
    }

    fn parse_pattern<'a>(
        &'a self,
        provider_flag: Option<&'a str>,
        pattern: &'a str,
    ) -> ModelPattern<'a> {
        let (before, after) = pattern.split_once('/').unwrap_or(("", pattern));
        let provider = self.provider_name(before);
        match (provider_flag, provider) {
            (Some(provider_flag), Some(provider)) if provider == provider_flag => {
                ModelPattern { provider: provider_flag.into(), id: after, typed: Some(pattern) }
            }
            (Some(provider_flag), _) => {
                ModelPattern { provider: provider_flag.into(), id: pattern, typed: None }
            }
            (None, Some(_)) => ModelPattern { provider, id: after, typed: Some(pattern) },
            (None, None) => ModelPattern { provider: None, id: pattern, typed: None },
        }
    }

    fn search(&self, target: &ModelPattern<'_>) -> Result<Option<ModelRef<'_>>, String> {
        if target.id.is_empty() {
            return Ok(None);
        }
        let candidates =
            || self.known_at(|provider| target.provider.is_none_or(|name| name == provider));
        let called = |known: &ModelRef<'_>, id: &str| known.id.eq_ignore_ascii_case(id);
        let exact = candidates().filter(|known| called(known, target.id)).collect();
        if let Some(known) = self.unambiguous(exact, target.id)? {
            return Ok(Some(known));
        }
        if let Some(typed) = target.typed {
            let exact = self.known().filter(|known| called(known, typed)).collect();
            if let Some(known) = self.unambiguous(exact, typed)? {
                return Ok(Some(known));
            }
        }
        Ok(self.best(candidates(), target.id))
    }

    /// An id that several providers have resolves to the only usable one.
    fn unambiguous<'a>(
        &self,
        same: Vec<ModelRef<'a>>,
        typed: &str,
    ) -> Result<Option<ModelRef<'a>>, String> {
        if same.len() <= 1 {
            return Ok(same.first().copied());
        }
        let (usable, others): (Vec<_>, Vec<_>) =
            same.into_iter().partition(|known| self.can_ask(known));
        let (names, why) = match usable.len() {
            0 => (others, "No matching provider is authenticated"),
            1 => return Ok(Some(usable[0])),
            _ => (usable, "Several of them are authenticated"),
        };
        let names: Vec<String> = names.iter().map(ModelRef::full_name).collect();
        Err(format!(
            "Model \"{typed}\" is ambiguous across providers: {}. {why}. Use --provider or \
             provider/model.",
            names.join(", ")
        ))
    }

    /// The best match for a part of an id or name. Usable models rank first, then those sold by
    /// their maker, then aliases before dated ids, then the highest name. Among providers with
    /// keys, a reseller ranks like the maker.
    pub(super) fn best<'a>(
        &self,
        models: impl Iterator<Item = ModelRef<'a>>,
        part: &str,
    ) -> Option<ModelRef<'a>> {
        let part = part.to_lowercase();
        let has_part = |text: &str| text.to_lowercase().contains(&part);
        models
            .filter(|known| has_part(known.id) || has_part(known.name))
            .filter(|known| self.is_supported(known))
            .map(|known| (self.rank(&known), known))
            .reduce(|best, next| {
                let higher = next.0.cmp(&best.0).then_with(|| compare(next.1.id, best.1.id));
                if higher == Ordering::Greater { next } else { best }
            })
            .map(|(_, known)| known)
    }

    fn rank(&self, known: &ModelRef<'_>) -> [bool; 4] {
        let can_ask = self.can_ask(known);
        let is_maker = !can_ask && is_maker(known.provider, known.id);
        [!known.is_builtin(), can_ask, is_maker, is_alias(known.id)]
    }

    fn can_ask(&self, known: &ModelRef<'_>) -> bool {
        known.is_builtin() || self.is_supported(known) && self.credentials.has(known.provider)
    }
}

/// Splits the thinking level after the last colon off a pattern.
pub(super) fn split_level(pattern: &str) -> (&str, Option<ThinkingLevel>) {
    match pattern.rsplit_once(':').map(|(rest, level)| (rest, ThinkingLevel::read(level))) {
        Some((rest, Some(level))) => (rest, Some(level)),
        _ => (pattern, None),
    }
}
