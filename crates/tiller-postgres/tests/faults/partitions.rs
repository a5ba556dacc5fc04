//! Faults of the network between a writer and the server: connections are cut at any byte, are
//! silent, or deliver late.

use std::time::Duration;

use crate::cluster::{Database, database};
use crate::connections::take_over;
use crate::host::{Host, until, with};
use crate::processes::ledgers;
use crate::proxy::{Direction, Proxy};
use crate::rounds::{Kind, Random, Totals, run};
use crate::writer::{Event, Writer};

/// About as many bytes as an append and its answer have.
const REQUEST_BYTES: u64 = 2_600;
const ANSWER_BYTES: u64 = 220;

#[test]
fn partition_loses_nothing_and_stores_nothing_twice() {
    let Some(database) = database() else { return };
    let mut number = 0;
    run(Kind::Partition, |random| {
        number += 1;
        match number % 4 {
            0 => silence_past_the_takeover(random, database),
            1 => silence(random, database),
            _ => cuts(random, database, number),
        }
    });
}

/// Connections are cut after a number of bytes, so the request, the answer or a part of it is lost.
/// The writer notices, and finds out what was stored.
fn cuts(random: &mut Random, database: &Database, number: u64) -> Totals {
    let proxy = database.proxy();
    let mut sessions = ledgers(random.one_of(&[1, 3]));
    let url = with(&proxy.url(&database.url), "takeover_seconds=3600&timeout_seconds=60");
    let writer = Writer::start("cut", &url, random.one_of(&[0, 400]), &mut sessions);
    writer.wait_for_entries(1);
    proxy.delay(Duration::from_micros(random.one_of(&[0, 0, 500, 3000])));
    for cut in 0..8 {
        // Over the rounds, every byte of an answer comes first.
        let (direction, bytes) = match cut % 3 {
            0 => (Direction::ToClient, (number * 3 + cut / 3) % ANSWER_BYTES),
            1 => (Direction::ToClient, random.below(ANSWER_BYTES)),
            _ => (Direction::ToServer, random.below(REQUEST_BYTES)),
        };
        let cuts = proxy.cuts();
        proxy.cut_after(direction, bytes);
        until(|| (proxy.cuts() > cuts).then_some(()));
        if cut % 4 == 3 {
            proxy.cut_all();
        }
        writer.wait_for_progress();
    }
    writer.has_not_failed();
    writer.stop(&mut sessions);
    take_over(sessions, database)
}

/// The connections are silent for longer than an append is tried. Its session then does not know
/// what was stored, and finds out on another connection, while the old ones still deliver.
fn silence(random: &mut Random, database: &Database) -> Totals {
    let proxy = database.proxy();
    let mut sessions = ledgers(random.one_of(&[1, 3]));
    let url = with(&proxy.url(&database.url), "takeover_seconds=3600&timeout_seconds=1");
    let writer = Writer::start("silent", &url, 40, &mut sessions);
    writer.wait_for_entries(1 + random.below(10));
    hold(random, &proxy);
    // New connections are silent, too, or the writer reaches the server on them.
    if random.below(2) == 0 {
        proxy.hold_all();
        writer.wait_until("a failure", |events| {
            events.iter().any(|event| matches!(event, Event::Failed { .. }))
        });
        proxy.pass_statements();
    }
    writer.wait_for_progress();
    // What was held arrives late, behind entries that were stored since.
    proxy.release();
    writer.wait_for_progress();
    writer.stop(&mut sessions);
    take_over(sessions, database)
}

/// The writer is cut off until another host has taken the session over.
fn silence_past_the_takeover(random: &mut Random, database: &Database) -> Totals {
    let proxy = database.proxy();
    let mut sessions = ledgers(random.one_of(&[1, 3]));
    let parameters = "takeover_seconds=1&timeout_seconds=2";
    let url = with(&proxy.url(&database.url), parameters);
    let writer = Writer::start("alone", &url, 40, &mut sessions);
    writer.wait_for_entries(1 + random.below(10));
    hold(random, &proxy);
    proxy.hold_all();
    let next = Host::new("next", &with(&database.url, parameters));
    let mut opened = Vec::new();
    for ledger in &mut sessions {
        let mut session = next.open_when_free(ledger);
        next.write(&mut session, ledger, 0..random.below(3));
        opened.push(session);
    }
    // What was held arrives after the takeover.
    proxy.release();
    writer.wait_until("the takeover", |events| {
        let refused =
            |event: &&Event| matches!(event, Event::TakenOver { owner, .. } if owner == "next");
        events.iter().filter(refused).count() == 3
    });
    for (ledger, session) in sessions.iter_mut().zip(&mut opened) {
        next.write(session, ledger, 10..13);
    }
    writer.stop(&mut sessions);
    drop(opened);
    database.close(sessions, &next)
}

/// Holds what is under way in one or both directions.
fn hold(random: &mut Random, proxy: &Proxy) {
    random.sleep_below(10);
    match random.below(3) {
        0 => proxy.hold(&[Direction::ToServer]),
        1 => proxy.hold(&[Direction::ToClient]),
        _ => proxy.hold(&[Direction::ToServer, Direction::ToClient]),
    }
}
