//! Failing disks: memory always equals what a later process finds, nothing that failed is stored,
//! and appending works again once the disk does.
#![allow(clippy::unwrap_used)]

mod common;
#[path = "common/faulty.rs"]
mod faulty;

use std::fs;
use std::path::Path;
use std::sync::Arc;

use common::{NOW, answer, new_session, owner, user};
use faulty::{CODES, EIO, ENOSPC, Fault, Faulty, Taken};
use tiller_session::{Body, Durability, Error, Session, Storage};

fn begin(dir: &Path, disk: &Arc<Faulty>) -> Session {
    let storage = Storage::Folder { dir: dir.to_owned(), owner: owner(), files: disk.files() };
    Session::new(new_session(), storage)
}

/// A session with two messages on a disk that works so far.
fn session_on(dir: &Path, disk: &Arc<Faulty>) -> Session {
    let mut session = begin(dir, disk);
    session.append(user("one"), NOW).unwrap();
    session.append(user("two"), NOW).unwrap();
    session
}

fn ids(session: &Session) -> Vec<String> {
    let mut bytes = Vec::new();
    session.write_entries(None, &mut bytes).unwrap();
    let entries: Vec<serde_json::Value> = serde_json::from_slice(&bytes).unwrap();
    entries.iter().map(|entry| entry["id"].as_str().unwrap().to_owned()).collect()
}

/// Everything that was appended, as read back from the disk.
fn texts(session: &Session) -> Vec<String> {
    let messages = session.fork_messages().unwrap();
    messages.into_iter().map(|message| message.text).collect()
}

/// The session as a later process finds it.
fn reload(session: &Session) -> Session {
    Session::open_read_only(session.path().unwrap()).unwrap()
}

/// Checks that memory and disk agree.
fn check(session: &Session, when: &str) {
    if !session.is_stored() {
        assert!(!session.path().unwrap().exists(), "{when}: a file without a session");
        return;
    }
    let found = reload(session);
    assert_eq!(ids(&found), ids(session), "{when}");
    assert_eq!(found.leaf(), session.leaf(), "{when}");
    assert_eq!(found.name(), session.name(), "{when}");
    assert_eq!(found.context_len(), session.context_len(), "{when}");
}

type Step = fn(&mut Session) -> Result<(), Error>;

/// Operations that cover every kind of write.
const STEPS: [Step; 9] = [
    |session| session.set_name("early", NOW).map(drop),
    |session| session.append(user("one"), NOW).map(drop),
    |session| session.append(answer("one"), NOW).map(drop),
    |session| session.append(user("two, which is longer"), NOW).map(drop),
    |session| session.set_label(&first(session), Some("here"), NOW).map(drop),
    |session| session.append(answer("two"), NOW).map(drop),
    |session| session.navigate(Some(&first(session)), NOW),
    |session| session.append(user("three"), NOW).map(drop),
    |session| session.set_name("late", NOW).map(drop),
];

fn first(session: &Session) -> String {
    session.children(None).unwrap()[0].to_owned()
}

/// Performs the steps with a fault. A step that fails leaves nothing behind and is repeated when
/// the disk works; in the end everything is there.
fn play(fault: Option<Fault>) -> (usize, usize) {
    let dir = tempfile::tempdir().unwrap();
    let disk = Faulty::new(fault);
    let mut session = begin(dir.path(), &disk);
    session.set_durability(Durability::Entry);
    for (number, step) in STEPS.into_iter().enumerate() {
        let when = format!("step {number} with {fault:?}");
        let before = session.len();
        let done = step(&mut session);
        match &done {
            Ok(()) => assert_eq!(session.len(), before + 1, "{when}"),
            // Not synced, but recorded in memory and on disk.
            Err(Error::NotSynced { .. }) => assert_eq!(session.len(), before + 1, "{when}"),
            Err(err) => {
                assert!(matches!(err, Error::Write { .. }), "{when}: {err}");
                assert_eq!(session.len(), before, "{when}");
            }
        }
        if disk.calls().1 > 0 {
            check(&session, &when);
        }
        if matches!(done, Err(Error::Write { .. })) {
            disk.heal();
            step(&mut session).unwrap();
            check(&session, &when);
        }
    }
    assert_eq!(texts(&session).len(), 3);
    let path = session.path().unwrap().to_owned();
    let known = ids(&session);
    drop(session);
    let again = Session::open(&path, owner()).unwrap();
    assert_eq!(ids(&again), known, "{fault:?}");
    let left: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap()).collect();
    assert_eq!(left.len(), 2, "the session and its note: {left:?}");
    disk.calls()
}

#[test]
fn memory_and_disk_agree_after_any_failing_call() {
    let (calls, _) = play(None);
    assert!(calls > 15, "only {calls} calls");
    let (mut faults, mut failed) = (0, 0);
    // Nothing of a line, some of it, all but its end, all but one byte more, all of it.
    let portions =
        [Taken::Bytes(0), Taken::Bytes(40), Taken::AllBut(2), Taken::AllBut(1), Taken::AllBut(0)];
    for at in 0..calls {
        for (_, code) in CODES {
            // Once; also while it is undone; for as long as the step is retried.
            for times in [1, 2, 1000] {
                for taken in portions {
                    failed += play(Some(Fault { at, times, code, taken })).1;
                    faults += 1;
                }
            }
        }
    }
    assert!(faults >= 1000 && failed >= faults, "{failed} calls failed in {faults} rounds");
}

#[test]
fn append_to_a_full_disk_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Faulty::new(None);
    let mut session = session_on(dir.path(), &disk);
    let path = session.path().unwrap().to_owned();
    let before = (fs::read(&path).unwrap(), ids(&session), session.leaf().map(str::to_owned));
    // However much of the line fits: nothing, all but the line end, and everything between.
    for taken in 0..180 {
        disk.fail(1, ENOSPC, Taken::Bytes(taken));
        let refused = session.append(user("three"), NOW).unwrap_err();
        assert!(matches!(refused, Error::Write { .. }));
        assert!(refused.to_string().ends_with("No space left on device (os error 28)"));
        let after = (fs::read(&path).unwrap(), ids(&session), session.leaf().map(str::to_owned));
        assert_eq!(after, before, "after {taken} bytes");
        assert_eq!(session.context_len(), 2);
    }
    session.append(user("three"), NOW).unwrap();
    assert_eq!(texts(&session), ["one", "two", "three"]);
    assert_eq!(texts(&reload(&session)), ["one", "two", "three"]);
}

/// The disk fails so badly that a half-written line cannot be removed.
#[test]
fn torn_line_is_removed_before_the_next_append() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Faulty::new(None);
    let mut session = session_on(dir.path(), &disk);
    let path = session.path().unwrap().to_owned();
    for taken in [1, 50, 150] {
        let (before, known) = (fs::read(&path).unwrap(), ids(&session));
        disk.fail(1000, EIO, Taken::Bytes(taken));
        for _ in 0..3 {
            session.append(user("lost"), NOW).unwrap_err();
            assert_eq!(ids(&session), known);
            // At most one torn line, however often appending is retried.
            assert_eq!(fs::read(&path).unwrap().len(), before.len() + taken);
        }
        // A process that starts now finds what was announced, and a torn tail to repair.
        assert_eq!(ids(&reload(&session)), known);
        disk.heal();
        session.append(user("kept"), NOW).unwrap();
        assert!(fs::read(&path).unwrap().starts_with(&before));
        check(&session, "healed");
    }
    assert_eq!(texts(&session), ["one", "two", "kept", "kept", "kept"]);
}

/// All of a line but its end was written and cannot be removed: a later process would find an
/// entry, so it is one.
#[test]
fn written_line_without_its_end_is_an_entry() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Faulty::new(None);
    let mut session = session_on(dir.path(), &disk);
    disk.fail(1000, ENOSPC, Taken::AllBut(1));
    session.append(user("three"), NOW).unwrap();
    check(&session, "while it fails");
    disk.heal();
    session.append(user("four"), NOW).unwrap();
    check(&session, "healed");
    assert_eq!(texts(&reload(&session)), ["one", "two", "three", "four"]);
}

#[test]
fn failed_sync_leaves_memory_and_disk_equal() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Faulty::new(None);
    let mut session = session_on(dir.path(), &disk);
    session.set_durability(Durability::Run);
    let path = session.path().unwrap().to_owned();
    let before = fs::read(&path).unwrap();
    // The write succeeds, the sync after it fails.
    let fail = |session: &mut Session, times| {
        disk.fail_after(1, times, EIO, Taken::Bytes(0));
        session.append(user("three"), NOW).unwrap_err()
    };
    let refused = fail(&mut session, 1);
    assert!(matches!(refused, Error::Write { .. }), "{refused}");
    assert_eq!(fs::read(&path).unwrap(), before);
    assert_eq!(session.len(), 2);
    check(&session, "taken back");
    // The line cannot be removed either: then memory and disk both have it.
    let refused = fail(&mut session, 1000);
    assert!(matches!(refused, Error::NotSynced { .. }), "{refused}");
    assert_eq!(session.len(), 3);
    check(&session, "kept");
    disk.heal();
    session.append(Body::SessionInfo { name: "x".into() }, NOW).unwrap();
    check(&session, "healed");
}

#[test]
fn read_failure_is_an_error_and_appending_still_works() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Faulty::new(None);
    let mut session = session_on(dir.path(), &disk);
    disk.fail_to_read(true);
    assert!(matches!(session.context(), Err(Error::Read { .. })));
    assert!(matches!(session.write_entries(None, &mut Vec::new()), Err(Error::Read { .. })));
    // Calls that do not read still work.
    session.append(user("three"), NOW).unwrap();
    assert_eq!((session.len(), session.context_len()), (3, 3));
    disk.fail_to_read(false);
    assert_eq!(session.context().unwrap().messages.len(), 3);
}

/// Another program's lines that cannot be read now are read later, once.
#[test]
fn another_programs_lines_are_added_once_after_a_read_failure() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Faulty::new(None);
    let mut session = session_on(dir.path(), &disk);
    let path = session.path().unwrap().to_owned();
    let mut text = fs::read_to_string(&path).unwrap();
    text += "{\"type\":\"custom\",\"customType\":\"x\",\"id\":\"f0000001\",\"parentId\":null}\n";
    fs::write(&path, text).unwrap();
    disk.fail_to_read(true);
    assert!(matches!(session.append(user("three"), NOW), Err(Error::Read { .. })));
    disk.fail_to_read(false);
    session.append(user("three"), NOW).unwrap();
    assert_eq!(session.len(), 4);
    assert_eq!(ids(&reload(&session)), ids(&session));
}

/// A program that shortens the file removes entries that were announced.
#[test]
fn shortened_file_is_not_written() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Faulty::new(None);
    let mut session = session_on(dir.path(), &disk);
    let path = session.path().unwrap().to_owned();
    let mut before = fs::read(&path).unwrap();
    before.truncate(before.len() - 10);
    fs::write(&path, &before).unwrap();
    assert!(matches!(session.append(user("three"), NOW), Err(Error::Replaced(_))));
    assert_eq!(fs::read(&path).unwrap(), before);
}

/// Random failures, repeated: a reload finds exactly what was announced.
#[test]
fn reload_finds_exactly_the_announced_entries() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Faulty::new(None);
    let mut session = session_on(dir.path(), &disk);
    session.set_durability(Durability::Run);
    let mut random = 0x2545_f491_4f6c_dd1du64;
    let mut failures = 0;
    for round in 0..2000 {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        disk.heal();
        if random & 6 == 0 {
            let times = if random & 24 == 0 { 2 } else { 1 };
            let (_, code) = CODES[random as usize & 3];
            disk.fail(times, code, Taken::Bytes(random as usize >> 8 & 0xff));
        }
        let text = "x".repeat(random as usize >> 16 & 0xff);
        let body = if random & 32 == 0 { Body::SessionInfo { name: text } } else { user(&text) };
        failures += u32::from(session.append(body, NOW).is_err());
        if round % 50 == 0 {
            check(&session, &format!("round {round}"));
        }
    }
    assert!(failures > 50, "only {failures} failures");
}
