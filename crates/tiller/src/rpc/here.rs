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

use super::asker::Asker;
use super::guests::Judgement;
use super::server::Input;
use super::state::State;
use super::wire::{Reply, Request};
use crate::extensions::find::{Discovery, find};
use crate::place::{Discovered, Place, Resources};
use crate::prompt::SystemPrompt;
use crate::settings::Settings;

pub(crate) struct Here {
    place: Place,
    resources: Option<Arc<Resources>>,
    prompt: Option<SystemPrompt>,
    /// Who waits for a look to end.
    waiting: Waiting,
    /// Looks begun. What an older one found does not replace what a newer one has.
    looks: u64,
    newest: u64,
}

/// Which commands wait for a look to end.
#[derive(Clone, Copy, PartialEq)]
enum Waiting {
    Nobody,
    /// Those that a change of the session would hold back, too.
    NotUrgent,
    /// All of them, in order: the first has not even begun.
    Everybody,
}

/// Why somebody looks.
enum Reason {
    /// A command needs to know, for the first time here.
    Need,
    /// Somebody says that files have changed.
    Reload(Asker),
    /// The session works in another folder.
    Move,
    /// An extension has decided whether the project is trusted.
    Judged(Box<Judgement>),
}

/// What somebody saw.
pub struct Looked {
    number: u64,
    reason: Reason,
    /// Where, when settings were read again.
    place: Option<Place>,
    resources: Option<Resources>,
    /// Where extensions had said by then that there is more.
    discovered: Arc<Discovered>,
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

impl Here {
    pub(crate) fn new(place: Place) -> Here {
        let (resources, prompt) = (None, None);
        Here { place, resources, prompt, waiting: Waiting::Nobody, looks: 0, newest: 0 }
    }

    pub(crate) fn is_awaited(&self) -> bool {
        self.waiting != Waiting::Nobody
    }

    /// Whether a request has to wait until somebody has looked.
    pub(crate) fn holds_back(&self, request: &Request) -> bool {
        match self.waiting {
            Waiting::Nobody => false,
            Waiting::NotUrgent => {
                request.command.as_ref().is_ok_and(|command| !command.is_urgent())
            }
            Waiting::Everybody => true,
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

impl State {
    /// Commands wait until the place is known.
    pub(super) fn await_place(&mut self) {
        self.here.waiting = Waiting::Everybody;
        self.look(Reason::Need);
    }

    /// Reads settings and everything else again.
    pub(crate) fn reload(&mut self, asker: Asker) {
        self.slow_answers += 1;
        self.here.waiting = Waiting::NotUrgent;
        self.look(Reason::Reload(asker));
    }

    /// Looks again, now that an extension has decided whether the project is trusted.
    pub(super) fn take_judgement(&mut self, judgement: Judgement) {
        self.look(Reason::Judged(Box::new(judgement)));
    }

    /// Extensions say where there is more. It is looked at when somebody needs it.
    pub(super) fn discover(&mut self, discovered: Discovered) {
        if self.here.place.discover(discovered) {
            self.here.resources = None;
        }
    }

    /// Works in this folder from now on, with what the project there brings. Whether it is another
    /// one than before.
    pub(super) fn move_to(&mut self, cwd: PathBuf) -> bool {
        let is_other = *self.workplace.cwd != cwd;
        if is_other {
            self.workplace.cwd = Arc::new(cwd);
            self.here.resources = None;
            self.here.waiting = Waiting::Everybody;
            self.look(Reason::Move);
        }
        is_other
    }

    fn look(&mut self, reason: Reason) {
        self.here.looks += 1;
        let number = self.here.looks;
        let (place, cwd) = (self.here.place.clone(), self.workplace.cwd.to_path_buf());
        let again = !matches!(reason, Reason::Need);
        let wants_all = matches!(reason, Reason::Need | Reason::Reload(_));
        let flags = again.then(|| self.visitors.flags());
        let is_move = matches!(reason, Reason::Move);
        let judgement = match &reason {
            Reason::Judged(judgement) => Some((judgement.trusted, judgement.remember)),
            _ => None,
        };
        let discovered = place.discovered().clone();
        let inputs = self.inputs.clone();
        tokio::spawn(async move {
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
            let looked = Looked { number, reason, place, resources, discovered, extensions };
            // A server that no longer listens has ended.
            inputs.send(Input::Looked(Box::new(looked))).await.ok();
        });
    }

    /// Takes note of what was seen, and goes on with what waited for it.
    pub(super) fn looked(&mut self, looked: Looked) {
        let Looked { number, reason, place, resources, discovered, extensions } = looked;
        if number > self.here.newest {
            self.here.newest = number;
            let current = self.here.place.discovered().clone();
            if let Some(place) = place {
                self.prefer(place.settings(), matches!(reason, Reason::Reload(_)));
                self.here.place = place;
                self.here.place.discover((*current).clone());
            }
            // What extensions have named meanwhile is missing in it.
            let resources = resources.filter(|_| *discovered == *current);
            self.here.resources = resources.map(Arc::new);
        }
        self.here.waiting = Waiting::Nobody;
        match reason {
            Reason::Move => {
                self.follow_guests(extensions);
            }
            Reason::Need => {}
            Reason::Reload(asker) => {
                self.slow_answers -= 1;
                match extensions {
                    Some(extensions) => self.reload_guests(asker, extensions),
                    None => self.answer_reload(asker),
                }
            }
            Reason::Judged(judgement) => self.judged(*judgement, extensions),
        }
    }

    /// Everything was read again.
    pub(super) fn answer_reload(&mut self, asker: Asker) {
        let resources = self.here.resources();
        let reply = Reply::data(&Reloaded {
            skills: resources.skills.len(),
            prompt_templates: resources.templates.len(),
            context_files: resources.context_files.len(),
            rules: resources.rules.len(),
            diagnostics: self.here.problems().collect(),
        });
        self.answer_asker(asker, Ok(()), || reply, || Value::Null);
    }

    /// Applies settings that were read again. What a client has set stays, unless a reload finds
    /// that the setting itself is another one now.
    fn prefer(&mut self, settings: Settings, is_reload: bool) {
        let before = std::mem::replace(&mut self.settings, settings);
        let after = &self.settings;
        if is_reload {
            self.modes.forget_changed(&before, after);
        }
        self.durability = after.session.durability;
        self.models.prefer(after);
        if before.enabled_models != after.enabled_models && !self.here.place.has_own_models() {
            self.models.set_scope(&after.enabled_models, &mut self.diagnostics);
        }
        self.workplace.prefer(after);
        self.apply_modes();
        self.take_stock();
    }

    /// What the model is told first, the same text as long as nothing it is made of changes.
    pub(crate) fn system(&mut self) -> Arc<str> {
        let resources = self.here.resources();
        let (tools, cwd) = (&self.tools(), &self.workplace.cwd);
        let prompt = self.here.prompt.take();
        let prompt = prompt.filter(|prompt| prompt.is_of(tools, cwd, &resources));
        let prompt = prompt.unwrap_or_else(|| SystemPrompt::new(tools, cwd, &resources));
        self.here.prompt.insert(prompt).text()
    }
}
