//! Several hosts claim one session at the same moment: exactly one of them gets it.

use std::sync::Barrier;
use std::thread;

use tiller_session::{Error, Session, Store};

use crate::cluster::{Database, database};
use crate::host::{Host, append, until, with};
use crate::ledger::Ledger;
use crate::processes::ledgers;
use crate::rounds::{Kind, Random, Totals, run};
use crate::writer::{Event, Writer};

/// What the hosts find.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Before {
    Closed,
    OwnerKilled,
    /// The owner is paused, and has shown no life for long.
    OwnerSilent,
    /// The owner closes the session at the same moment.
    OwnerCloses,
}

#[test]
fn one_of_several_hosts_gets_the_session() {
    let Some(database) = database() else { return };
    // A server that was started a moment ago waits for owners to show life.
    until(|| {
        let uptime = "SELECT now() - pg_postmaster_start_time() > interval '6 seconds'";
        (database.sql(uptime) == "t").then_some(())
    });
    run(Kind::SimultaneousClaims, |random| claim_together(random, database));
}

fn claim_together(random: &mut Random, database: &Database) -> Totals {
    let before = random.one_of(&[
        Before::Closed,
        Before::OwnerKilled,
        Before::OwnerSilent,
        Before::OwnerCloses,
    ]);
    let takeover = if before == Before::OwnerSilent { 5 } else { 3600 };
    let parameters = format!("takeover_seconds={takeover}&timeout_seconds=60&connections=2");
    let url = with(&database.url, &parameters);
    let mut sessions = ledgers(1);
    let mut owner = Some(Writer::start("owner", &url, 40, &mut sessions));
    let writer = owner.as_ref().unwrap();
    writer.wait_for_entries(1 + random.below(4));
    match before {
        Before::Closed => owner.take().unwrap().stop(&mut sessions),
        Before::OwnerKilled => owner.take().unwrap().kill(&mut sessions),
        Before::OwnerSilent => {
            writer.signal("STOP");
            database.sql(&format!(
                "UPDATE tiller.host SET seen_at = now() - interval '1 day' WHERE program = 'owner';
                 UPDATE tiller.session SET seen_at = now() - interval '1 day' WHERE id = '{}'",
                sessions[0].id
            ));
        }
        Before::OwnerCloses => {}
    }
    let hosts: Vec<Host> = (0..random.one_of(&[2, 8]))
        .map(|number| Host::new(&format!("host{number}"), &url))
        .collect();
    // Some are connected already.
    for host in &hosts[..random.below(hosts.len() as u64 + 1) as usize] {
        host.postgres.check_version().unwrap();
    }
    let mut fences = vec![fence(database, &sessions[0])];
    for contest in 0..3 {
        let closing = owner.take_if(|_| before == Before::OwnerCloses);
        let (number, mut session) = contend(&hosts, closing, &mut sessions);
        // The winner is not the owner of before, and stays the owner.
        let name = format!("host{number}-{contest}");
        sessions[0].claim(&name, session.lines_after_header());
        fences.push(fence(database, &sessions[0]));
        for entry in 0..2 {
            let id = append(&mut session, &name, entry).unwrap();
            sessions[0].acknowledge(&name, entry, &id);
        }
        if let Some(silent) = owner.take() {
            silent.signal("CONT");
            let winner = format!("host{number}");
            silent.wait_until("the takeover", |events| {
                let refused =
                    |event: &&Event| matches!(event, Event::TakenOver { owner, .. } if *owner == winner);
                events.iter().filter(refused).count() == 3
            });
            silent.stop(&mut sessions);
        }
    }
    assert!(fences.is_sorted_by(|one, other| one < other), "{fences:?}");
    database.close(sessions, &hosts[0])
}

/// Lets all hosts open the session at once, while its owner may close it. Returns the number of the
/// one that has it.
fn contend(hosts: &[Host], closing: Option<Writer>, sessions: &mut [Ledger]) -> (usize, Session) {
    let address = sessions[0].address();
    let start = Barrier::new(hosts.len() + 1);
    let open = |host: &Host| {
        start.wait();
        loop {
            match host.store.open(&address) {
                Err(Error::InUse { owner: Some(owner), .. }) if owner.program == "owner" => {}
                result => return result,
            }
        }
    };
    let open = &open;
    let results: Vec<Result<Session, Error>> = thread::scope(|scope| {
        let threads: Vec<_> = hosts.iter().map(|host| scope.spawn(move || open(host))).collect();
        start.wait();
        if let Some(writer) = closing {
            writer.stop(sessions);
        }
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let number = results.iter().position(Result::is_ok).expect("one host has the session");
    let mut winner = None;
    for result in results {
        match result {
            Ok(session) => assert!(winner.replace(session).is_none(), "two hosts have the session"),
            Err(Error::InUse { owner: Some(owner), .. }) => {
                assert_eq!(owner.program, hosts[number].name);
            }
            Err(error) => panic!("{error}"),
        }
    }
    (number, winner.unwrap())
}

fn fence(database: &Database, ledger: &Ledger) -> i64 {
    let statement = format!("SELECT fence FROM tiller.session WHERE id = '{}'", ledger.id);
    database.sql(&statement).parse().unwrap()
}
