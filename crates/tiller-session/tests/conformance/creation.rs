//! When a session is stored for the first time, and with which lines.

use std::path::Path;

use tiller_agent::model::ThinkingLevel;
use tiller_session::{Body, FileStore, Files, NewSession, Session, Storage, Store};

use super::properties::{perform, random_act};
use super::{
    TestStore, all, begin_in, check_lines, check_stored, is_missing, listed_ids, location_of, named,
};
use crate::common::{NOW, Random, answer, ids, new_session, owner, say, snapshot, user};

fn early_entries() -> Vec<Body> {
    vec![
        Body::ModelChange { provider: "p".into(), model_id: "m".into() },
        Body::ThinkingLevelChange { level: ThinkingLevel::Low },
        Body::SessionInfo { name: "early".into() },
        Body::Custom { custom_type: "x".into(), data: Some(serde_json::json!({"a": [1, null]})) },
        Body::Label { target_id: "none".into(), label: Some("x".into()) },
    ]
}

fn check_not_stored(store: &dyn TestStore, session: &Session) {
    let location = session.path().unwrap();
    assert!(!session.is_stored());
    assert_eq!(store.lines(location), None);
    let other = store.process(1);
    assert!(is_missing(&other.open(location).err().unwrap()));
    assert!(is_missing(&other.open_read_only(location).err().unwrap()));
    assert_eq!(other.newest(session.cwd()).unwrap(), None);
    let query = tiller_session::list::ListQuery { cwd: Some(session.cwd().into()), ..all() };
    assert_eq!(listed_ids(&*other, &query), [] as [String; 0]);
}

pub fn nothing_is_stored_before_the_first_message(store: &dyn TestStore) {
    for (cwd, first) in [("/asked", user("hello")), ("/answered", answer("hello"))] {
        let ours = store.process(0);
        let mut session = begin_in(&*ours, cwd);
        for entry in early_entries() {
            session.append(entry, NOW).unwrap();
            check_not_stored(store, &session);
        }
        session.append(first, NOW).unwrap();
        assert!(session.is_stored());
        assert_eq!(session.len(), early_entries().len() + 1);
        check_lines(store, &session);
        check_stored(store, &session);
    }
}

pub fn session_that_says_nothing_is_never_stored(store: &dyn TestStore) {
    let mut session = begin_in(&*store.process(0), "/silent");
    for entry in early_entries() {
        session.append(entry, NOW).unwrap();
    }
    let location = location_of(&session);
    drop(session);
    assert_eq!(store.lines(&location), None);
    assert_eq!(listed_ids(&*store.process(1), &all()), [] as [String; 0]);
}

pub fn persisted_session_needs_no_message(store: &dyn TestStore) {
    for entries in [Vec::new(), early_entries()] {
        let mut session = begin_in(&*store.process(0), "/persisted");
        for entry in entries {
            session.append(entry, NOW).unwrap();
        }
        session.persist().unwrap();
        assert!(session.is_stored());
        session.persist().unwrap();
        let location = location_of(&session);
        check_lines(store, &session);
        check_stored(store, &session);
        session.append(Body::SessionInfo { name: "later".into() }, NOW).unwrap();
        say(&mut session, "hello");
        let before = snapshot(&session);
        drop(session);
        assert_eq!(snapshot(&store.process(1).open(&location).unwrap()), before);
    }
}

pub fn used_id_is_refused_and_the_other_session_stays(store: &dyn TestStore) {
    let (ours, theirs) = (store.process(0), store.process(1));
    let begin = |process: &dyn Store| {
        Session::new(named("same", "/work"), process.storage("/work".as_ref()))
    };
    let mut first = begin(&*ours);
    say(&mut first, "the first");
    let location = location_of(&first);
    let before = store.lines(&location).unwrap();
    for process in [&ours, &theirs] {
        let mut second = begin(&**process);
        second.append(user("the second"), NOW).unwrap_err();
        assert_eq!((second.len(), second.is_stored()), (0, false));
        second.persist().unwrap_err();
        first
            .clone_at_leaf(named("same", "/work").id, process.storage("/work".as_ref()), NOW)
            .err()
            .unwrap();
    }
    assert_eq!(store.lines(&location).unwrap(), before);
    say(&mut first, "more");
    drop(first);
    begin(&*theirs).append(user("the third"), NOW).unwrap_err();
    assert_eq!(store.process(2).open(&location).unwrap().len(), 2);
}

fn files_in(root: &Path) -> FileStore {
    FileStore { root: root.to_owned(), chosen: None, owner: owner(), files: Files::default() }
}

/// The lines with numbers in the place of the ids of entries.
fn numbered(session: &Session, lines: &[String]) -> Vec<String> {
    let ids = ids(session);
    let numbered = lines.iter().map(|line| {
        let mut line = line.clone();
        for (number, id) in ids.iter().enumerate() {
            line = line.replace(&format!("\"{id}\""), &format!("\"{number}\""));
        }
        line
    });
    numbered.collect()
}

/// The same calls, here and in files.
pub fn stored_lines_are_those_of_a_file(store: &dyn TestStore) {
    let folder = tempfile::tempdir().unwrap();
    let files = files_in(folder.path());
    for seed in 0..store.rounds(10) {
        let new = NewSession { parent_session: Some("a\"b".into()), ..new_session() };
        let cwd = new.cwd.clone();
        let mut here = Session::new(new.clone(), store.process(0).storage(&cwd));
        let mut in_file = Session::new(new, files.storage(&cwd));
        let mut random = Random::new(7000 + seed);
        for step in 0..40 {
            let act = random_act(&mut random, here.len());
            perform(&mut here, act.clone(), NOW + step);
            perform(&mut in_file, act, NOW + step);
        }
        here.persist().unwrap();
        in_file.persist().unwrap();
        let file = std::fs::read_to_string(in_file.path().unwrap()).unwrap();
        let in_file_lines: Vec<String> = file.lines().map(str::to_owned).collect();
        let lines = store.lines(here.path().unwrap()).unwrap();
        let (lines, expected) = (numbered(&here, &lines), numbered(&in_file, &in_file_lines));
        assert_eq!(lines, expected, "seed {seed}");
    }
}

/// A copy keeps the ids of its entries, so nothing at all may differ.
pub fn copied_lines_are_byte_for_byte_those_of_a_file(store: &dyn TestStore) {
    let folder = tempfile::tempdir().unwrap();
    let files = files_in(folder.path());
    for seed in 0..store.rounds(10) {
        let mut source = Session::new(new_session(), Storage::Memory);
        let mut random = Random::new(8000 + seed);
        say(&mut source, "begin");
        for step in 0..40 {
            let act = random_act(&mut random, source.len());
            perform(&mut source, act, NOW + step);
        }
        let new = new_session();
        let here = source.copy_all(new.clone(), store.process(0).storage(&new.cwd)).unwrap();
        let in_file = source.copy_all(new.clone(), files.storage(&new.cwd)).unwrap();
        let file = std::fs::read_to_string(in_file.path().unwrap()).unwrap();
        let lines = store.lines(here.path().unwrap()).unwrap();
        assert_eq!(lines.join("\n") + "\n", file, "seed {seed}");
    }
}
