//! Prompt templates: a text file is a command of its name, and the arguments typed after the
//! command are inserted into the text.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use tiller_agent::front_matter::Document;

use super::source::ResourceOrigin;
use super::text_file::Identity;
use super::{arguments, text_file};

#[derive(Clone, Debug, PartialEq)]
pub struct Template {
    pub name: String,
    pub description: String,
    pub path: PathBuf,
    pub source: ResourceOrigin,
    body: String,
}

impl Template {
    /// The text that replaces `/NAME ARGS`.
    pub(crate) fn expand(&self, typed: &str) -> String {
        arguments::substitute(&self.body, &arguments::split(typed))
    }
}

/// Reads all templates below these roots. The first of two with the same name counts.
pub(super) fn read(roots: Vec<ResourceOrigin>, diagnostics: &mut Vec<String>) -> Vec<Template> {
    let mut templates: Vec<Template> = Vec::new();
    let mut indexes: HashMap<String, usize> = HashMap::new();
    let mut visited = HashSet::new();
    for root in roots {
        for path in files(&root, diagnostics) {
            if Identity::of(&path).is_some_and(|file| !visited.insert(file)) {
                continue;
            }
            let Some(template) = Template::read(path, &root, diagnostics) else { continue };
            match indexes.get(&template.name) {
                Some(&first) if templates[first].source.scope != template.source.scope => {}
                Some(&first) => diagnostics.push(format!(
                    "prompt template {} is overridden by {}",
                    template.path.display(),
                    templates[first].path.display()
                )),
                None => {
                    indexes.insert(template.name.clone(), templates.len());
                    templates.push(template);
                }
            }
        }
    }
    templates
}

/// The file, or the Markdown files directly inside the folder, by name.
fn files(root: &ResourceOrigin, diagnostics: &mut Vec<String>) -> Vec<PathBuf> {
    let shown = root.path.display();
    match root.path.metadata() {
        Ok(metadata) if metadata.is_dir() => {}
        Ok(_) => return vec![root.path.clone()],
        Err(err) => {
            if root.is_named {
                diagnostics.push(format!("cannot read prompt template {shown}: {err}"));
            }
            return Vec::new();
        }
    }
    let entries = match std::fs::read_dir(&root.path) {
        Ok(entries) => entries,
        Err(err) => {
            diagnostics.push(format!("cannot read the folder {shown}: {err}"));
            return Vec::new();
        }
    };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let is_text = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "md");
    let mut paths: Vec<PathBuf> = paths.filter(is_text).collect();
    paths.sort();
    paths
}

/// How much of its first line is used as the description of a template without one.
const DESCRIPTION_CHARS: usize = 60;

impl Template {
    fn read(
        path: PathBuf,
        root: &ResourceOrigin,
        diagnostics: &mut Vec<String>,
    ) -> Option<Template> {
        let text = text_file::read(&path, diagnostics)?;
        let document = Document::split(&text);
        let fields = document.fields().unwrap_or_else(|why| {
            diagnostics.push(format!("prompt template {}: {why}", path.display()));
            serde_json::Map::new()
        });
        let description = fields.get("description").and_then(|value| value.as_str()).map(str::trim);
        let description = description.filter(|text| !text.is_empty()).map(str::to_owned);
        let description = description.unwrap_or_else(|| first_line(document.body));
        let body = document.body.replace("\r\n", "\n");
        let name = path.file_stem().unwrap_or(Path::new("").as_os_str());
        let name = name.to_string_lossy().into_owned();
        Some(Template { name, description, body, source: root.clone(), path })
    }
}

fn first_line(body: &str) -> String {
    let line = body.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    match line.char_indices().nth(DESCRIPTION_CHARS) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line.to_owned(),
    }
}
