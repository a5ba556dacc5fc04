//! Many sessions of one process that store entries at the same time: first as fast as they can, then
//! at a pace. A session blocks its thread while it waits for its store, as in a server.

use std::sync::Arc;
use std::time::Duration;

use tiller_session::Session;
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::Bench;
use crate::figures::{Table, Times, mb, ms, ms_each, per_second};
use crate::place::{FILES, Kind, NOW, Place, SYNCED_FILES, entry};
use crate::usage::{Cpu, Peak, Watcher};

const TWENTY_CONNECTIONS: Kind = Kind::Postgres { parameters: "?connections=20" };

/// What one round has measured.
struct Round {
    time: Duration,
    times: Times,
    cpu: Cpu,
    peak: Peak,
    /// How many transactions the database has carried out.
    transactions: Option<u64>,
}

pub fn measure(bench: &Bench) -> String {
    let mut table = Table::new(&[
        &format!("{} sessions, 1 KB each", bench.sizes.sessions),
        "pace",
        "entries/s",
        "median",
        "p99",
        "longest",
        "CPU of tiller each",
        "CPU of PostgreSQL each",
        "entries a transaction",
        "connections",
        "threads",
        "memory",
    ]);
    for kind in [FILES, SYNCED_FILES, TWENTY_CONNECTIONS] {
        let place = Place::new(bench, kind);
        let mut sessions: Vec<Session> = (0..bench.sizes.sessions).map(|_| place.begin()).collect();
        for pace in [Duration::ZERO, bench.sizes.pace] {
            let round;
            (sessions, round) = measure_round(bench, &place, sessions, pace);
            let count = bench.sizes.sessions * bench.sizes.entries_each;
            let transactions = round.transactions.map(|all| count as f64 / all.max(1) as f64);
            let or_none = |figure: Option<String>| figure.unwrap_or_else(|| "–".to_owned());
            table.row(&[
                kind.name(),
                if pace.is_zero() { "none".to_owned() } else { format!("{pace:?}") },
                per_second(count, round.time),
                ms(round.times.median()),
                ms(round.times.percentile(99)),
                ms(round.times.longest()),
                ms_each(round.cpu.own, count),
                ms_each(round.cpu.server, count),
                or_none(transactions.map(|each| format!("{each:.1}"))),
                or_none(connections(bench, &place).map(|number| number.to_string())),
                round.peak.threads.to_string(),
                mb(round.peak.resident_bytes),
            ]);
        }
        drop(sessions);
        place.close();
    }
    table.text()
}

fn measure_round(
    bench: &Bench,
    place: &Place,
    sessions: Vec<Session>,
    pace: Duration,
) -> (Vec<Session>, Round) {
    let transactions = transactions(bench, place);
    let cpu = Cpu::now(bench);
    let watcher = Watcher::start();
    let begin = Instant::now();
    let appends = append_all(sessions, bench.sizes.entries_each, pace);
    let (sessions, times) = bench.runtime.block_on(appends);
    let time = begin.elapsed();
    let (peak, cpu) = (watcher.end(), Cpu::now(bench).since(cpu));
    let transactions = self::transactions(bench, place).zip(transactions);
    let transactions = transactions.map(|(after, before)| after - before);
    (sessions, Round { time, times: Times::of(times), cpu, peak, transactions })
}

/// Appends so many entries to each session, a task each. With a pace, the time of an entry counts
/// from the moment when it was due.
async fn append_all(
    sessions: Vec<Session>,
    entries: usize,
    pace: Duration,
) -> (Vec<Session>, Vec<Duration>) {
    let count = sessions.len();
    let all_ready = Arc::new(Barrier::new(count));
    let mut tasks = JoinSet::new();
    for (at, mut session) in sessions.into_iter().enumerate() {
        let all_ready = all_ready.clone();
        tasks.spawn(async move {
            all_ready.wait().await;
            let offset = pace.mul_f64(at as f64 / count as f64);
            let start = Instant::now() + offset;
            let mut times = Vec::with_capacity(entries);
            for number in 0..entries {
                let body = entry(at * entries + number);
                let begin = if pace.is_zero() {
                    Instant::now()
                } else {
                    let due = start + pace * number as u32;
                    sleep_until(due).await;
                    due
                };
                session.append(body, NOW).expect("the entry can be stored");
                times.push(begin.elapsed());
                tokio::task::yield_now().await;
            }
            (session, times)
        });
    }
    let (sessions, times): (Vec<Session>, Vec<Vec<Duration>>) =
        tasks.join_all().await.into_iter().unzip();
    (sessions, times.concat())
}

/// How many transactions of the whole cluster have written something.
fn transactions(bench: &Bench, place: &Place) -> Option<u64> {
    place.database.as_ref()?;
    let number = bench.cluster.sql("postgres", "select pg_snapshot_xmax(pg_current_snapshot())");
    number.parse().ok()
}

/// How many connections this process has. They stay open once they were used.
fn connections(bench: &Bench, place: &Place) -> Option<u64> {
    place.database.as_ref()?;
    let statement = "select count(*) from pg_stat_activity where application_name = 'tiller'";
    bench.cluster.sql("postgres", statement).parse().ok()
}
