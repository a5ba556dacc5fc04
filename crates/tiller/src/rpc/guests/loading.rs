//! How extensions come in: at the start, and anew when somebody says that files have changed.

use std::path::PathBuf;
use std::sync::Arc;

use tiller_agent::event::Event;
use tiller_js::event::{Event as Told, ShutdownReason, StartReason};
use tiller_js::hook::{ProjectTrust, Resources, ResourcesDiscover, Trust, Trusted};
use tiller_js::{Config, EngineClock, Extension, Guests, Limits, LoadError, LoadReport};
use tiller_llm::Onlooker;
use tokio::sync::mpsc;

use super::moving::Journey;
use super::tools::Stock;
use super::{State, Wish};
use crate::args::ExtensionFlags;
use crate::choice::Choice;
use crate::extensions::find::{Discovery, Found, Problem, anchored, find};
use crate::extensions::flags;
use crate::extensions::onlooker::Guarded;
use crate::extensions::world::Outside;
use crate::log::Log;
use crate::place::{Discovered, Place};
use crate::rpc::asker::Asker;
use crate::rpc::server::Input;
use crate::settings::resolve;
use crate::usage::USAGE;

/// What extensions are started with.
#[derive(Default)]
pub struct House {
    found: Vec<Arc<Found>>,
    /// Those somebody wants and that cannot be had.
    missing: Vec<Problem>,
    flags: ExtensionFlags,
    surroundings: Option<Around>,
    /// They may decide whether the project is trusted, before anything of the project is loaded.
    may_judge: bool,
    /// Who is to answer, for when extensions have brought what they bring.
    pub(crate) choice: Option<Choice>,
}

/// What extensions see of the process.
#[derive(Clone)]
pub struct Around {
    pub agent_dir: PathBuf,
    pub home_dir: PathBuf,
    /// `rpc`, `json` or `print`.
    pub mode: &'static str,
    /// Whether there is anybody to ask.
    pub has_ui: bool,
    pub variables: Vec<(String, String)>,
    /// Whether they may run in a process of their own.
    pub sidecars: bool,
    pub clock: EngineClock,
    pub log: Log,
}

impl Around {
    /// With what they are started in this folder, by the runtime we are in.
    pub(crate) fn config(self, cwd: PathBuf) -> Config {
        Config {
            runtime: tokio::runtime::Handle::current(),
            limits: Limits::default(),
            cwd,
            agent_dir: self.agent_dir,
            home_dir: self.home_dir,
            mode: self.mode.to_owned(),
            has_ui: self.has_ui,
            version: PI_VERSION.to_owned(),
            exec_path: std::env::current_exe().unwrap_or_default(),
            env: self.variables,
            sidecars: self.sidecars,
            clock: self.clock,
            hook_observer: self.log.hooks(),
        }
    }
}

impl House {
    /// Looks for extensions.
    pub fn find(place: &Place, flags: ExtensionFlags, surroundings: Around) -> House {
        let flags = anchored(flags, place);
        let Discovery { found, problems: missing } = find(place, &flags);
        House {
            may_judge: !found.is_empty() && place.asks_for_trust(),
            found: found.into_iter().map(Arc::new).collect(),
            missing,
            flags,
            surroundings: Some(surroundings),
            choice: None,
        }
    }

    /// Whether somebody who is not of the project may say whether it is trusted.
    pub fn has_judges(&self) -> bool {
        self.may_judge && self.found.iter().any(|found| found.is_judge())
    }

    /// Whether nobody comes.
    pub(crate) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }
}

/// What those who are not the project's own think of it.
pub struct Judgement {
    pub(in crate::rpc) trusted: bool,
    pub(in crate::rpc) remember: bool,
    is_decided: bool,
    errors: Vec<LoadError>,
}

/// The version of the agent that extensions were written for.
const PI_VERSION: &str = "0.87.1";

/// So many can come in later between two that were loaded before them.
const GAP: u32 = 1000;

impl State {
    /// Loads the extensions there are. Without any, nothing is started.
    pub(in crate::rpc) fn load_extensions(&mut self, house: House) {
        let House { found, missing, flags, surroundings, may_judge, choice } = house;
        self.visitors.flags = Arc::new(flags);
        self.visitors.around = surroundings;
        self.not_found(missing);
        if found.is_empty() {
            return;
        }
        let Some(guests) = self.guests() else { return };
        self.visitors.is_moving = true;
        self.visitors.found = found;
        self.visitors.choice = choice;
        self.bring_in(guests, may_judge);
    }

    /// Loads those that were found, and before the others those who may judge the project.
    pub(super) fn bring_in(&mut self, guests: Guests, may_judge: bool) {
        let judges = self.visitors.found.iter().filter(|found| found.is_judge());
        let judges: Vec<_> = (1..).map(|place| place * GAP).zip(judges.cloned()).collect();
        if may_judge && !judges.is_empty() {
            self.visitors.numbers = judges.iter().map(|(number, _)| *number).collect();
            return self.load_judges(guests, extensions(&judges));
        }
        self.load_rest(guests, Vec::new());
    }

    fn load_judges(&self, guests: Guests, judges: Vec<(u32, Extension)>) {
        let cwd = self.workplace.cwd.display().to_string();
        let inputs = self.inputs.clone();
        tokio::spawn(async move {
            let errors = guests.load_at(&judges).await;
            let trust = match guests.hears("project_trust") {
                true => guests.ask(ProjectTrust { cwd }).await.unwrap_or_default(),
                false => Trust::default(),
            };
            let judged = Wish::Judged(Judgement {
                trusted: trust.trusted == Trusted::Yes,
                remember: trust.remember,
                is_decided: trust.trusted != Trusted::Undecided,
                errors,
            });
            // A server that no longer listens has ended.
            inputs.send(Input::Guest(Box::new(judged))).await.ok();
        });
    }

    /// Those who may judge the project have been asked.
    pub(super) fn take_verdict(&mut self, judgement: Judgement) {
        // Why the project is not used is said anew when it is for another reason.
        let is_news = !judgement.trusted || !self.here.is_trusted() || judgement.remember;
        if judgement.is_decided && is_news {
            return self.take_judgement(judgement);
        }
        self.here.tell_of_place();
        if let Some(guests) = self.guests() {
            self.load_rest(guests, judgement.errors);
        }
    }

    /// The project was looked at again in the light of their verdict.
    pub(in crate::rpc) fn judged(&mut self, judgement: Judgement, discovery: Option<Discovery>) {
        if let Some(Discovery { found, mut problems }) = discovery {
            self.visitors.found = found.into_iter().map(Arc::new).collect();
            // Most of them were told when the first look was taken.
            let is_told = |error: &str| self.diagnostics.iter().any(|told| told.contains(error));
            problems.retain(|problem| !is_told(&problem.error));
            self.not_found(problems);
        }
        if let Some(guests) = self.guests() {
            self.load_rest(guests, judgement.errors);
        }
    }

    /// Loads those who are not loaded yet, each in its place.
    fn load_rest(&mut self, guests: Guests, mut errors: Vec<LoadError>) {
        let mut judges = std::mem::take(&mut self.visitors.numbers).into_iter();
        let mut last = 0;
        let mut rest = Vec::new();
        let has_judged = judges.len() > 0;
        for found in &self.visitors.found {
            let judge = (has_judged && found.is_judge()).then(|| judges.next());
            match judge.flatten() {
                Some(number) => last = number,
                None => {
                    last += 1;
                    rest.push((last, found.extension.clone()));
                }
            }
        }
        let Journey { reason, previous } = self.visitors.journey.take().unwrap_or_default();
        let arrival = self.arrival(reason, previous);
        let inputs = self.inputs.clone();
        tokio::spawn(async move {
            errors.extend(guests.load_at(&rest).await);
            errors.extend(guests.registrations().conflicts);
            let problems = arrival.come_in(&guests, errors).await;
            // Elsewhere an option may mean nothing: its extension may have stayed behind.
            if reason == StartReason::Startup && !problems.is_empty() {
                // A server that no longer listens has ended.
                inputs.send(Input::Guest(Box::new(Wish::WrongFlags(problems)))).await.ok();
            }
            arrival.settle_in(&guests).await;
        });
    }

    /// Loads extensions from their files as they are now. A run goes on with those it began with.
    pub(in crate::rpc) fn reload_guests(&mut self, asker: Asker, discovery: Discovery) {
        let nobody = self.visitors.guests.is_none() && discovery.found.is_empty();
        if nobody {
            self.not_found(discovery.problems);
            return self.answer_reload(asker);
        }
        if self.is_occupied() || self.visitors.is_moving {
            self.visitors.reload_due = Some(discovery);
            return match asker {
                // Its engine ends before it could be told.
                guest @ Asker::Guest(_) => self.visitors.movers.push((guest, None)),
                client => self.answer_reload(client),
            };
        }
        match asker {
            guest @ Asker::Guest(_) => self.visitors.movers.push((guest, None)),
            client => self.visitors.reloader = Some(client),
        }
        self.load_anew(discovery);
    }

    /// What had to wait for a run is done now.
    pub(in crate::rpc) fn reload_if_due(&mut self) {
        if !self.visitors.is_moving
            && let Some(discovery) = self.visitors.reload_due.take()
        {
            self.load_anew(discovery);
        }
    }

    fn load_anew(&mut self, discovery: Discovery) {
        let Discovery { found, problems } = discovery;
        self.not_found(problems);
        let Some(guests) = self.guests() else { return };
        self.visitors.is_moving = true;
        self.visitors.stock.forget();
        self.visitors.found = found.into_iter().map(Arc::new).collect();
        let extensions: Vec<Extension> =
            self.visitors.found.iter().map(|found| found.extension.clone()).collect();
        let arrival = self.arrival(StartReason::Reload, None);
        tokio::spawn(async move {
            let (reason, target_session_file) = (ShutdownReason::Reload, None);
            guests.tell(&Told::SessionShutdown { reason, target_session_file }).await;
            guests.stop();
            let report = guests.load(&extensions).await;
            // An option whose extension is gone means nothing any more.
            arrival.come_in(&guests, report.errors).await;
            arrival.settle_in(&guests).await;
        });
    }

    /// All of them, before the first is loaded.
    pub(super) fn guests(&mut self) -> Option<Guests> {
        if self.visitors.guests.is_none() {
            let around = self.visitors.around.clone()?;
            let config = around.config(self.workplace.cwd.to_path_buf());
            let outside = Arc::new(Outside { inputs: self.inputs.clone() });
            let guests = Guests::new(config, outside);
            self.models.let_look(Onlooker(Arc::new(Guarded(guests.clone()))));
            self.visitors.guests = Some(guests);
            self.visitors.stock = Stock::new(&self.workplace.tools);
        }
        self.visitors.guests.clone()
    }

    pub(super) fn arrival(&self, reason: StartReason, previous: Option<String>) -> Settling {
        Settling {
            reason,
            previous,
            flags: self.visitors.flags.clone(),
            cwd: self.workplace.cwd.to_path_buf(),
            home: self.visitors.around.as_ref().map(|around| around.home_dir.clone()),
            inputs: self.inputs.clone(),
        }
    }

    pub(super) fn wrong_flags(&mut self, problems: &[String]) {
        for problem in problems {
            self.here.complain_of_error(problem);
        }
        self.visitors.fatal = Some(USAGE);
    }

    pub(super) fn not_found(&mut self, problems: Vec<Problem>) {
        for Problem { what, error } in problems {
            self.not_loaded(what, error, None);
        }
    }

    pub(super) fn loaded(&mut self, report: LoadReport) {
        for LoadError { path, error, at } in report.errors {
            self.not_loaded(path, error, at);
        }
        self.settle_providers();
        self.take_stock();
        self.unknown_tools();
    }

    fn not_loaded(&mut self, path: String, error: String, at: Option<String>) {
        let place = at.map(|at| format!(" ({at})")).unwrap_or_default();
        let problem = format!("Failed to load extension \"{path}\": {error}{place}");
        self.here.complain(&problem);
        self.diagnostics.push(problem);
        if self.visitors.flags.is_strict {
            self.visitors.fatal.get_or_insert(1);
        }
        self.emit(Event::ExtensionError { path, event: "load".to_owned(), error });
    }
}

fn extensions(found: &[(u32, Arc<Found>)]) -> Vec<(u32, Extension)> {
    found.iter().map(|(number, found)| (*number, found.extension.clone())).collect()
}

/// What happens between loading and being there.
pub(super) struct Settling {
    reason: StartReason,
    previous: Option<String>,
    flags: Arc<ExtensionFlags>,
    cwd: PathBuf,
    home: Option<PathBuf>,
    inputs: mpsc::Sender<Input>,
}

impl Settling {
    /// They learn the values of their flags, may act from now on, and the server knows what they
    /// bring. Gives what is wrong with the flags.
    pub(super) async fn come_in(&self, guests: &Guests, errors: Vec<LoadError>) -> Vec<String> {
        let registrations = guests.registrations();
        let (values, problems) = flags::values(&self.flags.foreign, &registrations.flags);
        guests.set_flags(&values).await;
        guests.bind().await;
        self.send(Wish::Loaded(LoadReport { registrations, errors })).await;
        problems
    }

    /// They hear that the session begins, and say where there is more.
    pub(super) async fn settle_in(&self, guests: &Guests) {
        let previous_session_file = self.previous.clone();
        guests.tell(&Told::SessionStart { reason: self.reason, previous_session_file }).await;
        let found = match guests.hears("resources_discover") {
            true => guests.ask(self.discovery()).await.unwrap_or_default(),
            false => Resources::default(),
        };
        let whole = |paths: Vec<(String, String)>| {
            let paths = paths.iter();
            paths.map(|(path, _)| resolve(path, &self.cwd, self.home.as_deref())).collect()
        };
        let Resources { skill_paths, prompt_paths, .. } = found;
        let discovered = Discovered { skills: whole(skill_paths), templates: whole(prompt_paths) };
        self.send(Wish::Discovered(discovered)).await;
        self.send(Wish::Ready).await;
    }

    fn discovery(&self) -> ResourcesDiscover {
        let reason = if self.reason == StartReason::Reload { "reload" } else { "startup" };
        ResourcesDiscover { cwd: self.cwd.display().to_string(), reason: reason.to_owned() }
    }

    async fn send(&self, wish: Wish) {
        // A server that no longer listens has ended.
        self.inputs.send(Input::Guest(Box::new(wish))).await.ok();
    }
}
