//! Opening and closing many small sessions one after another, and what a process costs that has them
//! open and does nothing.

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use tiller_session::Session;

use crate::Bench;
use crate::figures::{Table, Times, ms};
use crate::place::{FILES, NOW, POSTGRES, Place, entry, location};

pub fn measure(bench: &Bench) -> String {
    let Bench { sizes, .. } = bench;
    let mut table = Table::new(&[
        &format!("{} sessions of {} KB", sizes.sessions, sizes.entries_each),
        "create: median",
        "p99",
        "open: median",
        "p99",
        "close: median",
        "p99",
        "open and close all",
        "statements/s while idle",
    ]);
    for kind in [FILES, POSTGRES] {
        let place = Place::new(bench, kind);
        let (locations, creations) = create(bench, &place);
        let (mut openings, mut closings) = (Vec::new(), Vec::new());
        let begin = Instant::now();
        for location in &locations {
            let since = Instant::now();
            let session = place.store.open(location).expect("the session can be opened");
            openings.push(since.elapsed());
            let since = Instant::now();
            drop(session);
            closings.push(since.elapsed());
        }
        let time = begin.elapsed();
        let open = |location: &PathBuf| place.store.open(location);
        let sessions: Result<Vec<Session>, _> = locations.iter().map(open).collect();
        let sessions = sessions.expect("the sessions can be opened again");
        let statements = statements_while_idle(bench, &place);
        drop(sessions);
        let [creations, openings, closings] = [creations, openings, closings].map(Times::of);
        table.row(&[
            kind.name(),
            ms(creations.median()),
            ms(creations.percentile(99)),
            ms(openings.median()),
            ms(openings.percentile(99)),
            ms(closings.median()),
            ms(closings.percentile(99)),
            ms(time),
            statements.map_or_else(|| "–".to_owned(), |number| format!("{number:.2}")),
        ]);
        place.close();
    }
    table.text()
}

/// Makes sessions and closes them. Returns how long each took to be stored with its first entry.
fn create(bench: &Bench, place: &Place) -> (Vec<PathBuf>, Vec<Duration>) {
    let create = |_| {
        let begin = Instant::now();
        let mut session = place.begin();
        let time = begin.elapsed();
        for number in 1..bench.sizes.entries_each {
            session.append(entry(number), NOW).expect("the entry can be stored");
        }
        (location(&session).to_owned(), time)
    };
    (0..bench.sizes.sessions).map(create).unzip()
}

/// How many statements this process runs in a second, each a transaction.
fn statements_while_idle(bench: &Bench, place: &Place) -> Option<f64> {
    let database = place.database.as_ref()?;
    let name = database.url.rsplit('/').next()?.split('?').next()?;
    let committed = || -> Option<f64> {
        let statement =
            format!("select xact_commit from pg_stat_database where datname = '{name}'");
        // Asked in another database, so that the question does not count.
        bench.cluster.sql("postgres", &statement).parse().ok()
    };
    let autovacuum = |state: &str| {
        // Its transactions would count. This cannot be a part of another transaction.
        bench.cluster.sql("postgres", &format!("alter system set autovacuum = {state}"));
        bench.cluster.sql("postgres", "select pg_reload_conf()");
    };
    autovacuum("off");
    thread::sleep(bench.sizes.settling);
    let before = committed()?;
    let begin = Instant::now();
    thread::sleep(bench.sizes.idle);
    let count = committed()? - before;
    let time = begin.elapsed();
    autovacuum("on");
    Some(count / time.as_secs_f64())
}
