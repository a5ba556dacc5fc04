//! `grep` and `find` over a large tree, compared with ripgrep and fd where they are installed.
//!
//! `cargo bench -p tiller-tools --bench search [-- FILES]`, 200,000 files by default. The rounds
//! are interleaved and the medians compared: a ratio within one run is meaningful even on a busy
//! machine, where absolute times are not.

#![allow(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tiller_agent::tool::{Tool, ToolContext};
use tokio_util::sync::CancellationToken;

const ROUNDS: usize = 5;

fn main() {
    let files = std::env::args().skip(1).find_map(|argument| argument.parse().ok());
    let folder = tempfile::tempdir().expect("a scratch folder");
    let files = files.unwrap_or(200_000);
    grow(folder.path(), files);
    println!("{files} files, median of {ROUNDS} rounds");

    // A rare word: every file is read, few lines are returned.
    let needle = json!({"pattern": "needle_[0-9]+", "limit": 1_000_000});
    compare("grep", folder.path(), tiller_tools::grep::tool(), &needle, &rg());
    let names = json!({"pattern": "*7.rs", "limit": 1_000_000});
    compare("find", folder.path(), tiller_tools::find::tool(), &names, &fd());
    cancel(folder.path());
}

/// A tree like that of a large project: many folders, small files, some of them ignored.
fn grow(root: &Path, files: usize) {
    fs::create_dir(root.join(".git")).expect("the scratch folder is ours");
    fs::write(root.join(".gitignore"), "*.log\n").expect("the scratch folder is ours");
    for index in 0..files {
        let dir = root.join(format!("d{}/e{}", index / 5000, index / 100 % 50));
        if index % 100 == 0 {
            fs::create_dir_all(&dir).expect("the scratch folder is ours");
        }
        let extension = if index % 20 == 0 { "log" } else { "rs" };
        let needle = if index % 1000 == 1 { format!("needle_{index}\n") } else { String::new() };
        let text = format!("fn number_{index}() -> usize {{\n    {index}\n}}\n{needle}").repeat(4);
        fs::write(dir.join(format!("f{index}.{extension}")), text).expect("there is room");
    }
}

fn rg() -> Vec<&'static str> {
    vec!["rg", "--json", "--line-number", "--hidden", "--glob", "!.git", "--", "needle_[0-9]+", "."]
}

fn fd() -> Vec<&'static str> {
    let program = if is_installed("fdfind") { "fdfind" } else { "fd" };
    vec![program, "--glob", "--hidden", "--exclude", ".git", "--", "*7.rs"]
}

fn is_installed(program: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&paths).any(|dir: PathBuf| dir.join(program).is_file())
}

fn compare(name: &str, root: &Path, tool: Tool, arguments: &Value, other: &[&str]) {
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        ours.push(timed(|| call(&tool, root, arguments, &CancellationToken::new())));
        if is_installed(other[0]) {
            theirs.push(timed(|| {
                let mut command = Command::new(other[0]);
                command.args(&other[1..]).current_dir(root).stdout(Stdio::null());
                command.status().expect("it is installed");
            }));
        }
    }
    let ours = median(ours);
    if theirs.is_empty() {
        println!("{name:5} {ours:>10.1?}   ({} is not installed)", other[0])
    } else {
        let theirs = median(theirs);
        let ratio = ours.as_secs_f64() / theirs.as_secs_f64();
        println!("{name:5} {ours:>10.1?}   {} {theirs:>10.1?}   ratio {ratio:.2}", other[0]);
    }
}

/// How soon a search of the whole tree ends after it is cancelled.
fn cancel(root: &Path) {
    let mut answers = Vec::new();
    for round in 0..ROUNDS {
        let cancel = CancellationToken::new();
        let trigger = cancel.clone();
        let pause = Duration::from_millis(20 * (round as u64 + 1));
        let canceller = std::thread::spawn(move || {
            std::thread::sleep(pause);
            trigger.cancel();
            Instant::now()
        });
        let arguments = json!({"pattern": "never there", "limit": 10});
        call(&tiller_tools::grep::tool(), root, &arguments, &cancel);
        let ended = Instant::now();
        let cancelled = canceller.join().expect("it only sleeps");
        answers.push(ended.saturating_duration_since(cancelled));
    }
    println!(
        "cancel answered in {:?} (median), {:?} (worst)",
        median(answers.clone()),
        answers.iter().max()
    );
}

fn call(tool: &Tool, root: &Path, arguments: &Value, cancel: &CancellationToken) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let arguments = arguments.as_object().cloned().unwrap_or_default();
    let (cx, _shown) =
        ToolContext::new(Arc::new(root.to_owned()), cancel.clone(), false, Arc::new([]));
    // Cancelled or not, only the time counts.
    runtime.block_on(tool.run(arguments, cx)).ok();
}

fn timed(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
