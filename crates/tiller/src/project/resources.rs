//! Everything in files that shapes what the model is told.

use std::path::Path;

use super::context_files::{self, ContextFile};
use super::rules::{self, RuleFiles};
use super::skills::{self, Skill};
use super::templates::{self, Template};
use super::{Project, text_file};
use crate::models::glob::matches;

/// Read once, and then the same from request to request: providers keep what does not change.
#[derive(Debug, Default)]
pub(crate) struct Resources {
    pub(crate) context_files: Vec<ContextFile>,
    pub(crate) skills: Vec<Skill>,
    pub(crate) templates: Vec<Template>,
    pub(crate) rules: RuleFiles,
    /// Instead of tiller's own words.
    pub(crate) system_prompt: Option<String>,
    /// Behind them.
    pub(crate) addendum: Option<String>,
    /// What was wrong with any of it, in sentences that name the file.
    pub(crate) problems: Vec<String>,
}

/// Nobody reads more of them.
const PROBLEMS_MAX: usize = 100;

impl Resources {
    pub(super) fn read(place: &Project) -> Resources {
        let mut problems = Vec::new();
        let flags = &place.flags;
        let context_files = match flags.no_context_files {
            true => Vec::new(),
            false => context_files::read(&place.whereabouts, &mut problems),
        };
        let system_prompt = match &flags.system_prompt {
            Some(given) => Some(text_or_file(given, place, &mut problems)),
            None => own_file("SYSTEM.md", place, &mut problems),
        };
        let given: Vec<String> = flags
            .append_system_prompt
            .iter()
            .map(|given| text_or_file(given, place, &mut problems))
            .collect();
        let addendum = match given.is_empty() {
            true => own_file("APPEND_SYSTEM.md", place, &mut problems),
            false => Some(given.join("\n\n")),
        };
        let mut skills = skills::read(place.skill_roots(), &mut problems);
        if let Some(patterns) = &flags.skill_names {
            skills.retain(|skill| patterns.iter().any(|pattern| matches(pattern, &skill.name)));
        }
        let templates = templates::read(place.template_roots(), &mut problems);
        let rules = rules::read(place.rule_roots(), &mut problems);
        let rest = problems.len().saturating_sub(PROBLEMS_MAX);
        if rest > 0 {
            problems.truncate(PROBLEMS_MAX);
            problems.push(format!("… and {rest} more files with problems"));
        }
        Resources { context_files, skills, templates, rules, system_prompt, addendum, problems }
    }

    /// Nothing, because of this.
    pub(crate) fn none(problem: String) -> Resources {
        Resources { problems: vec![problem], ..Resources::default() }
    }

    /// What a message stands for: `/skill:NAME` and `/NAME` are replaced by the text of the skill
    /// or template. Anything else, a name that nobody knows too, is said as it is.
    pub(crate) fn expand(&self, message: String) -> Result<String, String> {
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
                Err(format!("Nothing to say: the prompt template /{name} comes out empty"))
            }
            Some(text) => Ok(text),
            None => Ok(message),
        }
    }
}

/// The project's file if it is trusted, else the user's.
fn own_file(name: &str, place: &Project, problems: &mut Vec<String>) -> Option<String> {
    let project = place.whereabouts.project_dir().join(name);
    let project = place.is_trusted.then(|| text_file::read(&project, problems)).flatten();
    project.or_else(|| text_file::read(&place.whereabouts.agent_dir.join(name), problems))
}

/// Nobody means a text by the name of a file that is there.
fn text_or_file(given: &str, place: &Project, problems: &mut Vec<String>) -> String {
    const NAME_MAX_BYTES: usize = 4096;
    let path = place.cwd().join(Path::new(given));
    let is_file = given.len() < NAME_MAX_BYTES && !given.contains('\n') && path.is_file();
    let text = is_file.then(|| text_file::read(&path, problems)).flatten();
    text.unwrap_or_else(|| given.to_owned())
}
