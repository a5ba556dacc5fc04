//! Patterns of extensions in settings and packages: `name.ts` or `dir/*.ts` includes, `!dir/*.ts`
//! excludes, `+path` and `-path` include and exclude exactly one.

use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};
use tiller_config::settings::resolve;

pub(super) fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?', '[', '{'])
}

/// A pattern over paths. Without a slash it matches the file name alone.
pub(super) struct Pattern {
    matcher: Option<GlobMatcher>,
    names_only: bool,
}

impl Pattern {
    /// An invalid pattern matches nothing.
    pub(super) fn new(text: &str) -> Pattern {
        let text = text.strip_prefix("./").unwrap_or(text);
        let glob = GlobBuilder::new(text).literal_separator(true).build();
        let names_only = !text.contains('/');
        Pattern { matcher: glob.ok().map(|glob| glob.compile_matcher()), names_only }
    }

    pub(super) fn matches(&self, path: &Path, base: &Path) -> bool {
        let Some(matcher) = &self.matcher else { return false };
        let name = path.file_name().unwrap_or_default();
        match path.strip_prefix(base) {
            _ if self.names_only => matcher.is_match(name),
            Ok(inside) if matcher.is_match(inside) => true,
            _ => matcher.is_match(path),
        }
    }

    pub(super) fn is_for(&self, name: &str) -> bool {
        self.matcher.as_ref().is_some_and(|matcher| matcher.is_match(name))
    }
}

/// Selects extensions.
#[derive(Default)]
pub(super) struct PatternRules {
    /// Include only these, if set.
    included: Option<Vec<Pattern>>,
    excluded: Vec<Pattern>,
    /// Always included, and never included.
    forced: Vec<PathBuf>,
    barred: Vec<PathBuf>,
}

impl PatternRules {
    /// Splits a list of paths into rules and paths.
    pub(super) fn split(list: &[String]) -> (PatternRules, Vec<&str>) {
        let mut rules = PatternRules::default();
        let plain = list.iter().filter(|entry| !rules.add_rule(entry)).map(String::as_str);
        let plain = plain.collect();
        (rules, plain)
    }

    /// The rules of a package entry. An empty list selects nothing.
    pub(super) fn of_package(list: &[String]) -> PatternRules {
        let (mut rules, included) = PatternRules::split(list);
        if list.is_empty() || !included.is_empty() {
            rules.included = Some(included.into_iter().map(Pattern::new).collect());
        }
        rules
    }

    /// Adds a list to these rules; what it does not mention stays.
    pub(super) fn change(&mut self, list: &[String]) {
        for entry in list {
            if !self.add_rule(entry) {
                self.forced.push(PathBuf::from(entry.as_str()));
            }
        }
    }

    /// Selects only what `+path` includes.
    pub(super) fn select_forced_only(&mut self) {
        self.included = Some(Vec::new());
    }

    fn add_rule(&mut self, entry: &str) -> bool {
        let path = |rest: &str| PathBuf::from(rest.strip_prefix("./").unwrap_or(rest));
        if let Some(pattern) = entry.strip_prefix('!') {
            self.excluded.push(Pattern::new(pattern));
        } else if let Some(forced) = entry.strip_prefix('+').map(path) {
            self.barred.retain(|barred| *barred != forced);
            self.forced.push(forced);
        } else if let Some(barred) = entry.strip_prefix('-').map(path) {
            self.forced.retain(|forced| *forced != barred);
            self.barred.push(barred);
        } else {
            return false;
        }
        true
    }

    /// Paths in rules are relative to `base`; a folder stands for everything inside.
    pub(super) fn allow(&self, path: &Path, base: &Path) -> bool {
        let names = |list: &[PathBuf]| {
            let mut resolved = list.iter().map(|rule| resolve(&rule.to_string_lossy(), base, None));
            resolved.any(|rule| path.starts_with(rule))
        };
        let matches = |list: &[Pattern]| list.iter().any(|pattern| pattern.matches(path, base));
        if names(&self.barred) || names(&self.forced) {
            return !names(&self.barred);
        }
        self.included.as_deref().is_none_or(matches) && !matches(&self.excluded)
    }
}
