//! The tables of the benchmark, as in docs/benchmarks.md.

use std::fmt::Write as _;
use std::io::Write as _;
use std::time::Duration;

use crate::process::Usage;

pub struct IdleRow {
    pub name: &'static str,
    pub sessions: usize,
    /// Until all sessions were open.
    pub opening: Duration,
    /// At rest, with everything since the start.
    pub usage: Usage,
    /// Of `get_state`, sorted.
    pub latencies: Vec<Duration>,
}

pub struct StreamRow {
    pub name: &'static str,
    pub streams: usize,
    /// Zero: as fast as the records are read.
    pub pace: Duration,
    /// Until the model had all requests.
    pub requests: Duration,
    /// From the begin of all answers to the end of each, sorted.
    pub times: Vec<Duration>,
    pub records: u64,
    /// What the answers cost.
    pub cpu: Duration,
    /// Afterwards.
    pub usage: Usage,
}

pub fn print(idle: &[IdleRow], streams: &[StreamRow]) {
    let mut text = String::from(
        "| | sessions | opened in | CPU each | memory (PSS) | memory each | `get_state` median | p99 | threads | files |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    for row in idle {
        row.write(&mut text);
    }
    text.push_str(
        "\n| | streams | pace | all requests in | fastest | slowest | ratio | records | records/s | CPU | memory (PSS) |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    for row in streams {
        row.write(&mut text);
    }
    // The reader of the tables may be gone.
    std::io::stdout().write_all(text.as_bytes()).ok();
}

impl IdleRow {
    fn write(&self, text: &mut String) {
        let IdleRow { name, sessions, opening, usage, latencies } = self;
        let each = *sessions as f64;
        // The kernel counts in hundredths of a second, which is too coarse for a single process.
        let cpu = match milliseconds(usage.cpu) / each {
            0.0 => "–".to_owned(),
            cpu => format!("{cpu:.2} ms"),
        };
        let percentile = |part: usize| milliseconds(latencies[latencies.len() * part / 100]);
        writeln!(
            text,
            "| `{name}` | {sessions} | {:.2} s | {cpu} | {} | {:.0} KB | {:.2} ms | {:.2} ms | {} | {} |",
            opening.as_secs_f64(),
            megabytes(usage.pss_bytes),
            usage.pss_bytes as f64 / 1e3 / each,
            percentile(50),
            percentile(99),
            usage.threads,
            usage.files,
        )
        .expect("a string takes all text");
    }
}

impl StreamRow {
    fn write(&self, text: &mut String) {
        let StreamRow { name, streams, pace, requests, times, records, cpu, usage } = self;
        let pace = if pace.is_zero() { "none".to_owned() } else { format!("{pace:?}") };
        let (fastest, slowest) = (times[0].as_secs_f64(), times[times.len() - 1].as_secs_f64());
        writeln!(
            text,
            "| `{name}` | {streams} | {pace} | {:.2} s | {fastest:.2} s | {slowest:.2} s | {:.2} | {records} | {:.0} | {:.2} s | {} |",
            requests.as_secs_f64(),
            slowest / fastest,
            *records as f64 / slowest,
            cpu.as_secs_f64(),
            megabytes(usage.pss_bytes),
        )
        .expect("a string takes all text");
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}
