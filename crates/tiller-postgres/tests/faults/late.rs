//! Statements that arrive late: their client has given them up, and has gone on meanwhile. They have
//! no effect any more.

use std::thread;

use tiller_session::Error;

use crate::cluster::{Database, database};
use crate::host::{Host, append, with};
use crate::ledger::Ledger;
use crate::proxy::{Direction, Proxy};

/// Parts of statements.
const APPEND: &str = "WITH claimed AS";
const CLAIM: &str = "RETURNING s.fence, s.header, s.lines";
const RECOVERY: &str = "RETURNING fence, lines";
const CREATION: &str = "WITH created AS";
const DELETION: &str = "WITH gone AS";

/// A host behind a proxy, with short time limits. No other host takes its sessions over.
fn behind_a_proxy(database: &Database) -> (Proxy, Host) {
    let proxy = database.proxy();
    let url = with(&proxy.url(&database.url), "takeover_seconds=3600&timeout_seconds=1");
    let host = Host::new("late", &url);
    (proxy, host)
}

/// Compares, with another host.
fn close(database: &Database, ledger: Ledger) {
    let other = Host::new("other", &database.url);
    let totals = database.close(vec![ledger], &other);
    assert_eq!((totals.lost, totals.twice, totals.fenced), (0, 0, 0));
}

fn assert_is_failure<T>(result: Result<T, Error>) {
    let reason = match result {
        Err(Error::Database { reason, .. }) => reason,
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it succeeded"),
    };
    assert_eq!(reason, "the database does not answer");
}

#[test]
fn append_whose_statement_is_silent_is_stored_once_on_another_connection() {
    let Some(database) = database() else { return };
    let proxy = database.proxy();
    let url = with(&proxy.url(&database.url), "takeover_seconds=3600&timeout_seconds=6");
    let host = Host::new("late", &url);
    let mut ledger = Ledger::new();
    let mut session = host.create(&mut ledger, 1);
    proxy.hold_statements(APPEND, Direction::ToServer);
    thread::scope(|scope| {
        let appended = scope.spawn(|| host.write(&mut session, &mut ledger, 1..2));
        crate::host::until(|| (proxy.held() > 0).then_some(()));
        proxy.pass_statements();
        appended.join().unwrap();
    });
    proxy.deliver_late();
    host.write(&mut session, &mut ledger, 2..3);
    drop(session);
    close(database, ledger);
}

#[test]
fn late_append_is_not_stored_after_its_session_has_recovered() {
    let Some(database) = database() else { return };
    let (proxy, host) = behind_a_proxy(database);
    let mut ledger = Ledger::new();
    let mut session = host.create(&mut ledger, 1);
    proxy.hold_statements(APPEND, Direction::ToServer);
    assert_is_failure(append(&mut session, "late", 1));
    ledger.refuse("late", 1);
    proxy.pass_statements();
    host.write(&mut session, &mut ledger, 2..3);
    proxy.deliver_late();
    host.write(&mut session, &mut ledger, 3..4);
    drop(session);
    close(database, ledger);
}

#[test]
fn late_append_is_not_stored_after_its_session_was_closed() {
    let Some(database) = database() else { return };
    let (proxy, host) = behind_a_proxy(database);
    let mut ledger = Ledger::new();
    let mut session = host.create(&mut ledger, 1);
    proxy.hold_statements(APPEND, Direction::ToServer);
    assert_is_failure(append(&mut session, "late", 1));
    ledger.refuse("late", 1);
    proxy.pass_statements();
    drop(session);
    proxy.deliver_late();
    close(database, ledger);
}

#[test]
fn append_whose_answer_is_lost_is_found_by_its_session() {
    let Some(database) = database() else { return };
    let (proxy, host) = behind_a_proxy(database);
    let mut ledger = Ledger::new();
    let mut session = host.create(&mut ledger, 1);
    proxy.hold_statements(APPEND, Direction::ToClient);
    assert_is_failure(append(&mut session, "late", 1));
    ledger.fail("late", 1);
    proxy.release();
    let recovered = session.refresh().unwrap();
    assert_eq!(recovered.len(), 1);
    ledger.recover(&recovered[0]);
    host.write(&mut session, &mut ledger, 2..3);
    assert_eq!(session.len(), 3);
    drop(session);
    close(database, ledger);
}

#[test]
fn late_claim_does_not_fence_out_its_own_process() {
    let Some(database) = database() else { return };
    let (proxy, host) = behind_a_proxy(database);
    let mut ledger = Ledger::new();
    drop(host.create(&mut ledger, 1));
    proxy.hold_statements(CLAIM, Direction::ToServer);
    assert_is_failure(host.store_open(&ledger));
    proxy.pass_statements();
    let mut session = host.store_open(&ledger).unwrap();
    proxy.deliver_late();
    host.write(&mut session, &mut ledger, 1..3);
    drop(session);
    close(database, ledger);
}

#[test]
fn late_recovery_does_not_fence_out_its_own_process() {
    let Some(database) = database() else { return };
    let (proxy, host) = behind_a_proxy(database);
    let mut ledger = Ledger::new();
    let mut session = host.create(&mut ledger, 1);
    proxy.hold_statements(APPEND, Direction::ToServer);
    assert_is_failure(append(&mut session, "late", 1));
    proxy.hold_statements(RECOVERY, Direction::ToServer);
    assert_is_failure(append(&mut session, "late", 2));
    ledger.refuse("late", 1);
    ledger.refuse("late", 2);
    proxy.pass_statements();
    host.write(&mut session, &mut ledger, 3..4);
    proxy.deliver_late();
    host.write(&mut session, &mut ledger, 4..5);
    drop(session);
    close(database, ledger);
}

/// A creation that was not answered is removed and repeated, because it may have other lines by then.
#[test]
fn late_removal_of_a_failed_creation_leaves_the_session() {
    let Some(database) = database() else { return };
    let (proxy, host) = behind_a_proxy(database);
    let mut ledger = Ledger::new();
    // Connected, or the first statement takes longer.
    host.postgres.check_version().unwrap();
    let mut session = host.session(&ledger.id);
    ledger.claim("late", 0);
    proxy.hold_statements(CREATION, Direction::ToClient);
    assert_is_failure(append(&mut session, "late", 0));
    proxy.hold_statements(DELETION, Direction::ToServer);
    assert_is_failure(append(&mut session, "late", 1));
    ledger.refuse("late", 0);
    ledger.refuse("late", 1);
    proxy.pass_statements();
    host.write(&mut session, &mut ledger, 2..4);
    proxy.deliver_late();
    host.write(&mut session, &mut ledger, 4..5);
    drop(session);
    close(database, ledger);
}

#[test]
fn late_creation_leaves_the_session_that_was_created_since() {
    let Some(database) = database() else { return };
    let (proxy, host) = behind_a_proxy(database);
    let mut ledger = Ledger::new();
    host.postgres.check_version().unwrap();
    let mut session = host.session(&ledger.id);
    ledger.claim("late", 0);
    proxy.hold_statements(CREATION, Direction::ToServer);
    assert_is_failure(append(&mut session, "late", 0));
    ledger.refuse("late", 0);
    proxy.pass_statements();
    host.write(&mut session, &mut ledger, 1..3);
    proxy.deliver_late();
    host.write(&mut session, &mut ledger, 3..4);
    drop(session);
    close(database, ledger);
}

/// The process pauses between its claim and the deletion.
#[test]
fn late_deletion_leaves_the_session_that_another_host_has_claimed() {
    let Some(database) = database() else { return };
    let proxy = database.proxy();
    let parameters = "takeover_seconds=3600&timeout_seconds=60";
    let host = Host::new("late", &with(&proxy.url(&database.url), parameters));
    let other = Host::new("other", &with(&database.url, "takeover_seconds=1"));
    let mut ledger = Ledger::new();
    drop(host.create(&mut ledger, 2));
    proxy.hold_statements(DELETION, Direction::ToServer);
    let mut session = thread::scope(|scope| {
        let (store, address) = (&host.store, ledger.address());
        let deleted = scope.spawn(move || tiller_session::Store::delete(store, &address));
        crate::host::until(|| (proxy.held() > 0).then_some(()));
        let session = other.open_when_free(&mut ledger);
        proxy.release();
        match deleted.join().unwrap() {
            Err(Error::InUse { owner: Some(owner), .. }) => assert_eq!(owner.program, "other"),
            result => panic!("{result:?}"),
        }
        session
    });
    other.write(&mut session, &mut ledger, 0..2);
    drop(session);
    close(database, ledger);
}
