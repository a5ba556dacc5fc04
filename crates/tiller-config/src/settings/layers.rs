//! Merges the two settings files: the project's values override the user's.

use std::path::{Component, Path, PathBuf};

use serde::Deserialize;
use serde_json::{Map, Value};
use tiller_agent::approvals::ApprovalMode;

use super::file::read_one;
use super::{PermissionSettings, SandboxSettings, Settings};

/// The settings of both files.
#[derive(Clone, Debug, Default)]
pub struct Layers {
    /// In the agent folder.
    pub(crate) user: Map<String, Value>,
    /// In the project; empty if the project is not trusted.
    pub(crate) project: Map<String, Value>,
}

/// Which settings file or process something belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    Project,
    User,
    /// This process only: named on the command line.
    Process,
}

/// A file or folder named in settings.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ListedPath {
    pub(crate) scope: Scope,
    pub(crate) path: PathBuf,
}

impl Layers {
    /// Both files merged. Objects are merged by key; of other values the project's counts.
    pub(crate) fn settings(&self) -> Settings {
        let mut raw = self.user.clone();
        merge(&mut raw, &self.project);
        // Only the user decides which projects to trust.
        match self.user.get("defaultProjectTrust") {
            Some(trust) => raw.insert("defaultProjectTrust".to_owned(), trust.clone()),
            None => raw.shift_remove("defaultProjectTrust"),
        };
        let value = Value::Object(raw);
        // Both files were validated when they were read.
        let mut settings = Settings::deserialize(&value).unwrap_or_default();
        if let Value::Object(raw) = value {
            settings.raw = raw;
        }
        self.tighten(&mut settings);
        settings
    }

    /// A project can only make approvals stricter.
    fn tighten(&self, settings: &mut Settings) {
        let mode = |scope| self.value::<ApprovalMode>(scope, "approvals");
        settings.approvals = mode(Scope::User).max(mode(Scope::Project));
        settings.permissions = self.permissions();
        settings.sandbox = self.sandbox();
    }

    /// The user's sandbox, as far as the project does not restrict it further.
    fn sandbox(&self) -> SandboxSettings {
        let user: SandboxSettings = self.value(Scope::User, "sandbox");
        let project: SandboxSettings = self.value(Scope::Project, "sandbox");
        let forbids_network = || self.project.get("sandbox")?.get("network")?.as_bool();
        SandboxSettings {
            mode: user.mode.max(project.mode),
            network: user.network && forbids_network() != Some(false),
            ..user
        }
    }

    /// The rules of both files, without what the project would allow.
    pub(crate) fn permissions(&self) -> PermissionSettings {
        let mut user: PermissionSettings = self.value(Scope::User, "permissions");
        let project: PermissionSettings = self.value(Scope::Project, "permissions");
        user.ask.extend(project.ask);
        user.deny.extend(project.deny);
        user
    }

    /// A list of files or folders. Those of both files count, the project's first.
    pub(crate) fn listed(&self, key: &str, bases: &PathBases<'_>) -> Vec<ListedPath> {
        let scopes =
            [(Scope::Project, &self.project, bases.project), (Scope::User, &self.user, bases.user)];
        let listed = scopes.into_iter().flat_map(|(scope, values, base)| {
            let entries: Vec<String> = read_one(values, key).unwrap_or_default();
            entries.into_iter().map(move |entry| {
                let path = resolve(&entry, base, bases.home);
                ListedPath { scope, path }
            })
        });
        listed.collect()
    }

    /// One file's value of a key. Both files were validated when they were read.
    pub fn value<'a, T: Deserialize<'a> + Default>(&'a self, scope: Scope, key: &str) -> T {
        let values = match scope {
            Scope::Project => &self.project,
            Scope::User => &self.user,
            Scope::Process => return T::default(),
        };
        read_one(values, key).unwrap_or_default()
    }
}

/// The bases of relative paths.
pub struct PathBases<'a> {
    /// The project's `.pi`.
    pub(crate) project: &'a Path,
    /// The agent folder.
    pub(crate) user: &'a Path,
    pub(crate) home: Option<&'a Path>,
}

/// Resolves a path; `~` is the home folder.
pub fn resolve(path: &str, base: &Path, home: Option<&Path>) -> PathBuf {
    let resolved = match (path.strip_prefix('~'), home) {
        (Some(""), Some(home)) => home.to_owned(),
        (Some(inside), Some(home)) if inside.starts_with('/') => home.join(&inside[1..]),
        _ => base.join(path),
    };
    // Lexically, without disk access.
    let mut plain = PathBuf::new();
    for part in resolved.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(plain.pop()),
            part => plain.push(part),
        }
    }
    plain
}

/// Values override those of earlier layers, as in [`Layers::settings`].
pub fn merge_layers(layers: &[Map<String, Value>]) -> Map<String, Value> {
    let mut merged = Map::new();
    layers.iter().for_each(|layer| merge(&mut merged, layer));
    merged
}

fn merge(into: &mut Map<String, Value>, from: &Map<String, Value>) {
    for (key, value) in from {
        match (into.get_mut(key), value) {
            (Some(Value::Object(into)), Value::Object(from)) => merge(into, from),
            _ => {
                into.insert(key.clone(), value.clone());
            }
        }
    }
}
