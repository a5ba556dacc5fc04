//! Discovers extensions, in load order: those named on the command line, the project's, the user's,
//! and then those in packages. Of two that register the same tool, the first wins.
//!
//! Nothing is loaded or installed here. Without extensions this costs one `read_dir` for each of
//! two or three folders.

mod folder;
mod package;
mod patterns;
mod permissions;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use tiller_js::Extension;

use crate::extensions::flags::ExtensionFlags;
use folder::FolderEntry;
use patterns::PatternRules;
use permissions::PermissionRules;
use tiller_config::project::{Project, ResourceOrigin};
use tiller_config::settings::{Scope, resolve};

/// The extensions found, and the problems.
#[derive(Debug, Default)]
pub struct Discovery {
    /// In load order, without duplicates.
    pub found: Vec<DiscoveredExtension>,
    pub problems: Vec<Problem>,
}

#[derive(Debug)]
pub struct DiscoveredExtension {
    pub extension: Extension,
    /// Where it comes from, for `sourceInfo`.
    pub(crate) source: ResourceOrigin,
}

impl DiscoveredExtension {
    /// Whether it may decide if the project is trusted. A project's own extension may not.
    pub(crate) fn may_decide_trust(&self) -> bool {
        self.source.scope != Scope::Project
    }
}

impl Discovery {
    pub(crate) fn may_decide_trust(&self) -> bool {
        self.found.iter().any(DiscoveredExtension::may_decide_trust)
    }
}

/// An extension that is configured but cannot be found.
#[derive(Debug, PartialEq)]
pub struct Problem {
    /// The path, or the source of a package.
    pub what: String,
    pub error: String,
}

/// Discovers extensions.
pub fn find(project: &Project, flags: &ExtensionFlags) -> Discovery {
    let dirs = project.dirs();
    let (cwd, home) = (project.cwd(), dirs.home.as_deref());
    let mut search = Search {
        permissions: PermissionRules::read(project),
        seen: HashSet::new(),
        discovery: Discovery::default(),
    };
    for named in &flags.paths {
        match package::PackageOrigin::read(named) {
            Some(origin) => search
                .package(&package::ConfiguredPackage::from_command_line(named, origin), project),
            None => search.named(&resolve(named, cwd, home)),
        }
    }
    if !flags.only_these {
        for scope in [Scope::Project, Scope::User] {
            search.scope(scope, project);
        }
        for configured in package::configured(project) {
            search.package(&configured, project);
        }
    }
    if flags.are_refused {
        let refused = search.discovery.found.drain(..).map(|found| Problem {
            what: found.extension.path.display().to_string(),
            error: REFUSED.to_owned(),
        });
        search.discovery.problems.extend(refused.collect::<Vec<_>>());
    }
    search.discovery
}

const REFUSED: &str =
    "extensions are not loaded where a sandbox is on, because they would run outside of it";

/// The first path on the command line that does not exist: most likely a typing error.
pub fn missing_path(project: &Project, flags: &ExtensionFlags) -> Option<PathBuf> {
    let home = project.dirs().home.as_deref();
    let paths = flags.paths.iter().filter(|named| package::PackageOrigin::read(named).is_none());
    paths.map(|named| resolve(named, project.cwd(), home)).find(|path| !path.exists())
}

/// The same flags with absolute paths, so that they mean the same in every folder.
pub(crate) fn with_absolute_paths(mut flags: ExtensionFlags, project: &Project) -> ExtensionFlags {
    let home = project.dirs().home.as_deref();
    for named in &mut flags.paths {
        if package::PackageOrigin::read(named).is_none() {
            *named = resolve(named, project.cwd(), home).display().to_string();
        }
    }
    flags
}

/// The base of relative paths in settings and of the default folders.
fn base(scope: Scope, project: &Project) -> PathBuf {
    match scope {
        Scope::Project => project.dirs().project_dir(),
        Scope::User => project.dirs().agent_dir.clone(),
        Scope::Process => project.cwd().to_owned(),
    }
}

struct Search {
    permissions: PermissionRules,
    /// Files found so far, by identity: a link to a file found before is skipped.
    seen: HashSet<PathBuf>,
    discovery: Discovery,
}

impl Search {
    /// Adds a path of the command line.
    fn named(&mut self, path: &Path) {
        let entries = folder::at(path, &mut self.discovery.problems);
        if entries.is_empty() && path.is_dir() {
            let error = format!("No extension in {}", path.display());
            self.discovery.problems.push(Problem { what: path.display().to_string(), error });
        }
        let source = ResourceOrigin::named(Scope::Process, path.to_owned());
        self.add_all(entries, &source);
    }

    /// Adds what one settings file lists, and then what is in the default folders.
    fn scope(&mut self, scope: Scope, project: &Project) {
        let listed: Vec<String> = project.layers().value(scope, "extensions");
        let base = base(scope, project);
        let home = project.dirs().home.as_deref();
        let problems = &mut self.discovery.problems;
        let mut lots: Vec<(ResourceOrigin, Vec<FolderEntry>)> = Vec::new();
        let (rules, paths) = PatternRules::split(&listed);
        for path in paths {
            let resolved = resolve(path, &base, home);
            let entries = if patterns::is_pattern(path) && !resolved.exists() {
                folder::matching(&base, path)
            } else {
                folder::at(&resolved, problems)
            };
            lots.push((ResourceOrigin::named(scope, resolved), entries));
        }
        for origin in default_folders(scope, &base, project) {
            let entries = folder::inside(&origin.path, problems);
            lots.push((origin, entries));
        }
        for (source, mut entries) in lots {
            entries.retain(|entry| rules.allow(&entry.path, &base));
            self.add_all(entries, &source);
        }
    }

    fn package(&mut self, configured: &package::ConfiguredPackage, project: &Project) {
        let problems = &mut self.discovery.problems;
        let Some((root, entries)) = configured.entries(project, problems) else { return };
        let source = ResourceOrigin::package(configured.scope, root, configured.source.clone());
        self.add_all(entries, &source);
    }

    fn add_all(&mut self, entries: Vec<FolderEntry>, source: &ResourceOrigin) {
        for FolderEntry { path, names } in entries {
            let real = path.canonicalize().unwrap_or_else(|_| path.clone());
            if self.seen.insert(real) {
                let extension = self.permissions.grant(path, &names);
                self.discovery
                    .found
                    .push(DiscoveredExtension { extension, source: source.clone() });
            }
        }
    }
}

fn default_folders(scope: Scope, base: &Path, project: &Project) -> Vec<ResourceOrigin> {
    const KIND: &str = "extensions";
    let mut folders = Vec::new();
    if scope == Scope::User || project.is_trusted() {
        folders.push(ResourceOrigin::default_folder(scope, base.to_owned(), KIND));
        let inner = base.join("agent");
        // In the home folder this is the agent folder itself.
        if scope == Scope::Project && inner != project.dirs().agent_dir {
            folders.push(ResourceOrigin::default_folder(scope, inner, KIND));
        }
    }
    folders
}
