//! `get_commands` and `reload`: the commands and files of the user and the project.

use tiller_config::project::SourceInfo;
use tiller_protocol::Label;
use tiller_protocol::data::{
    AvailableCommand, AvailableCommandSource, AvailableCommandsData, CommandInfo, CommandSource,
    CommandSourceInfo, CommandsData,
};

use super::data;
use crate::dispatch::{Handled, Response};
use crate::project_state;
use crate::requester::Requester;
use crate::state::SessionState;

pub(crate) fn get_commands(state: &mut SessionState) -> Handled {
    data(&CommandsData { commands: command_list(state) })
}

/// The same commands in the format of omp's clients, which have no paths.
pub(crate) fn get_available_commands(state: &mut SessionState) -> Handled {
    let commands = command_list(state).into_iter().map(|command| AvailableCommand {
        source: match command.source {
            CommandSource::Extension => AvailableCommandSource::Extension,
            CommandSource::Skill => AvailableCommandSource::Skill,
            CommandSource::Prompt => AvailableCommandSource::File,
        },
        name: command.name,
        description: command.description,
    });
    data(&AvailableCommandsData { commands: commands.collect() })
}

/// Commands of extensions, then templates, then skills, each in the order of discovery.
pub(crate) fn command_list(state: &mut SessionState) -> Vec<CommandInfo> {
    let registered = state.extensions.commands();
    let commands = registered.iter().map(|(command, found)| CommandInfo {
        name: command.name.clone(),
        description: command.description.clone(),
        source: CommandSource::Extension,
        location: found.source.location().into(),
        path: found.extension.path.clone(),
        source_info: source_info(found.source.extension_info(&found.extension.path)),
    });
    let resources = state.project.resources();
    let templates = resources.templates.iter().map(|template| CommandInfo {
        name: template.name.clone(),
        description: Some(template.description.clone()),
        source: CommandSource::Prompt,
        location: template.source.location().into(),
        path: template.path.clone(),
        source_info: source_info(template.source.info(&template.path)),
    });
    let skills = resources.skills.iter().map(|skill| CommandInfo {
        name: format!("skill:{}", skill.name),
        description: Some(skill.description.clone()),
        source: CommandSource::Skill,
        location: skill.source.location().into(),
        path: skill.path.clone(),
        source_info: source_info(skill.source.info(&skill.path)),
    });
    commands.chain(templates).chain(skills).collect()
}

pub(crate) fn source_info(info: SourceInfo) -> CommandSourceInfo {
    let SourceInfo { path, source, scope, origin, base_dir } = info;
    CommandSourceInfo { path, source, scope: scope.into(), origin: origin.into(), base_dir }
}

pub(crate) fn reload(state: &mut SessionState, label: &Label) -> Handled {
    project_state::reload(state, Requester::Client(label.clone()));
    Ok(Response::Later)
}
