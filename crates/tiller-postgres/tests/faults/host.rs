//! A host inside the test's process: it takes sessions over and looks at what is there.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tiller_agent::message::Message;
use tiller_postgres::{Options, Postgres};
use tiller_session::{Body, DatabaseStore, Error, NewSession, Owner, Session, SessionId, Store};

use crate::ledger::{Ledger, text};

/// A time limit that a correct program never reaches, also on a machine that is very busy.
pub const LONG: Duration = Duration::from_secs(120);

/// A store with a name, which its entries begin with.
pub struct Host {
    pub name: String,
    pub postgres: Postgres,
    pub store: DatabaseStore,
}

/// The owner that has this name.
pub fn owner(name: &str) -> Owner {
    Owner {
        program: name.to_owned(),
        pid: std::process::id(),
        host: "here".to_owned(),
        started: "2026-01-01T00:00:00.000Z".to_owned(),
        address: None,
    }
}

/// A URL with parameters of the store.
pub fn with(url: &str, parameters: &str) -> String {
    format!("{url}?{parameters}")
}

impl Host {
    pub fn new(name: &str, url: &str) -> Host {
        let postgres = Postgres::start(Options::read(url).unwrap(), owner(name)).unwrap();
        let store = DatabaseStore::new(Arc::new(postgres.clone()), std::env::temp_dir());
        Host { name: name.to_owned(), postgres, store }
    }

    /// A session that is stored with its first message.
    pub fn session(&self, id: &str) -> Session {
        let id = SessionId::read(id).unwrap();
        let new = NewSession { id, cwd: "/work".into(), parent_session: None, now: 5 };
        Session::new(new, self.store.storage("/work".as_ref()))
    }

    /// Creates a session with this many entries.
    pub fn create(&self, ledger: &mut Ledger, entries: u64) -> Session {
        let mut session = self.session(&ledger.id);
        ledger.claim(&self.name, 0);
        self.write(&mut session, ledger, 0..entries);
        session
    }

    pub fn open(&self, ledger: &mut Ledger) -> Result<Session, Error> {
        let session = self.store.open(&ledger.address())?;
        ledger.claim(&self.name, session.lines_after_header());
        Ok(session)
    }

    /// Opens a session without a note in the ledger.
    pub fn store_open(&self, ledger: &Ledger) -> Result<Session, Error> {
        self.store.open(&ledger.address())
    }

    /// Opens a session as soon as its owner counts as dead.
    pub fn open_when_free(&self, ledger: &mut Ledger) -> Session {
        let session = until(|| match self.open(ledger) {
            Err(Error::InUse { .. }) => None,
            other => Some(other),
        });
        session.unwrap()
    }

    /// Appends entries with these numbers.
    pub fn write(&self, session: &mut Session, ledger: &mut Ledger, numbers: std::ops::Range<u64>) {
        for number in numbers {
            let id = append(session, &self.name, number).unwrap();
            ledger.acknowledge(&self.name, number, &id);
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.postgres.close();
    }
}

/// Appends an entry of a writer.
pub fn append(session: &mut Session, writer: &str, number: u64) -> Result<String, Error> {
    session.append(user(&text(writer, number, 20)), 5)
}

pub fn user(text: &str) -> Body {
    Body::message(Message::user(text, Vec::new(), 5))
}

/// Tries until there is a result.
pub fn until<T>(mut attempt: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(result) = attempt() {
            return result;
        }
        assert!(begin.elapsed() < LONG, "it takes too long");
        std::thread::sleep(Duration::from_millis(20));
    }
}
