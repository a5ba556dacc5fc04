//! Resolves a name in an import to a file or a built-in module.

use std::path::{Path, PathBuf};

use oxc_resolver::{ModuleType, ResolveError, ResolveOptions, Resolver};

use super::builtin;

/// The result of resolving a name.
pub(super) enum ResolvedModule {
    Builtin(&'static str),
    File {
        path: PathBuf,
        /// What `package.json` or the file extension says, if either decides it.
        is_module: Option<bool>,
    },
}

/// `import` or `require`. A package may export different files for each.
#[derive(Clone, Copy)]
pub(super) enum By {
    Import,
    Require,
}

pub(super) struct Resolve {
    import: Resolver,
    require: Resolver,
}

impl Resolve {
    pub(super) fn new() -> Resolve {
        let import = Resolver::new(options(&["node", "import", "module-sync", "default"]));
        let require =
            import.clone_with_options(options(&["node", "require", "module-sync", "default"]));
        Resolve { import, require }
    }

    /// An extension's own file.
    pub(super) fn file(&self, path: &Path) -> Result<ResolvedModule, String> {
        let folder = path.parent().unwrap_or(Path::new("/"));
        self.resolve_with(&self.import, folder, &path.to_string_lossy())
            .map_err(|err| format!("cannot open {}: {err}", path.display()))
    }

    pub(super) fn locate(&self, from: &Path, name: &str, by: By) -> Result<ResolvedModule, String> {
        if let Some(id) = builtin::id_of(name) {
            return Ok(ResolvedModule::Builtin(id));
        }
        if let Some(name) = name.strip_prefix("node:") {
            return Err(if builtin::is_nodes_own(name) {
                format!("node:{name} {}", builtin::LACKING)
            } else {
                format!("No such built-in module: node:{name}")
            });
        }
        let from_url = name.strip_prefix("file://");
        let name = from_url.unwrap_or(name);
        let folder = from.parent().unwrap_or(Path::new("/"));
        let resolver = match by {
            By::Import => &self.import,
            By::Require => &self.require,
        };
        let found = self.resolve_with(resolver, folder, name).or_else(|err| match by {
            // Falls back to the package's `require` export if it has no `import` export.
            By::Import => self.resolve_with(&self.require, folder, name).map_err(|_| err),
            By::Require => self.resolve_with(&self.import, folder, name).map_err(|_| err),
        });
        found.map_err(|err| match err {
            ResolveError::NotFound(_) | ResolveError::MatchedAliasNotFound(..) => {
                format!("Cannot find module '{name}'\nRequire stack:\n- {}", from.display())
            }
            err => format!("Cannot find module '{name}' from {}: {err}", from.display()),
        })
    }

    fn resolve_with(
        &self,
        resolver: &Resolver,
        folder: &Path,
        name: &str,
    ) -> Result<ResolvedModule, ResolveError> {
        let found = resolver.resolve(folder, name)?;
        let path = found.path();
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        let is_module = match ending {
            "mjs" | "mts" => Some(true),
            "cjs" | "cts" => Some(false),
            _ => match found.module_type() {
                Some(ModuleType::Module) => Some(true),
                Some(ModuleType::CommonJs) if in_package(path) => Some(false),
                _ => None,
            },
        };
        Ok(ResolvedModule::File { path: path.to_owned(), is_module })
    }
}

fn in_package(path: &Path) -> bool {
    path.iter().any(|part| part == "node_modules")
}

fn options(conditions: &[&str]) -> ResolveOptions {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    ResolveOptions {
        condition_names: owned(conditions),
        extensions: owned(&[".ts", ".tsx", ".mts", ".cts", ".js", ".mjs", ".cjs", ".json"]),
        // TypeScript sources import the name that the file has after a build.
        extension_alias: vec![
            (".js".into(), owned(&[".js", ".ts", ".tsx"])),
            (".mjs".into(), owned(&[".mjs", ".mts"])),
            (".cjs".into(), owned(&[".cjs", ".cts"])),
        ],
        main_fields: owned(&["main"]),
        module_type: true,
        ..ResolveOptions::default()
    }
}
