//! Faults of a host: it is killed, or paused for longer than others wait for a sign of life.

use crate::cluster::{Database, database};
use crate::host::{Host, with};
use crate::ledger::Ledger;
use crate::rounds::{Kind, Random, Totals, run};
use crate::writer::{Event, Writer};

/// No host counts as dead by its silence.
const PATIENT: &str = "takeover_seconds=3600&timeout_seconds=60";
/// A silent host is soon taken for dead.
const HASTY: &str = "takeover_seconds=1&timeout_seconds=60";

/// The process is known to be dead, so the next host waits for nothing.
#[test]
fn killed_writer_loses_nothing_and_is_replaced_at_once() {
    let Some(database) = database() else { return };
    run(Kind::Kill, |random| kill(random, database));
}

fn kill(random: &mut Random, database: &Database) -> Totals {
    let mut sessions = ledgers(random.one_of(&[1, 1, 1, 4]));
    let url = with(&database.url, PATIENT);
    // Each writer takes over from the one that was killed before it.
    for number in 1..=random.one_of(&[1, 1, 2, 3]) {
        let name = format!("killed{number}");
        let writer = Writer::start(&name, &url, random.one_of(&[0, 40, 4000]), &mut sessions);
        match random.below(8) {
            // It may not have begun.
            0 => random.sleep_below(60),
            entries => writer.wait_for_entries(entries * 3 - 2),
        }
        random.sleep_below(5);
        writer.kill(&mut sessions);
    }
    let next = Host::new("next", &url);
    for ledger in &mut sessions {
        match next.open(ledger) {
            Ok(mut session) => next.write(&mut session, ledger, 0..3),
            Err(tiller_session::Error::NotFound(_)) => assert!(!ledger.is_acknowledged()),
            Err(error) => panic!("{error}"),
        }
    }
    database.close(sessions, &next)
}

#[test]
fn paused_writer_is_fenced_out_and_learns_the_new_owner() {
    let Some(database) = database() else { return };
    run(Kind::Pause, |random| pause(random, database));
}

fn pause(random: &mut Random, database: &Database) -> Totals {
    let mut sessions = ledgers(random.one_of(&[1, 3]));
    let url = with(&database.url, HASTY);
    let paused = Writer::start("paused", &url, 40, &mut sessions);
    paused.wait_for_entries(random.below(20) + 1);
    random.sleep_below(5);
    paused.signal("STOP");
    let next = Host::new("next", &url);
    let mut opened = Vec::new();
    for ledger in &mut sessions {
        let mut session = next.open_when_free(ledger);
        next.write(&mut session, ledger, 0..random.below(4));
        opened.push(session);
    }
    // The next host may have closed the session again by then.
    let is_closed = random.below(4) == 0;
    if is_closed {
        opened.clear();
    }
    paused.signal("CONT");
    paused.wait_until("the takeover", |events| {
        events.iter().any(|event| matches!(event, Event::TakenOver { .. }))
    });
    for (ledger, session) in sessions.iter_mut().zip(&mut opened) {
        next.write(session, ledger, 10..13);
    }
    paused.wait_until("the third refusal", |events| {
        let owners = events.iter().filter_map(|event| match event {
            Event::TakenOver { owner, .. } => Some(owner.as_str()),
            _ => None,
        });
        let owners: Vec<&str> = owners.collect();
        let expected = if is_closed { "" } else { "next" };
        assert!(owners.iter().all(|owner| *owner == expected), "{owners:?}");
        owners.len() == 3
    });
    paused.stop(&mut sessions);
    drop(opened);
    database.close(sessions, &next)
}

/// New sessions.
pub fn ledgers(count: usize) -> Vec<Ledger> {
    (0..count).map(|_| Ledger::new()).collect()
}
