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
use super::work::storing;

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

/// Starts a command of the client beside everything else.
pub(crate) fn start_bash(state: &mut SessionState, label: Label, command: String, hidden: bool) {
    let bash = state.workspace.command(command);
    let session_id = state.session.conversation().id().to_owned();
    let host = state.extensions.listening_host("user_bash").cloned();
    state.client_bash.start(&state.tasks, label, bash, session_id, hidden, host);
}

/// Handles the end of a command. It is appended after the run: nothing may stand between a tool
/// call and its result.
pub(crate) fn bash_ended(state: &mut SessionState, ended: BashEnded) {
    let (level, now) = (state.outbox.level(), state.clock.now());
    let session_id = state.session.conversation().id();
    let (label, result) = state.client_bash.ended(ended, level, session_id, now);
    state.respond(label, result);
    if !state.is_busy() {
        append_ended_commands(state);
    }
}

pub(super) fn append_ended_commands(state: &mut SessionState) {
    for message in state.client_bash.take_not_appended() {
        // A failed write was reported, and the client has the output.
        storing::append_message(state, message).ok();
    }
}
