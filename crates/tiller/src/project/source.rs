//! Where a skill, a template or an extension comes from, as clients are told.

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::settings::Scope;

/// A file or folder that is looked at.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ResourceOrigin {
    pub(crate) path: PathBuf,
    pub(crate) scope: Scope,
    /// The folder it was found in by itself.
    pub(crate) base_dir: Option<PathBuf>,
    /// Somebody named it, and wants to know when it is not there.
    pub(crate) is_named: bool,
    /// Other programs keep things there, too: a text that is no skill to them is none.
    pub(crate) is_shared: bool,
    /// The package it is part of, as settings name it.
    pub(crate) package: Option<String>,
}

impl ResourceOrigin {
    /// A folder in its usual place.
    pub(crate) fn usual(scope: Scope, base_dir: PathBuf, name: &str) -> ResourceOrigin {
        let path = base_dir.join(name);
        ResourceOrigin {
            path,
            scope,
            base_dir: Some(base_dir),
            is_named: false,
            is_shared: false,
            package: None,
        }
    }

    /// The folder of skills in `.agents`.
    pub(super) fn shared(scope: Scope, base_dir: PathBuf) -> ResourceOrigin {
        ResourceOrigin { is_shared: true, ..ResourceOrigin::usual(scope, base_dir, "skills") }
    }

    /// Named in settings or on the command line.
    pub(crate) fn named(scope: Scope, path: PathBuf) -> ResourceOrigin {
        ResourceOrigin {
            path,
            scope,
            base_dir: None,
            is_named: true,
            is_shared: false,
            package: None,
        }
    }

    /// A part of the package in this folder.
    pub(crate) fn package(scope: Scope, root: PathBuf, package: String) -> ResourceOrigin {
        let (path, base_dir, package) = (root.clone(), Some(root), Some(package));
        ResourceOrigin { path, scope, base_dir, is_named: true, is_shared: false, package }
    }

    /// Clients know three places.
    pub(crate) fn location(&self) -> &'static str {
        match (self.is_named, self.scope) {
            (false, Scope::User) => "user",
            (false, Scope::Project) => "project",
            _ => "path",
        }
    }

    /// Clients know an extension of the command line by another word than a skill.
    pub(crate) fn extension_info(&self, path: &Path) -> SourceInfo {
        let mut info = self.info(path);
        if self.is_named && self.package.is_none() && self.scope == Scope::Process {
            info.source = "cli".to_owned();
        }
        info
    }

    pub(crate) fn info(&self, path: &Path) -> SourceInfo {
        SourceInfo {
            path: path.to_owned(),
            source: match (&self.package, self.is_named) {
                (Some(package), _) => package.clone(),
                (None, false) => "auto".to_owned(),
                (None, true) => "local".to_owned(),
            },
            scope: match self.scope {
                Scope::User => "user",
                Scope::Project => "project",
                Scope::Process => "temporary",
            },
            origin: if self.package.is_some() { "package" } else { "top-level" },
            base_dir: match (self.scope, &self.package) {
                (Scope::Process, None) => path.parent().map(Path::to_owned),
                _ => self.base_dir.clone(),
            },
        }
    }
}

/// The same in the words of newer clients.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SourceInfo {
    path: PathBuf,
    source: String,
    scope: &'static str,
    origin: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    base_dir: Option<PathBuf>,
}
