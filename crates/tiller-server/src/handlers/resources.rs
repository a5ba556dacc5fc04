//! `get_commands` and `reload`: the commands and files of the user and the project.

use std::path::Path;

use serde::Serialize;
use serde_json::Value;
use tiller_config::project::SourceInfo;
use tiller_protocol::Label;

use super::data;
use crate::dispatch::{Handled, Response};
use crate::project_state;
use crate::requester::Requester;
use crate::state::SessionState;

#[derive(Serialize)]
struct Commands {
    commands: Value,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CommandInfo<'a> {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    source: &'static str,
    location: &'static str,
    path: &'a Path,
    source_info: SourceInfo,
}

pub(crate) fn get_commands(state: &mut SessionState) -> Handled {
    data(&Commands { commands: command_list(state) })
}

/// The same commands in the format of omp's clients, which have no paths.
pub(crate) fn get_available_commands(state: &mut SessionState) -> Handled {
    #[derive(Serialize)]
    struct Available<'a> {
        name: &'a Value,
        #[serde(skip_serializing_if = "Value::is_null")]
        description: &'a Value,
        source: &'static str,
    }
    #[derive(Serialize)]
    struct All<'a> {
        commands: Vec<Available<'a>>,
    }
    let list = command_list(state);
    let commands = list.as_array().into_iter().flatten().map(|command| Available {
        name: &command["name"],
        description: &command["description"],
        source: match command["source"].as_str() {
            Some("extension") => "extension",
            Some("skill") => "skill",
            _ => "file",
        },
    });
    data(&All { commands: commands.collect() })
}

/// Commands of extensions, then templates, then skills, each in the order of discovery.
pub(crate) fn command_list(state: &mut SessionState) -> Value {
    let registered = state.extensions.commands();
    let commands = registered.iter().map(|(command, found)| CommandInfo {
        name: command.name.clone(),
        description: command.description.as_deref(),
        source: "extension",
        location: found.source.location(),
        path: &found.extension.path,
        source_info: found.source.extension_info(&found.extension.path),
    });
    let resources = state.project.resources();
    let templates = resources.templates.iter().map(|template| CommandInfo {
        name: template.name.clone(),
        description: Some(&template.description),
        source: "prompt",
        location: template.source.location(),
        path: &template.path,
        source_info: template.source.info(&template.path),
    });
    let skills = resources.skills.iter().map(|skill| CommandInfo {
        name: format!("skill:{}", skill.name),
        description: Some(&skill.description),
        source: "skill",
        location: skill.source.location(),
        path: &skill.path,
        source_info: skill.source.info(&skill.path),
    });
    let all: Vec<_> = commands.chain(templates).chain(skills).collect();
    serde_json::to_value(all).expect("our own types serialize to JSON")
}

pub(crate) fn reload(state: &mut SessionState, label: &Label) -> Handled {
    project_state::reload(state, Requester::Client(label.clone()));
    Ok(Response::Later)
}
