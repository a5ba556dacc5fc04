//! Permissions of extensions: `extensionSettings` of both files.
//!
//! Within a file, an exact name or path takes precedence over a pattern, and if two of a kind
//! disagree the stricter one counts. Between the two files the stricter one counts as well, so that
//! no project allows what the user forbids. For the engine, the user's choice takes precedence over
//! the project's.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

use tiller_config::project::Project;
use tiller_config::settings::{ExtensionEngine, ExtensionSettings, Scope, resolve};
use tiller_js::{EngineChoice, Extension, Permissions, Runtime};

use super::folder::name_of;
use super::patterns::{Pattern, is_pattern};

pub(super) struct PermissionRules {
    files: Vec<Vec<PermissionRule>>,
}

/// One key of `extensionSettings`.
struct PermissionRule {
    key: String,
    /// The resolved path, if the key is one.
    path: PathBuf,
    /// Both as patterns, if the key is one.
    patterns: Option<(Pattern, Pattern)>,
    settings: ExtensionSettings,
}

impl PermissionRules {
    pub(super) fn read(project: &Project) -> PermissionRules {
        let home = project.dirs().home.as_deref();
        let read = |scope| {
            let entries: HashMap<String, ExtensionSettings> =
                project.layers().value(scope, "extensionSettings");
            let base = super::base(scope, project);
            let rules = entries.into_iter().map(|(key, settings)| {
                let path = resolve(&key, &base, home);
                let patterns = || (Pattern::new(&key), Pattern::new(&path.to_string_lossy()));
                let patterns = is_pattern(&key).then(patterns);
                PermissionRule { key, path, patterns, settings }
            });
            rules.collect()
        };
        PermissionRules { files: [Scope::Project, Scope::User].map(read).into() }
    }

    /// The extension with its permissions. Keys are matched against its path, file name and
    /// `names`, also with symbolic links resolved.
    pub(super) fn grant(&self, path: PathBuf, names: &[String]) -> Extension {
        let mut own_names = vec![name_of(&path)];
        own_names.extend(names.iter().cloned());
        let real = path.canonicalize().ok().filter(|real| *real != path);
        let folder = real.as_ref().and_then(|real| real.parent()).map(name_of);
        let is_folder = |real: &&PathBuf| real.file_stem().is_some_and(|stem| stem == "index");
        own_names.extend(real.as_ref().filter(is_folder).and(folder));
        own_names.extend(real.as_deref().map(name_of));
        let paths: Vec<PathBuf> = [path.clone()].into_iter().chain(real).collect();
        let mut extension = Extension::new(path);
        for file in &self.files {
            let matching: Vec<(Specificity, &ExtensionSettings)> = file
                .iter()
                .filter_map(|rule| Some((rule.names(&paths, &own_names)?, &rule.settings)))
                .collect();
            let decide = |read: fn(&ExtensionSettings) -> Option<bool>, strict: bool| {
                let values = matching.iter().filter_map(|(close, s)| Some((*close, read(s)?)));
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
            let engines = matching.iter().map(|(close, s)| (*close, s.engine));
            let engines = engines.filter(|(_, engine)| *engine != ExtensionEngine::Auto);
            // The most specific choice counts, and of equal ones the most restricted.
            let decided = engines.min_by_key(|(close, engine)| (Reverse(*close), *engine));
            if let Some((_, engine)) = decided {
                extension.engine = engine_choice(engine);
            }
        }
        extension
    }
}

fn engine_choice(engine: ExtensionEngine) -> EngineChoice {
    match engine {
        ExtensionEngine::Auto => EngineChoice::Auto,
        ExtensionEngine::Embedded => EngineChoice::Embedded,
        ExtensionEngine::Node => EngineChoice::Sidecar(Runtime::Node),
        ExtensionEngine::Bun => EngineChoice::Sidecar(Runtime::Bun),
    }
}

/// How specifically a key matches; greater is more specific.
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
