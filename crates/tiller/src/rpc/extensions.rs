//! Extensions, as the server sees them: when they are loaded, what they bring, what they want.
//!
//! They live in engines of their own. What they want arrives as an [`Input`]; what they decide is
//! asked for by tasks, whose answers arrive as inputs too. So no extension can hold the server up,
//! and while one thinks about a prompt the client can still look, steer and abort.

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
use tiller_js::event::{Event as Told, ShutdownReason};
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

/// Something an extension wants, or something that was asked of one and is answered.
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
    /// Tools, commands or flags are others than before.
    Changed,
    /// Nobody waits for the answer to a dialog any more.
    DialogOver(String),
    /// All are loaded.
    Loaded(LoadReport),
    /// Those who may judge a project are loaded, and have.
    Judged(TrustDecision),
    /// What was typed makes no sense to them.
    WrongFlags(Vec<String>),
    /// Where they say that there are more skills and templates.
    Discovered(ExtensionPaths),
    /// Those of another folder are gone.
    Retired,
    /// All have heard that the session began.
    Ready,
    /// All have heard that tiller ends.
    Parted,
    /// The command of an extension that was started under this number is over.
    CommandRan(u64, Option<ExtensionError>),
    /// A prompt was looked at.
    Considered(Box<InputHookResult>),
    /// A prompt may begin.
    Begun(Box<StartHookResult>),
    /// What is to be done before all is quiet.
    Settling(Boundary),
    /// A change of session was looked at.
    ChangeDecided {
        asker: Requester,
        change: SessionChange,
        is_cancelled: bool,
    },
    /// All have heard that the session is about to be another one.
    Left(Box<PendingSwitch>),
    /// Going to another place in the tree was thought over.
    Navigated(Box<tree_navigation::NavigationResult>),
}

/// What the server knows of them.
#[derive(Default)]
pub(crate) struct ExtensionState {
    pub(super) host: Option<Extensions>,
    discovered: Vec<Arc<DiscoveredExtension>>,
    /// Who is to answer, and whether that was looked at with all extensions there.
    model_args: Option<ModelArgs>,
    model_reselected: bool,
    /// What they were started with, for a reload.
    cli_flags: Arc<ExtensionFlags>,
    env: Option<ExtensionEnv>,
    /// Somebody wants them loaded anew when the run is over.
    pending_reload: Option<Discovery>,
    /// The places of those who were loaded first, to judge the project.
    trust_decider_slots: Vec<u32>,
    /// Who is to be told when they are.
    reload_requester: Option<Requester>,
    /// Being loaded, or moving to another session: commands wait.
    is_loading: bool,
    /// Why they are on the way to another folder.
    pending_session_start: Option<SessionStart>,
    /// Who asked for another session and waits until everybody is there, with the text of the
    /// message that was forked from.
    pub(super) waiting_for_ready: Vec<(Requester, Option<String>)>,
    tool_selection: ToolSelection,
    dialogs: Dialogs,
    /// The client says nothing more, so nobody is asked.
    client_gone: bool,
    /// To be said behind the next prompt.
    messages_for_next_prompt: Vec<Message>,
    /// To be said when the turn is over.
    messages_after_turn: Vec<Message>,
    /// The run under way does not know the conversation as it is now.
    context_is_stale: bool,
    /// How the last run ended.
    pub(super) last_outcome: RunOutcome,
    /// What the model is told in this run instead of the usual.
    system_prompt_override: Option<Arc<str>>,
    /// Prompts that somebody looks at. Nothing has begun with them, and nothing may.
    pub(super) input_hooks_pending: usize,
    /// Prompts that are about to begin, and runs about to settle, while they are thought over.
    pub(super) start_or_settle_hooks_pending: usize,
    /// How all that is given up.
    pub(super) hook_cancel: CancellationToken,
    /// Requests that named a command of an extension and have no response yet, by the number under
    /// which the command was started.
    unanswered: BTreeMap<u64, Label>,
    commands_started: u64,
    /// Session changes that the client asked for and extensions are asked about.
    changes_asked: usize,
    idle_waiters: Vec<ExtensionReply>,
    turn_index: u64,
    update_forwarding: UpdateForwarding,
    shutdown_notice: ShutdownNotice,
    /// Set when the process must end with an error: its exit code.
    pub(super) fatal: Option<u8>,
}

/// How long one engine may keep the others from hearing of the end.
const PARTING_EACH: Duration = Duration::from_millis(100);

#[derive(Default, PartialEq)]
enum ShutdownNotice {
    #[default]
    Unsaid,
    Saying,
    Said,
}

impl ExtensionState {
    pub(super) fn flags(&self) -> Arc<ExtensionFlags> {
        self.cli_flags.clone()
    }

    pub(crate) fn is_moving(&self) -> bool {
        self.is_loading
    }

    /// Whether extensions are asked about a session change that the client wants.
    pub(crate) fn is_asked_to_change(&self) -> bool {
        self.changes_asked > 0
    }

    /// Whether the client waits for them to be in another session, or to be loaded anew.
    pub(crate) fn owes_answer(&self) -> bool {
        let is_client = |asker: &Requester| asker.command().is_some();
        self.reload_requester.is_some()
            || self.waiting_for_ready.iter().any(|(asker, _)| is_client(asker))
    }

    /// Whoever looks at a prompt has looked long enough.
    pub(crate) fn hurry(&mut self) {
        std::mem::take(&mut self.hook_cancel).cancel();
    }

    pub(crate) fn is_looking(&self) -> bool {
        self.input_hooks_pending > 0
    }

    pub(crate) fn is_considering(&self) -> bool {
        self.start_or_settle_hooks_pending > 0
    }

    /// The commands they bring, with where each comes from.
    pub(crate) fn commands(&self) -> Vec<(RegisteredCommand, Arc<DiscoveredExtension>)> {
        let Some(guests) = &self.host else { return Vec::new() };
        let commands = guests.registrations().commands.into_iter();
        let with_found = commands.filter_map(|command| {
            let found = self.found_at(&command.extension_path)?.clone();
            Some((command, found))
        });
        with_found.collect()
    }

    /// The extension in this file.
    fn found_at(&self, path: &str) -> Option<&Arc<DiscoveredExtension>> {
        self.discovered.iter().find(|found| found.extension.path == Path::new(path))
    }

    /// Whether anybody listens to this.
    pub(super) fn hears(&self, name: &str) -> bool {
        self.host.as_ref().is_some_and(|guests| guests.has_listener(name))
    }
}

impl SessionState {
    /// Tells them that tiller ends, once. Says whether nobody has to be waited for.
    pub(super) fn announce_shutdown_once(&mut self) -> bool {
        match (&self.extensions.host, &self.extensions.shutdown_notice) {
            (None, _) | (_, ShutdownNotice::Said) => true,
            (_, ShutdownNotice::Saying) => false,
            (Some(guests), ShutdownNotice::Unsaid) => {
                self.extensions.shutdown_notice = ShutdownNotice::Saying;
                let guests = guests.clone();
                self.tasks.spawn(async move {
                    let (reason, target_session_file) = (ShutdownReason::Quit, None);
                    let end = Told::SessionShutdown { reason, target_session_file };
                    guests.tell_each_within(&end, PARTING_EACH).await;
                    ExtensionInput::Parted
                });
                false
            }
        }
    }

    /// Does what an extension wants, or goes on with what one was asked.
    pub(super) fn handle_extension_input(&mut self, wish: ExtensionInput) {
        match wish {
            ExtensionInput::Query(query, answer) => answer.respond(self.answer_query(query)),
            ExtensionInput::Act(action) => self.act(action),
            ExtensionInput::Request(request, answer) => self.take_request(request, answer),
            ExtensionInput::Dialog { dialog, cancel, answer } => {
                self.open_dialog(dialog, cancel, answer)
            }
            ExtensionInput::DialogOver(id) => self.close_dialog(&id),
            ExtensionInput::Notice(notice) => self.show_notice(&notice),
            ExtensionInput::Model(request, answer) => self.ask_model(*request, answer),
            ExtensionInput::Report(error) => self.report(error),
            ExtensionInput::Log(line) => self.log(&line),
            ExtensionInput::Changed => self.take_stock(),
            ExtensionInput::Loaded(report) => self.loaded(report),
            ExtensionInput::Judged(judgement) => self.trust_answered(judgement),
            ExtensionInput::WrongFlags(problems) => self.wrong_flags(&problems),
            ExtensionInput::Discovered(discovered) => self.add_extension_paths(discovered),
            ExtensionInput::Retired => self.old_extensions_retired(),
            ExtensionInput::Ready => self.extensions_ready(),
            ExtensionInput::Parted => self.extensions.shutdown_notice = ShutdownNotice::Said,
            ExtensionInput::CommandRan(number, error) => self.command_ran(number, error),
            ExtensionInput::Considered(considered) => self.input_hook_done(*considered),
            ExtensionInput::Begun(begun) => self.start_hook_done(*begun),
            ExtensionInput::Settling(proposal) => self.settle_hook_done(proposal),
            ExtensionInput::ChangeDecided { asker, change, is_cancelled } => {
                self.change_decided(asker, change, is_cancelled);
            }
            ExtensionInput::Left(arrival) => self.shutdown_announced(*arrival),
            ExtensionInput::Navigated(considered) => self.navigated(*considered),
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

    /// stdout belongs to the client; what extensions print goes to whoever started tiller.
    fn log(&mut self, line: &LogLine) {
        if line.level != LogLevel::Debug {
            self.resources.complain(&line.text);
        }
    }
}
