//! Commands that extensions register, run by a prompt that names one.

use std::collections::BTreeMap;

use tiller_js::host_api::ExtensionError;

use super::{ExtensionTaskDone, SessionState};
use crate::prompt;
use crate::prompt_results::Origin;

/// Commands that are running.
#[derive(Default)]
pub(super) struct ActiveCommands {
    /// Requests that named a command and have no response yet, by the command's number.
    unanswered: BTreeMap<u64, Origin>,
    started: u64,
}

impl ActiveCommands {
    /// A command starts. Returns its number.
    fn start(&mut self, origin: Option<Origin>) -> u64 {
        self.started += 1;
        if let Some(origin) = origin {
            self.unanswered.insert(self.started, origin);
        }
        self.started
    }
}

/// The extension command that a text names, and its arguments.
pub(crate) fn extension_command(state: &SessionState, text: &str) -> Option<(String, String)> {
    let rest = text.strip_prefix('/')?;
    let (name, arguments) = rest.split_once(' ').unwrap_or((rest, ""));
    let registrations = state.extensions.host()?.registrations();
    let command = registrations.commands.iter().find(|command| command.name == name)?;
    Some((command.name.clone(), arguments.to_owned()))
}

/// Refuses a text that names an extension command where it would be queued.
pub(crate) fn refuse_extension_command(state: &SessionState, text: &str) -> Result<(), String> {
    let Some((name, _)) = extension_command(state, text) else { return Ok(()) };
    Err(format!(
        "Extension command \"/{name}\" cannot be queued. Use prompt() or execute the command \
         when not streaming."
    ))
}

/// Runs beside everything else. The prompt that named the command is answered when it ends, or
/// before a run that an extension starts.
pub(crate) fn run_command(
    state: &mut SessionState,
    origin: Option<Origin>,
    name: String,
    arguments: String,
) {
    let Some(host) = state.extensions.host().cloned() else { return };
    state.transition.expect_response();
    let number = state.extensions.commands.start(origin);
    state.tasks.spawn(async move {
        let result = host.command(&name, &arguments).await;
        ExtensionTaskDone::CommandRan(number, result.and_then(Result::err))
    });
}

pub(super) fn command_ran(state: &mut SessionState, number: u64, error: Option<ExtensionError>) {
    state.transition.response_sent();
    if let Some(error) = error {
        super::report(state, error);
    }
    if let Some(origin) = state.extensions.commands.unanswered.remove(&number) {
        prompt::respond_handled(state, origin);
    }
}

/// Refuses the prompts whose command has not ended, because the session ends now.
pub(crate) fn refuse_unfinished(state: &mut SessionState) {
    for origin in std::mem::take(&mut state.extensions.commands.unanswered).into_values() {
        state.respond(origin.label, Err(UNFINISHED.to_owned()));
    }
}

const UNFINISHED: &str = "The extension command did not end before tiller exited";

/// Answers the prompts that named a command, because an extension is about to start a run. If
/// their response came after `agent_start`, a client would take that run for its prompt's own.
/// The server does not know which command starts the run, so it answers all of them.
pub(crate) fn answer_commands(state: &mut SessionState) {
    for origin in std::mem::take(&mut state.extensions.commands.unanswered).into_values() {
        prompt::respond_handled(state, origin);
    }
}
