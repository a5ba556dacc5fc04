//! Shell commands of the client, which run beside everything else.

use std::collections::BTreeMap;
use std::sync::Arc;

use tiller_agent::event::Event;
use tiller_agent::message::{BashExecution, Message, UnixMs};
use tiller_agent::tool::Failure;
use tiller_js::Extensions;
use tiller_tools::command::{BashCommand, BashOutcome, execute};
use tokio_util::sync::CancellationToken;

use super::bash_outcome::ShapedOutcome;
use super::extensions::user_bash;
use super::server::Input;
use super::state::SessionState;
use super::tasks::Tasks;
use super::wire::{Label, Level, Reply};

#[derive(Default)]
pub(crate) struct ClientBash {
    running: BTreeMap<u64, CancellationToken>,
    next: u64,
    /// Ended, but not yet appended to the conversation.
    not_appended: Vec<Arc<Message>>,
}

/// A command that has ended.
pub struct BashEnded {
    key: u64,
    label: Label,
    command: String,
    /// The session it was run in.
    session_id: String,
    hidden: bool,
    result: Result<BashOutcome, Failure>,
}

impl ClientBash {
    pub(crate) fn is_idle(&self) -> bool {
        self.running.is_empty()
    }

    pub(crate) fn abort_all(&self) {
        self.running.values().for_each(CancellationToken::cancel);
    }

    /// Runs the `user_bash` hook first, if an extension has one.
    pub(crate) fn start(
        &mut self,
        tasks: &Tasks,
        label: Label,
        bash: BashCommand,
        session_id: String,
        hidden: bool,
        host: Option<Extensions>,
    ) {
        let key = self.next;
        self.next += 1;
        let cancel = CancellationToken::new();
        self.running.insert(key, cancel.clone());
        let (id, output_tasks) = (label.id.clone(), tasks.clone());
        let tell = move |delta| {
            output_tasks.send_output_blocking(Event::BashUpdate { id: id.clone(), delta });
        };
        let hook_tasks = tasks.clone();
        tasks.spawn(async move {
            let command = bash.command.clone();
            let decided = match host {
                Some(host) => {
                    let id = label.id.clone();
                    user_bash::decide(&host, &bash, hidden, &hook_tasks, id, &cancel).await
                }
                None => Ok(None),
            };
            let result = match decided {
                Err(failure) => Err(failure),
                Ok(Some(outcome)) => Ok(outcome),
                Ok(None) => {
                    // A task of its own: a panic fails only this command.
                    let result = tokio::spawn(execute(bash, tell, cancel)).await;
                    let crashed = |err| Err(Failure::new(format!("internal error: {err}")));
                    result.unwrap_or_else(crashed)
                }
            };
            let ended = BashEnded { key, label, command, session_id, hidden, result };
            Input::BashEnded(Box::new(ended))
        });
    }

    /// The response for the client. The command is appended to the conversation if the session is
    /// still the same.
    pub(crate) fn ended(
        &mut self,
        ended: BashEnded,
        level: Level,
        session_id: &str,
        now: UnixMs,
    ) -> (Label, Result<Reply, String>) {
        let BashEnded { key, label, command, session_id: ran_in, hidden, result } = ended;
        self.running.remove(&key);
        let outcome = match result {
            Ok(outcome) => outcome,
            Err(failure) => return (label, Err(failure.message)),
        };
        let reply = Reply::data(&ShapedOutcome { outcome: &outcome, level });
        if ran_in == session_id {
            self.not_appended.push(Arc::new(Message::BashExecution(BashExecution {
                command,
                output: outcome.output,
                exit_code: outcome.exit_code,
                cancelled: outcome.cancelled,
                truncated: outcome.truncated,
                full_output_path: outcome.full_output_path,
                timestamp: now,
                exclude_from_context: hidden,
            })));
        }
        (label, Ok(reply))
    }

    pub(crate) fn take_not_appended(&mut self) -> Vec<Arc<Message>> {
        std::mem::take(&mut self.not_appended)
    }
}

impl SessionState {
    /// Starts a command of the client beside everything else.
    pub(crate) fn start_bash(&mut self, label: Label, command: String, hidden: bool) {
        let bash = BashCommand {
            command,
            cwd: self.workspace.cwd.clone(),
            env: self.workspace.env.clone(),
            shell: self.workspace.shell.clone(),
        };
        let session_id = self.conversation.id().to_owned();
        let host = self.extensions.host.clone().filter(|host| host.has_listener("user_bash"));
        self.client_bash.start(&self.tasks, label, bash, session_id, hidden, host);
    }

    /// Handles the end of a command. It is appended after the run: nothing may stand between a tool
    /// call and its result.
    pub(crate) fn bash_ended(&mut self, ended: BashEnded) {
        let (level, now) = (self.outbox.level(), self.clock.now());
        let (label, result) = self.client_bash.ended(ended, level, self.conversation.id(), now);
        self.respond(label, result);
        if !self.is_busy() {
            self.append_ended_commands();
        }
    }

    pub(super) fn append_ended_commands(&mut self) {
        for message in self.client_bash.take_not_appended() {
            // A failed write was reported, and the client has the output.
            self.append_message(message).ok();
        }
    }
}
