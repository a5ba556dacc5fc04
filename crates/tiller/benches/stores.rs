//! Measures sessions in files beside sessions in PostgreSQL, which the benchmark starts for itself,
//! with a disk that is waited for. `cargo bench -p tiller --bench stores` prints tables;
//! docs/benchmarks.md says what they show. Names behind `--` choose some of them: `append`, `turns`,
//! `open`, `many`, `claims`. `cargo test` runs it with small numbers.

#[path = "../tests/support/postgres.rs"]
mod postgres;
#[allow(clippy::unwrap_used, dead_code, reason = "shared with tests")]
#[path = "../tests/support/skip.rs"]
mod skip;

#[path = "../../tiller-session/benches/large/conversation.rs"]
mod conversation;

#[path = "stores/append.rs"]
mod append;
#[path = "stores/turns.rs"]
mod turns;
#[path = "stores/open.rs"]
mod open;
#[path = "stores/many.rs"]
mod many;
#[path = "stores/claims.rs"]
mod claims;
#[path = "stores/place.rs"]
mod place;
#[path = "stores/figures.rs"]
mod figures;
#[path = "stores/usage.rs"]
mod usage;

use std::io::Write as _;
use std::time::Duration;

use tempfile::TempDir;
use tokio::runtime::Runtime;

/// The most threads that may block, as in `tiller serve`.
const BLOCKING_THREADS_MAX: usize = 8_192;

/// How much is measured.
struct Sizes {
    /// Entries that one session stores, one at a time.
    appends: usize,
    /// Turns of a prompt, and how often they are repeated.
    turns: usize,
    rounds: usize,
    /// The entries of the large session, its megabytes, and how often it is opened.
    entries: usize,
    megabytes: usize,
    opens: usize,
    /// Many sessions, the entries that each of them stores, and the pause between these.
    sessions: usize,
    entries_each: usize,
    pace: Duration,
    /// How long PostgreSQL takes to count what was done before, and how long the count is watched.
    settling: Duration,
    idle: Duration,
}

impl Sizes {
    /// Those of `cargo bench`.
    fn full() -> Sizes {
        Sizes {
            appends: 5_000,
            turns: 200,
            rounds: 5,
            entries: 100_000,
            megabytes: 56,
            opens: 5,
            sessions: 1_000,
            entries_each: 20,
            pace: Duration::from_secs(1),
            settling: Duration::from_secs(12),
            idle: Duration::from_secs(60),
        }
    }

    /// Those of a test: enough to run every line once.
    fn smoke() -> Sizes {
        Sizes {
            appends: 5,
            turns: 4,
            rounds: 1,
            entries: 40,
            megabytes: 1,
            opens: 1,
            sessions: 4,
            entries_each: 2,
            pace: Duration::from_millis(10),
            settling: Duration::ZERO,
            idle: Duration::from_millis(50),
        }
    }
}

/// What all measurements share.
struct Bench {
    sizes: Sizes,
    cluster: postgres::Cluster,
    /// On the disk that the database is on.
    folder: TempDir,
    /// Like that of `tiller serve`.
    runtime: Runtime,
}

/// A measurement: returns a table.
type Measurement = fn(&Bench) -> String;

const MEASUREMENTS: &[(&str, Measurement)] = &[
    ("append", append::measure),
    ("turns", turns::measure),
    ("open", open::measure),
    ("many", many::measure),
    ("claims", claims::measure),
];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(measured) = open::in_child(&arguments) {
        return print(&measured);
    }
    let is_bench = arguments.iter().any(|argument| argument == "--bench");
    let sizes = if is_bench { Sizes::full() } else { Sizes::smoke() };
    // A test does not wait for the disk.
    let fsync = if is_bench { "on" } else { "off" };
    let settings = [("fsync", fsync), ("synchronous_commit", "on")];
    let Some(cluster) = postgres::start(&settings) else { return };
    raise_file_limit();
    let folder = tempfile::tempdir().expect("a folder can be made");
    let bench = Bench { sizes, cluster, folder, runtime: runtime() };
    let is_named = |name: &str| arguments.iter().any(|argument| argument == name);
    let all = !MEASUREMENTS.iter().any(|(name, _)| is_named(name));
    for (name, measure) in MEASUREMENTS {
        if all || is_named(name) {
            let table = measure(&bench);
            if is_bench {
                print(&format!("{table}\n"));
            }
        }
    }
}

fn print(text: &str) {
    // The reader of the tables may be gone.
    std::io::stdout().write_all(text.as_bytes()).ok();
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS_MAX)
        .build()
        .expect("a runtime can be made")
}

/// Every session in a file needs descriptors.
fn raise_file_limit() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        // With the lower limit, large numbers fail with a message that says so.
        setrlimit(Resource::RLIMIT_NOFILE, hard, hard).ok();
    }
}
