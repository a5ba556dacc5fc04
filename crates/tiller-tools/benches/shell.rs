//! The `bash` tool with a lot of output, compared with the same command writing to a file.
//!
//! `cargo bench -p tiller-tools --bench shell [-- MEGABYTES]`, 1,000 by default. Prints the times,
//! their ratio, and the peak memory of this process.

#![allow(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use tiller_agent::tool::{ToolContext, ToolResult};
use tokio_util::sync::CancellationToken;

const ROUNDS: usize = 3;

fn main() {
    let megabytes = std::env::args().skip(1).find_map(|argument| argument.parse().ok());
    let megabytes: u64 = megabytes.unwrap_or(1000);
    let folder = tempfile::tempdir().expect("a scratch folder");
    let lines = megabytes * 1_000_000 / 100;
    let command = format!("yes '{}' | head -n {lines}", "x".repeat(99));
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let start = Instant::now();
        run(&command, folder.path().to_owned()).expect("the command works");
        ours.push(start.elapsed());
        let start = Instant::now();
        let into_file = format!("({command}) > out.txt");
        let status = Command::new("bash").args(["-c", &into_file]).current_dir(&folder).status();
        assert!(status.expect("there is a shell").success());
        theirs.push(start.elapsed());
    }
    let (ours, theirs) = (median(ours), median(theirs));
    let ratio = ours.as_secs_f64() / theirs.as_secs_f64();
    println!("{megabytes} MB: bash tool {ours:.1?}, into a file {theirs:.1?}, ratio {ratio:.2}");
    println!("peak memory {}", peak_memory());
}

fn run(command: &str, cwd: std::path::PathBuf) -> ToolResult {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let cancel = CancellationToken::new();
    let (cx, _shown) = ToolContext::new(Arc::new(cwd), cancel, false, Arc::new([]));
    let arguments = json!({"command": command}).as_object().cloned().unwrap_or_default();
    runtime.block_on(tiller_tools::bash::tool().run(arguments, cx))
}

fn peak_memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    peak.map_or("is not told here".to_owned(), |peak| peak.trim().to_owned())
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
