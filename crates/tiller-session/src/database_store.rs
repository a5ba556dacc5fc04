//! Sessions in a database. Opening one copies its lines to this machine; from then on only appends
//! need the database.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::database::{Claim, Database, DatabasePlace, StoredSession, Watch};
use crate::entry::{Header, VERSION};
use crate::error::Error;
use crate::list::{ListQuery, Listing};
use crate::log::Log;
use crate::name::{self, SessionId};
use crate::scan::Scan;
use crate::session::{Session, Storage, StorageState, cannot_copy};
use crate::spool::Spool;
use crate::store::Store;

/// How many lines are read at a time.
const READ_LINES: u64 = 2_000;

/// Sessions in a database.
#[derive(Clone, Debug)]
pub struct DatabaseStore {
    place: DatabasePlace,
}

impl DatabaseStore {
    /// A store in this database, with local copies of open sessions in the folder `scratch`.
    pub fn new(database: Arc<dyn Database>, scratch: PathBuf) -> DatabaseStore {
        DatabaseStore { place: DatabasePlace { database, scratch } }
    }

    pub fn database(&self) -> &Arc<dyn Database> {
        &self.place.database
    }

    /// The address of a session.
    pub fn address(&self, id: &str) -> PathBuf {
        self.place.address(id)
    }

    /// The id in an address.
    pub(crate) fn id<'a>(&self, address: &'a Path) -> Result<&'a str, Error> {
        let id = address
            .to_str()
            .and_then(|text| text.strip_prefix(self.place.database.scheme())?.strip_prefix(':'));
        id.ok_or_else(|| Error::NotInDatabase(address.to_owned()))
    }

    fn load(
        &self,
        address: &Path,
        stored: &StoredSession,
        claim: Option<Box<dyn Claim>>,
    ) -> Result<Session, Error> {
        let id = self.id(address)?;
        let header = Header::read(stored.header.trim_ascii());
        let header = header.filter(|header| header.version >= VERSION);
        let header = header.ok_or_else(|| Error::NotASession(address.to_owned()))?;
        let mut bytes = (stored.header.clone() + "\n").into_bytes();
        let mut spool = Spool::new(bytes.clone(), self.place.scratch.clone());
        let mut end = bytes.len() as u64;
        let mut scan = Scan::with_header(header, stored.lines);
        let mut line = 0;
        while line < stored.lines {
            let until = stored.lines.min(line + READ_LINES);
            let lines = self.place.database.read(id, line..until)?;
            bytes.clear();
            for text in &lines {
                scan.line(text, end + bytes.len() as u64);
                bytes.extend_from_slice(text.as_bytes());
                bytes.push(b'\n');
            }
            spool.write(end, &bytes).map_err(|why| cannot_copy(address, &why))?;
            end += bytes.len() as u64;
            line = until;
        }
        let address = address.to_owned();
        let storage_state = match claim {
            Some(claim) => StorageState::Database { address, claim, is_uncertain: false },
            None => StorageState::ReadOnly { path: address },
        };
        Ok(Session::of(storage_state, Log::spooled(spool, end), scan))
    }
}

impl Store for DatabaseStore {
    fn storage(&self, _: &Path) -> Storage {
        Storage::Database(self.place.clone())
    }

    fn storage_beside(&self, session: &Session) -> Storage {
        self.storage(session.cwd())
    }

    fn location(&self, named: &Path, cwd: &Path) -> PathBuf {
        if self.id(named).is_ok() { named.to_owned() } else { cwd.join(named) }
    }

    fn may_have(&self, _: &Path) -> bool {
        // Asking takes a request: the answer comes when it is opened.
        true
    }

    fn open(&self, address: &Path) -> Result<Session, Error> {
        let (stored, claim) = self.place.database.claim(self.id(address)?)?;
        self.load(address, &stored, Some(claim))
    }

    fn open_read_only(&self, address: &Path) -> Result<Session, Error> {
        let stored = self.place.database.stored(self.id(address)?)?;
        let stored = stored.ok_or_else(|| Error::NotFound(address.to_owned()))?;
        self.load(address, &stored, None)
    }

    fn list(&self, query: &ListQuery) -> Result<Listing, Error> {
        self.place.database.list(query)
    }

    fn newest(&self, cwd: &Path) -> Result<Option<PathBuf>, Error> {
        let cwd = Some(cwd.to_owned());
        let listing = self.list(&ListQuery { cwd, limit: 1, ..ListQuery::default() })?;
        Ok(listing.sessions.into_iter().next().map(|session| session.path))
    }

    fn exact(&self, id: &SessionId, _: &Path) -> Result<Option<PathBuf>, Error> {
        // An id is used once in a database, whatever the working directory.
        let stored = self.place.database.stored(id.as_str())?;
        Ok(stored.map(|_| self.address(id.as_str())))
    }

    fn find(&self, query: &str, cwd: &Path) -> Result<PathBuf, Error> {
        if self.id(Path::new(query)).is_ok() {
            return Ok(PathBuf::from(query));
        }
        if query.contains(['/', '\\']) || query.ends_with(".jsonl") {
            return Err(Error::NotInDatabase(cwd.join(query)));
        }
        let no_match = || Error::NoMatch(query.to_owned());
        // No id has another character, and a database may not accept every one.
        if !name::may_begin_id(query) {
            return Err(no_match());
        }
        let found = self.place.database.find(query, &cwd.to_string_lossy())?;
        found.first().map(|id| self.address(id)).ok_or_else(no_match)
    }

    fn delete(&self, address: &Path) -> Result<(), Error> {
        self.place.database.delete(self.id(address)?)
    }

    fn lines_since(&self, address: &Path, line: u64) -> Result<Option<Vec<String>>, Error> {
        let id = self.id(address)?;
        let stored = self.place.database.stored(id)?;
        let stored = stored.ok_or_else(|| Error::Deleted(address.to_owned()))?;
        let range = line..stored.lines.max(line).min(line + READ_LINES);
        if range.is_empty() {
            return Ok(Some(Vec::new()));
        }
        self.place.database.read(id, range).map(Some)
    }

    fn watch(&self, address: &Path, wake: Box<dyn Fn() + Send>) -> Option<Box<dyn Watch>> {
        let id = self.id(address).ok()?;
        Some(self.place.database.watch(id, wake))
    }

    fn project_dir(&self, _: &Path, _: &Session) -> Option<PathBuf> {
        None
    }

    fn root(&self) -> Option<&Path> {
        None
    }
}
