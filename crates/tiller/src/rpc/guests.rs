//! Extensions, as the server sees them: when they are loaded, what they bring, what they want.
//!
//! They live in engines of their own. What they want arrives as an [`Input`]; what they decide is
//! asked for by tasks, whose answers arrive as inputs too. So no extension can hold the server up,
//! and while one thinks about a prompt the client can still look, steer and abort.

mod actions;
pub(super) mod boundary;
pub(super) mod compacting;
mod dialogs;
pub(super) mod hooks;
mod models;
mod prompts;
mod providers;
mod queries;
mod sessions;
pub(super) mod shell;
mod telling;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::stream::BoxStream;
use serde_json::{Map, Value};
use tiller_agent::event::Event;
use tiller_agent::message::Message;
use tiller_agent::tool::{Tool, ToolSet};
use tiller_js::event::{Event as Told, ShutdownReason, StartReason};
use tiller_js::hook::{Boundary, Outcome};
use tiller_js::world::{
    Action, Dialog, ExtensionError, LogLevel, LogLine, ModelRequest, Notice, Query, Request,
};
use tiller_js::{Config, Guests, Limits, LoadError, LoadReport, RegisteredCommand};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::asker::Asker;
use super::change::{Arrival, Change};
use super::navigation;
use super::server::Input;
use super::state::State;
use super::wire::Label;
use crate::args::ExtensionFlags;
use crate::choice::Choice;
use crate::extensions::find::{Discovery, Found, Problem, find};
use crate::extensions::world::Outside;
use crate::place::Place;
use dialogs::Dialogs;
pub(crate) use prompts::Prompt;
pub use prompts::{Begun, Considered};

/// What extensions are started with.
#[derive(Default)]
pub struct House {
    found: Vec<Arc<Found>>,
    /// Those somebody wants and that cannot be had.
    missing: Vec<Problem>,
    /// The values of their own flags.
    flags: Map<String, Value>,
    /// One that cannot be loaded ends the start.
    is_strict: bool,
    surroundings: Option<Around>,
    /// Who is to answer, for when extensions have brought what they bring.
    pub(crate) choice: Option<Choice>,
}

/// What extensions see of the process.
pub struct Around {
    pub agent_dir: PathBuf,
    pub home_dir: PathBuf,
    /// `rpc`, `json` or `print`.
    pub mode: &'static str,
    /// Whether there is anybody to ask.
    pub has_ui: bool,
    pub variables: Vec<(String, String)>,
}

impl House {
    /// Looks for extensions.
    pub fn find(place: &Place, flags: &ExtensionFlags, surroundings: Around) -> House {
        let Discovery { found, problems: missing } = find(place, flags);
        House {
            found: found.into_iter().map(Arc::new).collect(),
            missing,
            flags: flags.values.clone(),
            is_strict: flags.is_strict,
            surroundings: Some(surroundings),
            choice: None,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }
}

/// The version of the agent that extensions were written for.
const PI_VERSION: &str = "0.87.1";

/// Something an extension wants, or something that was asked of one and is answered.
pub enum Wish {
    Query(Query, oneshot::Sender<Result<Value, String>>),
    Act(Action),
    Request(Request, oneshot::Sender<Result<Value, String>>),
    Dialog {
        dialog: Dialog,
        cancel: CancellationToken,
        answer: oneshot::Sender<Value>,
    },
    Notice(Notice),
    Model(Box<ModelRequest>, oneshot::Sender<BoxStream<'static, Value>>),
    Report(ExtensionError),
    Log(LogLine),
    /// Tools, commands or flags are others than before.
    Changed,
    /// Nobody waits for the answer to a dialog any more.
    DialogOver(String),
    /// All are loaded.
    Loaded(LoadReport),
    /// All have heard that the session began.
    Ready,
    /// All have heard that tiller ends.
    Parted,
    /// A command of an extension is over.
    CommandRan(Label, Option<ExtensionError>),
    /// A prompt was looked at.
    Considered(Box<Considered>),
    /// A prompt may begin.
    Begun(Box<Begun>),
    /// What is to be done before all is quiet.
    Settling(Boundary),
    /// A change of session was looked at.
    ChangeDecided {
        asker: Asker,
        change: Change,
        is_cancelled: bool,
    },
    /// All have heard that the session is about to be another one.
    Left(Box<Arrival>),
    /// Going to another place in the tree was thought over.
    Navigated(Box<navigation::Considered>),
}

/// What the server knows of them.
#[derive(Default)]
pub(crate) struct Visitors {
    pub(super) guests: Option<Guests>,
    found: Vec<Arc<Found>>,
    is_strict: bool,
    /// Who is to answer, and whether that was looked at with all extensions there.
    choice: Option<Choice>,
    has_chosen: bool,
    /// Being loaded, or moving to another session: commands wait.
    is_moving: bool,
    /// Extensions that asked for another session and wait until everybody is there.
    pub(super) movers: Vec<oneshot::Sender<Result<Value, String>>>,
    /// The tools that were there without them.
    own_tools: Vec<Tool>,
    /// The tools in use, when an extension has chosen.
    active: Option<Vec<String>>,
    dialogs: Dialogs,
    /// The client says nothing more, so nobody is asked.
    nobody_answers: bool,
    /// To be said behind the next prompt.
    next_turn: Vec<Message>,
    /// To be said when the turn is over.
    asides: Vec<Message>,
    /// The run under way does not know the conversation as it is now.
    changed_context: bool,
    /// How the last run ended.
    pub(super) outcome: Outcome,
    /// What the model is told in this run instead of the usual.
    system: Option<Arc<str>>,
    /// Prompts that are being looked at, and how that is given up.
    considering: usize,
    pub(super) hurry: CancellationToken,
    idle_waiters: Vec<oneshot::Sender<Result<Value, String>>>,
    turn_index: u64,
    farewell: Farewell,
    /// Why the process must end with an error.
    pub(super) fatal: bool,
}

#[derive(Default, PartialEq)]
enum Farewell {
    #[default]
    Unsaid,
    Saying,
    Said,
}

impl Visitors {
    pub(crate) fn is_moving(&self) -> bool {
        self.is_moving
    }

    /// Whoever looks at a prompt has looked long enough.
    pub(crate) fn hurry(&mut self) {
        std::mem::take(&mut self.hurry).cancel();
    }

    pub(crate) fn is_considering(&self) -> bool {
        self.considering > 0
    }

    /// The commands they bring, with where each comes from.
    pub(crate) fn commands(&self) -> Vec<(RegisteredCommand, Arc<Found>)> {
        let Some(guests) = &self.guests else { return Vec::new() };
        let commands = guests.registrations().commands.into_iter();
        let with_found = commands.filter_map(|command| {
            let is_its =
                |found: &&Arc<Found>| found.extension.path == Path::new(&command.extension_path);
            let found = self.found.iter().find(is_its)?.clone();
            Some((command, found))
        });
        with_found.collect()
    }

    /// Whether anybody listens to this.
    pub(super) fn hears(&self, name: &str) -> bool {
        self.guests.as_ref().is_some_and(|guests| guests.hears(name))
    }
}

impl State {
    /// Loads the extensions there are. Without any, nothing is started.
    pub(super) fn load_extensions(&mut self, house: House) {
        let House { found, missing, flags, is_strict, surroundings, choice } = house;
        self.visitors.is_strict = is_strict;
        for Problem { what, error } in missing {
            self.not_loaded(what, error, None);
        }
        let Some(around) = surroundings.filter(|_| !found.is_empty()) else { return };
        let config = Config {
            runtime: tokio::runtime::Handle::current(),
            limits: Limits::default(),
            cwd: self.workplace.cwd.to_path_buf(),
            agent_dir: around.agent_dir,
            home_dir: around.home_dir,
            mode: around.mode.to_owned(),
            has_ui: around.has_ui,
            version: PI_VERSION.to_owned(),
            exec_path: std::env::current_exe().unwrap_or_default(),
            env: around.variables,
        };
        let outside = Arc::new(Outside { inputs: self.inputs.clone() });
        let guests = Guests::new(config, outside);
        let extensions: Vec<_> = found.iter().map(|found| found.extension.clone()).collect();
        self.visitors.own_tools = self.workplace.tools.iter().cloned().collect();
        self.visitors.guests = Some(guests.clone());
        self.visitors.found = found;
        self.visitors.choice = choice;
        self.visitors.is_moving = true;
        let inputs = self.inputs.clone();
        tokio::spawn(async move {
            let report = guests.load(&extensions).await;
            guests.set_flags(&flags).await;
            guests.bind().await;
            // A server that no longer listens has ended.
            inputs.send(Input::Guest(Box::new(Wish::Loaded(report)))).await.ok();
            let start =
                Told::SessionStart { reason: StartReason::Startup, previous_session_file: None };
            guests.tell(&start).await;
            inputs.send(Input::Guest(Box::new(Wish::Ready))).await.ok();
        });
    }

    /// Tells them that tiller ends, once. Says whether nobody has to be waited for.
    pub(super) fn have_parted(&mut self) -> bool {
        match (&self.visitors.guests, &self.visitors.farewell) {
            (None, _) | (_, Farewell::Said) => true,
            (_, Farewell::Saying) => false,
            (Some(guests), Farewell::Unsaid) => {
                self.visitors.farewell = Farewell::Saying;
                let (guests, inputs) = (guests.clone(), self.inputs.clone());
                tokio::spawn(async move {
                    let (reason, target_session_file) = (ShutdownReason::Quit, None);
                    guests.tell(&Told::SessionShutdown { reason, target_session_file }).await;
                    inputs.send(Input::Guest(Box::new(Wish::Parted))).await.ok();
                });
                false
            }
        }
    }

    /// Does what an extension wants, or goes on with what one was asked.
    pub(super) fn grant(&mut self, wish: Wish) {
        match wish {
            // Whoever asked may be gone.
            Wish::Query(query, answer) => answer.send(self.answer_query(query)).unwrap_or(()),
            Wish::Act(action) => self.act(action),
            Wish::Request(request, answer) => self.take_request(request, answer),
            Wish::Dialog { dialog, cancel, answer } => self.open_dialog(dialog, cancel, answer),
            Wish::DialogOver(id) => self.close_dialog(&id),
            Wish::Notice(notice) => self.show_notice(&notice),
            Wish::Model(request, answer) => self.ask_model(*request, answer),
            Wish::Report(error) => self.report(error),
            Wish::Log(line) => self.log(&line),
            Wish::Changed => self.take_stock(),
            Wish::Loaded(report) => self.loaded(report),
            Wish::Ready => self.guests_are_ready(),
            Wish::Parted => self.visitors.farewell = Farewell::Said,
            Wish::CommandRan(label, error) => self.command_ran(label, error),
            Wish::Considered(considered) => self.considered(*considered),
            Wish::Begun(begun) => self.begun(*begun),
            Wish::Settling(proposal) => self.settling(proposal),
            Wish::ChangeDecided { asker, change, is_cancelled } => {
                self.change_decided(asker, change, is_cancelled);
            }
            Wish::Left(arrival) => self.left(*arrival),
            Wish::Navigated(considered) => self.navigated(*considered),
        }
    }

    fn loaded(&mut self, report: LoadReport) {
        for LoadError { path, error, at } in report.errors {
            self.not_loaded(path, error, at);
        }
        self.settle_providers();
        self.take_stock();
    }

    fn not_loaded(&mut self, path: String, error: String, at: Option<String>) {
        let place = at.map(|at| format!(" ({at})")).unwrap_or_default();
        let problem = format!("Failed to load extension \"{path}\": {error}{place}");
        self.here.complain(&problem);
        self.diagnostics.push(problem);
        self.visitors.fatal |= self.visitors.is_strict;
        self.emit(Event::ExtensionError { path, event: "load".to_owned(), error });
    }

    /// Offers the tools that there are now.
    fn take_stock(&mut self) {
        let Some(guests) = &self.visitors.guests else { return };
        let brought = guests.registrations().tools;
        let mut tools: Vec<Tool> = self.visitors.own_tools.clone();
        for registered in brought {
            let tool = registered.tool;
            // A tool of an extension takes the place of ours.
            tools.retain(|own| own.name() != tool.name());
            tools.push(tool);
        }
        if let Some(active) = &self.visitors.active {
            tools.retain(|tool| active.iter().any(|name| name == tool.name()));
        }
        self.workplace.tools = Arc::new(ToolSet::new(tools));
    }

    fn report(&mut self, error: ExtensionError) {
        let ExtensionError { extension_path: path, event, error, at, .. } = error;
        let place = at.map(|at| format!(" ({at})")).unwrap_or_default();
        self.here.complain(&format!("extension {path}, {event}: {error}{place}"));
        self.emit(Event::ExtensionError { path, event, error });
    }

    /// stdout belongs to the client; what extensions print goes to whoever started tiller.
    fn log(&mut self, line: &LogLine) {
        if line.level != LogLevel::Debug {
            self.here.complain(&line.text);
        }
    }
}
