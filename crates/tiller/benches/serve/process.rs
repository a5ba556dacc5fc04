//! A process of tiller, and what it uses.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::{Child, Command};

/// The loopback model of `models.json`.
pub const PROVIDER: &str = "loopback";
pub const MODEL: &str = "bench";

/// Starts tiller with its own home and agent folder in `folder`. It is killed when it is dropped.
pub fn spawn(folder: &Path, arguments: &[&str]) -> Child {
    let program = std::env::var_os("TILLER_BENCH_PROGRAM");
    Command::new(program.unwrap_or_else(|| env!("CARGO_BIN_EXE_tiller").into()))
        .args(arguments)
        .current_dir(folder)
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", folder)
        .env("PI_CODING_AGENT_DIR", folder.join("agent"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("tiller starts")
}

/// What a process uses, or several together.
#[derive(Clone, Copy, Default)]
pub struct Usage {
    /// Memory, with its share of pages that several processes have.
    pub pss_bytes: u64,
    pub rss_bytes: u64,
    pub cpu: Duration,
    pub threads: u64,
    pub files: u64,
}

impl Usage {
    /// Of the process with this id.
    pub fn of(pid: u32) -> Usage {
        let read = |file: &str| {
            std::fs::read_to_string(format!("/proc/{pid}/{file}")).expect("the process lives")
        };
        let memory = read("smaps_rollup");
        let kilobytes = |name: &str| field(&memory, name) * 1024;
        let stat = read("stat");
        // The name of the program may contain spaces; the numbers follow its parenthesis.
        let numbers = stat.rsplit_once(") ").map_or("", |(_, numbers)| numbers);
        let numbers: Vec<u64> = numbers.split(' ').map(|n| n.parse().unwrap_or(0)).collect();
        let ticks = numbers[11] + numbers[12];
        let files = std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count);
        Usage {
            pss_bytes: kilobytes("Pss:"),
            rss_bytes: kilobytes("Rss:"),
            // Linux counts in hundredths of a second.
            cpu: Duration::from_millis(ticks * 10),
            threads: field(&read("status"), "Threads:"),
            files: files as u64,
        }
    }

    pub fn of_all(pids: impl Iterator<Item = u32>) -> Usage {
        pids.map(Usage::of).fold(Usage::default(), |sum, one| Usage {
            pss_bytes: sum.pss_bytes + one.pss_bytes,
            rss_bytes: sum.rss_bytes + one.rss_bytes,
            cpu: sum.cpu + one.cpu,
            threads: sum.threads + one.threads,
            files: sum.files + one.files,
        })
    }
}

/// The number behind this name.
fn field(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    line.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or(0)
}
