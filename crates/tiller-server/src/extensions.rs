//! The server's side of extensions: loading, hooks, events, and requests.
//!
//! Extensions run in engines on threads of their own. Their requests arrive as inputs, and hooks
//! are run by tasks whose results arrive as inputs, too. So no extension blocks the server, and
//! while a hook is running the client can still query, steer and abort.

pub(crate) mod actions;
pub(crate) mod commands;
pub(crate) mod boundary;
pub(crate) mod compaction_hooks;
pub(crate) mod dialogs;
pub(crate) mod hooks;
pub(crate) mod loading;
pub(crate) mod models;
pub(crate) mod models_store;
pub(crate) mod prompt_options;
pub(crate) mod prompt_hooks;
pub(crate) mod providers;
pub(crate) mod queries;
pub(crate) mod session_hooks;
pub(crate) mod user_bash;
pub(crate) mod events;
pub mod find;
pub mod flags;
pub mod offline_load;
mod host_api;
mod provider;
mod decoder;
mod model_request;
mod model_stream;
mod request_hooks;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::BoxStream;
use serde_json::Value;
use tiller_agent::event::Event;
use tiller_agent::message::Message;
use tiller_js::event::{Event as ExtensionEvent, ShutdownReason};
use tiller_js::hook::Boundary;
use tiller_js::host_api::{
    Action, Dialog, ExtensionError, LogLevel, LogLine, ModelRequest, Notice, Query, Request,
};
use tiller_js::{Extensions, LoadReport, RegisteredCommand};
use tokio_util::sync::CancellationToken;

use crate::extensions::find::DiscoveredExtension;
use crate::extensions::flags::ExtensionFlags;
use crate::prompt::{self, InputHookResult, StartHookResult};
use crate::requester::{ExtensionReply, Requester};
use crate::session_change::{self, SessionChange};
use crate::state::SessionState;
use crate::tasks::Responder;
use crate::tools;
use crate::work::run;
use commands::ActiveCommands;
use dialogs::Dialogs;
use events::UpdateForwarding;
pub use loading::{ExtensionEnv, ExtensionPlan};
use tiller_config::project::ExtensionPaths;

/// What an extension asks of the server.
pub enum ExtensionRequest {
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
}

/// A task for extensions has finished. Those of a session change are `TransitionEvent`s.
pub enum ExtensionTaskDone {
    /// A dialog has timed out or was cancelled.
    DialogOver(String),
    /// All extensions are loaded.
    Loaded(LoadReport),
    /// The command line has flags that extensions do not accept.
    WrongFlags(Vec<String>),
    /// More skill and template paths, from `resources_discover`.
    Discovered(ExtensionPaths),
    /// All extensions have handled the `session_shutdown` of the process, or had their time.
    ShutdownAnnounced,
    /// The extension command with this number has ended.
    CommandRan(u64, Option<ExtensionError>),
    /// The `input` hook has finished.
    InputHookDone(Box<InputHookResult>),
    /// The `before_agent_start` hook has finished.
    StartHookDone(Box<StartHookResult>),
    /// The `agent_before_settle` hook has finished.
    SettleHookDone(Boundary),
    /// The hooks before a session change have finished.
    ChangeHookDone { requester: Requester, change: SessionChange, is_cancelled: bool },
}

/// The server's state for extensions.
pub(crate) struct ExtensionState {
    host: Option<Extensions>,
    discovered: Vec<Arc<DiscoveredExtension>>,
    /// The extension flags of the command line, for a reload.
    cli_flags: Arc<ExtensionFlags>,
    /// What extensions see of the process; nothing if there can be none.
    env: Option<ExtensionEnv>,
    hooks: PendingHooks,
    turn: TurnState,
    commands: ActiveCommands,
    dialogs: Dialogs,
    shutdown: ShutdownNotice,
    exit: Option<ExitRequest>,
}

/// Hooks of prompts and of settling runs.
#[derive(Default)]
struct PendingHooks {
    /// Prompts whose `input` hook is running.
    input: usize,
    cancel: CancellationToken,
    /// Extensions that wait until nothing runs.
    idle_waiters: Vec<ExtensionReply>,
}

/// What extensions have changed about the current turn or the next prompt.
#[derive(Default)]
struct TurnState {
    index: u64,
    /// Messages that follow the next prompt.
    messages_for_next_prompt: Vec<Message>,
    /// Messages that are appended when the turn has ended.
    messages_after_turn: Vec<Message>,
    /// The context of the run differs from the conversation.
    context_is_stale: bool,
    /// The system prompt of this run, if an extension replaced it.
    system_prompt: Option<Arc<str>>,
    update_forwarding: UpdateForwarding,
}

/// Why the process is to end.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum ExitRequest {
    /// An extension has called `ctx.shutdown()`.
    Shutdown,
    /// An extension that is required did not load, or a flag is wrong.
    Failure(u8),
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
    pub(super) fn new(emits_titles: bool) -> ExtensionState {
        ExtensionState {
            host: None,
            discovered: Vec::new(),
            cli_flags: Arc::default(),
            env: None,
            hooks: PendingHooks::default(),
            turn: TurnState::default(),
            commands: ActiveCommands::default(),
            dialogs: Dialogs::new(emits_titles),
            shutdown: ShutdownNotice::NotSent,
            exit: None,
        }
    }

    /// The engines, if any extension was loaded.
    pub(super) fn host(&self) -> Option<&Extensions> {
        self.host.as_ref()
    }

    /// The engines, if an extension listens to this event or hook.
    pub(super) fn listening_host(&self, name: &str) -> Option<&Extensions> {
        self.host.as_ref().filter(|host| host.has_listener(name))
    }

    /// Whether extensions can be loaded at all.
    pub(super) fn is_enabled(&self) -> bool {
        self.env.is_some()
    }

    pub(super) fn flags(&self) -> Arc<ExtensionFlags> {
        self.cli_flags.clone()
    }

    /// The extensions that may decide project trust.
    pub(super) fn trust_deciders(&self) -> Vec<Arc<DiscoveredExtension>> {
        self.discovered.iter().filter(|found| found.may_decide_trust()).cloned().collect()
    }

    /// Cancels pending hooks of prompts and settling runs.
    pub(super) fn cancel_hooks(&mut self) {
        std::mem::take(&mut self.hooks.cancel).cancel();
    }

    pub(super) fn has_input_hook(&self) -> bool {
        self.hooks.input > 0
    }

    /// An `input` hook has finished.
    pub(super) fn input_hook_ended(&mut self) {
        self.hooks.input -= 1;
    }

    /// The first failure decides the exit code.
    fn fail(&mut self, code: u8) {
        if !matches!(self.exit, Some(ExitRequest::Failure(_))) {
            self.exit = Some(ExitRequest::Failure(code));
        }
    }

    fn request_shutdown(&mut self) {
        self.exit.get_or_insert(ExitRequest::Shutdown);
    }

    pub(super) fn take_exit_request(&mut self) -> Option<ExitRequest> {
        self.exit.take()
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
}

/// Sends `session_shutdown` once. Returns whether all extensions have handled it.
pub(super) fn announce_shutdown_once(state: &mut SessionState) -> bool {
    match (&state.extensions.host, &state.extensions.shutdown) {
        (None, _) | (_, ShutdownNotice::Sent) => true,
        (_, ShutdownNotice::Sending) => false,
        (Some(host), ShutdownNotice::NotSent) => {
            let host = host.clone();
            state.extensions.shutdown = ShutdownNotice::Sending;
            state.tasks.spawn(async move {
                let reason = ShutdownReason::Quit;
                let target_session_file = None;
                let end = ExtensionEvent::SessionShutdown { reason, target_session_file };
                host.emit_to_each_within(&end, SHUTDOWN_EACH).await;
                ExtensionTaskDone::ShutdownAnnounced
            });
            false
        }
    }
}

/// Handles a request of an extension.
pub(super) fn handle_request(state: &mut SessionState, request: ExtensionRequest) {
    match request {
        ExtensionRequest::Query(query, answer) => {
            answer.respond(queries::answer_query(state, query));
        }
        ExtensionRequest::Act(action) => actions::act(state, action),
        ExtensionRequest::Request(request, answer) => {
            actions::handle_request(state, request, answer);
        }
        ExtensionRequest::Dialog { dialog, cancel, answer } => {
            dialogs::open_dialog(state, dialog, cancel, answer)
        }
        ExtensionRequest::Notice(notice) => dialogs::show_notice(state, notice),
        ExtensionRequest::Model(request, answer) => models::ask_model(state, *request, answer),
        ExtensionRequest::Report(error) => report(state, error),
        ExtensionRequest::Log(line) => log(state, &line),
        ExtensionRequest::Changed => tools::update(state),
    }
}

/// Handles the result of a task.
pub(super) fn task_done(state: &mut SessionState, done: ExtensionTaskDone) {
    match done {
        ExtensionTaskDone::DialogOver(id) => dialogs::dialog_over(state, &id),
        ExtensionTaskDone::Loaded(report) => loading::loaded(state, report),
        ExtensionTaskDone::WrongFlags(problems) => loading::wrong_flags(state, &problems),
        ExtensionTaskDone::Discovered(paths) => state.project.add_extension_paths(paths),
        ExtensionTaskDone::ShutdownAnnounced => state.extensions.shutdown = ShutdownNotice::Sent,
        ExtensionTaskDone::CommandRan(number, error) => commands::command_ran(state, number, error),
        ExtensionTaskDone::InputHookDone(result) => prompt::input_hook_done(state, *result),
        ExtensionTaskDone::StartHookDone(result) => prompt::start_hook_done(state, *result),
        ExtensionTaskDone::SettleHookDone(proposal) => run::settle_hook_done(state, proposal),
        ExtensionTaskDone::ChangeHookDone { requester, change, is_cancelled } => {
            session_change::hooks_done(state, requester, change, is_cancelled);
        }
    }
}

/// Reports an action of an extension that failed.
pub(super) fn report_action(state: &mut SessionState, event: &str, error: String) {
    report_at(state, "<runtime>", event, error);
}

/// Reports an error in something of this name that is not a handler of an extension.
fn report_at(state: &mut SessionState, path: &str, event: &str, error: String) {
    let extension_path = path.to_owned();
    let event = event.to_owned();
    report(state, ExtensionError { extension_path, event, error, at: None, stack: None });
}

fn report(state: &mut SessionState, error: ExtensionError) {
    let ExtensionError { extension_path: path, event, error, at, .. } = error;
    let location = at.map(|at| format!(" ({at})")).unwrap_or_default();
    state.project.print_warning(&format!("extension {path}, {event}: {error}{location}"));
    state.emit(Event::ExtensionError { path, event, error });
}

/// stdout belongs to the client; what extensions print goes to stderr.
fn log(state: &mut SessionState, line: &LogLine) {
    if line.level != LogLevel::Debug {
        state.project.print_warning(&line.text);
    }
}
