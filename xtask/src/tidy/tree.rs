//! The repository as text: every hand-written file, by its path from the root.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

/// Generated files, and what is not part of the repository.
const SKIPPED: &[&str] = &[".git", "target", "node_modules", "dist", "build"];

#[derive(Default)]
pub(super) struct Tree {
    files: Vec<File>,
    /// Every path, including folders and binary files.
    paths: BTreeSet<String>,
}

pub(super) struct File {
    /// From the root, with `/` as separator.
    pub(super) path: String,
    pub(super) text: String,
}

impl Tree {
    pub(super) fn load(root: &Path) -> io::Result<Tree> {
        let mut tree = Tree::default();
        tree.visit(root, "")?;
        tree.files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(tree)
    }

    fn visit(&mut self, folder: &Path, prefix: &str) -> io::Result<()> {
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if SKIPPED.contains(&name.as_str()) {
                continue;
            }
            let path = format!("{prefix}{name}");
            if entry.file_type()?.is_dir() {
                self.visit(&entry.path(), &format!("{path}/"))?;
            } else if let Ok(text) = String::from_utf8(std::fs::read(entry.path())?) {
                self.files.push(File { path: path.clone(), text });
            }
            self.paths.insert(path);
        }
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Tree {
        let mut tree = Tree::default();
        for (path, text) in files {
            let mut folder = *path;
            while let Some((parent, _)) = folder.rsplit_once('/') {
                tree.paths.insert(parent.to_owned());
                folder = parent;
            }
            tree.paths.insert((*path).to_owned());
            tree.files.push(File { path: (*path).to_owned(), text: (*text).to_owned() });
        }
        tree
    }

    pub(super) fn files(&self) -> &[File] {
        &self.files
    }

    pub(super) fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    pub(super) fn holds(&self, path: &str) -> bool {
        path.is_empty() || self.paths.contains(path)
    }

    /// All Rust files, tests included.
    pub(super) fn sources(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| file.path.ends_with(".rs"))
    }
}

impl File {
    pub(super) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }

    /// Lines with their numbers, as editors count them.
    pub(super) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.text.lines())
    }

    /// A file that is a test as a whole, which follows other rules.
    pub(super) fn is_test(&self) -> bool {
        let in_folder = |folder: &str| self.path.contains(&format!("/{folder}/"));
        self.name() == "tests.rs" || in_folder("tests") || in_folder("benches")
    }

    /// The lines before the tests at the end of the file.
    pub(super) fn working_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        let tests = self.text.find("\n#[cfg(test)]\nmod ");
        let inline = tests.filter(|&at| {
            let rest = &self.text[at + "\n#[cfg(test)]\n".len()..];
            rest.lines().next().is_some_and(|line| line.ends_with('{'))
        });
        (1..).zip(self.text[..inline.unwrap_or(self.text.len())].lines())
    }
}
