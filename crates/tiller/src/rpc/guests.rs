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
mod loading;
mod models;
mod moving;
mod store;
mod prompt_options;
mod prompts;
mod providers;
mod queries;
mod sessions;
pub(super) mod shell;
mod telling;
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
use tiller_js::hook::{Boundary, Outcome};
use tiller_js::world::{
    Action, Dialog, ExtensionError, LogLevel, LogLine, ModelRequest, Notice, Query, Request,
};
use tiller_js::{Guests, LoadReport, RegisteredCommand};
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
use crate::extensions::find::{Discovery, Found};
use crate::place::Discovered;
use dialogs::Dialogs;
pub use loading::{Around, House, Judgement};
use moving::Journey;
pub(crate) use prompts::Prompt;
pub use prompts::{Begun, Considered};
use telling::Growth;
use tools::Stock;

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
    /// Those who may judge a project are loaded, and have.
    Judged(Judgement),
    /// What was typed makes no sense to them.
    WrongFlags(Vec<String>),
    /// Where they say that there are more skills and templates.
    Discovered(Discovered),
    /// Those of another folder are gone.
    Retired,
    /// All have heard that the session began.
    Ready,
    /// All have heard that tiller ends.
    Parted,
    /// The command of an extension that was started under this number is over.
    CommandRan(u64, Option<ExtensionError>),
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
    /// Who is to answer, and whether that was looked at with all extensions there.
    choice: Option<Choice>,
    has_chosen: bool,
    /// What they were started with, for a reload.
    flags: Arc<ExtensionFlags>,
    around: Option<Around>,
    /// Somebody wants them loaded anew when the run is over.
    reload_due: Option<Discovery>,
    /// The places of those who were loaded first, to judge the project.
    numbers: Vec<u32>,
    /// Who is to be told when they are.
    reloader: Option<Asker>,
    /// Being loaded, or moving to another session: commands wait.
    is_moving: bool,
    /// Why they are on the way to another folder.
    journey: Option<Journey>,
    /// Who asked for another session and waits until everybody is there, with the text of the
    /// message that was forked from.
    pub(super) movers: Vec<(Asker, Option<String>)>,
    stock: Stock,
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
    /// Prompts that somebody looks at. Nothing has begun with them, and nothing may.
    looking: usize,
    /// Prompts that are about to begin, and runs about to settle, while they are thought over.
    considering: usize,
    /// How all that is given up.
    pub(super) hurry: CancellationToken,
    /// Requests that named a command of an extension and have no response yet, by the number under
    /// which the command was started.
    unanswered: BTreeMap<u64, Label>,
    commands_started: u64,
    /// Session changes that the client asked for and extensions are asked about.
    changes_asked: usize,
    idle_waiters: Vec<oneshot::Sender<Result<Value, String>>>,
    turn_index: u64,
    growing: Growth,
    farewell: Farewell,
    /// Set when the process must end with an error: its exit code.
    pub(super) fatal: Option<u8>,
}

/// How long one engine may keep the others from hearing of the end.
const PARTING_EACH: Duration = Duration::from_millis(100);

#[derive(Default, PartialEq)]
enum Farewell {
    #[default]
    Unsaid,
    Saying,
    Said,
}

impl Visitors {
    pub(super) fn flags(&self) -> Arc<ExtensionFlags> {
        self.flags.clone()
    }

    pub(crate) fn is_moving(&self) -> bool {
        self.is_moving
    }

    /// Whether extensions are asked about a session change that the client wants.
    pub(crate) fn is_asked_to_change(&self) -> bool {
        self.changes_asked > 0
    }

    /// Whether the client waits for them to be in another session, or to be loaded anew.
    pub(crate) fn owes_answer(&self) -> bool {
        let is_client = |asker: &Asker| asker.command().is_some();
        self.reloader.is_some() || self.movers.iter().any(|(asker, _)| is_client(asker))
    }

    /// Whoever looks at a prompt has looked long enough.
    pub(crate) fn hurry(&mut self) {
        std::mem::take(&mut self.hurry).cancel();
    }

    pub(crate) fn is_looking(&self) -> bool {
        self.looking > 0
    }

    pub(crate) fn is_considering(&self) -> bool {
        self.considering > 0
    }

    /// The commands they bring, with where each comes from.
    pub(crate) fn commands(&self) -> Vec<(RegisteredCommand, Arc<Found>)> {
        let Some(guests) = &self.guests else { return Vec::new() };
        let commands = guests.registrations().commands.into_iter();
        let with_found = commands.filter_map(|command| {
            let found = self.found_at(&command.extension_path)?.clone();
            Some((command, found))
        });
        with_found.collect()
    }

    /// The extension in this file.
    fn found_at(&self, path: &str) -> Option<&Arc<Found>> {
        self.found.iter().find(|found| found.extension.path == Path::new(path))
    }

    /// Whether anybody listens to this.
    pub(super) fn hears(&self, name: &str) -> bool {
        self.guests.as_ref().is_some_and(|guests| guests.hears(name))
    }
}

impl State {
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
                    let end = Told::SessionShutdown { reason, target_session_file };
                    guests.tell_each_within(&end, PARTING_EACH).await;
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
            Wish::Judged(judgement) => self.take_verdict(judgement),
            Wish::WrongFlags(problems) => self.wrong_flags(&problems),
            Wish::Discovered(discovered) => self.discover(discovered),
            Wish::Retired => self.settle_here(),
            Wish::Ready => self.guests_are_ready(),
            Wish::Parted => self.visitors.farewell = Farewell::Said,
            Wish::CommandRan(number, error) => self.command_ran(number, error),
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
