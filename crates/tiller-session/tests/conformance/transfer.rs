//! Sessions are moved between files and a database without a change.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use tiller_session::list::SessionInfo;
use tiller_session::transfer::{self, Transfer};
use tiller_session::{DatabaseStore, Error, FileStore, Files, Session, Store};

use super::properties::{perform, random_act};
use super::transfer_samples::{HEADER, OLD, TYPE_LAST, kept, message, refused, refused_old};
use super::{TestStore, all, begin, listed_ids, location_of, named};
use crate::common::{NOW, Random, owner, say, show_context, snapshot};

fn database(store: &dyn TestStore, number: usize) -> DatabaseStore {
    store.database(number).expect("these laws are about databases")
}

/// A folder with a file of this content.
fn file(content: impl AsRef<[u8]>) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("session.jsonl");
    fs::write(&path, content).unwrap();
    (folder, path)
}

/// Checks that a file and a session in a database are the same to a reader.
fn check_equal(database: &DatabaseStore, address: &Path, path: &Path, what: &str) {
    let stored = database.open_read_only(address).unwrap();
    let in_file = Session::open_read_only(path).unwrap();
    assert!(snapshot(&stored) == snapshot(&in_file), "{what}");
    assert_eq!(stored.problems(), in_file.problems(), "{what}");
    assert_eq!(show_context(&stored), show_context(&in_file), "{what}");
    assert_eq!(stored.header(), in_file.header(), "{what}");
}

pub fn exported_session_opens_equal(store: &dyn TestStore) {
    let ours = database(store, 0);
    for seed in 0..store.rounds(10) {
        let mut random = Random::new(9000 + seed);
        let mut session = begin(&ours);
        let address = location_of(&session);
        for step in 0..50 {
            let act = random_act(&mut random, session.len());
            perform(&mut session, act, NOW + step);
        }
        session.persist().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/below.jsonl");
        let before = snapshot(&session);
        drop(session);
        let moved = transfer::export(&database(store, 1), &address, &path).unwrap();
        let lines = store.lines(&address).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), lines.join("\n") + "\n");
        let id = before.id.clone();
        let count = lines.len() as u64 - 1;
        assert_eq!(moved, Transfer { id, to: path.clone(), lines: count });
        check_equal(&ours, &address, &path, "read-only");
        let session = Session::open(&path, owner()).unwrap();
        assert_eq!(snapshot(&session), before, "seed {seed}");
        drop(session);
        let left = fs::read_dir(path.parent().unwrap()).unwrap().count();
        assert_eq!(left, 1, "only the session is left");
    }
}

pub fn imported_session_is_exported_byte_for_byte(store: &dyn TestStore) {
    let ours = database(store, 0);
    for (what, content) in kept() {
        let (folder, path) = file(&content);
        let moved = transfer::import(&ours, &path).unwrap();
        assert_eq!(moved.lines as usize, content.matches('\n').count() - 1, "{what}");
        assert_eq!(moved.to, ours.address(&moved.id), "{what}");
        assert!(store.lines(&moved.to).unwrap().join("\n") + "\n" == content, "{what}");
        check_equal(&ours, &moved.to, &path, what);
        let back = folder.path().join("back.jsonl");
        transfer::export(&database(store, 1), &moved.to, &back).unwrap();
        assert!(fs::read_to_string(&back).unwrap() == content, "{what}");
        assert!(fs::read_to_string(&path).unwrap() == content, "the file stays: {what}");
        // It can be written at once.
        let mut session = store.process(1).open(&moved.to).unwrap();
        say(&mut session, "goes on");
        super::check_equal_to_stored(store, &session);
        drop(session);
        ours.delete(&moved.to).unwrap();
    }
}

/// The same information, except for the location and the time. A database keeps no zeros in names.
fn comparable(session: SessionInfo) -> SessionInfo {
    let without_zeros = |text: String| text.replace('\0', "");
    SessionInfo {
        path: PathBuf::new(),
        modified: String::new(),
        name: session.name.map(without_zeros),
        first_message: without_zeros(session.first_message),
        ..session
    }
}

pub fn imported_session_is_listed_like_its_file(store: &dyn TestStore) {
    let ours = database(store, 0);
    for (what, content) in kept().into_iter().filter(|(what, _)| *what != TYPE_LAST) {
        let (folder, path) = file(&content);
        let chosen = Some(folder.path().to_owned());
        let root = folder.path().join("all");
        let files = FileStore { root, chosen, owner: owner(), files: Files::default() };
        let moved = transfer::import(&ours, &path).unwrap();
        let words = ["first", "seen", "here", "zero", "name", "title", "long", "third garbage"];
        let texts = words.map(|word| Some(word.to_owned()));
        for text in [None].into_iter().chain(texts) {
            let query = tiller_session::list::ListQuery { text: text.clone(), ..all() };
            let list = |store: &dyn Store| -> Vec<SessionInfo> {
                store.list(&query).unwrap().sessions.into_iter().map(comparable).collect()
            };
            assert_eq!(list(&ours), list(&files), "{what}, with {text:?}");
        }
        ours.delete(&moved.to).unwrap();
    }
}

pub fn exported_session_is_imported_again_unchanged(store: &dyn TestStore) {
    let ours = database(store, 0);
    for seed in 0..store.rounds(5) {
        let mut random = Random::new(9500 + seed);
        let mut session = begin(&ours);
        let address = location_of(&session);
        say(&mut session, "begin");
        // More lines than are moved at once.
        for step in 0..if seed == 0 { 2100 } else { 50 } {
            let act = random_act(&mut random, session.len() % 100);
            perform(&mut session, act, NOW + step);
        }
        let before = snapshot(&session);
        drop(session);
        let lines = store.lines(&address).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("session.jsonl");
        transfer::export(&ours, &address, &path).unwrap();
        ours.delete(&address).unwrap();
        let moved = transfer::import(&database(store, 1), &path).unwrap();
        assert_eq!((moved.to, moved.lines as usize), (address.clone(), lines.len() - 1));
        assert!(store.lines(&address).unwrap() == lines, "seed {seed}");
        assert!(snapshot(&ours.open(&address).unwrap()) == before, "seed {seed}");
    }
}

/// Entries of version 1 get ids by chance, so two migrations differ in them.
pub fn old_version_is_migrated(store: &dyn TestStore) {
    let ours = database(store, 0);
    for (what, content) in OLD {
        let (folder, path) = file(content);
        let moved = transfer::import(&ours, &path).unwrap();
        let stored = ours.open_read_only(&moved.to).unwrap();
        let migrated = Session::open_read_only(&path).unwrap();
        assert_eq!(show_context(&stored), show_context(&migrated), "{what}");
        assert_eq!((stored.len(), stored.name()), (migrated.len(), migrated.name()));
        assert_eq!(stored.problems(), migrated.problems(), "{what}");
        assert_eq!(stored.header(), migrated.header(), "{what}");
        assert_eq!(fs::read_to_string(&path).unwrap(), content, "the file stays");
        let back = folder.path().join("back.jsonl");
        transfer::export(&ours, &moved.to, &back).unwrap();
        check_equal(&ours, &moved.to, &back, what);
        let (first, _) = content.split_once('\n').unwrap();
        assert_ne!(store.lines(&moved.to).unwrap()[0], first, "{what}");
    }
}

pub fn session_is_exported_while_it_is_written(store: &dyn TestStore) {
    let ours = database(store, 0);
    let mut session = begin(&ours);
    let address = location_of(&session);
    say(&mut session, "first");
    let folder = tempfile::tempdir().unwrap();
    for number in 0..5 {
        let path = folder.path().join(format!("{number}.jsonl"));
        transfer::export(&database(store, 1), &address, &path).unwrap();
        let exported = Session::open_read_only(&path).unwrap();
        assert_eq!(snapshot(&exported), snapshot(&session));
        say(&mut session, "more");
    }
}

fn check_refused(store: &dyn TestStore, what: &str, content: &[u8], reason: &str) {
    let ours = database(store, 0);
    let (_folder, path) = file(content);
    let error = transfer::import(&ours, &path).unwrap_err();
    let text = error.to_string();
    assert!(text.contains(reason), "{what}: {text}");
    assert!(text.contains(path.to_str().unwrap()), "{what}: {text}");
    if !reason.starts_with("is not") {
        assert!(matches!(error, Error::NotImported { .. }), "{what}: {text}");
        assert!(text.contains("--repair"), "the text says what to do: {text}");
    }
    assert_eq!(fs::read(&path).unwrap(), content, "{what}");
    assert_eq!(listed_ids(&ours, &all()), [] as [String; 0], "{what}");
    assert_eq!(store.lines(&ours.address("sample")), None, "{what}");
}

pub fn file_that_cannot_be_kept_is_refused_and_nothing_is_stored(store: &dyn TestStore) {
    for (what, content, reason) in refused().into_iter().chain(refused_old()) {
        check_refused(store, what, &content, reason);
    }
    let ours = database(store, 0);
    let missing = transfer::import(&ours, "/nowhere/at/all.jsonl".as_ref()).unwrap_err();
    assert!(matches!(missing, Error::NotFound(_)), "{missing}");
    let folder = tempfile::tempdir().unwrap();
    let refused = transfer::import(&ours, folder.path()).unwrap_err();
    assert!(matches!(refused, Error::NotASession(_)), "{refused}");
    store.check_closed();
    // The id was not used up.
    let (_folder, path) = file(format!("{HEADER}\n"));
    transfer::import(&ours, &path).unwrap();
}

pub fn used_id_is_not_imported(store: &dyn TestStore) {
    let ours = database(store, 0);
    let content = format!("{HEADER}\n{}\n", message("a1", "null", "\"imported\""));
    let (_folder, path) = file(&content);
    let refused = |number: usize| {
        let error = transfer::import(&database(store, number), &path).unwrap_err().to_string();
        assert!(error.contains("there is a session with this id already"), "{error}");
        assert!(error.contains("sample"), "{error}");
    };
    let refused_by_both = || {
        refused(0);
        refused(1);
    };
    let mut session = Session::new(named("sample", "/work"), ours.storage("/work".as_ref()));
    let address = location_of(&session);
    say(&mut session, "the first one");
    let before = store.lines(&address);
    // While it is in use, here and elsewhere, and afterwards.
    refused_by_both();
    say(&mut session, "goes on");
    drop(session);
    refused_by_both();
    assert_eq!(store.lines(&address).unwrap()[..2], before.unwrap());
    assert_eq!(store.lines(&address).unwrap().len(), 3);
    ours.delete(&address).unwrap();
    transfer::import(&ours, &path).unwrap();
    refused_by_both();
    assert_eq!(store.lines(&address).unwrap().join("\n") + "\n", content);
}

pub fn existing_file_is_not_written_over(store: &dyn TestStore) {
    let ours = database(store, 0);
    let mut session = begin(&ours);
    let address = location_of(&session);
    say(&mut session, "first");
    for content in ["somebody's", ""] {
        let (folder, path) = file(content);
        let error = transfer::export(&ours, &address, &path).unwrap_err();
        assert!(matches!(error, Error::Write { .. }), "{error}");
        assert!(error.to_string().contains("File exists"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), content);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no draft is left");
        let link = folder.path().join("link.jsonl");
        std::os::unix::fs::symlink("nowhere", &link).unwrap();
        transfer::export(&ours, &address, &link).unwrap_err();
        assert!(link.is_symlink() && !folder.path().join("nowhere").exists());
    }
}

pub fn what_is_not_stored_is_not_exported(store: &dyn TestStore) {
    let ours = database(store, 0);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("session.jsonl");
    let planned = location_of(&begin(&ours));
    let error = transfer::export(&ours, &planned, &path).unwrap_err();
    assert!(matches!(error, Error::NotFound(_)), "{error}");
    let error = transfer::export(&ours, "/a/file.jsonl".as_ref(), &path).unwrap_err();
    assert!(matches!(error, Error::NotInDatabase(_)), "{error}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}
