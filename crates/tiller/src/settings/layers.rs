//! Two files, one set of preferences: what a project says wins over what the user says.

use std::path::{Component, Path, PathBuf};

use serde::Deserialize;
use serde_json::{Map, Value};

use super::Settings;
use super::file::one;

/// What the files say.
#[derive(Clone, Debug, Default)]
pub(crate) struct Layers {
    /// In the agent folder.
    pub(crate) user: Map<String, Value>,
    /// In the project; empty when the project is not trusted.
    pub(crate) project: Map<String, Value>,
}

/// Whose something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    Project,
    User,
    /// Of this process alone: named on the command line.
    Process,
}

/// A file or folder that settings name.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Listed {
    pub(crate) scope: Scope,
    pub(crate) path: PathBuf,
}

impl Layers {
    /// Both files as one. Objects are merged; of everything else the project's is taken.
    pub(crate) fn settings(&self) -> Settings {
        let mut raw = self.user.clone();
        merge(&mut raw, &self.project);
        // The user decides whom to trust, not whoever wants to be.
        match self.user.get("defaultProjectTrust") {
            Some(trust) => raw.insert("defaultProjectTrust".to_owned(), trust.clone()),
            None => raw.shift_remove("defaultProjectTrust"),
        };
        let value = Value::Object(raw);
        // Both files were checked when they were read.
        let mut settings = Settings::deserialize(&value).unwrap_or_default();
        if let Value::Object(raw) = value {
            settings.raw = raw;
        }
        settings
    }

    /// A list of files or folders. Those of both scopes count, the project's first.
    pub(crate) fn listed(&self, key: &str, places: &Places<'_>) -> Vec<Listed> {
        let scopes = [
            (Scope::Project, &self.project, places.project),
            (Scope::User, &self.user, places.user),
        ];
        let listed = scopes.into_iter().flat_map(|(scope, values, base)| {
            let entries: Vec<String> = one(values, key).unwrap_or_default();
            entries.into_iter().map(move |entry| {
                let path = resolve(&entry, base, places.home);
                Listed { scope, path }
            })
        });
        listed.collect()
    }

    /// What one file says about a key. Both files were checked when they were read.
    pub(crate) fn said<'a, T: Deserialize<'a> + Default>(&'a self, scope: Scope, key: &str) -> T {
        let values = match scope {
            Scope::Project => &self.project,
            Scope::User => &self.user,
            Scope::Process => return T::default(),
        };
        one(values, key).unwrap_or_default()
    }
}

/// Where relative paths begin.
pub(crate) struct Places<'a> {
    /// The project's `.pi`.
    pub(crate) project: &'a Path,
    /// The agent folder.
    pub(crate) user: &'a Path,
    pub(crate) home: Option<&'a Path>,
}

/// A path as people write it, with `~` for their home.
pub(crate) fn resolve(path: &str, base: &Path, home: Option<&Path>) -> PathBuf {
    let whole = match (path.strip_prefix('~'), home) {
        (Some(""), Some(home)) => home.to_owned(),
        (Some(inside), Some(home)) if inside.starts_with('/') => home.join(&inside[1..]),
        _ => base.join(path),
    };
    // By its words alone, without a look at the disk.
    let mut plain = PathBuf::new();
    for part in whole.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(plain.pop()),
            part => plain.push(part),
        }
    }
    plain
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
