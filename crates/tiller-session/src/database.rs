//! What a database offers that stores sessions: a row per session and a row per line. The rows keep
//! the lines of a session file byte for byte, so a session can move between files and databases.
//!
//! One writer at a time: opening a session for writing *claims* it. Every append carries the claim,
//! and the database refuses those of a claim that another process has taken over.

use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use crate::entry::Header;
use crate::error::Error;
use crate::list::{ListQuery, Listing};
use crate::lock::Owner;
use crate::row::{Row, storable};

/// A database with sessions. Every call may take as long as a request over the network; it waits
/// without holding up other tasks of an asynchronous runtime.
pub trait Database: fmt::Debug + Send + Sync {
    /// The kind of database, in the address of a session: `postgres` in `postgres:ID`.
    fn scheme(&self) -> &'static str;

    /// Stores a new session with its first lines, completely or not at all, and claims it.
    fn create(
        &self,
        session: &SessionRow,
        rows: &mut dyn Iterator<Item = Result<Row<'static>, Error>>,
    ) -> Result<Box<dyn Claim>, CreateError>;

    /// Claims a stored session for writing.
    fn claim(&self, id: &str) -> Result<(StoredSession, Box<dyn Claim>), Error>;

    /// Reads a session without claiming it.
    fn stored(&self, id: &str) -> Result<Option<StoredSession>, Error>;

    /// The lines with these numbers, which are there.
    fn read(&self, id: &str, range: Range<u64>) -> Result<Vec<String>, Error>;

    /// The sessions that match, newest first.
    fn list(&self, query: &ListQuery) -> Result<Listing, Error>;

    /// The ids that are this text or begin with it: an exact match alone, or those of this working
    /// directory, newest first, before all others.
    fn find(&self, id: &str, cwd: &str) -> Result<Vec<String>, Error>;

    /// Deletes a session that no other process writes.
    fn delete(&self, id: &str) -> Result<(), Error>;

    /// Calls `wake`, from any thread, whenever the session may have new lines or was deleted, until
    /// the result is dropped.
    fn watch(&self, id: &str, wake: Box<dyn Fn() + Send>) -> Box<dyn Watch>;
}

/// A session that is followed, until this is dropped.
pub trait Watch: Send {}

/// A session as it is stored: the first line of its file, and the number of lines after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredSession {
    pub header: String,
    pub lines: u64,
}

/// What a database knows of a new session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionRow {
    pub id: String,
    pub cwd: String,
    /// The first line of its file.
    pub header: String,
    pub parent: Option<String>,
    pub name: Option<String>,
    /// Tells this attempt to create the session from those of others.
    pub token: String,
}

impl SessionRow {
    pub(crate) fn new(header: &Header, name: Option<&str>, token: &str) -> SessionRow {
        SessionRow {
            id: storable(&header.id),
            cwd: storable(&header.cwd),
            header: header.line(),
            parent: header.parent_session.as_deref().map(storable),
            name: name.map(storable),
            token: token.to_owned(),
        }
    }
}

/// The right to write a session. It ends when it is dropped.
pub trait Claim: Send {
    /// Stores rows behind the others. They are committed when this returns.
    fn append(&mut self, rows: &[Row<'_>]) -> Result<(), AppendError>;

    /// After [`AppendError::Unknown`]: makes sure that nothing of earlier attempts is stored later,
    /// and returns the lines that were stored.
    fn recover(&mut self) -> Result<Vec<String>, AppendError>;
}

/// Why rows were not stored.
#[derive(Clone, Debug, PartialEq)]
pub enum AppendError {
    /// They are not stored and will not be.
    NotStored(String),
    /// The connection was lost, and the database has not told whether they are stored.
    Unknown(String),
    /// Another process has claimed the session.
    TakenOver(Option<Owner>),
    /// The session was deleted.
    Deleted,
}

/// Why a session was not created.
#[derive(Debug)]
pub enum CreateError {
    /// There is a session with this id.
    Exists,
    /// It may have been stored all the same; another attempt with the same token replaces it.
    Failed(String),
    /// A row could not be read.
    Source(Error),
}

/// Where a session of a database is stored.
#[derive(Clone, Debug)]
pub struct DatabasePlace {
    pub(crate) database: Arc<dyn Database>,
    /// The folder of temporary files.
    pub(crate) scratch: PathBuf,
}

impl DatabasePlace {
    /// The address of a session, used where a file has its path.
    pub(crate) fn address(&self, id: &str) -> PathBuf {
        PathBuf::from(format!("{}:{id}", self.database.scheme()))
    }
}
