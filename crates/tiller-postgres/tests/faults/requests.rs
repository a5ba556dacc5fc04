//! How many requests appends cost: one each, and less than that when many sessions append.

use std::thread;
use std::time::Duration;

use crate::cluster::database;
use crate::host::{Host, append, with};
use crate::ledger::Ledger;

/// The statements of appends, and all others but signs of life and notifications.
fn appends_and_others(statements: &[String]) -> (usize, Vec<&String>) {
    let is_append = |statement: &&String| statement.contains("WITH claimed AS");
    let is_background = |statement: &str| {
        ["pg_notify", "UPDATE tiller.host"].iter().any(|part| statement.contains(part))
    };
    let appends = statements.iter().filter(is_append).count();
    let others = statements.iter().filter(|one| !is_append(one) && !is_background(one));
    (appends, others.filter(|one| *one != "SYNC").collect())
}

#[test]
fn append_costs_one_request() {
    let Some(database) = database() else { return };
    let proxy = database.proxy();
    let host = Host::new("host", &with(&proxy.url(&database.url), "takeover_seconds=3600"));
    let mut ledger = Ledger::new();
    let mut session = host.create(&mut ledger, 1);
    proxy.record();
    host.write(&mut session, &mut ledger, 1..51);
    let statements = proxy.statements();
    let (appends, others) = appends_and_others(&statements);
    assert_eq!((appends, others), (50, Vec::<&String>::new()));
    // Each statement is a request of its own, which the server answers once.
    let requests = statements.iter().filter(|one| *one == "SYNC").count();
    assert_eq!(requests * 2, statements.len());
    drop(session);
    database.close(vec![ledger], &host);
}

#[test]
fn appends_of_many_sessions_share_requests() {
    let Some(database) = database() else { return };
    let proxy = database.proxy();
    let parameters = "takeover_seconds=3600&timeout_seconds=60";
    let host = Host::new("host", &with(&proxy.url(&database.url), parameters));
    let mut sessions: Vec<_> = (0..64).map(|_| host.create(&mut Ledger::new(), 1)).collect();
    // The server is not at hand.
    proxy.delay(Duration::from_millis(5));
    proxy.record();
    thread::scope(|scope| {
        for session in &mut sessions {
            scope.spawn(move || {
                (1..11).for_each(|number| drop(append(session, "host", number).unwrap()))
            });
        }
    });
    let statements = proxy.statements();
    let (appends, others) = appends_and_others(&statements);
    assert_eq!(others, Vec::<&String>::new());
    assert!(appends <= 640 / 4, "640 appends took {appends} statements");
}
