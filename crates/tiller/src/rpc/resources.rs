//! What the server knows of the place it works in, and how it gets to know it.
//!
//! Other people's files are looked at on another thread. The first command that needs them waits
//! for that, and everything behind it waits too, so that the order stays; after that they are
//! known until a client asks for another look, or a session takes us to another folder.

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
    /// Who waits for a look to end.
    waiting: HoldBack,
    /// Looks begun. What an older one found does not replace what a newer one has.
    looks: u64,
    newest: u64,
}

/// Which commands wait for a look to end.
#[derive(Clone, Copy, PartialEq)]
enum HoldBack {
    Nobody,
    /// Those that a change of the session would hold back, too.
    NotUrgent,
    /// All of them, in order: the first has not even begun.
    Everybody,
}

/// Why somebody looks.
enum LoadReason {
    /// A command needs to know, for the first time here.
    Need,
    /// Somebody says that files have changed.
    Reload(Requester),
    /// The session works in another folder.
    Move,
    /// An extension has decided whether the project is trusted.
    Judged(Box<TrustDecision>),
}

/// What somebody saw.
pub struct ResourcesLoaded {
    number: u64,
    reason: LoadReason,
    /// Where, when settings were read again.
    place: Option<Project>,
    resources: Option<Resources>,
    /// Where extensions had said by then that there is more.
    discovered: Arc<ExtensionPaths>,
    /// The extensions there are now, where that may have changed.
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

/// A disk that has not answered by then is not waited for.
const LOOK_MAX: Duration = Duration::from_secs(10);

impl ProjectResources {
    pub(crate) fn new(place: Project) -> ProjectResources {
        let (resources, prompt) = (None, None);
        ProjectResources {
            place,
            resources,
            prompt,
            waiting: HoldBack::Nobody,
            looks: 0,
            newest: 0,
        }
    }

    pub(crate) fn is_awaited(&self) -> bool {
        self.waiting != HoldBack::Nobody
    }

    /// Whether a request has to wait until somebody has looked.
    pub(crate) fn holds_back(&self, request: &Request) -> bool {
        match self.waiting {
            HoldBack::Nobody => false,
            HoldBack::NotUrgent => {
                request.command.as_ref().is_ok_and(|command| !command.is_urgent())
            }
            HoldBack::Everybody => true,
        }
    }

    pub(crate) fn asks_for_trust(&self) -> bool {
        self.place.asks_for_trust()
    }

    pub(crate) fn is_trusted(&self) -> bool {
        self.place.is_trusted()
    }

    /// Tells the person who started tiller.
    pub(crate) fn complain(&self, problem: &str) {
        self.place.complain([problem.to_owned()].iter());
    }

    /// Says what is wrong with settings and trust, where it was put off until somebody had judged.
    pub(crate) fn tell_of_place(&self) {
        self.place.complain(self.place.problems().iter());
    }

    /// What keeps tiller from going on.
    pub(crate) fn complain_of_error(&self, error: &str) {
        self.place.say(&format!("Error: {error}"));
    }

    pub(crate) fn is_known(&self) -> bool {
        self.resources.is_some()
    }

    /// What there is. Read on the spot if nobody waited for it: that is slower, never wrong.
    pub(crate) fn resources(&mut self) -> Arc<Resources> {
        let resources = self.resources.get_or_insert_with(|| Arc::new(self.place.resources()));
        resources.clone()
    }

    /// What was found wrong, in settings and in everything else.
    pub(crate) fn problems(&self) -> impl Iterator<Item = &str> {
        let later = self.resources.iter().flat_map(|resources| &resources.problems);
        self.place.problems().iter().chain(later).map(String::as_str)
    }
}

impl SessionState {
    /// Commands wait until the place is known.
    pub(super) fn load_resources_first(&mut self) {
        self.resources.waiting = HoldBack::Everybody;
        self.load_resources(LoadReason::Need);
    }

    /// Reads settings and everything else again.
    pub(crate) fn reload(&mut self, asker: Requester) {
        self.pending_responses += 1;
        self.resources.waiting = HoldBack::NotUrgent;
        self.load_resources(LoadReason::Reload(asker));
    }

    /// Looks again, now that an extension has decided whether the project is trusted.
    pub(super) fn apply_trust(&mut self, judgement: TrustDecision) {
        self.load_resources(LoadReason::Judged(Box::new(judgement)));
    }

    /// Extensions say where there is more. It is looked at when somebody needs it.
    pub(super) fn add_extension_paths(&mut self, discovered: ExtensionPaths) {
        if self.resources.place.discover(discovered) {
            self.resources.resources = None;
        }
    }

    /// Works in this folder from now on, with what the project there brings. Whether it is another
    /// one than before.
    pub(super) fn set_cwd(&mut self, cwd: PathBuf) -> bool {
        let is_other = *self.workspace.cwd != cwd;
        if is_other {
            self.workspace.cwd = Arc::new(cwd);
            self.resources.resources = None;
            self.resources.waiting = HoldBack::Everybody;
            self.load_resources(LoadReason::Move);
        }
        is_other
    }

    fn load_resources(&mut self, reason: LoadReason) {
        self.resources.looks += 1;
        let number = self.resources.looks;
        let (place, cwd) = (self.resources.place.clone(), self.workspace.cwd.to_path_buf());
        let again = !matches!(reason, LoadReason::Need);
        let wants_all = matches!(reason, LoadReason::Need | LoadReason::Reload(_));
        let flags = again.then(|| self.extensions.flags());
        let is_move = matches!(reason, LoadReason::Move);
        let judgement = match &reason {
            LoadReason::Judged(judgement) => Some((judgement.trusted, judgement.remember)),
            _ => None,
        };
        let discovered = place.discovered().clone();
        self.tasks.spawn(async move {
            let work = tokio::task::spawn_blocking(move || {
                let place = match judgement {
                    Some((trusted, remember)) => place.judged(trusted, remember),
                    None => place,
                };
                let place = if again { place.again(cwd) } else { place };
                let extensions = flags.map(|flags| find(&place, &flags));
                let resources = wants_all.then(|| place.resources());
                let later = resources.iter().flat_map(|resources| &resources.problems);
                // Where extensions judge the project, what is said of it waits for their word.
                let has_judges = is_move
                    && place.asks_for_trust()
                    && extensions.iter().any(Discovery::has_judges);
                let again = if again && !has_judges { place.problems() } else { &[] };
                place.complain(again.iter().chain(later));
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
            let looked =
                ResourcesLoaded { number, reason, place, resources, discovered, extensions };
            Input::ResourcesLoaded(Box::new(looked))
        });
    }

    /// Takes note of what was seen, and goes on with what waited for it.
    pub(super) fn resources_loaded(&mut self, looked: ResourcesLoaded) {
        let ResourcesLoaded { number, reason, place, resources, discovered, extensions } = looked;
        if number > self.resources.newest {
            self.resources.newest = number;
            let current = self.resources.place.discovered().clone();
            if let Some(place) = place {
                self.apply_settings(place.settings(), matches!(reason, LoadReason::Reload(_)));
                self.resources.place = place;
                self.resources.place.discover((*current).clone());
            }
            // What extensions have named meanwhile is missing in it.
            let resources = resources.filter(|_| *discovered == *current);
            self.resources.resources = resources.map(Arc::new);
        }
        self.resources.waiting = HoldBack::Nobody;
        match reason {
            LoadReason::Move => {
                self.load_for_folder(extensions);
            }
            LoadReason::Need => {}
            LoadReason::Reload(asker) => {
                self.pending_responses -= 1;
                match extensions {
                    Some(extensions) => self.reload_guests(asker, extensions),
                    None => self.answer_reload(asker),
                }
            }
            LoadReason::Judged(judgement) => self.trust_applied(*judgement, extensions),
        }
    }

    /// Everything was read again.
    pub(super) fn answer_reload(&mut self, asker: Requester) {
        let resources = self.resources.resources();
        let reply = Reply::data(&Reloaded {
            skills: resources.skills.len(),
            prompt_templates: resources.templates.len(),
            context_files: resources.context_files.len(),
            rules: resources.rules.len(),
            diagnostics: self.resources.problems().collect(),
        });
        self.respond_to(asker, Ok(()), || reply, || Value::Null);
    }

    /// Applies settings that were read again. What a client has set stays, unless a reload finds
    /// that the setting itself is another one now.
    fn apply_settings(&mut self, settings: Settings, is_reload: bool) {
        let before = std::mem::replace(&mut self.settings, settings);
        let after = &self.settings;
        if is_reload {
            self.modes.forget_changed(&before, after);
        }
        self.durability = after.session.durability;
        self.models.prefer(after);
        if before.enabled_models != after.enabled_models && !self.resources.place.has_own_models() {
            self.models.set_scope(&after.enabled_models, &mut self.diagnostics);
        }
        self.workspace.prefer(after);
        self.apply_modes();
        self.take_stock();
    }

    /// What the model is told first, the same text as long as nothing it is made of changes.
    pub(crate) fn system(&mut self) -> Arc<str> {
        let resources = self.resources.resources();
        let (tools, cwd) = (&self.tools(), &self.workspace.cwd);
        let prompt = self.resources.prompt.take();
        let prompt = prompt.filter(|prompt| prompt.is_of(tools, cwd, &resources));
        let prompt = prompt.unwrap_or_else(|| SystemPrompt::new(tools, cwd, &resources));
        self.resources.prompt.insert(prompt).text()
    }
}
