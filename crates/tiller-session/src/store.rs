//! Where sessions are stored: in files, or in a database. Both keep the same lines and the same
//! promises, and pass the same tests (`tests/conformance`).

use std::fmt;
use std::path::{Path, PathBuf};

use crate::database::Watch;
use crate::error::Error;
use crate::list::{ListQuery, Listing};
use crate::name::SessionId;
use crate::session::{Session, Storage};

/// A place for sessions. Each has a location: the path of its file, or its address in a database.
/// Unless documented otherwise, a call may read much: run it on a thread that may block.
pub trait Store: fmt::Debug + Send + Sync {
    /// Where a new session of this working directory is stored.
    fn storage(&self, cwd: &Path) -> Storage;

    /// Where a session that follows this one is stored.
    fn storage_beside(&self, session: &Session) -> Storage;

    /// The location that a client has named. Quick.
    fn location(&self, named: &Path, cwd: &Path) -> PathBuf;

    /// Whether a session may be there: for a file, whether it exists. Quick.
    fn may_have(&self, location: &Path) -> bool;

    /// Claims a session and opens it for writing.
    fn open(&self, location: &Path) -> Result<Session, Error>;

    /// Opens a session for reading, also while another process writes it.
    fn open_read_only(&self, location: &Path) -> Result<Session, Error>;

    /// Lists the sessions that match, the newest first.
    fn list(&self, query: &ListQuery) -> Result<Listing, Error>;

    /// The most recently modified session of this working directory.
    fn newest(&self, cwd: &Path) -> Result<Option<PathBuf>, Error>;

    /// The session of this working directory with exactly this id.
    fn exact(&self, id: &SessionId, cwd: &Path) -> Result<Option<PathBuf>, Error>;

    /// The session that `--session X` means: a location, else an id or its beginning, first in this
    /// working directory and then in all.
    fn find(&self, query: &str, cwd: &Path) -> Result<PathBuf, Error>;

    /// Deletes a session that no process has open.
    fn delete(&self, location: &Path) -> Result<(), Error>;

    /// The lines of a session that another process has stored since, behind the given number of
    /// lines after the header. None: this store cannot follow other processes.
    fn lines_since(&self, location: &Path, line: u64) -> Result<Option<Vec<String>>, Error>;

    /// Calls `wake`, from any thread, whenever another process may have stored lines, until the result
    /// is dropped. None: this store cannot follow other processes. Quick.
    fn watch(&self, location: &Path, wake: Box<dyn Fn() + Send>) -> Option<Box<dyn Watch>>;

    /// The folder of a working directory's sessions, if they are files.
    fn project_dir(&self, cwd: &Path, open: &Session) -> Option<PathBuf>;

    /// The folder of all sessions, if they are files.
    fn root(&self) -> Option<&Path>;
}
