//! The models to cycle through: `--models`, or the setting `enabledModels`.

use std::sync::Arc;

use tiller_agent::model::{Model, ThinkingLevel};

use super::glob::{NamePattern, is_pattern};
use super::resolve::split_level;
use super::{BUILTIN, ModelRef, Models, full_name};
use crate::settings::Settings;

#[derive(Clone)]
pub struct ScopedModel {
    pub model: Arc<Model>,
    /// The thinking level to set when it is selected.
    pub thinking: Option<ThinkingLevel>,
}

impl Models {
    /// Selects from the usable models. A pattern without a match is reported.
    pub fn set_scope(&mut self, patterns: &[String], diagnostics: &mut Vec<String>) {
        let mut scope: Vec<ScopedModel> = Vec::new();
        let patterns = patterns.iter().map(|pattern| pattern.trim());
        for pattern in patterns.filter(|pattern| !pattern.is_empty()) {
            let (found, thinking) = self.matching(pattern);
            if found.is_empty() {
                diagnostics.push(format!("No models match pattern \"{pattern}\""));
            }
            for model in found {
                if !scope.iter().any(|scoped| is_same(&scoped.model, &model)) {
                    scope.push(ScopedModel { model, thinking });
                }
            }
        }
        self.scope = scope;
    }

    /// The models `cycle_model` cycles through, and whether the user selected them.
    pub fn cycle(&self) -> (Vec<ScopedModel>, bool) {
        if self.scope.is_empty() {
            let all = self.available().into_iter();
            return (all.map(|model| ScopedModel { model, thinking: None }).collect(), false);
        }
        let can_ask = |scoped: &&ScopedModel| self.check_access(&scoped.model).is_ok();
        (self.scope.iter().filter(can_ask).cloned().collect(), true)
    }

    /// The model of a new session if the user selected some: their default if it is among them,
    /// else the first.
    pub(crate) fn first_scoped(&self, settings: &Settings) -> Option<&ScopedModel> {
        let preferred = self.preferred(settings);
        let preferred = preferred.and_then(|preferred| {
            self.scope.iter().find(|scoped| is_same(&scoped.model, &preferred))
        });
        preferred.or(self.scope.first())
    }

    fn matching(&self, pattern: &str) -> (Vec<Arc<Model>>, Option<ThinkingLevel>) {
        if is_pattern(pattern) {
            let (names, level) = split_level(pattern);
            let glob = NamePattern::new(names);
            let matches =
                |known: &ModelRef<'_>| glob.matches(&known.full_name()) || glob.matches(known.id);
            let found = self.candidates(names).filter(matches);
            return (found.map(|known| self.model(&known)).collect(), level);
        }
        let one = |name: &str| {
            let is_exact = |known: &ModelRef<'_>| {
                known.full_name().eq_ignore_ascii_case(name) || known.id.eq_ignore_ascii_case(name)
            };
            let exact = self.candidates(name).find(is_exact);
            let part = || {
                let (before, after) = name.split_once('/').unwrap_or(("", name));
                match self.provider_name(before) {
                    Some(provider) => {
                        self.best(self.candidates(name).filter(|k| k.provider == provider), after)
                    }
                    None => self.best(self.candidates(name), name),
                }
            };
            exact.or_else(part).map(|known| self.model(&known))
        };
        if let Some(model) = one(pattern) {
            return (vec![model], None);
        }
        let (shorter, level) = split_level(pattern);
        match level.and_then(|_| one(shorter)) {
            Some(model) => (vec![model], level),
            None => (Vec::new(), None),
        }
    }

    /// The usable models. Built-in models count only by their full names.
    fn candidates(&self, pattern: &str) -> impl Iterator<Item = ModelRef<'_>> {
        let by_name = pattern.strip_prefix(BUILTIN).is_some_and(|rest| rest.starts_with('/'));
        self.known_at(
            move |provider| {
                if provider == BUILTIN { by_name } else { self.credentials.has(provider) }
            },
        )
        .filter(|known| self.is_supported(known))
    }
}

fn is_same(one: &Model, other: &Model) -> bool {
    full_name(&one.provider, &one.id) == full_name(&other.provider, &other.id)
}
