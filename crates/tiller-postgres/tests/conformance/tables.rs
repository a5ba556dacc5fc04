//! The tables: made once, checked before they are used, and counted.

use std::sync::{Arc, Barrier};
use std::thread;

use tiller_postgres::{Initialized, PARTITIONS, Postgres, Status};
use tiller_session::{DatabaseStore, Session, Store};

use crate::common::{NOW, answer, lines_of, owner_of, say};
use crate::conformance::{TestStore, all, begin, check_stored, listed_ids, location_of};
use crate::test_store::InPostgres;

const NEW: Initialized = Initialized { from: 0, to: 1 };
const KNOWN: Initialized = Initialized { from: 1, to: 1 };

#[test]
fn tables_are_made_once_and_kept() {
    let Some(store) = InPostgres::without_tables() else { return };
    assert_eq!(store.postgres(0).init(3).unwrap(), NEW);
    assert_eq!(store.postgres(0).check_version(), Ok(()));
    let mut session = begin(&store.store(0));
    say(&mut session, "hello");
    // The number of partitions is that of the first call.
    for (process, partitions) in [(0, 3), (1, PARTITIONS), (1, 0)] {
        assert_eq!(store.postgres(process).init(partitions).unwrap(), KNOWN);
    }
    let partitions =
        "SELECT count(*) FROM pg_inherits WHERE inhparent = '{schema}.entry'::regclass";
    assert_eq!(store.sql(partitions), "3");
    assert_eq!(store.sql("SELECT version FROM {schema}.migration"), "1");
    say(&mut session, "goes on");
    check_stored(&store, &session);
}

#[test]
fn tables_made_by_many_processes_at_once_are_made_once() {
    for _ in 0..3 {
        let Some(store) = InPostgres::without_tables() else { return };
        let start = Barrier::new(8);
        let made: Vec<Initialized> = thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|number| {
                    let (postgres, start) = (store.postgres(number), &start);
                    scope.spawn(move || {
                        start.wait();
                        let made = postgres.init(2).unwrap();
                        assert_eq!(postgres.check_version(), Ok(()));
                        made
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(made.iter().filter(|made| **made == NEW).count(), 1, "{made:?}");
        assert_eq!(made.iter().filter(|made| **made == KNOWN).count(), 7, "{made:?}");
        assert_eq!(store.sql("SELECT version FROM {schema}.migration"), "1");
        let mut session = begin(&store.store(7));
        say(&mut session, "hello");
        check_stored(&store, &session);
    }
}

#[test]
fn missing_tables_are_reported() {
    let Some(store) = InPostgres::without_tables() else { return };
    let check = |when: &str| {
        for result in [store.postgres(0).check_version(), store.postgres(0).check().map(drop)] {
            let error = result.unwrap_err();
            assert!(error.starts_with("cannot use the store tiller@"), "{when}: {error}");
            assert!(
                error.contains("it has no tables of tiller: run `tiller store init`"),
                "{error}"
            );
        }
        let status = store.postgres(0).status().unwrap();
        assert_eq!((status.version, status.known_version, status.sessions), (0, 1, 0), "{when}");
    };
    check("nothing is there");
    let ours = store.store(0);
    let mut session = begin(&ours);
    let errors = [
        ours.list(&all()).unwrap_err().to_string(),
        ours.open("postgres:x".as_ref()).err().unwrap().to_string(),
        ours.open_read_only("postgres:x".as_ref()).err().unwrap().to_string(),
        ours.find("x", "/".as_ref()).unwrap_err().to_string(),
        ours.delete("postgres:x".as_ref()).unwrap_err().to_string(),
        session.append(answer("x"), NOW).unwrap_err().to_string(),
    ];
    for error in errors {
        assert!(error.contains("does not exist"), "{error}");
        assert!(error.starts_with("cannot "), "{error}");
    }
    // As an initialisation leaves it that was rolled back.
    store.sql("CREATE SCHEMA {schema}");
    check("the schema is there");
    assert_eq!(store.postgres(0).init(2).unwrap(), NEW);
    say(&mut session, "hello");
    check_stored(&store, &session);
}

#[test]
fn tables_of_a_newer_version_are_not_used() {
    let Some(store) = InPostgres::new() else { return };
    let ours = store.postgres(0);
    store.sql("INSERT INTO {schema}.migration (version) VALUES (7)");
    let results = [ours.check_version(), ours.init(3).map(drop), ours.check().map(drop)];
    for result in results {
        let error = result.unwrap_err();
        let expected =
            "its tables have version 7, and this tiller knows only 1: use a newer tiller";
        assert!(error.contains(expected), "{error}");
    }
    let status = ours.status().unwrap();
    assert_eq!((status.version, status.known_version), (7, 1));
    store.sql("DELETE FROM {schema}.migration WHERE version = 7");
    assert_eq!(ours.check_version(), Ok(()));
}

#[test]
fn stores_in_one_database_share_nothing() {
    let (Some(one), Some(other)) = (InPostgres::new(), InPostgres::new()) else { return };
    let mut session = begin(&one.store(0));
    say(&mut session, "hello");
    assert_eq!(listed_ids(&other.store(0), &all()), [] as [String; 0]);
    assert_eq!(other.lines(&location_of(&session)), None);
    // The same id, in each of them.
    let moved = tempfile::tempdir().unwrap();
    let path = moved.path().join("session.jsonl");
    let location = location_of(&session);
    tiller_session::transfer::export(&one.store(0), &location, &path).unwrap();
    tiller_session::transfer::import(&other.store(0), &path).unwrap();
    other.store(1).delete(&location).unwrap();
    say(&mut session, "goes on");
    check_stored(&one, &session);
}

#[test]
fn status_counts_what_is_stored() {
    let Some(store) = InPostgres::new() else { return };
    let (ours, theirs) = (store.postgres(0), store.postgres(1));
    let empty = theirs.status().unwrap();
    assert_eq!((empty.sessions, empty.owned, empty.lines, empty.bytes), (0, 0, 0, 0));
    assert_eq!(empty.hosts, [] as [String; 0], "to ask is no sign of life");
    assert!(empty.table_bytes > 0 && !empty.database.is_empty());

    let mut open = begin(&store.store(0));
    say(&mut open, "hello");
    say(&mut open, "more");
    let mut closed = begin(&store.store(1));
    say(&mut closed, "ü");
    let line_bytes = |session: &Session| -> usize {
        lines_of(session).iter().skip(1).map(|line| line.len() + 1).sum()
    };
    let bytes = (line_bytes(&open) + line_bytes(&closed)) as u64;
    drop(closed);
    let status = theirs.status().unwrap();
    let expected = Status { sessions: 2, owned: 1, lines: 3, bytes, ..status.clone() };
    assert_eq!(status, expected);
    assert_eq!((status.version, status.known_version), (1, 1));
    // Those that were started at the same time are in no particular order.
    let mut hosts = status.hosts;
    hosts.sort();
    assert_eq!(hosts, [owner_of(0).to_string(), owner_of(1).to_string()]);

    drop(open);
    ours.close();
    let status = theirs.status().unwrap();
    assert_eq!((status.owned, status.hosts), (0, vec![owner_of(1).to_string()]));
}

#[test]
fn check_reports_each_damage_in_a_sentence() {
    let Some(store) = InPostgres::new() else { return };
    let ours = store.postgres(0);
    let check = || ours.check().unwrap();
    for id in ["first", "second", "third"] {
        let new = crate::conformance::named(id, "/work");
        let mut session = Session::new(new, store.store(0).storage("/work".as_ref()));
        for number in 0..4 {
            say(&mut session, &format!("message {number}"));
        }
    }
    let nothing: [String; 0] = [];
    assert_eq!(check(), nothing);

    store.sql("CREATE TABLE {schema}.kept AS SELECT * FROM {schema}.entry");
    let undo = || {
        store.sql(
            "DELETE FROM {schema}.entry;
             INSERT INTO {schema}.entry SELECT * FROM {schema}.kept",
        );
        assert_eq!(check(), nothing);
    };
    store.sql("DELETE FROM {schema}.entry WHERE session = 'first' AND seq = 1");
    assert_eq!(check(), ["first: has 3 lines up to number 3, expected 4"]);
    // What is missing is an error for a reader, too.
    let error = store.store(1).open_read_only("postgres:first".as_ref()).err().unwrap().to_string();
    assert!(error.contains("lines are missing: 3 of 4"), "{error}");
    assert!(error.contains("see `tiller store check`"), "{error}");
    store.store(1).open("postgres:first".as_ref()).err().unwrap();
    assert_eq!(store.sql("SELECT id FROM {schema}.session WHERE owner IS NOT NULL"), "");
    undo();
    store.sql("DELETE FROM {schema}.entry WHERE session = 'first' AND seq = 3");
    assert_eq!(check(), ["first: has 3 lines up to number 2, expected 4"]);
    undo();
    store.sql("DELETE FROM {schema}.entry WHERE session = 'second'");
    assert_eq!(check(), ["second: has 0 lines up to number -1, expected 4"]);
    undo();
    store.sql("UPDATE {schema}.entry SET seq = 9 WHERE session = 'first' AND seq = 2");
    assert_eq!(check(), ["first: has 4 lines up to number 9, expected 4"]);
    undo();
    store.sql("INSERT INTO {schema}.entry (session, seq, kind, body) VALUES ('lost', 0, '', 'x')");
    assert_eq!(check(), ["lost: 1 lines belong to no session"]);
    undo();
    store.sql("UPDATE {schema}.entry SET body = body || 'x' WHERE session = 'third' AND seq = 0");
    let bytes = store.sql("SELECT bytes FROM {schema}.session WHERE id = 'third'");
    let found = bytes.parse::<u64>().unwrap() + 1;
    assert_eq!(check(), [format!("third: its lines have {found} bytes, expected {bytes}")]);
    undo();
    store.sql("UPDATE {schema}.session SET bytes = 7 WHERE id = 'third'");
    assert_eq!(check(), [format!("third: its lines have {bytes} bytes, expected 7")]);
    // Several at once, in the order of their ids.
    store.sql("DELETE FROM {schema}.session WHERE id = 'second'");
    store.sql("DELETE FROM {schema}.entry WHERE session = 'first'");
    assert_eq!(
        check(),
        [
            "first: has 0 lines up to number -1, expected 4".to_owned(),
            "second: 4 lines belong to no session".to_owned(),
            format!("third: its lines have {bytes} bytes, expected 7"),
        ]
    );
}

/// A process that only reads needs no row of its own, and leaves nothing.
#[test]
fn ended_processes_leave_no_row() {
    let Some(store) = InPostgres::new() else { return };
    let hosts = || store.sql("SELECT count(*) FROM {schema}.host");
    let mut session = begin(&store.store(0));
    say(&mut session, "hello");
    let location = location_of(&session);
    let reader = Postgres::start(store.options(), owner_of(5)).unwrap();
    let reading = DatabaseStore::new(Arc::new(reader.clone()), std::env::temp_dir());
    reading.open_read_only(&location).unwrap();
    reading.list(&all()).unwrap();
    assert_eq!(hosts(), "1");
    drop(session);
    drop(reading.open(&location).unwrap());
    assert_eq!(hosts(), "2");
    reader.close();
    assert_eq!(hosts(), "1");
    store.postgres(0).close();
    assert_eq!(hosts(), "0");
}
