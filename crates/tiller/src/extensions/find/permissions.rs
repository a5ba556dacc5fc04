//! What each extension may do: `extensionSettings` of both files.
//!
//! In one file, a name or a path that is spelled out decides before a pattern does, and where two
//! of a kind disagree the stricter one counts. Of the two files the stricter one counts as well,
//! so that no project allows what the user forbids. What runs an extension the user decides before
//! the project does.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

use tiller_js::{EngineChoice, Extension, Permissions, Runtime};

use super::folder::name_of;
use super::patterns::{Pattern, is_pattern};
use crate::project::Project;
use crate::settings::{ExtensionEngine, ExtensionSettings, Scope, resolve};

pub(super) struct PermissionRules {
    files: Vec<Vec<PermissionRule>>,
}

/// One key of `extensionSettings`.
struct PermissionRule {
    key: String,
    /// Where it leads if it is a path.
    path: PathBuf,
    /// The two of them as patterns, if the key is one.
    patterns: Option<(Pattern, Pattern)>,
    settings: ExtensionSettings,
}

impl PermissionRules {
    pub(super) fn read(place: &Project) -> PermissionRules {
        let home = place.whereabouts().home.as_deref();
        let read = |scope| {
            let said: HashMap<String, ExtensionSettings> =
                place.layers().said(scope, "extensionSettings");
            let base = super::base(scope, place);
            let permits = said.into_iter().map(|(key, settings)| {
                let path = resolve(&key, &base, home);
                let patterns = || (Pattern::new(&key), Pattern::new(&path.to_string_lossy()));
                let patterns = is_pattern(&key).then(patterns);
                PermissionRule { key, path, patterns, settings }
            });
            permits.collect()
        };
        PermissionRules { files: [Scope::Project, Scope::User].map(read).into() }
    }

    /// The extension with all it may do. It goes by its path, the name of its file, and `names`;
    /// and by what these are behind symbolic links.
    pub(super) fn grant(&self, path: PathBuf, names: &[String]) -> Extension {
        let mut own = vec![name_of(&path)];
        own.extend(names.iter().cloned());
        let real = path.canonicalize().ok().filter(|real| *real != path);
        let folder = real.as_ref().and_then(|real| real.parent()).map(name_of);
        let is_folder = |real: &&PathBuf| real.file_stem().is_some_and(|stem| stem == "index");
        own.extend(real.as_ref().filter(is_folder).and(folder));
        own.extend(real.as_deref().map(name_of));
        let paths: Vec<PathBuf> = [path.clone()].into_iter().chain(real).collect();
        let mut extension = Extension::new(path);
        for file in &self.files {
            let said: Vec<(Specificity, &ExtensionSettings)> = file
                .iter()
                .filter_map(|permit| Some((permit.names(&paths, &own)?, &permit.settings)))
                .collect();
            let decide = |read: fn(&ExtensionSettings) -> Option<bool>, strict: bool| {
                let values = said.iter().filter_map(|(close, s)| Some((*close, read(s)?)));
                let closest = values.clone().map(|(close, _)| close).max()?;
                let mut values = values.filter(|(close, _)| *close == closest);
                Some(if values.any(|(_, value)| value == strict) { strict } else { !strict })
            };
            let may = |read| decide(read, false).unwrap_or(true);
            extension.isolate |= decide(|s| s.isolate, true).unwrap_or(false);
            let Permissions { fs, exec, net, env } = &mut extension.permissions;
            *fs &= may(|s| s.permissions.fs);
            *exec &= may(|s| s.permissions.exec);
            *net &= may(|s| s.permissions.net);
            *env &= may(|s| s.permissions.env);
            let engines = said.iter().map(|(close, s)| (*close, s.engine));
            let engines = engines.filter(|(_, engine)| *engine != ExtensionEngine::Auto);
            // The closest counts, and of those the most cautious.
            let decided = engines.min_by_key(|(close, engine)| (Reverse(*close), *engine));
            if let Some((_, engine)) = decided {
                extension.engine = running(engine);
            }
        }
        extension
    }
}

fn running(engine: ExtensionEngine) -> EngineChoice {
    match engine {
        ExtensionEngine::Auto => EngineChoice::Auto,
        ExtensionEngine::Embedded => EngineChoice::Embedded,
        ExtensionEngine::Node => EngineChoice::Sidecar(Runtime::Node),
        ExtensionEngine::Bun => EngineChoice::Sidecar(Runtime::Bun),
    }
}

/// How well a key fits, the better the greater.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Specificity {
    Pattern,
    Name,
}

impl PermissionRule {
    fn names(&self, paths: &[PathBuf], names: &[String]) -> Option<Specificity> {
        let is_below = |folder: &Path| paths.iter().any(|path| path.starts_with(folder));
        let real = || self.path.canonicalize().is_ok_and(|real| is_below(&real));
        if names.contains(&self.key) || is_below(&self.path) || real() {
            return Some(Specificity::Name);
        }
        let (of_name, of_path) = self.patterns.as_ref()?;
        let fits = names.iter().any(|name| of_name.is_for(name))
            || paths.iter().any(|path| of_path.is_for(&path.to_string_lossy()));
        fits.then_some(Specificity::Pattern)
    }
}
