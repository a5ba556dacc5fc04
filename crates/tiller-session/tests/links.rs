//! Sessions in a folder that another may have prepared, as in a cloned repository: nothing of ours
//! is written or read through a link, and what we make is for the user alone.
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

/// What a repository brings to have a line of its own written to a file of the user's.
const INJECTED: &str = "[core]\n\tfsmonitor = evil";

struct Repository {
    dir: tempfile::TempDir,
    session: PathBuf,
    /// A file of the user's.
    config: PathBuf,
}

/// A session whose last line is not finished, and a link beside it.
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
    // The piece stays where it is, and the session goes on behind it.
    say(&mut session, "more");
    drop(session);
    assert_eq!(reopen(&repository.session).len(), 2);
    assert_eq!(fs::read_to_string(&repository.config).unwrap(), "[user]\n");
}

#[test]
fn the_note_of_the_owner_does_not_empty_what_a_link_points_at() {
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
fn a_torn_tail_is_not_added_to_a_file_with_another_name() {
    let repository = repository("other");
    let torn = repository.session.with_extension("jsonl.torn");
    fs::hard_link(&repository.config, &torn).unwrap();
    drop(reopen(&repository.session));
    assert_eq!(fs::read_to_string(&repository.config).unwrap(), "[user]\n");
}

#[test]
fn pipes_beside_a_session_keep_nothing_waiting() {
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
fn a_link_is_no_session_to_write_to() {
    let repository = repository("other");
    let link = repository.dir.path().join("link.jsonl");
    symlink(&repository.session, &link).unwrap();
    let before = fs::read(&repository.session).unwrap();
    let refused = Session::open(&link, owner()).err().unwrap();
    assert!(matches!(refused, Error::Link(_)), "{refused}");
    assert_eq!(fs::read(&repository.session).unwrap(), before);
    // Looking at what it points at is another matter.
    assert_eq!(Session::open_read_only(&link).unwrap().len(), 1);
    let newest = list::newest(Scope::Dir { dir: repository.dir.path(), cwd: None }).unwrap();
    assert_eq!(newest, None, "nor is it found when a session is looked for");
}

#[test]
fn a_new_session_does_not_take_the_place_of_a_link_to_an_empty_file() {
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
fn sessions_are_for_the_user_alone() {
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
    // Torn, and deleted while it is open.
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
fn a_file_that_was_moved_is_noticed_and_has_one_writer() {
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

/// It is moved away and copied back, as some programs save a file: the old one still has a name.
#[test]
fn a_file_that_was_replaced_is_noticed_while_the_old_one_has_a_name() {
    let dir = tempfile::tempdir().unwrap();
    let mut session = begin(dir.path());
    let path = session.path().unwrap().to_owned();
    say(&mut session, "first");
    let old = dir.path().join("old.jsonl");
    fs::rename(&path, &old).unwrap();
    fs::copy(&old, &path).unwrap();
    let before = fs::read(&path).unwrap();
    // Another process may write to the copy, so we do not write at all.
    let mut other = reopen(&path);
    let refused = session.append(common::user("second"), NOW).unwrap_err();
    assert!(matches!(refused, Error::Replaced(_)), "{refused}");
    assert_eq!((fs::read(&path).unwrap(), fs::read(&old).unwrap()), (before.clone(), before));
    say(&mut other, "second");
    // Nor is the note of the other taken away.
    drop(session);
    let refused = Session::open(&path, owner());
    assert!(matches!(refused, Err(Error::InUse { owner: Some(_), .. })));
}
