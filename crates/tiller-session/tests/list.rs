//! Which sessions are listed, and in which order.
#![allow(clippy::unwrap_used)]

mod common;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use common::{NOW, answer, in_dir, new_session, say};
use expect_test::expect;
use tiller_session::list::{self, Cursor, ListQuery, Scope};
use tiller_session::paths::project_dir;
use tiller_session::{NewSession, Session, SessionId};

/// Creates a session with an id and some messages, last modified at this second.
fn make(dir: &Path, id: &str, cwd: &str, texts: &[&str], second: u64) -> PathBuf {
    let new = NewSession { id: SessionId::read(id).unwrap(), cwd: cwd.into(), ..new_session() };
    let mut session = Session::new(new, in_dir(dir));
    for text in texts {
        say(&mut session, text);
        session.append(answer("yes"), NOW).unwrap();
    }
    if texts.len() > 1 {
        session.set_name("named", NOW).unwrap();
    }
    let path = session.path().unwrap().to_owned();
    drop(session);
    touch(&path, second);
    path
}

fn page(limit: usize) -> ListQuery {
    ListQuery { limit, ..ListQuery::default() }
}

fn touch(path: &Path, second: u64) {
    let file = File::options().append(true).open(path).unwrap();
    file.set_modified(UNIX_EPOCH + Duration::from_secs(second)).unwrap();
}

#[test]
fn sessions_are_listed_newest_first() {
    let dir = tempfile::tempdir().unwrap();
    let a = project_dir(dir.path(), Path::new("/a"));
    let b = project_dir(dir.path(), Path::new("/b"));
    make(&a, "old", "/a", &["the first words\nof an old one"], 100);
    make(&a, "new", "/a", &["one", "two"], 300);
    make(&b, "other", "/b", &[&"long ".repeat(100)], 200);
    // Files that are not sessions.
    fs::write(a.join("notes.txt"), "x").unwrap();
    fs::write(a.join("empty.jsonl"), "").unwrap();
    fs::write(a.join("text.jsonl"), "hello\n").unwrap();
    fs::create_dir(a.join("folder.jsonl")).unwrap();

    let show = |scope: Scope<'_>| {
        let listing = list::list(scope, &page(10)).unwrap();
        let lines = listing.sessions.into_iter().map(|session| {
            let text = format!("{session:?}");
            text.replace(dir.path().to_str().unwrap(), "DIR") + "\n"
        });
        lines.collect::<String>()
    };
    expect![[r#"
        SessionInfo { id: "new", path: "DIR/--a--/2026-11-15T20-39-16-762Z_new.jsonl", name: Some("named"), cwd: "/a", parent_session: None, created: "2026-11-15T20:39:16.762Z", modified: "1970-01-01T00:05:00.000Z", message_count: 4, first_message: "one" }
        SessionInfo { id: "old", path: "DIR/--a--/2026-11-15T20-39-16-762Z_old.jsonl", name: None, cwd: "/a", parent_session: None, created: "2026-11-15T20:39:16.762Z", modified: "1970-01-01T00:01:40.000Z", message_count: 2, first_message: "the first words\nof an old one" }
    "#]].assert_eq(&show(Scope::Dir { dir: &a, cwd: None }));
    expect![[r#"
        SessionInfo { id: "new", path: "DIR/--a--/2026-11-15T20-39-16-762Z_new.jsonl", name: Some("named"), cwd: "/a", parent_session: None, created: "2026-11-15T20:39:16.762Z", modified: "1970-01-01T00:05:00.000Z", message_count: 4, first_message: "one" }
        SessionInfo { id: "other", path: "DIR/--b--/2026-11-15T20-39-16-762Z_other.jsonl", name: None, cwd: "/b", parent_session: None, created: "2026-11-15T20:39:16.762Z", modified: "1970-01-01T00:03:20.000Z", message_count: 2, first_message: "long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long " }
        SessionInfo { id: "old", path: "DIR/--a--/2026-11-15T20-39-16-762Z_old.jsonl", name: None, cwd: "/a", parent_session: None, created: "2026-11-15T20:39:16.762Z", modified: "1970-01-01T00:01:40.000Z", message_count: 2, first_message: "the first words\nof an old one" }
    "#]].assert_eq(&show(Scope::All { sessions: dir.path() }));
    assert_eq!(show(Scope::Dir { dir: &dir.path().join("none"), cwd: None }), "");
    assert_eq!(show(Scope::All { sessions: &dir.path().join("none") }), "");
}

#[test]
fn pages_have_no_gaps_or_duplicates() {
    let dir = tempfile::tempdir().unwrap();
    for number in 0..23u64 {
        // Some have the same modification time.
        make(dir.path(), &format!("s{number}"), "/a", &["x"], 100 + number / 4);
    }
    let scope = Scope::Dir { dir: dir.path(), cwd: None };
    let all = list::list(scope, &page(usize::MAX)).unwrap();
    assert_eq!((all.sessions.len(), all.next), (23, None));
    for limit in [1, 2, 5, 22, 23, 24] {
        let mut paged = Vec::new();
        let mut before: Option<Cursor> = None;
        loop {
            let page =
                list::list(scope, &ListQuery { before: before.clone(), ..page(limit) }).unwrap();
            assert!(page.sessions.len() <= limit);
            paged.extend(page.sessions);
            // As a client sends it back.
            let Some(next) = page.next else { break };
            before = Some(Cursor::read(&next.to_string()).unwrap());
        }
        assert_eq!(paged, all.sessions, "limit {limit}");
    }
    assert_eq!(list::list(scope, &page(0)).unwrap().sessions, []);
    assert_eq!(Cursor::read("rubbish"), None);
}

#[test]
fn shared_folder_is_filtered_by_working_directory() {
    let dir = tempfile::tempdir().unwrap();
    let mine = make(dir.path(), "mine", "/a", &["x"], 100);
    let theirs = make(dir.path(), "theirs", "/b", &["x"], 200);
    let all = Scope::Dir { dir: dir.path(), cwd: None };
    let only_a = Scope::Dir { dir: dir.path(), cwd: Some(Path::new("/a")) };
    assert_eq!(list::newest(all).unwrap(), Some(theirs));
    assert_eq!(list::newest(only_a).unwrap(), Some(mine));
    assert_eq!(list::list(only_a, &page(10)).unwrap().sessions.len(), 1);
    assert_eq!(list::find(only_a, "theirs").unwrap(), [] as [PathBuf; 0]);
}

#[test]
fn session_is_found_by_id_or_prefix() {
    let dir = tempfile::tempdir().unwrap();
    let a = project_dir(dir.path(), Path::new("/a"));
    let b = project_dir(dir.path(), Path::new("/b"));
    let ab = make(&a, "ab", "/a", &["x"], 100);
    let abc = make(&a, "abc", "/a", &["x"], 200);
    let abd = make(&b, "abd", "/b", &["x"], 300);
    let renamed = a.join("my favourite.jsonl");
    fs::rename(make(&a, "zz-top", "/a", &["x"], 400), &renamed).unwrap();
    let one = Scope::Dir { dir: &a, cwd: None };
    let all = Scope::All { sessions: dir.path() };
    assert_eq!(list::find(one, "ab").unwrap(), std::slice::from_ref(&ab));
    assert_eq!(list::find(one, "a").unwrap(), [abc.clone(), ab.clone()]);
    assert_eq!(list::find(all, "a").unwrap(), [abd.clone(), abc, ab]);
    assert_eq!(list::find(all, "abd").unwrap(), [abd]);
    assert_eq!(list::find(one, "abd").unwrap(), [] as [PathBuf; 0]);
    assert_eq!(list::find(all, "zz").unwrap(), [renamed]);
}

#[test]
fn newest_skips_files_that_are_not_sessions() {
    let dir = tempfile::tempdir().unwrap();
    let scope = Scope::Dir { dir: dir.path(), cwd: None };
    assert_eq!(list::newest(scope).unwrap(), None);
    let old = make(dir.path(), "old", "/a", &["x"], 100);
    let new = make(dir.path(), "new", "/a", &["x"], 200);
    let broken = dir.path().join("broken.jsonl");
    fs::write(&broken, "{\"type\":\"sess").unwrap();
    touch(&broken, 300);
    assert_eq!(list::newest(scope).unwrap(), Some(new));
    touch(&old, 400);
    assert_eq!(list::newest(scope).unwrap(), Some(old));
}
