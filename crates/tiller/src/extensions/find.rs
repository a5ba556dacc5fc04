//! Which extensions there are, in the order they are loaded: those the command line names, the
//! project's, the user's, and then those in packages. What is nearer comes first, and of two that
//! bring the same tool the first one wins.
//!
//! Nothing is loaded here and nothing installed. Where there is nothing to find, this costs one
//! look at each of two or three folders.

mod folder;
mod package;
mod patterns;
mod permissions;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use tiller_js::Extension;

use crate::args::ExtensionFlags;
use crate::project::{Project, ResourceOrigin};
use crate::settings::{Scope, resolve};
use folder::FolderEntry;
use patterns::PatternRules;
use permissions::PermissionRules;

/// What was found, and what was not.
#[derive(Debug, Default)]
pub(crate) struct Discovery {
    /// In the order they are to be loaded. No file is there twice.
    pub(crate) found: Vec<DiscoveredExtension>,
    pub(crate) problems: Vec<Problem>,
}

#[derive(Debug)]
pub(crate) struct DiscoveredExtension {
    pub(crate) extension: Extension,
    /// Where it comes from, for `sourceInfo`.
    pub(crate) source: ResourceOrigin,
}

impl DiscoveredExtension {
    /// Whether it may say if the project is trusted. Of itself nobody does.
    pub(crate) fn is_judge(&self) -> bool {
        self.source.scope != Scope::Project
    }
}

impl Discovery {
    pub(crate) fn has_judges(&self) -> bool {
        self.found.iter().any(DiscoveredExtension::is_judge)
    }
}

/// An extension that somebody wants and that cannot be had.
#[derive(Debug, PartialEq)]
pub(crate) struct Problem {
    /// The path, or the source of a package.
    pub(crate) what: String,
    pub(crate) error: String,
}

/// Looks for extensions.
pub(crate) fn find(place: &Project, flags: &ExtensionFlags) -> Discovery {
    let whereabouts = place.whereabouts();
    let (cwd, home) = (place.cwd(), whereabouts.home.as_deref());
    let mut search = Search {
        permits: PermissionRules::read(place),
        seen: HashSet::new(),
        discovery: Discovery::default(),
    };
    for named in &flags.paths {
        match package::Origin::read(named) {
            Some(origin) => search.package(&package::Wanted::for_now(named, origin), place),
            None => search.named(&resolve(named, cwd, home)),
        }
    }
    if !flags.only_these {
        for scope in [Scope::Project, Scope::User] {
            search.scope(scope, place);
        }
        for wanted in package::wanted(place) {
            search.package(&wanted, place);
        }
    }
    search.discovery
}

/// The first path of the command line that leads nowhere: a typing error, most likely.
pub(crate) fn nowhere(place: &Project, flags: &ExtensionFlags) -> Option<PathBuf> {
    let home = place.whereabouts().home.as_deref();
    let paths = flags.paths.iter().filter(|named| package::Origin::read(named).is_none());
    paths.map(|named| resolve(named, place.cwd(), home)).find(|path| !path.exists())
}

/// The same flags, which mean the same in every folder a session may lead to.
pub(crate) fn anchored(mut flags: ExtensionFlags, place: &Project) -> ExtensionFlags {
    let home = place.whereabouts().home.as_deref();
    for named in &mut flags.paths {
        if package::Origin::read(named).is_none() {
            *named = resolve(named, place.cwd(), home).display().to_string();
        }
    }
    flags
}

/// What settings and the usual folders of one scope are relative to.
fn base(scope: Scope, place: &Project) -> PathBuf {
    match scope {
        Scope::Project => place.whereabouts().project_dir(),
        Scope::User => place.whereabouts().agent_dir.clone(),
        Scope::Process => place.cwd().to_owned(),
    }
}

struct Search {
    permits: PermissionRules,
    /// Files that were found, by whatever links they are reached.
    seen: HashSet<PathBuf>,
    discovery: Discovery,
}

impl Search {
    /// A path of the command line.
    fn named(&mut self, path: &Path) {
        let entries = folder::at(path, &mut self.discovery.problems);
        if entries.is_empty() && path.is_dir() {
            let error = format!("No extension in {}", path.display());
            self.discovery.problems.push(Problem { what: path.display().to_string(), error });
        }
        let source = ResourceOrigin::named(Scope::Process, path.to_owned());
        self.add_all(entries, &source);
    }

    /// What one settings file lists, and then what is found by itself in the folders beside it.
    fn scope(&mut self, scope: Scope, place: &Project) {
        let listed: Vec<String> = place.layers().said(scope, "extensions");
        let base = base(scope, place);
        let home = place.whereabouts().home.as_deref();
        let problems = &mut self.discovery.problems;
        let mut lots: Vec<(ResourceOrigin, Vec<FolderEntry>)> = Vec::new();
        let (rules, paths) = PatternRules::split(&listed);
        for path in paths {
            let whole = resolve(path, &base, home);
            let entries = match patterns::is_pattern(path) && !whole.exists() {
                true => folder::matching(&base, path),
                false => folder::at(&whole, problems),
            };
            lots.push((ResourceOrigin::named(scope, whole), entries));
        }
        for usual in usual_folders(scope, &base, place) {
            let entries = folder::inside(&usual.path, problems);
            lots.push((usual, entries));
        }
        for (source, mut entries) in lots {
            entries.retain(|entry| rules.allow(&entry.path, &base));
            self.add_all(entries, &source);
        }
    }

    fn package(&mut self, wanted: &package::Wanted, place: &Project) {
        let problems = &mut self.discovery.problems;
        let Some((root, entries)) = wanted.entries(place, problems) else { return };
        let source = ResourceOrigin::package(wanted.scope, root, wanted.source.clone());
        self.add_all(entries, &source);
    }

    fn add_all(&mut self, entries: Vec<FolderEntry>, source: &ResourceOrigin) {
        for FolderEntry { path, names } in entries {
            let real = path.canonicalize().unwrap_or_else(|_| path.clone());
            if self.seen.insert(real) {
                let extension = self.permits.grant(path, &names);
                self.discovery
                    .found
                    .push(DiscoveredExtension { extension, source: source.clone() });
            }
        }
    }
}

fn usual_folders(scope: Scope, base: &Path, place: &Project) -> Vec<ResourceOrigin> {
    const KIND: &str = "extensions";
    let mut folders = Vec::new();
    if scope == Scope::User || place.is_trusted() {
        folders.push(ResourceOrigin::usual(scope, base.to_owned(), KIND));
        let inner = base.join("agent");
        // In the user's home that is the agent folder itself.
        if scope == Scope::Project && inner != place.whereabouts().agent_dir {
            folders.push(ResourceOrigin::usual(scope, inner, KIND));
        }
    }
    folders
}
