//! From one session to another. Small steps are taken at once; what reads or writes a whole file
//! happens on a thread of its own, while the server goes on answering.

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::json;
use tiller_agent::event::Event;
use tiller_agent::message::UnixMs;
use tiller_js::event::{Event as Told, ShutdownReason, StartReason};
use tiller_session::{Body, Error, Forked, NewSession, Session, SessionId};

use super::asker::Asker;
use super::guests::Wish;
use super::navigation::Navigation;
use super::server::Input;
use super::state::State;
use super::wire::Reply;
use crate::conversation::Conversation;
use crate::sessions::Shelf;

/// Where to.
pub enum Change {
    /// With these entries from the start.
    New {
        parent: Option<String>,
        setup: Vec<Body>,
    },
    Switch {
        path: PathBuf,
    },
    /// Before a user message.
    Fork {
        entry_id: String,
    },
    /// Behind an entry.
    ForkAt {
        entry_id: String,
    },
    Clone,
    /// To another place in the same session.
    Navigate(Navigation),
}

/// The other session, if it could be had.
pub struct Changed {
    asker: Asker,
    result: Result<Other, String>,
}

struct Other {
    session: Session,
    /// How extensions are told of it.
    reason: StartReason,
    /// What the message said that was forked from.
    text: Option<String>,
    setup: Vec<Body>,
}

impl Other {
    fn new(session: Session, reason: StartReason) -> Other {
        Other { session, reason, text: None, setup: Vec::new() }
    }
}

/// A change that nothing stands in the way of any more.
pub struct Arrival {
    asker: Asker,
    conversation: Conversation,
    reason: StartReason,
    text: Option<String>,
    setup: Vec<Body>,
}

#[derive(Serialize)]
struct ChangeData {
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    cancelled: bool,
}

impl State {
    /// Begins a change, now that nothing runs. The answer follows at once or as [`Changed`].
    pub(super) fn change(&mut self, asker: Asker, change: Change) {
        let now = self.clock.now();
        let cwd = self.workplace.cwd.clone();
        match change {
            Change::New { parent, setup } => {
                let (id, cwd) = (SessionId::fresh(), cwd.to_path_buf());
                let new = NewSession { id, cwd, parent_session: parent, now };
                let session = Session::new(new, self.shelf.beside(self.conversation.session()));
                let other = Other { setup, ..Other::new(session, StartReason::New) };
                self.change_to(asker, Ok(other));
            }
            Change::Navigate(navigation) => self.navigate(asker, navigation),
            Change::Switch { path } if self.conversation.session().is_at(&path) => {
                self.queues.clear();
                self.answer_change(asker, Ok(None));
            }
            Change::Switch { path } => {
                let shelf = self.shelf.clone();
                self.change_slowly(asker, move || open(&shelf, &path, &cwd));
            }
            Change::Fork { entry_id } => {
                self.branch_off(asker, move |session, shelf, now| {
                    let storage = shelf.beside(session);
                    let forked = session.fork(&entry_id, SessionId::fresh(), storage, now)?;
                    let Forked { session, text } = forked;
                    Ok(Other { text: Some(text), ..Other::new(session, StartReason::Fork) })
                });
            }
            Change::ForkAt { entry_id } => self.branch_off(asker, move |session, shelf, now| {
                let storage = shelf.beside(session);
                let session = session.fork_at(&entry_id, SessionId::fresh(), storage, now)?;
                Ok(Other::new(session, StartReason::Fork))
            }),
            Change::Clone => self.branch_off(asker, |session, shelf, now| {
                let storage = shelf.beside(session);
                let session = session.clone_at_leaf(SessionId::fresh(), storage, now)?;
                Ok(Other::new(session, StartReason::Fork))
            }),
        }
    }

    /// Makes a new session out of this one. What is in a file is read from the file, elsewhere.
    fn branch_off(
        &mut self,
        asker: Asker,
        branch: impl FnOnce(&Session, &Shelf, UnixMs) -> Result<Other, Error> + Send + 'static,
    ) {
        let (shelf, now) = (self.shelf.clone(), self.clock.now());
        let session = self.conversation.session();
        match session.path().filter(|_| session.is_on_disk()).map(Path::to_owned) {
            Some(path) => self.change_slowly(asker, move || {
                let source = Session::open_read_only(&path).map_err(|err| err.to_string())?;
                branch(&source, &shelf, now).map_err(|err| err.to_string())
            }),
            None => {
                let other = branch(session, &shelf, now).map_err(|err| err.to_string());
                self.change_to(asker, other);
            }
        }
    }

    fn change_slowly(
        &mut self,
        asker: Asker,
        work: impl FnOnce() -> Result<Other, String> + Send + 'static,
    ) {
        self.opening = true;
        let inputs = self.inputs.clone();
        tokio::spawn(async move {
            let result = tokio::task::spawn_blocking(work).await;
            let result = result.unwrap_or_else(|err| Err(format!("internal error: {err}")));
            // A server that no longer listens has ended.
            inputs.send(Input::Changed(Box::new(Changed { asker, result }))).await.ok();
        });
    }

    fn change_to(&mut self, asker: Asker, result: Result<Other, String>) {
        let arrival = result.and_then(|other| {
            let Other { session, reason, text, setup } = other;
            let now = self.clock.now();
            let conversation = Conversation::resume(session, self.durability, now);
            Ok((conversation.map_err(|err| err.to_string())?, reason, text, setup))
        });
        match arrival {
            Ok((conversation, reason, text, setup)) => {
                self.take_leave(Arrival { asker, conversation, reason, text, setup });
            }
            Err(error) => self.answer_change(asker, Err(error)),
        }
    }

    /// The other session is there, or cannot be had; then this one stays.
    pub(super) fn changed(&mut self, changed: Changed) {
        self.opening = false;
        self.change_to(changed.asker, changed.result);
    }

    /// Extensions hear that this session ends while it is still there to be looked at.
    fn take_leave(&mut self, arrival: Arrival) {
        let guests = self.visitors.guests.clone();
        let Some(guests) = guests.filter(|guests| guests.hears("session_shutdown")) else {
            return self.arrive(arrival);
        };
        self.opening = true;
        let reason = match arrival.reason {
            StartReason::New => ShutdownReason::New,
            StartReason::Fork => ShutdownReason::Fork,
            StartReason::Reload => ShutdownReason::Reload,
            StartReason::Resume | StartReason::Startup => ShutdownReason::Resume,
        };
        let target_session_file =
            arrival.conversation.file().map(|file| file.display().to_string());
        let inputs = self.inputs.clone();
        tokio::spawn(async move {
            guests.tell(&Told::SessionShutdown { reason, target_session_file }).await;
            // A server that no longer listens has ended.
            inputs.send(Input::Guest(Box::new(Wish::Left(Box::new(arrival))))).await.ok();
        });
    }

    /// Extensions have taken leave of the session before.
    pub(super) fn left(&mut self, arrival: Arrival) {
        self.opening = false;
        self.arrive(arrival);
        self.go_on_if_quiet();
    }

    /// Puts the other session in the place of this one.
    fn arrive(&mut self, arrival: Arrival) {
        let Arrival { asker, conversation, reason, text, setup } = arrival;
        self.install(conversation, reason, setup);
        if self.visitors.is_moving() {
            self.visitors.movers.push((asker, text));
        } else {
            self.answer_change(asker, Ok(text));
        }
    }

    /// The session stays because an extension wants that.
    pub(super) fn stay(&mut self, asker: Asker, change: Option<&Change>) {
        let text = match change {
            Some(Change::Fork { entry_id }) => self.conversation.session().user_text(entry_id),
            _ => None,
        };
        let reply = || Reply::data(&ChangeData { text, cancelled: true });
        self.answer_asker(asker, Ok(()), reply, || json!({ "cancelled": true }));
    }

    pub(super) fn answer_change(&mut self, asker: Asker, result: Result<Option<String>, String>) {
        // The same fault under the name of the dialect it was asked in.
        let is_branch = asker.command() == Some("branch");
        let (result, text) = match result {
            Ok(text) => (Ok(()), text),
            Err(error) if is_branch && error == "Invalid entry ID for forking" => {
                (Err("Invalid entry ID for branching".to_owned()), None)
            }
            Err(error) => (Err(error), None),
        };
        let reply = || Reply::data(&ChangeData { text, cancelled: false });
        self.answer_asker(asker, result, reply, || json!({ "cancelled": false }));
    }

    fn install(&mut self, conversation: Conversation, reason: StartReason, setup: Vec<Body>) {
        let is_new = conversation.session().is_empty();
        let previous = self.conversation.file().map(|file| file.display().to_string());
        let problems = conversation.session().problems();
        let is_elsewhere = self.move_to(conversation.cwd());
        // What the client ran there has nowhere to tell of itself any more.
        self.commands.abort_all();
        self.diagnostics.extend(problems.iter().map(ToString::to_string));
        self.conversation = conversation;
        self.queues.forget();
        self.todos.forget();
        if reason == StartReason::New {
            self.choose_for_new_session();
        }
        if is_new {
            self.record_choices()
        } else {
            self.restore_choices()
        }
        for body in setup {
            self.set_up(body);
        }
        match is_elsewhere {
            true => self.await_guests(reason, previous),
            false => self.move_guests(reason, previous),
        }
    }

    /// Puts an entry into a session that has only just begun. No client hears of it.
    fn set_up(&mut self, body: Body) {
        let now = self.clock.now();
        let done = match body {
            Body::Message(message) => self.conversation.push(message, now),
            Body::SessionInfo { name } => self.conversation.set_name(&name, now).map(|_| ()),
            body => self.conversation.record(body, now).map(|_| ()),
        };
        if let Err(err) = done {
            self.emit(Event::SessionError { error: err.to_string() });
        }
    }
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
    Ok(Other::new(session, StartReason::Resume))
}
