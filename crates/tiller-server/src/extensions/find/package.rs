//! Packages of extensions that settings name, where pi has put them:
//!
//! | source | in the agent folder, or in the project's `.pi` |
//! |---|---|
//! | `npm:NAME[@VERSION]` | `npm/node_modules/NAME` |
//! | `git:HOST/PATH[@REF]`, or an address | `git/HOST/PATH` |
//! | a path | (the path itself) |
//!
//! Nothing is installed or updated here; the installed version is used. A project's package may
//! also be in the agent folder.

use std::path::{Component, Path, PathBuf};

use tiller_config::project::Project;
use tiller_config::settings::{self, PackagePart, Scope, resolve};

use super::folder::{self, FolderEntry};
use super::patterns::PatternRules;
use super::{Problem, base};

/// A configured package, or a part of it.
pub(super) struct ConfiguredPackage {
    /// As written in the settings.
    pub(super) source: String,
    pub(super) scope: Scope,
    origin: PackageOrigin,
    rules: PatternRules,
}

/// Identifies a package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PackageOrigin {
    Npm(String),
    /// Host and path.
    Git(String),
    Local(PathBuf),
}

/// The packages of both settings files, the project's first. If both name a package, the project's
/// entry counts, or changes the user's if it has `autoload: false`.
pub(super) fn configured(project: &Project) -> Vec<ConfiguredPackage> {
    let home = project.dirs().home.as_deref();
    let mut all: Vec<ConfiguredPackage> = Vec::new();
    let mut changes: Vec<(PackageOrigin, Vec<String>, ConfiguredPackage)> = Vec::new();
    for scope in [Scope::Project, Scope::User] {
        let listed: Vec<settings::Package> = project.layers().value(scope, "packages");
        for part in listed.into_iter().map(settings::Package::into_part) {
            let PackagePart { source, extensions, autoload } = part;
            let local = || PackageOrigin::Local(resolve(&source, &base(scope, project), home));
            let origin = PackageOrigin::read(&source).unwrap_or_else(local);
            if all.iter().any(|other| other.origin == origin) {
                continue;
            }
            let list = extensions.clone().unwrap_or_default();
            if scope == Scope::Project && autoload == Some(false) {
                let mut rules = PatternRules::default();
                rules.change(&list);
                rules.select_forced_only();
                let alone = ConfiguredPackage { source, scope, origin: origin.clone(), rules };
                changes.push((origin, list, alone));
                continue;
            }
            let mut rules =
                extensions.map(|list| PatternRules::of_package(&list)).unwrap_or_default();
            if let Some(at) = changes.iter().position(|(changed, ..)| *changed == origin) {
                rules.change(&changes.remove(at).1);
            }
            all.push(ConfiguredPackage { source, scope, origin, rules });
        }
    }
    // A change without a user's entry to apply to counts by itself.
    all.splice(0..0, changes.into_iter().map(|(.., alone)| alone));
    all
}

impl ConfiguredPackage {
    /// A package named on the command line.
    pub(super) fn from_command_line(source: &str, origin: PackageOrigin) -> ConfiguredPackage {
        let source = source.to_owned();
        let scope = Scope::Process;
        ConfiguredPackage { source, scope, origin, rules: PatternRules::default() }
    }

    /// The folder of the package and the extensions in it.
    pub(super) fn entries(
        &self,
        project: &Project,
        problems: &mut Vec<Problem>,
    ) -> Option<(PathBuf, Vec<FolderEntry>)> {
        let source = &self.source;
        let candidates = self.install_paths(project);
        let Some(root) = candidates.iter().find(|path| path.exists()) else {
            let paths: Vec<String> =
                candidates.iter().map(|path| path.display().to_string()).collect();
            let paths = paths.join(" nor at ");
            let what = source.clone();
            let error = match &self.origin {
                PackageOrigin::Local(path) => {
                    format!("Package path does not exist: {}", path.display())
                }
                _ if paths.is_empty() => format!("{source:?} is not a valid package source"),
                _ => format!(
                    "Package {source} is not installed: not found at {paths}. Install it \
                     with `pi install {source}`"
                ),
            };
            problems.push(Problem { what, error });
            return None;
        };
        let mut entries = self.inside(root, problems);
        entries.retain(|entry| self.rules.allow(&entry.path, root));
        Some((root.clone(), entries))
    }

    fn inside(&self, root: &Path, problems: &mut Vec<Problem>) -> Vec<FolderEntry> {
        if !root.is_dir() {
            return folder::at(root, problems);
        }
        let manifest = folder::manifest(root, problems).unwrap_or_default();
        let mut names = vec![self.origin.name()];
        names.extend(manifest.name);
        let is_local = matches!(self.origin, PackageOrigin::Local(_));
        let mut entries = match manifest.pi {
            Some(pi) => {
                let listed = pi.extensions.unwrap_or_default();
                let paths = folder::named_in(root, &listed, problems).into_iter();
                paths.map(|path| FolderEntry { path, names: Vec::new() }).collect()
            }
            // A folder without a manifest is an extension, or contains some.
            None if is_local && !KINDS.iter().any(|kind| root.join(kind).is_dir()) => {
                folder::at(root, problems)
            }
            None => folder::inside(&root.join(KINDS[0]), problems),
        };
        for entry in &mut entries {
            entry.names.extend(names.iter().cloned());
        }
        entries
    }

    /// Where it may be installed, the nearest first.
    fn install_paths(&self, project: &Project) -> Vec<PathBuf> {
        let inner = match &self.origin {
            PackageOrigin::Local(path) => return vec![path.clone()],
            PackageOrigin::Npm(name) => Path::new("npm/node_modules").join(name),
            PackageOrigin::Git(path) => Path::new("git").join(path),
        };
        // Reject names that lead out of the install folder.
        if !inner.components().all(|part| matches!(part, Component::Normal(_))) {
            return Vec::new();
        }
        let mut bases = vec![project.dirs().agent_dir.clone()];
        if self.scope != Scope::User && project.is_trusted() {
            bases.insert(0, project.dirs().project_dir());
        }
        bases.into_iter().map(|base| base.join(&inner)).collect()
    }
}

/// Default folders of a package without a manifest. Extensions are in the first.
const KINDS: [&str; 4] = ["extensions", "skills", "prompts", "themes"];

impl PackageOrigin {
    /// Parses any source except a path.
    pub(super) fn read(source: &str) -> Option<PackageOrigin> {
        if let Some(name) = source.strip_prefix("npm:") {
            return Some(PackageOrigin::Npm(without_version(name.trim()).to_owned()));
        }
        const SCHEMES: [&str; 4] = ["https://", "http://", "ssh://", "git://"];
        let shorthand = source.strip_prefix("git:").filter(|rest| !rest.starts_with("//"));
        let address =
            SCHEMES.iter().find_map(|scheme| shorthand.unwrap_or(source).strip_prefix(scheme));
        let rest = address.or(shorthand)?;
        let (mut host, mut path) = rest.split_once('/').unwrap_or((rest, ""));
        // A user name before the host, and a port after it; or `git@host:path`.
        host = host.rsplit('@').next().unwrap_or_default();
        let joined;
        if let Some((before, after)) = host.split_once(':') {
            host = before;
            if address.is_none() {
                joined = format!("{after}/{path}");
                path = joined.trim_end_matches('/');
            }
        }
        let path = without_version(path).trim_end_matches('/');
        let path = path.strip_suffix(".git").unwrap_or(path);
        Some(PackageOrigin::Git(format!("{}/{path}", host.to_lowercase())))
    }

    fn name(&self) -> String {
        match self {
            PackageOrigin::Npm(name) => name.clone(),
            PackageOrigin::Git(path) => folder::name_of(Path::new(path)),
            PackageOrigin::Local(path) => folder::name_of(path),
        }
    }
}

/// The name before `@VERSION`. A scope begins with its own `@`.
fn without_version(name: &str) -> &str {
    name.char_indices().skip(1).find(|(_, c)| *c == '@').map_or(name, |(at, _)| &name[..at])
}
