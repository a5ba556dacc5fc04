//! The source files of an extension without the `fs` permission: the code in its folder, and
//! packages. Loading a module reveals its content, so loading any other file counts as reading it.

use std::path::{Component, Path, PathBuf};

use crate::access::Denied;

const CODE: [&str; 8] = ["ts", "tsx", "mts", "cts", "js", "jsx", "mjs", "cjs"];

#[derive(Clone, Debug)]
pub(crate) struct OwnFiles {
    /// The extension's file, with symbolic links resolved.
    file: PathBuf,
    folder: PathBuf,
}

impl OwnFiles {
    pub(crate) fn of(file: &Path) -> OwnFiles {
        let file = file.canonicalize().unwrap_or_else(|_| file.to_owned());
        let folder = file.parent().unwrap_or(&file).to_owned();
        OwnFiles { file, folder }
    }

    /// Whether `name` can only resolve to one of these files. Other names are refused before the
    /// file system is searched, so that an extension cannot probe for files.
    pub(super) fn may_name(&self, importer: &Path, name: &str) -> bool {
        let name = name.strip_prefix("file://").unwrap_or(name);
        let folder = importer.parent().unwrap_or(importer);
        let is_path = name.starts_with('.') || name.starts_with('/');
        let target = if is_path { folder.join(name) } else { importer.to_owned() };
        self.contains(&plain(&target))
    }

    /// Whether a path without symbolic links is in the extension's folder or in a package.
    pub(super) fn contains(&self, path: &Path) -> bool {
        path.starts_with(&self.folder) || self.is_in_package(path)
    }

    /// Whether this file may be read and run.
    pub(super) fn may_load(&self, path: &Path) -> bool {
        let Ok(path) = path.canonicalize() else { return false };
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        let is_manifest = path.file_name().is_some_and(|name| name == "package.json");
        match ending {
            "json" => self.is_in_package(&path) || (is_manifest && self.contains(&path)),
            ending if CODE.contains(&ending) => self.contains(&path),
            _ => path == self.file,
        }
    }

    /// Whether it is below a `node_modules` in which packages of the extension are looked for.
    fn is_in_package(&self, path: &Path) -> bool {
        let folders = path.ancestors().skip(1);
        let mut modules = folders.filter(|folder| folder.ends_with("node_modules"));
        modules.any(|modules| modules.parent().is_some_and(|above| self.folder.starts_with(above)))
    }
}

/// The error for a refused module, worded like every other permission error.
pub(super) fn refused(name: &str) -> String {
    let denied = Denied { lacking: "fs".to_owned() };
    format!("{denied}: cannot load '{name}'")
}

/// Removes `.` and `..` without asking the file system.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => (),
            part => plain.push(part),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> OwnFiles {
        let folder = PathBuf::from("/home/u/.pi/agent/extensions/mine");
        OwnFiles { file: folder.join("index.ts"), folder }
    }

    #[test]
    fn names_outside_the_extension_are_refused() {
        let importer = Path::new("/home/u/.pi/agent/extensions/mine/index.ts");
        let may = |name: &str| own().may_name(importer, name);
        for name in ["./a.ts", "lodash", "node:fs", "./lib/../a.js", "/home/u/node_modules/a/b.js"]
        {
            assert!(may(name), "{name}");
        }
        for name in ["../../auth.json", "/etc/passwd", "file:///etc/passwd", "./../../auth.json"] {
            assert!(!may(name), "{name}");
        }
        assert!(!own().may_name(Path::new("/home/u/.pi/agent/x.js"), "lodash"));
    }

    #[test]
    fn only_importable_packages_are_allowed() {
        let is_package = |path: &str| own().is_in_package(Path::new(path));
        assert!(is_package("/home/u/node_modules/a/data.json"));
        assert!(is_package("/home/u/.pi/agent/extensions/mine/node_modules/.pnpm/a/b.json"));
        assert!(!is_package("/home/other/node_modules/a/data.json"));
        assert!(!is_package("/home/u/.pi/agent/auth.json"));
    }
}
