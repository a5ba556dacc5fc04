//! From one session to another. Small steps are taken at once; what reads or writes a whole file
//! happens on a thread of its own, while the server goes on answering.

use std::path::{Path, PathBuf};

use serde::Serialize;
use tiller_agent::message::UnixMs;
use tiller_js::event::StartReason;
use tiller_session::{Error, Forked, Session, SessionId};

use super::queues::Queues;
use super::server::Input;
use super::state::State;
use super::wire::{Label, Reply};
use crate::conversation::Conversation;
use crate::sessions::Shelf;

/// Where to.
pub enum Change {
    New { parent: Option<String> },
    Switch { path: PathBuf },
    Fork { entry_id: String },
    Clone,
    Navigate { entry_id: String },
}

/// The other session, if it could be had.
pub struct Changed {
    label: Label,
    result: Result<Other, String>,
}

struct Other {
    session: Session,
    /// What the message said that was forked from.
    text: Option<String>,
}

#[derive(Serialize)]
struct ChangeData {
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    cancelled: bool,
}

impl State {
    /// Begins a change, now that nothing runs. The answer follows at once or as [`Changed`].
    pub(super) fn change(&mut self, label: Label, change: Change) {
        let now = self.clock.now();
        let cwd = self.workplace.cwd.clone();
        match change {
            Change::New { parent } => {
                let session = self.shelf.begin(SessionId::fresh(), &cwd, parent, now);
                self.change_to(label, Ok(Other { session, text: None }));
            }
            Change::Navigate { entry_id } => {
                let moved = self.conversation.navigate(&entry_id, now).map(|()| {
                    self.restore_choices();
                    self.queues.clear();
                    self.todos.forget();
                    Reply::data(&ChangeData { text: None, cancelled: false })
                });
                self.settle_answer(label, moved.map_err(|err| err.to_string()));
            }
            Change::Switch { path } if self.conversation.session().is_at(&path) => {
                self.queues.clear();
                let reply = Reply::data(&ChangeData { text: None, cancelled: false });
                self.settle_answer(label, Ok(reply));
            }
            Change::Switch { path } => {
                let shelf = self.shelf.clone();
                self.change_slowly(label, move || open(&shelf, &path, &cwd));
            }
            Change::Fork { entry_id } => {
                self.branch_off(label, move |session, shelf, now| {
                    let storage = shelf.storage(session.cwd());
                    let forked = session.fork(&entry_id, SessionId::fresh(), storage, now)?;
                    let Forked { session, text } = forked;
                    Ok(Other { session, text: Some(text) })
                });
            }
            Change::Clone => self.branch_off(label, |session, shelf, now| {
                let storage = shelf.storage(session.cwd());
                let session = session.clone_at_leaf(SessionId::fresh(), storage, now)?;
                Ok(Other { session, text: None })
            }),
        }
    }

    /// Makes a new session out of this one. What is in a file is read from the file, elsewhere.
    fn branch_off(
        &mut self,
        label: Label,
        branch: impl FnOnce(&Session, &Shelf, UnixMs) -> Result<Other, Error> + Send + 'static,
    ) {
        let (shelf, now) = (self.shelf.clone(), self.clock.now());
        let session = self.conversation.session();
        match session.path().filter(|_| session.is_on_disk()).map(Path::to_owned) {
            Some(path) => self.change_slowly(label, move || {
                let source = Session::open_read_only(&path).map_err(|err| err.to_string())?;
                branch(&source, &shelf, now).map_err(|err| err.to_string())
            }),
            None => {
                let other = branch(session, &shelf, now).map_err(|err| err.to_string());
                self.change_to(label, other);
            }
        }
    }

    fn change_slowly(
        &mut self,
        label: Label,
        work: impl FnOnce() -> Result<Other, String> + Send + 'static,
    ) {
        self.opening = true;
        let inputs = self.inputs.clone();
        tokio::spawn(async move {
            let result = tokio::task::spawn_blocking(work).await;
            let result = result.unwrap_or_else(|err| Err(format!("internal error: {err}")));
            // A server that no longer listens has ended.
            inputs.send(Input::Changed(Box::new(Changed { label, result }))).await.ok();
        });
    }

    fn change_to(&mut self, label: Label, result: Result<Other, String>) {
        let (label, result) = self.changed(Changed { label, result });
        self.settle_answer(label, result);
    }

    /// Puts the other session in the place of this one. On any error this one stays.
    pub(super) fn changed(&mut self, changed: Changed) -> (Label, Result<Reply, String>) {
        self.opening = false;
        let Changed { label, result } = changed;
        let result = result.and_then(|Other { session, text }| {
            self.install(session).map_err(|err| err.to_string())?;
            Ok(Reply::data(&ChangeData { text, cancelled: false }))
        });
        // The same fault under the name of the dialect it was asked in.
        let is_branch = label.command == "branch";
        let result = result.map_err(|error| match error.as_str() {
            "Invalid entry ID for forking" if is_branch => {
                "Invalid entry ID for branching".to_owned()
            }
            _ => error,
        });
        (label, result)
    }

    /// What a client chose for one session does not outlive it.
    pub(super) fn forget_modes(&mut self) {
        let settings = &self.settings;
        self.queues = Queues::new(settings.steering_mode, settings.follow_up_mode);
        self.interrupt_mode = settings.interrupt_mode;
        self.retries.settings = settings.retry;
        self.compactions.settings = settings.compaction.clone();
    }

    fn install(&mut self, session: Session) -> Result<(), Error> {
        let is_new = session.is_empty();
        let previous = self.conversation.file().map(|file| file.display().to_string());
        let reason = match (is_new, session.header().parent_session.is_some()) {
            (true, _) => StartReason::New,
            (false, true) => StartReason::Fork,
            (false, false) => StartReason::Resume,
        };
        let problems = session.problems();
        let now = self.clock.now();
        let conversation = Conversation::resume(session, self.durability, now)?;
        self.move_to(conversation.cwd());
        self.diagnostics.extend(problems.iter().map(ToString::to_string));
        self.conversation = conversation;
        self.forget_modes();
        self.todos.forget();
        if is_new {
            self.record_choices()
        } else {
            self.restore_choices()
        }
        self.move_guests(reason, previous);
        Ok(())
    }
}

/// What a client is told when an extension wants the session to stay.
pub(super) fn cancelled(session: &Session, change: &Change) -> Reply {
    let text = match change {
        Change::Fork { entry_id } => session.user_text(entry_id),
        _ => None,
    };
    Reply::data(&ChangeData { text, cancelled: true })
}

/// Opens a stored session, unless the folder it works in is gone.
fn open(shelf: &Shelf, path: &Path, cwd: &Path) -> Result<Other, String> {
    let session = shelf.open(path).map_err(|err| err.to_string())?;
    if !session.cwd().is_dir() {
        return Err(format!(
            "Stored session working directory does not exist: {}\nSession file: {}\nCurrent \
             working directory: {}",
            session.cwd().display(),
            path.display(),
            cwd.display(),
        ));
    }
    Ok(Other { session, text: None })
}
