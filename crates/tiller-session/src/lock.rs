//! One writer: an advisory lock on the session file, and a note beside it that says whose it is.
//!
//! The lock is the kernel's (`flock`), on the session file itself. It goes when its process goes,
//! however it ends, so there are no stale locks to judge; and pi, which does not lock, reads and
//! writes as ever. The note, `FILE.owner`, is only read to tell a second opener who is in the
//! way. One that a crash left behind means nothing and is overwritten.

use std::fmt;
use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::beside::{Beside, FileId};
use crate::error::Error;
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

/// The note, for as long as the lock is held. The lock itself lives in the open file, and the
/// session lets go of the note first.
pub(crate) struct LockNote {
    session: PathBuf,
    /// Kept open, so that no other file can have its number. None when it could not be written:
    /// without a note the lock still holds, only the refusal that a second opener gets is less
    /// telling.
    file: Option<File>,
}

impl LockNote {
    /// Writes the note beside this very session file.
    pub(crate) fn write(session: &Path, id: FileId, owner: &Owner) -> LockNote {
        let mut note = LockNote { session: session.to_owned(), file: None };
        note.renew(id, owner);
        note
    }

    /// Writes it again beside the file that is in the session's place now.
    pub(crate) fn renew(&mut self, session: FileId, owner: &Owner) {
        let text = serde_json::to_string(owner).expect("an owner is plain data") + "\n";
        let beside = Beside::of(&self.session, session, "owner");
        self.file = beside.and_then(|note| note.replace(text.as_bytes())).ok();
    }
}

impl Drop for LockNote {
    fn drop(&mut self) {
        // Only ours: where another session file has taken the place of this one, the note there
        // is another process's. If removing fails, the note is a stale one, which is ignored.
        if let (Some(file), Ok(note)) = (&self.file, Beside::new(&self.session, "owner")) {
            note.remove_ours(file).ok();
        }
    }
}

/// Locks a file that is in its place, or says who holds it.
pub(crate) fn take(file: &File, path: &Path) -> Result<Option<Problem>, Error> {
    match file.try_lock() {
        Ok(()) => {
            // A note that is there was left by a process that died. If it stays, it is overwritten.
            Beside::new(path, "owner").and_then(|note| note.remove()).ok();
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
    serde_json::from_slice(&Beside::new(path, "owner").ok()?.read().ok()?).ok()
}
