//! One writer per session: an advisory lock on the session file, and a note beside it that names
//! the owner.
//!
//! The lock is `flock` on the session file itself. The kernel releases it when the process ends, so
//! there are no stale locks; and pi, which does not lock, can still read and write. The note,
//! `FILE.owner`, is only read to tell a second process who holds the lock. A note left behind by a
//! crash is ignored and overwritten.

use std::fmt;
use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::problem::Problem;
use crate::sibling_file::{FileId, SiblingFile};

/// Who writes to a session. Passed in by the caller, since this crate does not read the
/// environment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// For example `tiller 1.0.0`.
    pub program: String,
    pub pid: u32,
    pub host: String,
    /// When the process started, as ISO time.
    pub started: String,
    /// Where clients reach the process, if it serves several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Owner { program, pid, host, started, address } = self;
        write!(f, "{program} (pid {pid} on {host}, started {started}")?;
        match address {
            Some(address) => write!(f, ", at {address})"),
            None => write!(f, ")"),
        }
    }
}

/// The note, which exists while the lock is held. The lock belongs to the open file; the session
/// drops the note first.
pub(crate) struct LockNote {
    session: PathBuf,
    /// Kept open, so that no other file can get its inode number. None if it could not be written:
    /// the lock still holds, but a second process is not told who holds it.
    file: Option<File>,
}

impl LockNote {
    /// Writes the note beside this session file.
    pub(crate) fn write(session: &Path, id: FileId, owner: &Owner) -> LockNote {
        let mut note = LockNote { session: session.to_owned(), file: None };
        note.renew(id, owner);
        note
    }

    /// Writes the note again beside the file that is now at the session's path.
    pub(crate) fn renew(&mut self, session: FileId, owner: &Owner) {
        let text = serde_json::to_string(owner).expect("an owner is plain data") + "\n";
        let note = SiblingFile::of(&self.session, session, "owner");
        self.file = note.and_then(|note| note.replace(text.as_bytes())).ok();
    }
}

impl Drop for LockNote {
    fn drop(&mut self) {
        // Only our own note is removed: if another session file is at this path now, the note is
        // another process's. If removing fails, a stale note stays, which is ignored.
        if let (Some(file), Ok(note)) = (&self.file, SiblingFile::new(&self.session, "owner")) {
            note.remove_if_same(file).ok();
        }
    }
}

/// Locks a file at its path, or returns who holds the lock.
pub(crate) fn take(file: &File, path: &Path) -> Result<Option<Problem>, Error> {
    match file.try_lock() {
        Ok(()) => {
            // An existing note was left by a process that died. If it cannot be removed, it is
            // overwritten.
            SiblingFile::new(path, "owner").and_then(|note| note.remove()).ok();
            Ok(None)
        }
        Err(TryLockError::WouldBlock) => {
            Err(Error::InUse { path: path.to_owned(), owner: read_note(path).map(Box::new) })
        }
        // Some network file systems have no locks. The session is opened without one.
        Err(TryLockError::Error(err)) => Ok(Some(Problem::NotLocked { reason: err.to_string() })),
    }
}

/// Locks a file that has no name yet, before it is moved to its path.
pub(crate) fn hold(file: &File) -> io::Result<()> {
    match file.try_lock() {
        Ok(()) | Err(TryLockError::Error(_)) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(io::ErrorKind::WouldBlock.into()),
    }
}

fn read_note(path: &Path) -> Option<Owner> {
    serde_json::from_slice(&SiblingFile::new(path, "owner").ok()?.read().ok()?).ok()
}
