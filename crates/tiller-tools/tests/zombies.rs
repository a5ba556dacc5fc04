//! A child that has ended is reaped at once, however it ended and though no other child is started.
//!
//! There is only one test in this program, because it counts all children of its process.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use tiller_tools::Shell;
use tiller_tools::command::{BashCommand, execute};
use tokio_util::sync::CancellationToken;

/// An upper bound for events that are certain to happen, not a pause.
const PATIENCE: Duration = Duration::from_secs(30);

/// Commands that leave background children, which end when there is a file `go`.
const BACKGROUND: [&str; 5] = [
    "WAIT &",
    "WAIT & WAIT & (sleep 0.01 &)",
    "(setsid bash -c 'WAIT' &) &",
    "(WAIT; exit 7) & (WAIT; kill -KILL $BASHPID) &",
    // The guardian is killed instead of ending by itself.
    "guardian=$PPID; (WAIT; kill -KILL $guardian) &",
];

/// The command's loop. It holds no output open.
const WAIT: &str = "until [ -e go ]; do sleep 0.01; done > /dev/null 2>&1 < /dev/null";

#[test]
fn ended_children_leave_no_zombies() {
    for script in BACKGROUND {
        let folder = tempfile::tempdir().unwrap();
        run(script, folder.path());
        assert_eq!(children().len(), 1, "{script}: the guardian stays: {:?}", children());
        fs::write(folder.path().join("go"), "").unwrap();
        wait_until_no_child_is_left(script);
    }
    let folder = tempfile::tempdir().unwrap();
    let aborted = "echo ready; WAIT";
    run(aborted, folder.path());
    wait_until_no_child_is_left(aborted);
}

/// Runs a command until it has ended. If it prints `ready`, it is aborted.
fn run(script: &str, folder: &Path) {
    let command = BashCommand {
        command: script.replace("WAIT", WAIT),
        cwd: Arc::new(folder.to_owned()),
        env: Arc::from([]),
        shell: Shell::default(),
        confinement: None,
    };
    let cancel = CancellationToken::new();
    let stop = cancel.clone();
    let on_chunk = move |chunk: String| {
        if chunk.contains("ready") {
            stop.cancel();
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let over = execute(command, on_chunk, cancel);
    let over = async { tokio::time::timeout(PATIENCE, over).await };
    runtime.block_on(over).unwrap().unwrap();
}

fn wait_until_no_child_is_left(script: &str) {
    let begun = Instant::now();
    while !children().is_empty() {
        assert!(begun.elapsed() < PATIENCE, "{script}: left {:?}", children());
        thread::sleep(Duration::from_millis(2));
    }
}

/// The lines of `/proc` about the children of this process, zombies too.
fn children() -> Vec<String> {
    let parent = std::process::id().to_string();
    let processes = fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let stat = fs::read_to_string(entry.ok()?.path().join("stat")).ok()?;
        // State and parent follow the name, which may contain anything.
        let is_child = stat.rsplit_once(") ")?.1.split(' ').nth(1)? == parent;
        is_child.then_some(stat)
    });
    processes.collect()
}
