//! Measures `tiller serve` with many sessions, side by side with a process for each session. It
//! also checks that no record is lost. `cargo bench -p tiller --bench serve` prints two tables;
//! docs/benchmarks.md says what they show. `cargo test` runs it with small numbers.

#[path = "serve/client.rs"]
mod client;
#[path = "serve/host.rs"]
mod host;
#[path = "serve/model.rs"]
mod model;
#[path = "serve/process.rs"]
mod process;
#[path = "serve/table.rs"]
mod table;

use std::path::Path;
use std::time::{Duration, Instant};

use host::Host;
use model::{CHUNK_BYTES, LoopbackModel, Plan};
use process::{MODEL, PROVIDER};
use table::{IdleRow, StreamRow};

/// How many of the sessions are asked for their state.
const ASKED: usize = 2_000;
/// How long a server rests before its idle memory is measured.
const REST: Duration = Duration::from_secs(1);

/// What is measured.
struct Options {
    sessions: usize,
    /// How many of the sessions stream at once.
    streams: usize,
    /// The chunks of an answer.
    chunks: usize,
    pace: Duration,
    /// Numbers of processes to compare with; the server is measured with the same numbers.
    classic: Vec<usize>,
}

impl Options {
    /// Those of the environment, for `cargo bench`.
    fn from_env() -> Options {
        let number = |name: &str, default: usize| match std::env::var(name) {
            Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name} is not a number: {text}")),
            Err(_) => default,
        };
        let classic = std::env::var("TILLER_BENCH_CLASSIC").unwrap_or_else(|_| "20,200".to_owned());
        let classic = classic.split(',').filter_map(|count| count.trim().parse().ok()).collect();
        Options {
            sessions: number("TILLER_BENCH_SESSIONS", 10_000),
            streams: number("TILLER_BENCH_STREAMS", 1_000),
            chunks: number("TILLER_BENCH_CHUNKS", 200),
            pace: Duration::from_millis(number("TILLER_BENCH_PACE_MS", 50) as u64),
            classic,
        }
    }

    /// Those of a test: enough to run every line once.
    fn smoke() -> Options {
        let pace = Duration::from_millis(5);
        Options { sessions: 12, streams: 8, chunks: 10, pace, classic: vec![2] }
    }
}

fn main() {
    let is_bench = std::env::args().any(|argument| argument == "--bench");
    let options = if is_bench { Options::from_env() } else { Options::smoke() };
    raise_file_limit();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime can be made");
    let (idle, streams) = runtime.block_on(measure(&options));
    if is_bench {
        table::print(&idle, &streams);
    }
}

async fn measure(options: &Options) -> (Vec<IdleRow>, Vec<StreamRow>) {
    let model = LoopbackModel::start().await;
    let folder = tempfile::tempdir().expect("a folder can be made");
    write_models_file(folder.path(), model.port);
    let (mut idle, mut streams) = (Vec::new(), Vec::new());
    for &count in &options.classic {
        let since = Instant::now();
        let host = Host::classic(folder.path(), count).await;
        measure_host(host, since.elapsed(), count, &model, options, &mut idle, &mut streams).await;
    }
    for sessions in options.classic.iter().copied().chain([options.sessions]) {
        let mut host = Host::serve(folder.path(), sessions).await;
        let since = Instant::now();
        host.open(sessions).await;
        let time = since.elapsed();
        let count = sessions.min(options.streams);
        measure_host(host, time, count, &model, options, &mut idle, &mut streams).await;
    }
    (idle, streams)
}

/// Measures sessions that were just opened: idle first, then `count` of them streaming.
async fn measure_host(
    mut host: Host,
    opening: Duration,
    count: usize,
    model: &LoopbackModel,
    options: &Options,
    idle: &mut Vec<IdleRow>,
    streams: &mut Vec<StreamRow>,
) {
    tokio::time::sleep(REST).await;
    let (name, sessions, usage) = (host.name(), host.session_count(), host.usage());
    let mut latencies = host.state_latencies(ASKED.min(sessions * 20)).await;
    latencies.sort();
    idle.push(IdleRow { name, sessions, opening, usage, latencies });
    for pace in [options.pace, Duration::ZERO] {
        let cpu_before = host.usage().cpu;
        let records_before = host.records();
        model.expect(Plan { requests: count, chunks: options.chunks, pace });
        let since = Instant::now();
        let (begun, answers) = tokio::join!(model.begun(), host.prompt(count));
        let expected = options.chunks * CHUNK_BYTES;
        assert!(answers.iter().all(|answer| answer.text_bytes == expected), "an answer is short");
        let mut times: Vec<Duration> =
            answers.iter().map(|answer| answer.settled - begun).collect();
        times.sort();
        let usage = host.usage();
        streams.push(StreamRow {
            name,
            streams: count,
            pace,
            requests: begun - since,
            times,
            records: host.records() - records_before,
            cpu: usage.cpu - cpu_before,
            usage,
        });
    }
    host.end().await;
}

fn write_models_file(folder: &Path, port: u16) {
    let agent_dir = folder.join("agent");
    std::fs::create_dir(&agent_dir).expect("a folder can be made");
    let text = format!(
        r#"{{"providers": {{"{PROVIDER}": {{
            "baseUrl": "http://127.0.0.1:{port}/v1",
            "api": "openai-completions",
            "apiKey": "none",
            "models": [{{"id": "{MODEL}"}}]
        }}}}}}"#
    );
    std::fs::write(agent_dir.join("models.json"), text).expect("a file can be written");
}

/// The model and the pipes of the processes need descriptors.
fn raise_file_limit() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        // With the lower limit, large numbers fail with a message that says so.
        setrlimit(Resource::RLIMIT_NOFILE, hard, hard).ok();
    }
}
