//! The system prompt.
//!
//! It is assembled from its parts in a fixed order and contains nothing that changes by itself: no
//! date, no state of the project. The same tools, folder and files give the same bytes, so that
//! providers can cache it.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tiller_agent::tool::{Tool, ToolSet};

use crate::project::{ContextFile, Resources, RuleFiles, Skill};

const PREAMBLE: &str = include_str!("../prompts/preamble.md");
const MANNERS: &str = include_str!("../prompts/manners.md");
const SHELL_ONLY: &str = include_str!("../prompts/shell-only.md");
const PROJECT_CONTEXT: &str = include_str!("../prompts/project-context.md");
const STANDING_RULES: &str = include_str!("../prompts/standing-rules.md");
const RULE_FILES: &str = include_str!("../prompts/rule-files.md");
const SKILLS: &str = include_str!("../prompts/skills.md");

/// A prompt and the parts it was built from. Rebuilt when a part changes.
pub struct SystemPrompt {
    tools: Arc<ToolSet>,
    cwd: Arc<PathBuf>,
    resources: Arc<Resources>,
    text: Arc<str>,
}

impl SystemPrompt {
    /// Renders the prompt.
    pub fn new(
        tools: &Arc<ToolSet>,
        cwd: &Arc<PathBuf>,
        resources: &Arc<Resources>,
    ) -> SystemPrompt {
        SystemPrompt {
            text: Parts::of(tools.iter().collect(), cwd, resources).render().into(),
            tools: tools.clone(),
            cwd: cwd.clone(),
            resources: resources.clone(),
        }
    }

    /// Whether the prompt was built from these parts.
    pub fn is_of(
        &self,
        tools: &Arc<ToolSet>,
        cwd: &Arc<PathBuf>,
        resources: &Arc<Resources>,
    ) -> bool {
        Arc::ptr_eq(&self.tools, tools)
            && Arc::ptr_eq(&self.cwd, cwd)
            && Arc::ptr_eq(&self.resources, resources)
    }

    /// The prompt itself.
    pub fn text(&self) -> Arc<str> {
        self.text.clone()
    }
}

/// The parts of a prompt. Extensions may change any of them for a run.
pub struct Parts<'a> {
    pub tools: Vec<&'a Tool>,
    /// Guidelines in addition to those of the tools.
    pub advice: &'a [String],
    /// Replaces tiller's own text.
    pub custom: Option<&'a str>,
    pub addendum: Option<&'a str>,
    pub context_files: &'a [ContextFile],
    pub skills: Vec<&'a Skill>,
    pub rules: &'a RuleFiles,
    /// Further sections, by name.
    pub sections: Vec<(&'a str, &'a str)>,
    pub cwd: &'a Path,
}

impl<'a> Parts<'a> {
    fn of(tools: Vec<&'a Tool>, cwd: &'a Path, resources: &'a Resources) -> Parts<'a> {
        Parts {
            tools,
            advice: &[],
            custom: resources.system_prompt.as_deref(),
            addendum: resources.addendum.as_deref(),
            context_files: &resources.context_files,
            skills: resources.skills.iter().filter(|skill| !skill.is_hidden).collect(),
            rules: &resources.rules,
            sections: Vec::new(),
            cwd,
        }
    }

    pub fn render(&self) -> String {
        let is_active = |name: &str| self.tools.iter().any(|tool| tool.name() == name);
        let mut prompt = PromptText(String::new());
        match self.custom {
            Some(custom) => prompt.0.push_str(custom.trim_end()),
            None => {
                prompt.0.push_str(PREAMBLE.trim_end());
                prompt.section("tools", &tool_lines(&self.tools));
                prompt.section("rules", &rules(&self.tools, self.advice));
            }
        }
        if let Some(addendum) = self.addendum {
            prompt.section("addendum", addendum);
        }
        if !self.context_files.is_empty() {
            prompt.section("project_context", &project_context(self.context_files));
        }
        // Skills are files, so they are listed only if a tool can read files.
        if !self.skills.is_empty() && (is_active("read") || is_active("bash")) {
            prompt.section("skills", &skills(&self.skills));
        }
        if !self.rules.standing.is_empty() {
            prompt.section("standing_rules", &standing_rules(self.rules));
        }
        // Listed rules are files too.
        if !self.rules.listed.is_empty() && (is_active("read") || is_active("bash")) {
            prompt.section("rule_files", &rule_files(self.rules));
        }
        for (name, body) in &self.sections {
            prompt.section(name, body);
        }
        prompt.section("cwd", &self.cwd.display().to_string());
        prompt.0
    }
}

struct PromptText(String);

impl PromptText {
    fn section(&mut self, name: &str, body: &str) {
        let gap = if self.0.is_empty() { "" } else { "\n\n" };
        let body = body.trim_end();
        write!(self.0, "{gap}<{name}>\n{body}\n</{name}>").expect(CANNOT_FAIL);
    }
}

const CANNOT_FAIL: &str = "writing to a String cannot fail";

fn tool_lines(tools: &[&Tool]) -> String {
    let lines: Vec<String> = tools
        .iter()
        .filter_map(|tool| Some(format!("- {}: {}", tool.name(), tool.snippet.as_ref()?)))
        .collect();
    if lines.is_empty() { "(none)".to_owned() } else { lines.join("\n") }
}

/// Each guideline once, in the order of the tools; those about the answer come last.
fn rules(tools: &[&Tool], advice: &[String]) -> String {
    let is_active = |name: &str| tools.iter().any(|tool| tool.name() == name);
    let mut lines: Vec<String> = Vec::new();
    if is_active("bash") && !["grep", "find", "ls"].into_iter().any(is_active) {
        lines.push(SHELL_ONLY.trim_end().to_owned());
    }
    for rule in tools.iter().flat_map(|tool| &tool.guidelines).chain(advice) {
        let line = format!("- {rule}");
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines.push(MANNERS.trim_end().to_owned());
    lines.join("\n")
}

fn project_context(files: &[ContextFile]) -> String {
    let mut text = PROJECT_CONTEXT.trim_end().to_owned();
    for file in files {
        let (path, content) = (file.path.display(), file.text.trim_end());
        let open = format!("<project_instructions path=\"{path}\">");
        write!(text, "\n\n{open}\n{content}\n</project_instructions>").expect(CANNOT_FAIL);
    }
    text
}

fn skills(skills: &[&Skill]) -> String {
    let mut text = format!("{}\n\n<available_skills>\n", SKILLS.trim_end());
    for skill in skills {
        let path = skill.path.to_string_lossy();
        let [name, description, location] = [&skill.name, &skill.description, &*path].map(escaped);
        write!(
            text,
            "  <skill>\n    <name>{name}</name>\n    <description>{description}</description>\n    \
             <location>{location}</location>\n  </skill>\n"
        )
        .expect(CANNOT_FAIL);
    }
    text.push_str("</available_skills>");
    text
}

fn standing_rules(rules: &RuleFiles) -> String {
    let mut text = STANDING_RULES.trim_end().to_owned();
    for rule in &rules.standing {
        let path = rule.path.to_string_lossy();
        let [name, path] = [&rule.name, &*path].map(escaped);
        let content = rule.content.trim_end();
        write!(text, "\n\n<rule name=\"{name}\" path=\"{path}\">\n{content}\n</rule>")
            .expect(CANNOT_FAIL);
    }
    text
}

fn rule_files(rules: &RuleFiles) -> String {
    let mut text = format!("{}\n\n", RULE_FILES.trim_end());
    for rule in &rules.listed {
        let description = rule.description.as_deref().unwrap_or_default();
        let path = rule.path.display();
        writeln!(text, "- {} ({path}): {description}", rule.name).expect(CANNOT_FAIL);
    }
    text
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&apos;"),
            _ => out.push(c),
        }
    }
    out
}
