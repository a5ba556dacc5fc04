//! Skills: instructions for one kind of task, each in a file whose front matter describes it. The
//! system prompt lists them and the model reads those it needs; a user can call one by name.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use tiller_agent::front_matter::Document;

use super::source::ResourceOrigin;
use super::{skill_files, text_file};

#[derive(Clone, Debug, PartialEq)]
pub struct Skill {
    pub name: String,
    pub description: String,
    pub path: PathBuf,
    /// Only a user may call it; it is not listed in the system prompt.
    pub is_hidden: bool,
    pub source: ResourceOrigin,
    body: String,
}

impl Skill {
    /// The text that replaces `/skill:NAME ARGS`.
    pub(crate) fn expand(&self, arguments: &str) -> String {
        let folder = self.path.parent().unwrap_or(Path::new("/"));
        let name = &self.name;
        let path = self.path.display();
        let folder = folder.display();
        let body = &self.body;
        let mut text = format!(
            "<skill name=\"{name}\" location=\"{path}\">\nReferences are relative to \
             {folder}.\n\n{body}\n</skill>"
        );
        let arguments = arguments.trim();
        if !arguments.is_empty() {
            text.push_str("\n\n");
            text.push_str(arguments);
        }
        text
    }
}

/// Reads all skills below these roots. The first of two with the same name counts. A project's
/// skill that overrides the user's is not reported.
pub(super) fn read(roots: Vec<ResourceOrigin>, diagnostics: &mut Vec<String>) -> Vec<Skill> {
    let mut skills: Vec<Skill> = Vec::new();
    let mut indexes: HashMap<String, usize> = HashMap::new();
    let mut walk = skill_files::Walk::default();
    for root in roots {
        let found = walk.files(&root, diagnostics).into_iter();
        for found in found.filter(|found| !(found.is_loose && root.is_shared)) {
            let Some(skill) = Skill::read(found, &root, diagnostics) else { continue };
            match indexes.get(&skill.name) {
                Some(&first) if skills[first].source.scope != skill.source.scope => {}
                Some(&first) => diagnostics.push(format!(
                    "skill {} in {} is overridden by the one in {}",
                    skill.name,
                    skill.path.display(),
                    skills[first].path.display()
                )),
                None => {
                    indexes.insert(skill.name.clone(), skills.len());
                    skills.push(skill);
                }
            }
        }
    }
    skills
}

/// The limits of the Agent Skills specification.
const NAME_MAX: usize = 64;
const DESCRIPTION_MAX: usize = 1024;

impl Skill {
    fn read(
        found: skill_files::SkillFile,
        root: &ResourceOrigin,
        diagnostics: &mut Vec<String>,
    ) -> Option<Skill> {
        let skill_files::SkillFile { path, is_loose } = found;
        let text = text_file::read(&path, diagnostics)?;
        let document = Document::split(&text);
        let shown = path.display();
        let fields = match document.fields() {
            Ok(fields) => fields,
            Err(why) => {
                diagnostics.push(format!("skill {shown} is ignored: {why}"));
                return None;
            }
        };
        let text_of = |key: &str| match fields.get(key)? {
            serde_json::Value::String(text) => Some(text.trim().to_owned()),
            serde_json::Value::Number(number) => Some(number.to_string()),
            _ => None,
        };
        let description = text_of("description").filter(|text| !text.is_empty());
        let Some(description) = description else {
            // A file without a description may be any text, but a SKILL.md is meant to be a skill.
            if !is_loose {
                diagnostics.push(format!("skill {shown} is ignored: it has no description"));
            }
            return None;
        };
        let default =
            if is_loose { path.file_stem() } else { path.parent().and_then(Path::file_name) };
        let default = default.unwrap_or_default().to_string_lossy().into_owned();
        let name = text_of("name").filter(|name| !name.is_empty()).unwrap_or(default);
        if let Some(why) = name_problem(&name) {
            diagnostics.push(format!("skill {shown}: the name {name:?} {why}"));
        }
        if description.chars().count() > DESCRIPTION_MAX {
            let why = format!("the description is longer than {DESCRIPTION_MAX} characters");
            diagnostics.push(format!("skill {shown}: {why}"));
        }
        let is_hidden = fields.get("disable-model-invocation").is_some_and(|value| *value == true);
        let body = document.body.trim().to_owned();
        let source = root.clone();
        Some(Skill { name, description, is_hidden, source, body, path })
    }
}

/// What violates the specification in a name. tiller accepts it all the same.
fn name_problem(name: &str) -> Option<&'static str> {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if name.chars().count() > NAME_MAX {
        Some("is longer than 64 characters")
    } else if !name.chars().all(is_plain) {
        Some("has other characters than a-z, 0-9 and -")
    } else if name.starts_with('-') || name.ends_with('-') || name.contains("--") {
        Some("begins or ends with a hyphen, or has two in a row")
    } else {
        None
    }
}
