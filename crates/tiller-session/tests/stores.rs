//! The laws of a store, for files and for a database in memory. Those of PostgreSQL are tested in
//! `tiller-postgres`.
#![allow(clippy::unwrap_used)]

mod common;
#[macro_use]
mod conformance;
#[path = "common/fake_database.rs"]
mod fake_database;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use common::owner_of;
use conformance::TestStore;
use fake_database::FakeDatabase;
use tempfile::TempDir;
use tiller_agent::message::UnixMs;
use tiller_session::{DatabaseStore, FileStore, Files, Store};

/// Sessions in files, in a folder that ends with the test.
pub struct InFiles(TempDir);

impl InFiles {
    fn new() -> InFiles {
        InFiles(tempfile::tempdir().unwrap())
    }
}

fn files_in(root: &Path, process: usize) -> FileStore {
    let (root, owner) = (root.to_owned(), owner_of(process));
    FileStore { root, chosen: None, owner, files: Files::default() }
}

impl TestStore for InFiles {
    fn process(&self, number: usize) -> Arc<dyn Store> {
        Arc::new(files_in(self.0.path(), number))
    }

    fn database(&self, _: usize) -> Option<DatabaseStore> {
        None
    }

    fn lines(&self, location: &Path) -> Option<Vec<String>> {
        let text = fs::read_to_string(location).ok()?;
        let lines = text.strip_suffix('\n').expect("the last line has an end").split('\n');
        Some(lines.map(str::to_owned).collect())
    }

    fn set_modified(&self, location: &Path, time: UnixMs) {
        let file = fs::File::options().append(true).open(location).unwrap();
        file.set_modified(UNIX_EPOCH + Duration::from_millis(time)).unwrap();
    }

    fn rounds(&self, wanted: u64) -> u64 {
        wanted
    }

    fn for_child(&self) -> Option<String> {
        Some(self.0.path().to_str().unwrap().to_owned())
    }

    fn check_closed(&self) {
        for path in files_below(self.0.path()) {
            let is_kept = ["jsonl", "torn"].iter().any(|kind| path.extension().unwrap() == *kind);
            assert!(is_kept, "no note and no draft is left: {}", path.display());
        }
    }
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let (folders, mut files): (Vec<PathBuf>, Vec<PathBuf>) =
        entries.partition(|path| path.is_dir());
    files.extend(folders.iter().flat_map(|folder| files_below(folder)));
    files
}

/// Sessions in a database in memory.
pub struct InMemory {
    database: FakeDatabase,
    scratch: TempDir,
}

impl InMemory {
    fn new() -> InMemory {
        InMemory { database: FakeDatabase::new(), scratch: tempfile::tempdir().unwrap() }
    }
}

impl TestStore for InMemory {
    fn process(&self, number: usize) -> Arc<dyn Store> {
        Arc::new(self.database(number).unwrap())
    }

    fn database(&self, number: usize) -> Option<DatabaseStore> {
        Some(self.database.process(number).store(self.scratch.path().to_owned()))
    }

    fn lines(&self, location: &Path) -> Option<Vec<String>> {
        self.database.lines(location.to_str().unwrap().strip_prefix("fake:").unwrap())
    }

    fn set_modified(&self, location: &Path, time: UnixMs) {
        let id = location.to_str().unwrap().strip_prefix("fake:").unwrap();
        self.database.set_modified(id, time);
    }

    fn rounds(&self, wanted: u64) -> u64 {
        wanted
    }

    fn for_child(&self) -> Option<String> {
        None
    }

    fn check_closed(&self) {
        assert_eq!(self.database.claimed(), [] as [String; 0]);
        assert_eq!(self.database.watched(), 0);
        let left = fs::read_dir(self.scratch.path()).unwrap().count();
        assert_eq!(left, 0, "local copies have no names");
    }
}

/// The process that a law starts and kills; not a test by itself.
#[test]
fn child() {
    conformance::crash::child(|root| Box::new(files_in(root.as_ref(), 8)));
}

mod files {
    conformance_tests! { Some(crate::InFiles::new()) }
}

mod database {
    conformance_tests! { Some(crate::InMemory::new()) }
    transfer_tests! { Some(crate::InMemory::new()) }
}
