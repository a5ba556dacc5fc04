//! The places for sessions that are compared, and sessions in them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tiller_agent::message::Message;
use tiller_postgres::{Options, PARTITIONS, Postgres};
use tiller_session::{
    Body, DatabaseStore, Durability, FileStore, Files, NewSession, Owner, Session, SessionId, Store,
};

use crate::Bench;

/// When all entries were made.
pub const NOW: u64 = 1_794_775_156_762;

/// The places, with the durability of their sessions.
pub const FILES: Kind = Kind::Files(Durability::Os);
pub const SYNCED_FILES: Kind = Kind::Files(Durability::Entry);
pub const POSTGRES: Kind = Kind::Postgres { parameters: "" };

#[derive(Clone, Copy, Debug)]
pub enum Kind {
    Files(Durability),
    /// With these parameters of its URL.
    Postgres {
        parameters: &'static str,
    },
}

impl Kind {
    pub fn name(self) -> String {
        match self {
            Kind::Files(durability) => format!("files, `{}`", durability.name()),
            Kind::Postgres { parameters: "" } => "PostgreSQL".to_owned(),
            Kind::Postgres { parameters } => {
                format!("PostgreSQL, `{}`", parameters.trim_start_matches('?'))
            }
        }
    }
}

/// An open store.
pub struct Place {
    pub kind: Kind,
    pub store: Arc<dyn Store>,
    pub database: Option<OpenDatabase>,
    /// A working directory.
    pub cwd: PathBuf,
}

/// The database of a store.
pub struct OpenDatabase {
    pub url: String,
    pub sessions: DatabaseStore,
    postgres: Postgres,
}

impl Place {
    /// A store of its own, without sessions.
    pub fn new(bench: &Bench, kind: Kind) -> Place {
        let folder =
            tempfile::tempdir_in(bench.folder.path()).expect("a folder can be made").keep();
        let cwd = folder.join("project");
        std::fs::create_dir(&cwd).expect("a folder can be made");
        match kind {
            Kind::Files(_) => {
                let store = Arc::new(files(folder.join("sessions")));
                Place { kind, store, database: None, cwd }
            }
            Kind::Postgres { parameters } => {
                let url = bench.cluster.create_database() + parameters;
                let postgres = connect(&url);
                postgres.init(PARTITIONS).expect("the tables can be made");
                let sessions = DatabaseStore::new(Arc::new(postgres.clone()), std::env::temp_dir());
                let store = Arc::new(sessions.clone());
                let database = Some(OpenDatabase { url, sessions, postgres });
                Place { kind, store, database, cwd }
            }
        }
    }

    /// A new session, stored with its first entry.
    pub fn begin(&self) -> Session {
        let new = NewSession {
            id: SessionId::fresh(),
            cwd: self.cwd.clone(),
            parent_session: None,
            now: NOW,
        };
        let mut session = Session::new(new, self.store.storage(&self.cwd));
        session.set_durability(self.durability());
        session.append(entry(0), NOW).expect("the session can be stored");
        session
    }

    pub fn durability(&self) -> Durability {
        match self.kind {
            Kind::Files(durability) => durability,
            // It has no effect.
            Kind::Postgres { .. } => Durability::Os,
        }
    }

    /// Ends this process's ownership of sessions.
    pub fn close(self) {
        if let Some(database) = self.database {
            database.postgres.close();
        }
    }
}

/// Sessions in files of this folder.
pub fn files(root: PathBuf) -> FileStore {
    FileStore { root, chosen: None, owner: owner(), files: Files::default() }
}

/// Sessions of an existing database.
pub fn connect(url: &str) -> Postgres {
    let options = Options::read(url).expect("the URL is valid");
    Postgres::start(options, owner()).expect("the thread of the store starts")
}

fn owner() -> Owner {
    Owner {
        program: "bench".to_owned(),
        pid: std::process::id(),
        host: "here".to_owned(),
        started: "now".to_owned(),
        address: None,
    }
}

/// A message of about 1 KB. Its words can be searched, which costs a database more than the result of
/// a tool does.
pub fn entry(number: usize) -> Body {
    const BYTES: usize = 850;
    const VOCABULARY: u64 = 5_000;
    let mut state = number as u64 + 1;
    let mut text = String::new();
    while text.len() < BYTES {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let word = (state >> 33) % VOCABULARY;
        // Like names in code: `lufa17`.
        let syllables = ["lu", "fa", "ri", "mo", "te", "ka", "no", "si"];
        let [one, two] = [word % 8, word / 8 % 8].map(|at| syllables[at as usize]);
        text += &format!("{one}{two}{} ", word / 64);
    }
    Body::message(Message::user(text, Vec::new(), NOW))
}

/// The path of a session, or its address.
pub fn location(session: &Session) -> &Path {
    session.path().expect("the session is stored")
}
