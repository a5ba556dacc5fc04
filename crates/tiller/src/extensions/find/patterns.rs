//! Patterns of extensions, as settings and packages have them: `name.ts` or `dir/*.ts` for what is
//! wanted, `!dir/*.ts` for what is not, and `+path` and `-path` for exactly one.

use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};

use crate::settings::resolve;

pub(super) fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?', '[', '{'])
}

/// A pattern over paths. Without a slash it is about the name alone.
pub(super) struct Pattern {
    matcher: Option<GlobMatcher>,
    names_only: bool,
}

impl Pattern {
    /// A pattern that makes no sense matches nothing.
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

/// What of a number of extensions is taken.
#[derive(Default)]
pub(super) struct PatternRules {
    /// What is in any of these, if there are some.
    wanted: Option<Vec<Pattern>>,
    unwanted: Vec<Pattern>,
    /// In any case, and in no case.
    forced: Vec<PathBuf>,
    barred: Vec<PathBuf>,
}

impl PatternRules {
    /// Of a list of paths, the rules and the paths.
    pub(super) fn split(list: &[String]) -> (PatternRules, Vec<&str>) {
        let mut rules = PatternRules::default();
        let plain = list.iter().filter(|entry| !rules.take(entry)).map(String::as_str);
        let plain = plain.collect();
        (rules, plain)
    }

    /// A list that says what is wanted of a package. An empty one wants nothing.
    pub(super) fn of_package(list: &[String]) -> PatternRules {
        let (mut rules, wanted) = PatternRules::split(list);
        if list.is_empty() || !wanted.is_empty() {
            rules.wanted = Some(wanted.into_iter().map(Pattern::new).collect());
        }
        rules
    }

    /// A list that adds to others: what it does not speak of is left to them.
    pub(super) fn change(&mut self, list: &[String]) {
        for entry in list {
            if !self.take(entry) {
                self.forced.push(PathBuf::from(entry.as_str()));
            }
        }
    }

    /// Nothing but what is forced.
    pub(super) fn nothing_else(&mut self) {
        self.wanted = Some(Vec::new());
    }

    fn take(&mut self, entry: &str) -> bool {
        let path = |rest: &str| PathBuf::from(rest.strip_prefix("./").unwrap_or(rest));
        if let Some(pattern) = entry.strip_prefix('!') {
            self.unwanted.push(Pattern::new(pattern));
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

    /// Paths in rules are relative to `base`; one that leads to a folder is about all of it.
    pub(super) fn allow(&self, path: &Path, base: &Path) -> bool {
        let names = |list: &[PathBuf]| {
            let mut whole = list.iter().map(|rule| resolve(&rule.to_string_lossy(), base, None));
            whole.any(|rule| path.starts_with(rule))
        };
        let matches = |list: &[Pattern]| list.iter().any(|pattern| pattern.matches(path, base));
        if names(&self.barred) || names(&self.forced) {
            return !names(&self.barred);
        }
        self.wanted.as_deref().is_none_or(matches) && !matches(&self.unwanted)
    }
}
