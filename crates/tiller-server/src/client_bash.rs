//! Shell commands of the client, which run beside everything else.

use std::collections::BTreeMap;
use std::sync::Arc;

use tiller_agent::event::Event;
use tiller_agent::message::{BashExecution, Message, UnixMs};
use tiller_agent::tool::Failure;
use tiller_js::Extensions;
use tiller_protocol::{Label, Level, Reply};
use tiller_tools::command::{BashCommand, BashOutcome, execute};
use tokio_util::sync::CancellationToken;

use crate::bash_outcome;
use crate::extensions::user_bash;
use crate::server::Input;
use crate::state::SessionState;
use crate::tasks::Tasks;
use crate::work::storing;

#[derive(Default)]
pub(crate) struct ClientBash {
    running: BTreeMap<u64, CancellationToken>,
    next: u64,
    /// Ended, but not yet appended to the conversation.
    not_appended: Vec<Arc<Message>>,
}

/// Who asked for a command, and where it belongs.
struct BashRequest {
    label: Label,
    /// The level of its response.
    level: Level,
    /// The session it was run in.
    session_id: String,
    hidden: bool,
}

/// A command that has ended.
pub struct BashEnded {
    key: u64,
    request: BashRequest,
    command: String,
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
    fn start(
        &mut self,
        tasks: &Tasks,
        request: BashRequest,
        bash: BashCommand,
        host: Option<Extensions>,
    ) {
        let key = self.next;
        self.next += 1;
        let cancel = CancellationToken::new();
        self.running.insert(key, cancel.clone());
        let id = request.label.id.clone();
        let output_tasks = tasks.clone();
        let send_output = move |delta| {
            output_tasks.send_output_blocking(Event::BashUpdate { id: id.clone(), delta });
        };
        let hook_tasks = tasks.clone();
        tasks.spawn(async move {
            let command = bash.command.clone();
            let decided = match host {
                Some(host) => {
                    let id = request.label.id.clone();
                    user_bash::decide(&host, &bash, request.hidden, &hook_tasks, id, &cancel).await
                }
                None => Ok(None),
            };
            let result = match decided {
                Err(failure) => Err(failure),
                Ok(Some(outcome)) => Ok(outcome),
                Ok(None) => {
                    // A task of its own: a panic fails only this command.
                    let result = tokio::spawn(execute(bash, send_output, cancel)).await;
                    let crashed = |err| Err(Failure::new(format!("internal error: {err}")));
                    result.unwrap_or_else(crashed)
                }
            };
            let ended = BashEnded { key, request, command, result };
            Input::BashEnded(Box::new(ended))
        });
    }

    /// The response for the client. The command is appended to the conversation if the session is
    /// still the same.
    fn ended(
        &mut self,
        ended: BashEnded,
        session_id: &str,
        now: UnixMs,
    ) -> (Label, Result<Reply, String>) {
        let BashEnded { key, request, command, result } = ended;
        let BashRequest { label, level, session_id: ran_in, hidden } = request;
        self.running.remove(&key);
        let outcome = match result {
            Ok(outcome) => outcome,
            Err(failure) => return (label, Err(failure.message)),
        };
        let reply = Reply::data(&bash_outcome::shaped(&outcome, level));
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
pub(crate) fn start_bash(
    state: &mut SessionState,
    level: Level,
    label: Label,
    command: String,
    hidden: bool,
) {
    let bash = state.workspace.command(command);
    let session_id = state.session.conversation().id().to_owned();
    let host = state.extensions.listening_host("user_bash").cloned();
    let request = BashRequest { label, level, session_id, hidden };
    state.client_bash.start(&state.tasks, request, bash, host);
}

/// Handles the end of a command. It is appended after the run: nothing may stand between a tool
/// call and its result.
pub(crate) fn bash_ended(state: &mut SessionState, ended: BashEnded) {
    let session_id = state.session.conversation().id();
    let (label, result) = state.client_bash.ended(ended, session_id, state.clock.now());
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
