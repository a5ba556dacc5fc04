//! One writer at a time, and what happens with programs that do not lock.
#![allow(clippy::unwrap_used)]

mod common;

use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use common::{NOW, begin, in_dir, new_session, owner, reopen, say, show_context, show_problems};
use expect_test::expect;
use tiller_session::{Error, Files, Owner, Problem, Session, SessionId, Storage};

const CHILD: &str = "TILLER_SESSION_LOCK_CHILD";

/// The second process that other tests start; not a test by itself.
#[test]
fn child() {
    let Ok(path) = std::env::var(CHILD) else { return };
    let owner = Owner {
        program: "tiller 9.9".into(),
        pid: 4242,
        host: "there".into(),
        started: "2026-11-15T20:00:00.000Z".into(),
        address: None,
    };
    let _session = Session::open(Path::new(&path), owner).unwrap();
    std::io::stdout().write_all(b"\nopen\n").unwrap();
    std::io::stdout().flush().unwrap();
    // Until the parent closes the pipe or kills this process.
    std::io::stdin().lines().for_each(drop);
}

#[test]
fn second_process_may_only_read_or_copy() {
    let dir = tempfile::tempdir().unwrap();
    let mut session = begin(dir.path());
    let path = session.path().unwrap().to_owned();
    say(&mut session, "hello");
    drop(session);
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture", "--test-threads=1"])
        .env(CHILD, &path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // Kept until the end, so that the child's output stays open.
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "open"));

    let refused = Session::open(&path, owner()).err().unwrap().to_string();
    assert_eq!(
        refused,
        format!(
            "Session is in use by tiller 9.9 (pid 4242 on there, started 2026-11-15T20:00:00.000Z): {}",
            path.display()
        )
    );
    let mut looked_at = Session::open_read_only(&path).unwrap();
    assert_eq!(show_context(&looked_at), "user \"hello\"\n");
    let refused = looked_at.set_name("mine", NOW);
    assert_eq!(refused.unwrap_err().to_string(), "Session is open read-only");
    let mut copy = looked_at.copy_all(new_session(), in_dir(dir.path())).unwrap();
    say(&mut copy, "my own");
    assert_eq!(copy.header().parent_session.as_deref(), path.to_str());

    // A killed process cannot remove its note, which is then ignored.
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(path.with_extension("jsonl.owner").exists());
    let session = reopen(&path);
    assert_eq!(session.problems(), []);
    drop(session);
    assert!(!path.with_extension("jsonl.owner").exists());
}

#[test]
fn session_is_locked_from_its_first_message_on() {
    let dir = tempfile::tempdir().unwrap();
    let mut session = begin(dir.path());
    let path = session.path().unwrap().to_owned();
    session.set_name("early", NOW).unwrap();
    assert!(!path.exists() && fs::read_dir(dir.path()).unwrap().count() == 0);
    assert!(session.is_at(&path));
    say(&mut session, "hello");
    assert!(matches!(Session::open(&path, owner()), Err(Error::InUse { owner: Some(_), .. })));
    let link = dir.path().join("link.jsonl");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    assert!(session.is_at(&path) && session.is_at(&link) && !session.is_at(dir.path()));
    let fork = session.clone_at_leaf(SessionId::fresh(), in_dir(dir.path()), NOW).unwrap();
    let forked_path = fork.path().unwrap().to_owned();
    assert!(matches!(Session::open(&forked_path, owner()), Err(Error::InUse { .. })));
    drop((session, fork));
    reopen(&path);
    reopen(&forked_path);
}

/// pi does not lock. Its entries become part of the tree; our leaf does not move.
#[test]
fn lines_appended_by_another_program_become_entries() {
    let dir = tempfile::tempdir().unwrap();
    let mut session = begin(dir.path());
    let path = session.path().unwrap().to_owned();
    let first = say(&mut session, "first");
    let foreign = |id: &str, text: &str| {
        format!(
            r#"{{"type":"message","id":"{id}","parentId":"{first}","timestamp":"t","message":{{"role":"user","content":"{text}","timestamp":1}}}}"#
        )
    };
    let append = |text: String| {
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    };
    append(foreign("f0000001", "foreign") + "\n" + &foreign("f0000002", "no line end"));
    let ours = say(&mut session, "second");
    assert_eq!(show_context(&session), "user \"first\"\nuser \"second\"\n");
    assert!(session.contains("f0000001") && session.contains("f0000002"));
    append("{\"type\":\"mess".into());
    say(&mut session, "third");
    expect![[r#"
        another program added 2 entries while the session was open
    "#]]
    .assert_eq(&show_problems(&session.problems()));
    let before = common::snapshot(&session);
    drop(session);
    let session = reopen(&path);
    assert_eq!(common::snapshot(&session), before);
    assert_eq!(session.children(Some(&first)).unwrap(), ["f0000001", "f0000002", &ours]);
    expect![[r#"
        line 6 is not an entry and is ignored: EOF while parsing a string at line 1 column 13
    "#]]
    .assert_eq(&show_problems(&session.problems()));
}

#[test]
fn file_deleted_while_open_is_written_again() {
    let dir = tempfile::tempdir().unwrap();
    let project = dir.path().join("project");
    let mut session = begin(&project);
    let path = session.path().unwrap().to_owned();
    say(&mut session, "first");
    fs::remove_dir_all(&project).unwrap();
    say(&mut session, "second");
    assert_eq!(session.problems(), [Problem::Restored]);
    assert!(matches!(Session::open(&path, owner()), Err(Error::InUse { owner: Some(_), .. })));
    let before = common::snapshot(&session);
    drop(session);
    assert_eq!(common::snapshot(&reopen(&path)), before);
}

#[test]
fn file_replaced_while_open_is_not_written() {
    let dir = tempfile::tempdir().unwrap();
    let mut session = begin(dir.path());
    let path = session.path().unwrap().to_owned();
    say(&mut session, "first");
    let other = dir.path().join("other");
    fs::write(&other, "somebody else's").unwrap();
    fs::rename(&other, &path).unwrap();
    let refused = session.set_name("x", NOW).unwrap_err();
    assert!(matches!(refused, Error::Replaced(_)), "{refused}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "somebody else's");
    // The session can still be read, and saved elsewhere.
    let saved = session.clone_at_leaf(SessionId::fresh(), in_dir(dir.path()), NOW).unwrap();
    assert_eq!(show_context(&saved), "user \"first\"\n");
}

#[test]
fn files_that_are_not_sessions_are_refused_and_unchanged() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("missing.jsonl");
    let refused = Session::open(&missing, owner()).err().unwrap().to_string();
    assert_eq!(refused, format!("Session file not found: {}", missing.display()));
    let contents = [
        "",
        "hello\n",
        "{\"type\":\"message\",\"id\":\"a\"}\n",
        "{\"type\":\"session\",\"version\":3}\n",
        "{\"type\":\"session\",\"id\":7}\n",
        "{\"type\":\"sess",
    ];
    for content in contents {
        let path = dir.path().join("file");
        fs::write(&path, content).unwrap();
        for opened in [Session::open(&path, owner()), Session::open_read_only(&path)] {
            let refused = opened.err().unwrap().to_string();
            let expected = format!("Session file is not a valid pi session: {}", path.display());
            assert_eq!(refused, expected, "{content}");
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), content);
    }
    let refused = Session::open(dir.path(), owner()).err().unwrap().to_string();
    assert!(refused.starts_with("Session file is not a valid pi session: "), "{refused}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn new_session_accepts_only_an_empty_or_missing_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("mine.jsonl");
    let storage = || Storage::File { path: path.clone(), owner: owner(), files: Files::default() };
    fs::write(&path, "").unwrap();
    let mut session = Session::new(new_session(), storage());
    say(&mut session, "hello");
    drop(session);
    assert_eq!(show_context(&reopen(&path)), "user \"hello\"\n");

    let before = fs::read(&path).unwrap();
    let mut second = Session::new(new_session(), storage());
    let refused = second.append(common::user("hello"), NOW).unwrap_err();
    assert!(matches!(refused, Error::Write { .. }), "{refused}");
    assert_eq!((second.len(), second.is_stored()), (0, false));
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn sessions_can_move_to_another_thread() {
    fn is_send<T: Send + 'static>() {}
    is_send::<Session>();
    is_send::<tiller_session::Syncer>();
    is_send::<Error>();
}
