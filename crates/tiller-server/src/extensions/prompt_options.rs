//! The parts of the system prompt, as extensions see and change them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use tiller_agent::tool::Tool;
use tiller_config::project::ContextFile;
use tiller_config::prompt::Parts;

use super::SessionState;
use crate::{project_state, tools};

/// The parts as an extension returned them. Missing parts are left out of the prompt.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Options {
    custom_prompt: Option<String>,
    /// Replaces the whole prompt.
    force_system_prompt: Option<String>,
    selected_tools: Vec<String>,
    tool_snippets: BTreeMap<String, String>,
    tool_guidelines: BTreeMap<String, Vec<String>>,
    prompt_guidelines: Vec<String>,
    append_system_prompt: Option<String>,
    sections: Map<String, Value>,
    context_files: Vec<File>,
    skills: Vec<Named>,
}

#[derive(Deserialize)]
struct File {
    path: PathBuf,
    content: String,
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

pub(super) fn prompt_options(state: &mut SessionState) -> Value {
    let resources = state.project.resources();
    let files = resources.context_files.iter();
    let files: Vec<Value> =
        files.map(|file| json!({ "path": file.path, "content": *file.text })).collect();
    let skills = resources.skills.iter().map(|skill| {
        json!({
            "name": skill.name,
            "description": skill.description,
            "filePath": skill.path,
            "baseDir": skill.path.parent(),
            "disableModelInvocation": skill.is_hidden,
        })
    });
    let names: Vec<&str> = state.tools.active().iter().map(|tool| tool.name()).collect();
    // For all tools, so that another selection finds its texts.
    let tools: Vec<Tool> = tools::all(state).collect();
    let snippets: BTreeMap<&str, &str> =
        tools.iter().filter_map(|tool| Some((tool.name(), tool.snippet.as_deref()?))).collect();
    let rules: BTreeMap<&str, &[String]> = tools
        .iter()
        .filter(|tool| !tool.guidelines.is_empty())
        .map(|tool| (tool.name(), tool.guidelines.as_slice()))
        .collect();
    let mut options = json!({
        "selectedTools": names,
        "toolSnippets": snippets,
        "toolGuidelines": rules,
        "promptGuidelines": [],
        "appendSystemPrompt": resources.addendum.as_deref().unwrap_or_default(),
        "sections": {},
        "cwd": state.workspace.cwd(),
        "contextFiles": files,
        "skills": skills.collect::<Vec<_>>(),
    });
    if let Some(custom) = &resources.system_prompt {
        options["customPrompt"] = json!(custom);
    }
    options
}

/// Builds the prompt of these parts. Invalid parts leave it as it is.
pub(super) fn rendered(state: &mut SessionState, options: &Value) -> String {
    let Ok(options) = Options::deserialize(options) else {
        return project_state::system_prompt(state).to_string();
    };
    if let Some(prompt) = options.force_system_prompt {
        return prompt;
    }
    let resources = state.project.resources();
    let tools: Vec<Tool> = tools::all(state)
        .filter(|tool| options.selected_tools.iter().any(|name| name == tool.name()))
        .map(|mut tool| {
            tool.snippet = options.tool_snippets.get(tool.name()).cloned();
            tool.guidelines = options.tool_guidelines.get(tool.name()).cloned().unwrap_or_default();
            tool
        })
        .collect();
    let is_listed = |name: &str| options.skills.iter().any(|skill| skill.name == name);
    let skills = resources.skills.iter().filter(|skill| !skill.is_hidden);
    let files = options.context_files.into_iter();
    let files: Vec<ContextFile> =
        files.map(|File { path, content }| ContextFile { path, text: content }).collect();
    let sections = options.sections.iter();
    let parts = Parts {
        tools: tools.iter().collect(),
        advice: &options.prompt_guidelines,
        custom: options.custom_prompt.as_deref(),
        addendum: options.append_system_prompt.as_deref().filter(|text| !text.is_empty()),
        context_files: &files,
        skills: skills.filter(|skill| is_listed(&skill.name)).collect(),
        rules: &resources.rules,
        sections: sections
            .filter_map(|(name, body)| Some((name.as_str(), body.as_str()?)))
            .collect(),
        cwd: state.workspace.cwd(),
    };
    parts.render()
}

/// Applies the parts that an extension returned to the run that is about to start. A tool
/// selection stays after it.
pub(super) fn take_options(state: &mut SessionState, options: &Value) {
    let names: Option<Vec<String>> = Vec::deserialize(&options["selectedTools"]).ok();
    let is_same = |names: &Vec<String>| {
        state.tools.active().iter().map(Tool::name).eq(names.iter().map(String::as_str))
    };
    if let Some(names) = names.filter(|names| !is_same(names)) {
        tools::select(state, names);
    }
    state.extensions.turn.system_prompt = Some(rendered(state, options).into());
}
