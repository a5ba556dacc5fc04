//! New sessions with many lines: all of them are stored, or none.

use std::sync::Arc;

use tiller_postgres::Postgres;
use tiller_session::database::{Claim, CreateError, Database, SessionRow};
use tiller_session::{DatabaseStore, Error, Row, Session, Storage, Store};

use crate::common::{new_session, say};
use crate::conformance::transfer_samples::message;
use crate::conformance::{TestStore, check_stored, named};
use crate::test_store::InPostgres;

type Rows = Vec<Result<Row<'static>, Error>>;

fn session_row(id: &str, token: &str) -> SessionRow {
    let header =
        format!(r#"{{"type":"session","version":3,"id":"{id}","timestamp":"t","cwd":"/work"}}"#);
    SessionRow {
        id: id.to_owned(),
        cwd: "/work".to_owned(),
        header,
        parent: None,
        name: None,
        token: token.to_owned(),
    }
}

fn row(line: String) -> Result<Row<'static>, Error> {
    Ok(Row::read(line))
}

/// So many messages, each about so long.
fn rows(count: usize, length: usize) -> Rows {
    let text = format!("\"{}\"", "x".repeat(length));
    (0..count).map(|number| row(message(&format!("m{number}"), "null", &text))).collect()
}

fn create(
    postgres: &Postgres,
    session: &SessionRow,
    rows: Rows,
) -> Result<Box<dyn Claim>, CreateError> {
    postgres.create(session, &mut rows.into_iter())
}

fn check_nothing_stored(store: &InPostgres, when: &str) {
    let counts =
        "SELECT (SELECT count(*) FROM {schema}.session), (SELECT count(*) FROM {schema}.entry)";
    assert_eq!(store.sql(counts), "0|0", "{when}");
    assert_eq!(store.postgres(0).check().unwrap(), [] as [String; 0], "{when}");
}

/// At the limits of a statement: 500 rows, or 4 MB.
#[test]
fn session_of_any_number_of_lines_is_stored_completely() {
    let Some(store) = InPostgres::new() else { return };
    let ours = store.postgres(0);
    for (count, length) in [
        (0, 0),
        (1, 10),
        (499, 10),
        (500, 10),
        (501, 10),
        (1000, 10),
        (1001, 10),
        (9, 1 << 20),
        (1, 9 << 20),
    ] {
        let session = session_row(&format!("s-{count}-{length}"), "token");
        let rows = rows(count, length);
        let expected: Vec<String> =
            rows.iter().map(|row| row.as_ref().unwrap().line.to_string()).collect();
        let claim = create(&ours, &session, rows).unwrap();
        let what = format!("{count} lines of {length} bytes");
        let lines = store.lines(format!("postgres:{}", session.id).as_ref()).unwrap();
        assert!(lines[1..] == expected, "{what}");
        assert_eq!(ours.stored(&session.id).unwrap().unwrap().lines, count as u64, "{what}");
        drop(claim);
    }
    store.check_closed();
}

#[test]
fn large_session_whose_lines_cannot_be_read_is_not_stored() {
    let Some(store) = InPostgres::new() else { return };
    let ours = store.postgres(0);
    let session = session_row("large", "token");
    for at in [0, 1, 499, 500, 501, 1000, 1700] {
        let mut rows = rows(at, 10);
        rows.push(Err(Error::NoLeaf));
        rows.extend(self::rows(10, 10));
        let failed = create(&ours, &session, rows).err().unwrap();
        assert!(matches!(failed, CreateError::Source(Error::NoLeaf)), "at {at}: {failed:?}");
        check_nothing_stored(&store, &format!("broken at {at}"));
    }
    // The id was not used up, neither here nor for others.
    create(&store.postgres(1), &session, rows(1200, 10)).unwrap();
    drop(store.postgres(0).claim("large").unwrap());
}

#[test]
fn large_session_with_a_line_that_is_refused_is_not_stored() {
    let Some(store) = InPostgres::new() else { return };
    let ours = store.postgres(0);
    let session = session_row("large", "token");
    for at in [0, 499, 500, 1700] {
        let mut rows = rows(at, 10);
        // PostgreSQL cannot keep a zero byte.
        rows.push(row("a\0b".to_owned()));
        rows.extend(self::rows(2000, 10));
        match create(&ours, &session, rows).err().unwrap() {
            CreateError::Failed(reason) => {
                assert!(reason.contains("invalid byte sequence"), "at {at}: {reason}");
            }
            other => panic!("at {at}: {other:?}"),
        }
        check_nothing_stored(&store, &format!("refused at {at}"));
    }
    drop(create(&ours, &session, rows(1200, 10)).unwrap());
    // The connections still work.
    for _ in 0..4 {
        drop(ours.claim("large").unwrap());
    }
}

#[test]
fn large_session_with_a_used_id_is_refused() {
    let Some(store) = InPostgres::new() else { return };
    let mut first = Session::new(named("same", "/work"), store.store(0).storage("/work".as_ref()));
    say(&mut first, "the first");
    let location = first.path().unwrap().to_owned();
    let before = store.lines(&location);
    let refused = |when: &str| {
        for process in [0, 1] {
            for count in [1, 700] {
                let session = session_row("same", "another token");
                let failed = create(&store.postgres(process), &session, rows(count, 10));
                assert!(matches!(failed.err().unwrap(), CreateError::Exists), "{when}");
            }
        }
        assert_eq!(store.lines(&location), before, "{when}");
    };
    refused("while it is open");
    drop(first);
    refused("after it was closed");
    first = store.store(1).open(&location).unwrap();
    refused("while another process has it");
    say(&mut first, "goes on");
    check_stored(&store, &first);
}

/// An attempt whose answer was lost is replaced by the next one of the same process.
#[test]
fn attempt_is_replaced_by_the_next_one_with_its_token() {
    let Some(store) = InPostgres::new() else { return };
    let ours = store.postgres(0);
    let location = "postgres:again".as_ref();
    for (first, second) in [(1, 2), (700, 2), (2, 700), (700, 800)] {
        let session = session_row("again", &format!("token {first} {second}"));
        let claim = create(&ours, &session, rows(first, 10)).unwrap();
        // As if the answer had not arrived: the row still names this process, which does not know.
        let owner = store.sql("SELECT owner FROM {schema}.session WHERE id = 'again'");
        drop(claim);
        store.sql(&format!("UPDATE {{schema}}.session SET owner = '{owner}' WHERE id = 'again'"));
        let mut claim = create(&ours, &session, rows(second, 20)).unwrap();
        assert_eq!(store.lines(location).unwrap().len(), 1 + second);
        claim.append(&[Row::read(message("last", "null", "\"last\""))]).unwrap();
        assert_eq!(store.lines(location).unwrap().len(), 2 + second);
        assert_eq!(ours.check().unwrap(), [] as [String; 0]);
        drop(claim);
        ours.delete("again").unwrap();
        check_nothing_stored(&store, "deleted");
    }
}

/// Another process has claimed what the first attempt stored. It is not taken away from it.
#[test]
fn attempt_that_another_process_has_claimed_is_not_replaced() {
    let Some(store) = InPostgres::new() else { return };
    let (ours, theirs) = (store.postgres(0), store.postgres(1));
    let session = session_row("again", "token");
    for count in [2, 700] {
        drop(create(&ours, &session, rows(count, 10)).unwrap());
        let (_, mut claim) = theirs.claim("again").unwrap();
        claim.append(&[Row::read(message("theirs", "null", "\"theirs\""))]).unwrap();
        let before = store.lines("postgres:again".as_ref());
        for attempt in [2, 700] {
            let failed = create(&ours, &session, rows(attempt, 20)).err().unwrap();
            assert!(matches!(failed, CreateError::Exists), "{failed:?}");
        }
        drop(claim);
        assert!(matches!(create(&ours, &session, rows(2, 20)), Err(CreateError::Exists)));
        assert_eq!(store.lines("postgres:again".as_ref()), before);
        ours.delete("again").unwrap();
    }
}

/// The lines of a long session are not in memory while it is copied.
#[test]
fn long_session_without_a_folder_for_its_copy_is_not_stored() {
    let Some(store) = InPostgres::new() else { return };
    let mut source = Session::new(new_session(), Storage::Memory);
    for _ in 0..40 {
        say(&mut source, &"x".repeat(300_000));
    }
    let new = new_session();
    let nowhere = DatabaseStore::new(Arc::new(store.postgres(0)), "/nowhere/at/all".into());
    let error = source.copy_all(new.clone(), nowhere.storage(&new.cwd)).err().unwrap();
    assert!(error.to_string().starts_with("cannot keep a local copy of session"), "{error}");
    check_nothing_stored(&store, "not copied");
    let copy = source.copy_all(new.clone(), store.store(0).storage(&new.cwd)).unwrap();
    check_stored(&store, &copy);
}
