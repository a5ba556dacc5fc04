//! Selects the session that the process starts with.

use std::io::{BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};

use tiller_agent::message::UnixMs;
use tiller_agent::model::{Model, ThinkingLevel};
use tiller_config::settings::Settings;
use tiller_server::conversation::Conversation;
use tiller_server::model_change;
use tiller_server::session_store::SessionStore;
use tiller_session::list::{ListQuery, SessionInfo};
use tiller_session::{Body, NewSession, Session, SessionId, Storage};

use crate::args::Args;
use crate::launch::NotLaunched;
use crate::usage::StartError;

pub(crate) struct StartupSession<'a> {
    pub(crate) args: &'a Args,
    pub(crate) store: &'a SessionStore,
    pub(crate) cwd: &'a Path,
    pub(crate) now: UnixMs,
}

/// How many sessions to offer for a choice.
const CHOICES: usize = 20;

impl StartupSession<'_> {
    /// The session the flags ask for, or a new one.
    pub(crate) fn session(&self, diagnostics: &mut Vec<String>) -> Result<Session, NotLaunched> {
        let Args { session, session_id, fork, resume, r#continue, .. } = self.args;
        if let Some(wanted) = session {
            return self.stored_or_new_at(wanted);
        }
        if let Some(wanted) = fork {
            return self.copy_of(wanted);
        }
        if let Some(wanted) = resume {
            let path = match wanted.as_str() {
                "" => self.choose()?,
                id => self.store.store.find(id, self.cwd)?,
            };
            return self.open(&path);
        }
        if let Some(id) = session_id {
            return self.with_id(id, diagnostics);
        }
        if *r#continue && let Some(path) = self.store.store.newest(self.cwd)? {
            return self.open(&path);
        }
        Ok(self.store.begin(SessionId::fresh(), self.cwd, None, self.now))
    }

    /// The conversation of the session. A new one begins with its name and its model.
    pub(crate) fn conversation(
        &self,
        session: Session,
        settings: &Settings,
        model: Option<&Model>,
        level: ThinkingLevel,
    ) -> Result<Conversation, NotLaunched> {
        let durability = settings.session.durability;
        let is_new = session.is_empty();
        let mut conversation = Conversation::resume(session, durability, self.now)?;
        if let Some(name) = self.args.session_name()? {
            conversation.set_name(&name, self.now)?;
        }
        if is_new {
            let level = model.map_or(level, |model| model.clamp(level));
            let model = model.map(model_change);
            for body in model.into_iter().chain([Body::ThinkingLevelChange { level }]) {
                conversation.record(body, self.now)?;
            }
        }
        Ok(conversation)
    }

    /// Flags that name a session exclude each other.
    pub(crate) fn refuse_conflicts(&self) -> Result<(), StartError> {
        let Args { session, session_id, fork, resume, r#continue, no_session, .. } = self.args;
        let given = [
            ("--session", session.is_some()),
            ("--session-id", session_id.is_some()),
            ("--fork", fork.is_some()),
            ("--resume", resume.is_some()),
            ("--continue", *r#continue),
            ("--no-session", *no_session),
        ];
        let given: Vec<&str> = given.iter().filter(|flag| flag.1).map(|flag| flag.0).collect();
        match given.as_slice() {
            [] | [_] => Ok(()),
            // `--session-id` with `--fork` sets the id of the copy.
            ["--session-id", "--fork"] => Ok(()),
            [first, others @ ..] => {
                let others = others.join(", ");
                Err(StartError::Usage(format!("{first} cannot be combined with {others}")))
            }
        }
    }

    fn open(&self, path: &Path) -> Result<Session, NotLaunched> {
        if self.args.read_only {
            return Ok(self.store.store.open_read_only(path)?);
        }
        let session = self.store.store.open(path)?;
        if !session.cwd().is_dir() {
            return Err(format!(
                "Stored session working directory does not exist: {}\nSession file: {}\nCurrent \
                 working directory: {}",
                session.cwd().display(),
                path.display(),
                self.cwd.display(),
            )
            .into());
        }
        Ok(session)
    }

    /// A missing or empty file becomes a new session.
    fn stored_or_new_at(&self, wanted: &str) -> Result<Session, NotLaunched> {
        let path = self.store.store.find(wanted, self.cwd)?;
        match self.store.store.storage(self.cwd) {
            Storage::Folder { owner, files, .. } if is_missing_or_empty(&path) => {
                let storage = Storage::File { path, owner, files };
                Ok(Session::new(self.new_session(SessionId::fresh()), storage))
            }
            _ => self.open(&path),
        }
    }

    fn copy_of(&self, wanted: &str) -> Result<Session, NotLaunched> {
        let path = self.store.store.find(wanted, self.cwd)?;
        let source = self.store.store.open_read_only(&path)?;
        let id = match &self.args.session_id {
            Some(id) => SessionId::read(id)?,
            None => SessionId::fresh(),
        };
        let parent = path.to_string_lossy().into_owned();
        let new = NewSession { parent_session: Some(parent), ..self.new_session(id) };
        Ok(source.copy_all(new, self.store.storage(self.cwd))?)
    }

    fn with_id(&self, id: &str, diagnostics: &mut Vec<String>) -> Result<Session, NotLaunched> {
        let id = SessionId::read(id)?;
        match self.store.store.exact(&id, self.cwd)? {
            Some(path) => self.open(&path),
            None => {
                diagnostics.push(format!(
                    "No project session found with id '{id}'; creating a new session with that id."
                ));
                Ok(self.store.begin(id, self.cwd, None, self.now))
            }
        }
    }

    fn new_session(&self, id: SessionId) -> NewSession {
        NewSession { id, cwd: self.cwd.to_owned(), parent_session: None, now: self.now }
    }

    /// Prompts the user to choose from this folder's sessions.
    fn choose(&self) -> Result<PathBuf, String> {
        if !std::io::stdin().is_terminal() {
            return Err("--resume needs a session id when there is no terminal to choose on; \
                        `tiller session list` shows them"
                .to_owned());
        }
        let cwd = Some(self.cwd.to_owned());
        let query = ListQuery { cwd, limit: CHOICES, ..ListQuery::default() };
        let listing = self.store.store.list(&query);
        let sessions = listing.map_err(|err| err.to_string())?.sessions;
        if sessions.is_empty() {
            return Err("there are no sessions in this folder yet".to_owned());
        }
        let mut terminal = std::io::stderr().lock();
        let shown = sessions.iter().enumerate().try_for_each(|(index, session)| {
            writeln!(terminal, "{:>3}  {}", index + 1, one_line(session))
        });
        shown
            .and_then(|()| write!(terminal, "Which one? [1] "))
            .map_err(|err| format!("cannot ask: {err}"))?;
        let mut answer = String::new();
        let read = std::io::stdin().lock().read_line(&mut answer);
        read.map_err(|err| format!("cannot read the answer: {err}"))?;
        let number = match answer.trim() {
            "" => Some(1),
            typed => typed.parse::<usize>().ok(),
        };
        let chosen = number.and_then(|number| sessions.get(number.checked_sub(1)?));
        let chosen = chosen.ok_or_else(|| format!("there is no session {}", answer.trim()))?;
        Ok(chosen.path.clone())
    }
}

pub(crate) fn is_missing_or_empty(path: &Path) -> bool {
    path.metadata().map_or(true, |metadata| metadata.len() == 0)
}

/// A session as a line in a list.
pub(crate) fn one_line(session: &SessionInfo) -> String {
    let title = session.name.as_deref().unwrap_or(&session.first_message);
    let title: String =
        title.chars().map(|c| if c.is_control() { ' ' } else { c }).take(60).collect();
    let when = session.modified.get(..16).unwrap_or_default().replace('T', " ");
    format!("{when}  {:>5} messages  {}  {title}", session.message_count, session.id)
}
