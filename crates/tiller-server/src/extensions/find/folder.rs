//! Finds extensions in a folder: files that end in `.ts` or `.js`, and folders with extensions in
//! their `package.json`, or with an `index.ts` or `index.js`.
//!
//! The `package.json` of a folder named by another `package.json` is not read, so there are no
//! cycles.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use tiller_config::project::text_file;
use tiller_config::settings::resolve;

use super::Problem;
use super::patterns::{self, PatternRules};

/// A file to load, and the names it goes by besides its own.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct FolderEntry {
    pub(super) path: PathBuf,
    /// The names of its folder and its package.
    pub(super) names: Vec<String>,
}

/// The extensions part of a `package.json`.
#[derive(Debug, Default, Deserialize)]
#[serde(expecting = "an object")]
pub(super) struct Manifest {
    #[serde(default)]
    pub(super) name: Option<String>,
    #[serde(default)]
    pub(super) pi: Option<FolderListing>,
}

#[derive(Debug, Deserialize)]
#[serde(expecting = "an object")]
pub(super) struct FolderListing {
    #[serde(default)]
    pub(super) extensions: Option<Vec<String>>,
}

/// Larger than any real folder of extensions; a link to the whole file system exceeds it.
const ENTRIES_MAX: usize = 10_000;
const DEPTH_MAX: usize = 8;

/// The extensions at a path that was named: a file, or a folder that is an extension or contains
/// some.
pub(super) fn at(path: &Path, problems: &mut Vec<Problem>) -> Vec<FolderEntry> {
    match path.metadata() {
        Ok(metadata) if metadata.is_dir() => match package(path, problems) {
            entries if entries.is_empty() => inside(path, problems),
            entries => entries,
        },
        Ok(_) => vec![FolderEntry { path: path.to_owned(), names: Vec::new() }],
        Err(err) => {
            let path = path.display();
            let error = match err.kind() {
                ErrorKind::NotFound => format!("Extension path does not exist: {path}"),
                _ => format!("Cannot read extension path {path}: {err}"),
            };
            problems.push(Problem { what: path.to_string(), error });
            Vec::new()
        }
    }
}

/// The extensions directly inside a default folder, which need not exist.
pub(super) fn inside(folder: &Path, problems: &mut Vec<Problem>) -> Vec<FolderEntry> {
    let mut entries = Vec::new();
    for path in list(folder, problems) {
        if is_script(&path) {
            entries.push(FolderEntry { path, names: Vec::new() });
        } else if path.is_dir() {
            entries.extend(package(&path, problems));
        }
    }
    entries
}

/// The extensions of a folder as a whole: what its `package.json` names, or its index.
fn package(folder: &Path, problems: &mut Vec<Problem>) -> Vec<FolderEntry> {
    let mut names = vec![name_of(folder)];
    let manifest = manifest(folder, problems).unwrap_or_default();
    names.extend(manifest.name);
    let listed = manifest.pi.and_then(|pi| pi.extensions).unwrap_or_default();
    let mut paths = named_in(folder, &listed, problems);
    if paths.is_empty() {
        paths.extend(index(folder));
    }
    paths.into_iter().map(|path| FolderEntry { path, names: names.clone() }).collect()
}

pub(super) fn manifest(folder: &Path, problems: &mut Vec<Problem>) -> Option<Manifest> {
    let path = folder.join("package.json");
    let mut errors = Vec::new();
    let text = text_file::read(&path, &mut errors);
    let manifest = text.and_then(|text| {
        let wrong = |err| errors.push(format!("{} is ignored: {err}", path.display()));
        serde_json::from_str(&text).map_err(wrong).ok()
    });
    let what = path.display().to_string();
    problems.extend(errors.into_iter().map(|error| Problem { what: what.clone(), error }));
    manifest
}

/// The files for the paths and patterns of a `package.json`.
pub(super) fn named_in(
    root: &Path,
    listed: &[String],
    problems: &mut Vec<Problem>,
) -> Vec<PathBuf> {
    let (rules, paths) = PatternRules::split(listed);
    let mut files = Vec::new();
    for text in paths {
        let path = resolve(text, root, None);
        match path.metadata() {
            Ok(metadata) if metadata.is_dir() => match index(&path) {
                Some(index) => files.push(index),
                None => files.extend(flat(&path, problems)),
            },
            Ok(_) => files.push(path),
            Err(_) if patterns::is_pattern(text) => {
                files.extend(matching(root, text).into_iter().map(|entry| entry.path));
            }
            Err(_) => problems.push(Problem {
                what: path.display().to_string(),
                error: format!(
                    "Extension path does not exist: {}, named in {}",
                    path.display(),
                    root.join("package.json").display()
                ),
            }),
        }
    }
    files.retain(|path| rules.allow(path, root));
    files
}

/// Files, and the indexes of folders.
fn flat(folder: &Path, problems: &mut Vec<Problem>) -> Vec<PathBuf> {
    let paths = list(folder, problems).into_iter();
    paths.filter_map(|path| if is_script(&path) { Some(path) } else { index(&path) }).collect()
}

pub(super) fn index(folder: &Path) -> Option<PathBuf> {
    let mut paths = ["index.ts", "index.js"].iter().map(|name| folder.join(name));
    paths.find(|path| path.is_file())
}

/// All scripts below a folder whose path matches the pattern. Links and hidden folders are skipped.
pub(super) fn matching(base: &Path, pattern: &str) -> Vec<FolderEntry> {
    // Begin at the longest prefix without a pattern.
    let plain = pattern.split('/').take_while(|part| !patterns::is_pattern(part));
    let plain: Vec<&str> = plain.collect();
    let pattern = patterns::Pattern::new(pattern);
    let mut found = Vec::new();
    let mut folders = vec![(resolve(&plain.join("/"), base, None), 0)];
    let mut count = 0;
    while let Some((folder, depth)) = folders.pop() {
        let paths = list(&folder, &mut Vec::new());
        count += paths.len();
        if count > ENTRIES_MAX {
            break;
        }
        for path in paths {
            if is_script(&path) && pattern.matches(&path, base) {
                found.push(FolderEntry { path, names: Vec::new() });
            } else if depth < DEPTH_MAX && path.is_dir() && !path.is_symlink() {
                folders.push((path, depth + 1));
            }
        }
    }
    found.sort_by(|one, other| one.path.cmp(&other.path));
    found
}

/// The paths in a folder in a stable order, without hidden ones.
fn list(folder: &Path, problems: &mut Vec<Problem>) -> Vec<PathBuf> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(err) if err.kind() == ErrorKind::NotFound => return Vec::new(),
        Err(err) => {
            let what = folder.display().to_string();
            let error = format!("Cannot read the extension folder {what}: {err}");
            problems.push(Problem { what, error });
            return Vec::new();
        }
    };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path())).take(ENTRIES_MAX);
    let is_visible = |path: &PathBuf| {
        let name = name_of(path);
        !name.starts_with('.') && name != "node_modules"
    };
    let mut paths: Vec<PathBuf> = paths.filter(is_visible).collect();
    paths.sort();
    paths
}

/// Declaration files contain no code.
fn is_script(path: &Path) -> bool {
    let name = name_of(path);
    let is_one = (name.ends_with(".ts") && !name.ends_with(".d.ts")) || name.ends_with(".js");
    is_one && !path.is_dir()
}

pub(super) fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
