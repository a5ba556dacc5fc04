//! What this process and the database use.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;

use crate::Bench;

/// CPU time since the start.
#[derive(Clone, Copy, Debug)]
pub struct Cpu {
    /// Of this process.
    pub own: Duration,
    /// Of PostgreSQL, all processes. The kernel counts in hundredths of a second.
    pub server: Duration,
}

impl Cpu {
    pub fn now(bench: &Bench) -> Cpu {
        let usage = getrusage(UsageWho::RUSAGE_SELF).expect("the kernel counts");
        let microseconds =
            usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
        let own = Duration::from_micros(microseconds.unsigned_abs());
        Cpu { own, server: tree_cpu(bench.cluster.pid()) }
    }

    pub fn since(self, before: Cpu) -> Cpu {
        Cpu { own: self.own - before.own, server: self.server.saturating_sub(before.server) }
    }
}

/// CPU time of a process and its children, those that have ended included.
fn tree_cpu(root: u32) -> Duration {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ticks = processes.filter_map(|process| {
        let pid: u32 = process.file_name().to_str()?.parse().ok()?;
        let status = fs::read_to_string(process.path().join("stat")).ok()?;
        // The name of the program may contain spaces; the other fields follow its parenthesis.
        let fields = status.rsplit_once(") ")?.1;
        let fields: Vec<u64> = fields.split(' ').map(|field| field.parse().unwrap_or(0)).collect();
        let is_child = fields[1] == u64::from(root);
        let own = fields[11] + fields[12];
        let of_ended_children = fields[13] + fields[14];
        (pid == root || is_child).then_some(own + of_ended_children)
    });
    Duration::from_millis(ticks.sum::<u64>() * 10)
}

/// A number of `/proc/self/status`.
pub fn status(field: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap_or_default();
    line.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

pub fn resident_bytes() -> u64 {
    status("VmRSS:") * 1024
}

/// The most threads and memory of this process while it is watched.
#[derive(Clone, Copy, Debug, Default)]
pub struct Peak {
    pub threads: u64,
    pub resident_bytes: u64,
}

/// A thread that watches this process.
pub struct Watcher {
    ends: Arc<AtomicBool>,
    thread: JoinHandle<Peak>,
}

impl Watcher {
    pub fn start() -> Watcher {
        const PAUSE: Duration = Duration::from_millis(5);
        let ends = Arc::new(AtomicBool::new(false));
        let is_over = ends.clone();
        let thread = thread::spawn(move || {
            let mut peak = Peak::default();
            while !is_over.load(Ordering::Relaxed) {
                // Without this thread.
                peak.threads = peak.threads.max(status("Threads:") - 1);
                peak.resident_bytes = peak.resident_bytes.max(resident_bytes());
                thread::sleep(PAUSE);
            }
            peak
        });
        Watcher { ends, thread }
    }

    pub fn end(self) -> Peak {
        self.ends.store(true, Ordering::Relaxed);
        self.thread.join().expect("it only reads")
    }
}
