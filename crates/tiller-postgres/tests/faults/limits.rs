//! Time limits: no call waits much longer than `timeout_seconds` for a server that accepts
//! connections and never answers. And an append works when connections of before lead nowhere.

use std::thread;
use std::time::{Duration, Instant};

use tiller_session::list::ListQuery;
use tiller_session::{Database as _, Store};

use crate::cluster::database;
use crate::host::{Host, append, with};
use crate::ledger::Ledger;
use crate::proxy::Direction;

/// A call that takes so long, with limits of a few seconds, hangs.
const HANGS: Duration = Duration::from_secs(40);

/// Returns whether it was refused.
type Call<'a> = Box<dyn FnOnce() -> bool + Send + 'a>;

#[test]
fn calls_end_in_time_when_the_server_does_not_answer() {
    let Some(database) = database() else { return };
    let proxy = database.proxy();
    let url = with(&proxy.url(&database.url), "takeover_seconds=3600&timeout_seconds=2");
    let host = Host::new("host", &url);
    let (mut ledger, mut closed) = (Ledger::new(), Ledger::new());
    let mut session = host.create(&mut ledger, 1);
    let mut recovering = host.create(&mut Ledger::new(), 1);
    let dropped = host.create(&mut Ledger::new(), 1);
    drop(host.create(&mut closed, 1));
    let mut new = host.session(&Ledger::new().id);
    let unused = Host::new("unused", &url);
    proxy.hold_all();
    assert!(append(&mut recovering, "host", 1).is_err());
    let address = &closed.address();
    let id = &closed.id;
    let (host, unused) = (&host, &unused);
    let calls: Vec<(&str, Call<'_>)> = vec![
        ("append", Box::new(|| append(&mut session, "host", 1).is_err())),
        ("recover", Box::new(|| recovering.refresh().is_err())),
        ("create", Box::new(|| append(&mut new, "host", 1).is_err())),
        ("claim", Box::new(|| host.store.open(address).is_err())),
        ("first claim", Box::new(|| unused.store.open(address).is_err())),
        ("read", Box::new(|| host.postgres.read(id, 0..1).is_err())),
        ("stored", Box::new(|| host.postgres.stored(id).is_err())),
        (
            "list",
            Box::new(|| host.store.list(&ListQuery { limit: 1, ..ListQuery::default() }).is_err()),
        ),
        ("find", Box::new(|| host.postgres.find(id, "/").is_err())),
        ("delete", Box::new(|| host.store.delete(address).is_err())),
        ("check_version", Box::new(|| host.postgres.check_version().is_err())),
        ("status", Box::new(|| host.postgres.status().is_err())),
        (
            "release",
            Box::new(|| {
                drop(dropped);
                true
            }),
        ),
    ];
    thread::scope(|scope| {
        for (name, call) in calls {
            scope.spawn(move || {
                let begin = Instant::now();
                assert!(call(), "{name} succeeded");
                assert!(begin.elapsed() < HANGS, "{name} hangs");
            });
        }
    });
    let begin = Instant::now();
    host.postgres.close();
    assert!(begin.elapsed() < HANGS, "close hangs");
}

/// Appends of many sessions share statements, but not their time.
#[test]
fn appends_that_wait_for_others_end_in_time() {
    let Some(database) = database() else { return };
    let proxy = database.proxy();
    let limit = Duration::from_secs(6);
    let parameters = "takeover_seconds=3600&timeout_seconds=6&connections=2";
    let host = Host::new("host", &with(&proxy.url(&database.url), parameters));
    let mut sessions: Vec<_> = (0..24).map(|_| host.create(&mut Ledger::new(), 1)).collect();
    proxy.hold_all();
    thread::scope(|scope| {
        for session in &mut sessions {
            thread::sleep(Duration::from_millis(80));
            scope.spawn(move || {
                let begin = Instant::now();
                assert!(append(session, "host", 1).is_err());
                // An append that had to wait for the batch before its own would take twice the limit.
                assert!(begin.elapsed() < limit * 2 - limit / 10, "{:?}", begin.elapsed());
            });
        }
    });
    proxy.cut_all();
    proxy.release();
}

/// A firewall has forgotten the connections.
#[test]
fn append_succeeds_though_all_idle_connections_lead_nowhere() {
    let Some(database) = database() else { return };
    let proxy = database.proxy();
    let parameters = "takeover_seconds=3600&timeout_seconds=8&connections=8";
    let host = Host::new("host", &with(&proxy.url(&database.url), parameters));
    let mut ledger = Ledger::new();
    let mut session = host.create(&mut ledger, 1);
    proxy.delay(Duration::from_millis(50));
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| host.postgres.stored(&ledger.id).unwrap());
        }
    });
    proxy.delay(Duration::ZERO);
    proxy.hold(&[Direction::ToServer, Direction::ToClient]);
    assert!(proxy.held() >= 4, "{} connections", proxy.held());
    host.write(&mut session, &mut ledger, 1..4);
    drop(session);
    proxy.cut_all();
    proxy.release();
    database.close(vec![ledger], &host);
}
