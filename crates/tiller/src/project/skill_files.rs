//! Where skills are found: a folder with a `SKILL.md` is one, a text right inside a folder of
//! skills may be one, and other folders are searched.

use std::collections::HashSet;
use std::fs::FileType;
use std::path::{Path, PathBuf};

use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::source::ResourceOrigin;
use super::text_file::{FILE_MAX_BYTES, Identity};

pub(super) struct Found {
    pub(super) path: PathBuf,
    /// A text beside folders of skills. It is one if it says so.
    pub(super) is_loose: bool,
}

/// One look through any number of places. No file or folder is visited twice, by whatever links
/// it is reached, so that no circle of links is walked for ever.
#[derive(Default)]
pub(super) struct Walk {
    visited: HashSet<Identity>,
    folders: usize,
    found: Vec<Found>,
}

/// Files whose rules are followed.
const RULES: [&str; 3] = [".gitignore", ".ignore", ".fdignore"];
/// No collection of skills is deeper or wider; a link to everything there is is none.
const DEPTH_MAX: usize = 16;
const FOLDERS_MAX: usize = 4000;
const ENTRIES_MAX: usize = 10_000;

impl Walk {
    pub(super) fn files(
        &mut self,
        root: &ResourceOrigin,
        diagnostics: &mut Vec<String>,
    ) -> Vec<Found> {
        let path = &root.path;
        match path.metadata() {
            Ok(metadata) if metadata.is_dir() => {
                self.folder(path, &mut Vec::new(), diagnostics);
            }
            Ok(_) => self.add(path.clone(), false),
            // Nobody has to have skills.
            Err(_) if !root.is_named && path.symlink_metadata().is_err() => {}
            Err(err) => diagnostics.push(format!("no skill at {}: {err}", path.display())),
        }
        std::mem::take(&mut self.found)
    }

    /// Looks into a folder. There is a set of rules for each of those around it.
    fn folder(&mut self, folder: &Path, rules: &mut Vec<Gitignore>, diagnostics: &mut Vec<String>) {
        if !self.is_new(folder) {
            return;
        }
        let own = folder.join("SKILL.md");
        if own.symlink_metadata().is_ok() {
            return self.add(own, false);
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
                diagnostics.push(format!("cannot look into {}: {err}", folder.display()));
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
                // Whoever reads it will say what is wrong.
                Some(Err(_)) if name.ends_with(".md") => false,
                Some(Err(err)) => {
                    diagnostics.push(format!("{} is ignored: {err}", path.display()));
                    continue;
                }
            };
            if is_ignored(rules, &path, is_dir) {
                continue;
            }
            if is_dir && kind.is_symlink() && leads_back(&path, folder) {
                let path = path.display();
                diagnostics.push(format!("{path} is ignored: it leads back to where it is"));
            } else if is_dir && rules.len() <= DEPTH_MAX {
                self.folder(&path, rules, diagnostics);
            } else if !is_dir && rules.len() == 1 && name.ends_with(".md") {
                self.add(path, true);
            }
        }
        rules.pop();
    }

    fn add(&mut self, path: PathBuf, is_loose: bool) {
        if self.is_new(&path) {
            self.found.push(Found { path, is_loose });
        }
    }

    /// Whether nobody was there yet. Whoever reads a path that leads nowhere will say so.
    fn is_new(&mut self, path: &Path) -> bool {
        Identity::of(path).is_none_or(|place| self.visited.insert(place))
    }
}

/// Whether a link leads to a folder around it.
fn leads_back(link: &Path, parent: &Path) -> bool {
    match (link.canonicalize(), parent.canonicalize()) {
        (Ok(link), Ok(parent)) => parent.starts_with(link),
        _ => false,
    }
}

/// A line of rules that cannot be understood is none.
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

/// The nearest rule that has something to say decides.
fn is_ignored(rules: &[Gitignore], path: &Path, is_dir: bool) -> bool {
    let said = rules.iter().rev().map(|rules| rules.matched(path, is_dir));
    said.into_iter().find(|said| !said.is_none()).is_some_and(|said| said.is_ignore())
}
