//! Which files and folders can be read if some are hidden. Landlock only allows: what is hidden is
//! what no rule allows, so the folders above hidden ones are listed and their entries allowed one
//! by one.

use std::fs;
use std::path::{Path, PathBuf};

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Readable {
    /// A file, or a folder with everything in it.
    All(PathBuf),
    /// A folder above hidden files: the names in it, and in folders below it.
    Names(PathBuf),
}

/// What can be read below this folder. Hidden paths are absolute and without links; links are
/// followed.
pub(super) fn of(folder: &Path, hidden: &[PathBuf]) -> Vec<Readable> {
    let mut readable = Vec::new();
    split(folder, hidden, &mut readable);
    readable
}

fn split(folder: &Path, hidden: &[PathBuf], readable: &mut Vec<Readable>) {
    readable.push(Readable::Names(folder.to_owned()));
    // What cannot be listed is not allowed.
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.filter_map(Result::ok) {
        let path = entry.path();
        // All devices are allowed one by one, because some are the disks that files are on.
        if path == Path::new("/dev") {
            readable.push(Readable::Names(path));
            continue;
        }
        let Ok(real) = fs::canonicalize(&path) else { continue };
        if hidden.iter().any(|hidden| real.starts_with(hidden)) {
            continue;
        }
        let has_hidden = hidden.iter().any(|hidden| hidden.starts_with(&real) && hidden.exists());
        match (has_hidden, real == path) {
            (false, _) => readable.push(Readable::All(real)),
            (true, true) => split(&path, hidden, readable),
            // A link to a folder with hidden files: it is split where it is.
            (true, false) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn hidden_files_and_links_to_them_are_left_out() {
        let temp = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(temp.path()).unwrap();
        for dir in ["open/deep", "home/u/.ssh", "home/u/work"] {
            fs::create_dir_all(root.join(dir)).unwrap();
        }
        for file in ["home/u/notes", "home/u/.netrc"] {
            fs::write(root.join(file), "").unwrap();
        }
        symlink(root.join("home/u/.ssh"), root.join("open-link")).unwrap();
        symlink(root.join("home/u/.ssh"), root.join("home/u/keys")).unwrap();
        symlink(root.join("home"), root.join("users")).unwrap();
        symlink(root.join("open"), root.join("alias")).unwrap();
        let hidden = ["home/u/.ssh", "home/u/.netrc", "gone"].map(|path| root.join(path));
        let mut found = of(&root, &hidden);
        found.sort();
        found.dedup();
        let all = |path: &str| Readable::All(root.join(path));
        let names = |path: &str| Readable::Names(root.join(path));
        assert_eq!(
            found,
            [
                all("home/u/notes"),
                all("home/u/work"),
                all("open"),
                Readable::Names(root.clone()),
                names("home"),
                names("home/u"),
            ]
        );
    }
}
