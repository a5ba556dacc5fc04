//! Faults of the server: it ends connections, and restarts in the middle of appends. Writers go on.

use crate::cluster::{Database, database};
use crate::host::{Host, with};
use crate::postgres::StopMode;
use crate::processes::ledgers;
use crate::rounds::{Kind, Random, Totals, run};
use crate::writer::Writer;

const PARAMETERS: &str = "takeover_seconds=3600&timeout_seconds=60";

#[test]
fn writer_whose_connections_are_terminated_goes_on() {
    let Some(database) = database() else { return };
    run(Kind::Terminate, |random| terminate(random, database));
}

fn terminate(random: &mut Random, database: &Database) -> Totals {
    let mut sessions = ledgers(random.one_of(&[1, 4, 16]));
    let parameters = format!("{PARAMETERS}&application_name=terminated");
    let url = with(&database.url, &parameters);
    let writer = Writer::start("terminated", &url, random.one_of(&[0, 400]), &mut sessions);
    for _ in 0..=random.below(4) {
        // The first time, it may not have begun.
        random.sleep_below(30);
        database.sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
             WHERE application_name = 'terminated'",
        );
        writer.wait_for_progress();
    }
    writer.has_not_failed();
    writer.stop(&mut sessions);
    take_over(sessions, database)
}

#[test]
fn writers_go_on_after_a_restart_of_the_server() {
    let Some(database) = Database::start(&[]) else { return };
    run(Kind::Restart, |random| restart(random, &database));
}

fn restart(random: &mut Random, database: &Database) -> Totals {
    let url = with(&database.url, PARAMETERS);
    let (mut one, mut other) = (ledgers(1), ledgers(6));
    let writers =
        [Writer::start("one", &url, 40, &mut one), Writer::start("other", &url, 400, &mut other)];
    writers.iter().for_each(|writer| writer.wait_for_entries(1 + random.below(10)));
    random.sleep_below(20);
    database.cluster.stop(random.one_of(&[StopMode::Fast, StopMode::Immediate]));
    random.sleep_below(200);
    database.cluster.start_again();
    for writer in &writers {
        writer.wait_for_progress();
        writer.has_not_failed();
    }
    let [first, second] = writers;
    first.stop(&mut one);
    second.stop(&mut other);
    one.extend(other);
    take_over(one, database)
}

/// Another host opens the sessions, which are closed, and writes them.
pub fn take_over(mut sessions: Vec<crate::ledger::Ledger>, database: &Database) -> Totals {
    let next = Host::new("next", &with(&database.url, PARAMETERS));
    for ledger in &mut sessions {
        let mut session = next.open(ledger).unwrap();
        next.write(&mut session, ledger, 0..2);
    }
    database.close(sessions, &next)
}
