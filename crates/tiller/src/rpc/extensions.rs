//! The server's side of extensions: loading, hooks, events, and requests.
//!
//! Extensions run in engines on threads of their own. Their requests arrive as inputs, and hooks
//! are run by tasks whose results arrive as inputs, too. So no extension blocks the server, and
//! while a hook is running the client can still query, steer and abort.

mod actions;
mod commands;
pub(super) mod boundary;
pub(super) mod compaction_hooks;
mod dialogs;
pub(super) mod hooks;
mod loading;
mod models;
mod folder_change;
mod models_store;
mod prompt_options;
mod prompt_hooks;
mod providers;
mod queries;
mod session_hooks;
pub(super) mod user_bash;
mod events;
mod tools;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::BoxStream;
use serde_json::Value;
use tiller_agent::event::Event;
use tiller_agent::message::Message;
use tiller_js::event::{Event as ExtensionEvent, ShutdownReason};
use tiller_js::hook::{Boundary, RunOutcome};
use tiller_js::world::{
    Action, Dialog, ExtensionError, LogLevel, LogLine, ModelRequest, Notice, Query, Request,
};
use tiller_js::{Extensions, LoadReport, RegisteredCommand};
use tokio_util::sync::CancellationToken;

use super::prompt::{InputHookResult, StartHookResult};
use super::requester::{ExtensionReply, Requester};
use super::session_change::{PendingSwitch, SessionChange};
use super::state::SessionState;
use super::tasks::Responder;
use super::tree_navigation;
use super::wire::Label;
use crate::args::ExtensionFlags;
use crate::extensions::find::{DiscoveredExtension, Discovery};
use crate::project::ExtensionPaths;
use crate::startup_model::ModelArgs;
use dialogs::Dialogs;
use events::UpdateForwarding;
use folder_change::SessionStart;
pub use loading::{ExtensionEnv, ExtensionPlan, TrustDecision};
use tools::ToolSelection;

/// A request of an extension, or the result of a task that asked extensions.
pub enum ExtensionInput {
    Query(Query, ExtensionReply),
    Act(Action),
    Request(Request, ExtensionReply),
    Dialog {
        dialog: Dialog,
        cancel: CancellationToken,
        answer: Responder<Value>,
    },
    Notice(Notice),
    Model(Box<ModelRequest>, Responder<BoxStream<'static, Value>>),
    Report(ExtensionError),
    Log(LogLine),
    /// Registered tools, commands or flags have changed.
    Changed,
    /// A dialog has timed out or was cancelled.
    DialogOver(String),
    /// All extensions are loaded.
    Loaded(LoadReport),
    /// The extensions that may decide project trust are loaded and have been asked.
    TrustDecided(TrustDecision),
    /// The command line has flags that extensions do not accept.
    WrongFlags(Vec<String>),
    /// More skill and template paths, from `resources_discover`.
    Discovered(ExtensionPaths),
    /// The extensions of the previous folder have been retired.
    Retired,
    /// All extensions have handled `session_start`.
    Ready,
    /// All extensions have handled the `session_shutdown` of the process, or had their time.
    ProcessShutdownAnnounced,
    /// The extension command with this number has ended.
    CommandRan(u64, Option<ExtensionError>),
    /// The `input` hook has finished.
    InputHookDone(Box<InputHookResult>),
    /// The `before_agent_start` hook has finished.
    StartHookDone(Box<StartHookResult>),
    /// The `agent_before_settle` hook has finished.
    SettleHookDone(Boundary),
    /// The hooks for a session change have finished.
    ChangeHookDone {
        requester: Requester,
        change: SessionChange,
        is_cancelled: bool,
    },
    /// All extensions have handled the `session_shutdown` of the session that is left.
    SessionShutdownAnnounced(Box<PendingSwitch>),
    /// A tree navigation has been prepared or cancelled.
    NavigationPrepared(Box<tree_navigation::NavigationResult>),
}

/// The server's state for extensions.
#[derive(Default)]
pub(crate) struct ExtensionState {
    pub(super) host: Option<Extensions>,
    discovered: Vec<Arc<DiscoveredExtension>>,
    /// The model flags, and whether they were resolved again after extensions loaded.
    model_args: Option<ModelArgs>,
    model_reselected: bool,
    /// The extension flags of the command line, for a reload.
    cli_flags: Arc<ExtensionFlags>,
    env: Option<ExtensionEnv>,
    /// A reload that waits for the run to close.
    pending_reload: Option<Discovery>,
    /// The slots of the extensions that were loaded first to decide project trust.
    trust_decider_slots: Vec<u32>,
    /// The client's request that is answered when a reload is done.
    reload_requester: Option<Requester>,
    /// Extensions are being loaded or restarted: commands are held back.
    is_loading: bool,
    /// The `session_start` to announce after the folder has changed.
    pending_session_start: Option<SessionStart>,
    /// Requests that are answered when extensions are ready in the new session, with the text of
    /// the message that was forked from.
    pub(super) waiting_for_ready: Vec<(Requester, Option<String>)>,
    tool_selection: ToolSelection,
    dialogs: Dialogs,
    /// stdin is at its end: dialogs get their default answer.
    client_gone: bool,
    /// Messages that follow the next prompt.
    messages_for_next_prompt: Vec<Message>,
    /// Messages that are appended when the turn has ended.
    messages_after_turn: Vec<Message>,
    /// The context of the run differs from the conversation.
    context_is_stale: bool,
    /// The outcome of the last run.
    pub(super) last_outcome: RunOutcome,
    /// The system prompt of this run, if an extension replaced it.
    system_prompt_override: Option<Arc<str>>,
    /// Prompts whose `input` hook is running.
    pub(super) input_hooks_pending: usize,
    /// Prompts whose `before_agent_start` hook and runs whose `agent_before_settle` hook is
    /// running.
    pub(super) start_or_settle_hooks_pending: usize,
    /// Cancels those hooks.
    pub(super) hook_cancel: CancellationToken,
    /// Requests that named an extension command and have no response yet, by the command's number.
    unanswered: BTreeMap<u64, Label>,
    commands_started: u64,
    /// Session changes of the client whose hooks are running.
    changes_asked: usize,
    idle_waiters: Vec<ExtensionReply>,
    turn_index: u64,
    update_forwarding: UpdateForwarding,
    shutdown_notice: ShutdownNotice,
    /// The exit code, when the process must end with an error.
    pub(super) fatal: Option<u8>,
}

/// How long one engine may delay the shutdown event of the others.
const SHUTDOWN_EACH: Duration = Duration::from_millis(100);

#[derive(Default, PartialEq)]
enum ShutdownNotice {
    #[default]
    NotSent,
    Sending,
    Sent,
}

impl ExtensionState {
    pub(super) fn flags(&self) -> Arc<ExtensionFlags> {
        self.cli_flags.clone()
    }

    pub(crate) fn is_loading(&self) -> bool {
        self.is_loading
    }

    /// Whether hooks are running for a session change of the client.
    pub(crate) fn is_asked_to_change(&self) -> bool {
        self.changes_asked > 0
    }

    /// Whether a request of the client waits for extensions to be ready.
    pub(crate) fn owes_answer(&self) -> bool {
        let is_client = |requester: &Requester| requester.command().is_some();
        self.reload_requester.is_some()
            || self.waiting_for_ready.iter().any(|(requester, _)| is_client(requester))
    }

    /// Cancels pending hooks of prompts and settling runs.
    pub(crate) fn cancel_hooks(&mut self) {
        std::mem::take(&mut self.hook_cancel).cancel();
    }

    pub(crate) fn has_input_hook(&self) -> bool {
        self.input_hooks_pending > 0
    }

    pub(crate) fn has_start_or_settle_hook(&self) -> bool {
        self.start_or_settle_hooks_pending > 0
    }

    /// The registered commands, each with its extension.
    pub(crate) fn commands(&self) -> Vec<(RegisteredCommand, Arc<DiscoveredExtension>)> {
        let Some(host) = &self.host else { return Vec::new() };
        let commands = host.registrations().commands.into_iter();
        let with_found = commands.filter_map(|command| {
            let found = self.found_at(&command.extension_path)?.clone();
            Some((command, found))
        });
        with_found.collect()
    }

    /// The extension with this path.
    fn found_at(&self, path: &str) -> Option<&Arc<DiscoveredExtension>> {
        self.discovered.iter().find(|found| found.extension.path == Path::new(path))
    }

    /// Whether an extension listens to this event or hook.
    pub(super) fn has_listener(&self, name: &str) -> bool {
        self.host.as_ref().is_some_and(|host| host.has_listener(name))
    }
}

impl SessionState {
    /// Sends `session_shutdown` once. Returns whether all extensions have handled it.
    pub(super) fn announce_shutdown_once(&mut self) -> bool {
        match (&self.extensions.host, &self.extensions.shutdown_notice) {
            (None, _) | (_, ShutdownNotice::Sent) => true,
            (_, ShutdownNotice::Sending) => false,
            (Some(host), ShutdownNotice::NotSent) => {
                self.extensions.shutdown_notice = ShutdownNotice::Sending;
                let host = host.clone();
                self.tasks.spawn(async move {
                    let (reason, target_session_file) = (ShutdownReason::Quit, None);
                    let end = ExtensionEvent::SessionShutdown { reason, target_session_file };
                    host.tell_each_within(&end, SHUTDOWN_EACH).await;
                    ExtensionInput::ProcessShutdownAnnounced
                });
                false
            }
        }
    }

    /// Handles a request of an extension or the result of a task.
    pub(super) fn handle_extension_input(&mut self, input: ExtensionInput) {
        match input {
            ExtensionInput::Query(query, answer) => answer.respond(self.answer_query(query)),
            ExtensionInput::Act(action) => self.act(action),
            ExtensionInput::Request(request, answer) => self.handle_request(request, answer),
            ExtensionInput::Dialog { dialog, cancel, answer } => {
                self.open_dialog(dialog, cancel, answer)
            }
            ExtensionInput::DialogOver(id) => self.close_dialog(&id),
            ExtensionInput::Notice(notice) => self.show_notice(&notice),
            ExtensionInput::Model(request, answer) => self.ask_model(*request, answer),
            ExtensionInput::Report(error) => self.report(error),
            ExtensionInput::Log(line) => self.log(&line),
            ExtensionInput::Changed => self.update_tools(),
            ExtensionInput::Loaded(report) => self.loaded(report),
            ExtensionInput::TrustDecided(decision) => self.trust_answered(decision),
            ExtensionInput::WrongFlags(problems) => self.wrong_flags(&problems),
            ExtensionInput::Discovered(discovered) => self.add_extension_paths(discovered),
            ExtensionInput::Retired => self.old_extensions_retired(),
            ExtensionInput::Ready => self.extensions_ready(),
            ExtensionInput::ProcessShutdownAnnounced => {
                self.extensions.shutdown_notice = ShutdownNotice::Sent
            }
            ExtensionInput::CommandRan(number, error) => self.command_ran(number, error),
            ExtensionInput::InputHookDone(result) => self.input_hook_done(*result),
            ExtensionInput::StartHookDone(result) => self.start_hook_done(*result),
            ExtensionInput::SettleHookDone(proposal) => self.settle_hook_done(proposal),
            ExtensionInput::ChangeHookDone { requester, change, is_cancelled } => {
                self.change_decided(requester, change, is_cancelled);
            }
            ExtensionInput::SessionShutdownAnnounced(switch) => self.shutdown_announced(*switch),
            ExtensionInput::NavigationPrepared(result) => self.navigation_prepared(*result),
        }
    }

    /// Reports an action of an extension that failed.
    pub(super) fn report_action(&mut self, event: &str, error: String) {
        let extension_path = "<runtime>".to_owned();
        let event = event.to_owned();
        self.report(ExtensionError { extension_path, event, error, at: None, stack: None });
    }

    fn report(&mut self, error: ExtensionError) {
        let ExtensionError { extension_path: path, event, error, at, .. } = error;
        let place = at.map(|at| format!(" ({at})")).unwrap_or_default();
        self.resources.complain(&format!("extension {path}, {event}: {error}{place}"));
        self.emit(Event::ExtensionError { path, event, error });
    }

    /// stdout belongs to the client; what extensions print goes to stderr.
    fn log(&mut self, line: &LogLine) {
        if line.level != LogLevel::Debug {
            self.resources.complain(&line.text);
        }
    }
}
