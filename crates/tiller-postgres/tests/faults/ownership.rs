//! Who owns a session after a failure: claims and releases that were not answered, owners whose row
//! is gone, and sessions that were deleted and stored again.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::{Duration, Instant};

use tiller_session::database::SessionRow;
use tiller_session::{Database as _, Error, Row, Store};

use crate::cluster::{Database, database};
use crate::host::{Host, append, until, with};
use crate::ledger::Ledger;
use crate::proxy::Direction;

/// This host counts as dead for no other, and sends no sign of life while a test runs.
const PATIENT: &str = "takeover_seconds=3600&timeout_seconds=60";
/// To this host, others are soon dead.
const HASTY: &str = "takeover_seconds=1&timeout_seconds=60";

fn close(database: &Database, ledger: Ledger) {
    let other = Host::new("other", &database.url);
    let totals = database.close(vec![ledger], &other);
    assert_eq!((totals.lost, totals.twice, totals.fenced), (0, 0, 0));
}

#[test]
fn append_of_a_fenced_out_host_fails_at_once_and_names_the_new_owner() {
    let Some(database) = database() else { return };
    let old = Host::new("old", &with(&database.url, "takeover_seconds=3600&timeout_seconds=3600"));
    let new = Host::new("new", &with(&database.url, HASTY));
    let mut ledger = Ledger::new();
    let mut session = old.create(&mut ledger, 2);
    let taken = new.open_when_free(&mut ledger);
    let begin = Instant::now();
    for number in 2..4 {
        match append(&mut session, "old", number) {
            Err(Error::TakenOver { owner: Some(owner), .. }) => assert_eq!(owner.program, "new"),
            result => panic!("{result:?}"),
        }
        ledger.refuse("old", number);
    }
    assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
    drop((session, taken));
    close(database, ledger);
}

#[test]
fn release_that_was_lost_is_made_up_for() {
    let Some(database) = database() else { return };
    let proxy = database.proxy();
    let url = with(&proxy.url(&database.url), "takeover_seconds=1&timeout_seconds=1");
    let host = Host::new("host", &url);
    let other = Host::new("other", &with(&database.url, PATIENT));
    let mut ledger = Ledger::new();
    let session = host.create(&mut ledger, 1);
    proxy.hold_all();
    drop(session);
    // The release is given up; if it is not yet, this test shows less.
    thread::sleep(Duration::from_millis(1500));
    proxy.cut_all();
    proxy.release();
    let mut session = other.open_when_free(&mut ledger);
    other.write(&mut session, &mut ledger, 0..2);
    drop(session);
    close(database, ledger);
}

/// The statement is carried out, but nothing in the process has the session.
#[test]
fn claim_without_an_answer_is_given_back() {
    let Some(database) = database() else { return };
    for direction in [Direction::ToClient, Direction::ToServer] {
        let proxy = database.proxy();
        let url = with(&proxy.url(&database.url), "takeover_seconds=1&timeout_seconds=1");
        let host = Host::new("host", &url);
        let other = Host::new("other", &with(&database.url, PATIENT));
        let mut ledger = Ledger::new();
        drop(host.create(&mut ledger, 1));
        proxy.hold_statements("RETURNING s.fence, s.header, s.lines", direction);
        assert!(matches!(host.store_open(&ledger), Err(Error::Database { .. })));
        proxy.release();
        // It goes on while the host lives, and its own claims are not disturbed by the repair.
        let mut session = other.open_when_free(&mut ledger);
        other.write(&mut session, &mut ledger, 0..2);
        drop(session);
        let mut session = host.store_open(&ledger).unwrap();
        ledger.claim("again", 3);
        for number in 0..20 {
            let id = append(&mut session, "again", number).unwrap();
            ledger.acknowledge("again", number, &id);
            thread::sleep(Duration::from_millis(20));
        }
        drop(session);
        close(database, ledger);
    }
}

/// Another process removes the row of a host that was paused for a day and had no sessions.
#[test]
fn claim_of_a_forgotten_host_is_respected() {
    let Some(database) = database() else { return };
    let host = Host::new("forgotten", &with(&database.url, PATIENT));
    let other = Host::new("other", &with(&database.url, PATIENT));
    let mut ledger = Ledger::new();
    drop(host.create(&mut ledger, 1));
    database.sql("DELETE FROM tiller.host WHERE program = 'forgotten'");
    let mut session = host.store_open(&ledger).unwrap();
    match other.store_open(&ledger).err() {
        Some(Error::InUse { owner: Some(owner), .. }) => assert_eq!(owner.program, "forgotten"),
        result => panic!("{result:?}"),
    }
    host.write(&mut session, &mut ledger, 1..3);
    drop(session);
    close(database, ledger);
}

/// Owners cannot show life while the server is down.
#[test]
fn server_that_was_just_started_waits_for_owners_to_show_life() {
    let Some(database) = Database::start(&[]) else { return };
    let owner = Host::new("owner", &with(&database.url, PATIENT));
    let patient = Host::new("patient", &with(&database.url, PATIENT));
    let hasty = Host::new("hasty", &with(&database.url, HASTY));
    let mut ledger = Ledger::new();
    let _session = owner.create(&mut ledger, 1);
    database.sql("UPDATE tiller.host SET seen_at = now() - interval '1 day'");
    database.sql("UPDATE tiller.session SET seen_at = now() - interval '1 day'");
    assert!(matches!(patient.store_open(&ledger), Err(Error::InUse { .. })));
    hasty.open_when_free(&mut ledger);
}

#[test]
fn closed_store_shows_no_more_life() {
    let Some(database) = database() else { return };
    let host = Host::new("ended", &with(&database.url, HASTY));
    let mut ledger = Ledger::new();
    drop(host.create(&mut ledger, 1));
    let rows = || database.sql("SELECT count(*) FROM tiller.host WHERE program = 'ended'");
    assert_eq!(rows(), "1");
    host.postgres.close();
    // Several signs of life would have come.
    for _ in 0..10 {
        assert_eq!(rows(), "0");
        thread::sleep(Duration::from_millis(60));
    }
    // It can be used again.
    let session = host.store_open(&ledger).unwrap();
    assert_eq!(rows(), "1");
    drop(session);
    close(database, ledger);
}

/// The new session has the same id and as many lines as the one that its old owner knows.
#[test]
fn session_that_was_deleted_and_stored_again_is_not_written_by_its_old_owner() {
    let Some(database) = database() else { return };
    let old = Host::new("old", &with(&database.url, PATIENT));
    let new = Host::new("new", &with(&database.url, HASTY));
    let mut ledger = Ledger::new();
    let mut session = old.create(&mut ledger, 3);
    until(|| match new.store.delete(&ledger.address()) {
        Err(Error::InUse { .. }) => None,
        result => Some(result),
    })
    .unwrap();
    let mut again = Ledger::new();
    again.id = ledger.id.clone();
    let stored = new.create(&mut again, 3);
    match append(&mut session, "old", 3) {
        Err(Error::TakenOver { owner: Some(owner), .. }) => assert_eq!(owner.program, "new"),
        result => panic!("{result:?}"),
    }
    drop((session, stored));
    close(database, again);
}

/// The first host was told that the creation failed, and is silent after that.
#[test]
fn creation_that_another_host_has_taken_up_is_not_repeated() {
    let Some(database) = database() else { return };
    let proxy = database.proxy();
    let url = with(&proxy.url(&database.url), "takeover_seconds=3600&timeout_seconds=1");
    let host = Host::new("host", &url);
    let other = Host::new("other", &with(&database.url, HASTY));
    let mut ledger = Ledger::new();
    host.postgres.check_version().unwrap();
    let mut session = host.session(&ledger.id);
    ledger.claim("host", 0);
    proxy.hold_statements("WITH created AS", Direction::ToClient);
    assert!(append(&mut session, "host", 0).is_err());
    ledger.fail("host", 0);
    proxy.release();
    let mut taken = other.open_when_free(&mut ledger);
    other.write(&mut taken, &mut ledger, 0..2);
    match append(&mut session, "host", 1) {
        Err(Error::Database { reason, .. }) => {
            assert_eq!(reason, "there is a session with this id already");
        }
        result => panic!("{result:?}"),
    }
    drop((session, taken));
    close(database, ledger);
}

/// A session of many lines, which are stored in several statements.
fn many_rows() -> (SessionRow, Vec<Row<'static>>) {
    let ledger = Ledger::new();
    let header = format!(
        r#"{{"type":"session","version":3,"id":"{}","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/"}}"#,
        ledger.id
    );
    let row = SessionRow {
        id: ledger.id,
        cwd: "/".to_owned(),
        header,
        parent: None,
        name: None,
        token: "token".to_owned(),
    };
    let line = |number: usize| {
        format!(r#"{{"type":"label","id":"{number:08}","parentId":null,"targetId":"x"}}"#)
    };
    (row, (0..1300).map(|number| Row::read(line(number))).collect())
}

#[test]
fn large_creation_whose_rows_end_with_a_panic_stores_nothing() {
    let Some(database) = database() else { return };
    let host = Host::new("host", &database.url);
    let (session, rows) = many_rows();
    let mut rows = rows.into_iter().map(Ok).chain(std::iter::from_fn(|| panic!("expected")));
    let created =
        catch_unwind(AssertUnwindSafe(|| host.postgres.create(&session, &mut rows).is_ok()));
    assert!(created.is_err());
    // The transaction ends after the rows do.
    until(|| {
        let open = "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'";
        (database.sql(open) == "0").then_some(())
    });
    assert_eq!(host.postgres.stored(&session.id).unwrap(), None);
}

#[test]
fn large_creation_whose_commit_is_not_answered_succeeds() {
    let Some(database) = database() else { return };
    let proxy = database.proxy();
    let url = with(&proxy.url(&database.url), "takeover_seconds=3600&timeout_seconds=2");
    let host = Host::new("host", &url);
    let (session, rows) = many_rows();
    proxy.hold_statements("COMMIT", Direction::ToClient);
    let mut claim = host.postgres.create(&session, &mut rows.into_iter().map(Ok)).unwrap();
    proxy.release();
    let line = r#"{"type":"label","id":"new","parentId":null,"targetId":"x"}"#;
    claim.append(&[Row::read(line)]).unwrap();
    drop(claim);
    assert_eq!(host.postgres.stored(&session.id).unwrap().unwrap().lines, 1301);
    assert_eq!(host.postgres.check().unwrap(), Vec::<String>::new());
    host.postgres.delete(&session.id).unwrap();
}
