//! Serialises calls that change the same file, whatever path each of them uses for it.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use tiller_agent::mutex;
use tiller_agent::tool::Failure;
use tokio::sync::OwnedMutexGuard;
use tokio_util::sync::CancellationToken;

use crate::{blocking, os_error};

/// Exclusive access to a file until dropped.
pub(crate) struct Locked {
    /// The path with all links resolved.
    pub path: PathBuf,
    // Dropped before the entry, which then sees whether other calls are waiting.
    _turn: OwnedMutexGuard<()>,
    _entry: LockEntry,
}

/// Waits for exclusive access to a file, which need not exist.
pub(crate) async fn lock(path: PathBuf, cancel: &CancellationToken) -> Result<Locked, Failure> {
    let path =
        blocking::finish(move || real(&path).map_err(|err| os_error::failure(&err, "open", &path)))
            .await??;
    let entry = LockEntry::of(path.clone());
    let turn = tokio::select! {
        biased;
        () = cancel.cancelled() => return Err(Failure::aborted()),
        turn = entry.mutex.clone().lock_owned() => turn,
    };
    Ok(Locked { path, _turn: turn, _entry: entry })
}

type Mutexes = BTreeMap<PathBuf, Arc<tokio::sync::Mutex<()>>>;

/// Files that are being changed or waited for, and no others.
static MUTEXES: Mutex<Mutexes> = Mutex::new(Mutexes::new());

fn mutexes() -> MutexGuard<'static, Mutexes> {
    mutex::lock(&MUTEXES)
}

struct LockEntry {
    path: PathBuf,
    mutex: Arc<tokio::sync::Mutex<()>>,
}

impl LockEntry {
    fn of(path: PathBuf) -> LockEntry {
        let mutex = mutexes().entry(path.clone()).or_default().clone();
        LockEntry { path, mutex }
    }
}

impl Drop for LockEntry {
    fn drop(&mut self) {
        let mut mutexes = mutexes();
        // The table's reference and this one.
        if Arc::strong_count(&self.mutex) == 2 {
            mutexes.remove(&self.path);
        }
    }
}

/// Resolves links. Components that do not exist are kept.
pub(crate) fn real(path: &Path) -> io::Result<PathBuf> {
    // The limit of Linux.
    let mut links_left = 40;
    let mut path = path.to_owned();
    loop {
        match fs::canonicalize(&path) {
            Err(err) if err.kind() == io::ErrorKind::NotFound => (),
            done => return done,
        }
        // A dangling link resolves to the file it would create.
        match fs::read_link(&path) {
            Ok(target) if links_left > 0 => {
                links_left -= 1;
                path = path.parent().unwrap_or(Path::new("/")).join(target);
            }
            Ok(_) => return Err(io::Error::from_raw_os_error(nix::libc::ELOOP)),
            Err(_) => break,
        }
    }
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => Ok(real(parent)?.join(name)),
        _ => Ok(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lock_is_exclusive_and_its_entry_removed() {
        let dir = tempfile::tempdir().unwrap();
        let file = real(dir.path()).unwrap().join("new");
        let cancel = CancellationToken::new();
        let first = lock(file.clone(), &cancel).await.unwrap();
        let mut second = Box::pin(lock(dir.path().join("new"), &cancel));
        tokio::select! {
            biased;
            _ = &mut second => panic!("both have the lock"),
            () = async {
                // Until the second call is waiting.
                while Arc::strong_count(&mutexes()[&file]) < 4 {
                    tokio::task::yield_now().await;
                }
            } => (),
        }
        // Other files can be locked meanwhile.
        drop(lock(dir.path().join("other"), &cancel).await.unwrap());
        drop(first);
        drop(second.await.unwrap());
        assert!(!mutexes().contains_key(&file));
        assert!(!mutexes().contains_key(&file.with_file_name("other")));
    }

    #[tokio::test]
    async fn waiting_for_a_lock_can_be_cancelled() {
        let dir = tempfile::tempdir().unwrap();
        let cancel = CancellationToken::new();
        let held = lock(dir.path().join("f"), &cancel).await.unwrap();
        cancel.cancel();
        let cancelled = lock(dir.path().join("f"), &cancel).await;
        assert!(cancelled.is_err_and(|failure| failure == Failure::aborted()));
        let file = held.path.clone();
        drop(held);
        assert!(!mutexes().contains_key(&file));
    }
}
