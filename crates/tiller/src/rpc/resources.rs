//! The project's resources: settings, trust, skills, templates, rules and context files.
//!
//! They are read on another thread. The first command that needs them waits, and all later ones
//! wait behind it; then they are cached until a client reloads them or a session moves to another
//! folder.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use super::extensions::TrustDecision;
use super::requester::Requester;
use super::server::Input;
use super::state::SessionState;
use super::wire::{Reply, Request};
use crate::extensions::find::{Discovery, find};
use crate::project::{ExtensionPaths, Project, Resources};
use crate::prompt::SystemPrompt;
use crate::settings::Settings;

pub(crate) struct ProjectResources {
    place: Project,
    resources: Option<Arc<Resources>>,
    prompt: Option<SystemPrompt>,
    /// Which commands wait for a load.
    waiting: HoldBack,
    /// Loads started. The result of an older load does not replace that of a newer one.
    loads_started: u64,
    newest: u64,
}

/// Which commands wait for a load.
#[derive(Clone, Copy, PartialEq)]
enum HoldBack {
    NoCommand,
    /// The commands that a session change would hold back, too.
    NotUrgent,
    /// Every command: the first load has not finished.
    EveryCommand,
}

/// Why resources are loaded.
enum LoadReason {
    /// A command needs them for the first time.
    Need,
    /// A client or an extension requested a reload.
    Reload(Requester),
    /// The session is in another folder.
    Move,
    /// An extension has decided whether the project is trusted.
    TrustDecided(Box<TrustDecision>),
}

/// The result of a load.
pub struct ResourcesLoaded {
    number: u64,
    reason: LoadReason,
    /// The project, when settings were read again.
    place: Option<Project>,
    resources: Option<Resources>,
    /// The paths that extensions had added when the load started.
    discovered: Arc<ExtensionPaths>,
    /// The extensions found, where they may have changed.
    extensions: Option<Discovery>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Reloaded<'a> {
    skills: usize,
    prompt_templates: usize,
    context_files: usize,
    rules: usize,
    diagnostics: Vec<&'a str>,
}

const TOO_SLOW: &str = "skills, templates and context files could not be read in time";

/// How long a load may take; a hanging disk is not waited for.
const LOOK_MAX: Duration = Duration::from_secs(10);

impl ProjectResources {
    pub(crate) fn new(place: Project) -> ProjectResources {
        let (resources, prompt) = (None, None);
        ProjectResources {
            place,
            resources,
            prompt,
            waiting: HoldBack::NoCommand,
            loads_started: 0,
            newest: 0,
        }
    }

    pub(crate) fn is_awaited(&self) -> bool {
        self.waiting != HoldBack::NoCommand
    }

    /// Whether a request has to wait for a load.
    pub(crate) fn holds_back(&self, request: &Request) -> bool {
        match self.waiting {
            HoldBack::NoCommand => false,
            HoldBack::NotUrgent => {
                request.command.as_ref().is_ok_and(|command| !command.is_urgent())
            }
            HoldBack::EveryCommand => true,
        }
    }

    pub(crate) fn asks_for_trust(&self) -> bool {
        self.place.needs_trust_decision()
    }

    pub(crate) fn is_trusted(&self) -> bool {
        self.place.is_trusted()
    }

    /// Prints a warning on stderr.
    pub(crate) fn complain(&self, problem: &str) {
        self.place.print_problems([problem.to_owned()].iter());
    }

    /// Prints the problems of settings and trust that waited for the trust decision.
    pub(crate) fn tell_of_place(&self) {
        self.place.print_problems(self.place.problems().iter());
    }

    /// Prints an error on stderr.
    pub(crate) fn complain_of_error(&self, error: &str) {
        self.place.print(&format!("Error: {error}"));
    }

    pub(crate) fn is_known(&self) -> bool {
        self.resources.is_some()
    }

    /// The resources; loads them synchronously if no load has finished yet.
    pub(crate) fn resources(&mut self) -> Arc<Resources> {
        let resources = self.resources.get_or_insert_with(|| Arc::new(self.place.resources()));
        resources.clone()
    }

    /// All problems found in settings and resources.
    pub(crate) fn problems(&self) -> impl Iterator<Item = &str> {
        let later = self.resources.iter().flat_map(|resources| &resources.problems);
        self.place.problems().iter().chain(later).map(String::as_str)
    }
}

impl SessionState {
    /// Holds back commands until resources are loaded.
    pub(super) fn load_resources_first(&mut self) {
        self.resources.waiting = HoldBack::EveryCommand;
        self.load_resources(LoadReason::Need);
    }

    /// Reads settings and resources again.
    pub(crate) fn reload(&mut self, requester: Requester) {
        self.pending_responses += 1;
        self.resources.waiting = HoldBack::NotUrgent;
        self.load_resources(LoadReason::Reload(requester));
    }

    /// Loads again after an extension has decided project trust.
    pub(super) fn apply_trust(&mut self, judgement: TrustDecision) {
        self.load_resources(LoadReason::TrustDecided(Box::new(judgement)));
    }

    /// Adds paths from extensions; they are read on next use.
    pub(super) fn add_extension_paths(&mut self, discovered: ExtensionPaths) {
        if self.resources.place.set_discovered(discovered) {
            self.resources.resources = None;
        }
    }

    /// Changes the folder and loads the project there. Returns whether it is another folder.
    pub(super) fn set_cwd(&mut self, cwd: PathBuf) -> bool {
        let is_other = *self.workspace.cwd != cwd;
        if is_other {
            self.workspace.cwd = Arc::new(cwd);
            self.resources.resources = None;
            self.resources.waiting = HoldBack::EveryCommand;
            self.load_resources(LoadReason::Move);
        }
        is_other
    }

    fn load_resources(&mut self, reason: LoadReason) {
        self.resources.loads_started += 1;
        let number = self.resources.loads_started;
        let (place, cwd) = (self.resources.place.clone(), self.workspace.cwd.to_path_buf());
        let again = !matches!(reason, LoadReason::Need);
        let wants_all = matches!(reason, LoadReason::Need | LoadReason::Reload(_));
        let flags = again.then(|| self.extensions.flags());
        let is_move = matches!(reason, LoadReason::Move);
        let judgement = match &reason {
            LoadReason::TrustDecided(judgement) => Some((judgement.trusted, judgement.remember)),
            _ => None,
        };
        let discovered = place.discovered().clone();
        self.tasks.spawn(async move {
            let work = tokio::task::spawn_blocking(move || {
                let place = match judgement {
                    Some((trusted, remember)) => place.with_trust_decision(trusted, remember),
                    None => place,
                };
                let place = if again { place.reread(cwd) } else { place };
                let extensions = flags.map(|flags| find(&place, &flags));
                let resources = wants_all.then(|| place.resources());
                let later = resources.iter().flat_map(|resources| &resources.problems);
                // If extensions decide trust, its problems are printed after their decision.
                let has_judges = is_move
                    && place.needs_trust_decision()
                    && extensions.iter().any(Discovery::may_decide_trust);
                let again = if again && !has_judges { place.problems() } else { &[] };
                place.print_problems(again.iter().chain(later));
                (place, resources, extensions)
            });
            let none = |why: String| (None, Some(Resources::none(why)), None);
            let (place, resources, extensions) = match tokio::time::timeout(LOOK_MAX, work).await {
                Ok(Ok((place, resources, extensions))) => {
                    (again.then_some(place), resources, extensions)
                }
                Ok(Err(crash)) => none(format!("internal error: {crash}")),
                Err(_) => none(TOO_SLOW.to_owned()),
            };
            let loaded =
                ResourcesLoaded { number, reason, place, resources, discovered, extensions };
            Input::ResourcesLoaded(Box::new(loaded))
        });
    }

    /// Stores the result of a load, and continues what waited for it.
    pub(super) fn resources_loaded(&mut self, loaded: ResourcesLoaded) {
        let ResourcesLoaded { number, reason, place, resources, discovered, extensions } = loaded;
        if number > self.resources.newest {
            self.resources.newest = number;
            let current = self.resources.place.discovered().clone();
            if let Some(place) = place {
                self.apply_settings(place.settings(), matches!(reason, LoadReason::Reload(_)));
                self.resources.place = place;
                self.resources.place.set_discovered((*current).clone());
            }
            // Paths that extensions added since are missing from it.
            let resources = resources.filter(|_| *discovered == *current);
            self.resources.resources = resources.map(Arc::new);
        }
        self.resources.waiting = HoldBack::NoCommand;
        match reason {
            LoadReason::Move => {
                self.load_for_folder(extensions);
            }
            LoadReason::Need => {}
            LoadReason::Reload(requester) => {
                self.pending_responses -= 1;
                match extensions {
                    Some(extensions) => self.reload_extensions(requester, extensions),
                    None => self.answer_reload(requester),
                }
            }
            LoadReason::TrustDecided(judgement) => self.trust_applied(*judgement, extensions),
        }
    }

    /// A reload has finished.
    pub(super) fn answer_reload(&mut self, requester: Requester) {
        let resources = self.resources.resources();
        let reply = Reply::data(&Reloaded {
            skills: resources.skills.len(),
            prompt_templates: resources.templates.len(),
            context_files: resources.context_files.len(),
            rules: resources.rules.len(),
            diagnostics: self.resources.problems().collect(),
        });
        self.respond_to(requester, Ok(()), || reply, || Value::Null);
    }

    /// Applies settings that were read again. Modes that the client has set stay, unless a reload
    /// changes the setting itself.
    fn apply_settings(&mut self, settings: Settings, is_reload: bool) {
        let before = std::mem::replace(&mut self.settings, settings);
        let after = &self.settings;
        if is_reload {
            self.modes.forget_changed(&before, after);
        }
        self.durability = after.session.durability;
        self.models.apply_settings(after);
        if before.enabled_models != after.enabled_models && !self.resources.place.has_own_models() {
            self.models.set_scope(&after.enabled_models, &mut self.diagnostics);
        }
        self.workspace.apply_settings(after);
        self.apply_modes();
        self.update_tools();
    }

    /// The system prompt; the same text as long as its parts do not change.
    pub(crate) fn system(&mut self) -> Arc<str> {
        let resources = self.resources.resources();
        let (tools, cwd) = (&self.tools(), &self.workspace.cwd);
        let prompt = self.resources.prompt.take();
        let prompt = prompt.filter(|prompt| prompt.is_of(tools, cwd, &resources));
        let prompt = prompt.unwrap_or_else(|| SystemPrompt::new(tools, cwd, &resources));
        self.resources.prompt.insert(prompt).text()
    }
}
