//! One writer: an advisory lock on the session file, and a note beside it that says whose it is.
//!
//! The lock is the kernel's (`flock`), on the session file itself. It goes when its process goes,
//! however it ends, so there are no stale locks to judge; and pi, which does not lock, reads and
//! writes as ever. The note, `FILE.owner`, is only read to tell a second opener who is in the
//! way. One that a crash left behind means nothing and is overwritten.

use std::fmt;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::file::beside;
use crate::problem::Problem;

/// Who writes to a session. The caller knows; this crate does not ask the environment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// For example `tiller 1.0.0`.
    pub program: String,
    pub pid: u32,
    pub host: String,
    /// When the process started, as ISO time.
    pub started: String,
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Owner { program, pid, host, started } = self;
        write!(f, "{program} (pid {pid} on {host}, started {started})")
    }
}

/// The note, for as long as the lock is held. The lock itself lives in the open file, and whoever
/// has both lets go of the note first.
pub(crate) struct Note {
    path: PathBuf,
}

impl Note {
    pub(crate) fn write(session: &Path, owner: &Owner) -> Note {
        let note = Note { path: beside(session, "owner") };
        note.renew(owner);
        note
    }

    /// Writes it again, in case it went away with the session file.
    pub(crate) fn renew(&self, owner: &Owner) {
        let text = serde_json::to_string(owner).expect("an owner is plain data");
        // Without a note the lock still holds; only the refusal others get is less telling.
        drop(fs::write(&self.path, text + "\n"));
    }
}

impl Drop for Note {
    fn drop(&mut self) {
        // The file is still locked here: nobody else can have put their note in this place. If
        // removing fails, the note is a stale one, which harms nobody.
        drop(fs::remove_file(&self.path));
    }
}

/// Locks a file that is in its place, or says who holds it.
pub(crate) fn take(file: &File, path: &Path) -> Result<Option<Problem>, Error> {
    match file.try_lock() {
        Ok(()) => {
            // If there is a note, whoever wrote it died, and nobody should be told it is theirs.
            drop(fs::remove_file(beside(path, "owner")));
            Ok(None)
        }
        Err(TryLockError::WouldBlock) => {
            Err(Error::InUse { path: path.to_owned(), owner: read_note(path) })
        }
        // Some network file systems have no locks. The session is more use than the lock.
        Err(TryLockError::Error(err)) => Ok(Some(Problem::NotLocked { reason: err.to_string() })),
    }
}

/// Locks a file that nobody else knows yet, before it is moved to its place.
pub(crate) fn hold(file: &File) -> io::Result<()> {
    match file.try_lock() {
        Ok(()) | Err(TryLockError::Error(_)) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(io::ErrorKind::WouldBlock.into()),
    }
}

fn read_note(path: &Path) -> Option<Owner> {
    serde_json::from_slice(&fs::read(beside(path, "owner")).ok()?).ok()
}
