//! New, switch, fork and clone. Small steps are taken at once; reading or writing a whole file
//! happens on another thread, while the server goes on.

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::json;
use tiller_agent::event::Event;
use tiller_agent::message::UnixMs;
use tiller_js::event::{Event as ExtensionEvent, ShutdownReason, StartReason};
use tiller_session::{Body, Error, Forked, NewSession, Session, SessionId};

use super::extensions::ExtensionInput;
use super::requester::Requester;
use super::server::Input;
use super::state::SessionState;
use super::tree_navigation::Navigation;
use super::wire::Reply;
use crate::conversation::Conversation;
use crate::session_store::SessionStore;

/// The target of a session change.
pub enum SessionChange {
    /// A new session with these entries.
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
    /// After an entry.
    ForkAt {
        entry_id: String,
    },
    Clone,
    /// Another entry of the same session.
    Navigate(Navigation),
}

/// The other session, or why it cannot be opened.
pub struct SessionLoaded {
    requester: Requester,
    result: Result<LoadedSession, String>,
}

struct LoadedSession {
    session: Session,
    /// The reason in `session_start`.
    reason: StartReason,
    /// The text of the message that was forked from.
    text: Option<String>,
    setup: Vec<Body>,
}

impl LoadedSession {
    fn new(session: Session, reason: StartReason) -> LoadedSession {
        LoadedSession { session, reason, text: None, setup: Vec::new() }
    }
}

/// A session change that is about to be made.
pub struct PendingSwitch {
    requester: Requester,
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

impl SessionState {
    /// Starts a change when nothing runs. The response follows at once or after [`SessionLoaded`].
    pub(super) fn change(&mut self, requester: Requester, change: SessionChange) {
        let now = self.clock.now();
        let cwd = self.workspace.cwd.clone();
        match change {
            SessionChange::New { parent, setup } => {
                let (id, cwd) = (SessionId::fresh(), cwd.to_path_buf());
                let new = NewSession { id, cwd, parent_session: parent, now };
                let session =
                    Session::new(new, self.session_store.beside(self.conversation.session()));
                let other =
                    LoadedSession { setup, ..LoadedSession::new(session, StartReason::New) };
                self.change_to(requester, Ok(other));
            }
            SessionChange::Navigate(navigation) => self.navigate(requester, navigation),
            SessionChange::Switch { path } if self.conversation.session().is_at(&path) => {
                self.queues.clear();
                self.respond_to_change(requester, Ok(None));
            }
            SessionChange::Switch { path } => {
                let store = self.session_store.clone();
                self.load_in_background(requester, move || open(&store, &path, &cwd));
            }
            SessionChange::Fork { entry_id } => {
                self.fork_in_background(requester, move |session, store, now| {
                    let storage = store.beside(session);
                    let forked = session.fork(&entry_id, SessionId::fresh(), storage, now)?;
                    let Forked { session, text } = forked;
                    Ok(LoadedSession {
                        text: Some(text),
                        ..LoadedSession::new(session, StartReason::Fork)
                    })
                });
            }
            SessionChange::ForkAt { entry_id } => {
                self.fork_in_background(requester, move |session, store, now| {
                    let storage = store.beside(session);
                    let session = session.fork_at(&entry_id, SessionId::fresh(), storage, now)?;
                    Ok(LoadedSession::new(session, StartReason::Fork))
                })
            }
            SessionChange::Clone => self.fork_in_background(requester, |session, store, now| {
                let storage = store.beside(session);
                let session = session.clone_at_leaf(SessionId::fresh(), storage, now)?;
                Ok(LoadedSession::new(session, StartReason::Fork))
            }),
        }
    }

    /// Makes a new session out of this one. Entries in a file are read from the file, on another
    /// thread.
    fn fork_in_background(
        &mut self,
        requester: Requester,
        branch: impl FnOnce(&Session, &SessionStore, UnixMs) -> Result<LoadedSession, Error>
        + Send
        + 'static,
    ) {
        let (store, now) = (self.session_store.clone(), self.clock.now());
        let session = self.conversation.session();
        match session.path().filter(|_| session.is_on_disk()).map(Path::to_owned) {
            Some(path) => self.load_in_background(requester, move || {
                let source = Session::open_read_only(&path).map_err(|err| err.to_string())?;
                branch(&source, &store, now).map_err(|err| err.to_string())
            }),
            None => {
                let other = branch(session, &store, now).map_err(|err| err.to_string());
                self.change_to(requester, other);
            }
        }
    }

    fn load_in_background(
        &mut self,
        requester: Requester,
        work: impl FnOnce() -> Result<LoadedSession, String> + Send + 'static,
    ) {
        self.is_changing_session = true;
        self.tasks.spawn_blocking(work, |result| {
            let crashed = |crash| Err(format!("internal error: {crash}"));
            let result = result.unwrap_or_else(crashed);
            Input::SessionLoaded(Box::new(SessionLoaded { requester, result }))
        });
    }

    fn change_to(&mut self, requester: Requester, result: Result<LoadedSession, String>) {
        let switch = result.and_then(|other| {
            let LoadedSession { session, reason, text, setup } = other;
            let now = self.clock.now();
            let conversation = Conversation::resume(session, self.durability, now);
            Ok((conversation.map_err(|err| err.to_string())?, reason, text, setup))
        });
        match switch {
            Ok((conversation, reason, text, setup)) => {
                self.announce_shutdown(PendingSwitch {
                    requester,
                    conversation,
                    reason,
                    text,
                    setup,
                });
            }
            Err(error) => self.respond_to_change(requester, Err(error)),
        }
    }

    /// The other session is loaded, or cannot be; then this one stays.
    pub(super) fn session_loaded(&mut self, changed: SessionLoaded) {
        self.is_changing_session = false;
        self.change_to(changed.requester, changed.result);
    }

    /// Sends `session_shutdown` while the old session is still there.
    fn announce_shutdown(&mut self, switch: PendingSwitch) {
        let host = self.extensions.host.clone();
        let Some(host) = host.filter(|host| host.has_listener("session_shutdown")) else {
            return self.finish_switch(switch);
        };
        self.is_changing_session = true;
        let reason = match switch.reason {
            StartReason::New => ShutdownReason::New,
            StartReason::Fork => ShutdownReason::Fork,
            StartReason::Reload => ShutdownReason::Reload,
            StartReason::Resume | StartReason::Startup => ShutdownReason::Resume,
        };
        let target_session_file = switch.conversation.file().map(|file| file.display().to_string());
        self.tasks.spawn(async move {
            host.emit_and_wait(&ExtensionEvent::SessionShutdown { reason, target_session_file })
                .await;
            ExtensionInput::SessionShutdownAnnounced(Box::new(switch))
        });
    }

    /// Extensions have handled `session_shutdown`.
    pub(super) fn shutdown_announced(&mut self, switch: PendingSwitch) {
        self.is_changing_session = false;
        self.finish_switch(switch);
        self.run_deferred_if_idle();
    }

    /// Replaces the session.
    fn finish_switch(&mut self, switch: PendingSwitch) {
        let PendingSwitch { requester, conversation, reason, text, setup } = switch;
        self.replace_session(conversation, reason, setup);
        if self.extensions.is_loading() {
            self.extensions.waiting_for_ready.push((requester, text));
        } else {
            self.respond_to_change(requester, Ok(text));
        }
    }

    /// An extension has cancelled the change.
    pub(super) fn cancel_switch(&mut self, requester: Requester, change: Option<&SessionChange>) {
        let text = match change {
            Some(SessionChange::Fork { entry_id }) => {
                self.conversation.session().user_text(entry_id)
            }
            _ => None,
        };
        let reply = || Reply::data(&ChangeData { text, cancelled: true });
        self.respond_to(requester, Ok(()), reply, || json!({ "cancelled": true }));
    }

    pub(super) fn respond_to_change(
        &mut self,
        requester: Requester,
        result: Result<Option<String>, String>,
    ) {
        // The same error, in the wording of the client's level.
        let is_branch = requester.command() == Some("branch");
        let (result, text) = match result {
            Ok(text) => (Ok(()), text),
            Err(error) if is_branch && error == "Invalid entry ID for forking" => {
                (Err("Invalid entry ID for branching".to_owned()), None)
            }
            Err(error) => (Err(error), None),
        };
        let reply = || Reply::data(&ChangeData { text, cancelled: false });
        self.respond_to(requester, result, reply, || json!({ "cancelled": false }));
    }

    fn replace_session(
        &mut self,
        conversation: Conversation,
        reason: StartReason,
        setup: Vec<Body>,
    ) {
        let is_new = conversation.session().is_empty();
        let previous = self.conversation.file().map(|file| file.display().to_string());
        let problems = conversation.session().problems();
        let is_elsewhere = self.set_cwd(conversation.cwd());
        // Commands that the client ran there are not appended to another session.
        self.client_bash.abort_all();
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
            self.append_setup_entry(body);
        }
        match is_elsewhere {
            true => self.defer_load(reason, previous),
            false => self.restart_extensions(reason, previous),
        }
    }

    /// Appends an entry to a new session, without an event.
    fn append_setup_entry(&mut self, body: Body) {
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

/// Opens a stored session, unless its folder is gone.
fn open(store: &SessionStore, path: &Path, cwd: &Path) -> Result<LoadedSession, String> {
    let session = store.open(path).map_err(|err| err.to_string())?;
    if !session.cwd().is_dir() {
        return Err(format!(
            "Stored session working directory does not exist: {}\nSession file: {}\nCurrent \
             working directory: {}",
            session.cwd().display(),
            path.display(),
            cwd.display(),
        ));
    }
    Ok(LoadedSession::new(session, StartReason::Resume))
}
