//! Finds skills: a folder with a `SKILL.md` is one, a text directly inside a skills folder may be
//! one, and other folders are searched.

use std::collections::HashSet;
use std::fs::FileType;
use std::path::{Path, PathBuf};

use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::source::ResourceOrigin;
use super::text_file::{FILE_MAX_BYTES, Identity};

pub(super) struct SkillFile {
    pub(super) path: PathBuf,
    /// A text beside skill folders. It is a skill only if it has a description.
    pub(super) is_loose: bool,
}

/// One walk over any number of roots. No file or folder is visited twice, through whatever links,
/// so a cycle of links ends.
#[derive(Default)]
pub(super) struct Walk {
    visited: HashSet<Identity>,
    folders: usize,
    found: Vec<SkillFile>,
}

/// Ignore files that are honoured.
const RULES: [&str; 3] = [".gitignore", ".ignore", ".fdignore"];
/// Larger than any real collection of skills; a link to the whole file system exceeds it.
const DEPTH_MAX: usize = 16;
const FOLDERS_MAX: usize = 4000;
const ENTRIES_MAX: usize = 10_000;

impl Walk {
    pub(super) fn files(
        &mut self,
        root: &ResourceOrigin,
        diagnostics: &mut Vec<String>,
    ) -> Vec<SkillFile> {
        let path = &root.path;
        match path.metadata() {
            Ok(metadata) if metadata.is_dir() => {
                self.folder(path, &mut Vec::new(), diagnostics);
            }
            Ok(_) => self.add(path.clone(), false),
            // A default folder need not exist.
            Err(_) if !root.is_named && path.symlink_metadata().is_err() => {}
            Err(err) => diagnostics.push(format!("cannot read skill {}: {err}", path.display())),
        }
        std::mem::take(&mut self.found)
    }

    /// Walks a folder. `rules` has the ignore rules of each parent.
    fn folder(&mut self, folder: &Path, rules: &mut Vec<Gitignore>, diagnostics: &mut Vec<String>) {
        if !self.visit(folder) {
            return;
        }
        let skill_file = folder.join("SKILL.md");
        if skill_file.symlink_metadata().is_ok() {
            return self.add(skill_file, false);
        }
        self.folders += 1;
        if self.folders > FOLDERS_MAX {
            if self.folders == FOLDERS_MAX + 1 {
                let why = format!("there are more than {FOLDERS_MAX} folders");
                diagnostics.push(format!("skills from {} on are ignored: {why}", folder.display()));
            }
            return;
        }
        let entries = match std::fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(err) => {
                diagnostics.push(format!("cannot read the folder {}: {err}", folder.display()));
                return;
            }
        };
        let entries = entries.filter_map(|entry| {
            let entry = entry.ok()?;
            Some((entry.path(), entry.file_type().ok()?))
        });
        let mut entries: Vec<(PathBuf, FileType)> = entries.take(ENTRIES_MAX).collect();
        entries.sort_by(|one, other| one.0.cmp(&other.0));
        rules.push(own_rules(folder));
        for (path, kind) in entries {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if name.starts_with('.') || name == "node_modules" {
                continue;
            }
            let is_dir = match kind.is_symlink().then(|| path.metadata()) {
                None => kind.is_dir(),
                Some(Ok(metadata)) => metadata.is_dir(),
                // Reading the file reports the error.
                Some(Err(_)) if name.ends_with(".md") => false,
                Some(Err(err)) => {
                    diagnostics.push(format!("{} is ignored: {err}", path.display()));
                    continue;
                }
            };
            if is_ignored(rules, &path, is_dir) {
                continue;
            }
            if is_dir && kind.is_symlink() && is_link_to_parent(&path, folder) {
                let path = path.display();
                diagnostics.push(format!("{path} is ignored: the link leads to a parent folder"));
            } else if is_dir && rules.len() <= DEPTH_MAX {
                self.folder(&path, rules, diagnostics);
            } else if !is_dir && rules.len() == 1 && name.ends_with(".md") {
                self.add(path, true);
            }
        }
        rules.pop();
    }

    fn add(&mut self, path: PathBuf, is_loose: bool) {
        if self.visit(&path) {
            self.found.push(SkillFile { path, is_loose });
        }
    }

    /// Whether this path is visited for the first time. A dangling path is reported when it is
    /// read.
    fn visit(&mut self, path: &Path) -> bool {
        Identity::of(path).is_none_or(|identity| self.visited.insert(identity))
    }
}

/// Whether a link leads to one of its parents.
fn is_link_to_parent(link: &Path, parent: &Path) -> bool {
    match (link.canonicalize(), parent.canonicalize()) {
        (Ok(link), Ok(parent)) => parent.starts_with(link),
        _ => false,
    }
}

/// Invalid lines in an ignore file are skipped.
fn own_rules(folder: &Path) -> Gitignore {
    let is_small = |path: &PathBuf| {
        path.metadata().is_ok_and(|file| file.is_file() && file.len() <= FILE_MAX_BYTES)
    };
    let files = RULES.iter().map(|name| folder.join(name)).filter(is_small);
    let mut builder = GitignoreBuilder::new(folder);
    for path in files {
        drop(builder.add(path));
    }
    builder.build().unwrap_or_else(|_| Gitignore::empty())
}

/// The innermost matching rule decides.
fn is_ignored(rules: &[Gitignore], path: &Path, is_dir: bool) -> bool {
    let matches = rules.iter().rev().map(|rules| rules.matched(path, is_dir));
    matches.into_iter().find(|found| !found.is_none()).is_some_and(|found| found.is_ignore())
}
