//! `AGENTS.md` and similar files: instructions for every model.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::text_file::Identity;
use super::{Dirs, text_file};

/// A file with instructions for the model.
#[derive(Clone, Debug, PartialEq)]
pub struct ContextFile {
    pub path: PathBuf,
    pub text: String,
}

/// Only the first of these in a folder counts.
const NAMES: [&str; 5] = ["AGENTS.override.md", "AGENTS.md", "AGENTS.MD", "CLAUDE.md", "CLAUDE.MD"];

/// From the most general to the most specific: the agent folder, then from the file system root
/// down to the working directory.
pub(super) fn read(dirs: &Dirs, diagnostics: &mut Vec<String>) -> Vec<ContextFile> {
    let worktree = Worktree::containing(&dirs.cwd);
    let mut folders: Vec<&Path> = dirs.cwd.ancestors().collect();
    folders.reverse();
    folders.retain(|folder| !worktree.as_ref().is_some_and(|tree| tree.shadows(folder)));
    folders.insert(0, &dirs.agent_dir);
    let mut seen = HashSet::new();
    let mut files = Vec::new();
    for folder in folders {
        let mut names = NAMES.iter().map(|name| folder.join(name));
        let found = names.find_map(|path| Some((text_file::read(&path, diagnostics)?, path)));
        let Some((text, path)) = found else { continue };
        // The agent folder may be one of the parents, and links may lead to the same file twice.
        if Identity::of(&path).is_none_or(|file| seen.insert(file)) {
            let text = text.trim_start_matches('\u{feff}').to_owned();
            files.push(ContextFile { path, text });
        }
    }
    files
}

/// A git worktree inside its own repository. It has its own copy of the repository's instructions,
/// possibly changed, and the model should not get both.
struct Worktree {
    root: PathBuf,
    repository: PathBuf,
}

impl Worktree {
    fn containing(cwd: &Path) -> Option<Worktree> {
        let root = cwd.ancestors().find(|folder| folder.join(".git").exists())?;
        // In a worktree `.git` is a file that points to the repository. Errors in it are git's to
        // report.
        let link = text_file::read(&root.join(".git"), &mut Vec::new())?;
        let git_dir = root.join(link.strip_prefix("gitdir:")?.trim());
        let git = git_dir.parent().filter(|parent| parent.ends_with("worktrees"))?.parent()?;
        let repository = git.parent()?.to_owned();
        (root != repository && root.starts_with(&repository))
            .then(|| Worktree { root: root.to_owned(), repository })
    }

    /// Whether the worktree has its own copy of this folder's file.
    fn shadows(&self, folder: &Path) -> bool {
        let Ok(inside) = folder.strip_prefix(&self.repository) else { return false };
        let inner = self.root.join(inside);
        !folder.starts_with(&self.root) && NAMES.iter().any(|name| inner.join(name).exists())
    }
}
