//! A file has the old content or the new one, whenever the writer is killed.
//!
//! The writer is this test program, started again: it replaces the content of a file as fast as it
//! can, with the model's tools. Each time it is killed at another moment.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;
use tiller_agent::tool::{Tool, ToolContext};
use tokio_util::sync::CancellationToken;

const DIR: &str = "KILLED_WHILE_WRITING_DIR";
const TOOL: &str = "KILLED_WHILE_WRITING_TOOL";

/// Large enough that a write takes a while.
fn content(letter: &str) -> String {
    format!("{letter}\n{}", "0123456789abcde\n".repeat(20_000))
}

/// Not a test: does nothing unless one of the tests below starts it.
#[test]
fn writer() {
    let (Ok(dir), Ok(name)) = (std::env::var(DIR), std::env::var(TOOL)) else { return };
    let tool: Tool = tiller_tools::builtin().into_iter().find(|t| t.name() == name).unwrap();
    let cwd = Arc::new(dir.into());
    let cx = ToolContext::new(cwd, CancellationToken::new(), true, Arc::from([])).0;
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let letters = ["A", "B"].into_iter().cycle().zip(["B", "A"].into_iter().cycle());
    for (old, new) in letters {
        let arguments = match name.as_str() {
            "edit" => json!({"path": "f", "edits": [{"oldText": old, "newText": new}]}),
            _ => json!({"path": "f", "content": content(new)}),
        };
        let arguments = arguments.as_object().unwrap().clone();
        runtime.block_on(tool.run(arguments, cx.clone())).unwrap();
    }
}

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

fn check(tool: &str) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("f");
    let possible = [content("A"), content("B")];
    for round in 0..25 {
        fs::write(&file, &possible[0]).unwrap();
        let writer = Command::new(std::env::current_exe().unwrap())
            .args(["writer", "--exact"])
            .env(DIR, dir.path())
            .env(TOOL, tool)
            .stdout(Stdio::null())
            .spawn();
        let writer = Killed(writer.unwrap());
        wait_for(&file, &possible[1]);
        thread::sleep(Duration::from_micros(round * 317));
        drop(writer);
        let left = fs::read_to_string(&file).unwrap();
        assert!(possible.contains(&left), "a mixture of {} bytes", left.len());
    }
}

/// Reads the file while it is written; it must never be seen half written either.
fn wait_for(file: &Path, content: &str) {
    let begun = Instant::now();
    loop {
        let seen = fs::read_to_string(file).unwrap();
        assert_eq!(seen.len(), content.len(), "seen half done");
        if seen == content {
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "nothing is written");
    }
}

#[test]
fn write() {
    check("write");
}

#[test]
fn edit() {
    check("edit");
}
