//! Sessions in a folder that another user may have prepared, as in a cloned repository: nothing is
//! written or read through a link, and created files are private to the user.
#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use common::{NOW, begin, in_dir, new_session, owner, reopen, say};
use tiller_session::list::{self, Scope};
use tiller_session::{Error, Problem, Session, SessionId};

const HEADER: &str = r#"{"type":"session","version":3,"id":"s","timestamp":"t","cwd":"/"}"#;
const ENTRY: &str = r#"{"type":"message","id":"a","parentId":null,"timestamp":"t","message":{"role":"user","content":"hi","timestamp":1}}"#;

/// A line that a malicious repository tries to have written to a file of the user's.
const INJECTED: &str = "[core]\n\tfsmonitor = evil";

struct Repository {
    dir: tempfile::TempDir,
    session: PathBuf,
    /// A file of the user's.
    config: PathBuf,
}

/// A session whose last line is torn, and a link beside it.
fn repository(suffix: &str) -> Repository {
    let dir = tempfile::tempdir().unwrap();
    let sessions = dir.path().join("sessions");
    fs::create_dir(&sessions).unwrap();
    let session = sessions.join("x.jsonl");
    let torn = INJECTED.replace('\n', "\r");
    fs::write(&session, format!("{HEADER}\n{ENTRY}\n{torn}")).unwrap();
    let config = dir.path().join("config");
    fs::write(&config, "[user]\n").unwrap();
    symlink("../config", sessions.join(format!("x.jsonl.{suffix}"))).unwrap();
    Repository { dir, session, config }
}

#[test]
fn a_torn_tail_is_not_saved_through_a_link() {
    let repository = repository("torn");
    let mut session = reopen(&repository.session);
    assert_eq!(fs::read_to_string(&repository.config).unwrap(), "[user]\n");
    let [Problem::TornTailLeft { .. }] = session.problems()[..] else {
        panic!("{:?}", session.problems());
    };
    // The torn line stays in the file, and the session continues after it.
    say(&mut session, "more");
    drop(session);
    assert_eq!(reopen(&repository.session).len(), 2);
    assert_eq!(fs::read_to_string(&repository.config).unwrap(), "[user]\n");
}

#[test]
fn owner_note_does_not_truncate_a_links_target() {
    let repository = repository("owner");
    let session = reopen(&repository.session);
    assert_eq!(fs::read_to_string(&repository.config).unwrap(), "[user]\n");
    let note = repository.session.with_extension("jsonl.owner");
    assert!(fs::symlink_metadata(&note).unwrap().is_file(), "the link is gone, the note is there");
    assert!(matches!(
        Session::open(&repository.session, owner()),
        Err(Error::InUse { owner: Some(_), .. })
    ));
    drop(session);
    assert!(!note.exists());
    assert_eq!(fs::read_to_string(&repository.config).unwrap(), "[user]\n");
}

#[test]
fn torn_tail_is_not_saved_to_a_hard_link() {
    let repository = repository("other");
    let torn = repository.session.with_extension("jsonl.torn");
    fs::hard_link(&repository.config, &torn).unwrap();
    drop(reopen(&repository.session));
    assert_eq!(fs::read_to_string(&repository.config).unwrap(), "[user]\n");
}

#[test]
fn pipes_beside_a_session_do_not_block() {
    let repository = repository("other");
    for suffix in ["torn", "owner"] {
        let pipe = repository.session.with_extension(format!("jsonl.{suffix}"));
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
    }
    drop(reopen(&repository.session));
    let pipe = repository.dir.path().join("pipe.jsonl");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for opened in [Session::open(&pipe, owner()), Session::open_read_only(&pipe)] {
        let refused = opened.err().unwrap();
        assert!(matches!(refused, Error::NotASession(_) | Error::Read { .. }), "{refused}");
    }
}

#[test]
fn opening_a_link_for_writing_is_refused() {
    let repository = repository("other");
    let link = repository.dir.path().join("link.jsonl");
    symlink(&repository.session, &link).unwrap();
    let before = fs::read(&repository.session).unwrap();
    let refused = Session::open(&link, owner()).err().unwrap();
    assert!(matches!(refused, Error::Link(_)), "{refused}");
    assert_eq!(fs::read(&repository.session).unwrap(), before);
    // Opening its target read-only is allowed.
    assert_eq!(Session::open_read_only(&link).unwrap().len(), 1);
    let newest = list::newest(Scope::Dir { dir: repository.dir.path(), cwd: None }).unwrap();
    assert_eq!(newest, None, "nor is it found when a session is looked for");
}

#[test]
fn new_session_does_not_replace_a_link_to_an_empty_file() {
    let repository = repository("other");
    let empty = repository.dir.path().join("empty");
    fs::write(&empty, "").unwrap();
    let link = repository.dir.path().join("new.jsonl");
    symlink(&empty, &link).unwrap();
    let storage = tiller_session::Storage::File {
        path: link.clone(),
        owner: owner(),
        files: tiller_session::Files::default(),
    };
    let mut session = Session::new(new_session(), storage);
    assert!(session.append(common::user("hello"), NOW).is_err());
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(fs::read(&empty).unwrap(), b"");
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn session_files_are_private_to_the_user() {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let sessions = dir.path().join("sessions");
    let project = sessions.join("--work--");
    let mut session = begin(&project);
    let path = session.path().unwrap().to_owned();
    say(&mut session, "first");
    assert_eq!((mode(&path), mode(&project), mode(&sessions)), (0o600, 0o700, 0o700));
    assert_eq!(mode(&path.with_extension("jsonl.owner")), 0o600);
    assert_eq!(mode(dir.path()), 0o755, "a folder that was there stays as it is");
    let fork = session.clone_at_leaf(SessionId::fresh(), in_dir(&project), NOW).unwrap();
    assert_eq!(mode(fork.path().unwrap()), 0o600);
    // Torn, and deleted while open.
    drop(session);
    let whole = fs::read(&path).unwrap();
    fs::write(&path, [&whole, &b"{\"type\":"[..]].concat()).unwrap();
    let mut session = reopen(&path);
    assert_eq!(mode(&path.with_extension("jsonl.torn")), 0o600);
    fs::remove_file(&path).unwrap();
    say(&mut session, "second");
    assert_eq!(mode(&path), 0o600);
}

#[test]
fn renamed_file_is_detected_and_keeps_one_writer() {
    let dir = tempfile::tempdir().unwrap();
    let mut session = begin(dir.path());
    let path = session.path().unwrap().to_owned();
    say(&mut session, "first");
    let elsewhere = dir.path().join("elsewhere.jsonl");
    fs::rename(&path, &elsewhere).unwrap();
    let refused = session.append(common::user("second"), NOW).unwrap_err();
    assert!(matches!(refused, Error::Moved(_)), "{refused}");
    assert!(!path.exists(), "it is not written a second time");
    let in_use = Session::open(&elsewhere, owner());
    assert!(matches!(in_use, Err(Error::InUse { .. })), "it is still ours");
    fs::rename(&elsewhere, &path).unwrap();
    say(&mut session, "second");
    assert_eq!(session.problems(), []);
    assert_eq!(Session::open_read_only(&path).unwrap().len(), 2);
}

/// The file is renamed and copied back, as some programs save files: the old one still has a name.
#[test]
fn replaced_file_is_detected_while_the_old_one_has_a_name() {
    let dir = tempfile::tempdir().unwrap();
    let mut session = begin(dir.path());
    let path = session.path().unwrap().to_owned();
    say(&mut session, "first");
    let old = dir.path().join("old.jsonl");
    fs::rename(&path, &old).unwrap();
    fs::copy(&old, &path).unwrap();
    let before = fs::read(&path).unwrap();
    // Another process may write to the copy, so this session refuses to write.
    let mut other = reopen(&path);
    let refused = session.append(common::user("second"), NOW).unwrap_err();
    assert!(matches!(refused, Error::Replaced(_)), "{refused}");
    assert_eq!((fs::read(&path).unwrap(), fs::read(&old).unwrap()), (before.clone(), before));
    say(&mut other, "second");
    // The other process's note is not removed.
    drop(session);
    let refused = Session::open(&path, owner());
    assert!(matches!(refused, Err(Error::InUse { owner: Some(_), .. })));
}
