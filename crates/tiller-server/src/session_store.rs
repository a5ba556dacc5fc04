//! The session store of a process: where sessions are stored, and whether new ones are.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tiller_agent::message::UnixMs;
use tiller_export::ExportSource;
use tiller_session::{FileStore, Files, NewSession, Owner, Session, SessionId, Storage, Store};

/// Creates sessions, and gives access to the user's stored ones.
#[derive(Clone, Debug)]
pub struct SessionStore {
    /// `--no-session`: new sessions stay in memory.
    pub persists: bool,
    /// The stored sessions. Most calls may read much: run them on a thread that may block.
    pub store: Arc<dyn Store>,
}

impl SessionStore {
    /// Stores sessions there.
    pub fn new(store: Arc<dyn Store>) -> SessionStore {
        SessionStore { persists: true, store }
    }

    /// Stores sessions in files.
    pub fn files(files: FileStore) -> SessionStore {
        SessionStore::new(Arc::new(files))
    }

    /// A store that keeps no session.
    pub fn memory() -> SessionStore {
        let owner = Owner {
            program: String::new(),
            pid: 0,
            host: String::new(),
            started: String::new(),
            address: None,
        };
        let root = PathBuf::new();
        let store = FileStore { root, chosen: None, owner, files: Files::default() };
        SessionStore { persists: false, ..SessionStore::files(store) }
    }

    /// A new, empty session.
    pub fn begin(&self, id: SessionId, cwd: &Path, parent: Option<String>, now: UnixMs) -> Session {
        let new = NewSession { id, cwd: cwd.to_owned(), parent_session: parent, now };
        Session::new(new, self.storage(cwd))
    }

    /// Where a new session of this working directory is stored.
    pub fn storage(&self, cwd: &Path) -> Storage {
        if self.persists { self.store.storage(cwd) } else { Storage::Memory }
    }

    /// Where a session that follows this one is stored: in the same folder.
    pub fn storage_beside(&self, session: &Session) -> Storage {
        if self.persists { self.store.storage_beside(session) } else { Storage::Memory }
    }

    /// Whether the locations of sessions are paths of files. Otherwise they are addresses in a
    /// database, which are compared as texts and not looked up on the disk.
    pub fn has_files(&self) -> bool {
        self.store.root().is_some()
    }

    /// Whether this session can be opened again from where it is stored.
    pub(crate) fn has(&self, session: &Session) -> bool {
        session.is_stored() && session.path().is_some_and(|path| self.store.may_have(path))
    }

    /// What an export reads. A relative location is an address: paths are made absolute first.
    pub fn export_source(&self, location: PathBuf) -> ExportSource {
        if self.has_files() || location.is_absolute() {
            ExportSource::File(location)
        } else {
            ExportSource::Database { store: self.store.clone(), address: location }
        }
    }
}
