//! Why a session could not be opened or changed. The texts are sent to the client verbatim; texts
//! that pi also has are spelled as in pi.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::lock::Owner;

#[derive(Debug)]
pub enum Error {
    /// The file does not exist. Nothing was created.
    NotFound(PathBuf),
    /// The file has no session header. It was not changed.
    NotASession(PathBuf),
    /// The path is a symbolic link. Neither the link nor its target was changed.
    Link(PathBuf),
    /// Another process has the session open for writing. It can still be opened read-only, or
    /// copied.
    InUse {
        path: PathBuf,
        owner: Option<Box<Owner>>,
    },
    /// The session was opened read-only.
    ReadOnly,
    /// No entry has this id.
    EntryNotFound(String),
    /// Only a user message can be forked from.
    NotAUserMessage,
    /// The session has no entries to clone.
    NoLeaf,
    EmptyName,
    InvalidSessionId,
    /// A summary is stored as a `compaction` or `branch_summary` entry, not as a message.
    DerivedMessage,
    /// Writing failed. Nothing was recorded, in memory or on disk; the same call may succeed later.
    Write {
        path: PathBuf,
        source: io::Error,
    },
    /// The sync failed, and the line could not be removed either: it is recorded in memory and in
    /// the file, but a power failure may still lose it.
    NotSynced {
        path: PathBuf,
        source: io::Error,
    },
    Read {
        path: PathBuf,
        source: io::Error,
    },
    /// Writing to the caller's output failed.
    Output(io::Error),
    /// Another program put a different file at this path. The session is in memory and in the old
    /// file, which has no name any more; fork to save it.
    Replaced(PathBuf),
    /// Another process has claimed the session, and this one no longer writes it.
    TakenOver {
        address: PathBuf,
        owner: Option<Box<Owner>>,
    },
    /// The session was deleted from its database.
    Deleted(PathBuf),
    /// A file was named, but sessions are stored in a database.
    NotInDatabase(PathBuf),
    /// A database cannot keep this file as it is.
    NotImported {
        path: PathBuf,
        reason: String,
    },
    /// The folders of sessions could not be read.
    List {
        what: &'static str,
        reason: String,
    },
    /// No stored session matches.
    NoMatch(String),
    /// The database could not be read or written. If writing failed, nothing was recorded.
    Database {
        /// What was tried, for people: `cannot store session postgres:ID`.
        task: String,
        reason: String,
    },
    /// Another program renamed the file. Appending fails until it is renamed back.
    Moved(PathBuf),
}

impl Error {
    pub(crate) fn write(path: &Path) -> impl FnOnce(io::Error) -> Error {
        let path = path.to_owned();
        move |source| Error::Write { path, source }
    }

    pub(crate) fn read(path: &Path) -> impl FnOnce(io::Error) -> Error {
        let path = path.to_owned();
        move |source| match source.kind() {
            io::ErrorKind::NotFound => Error::NotFound(path),
            io::ErrorKind::IsADirectory => Error::NotASession(path),
            _ => Error::Read { path, source },
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NotFound(path) => write!(f, "Session file not found: {}", path.display()),
            Error::NotASession(path) => {
                write!(f, "Session file is not a valid pi session: {}", path.display())
            }
            Error::Link(path) => write!(
                f,
                "Session file is a symbolic link: {}. Open the file it points to",
                path.display()
            ),
            Error::InUse { path, owner: Some(owner) } => {
                write!(f, "Session is in use by {owner}: {}", path.display())
            }
            Error::InUse { path, owner: None } => {
                write!(f, "Session is in use by another process: {}", path.display())
            }
            Error::ReadOnly => write!(f, "Session is open read-only"),
            Error::EntryNotFound(id) => write!(f, "Entry not found: {id}"),
            Error::NotAUserMessage => write!(f, "Invalid entry ID for forking"),
            Error::NoLeaf => write!(f, "Cannot clone session: no current entry selected"),
            Error::EmptyName => write!(f, "Session name cannot be empty"),
            Error::InvalidSessionId => write!(
                f,
                "Session id must be non-empty, contain only alphanumeric characters, '-', '_', \
                 and '.', and start and end with an alphanumeric character"
            ),
            Error::DerivedMessage => write!(f, "a summary cannot be appended as a message"),
            Error::Write { path, source } => {
                write!(f, "cannot write session file {}: {source}", path.display())
            }
            Error::NotSynced { path, source } => {
                write!(f, "cannot sync session file {}: {source}", path.display())
            }
            Error::Read { path, source } => {
                write!(f, "cannot read session file {}: {source}", path.display())
            }
            Error::Output(source) => write!(f, "cannot write the response: {source}"),
            Error::Replaced(path) => {
                write!(f, "session file was replaced by another program: {}", path.display())
            }
            Error::TakenOver { address, owner } => {
                match owner {
                    Some(owner) => write!(f, "Session was taken over by {owner}")?,
                    None => write!(f, "Session was taken over by another process")?,
                }
                write!(f, ": {}. This process no longer writes it", address.display())
            }
            Error::Deleted(address) => write!(f, "Session was deleted: {}", address.display()),
            Error::NotInDatabase(path) => write!(
                f,
                "Sessions are stored in a database, and {path} is a file: move it there with \
                 `tiller session import {path}`",
                path = path.display()
            ),
            Error::NotImported { path, reason } => write!(
                f,
                "cannot import {path}: {reason}. `tiller session check {path} --repair NEW` writes \
                 what can be recovered to a new file",
                path = path.display()
            ),
            Error::List { what, reason } => write!(f, "cannot {what} sessions: {reason}"),
            Error::NoMatch(query) => write!(f, "No session found matching '{query}'"),
            Error::Database { task, reason } => write!(f, "{task}: {reason}"),
            Error::Moved(path) => {
                write!(f, "session file was moved by another program: {}", path.display())
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Write { source, .. }
            | Error::NotSynced { source, .. }
            | Error::Read { source, .. }
            | Error::Output(source) => Some(source),
            _ => None,
        }
    }
}
