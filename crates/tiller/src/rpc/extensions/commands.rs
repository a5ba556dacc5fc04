//! Commands that extensions register, run by a prompt that names one.

use tiller_js::world::ExtensionError;

use super::{ExtensionInput, SessionState};
use crate::rpc::wire::{Disposition, Label};

impl SessionState {
    /// The extension command that a text names, and its arguments.
    pub(crate) fn extension_command(&self, text: &str) -> Option<(String, String)> {
        let rest = text.strip_prefix('/')?;
        let (name, arguments) = rest.split_once(' ').unwrap_or((rest, ""));
        let registrations = self.extensions.host.as_ref()?.registrations();
        let command = registrations.commands.iter().find(|command| command.name == name)?;
        Some((command.name.clone(), arguments.to_owned()))
    }

    /// Refuses a text that names an extension command where it would be queued.
    pub(crate) fn refuse_extension_command(&self, text: &str) -> Result<(), String> {
        let Some((name, _)) = self.extension_command(text) else { return Ok(()) };
        Err(format!(
            "Extension command \"/{name}\" cannot be queued. Use prompt() or execute the command \
             when not streaming."
        ))
    }

    /// Runs beside everything else. The prompt that named the command is answered when it ends, or
    /// before a run that an extension starts.
    pub(in crate::rpc) fn run_command(
        &mut self,
        label: Option<Label>,
        name: String,
        arguments: String,
    ) {
        let Some(host) = self.extensions.host.clone() else { return };
        self.pending_responses += 1;
        self.extensions.commands_started += 1;
        let number = self.extensions.commands_started;
        if let Some(label) = label {
            self.extensions.unanswered.insert(number, label);
        }
        self.tasks.spawn(async move {
            let result = host.command(&name, &arguments).await;
            ExtensionInput::CommandRan(number, result.and_then(Result::err))
        });
    }

    pub(super) fn command_ran(&mut self, number: u64, error: Option<ExtensionError>) {
        self.pending_responses -= 1;
        if let Some(error) = error {
            self.report(error);
        }
        if let Some(label) = self.extensions.unanswered.remove(&number) {
            self.respond(label, Ok(Disposition::Handled.into()));
        }
    }

    /// Answers the prompts that named a command, because an extension is about to start a run. If
    /// their response came after `agent_start`, a client would take that run for its prompt's own.
    /// The server does not know which command starts the run, so it answers all of them.
    pub(in crate::rpc) fn answer_commands(&mut self) {
        for label in std::mem::take(&mut self.extensions.unanswered).into_values() {
            self.respond(label, Ok(Disposition::Handled.into()));
        }
    }
}
