//! A failing database: memory always equals what is stored, an entry of unknown outcome is neither
//! lost nor doubled, and appending works again once the database does.
#![allow(clippy::unwrap_used)]

mod common;
#[path = "common/fake_database.rs"]
mod fake_database;

use std::path::Path;

use common::{
    NOW, answer, ids, lines_of, new_session, owner_of, say, show_context, snapshot, user,
};
use fake_database::{DatabaseFault, Failing, FakeDatabase};
use tempfile::TempDir;
use tiller_session::{Body, DatabaseStore, Error, Session, SessionId, Store};

const KINDS: [Failing; 3] = [Failing::NotStored, Failing::Lost, Failing::AnswerLost];

/// A database and a store of its first process.
fn open_store() -> (FakeDatabase, DatabaseStore, TempDir) {
    let scratch = tempfile::tempdir().unwrap();
    let database = FakeDatabase::new();
    let store = database.store(scratch.path().to_owned());
    (database, store, scratch)
}

fn begin(store: &DatabaseStore) -> Session {
    let new = new_session();
    let cwd = new.cwd.clone();
    Session::new(new, store.storage(&cwd))
}

/// A session with two messages, in a database that works so far.
fn session_in(store: &DatabaseStore) -> Session {
    let mut session = begin(store);
    say(&mut session, "one");
    say(&mut session, "two");
    session
}

/// The session as another process finds it.
fn reload(database: &FakeDatabase, session: &Session) -> Session {
    let other = database.observer().store(std::env::temp_dir());
    other.open_read_only(session.path().unwrap()).unwrap()
}

/// Checks that memory and the database agree.
fn check(database: &FakeDatabase, session: &Session, when: &str) {
    if session.is_stored() {
        assert_eq!(database.lines(session.id()).unwrap(), lines_of(session), "{when}");
        assert_eq!(snapshot(&reload(database, session)), snapshot(session), "{when}");
    }
}

fn texts(session: &Session) -> Vec<String> {
    let messages = session.fork_messages().unwrap();
    messages.into_iter().map(|message| message.text).collect()
}

fn first(session: &Session) -> String {
    session.children(None).unwrap()[0].to_owned()
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

/// Performs the steps with a fault. A step that fails changes nothing in memory. Once the database
/// works again, a refresh says whether the entry is stored, and the step is repeated if it is not.
fn play(fault: Option<DatabaseFault>) -> (usize, usize) {
    let (database, store, _scratch) = open_store();
    database.set_fault(fault);
    let mut session = begin(&store);
    for (number, step) in STEPS.into_iter().enumerate() {
        let when = format!("step {number} with {fault:?}");
        let before = snapshot(&session);
        let Err(error) = step(&mut session) else {
            assert_eq!(session.len(), number + 1, "{when}");
            check(&database, &session, &when);
            continue;
        };
        assert!(matches!(error, Error::Database { .. }), "{when}: {error}");
        assert!(error.to_string().ends_with("the connection was lost"), "{when}: {error}");
        assert_eq!(snapshot(&session), before, "{when}");
        // A refresh that fails changes nothing; another one finds what is stored, once.
        match session.refresh() {
            Err(_) => assert_eq!(snapshot(&session), before, "{when}"),
            Ok(recovered) => assert_eq!(ids(&session)[number..], recovered, "{when}"),
        }
        database.heal();
        session.refresh().unwrap();
        if session.len() == number {
            step(&mut session).unwrap();
        }
        assert_eq!(session.refresh().unwrap(), [] as [String; 0], "{when}");
        check(&database, &session, &when);
        assert_eq!(session.len(), number + 1, "{when}");
    }
    assert_eq!(texts(&session), ["one", "two, which is longer", "three"], "{fault:?}");
    check(&database, &session, &format!("{fault:?}"));
    assert_eq!(database.count(), 1);
    let before = snapshot(&session);
    let address = session.path().unwrap().to_owned();
    let calls = database.calls();
    drop(session);
    database.heal();
    assert_eq!(snapshot(&store.open(&address).unwrap()), before);
    calls
}

#[test]
fn memory_and_database_agree_after_any_failing_call() {
    let (calls, _) = play(None);
    assert!(calls >= 8, "only {calls} calls");
    let (mut faults, mut failed) = (0, 0);
    for at in 0..calls {
        for failing in KINDS {
            // Once; also while it is recovered; for as long as the step is repeated.
            for times in [1, 2, 3, 1000] {
                failed += play(Some(DatabaseFault { at, times, failing })).1;
                faults += 1;
            }
        }
    }
    assert!(failed >= faults, "{failed} calls failed in {faults} rounds");
}

#[test]
fn append_of_unknown_outcome_is_neither_lost_nor_doubled() {
    for (failing, is_stored) in [(Failing::AnswerLost, true), (Failing::Lost, false)] {
        let (database, store, _scratch) = open_store();
        let mut session = session_in(&store);
        let before = snapshot(&session);
        database.fail(1, failing);
        session.append(user("three"), NOW).unwrap_err();
        assert_eq!(snapshot(&session), before);

        let recovered = session.refresh().unwrap();
        assert_eq!(recovered.len(), usize::from(is_stored));
        if is_stored {
            assert_eq!(session.leaf(), Some(recovered[0].as_str()));
            assert_eq!((session.len(), session.context_len()), (3, 3));
        } else {
            assert_eq!(snapshot(&session), before);
            say(&mut session, "three");
        }
        check(&database, &session, "recovered");
        say(&mut session, "four");
        check(&database, &session, "and appended to");
        let conversation = "user \"one\"\nuser \"two\"\nuser \"three\"\nuser \"four\"\n";
        assert_eq!(show_context(&session), conversation);
        assert_eq!(show_context(&reload(&database, &session)), conversation);
    }
}

/// A caller that repeats the call without a refresh has the entry once in the conversation. The
/// other one stays in the session, on a branch of its own.
#[test]
fn append_repeated_without_a_refresh_is_in_the_conversation_once() {
    let (database, store, _scratch) = open_store();
    let mut session = session_in(&store);
    database.fail(1, Failing::AnswerLost);
    session.append(user("three"), NOW).unwrap_err();
    say(&mut session, "three");
    assert_eq!(show_context(&session), "user \"one\"\nuser \"two\"\nuser \"three\"\n");
    assert_eq!(session.len(), 4);
    check(&database, &session, "repeated");
}

#[test]
fn append_that_was_not_stored_is_stored_once_when_it_is_repeated() {
    let (database, store, _scratch) = open_store();
    let mut session = session_in(&store);
    let before = (snapshot(&session), database.lines(session.id()));
    database.fail(3, Failing::NotStored);
    for _ in 0..3 {
        session.append(user("three"), NOW).unwrap_err();
        assert_eq!((snapshot(&session), database.lines(session.id())), before);
        // Nothing is uncertain, so nothing has to be asked.
        let calls = database.calls();
        assert_eq!(session.refresh().unwrap(), [] as [String; 0]);
        assert_eq!(database.calls(), calls);
    }
    say(&mut session, "three");
    assert_eq!(texts(&session), ["one", "two", "three"]);
    check(&database, &session, "repeated");
}

#[test]
fn append_fails_while_its_predecessor_is_uncertain() {
    let (database, store, _scratch) = open_store();
    let mut session = session_in(&store);
    let before = snapshot(&session);
    database.fail(1000, Failing::Lost);
    for _ in 0..4 {
        session.append(user("three"), NOW).unwrap_err();
        session.refresh().unwrap_err();
        assert_eq!(snapshot(&session), before);
    }
    database.heal();
    say(&mut session, "three");
    check(&database, &session, "healed");
    assert_eq!(texts(&session), ["one", "two", "three"]);
}

/// Long lines, so that the local copy is in a file when the entry is recovered.
#[test]
fn long_entries_of_unknown_outcome_are_recovered() {
    let (database, store, _scratch) = open_store();
    let mut session = session_in(&store);
    let long = "x".repeat(150_000);
    for round in 0..6 {
        database.fail(1, KINDS[1 + round % 2]);
        session.append(user(&long), NOW).unwrap_err();
        // Another line takes the place of the one that was not stored.
        if session.refresh().unwrap().is_empty() {
            say(&mut session, &format!("{long} instead"));
        }
        check(&database, &session, &format!("round {round}"));
    }
    assert_eq!(session.len(), 8);
}

#[test]
fn session_taken_over_is_readable_and_no_longer_written() {
    let (database, store, _scratch) = open_store();
    let mut session = session_in(&store);
    database.process(2).take_over(session.id());
    let before = snapshot(&session);
    let attempts: [Step; 4] = [
        |session| session.append(user("x"), NOW).map(drop),
        |session| session.set_name("x", NOW).map(drop),
        |session| session.navigate(None, NOW),
        |session| session.append(answer("x"), NOW).map(drop),
    ];
    for attempt in attempts {
        let error = attempt(&mut session).unwrap_err();
        let text = error.to_string();
        let Error::TakenOver { address, owner } = error else { panic!("{text}") };
        assert_eq!(Some(address.as_path()), session.path());
        assert_eq!(owner, Some(Box::new(owner_of(2))));
        assert!(text.starts_with("Session was taken over by tiller 2 (pid"), "{text}");
        assert!(text.ends_with("This process no longer writes it"), "{text}");
        assert_eq!(snapshot(&session), before);
        assert_eq!(session.refresh().unwrap(), [] as [String; 0]);
    }
    assert_eq!(show_context(&session), "user \"one\"\nuser \"two\"\n");
    check(&database, &session, "taken over");
    // What was read can be saved elsewhere, and ending takes nothing from the new owner.
    let mut copy = session.copy_all(new_session(), store.storage(session.cwd())).unwrap();
    say(&mut copy, "goes on");
    check(&database, &copy, "copied");
    let id = session.id().to_owned();
    drop((session, copy));
    assert_eq!(database.claimed(), [id]);
}

/// Whether the entry was stored before the session was taken over, its new owner decides.
#[test]
fn uncertain_append_of_a_session_taken_over_is_not_repeated() {
    for failing in [Failing::Lost, Failing::AnswerLost] {
        let (database, store, _scratch) = open_store();
        let mut session = session_in(&store);
        let before = snapshot(&session);
        database.fail(1, failing);
        session.append(user("three"), NOW).unwrap_err();
        let stored = database.lines(session.id());
        database.process(2).take_over(session.id());
        for _ in 0..2 {
            assert!(matches!(session.refresh(), Err(Error::TakenOver { .. })));
            let refused = session.append(user("three"), NOW);
            assert!(matches!(refused, Err(Error::TakenOver { .. })));
            assert_eq!(snapshot(&session), before);
        }
        assert_eq!(database.lines(session.id()), stored);
    }
}

#[test]
fn deleted_session_is_readable_and_no_longer_written() {
    for failing in [None, Some(Failing::Lost), Some(Failing::AnswerLost)] {
        let (database, store, _scratch) = open_store();
        let mut session = session_in(&store);
        let before = snapshot(&session);
        if let Some(failing) = failing {
            database.fail(1, failing);
            session.append(user("three"), NOW).unwrap_err();
        }
        database.remove(session.id());
        for _ in 0..2 {
            let error = session.append(user("x"), NOW).unwrap_err();
            let expected = format!("Session was deleted: {}", session.path().unwrap().display());
            assert_eq!(error.to_string(), expected);
            assert!(matches!(error, Error::Deleted(_)));
            assert_eq!(snapshot(&session), before);
        }
        assert_eq!(database.count(), 0, "it is not stored again");
        let copy = session.copy_all(new_session(), store.storage(session.cwd())).unwrap();
        assert_eq!(snapshot(&copy).entries, before.entries);
    }
}

#[test]
fn failed_creation_can_be_repeated_and_stores_the_session_once() {
    for failing in KINDS {
        let (database, store, _scratch) = open_store();
        let mut session = begin(&store);
        session.set_name("early", NOW).unwrap();
        let before = snapshot(&session);
        database.fail(3, failing);
        for attempt in 0..3 {
            let text = format!("attempt {attempt}");
            let error = session.append(user(&text), NOW).unwrap_err();
            assert!(error.to_string().starts_with("cannot create session fake:"), "{error}");
            assert_eq!((snapshot(&session), session.is_stored()), (before.clone(), false));
            assert_eq!(session.refresh().unwrap(), [] as [String; 0]);
        }
        // Other lines may be appended in between.
        session.append(Body::Custom { custom_type: "x".into(), data: None }, NOW).unwrap();
        say(&mut session, "stored");
        assert_eq!(texts(&session), ["stored"], "{failing:?}");
        check(&database, &session, &format!("{failing:?}"));
        assert_eq!(database.count(), 1);
        say(&mut session, "and more");
        check(&database, &session, &format!("{failing:?}, and more"));
    }
}

#[test]
fn persisting_can_be_repeated() {
    for failing in KINDS {
        let (database, store, _scratch) = open_store();
        let mut session = begin(&store);
        session.set_name("early", NOW).unwrap();
        database.fail(1, failing);
        session.persist().unwrap_err();
        assert!(!session.is_stored());
        session.persist().unwrap();
        check(&database, &session, "persisted");
        assert_eq!(database.count(), 1);
    }
}

/// A copy that could not be stored leaves the original as it was.
#[test]
fn failed_copy_leaves_its_source_unchanged() {
    for failing in KINDS {
        let (database, store, _scratch) = open_store();
        let mut session = session_in(&store);
        let before = snapshot(&session);
        let leaf = session.leaf().unwrap().to_owned();
        let storage = || store.storage(session.cwd());
        let copies: [&dyn Fn() -> Result<Session, Error>; 4] = [
            &|| session.fork(&leaf, SessionId::fresh(), storage(), NOW).map(|fork| fork.session),
            &|| session.fork_at(&leaf, SessionId::fresh(), storage(), NOW),
            &|| session.clone_at_leaf(SessionId::fresh(), storage(), NOW),
            &|| session.copy_all(new_session(), storage()),
        ];
        for copy in copies {
            database.fail(1, failing);
            let error = copy().err().unwrap();
            assert!(error.to_string().starts_with("cannot create session fake:"), "{error}");
            let copy = copy().unwrap();
            check(&database, &copy, "copied at the second attempt");
        }
        assert_eq!(snapshot(&session), before);
        say(&mut session, "goes on");
        check(&database, &session, "afterwards");
    }
}

#[test]
fn session_that_cannot_be_read_is_not_opened_and_not_kept_claimed() {
    let (database, store, _scratch) = open_store();
    let session = session_in(&store);
    let address = session.path().unwrap().to_owned();
    drop(session);
    // The claim fails; then what is read after it.
    for calls in [0, 1] {
        database.fail_after(calls, 1, Failing::NotStored);
        let error = store.open(&address).err().unwrap();
        assert!(matches!(error, Error::Database { .. }), "{error}");
        assert_eq!(database.claimed(), [] as [String; 0]);
        database.fail_after(calls, 1, Failing::NotStored);
        store.open_read_only(&address).err().unwrap();
    }
    store.open(&address).unwrap();
}

#[test]
fn local_copy_that_cannot_be_written_stores_nothing() {
    let database = FakeDatabase::new();
    let store = database.store("/nowhere/at/all".into());
    let mut session = session_in(&store);
    let before = snapshot(&session);
    // Too long for memory, and there is no folder for files.
    let error = session.append(user(&"x".repeat(300_000)), NOW).unwrap_err();
    assert!(error.to_string().starts_with("cannot keep a local copy of session fake:"), "{error}");
    assert_eq!(snapshot(&session), before);
    check(&database, &session, "not copied");
    say(&mut session, "short");
    check(&database, &session, "appended");
    assert!(!Path::new("/nowhere").exists());
}

/// Random failures, repeated: another process finds exactly what this one has.
#[test]
fn another_process_finds_exactly_the_announced_entries() {
    let (database, store, _scratch) = open_store();
    let mut session = session_in(&store);
    let mut random = common::Random::new(77);
    let (mut failures, mut recovered, mut announced) = (0, 0, ids(&session));
    for round in 0..2000 {
        database.heal();
        if random.below(4) == 0 {
            database.fail_after(random.below(2), 1 + random.below(3), KINDS[random.below(3)]);
        }
        let text = "x".repeat(random.below(300));
        let body =
            if random.below(5) == 0 { Body::SessionInfo { name: text } } else { user(&text) };
        match session.append(body, NOW) {
            // What was recovered before it comes first.
            Ok(_) => {
                let known = announced.len();
                recovered += session.len() - known - 1;
                announced.extend(ids(&session).split_off(known));
            }
            Err(_) => failures += 1,
        }
        if round % 50 == 0 {
            database.heal();
            let known = announced.len();
            session.refresh().unwrap();
            recovered += session.len() - known;
            announced.extend(ids(&session).split_off(known));
            check(&database, &session, &format!("round {round}"));
        }
    }
    assert_eq!(ids(&session)[..announced.len()], announced);
    assert!(failures > 100 && recovered > 20, "{failures} failures, {recovered} recovered");
}
