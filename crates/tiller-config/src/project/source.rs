//! Where a skill, template or extension comes from, as reported to clients.

use std::path::{Path, PathBuf};

use super::DiscoveredPath;
use crate::settings::Scope;

/// A file or folder to search.
#[derive(Clone, Debug, PartialEq)]
pub struct ResourceOrigin {
    pub path: PathBuf,
    pub scope: Scope,
    /// The default folder it was found in.
    pub(crate) base_dir: Option<PathBuf>,
    /// Named explicitly, so a missing path is reported.
    pub(crate) is_named: bool,
    /// Shared with other programs: a text that is not a skill to them is none here.
    pub(crate) is_shared: bool,
    /// The package it belongs to, as settings name it.
    pub(crate) package: Option<String>,
    /// The file of the extension that named it.
    pub(crate) extension: Option<PathBuf>,
}

impl ResourceOrigin {
    /// A default folder.
    pub fn default_folder(scope: Scope, base_dir: PathBuf, name: &str) -> ResourceOrigin {
        let path = base_dir.join(name);
        ResourceOrigin {
            base_dir: Some(base_dir),
            is_named: false,
            ..ResourceOrigin::named(scope, path)
        }
    }

    /// The `.agents` folder with skills.
    pub(super) fn shared(scope: Scope, base_dir: PathBuf) -> ResourceOrigin {
        ResourceOrigin {
            is_shared: true,
            ..ResourceOrigin::default_folder(scope, base_dir, "skills")
        }
    }

    /// Named in settings or on the command line.
    pub fn named(scope: Scope, path: PathBuf) -> ResourceOrigin {
        ResourceOrigin {
            path,
            scope,
            base_dir: None,
            is_named: true,
            is_shared: false,
            package: None,
            extension: None,
        }
    }

    /// Named by an extension.
    pub(super) fn discovered(discovered: &DiscoveredPath) -> ResourceOrigin {
        let extension = Some(discovered.extension.clone());
        ResourceOrigin {
            extension,
            ..ResourceOrigin::named(Scope::Process, discovered.path.clone())
        }
    }

    /// A part of the package in this folder.
    pub fn package(scope: Scope, root: PathBuf, package: String) -> ResourceOrigin {
        let base_dir = Some(root.clone());
        let package = Some(package);
        ResourceOrigin { base_dir, package, ..ResourceOrigin::named(scope, root) }
    }

    /// The three locations that clients know.
    pub fn location(&self) -> &'static str {
        match (self.is_named, self.scope) {
            (false, Scope::User) => "user",
            (false, Scope::Project) => "project",
            _ => "path",
        }
    }

    /// Clients use another word for an extension of the command line than for a skill.
    pub fn extension_info(&self, path: &Path) -> SourceInfo {
        let mut info = self.info(path);
        if self.is_named && self.package.is_none() && self.scope == Scope::Process {
            info.source = "cli".to_owned();
        }
        info
    }

    /// Where the file comes from, for clients.
    pub fn info(&self, path: &Path) -> SourceInfo {
        SourceInfo {
            path: path.to_owned(),
            source: match (&self.package, &self.extension, self.is_named) {
                (Some(package), ..) => package.clone(),
                (None, Some(extension), _) => format!("extension:{}", extension_name(extension)),
                (None, None, false) => "auto".to_owned(),
                (None, None, true) => "local".to_owned(),
            },
            scope: match self.scope {
                Scope::User => "user",
                Scope::Project => "project",
                Scope::Process => "temporary",
            },
            origin: if self.package.is_some() { "package" } else { "top-level" },
            base_dir: match (&self.extension, self.scope, &self.package) {
                (Some(extension), ..) => extension.parent().map(Path::to_owned),
                (None, Scope::Process, None) => path.parent().map(Path::to_owned),
                _ => self.base_dir.clone(),
            },
        }
    }
}

/// The name of an extension's file without its extension.
fn extension_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let stem = name.strip_suffix(".ts").or_else(|| name.strip_suffix(".js"));
    stem.unwrap_or(&name).to_owned()
}

/// The same in the format of newer clients.
pub struct SourceInfo {
    pub path: PathBuf,
    pub source: String,
    pub scope: &'static str,
    pub origin: &'static str,
    pub base_dir: Option<PathBuf>,
}
