//! Resources: everything in files that shapes what is sent to the model.

use std::path::Path;

use super::context_files::{self, ContextFile};
use super::rules::{self, RuleFiles};
use super::skills::{self, Skill};
use super::templates::{self, Template};
use super::{Project, text_file};
use crate::mcp::{self, ConfiguredServer};
use crate::models::glob::matches;

/// Read once and then unchanged from request to request, because providers cache a stable prefix.
#[derive(Debug, Default)]
pub struct Resources {
    pub context_files: Vec<ContextFile>,
    pub skills: Vec<Skill>,
    pub templates: Vec<Template>,
    pub rules: RuleFiles,
    /// The MCP servers of all files.
    pub mcp: Vec<ConfiguredServer>,
    /// Replaces tiller's own system prompt.
    pub system_prompt: Option<String>,
    /// Appended to the system prompt.
    pub addendum: Option<String>,
    /// Problems in any of the files; each text names its file.
    pub problems: Vec<String>,
}

/// More problems than a user reads.
const PROBLEMS_MAX: usize = 100;

impl Resources {
    pub(super) fn read(project: &Project) -> Resources {
        let mut problems = Vec::new();
        let flags = &project.flags;
        let context_files = if flags.no_context_files {
            Vec::new()
        } else {
            context_files::read(&project.dirs, &mut problems)
        };
        let system_prompt = match &flags.system_prompt {
            Some(value) => Some(text_or_file(value, project, &mut problems)),
            None => own_file("SYSTEM.md", project, &mut problems),
        };
        let values: Vec<String> = flags
            .append_system_prompt
            .iter()
            .map(|value| text_or_file(value, project, &mut problems))
            .collect();
        let addendum = if values.is_empty() {
            own_file("APPEND_SYSTEM.md", project, &mut problems)
        } else {
            Some(values.join("\n\n"))
        };
        let mut skills = skills::read(project.skill_roots(), &mut problems);
        if let Some(patterns) = &flags.skill_names {
            skills.retain(|skill| patterns.iter().any(|pattern| matches(pattern, &skill.name)));
        }
        let templates = templates::read(project.template_roots(), &mut problems);
        let rules = rules::read(project.rule_roots(), &mut problems);
        let mcp = if flags.no_mcp { Vec::new() } else { mcp::read(project, &mut problems) };
        let rest = problems.len().saturating_sub(PROBLEMS_MAX);
        if rest > 0 {
            problems.truncate(PROBLEMS_MAX);
            problems.push(format!("… and {rest} more files with problems"));
        }
        Resources {
            context_files,
            skills,
            templates,
            rules,
            mcp,
            system_prompt,
            addendum,
            problems,
        }
    }

    /// No resources, because of this problem.
    pub fn none(problem: String) -> Resources {
        Resources { problems: vec![problem], ..Resources::default() }
    }

    /// Expands a message: `/skill:NAME` and `/NAME` are replaced by the text of the skill or
    /// template. Anything else, unknown names included, stays as it is.
    pub fn expand(&self, message: String) -> Result<String, String> {
        let Some(command) = message.strip_prefix('/') else { return Ok(message) };
        if let Some(called) = command.strip_prefix("skill:") {
            let (name, arguments) = called.split_once(' ').unwrap_or((called, ""));
            if let Some(skill) = self.skills.iter().find(|skill| skill.name == name) {
                return Ok(skill.expand(arguments));
            }
        }
        let end = command.find(char::is_whitespace).unwrap_or(command.len());
        let (name, arguments) = command.split_at(end);
        let template = self.templates.iter().find(|template| template.name == name);
        match template.map(|template| template.expand(arguments)) {
            Some(text) if text.trim().is_empty() => {
                Err(format!("The prompt template /{name} expands to an empty message"))
            }
            Some(text) => Ok(text),
            None => Ok(message),
        }
    }
}

/// The project's file if it is trusted, else the user's.
fn own_file(name: &str, project: &Project, problems: &mut Vec<String>) -> Option<String> {
    let path = project.dirs.project_dir().join(name);
    let path = project.is_trusted.then(|| text_file::read(&path, problems)).flatten();
    path.or_else(|| text_file::read(&project.dirs.agent_dir.join(name), problems))
}

/// The content of the file with this path, if there is one; otherwise the text itself.
fn text_or_file(value: &str, project: &Project, problems: &mut Vec<String>) -> String {
    const NAME_MAX_BYTES: usize = 4096;
    let path = project.cwd().join(Path::new(value));
    let is_file = value.len() < NAME_MAX_BYTES && !value.contains('\n') && path.is_file();
    let text = is_file.then(|| text_file::read(&path, problems)).flatten();
    text.unwrap_or_else(|| value.to_owned())
}
