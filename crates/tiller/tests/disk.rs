//! A full disk: the client is informed, nothing that was announced is lost, memory and disk agree,
//! and work resumes when there is space again.
//!
//! The full disk is a limit on file sizes that only the process under test has.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::{Value, json};

/// Three answers; the second exceeds the first file size limit.
const SCRIPT: &str = "say one\n\nrepeat 4000 \"word{i} \"\n\nsay three\n";

struct Tiller {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Tiller {
    fn start(folder: &Path, more: &[&str]) -> Tiller {
        let script = folder.join("script.txt");
        std::fs::write(&script, SCRIPT).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_tiller"))
            .args(["--mode", "rpc", "--wire", "pi-delta", "--session-dir", "sessions", "--script"])
            .arg(script)
            .args(more)
            .current_dir(folder)
            .env("HOME", folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Tiller { child, stdin, stdout }
    }

    /// Limits the size of the process's files.
    fn limit(&self, bytes: Option<u64>) {
        let pid = Pid::from_child(&self.child);
        let limit = Rlimit { current: bytes, maximum: None };
        prlimit(Some(pid), Resource::Fsize, limit).unwrap();
    }

    fn send(&mut self, command: Value) {
        writeln!(self.stdin, "{command}").unwrap();
    }

    /// Reads up to the first record of this type.
    fn until(&mut self, kind: &str) -> Vec<Value> {
        let mut records: Vec<Value> = Vec::new();
        while records.last().is_none_or(|record| record["type"] != kind) {
            let mut line = String::new();
            assert!(self.stdout.read_line(&mut line).unwrap() > 0, "tiller ended: {records:?}");
            records.push(serde_json::from_str(&line).unwrap());
        }
        records
    }

    fn ask(&mut self, command: Value) -> Value {
        self.send(command);
        self.until("response").pop().unwrap()["data"].take()
    }

    fn prompt(&mut self, message: &str) -> Vec<Value> {
        self.send(json!({"type": "prompt", "message": message}));
        self.until("agent_settled")
    }

    fn texts(&mut self) -> Vec<String> {
        let messages = self.ask(json!({"type": "get_messages"}))["messages"].take();
        let text = |message: &Value| message["content"][0]["text"].as_str().unwrap().to_owned();
        messages.as_array().unwrap().iter().map(text).collect()
    }

    fn end(mut self) {
        drop(self.stdin);
        assert!(self.child.wait().unwrap().success());
    }
}

#[test]
fn full_disk_is_reported_and_work_resumes_with_free_space() {
    let folder = tempfile::tempdir().unwrap();
    let mut tiller = Tiller::start(folder.path(), &[]);
    tiller.limit(Some(16 << 10));
    assert!(tiller.prompt("first").iter().all(|record| record["type"] != "session_error"));

    let records = tiller.prompt("second");
    let errors: Vec<_> =
        records.iter().filter(|record| record["type"] == "session_error").collect();
    assert_eq!(errors.len(), 1, "one message could not be kept");
    assert!(errors[0]["error"].as_str().unwrap().starts_with("cannot write session file"));
    let closing: Vec<_> = records.iter().rev().take(3).map(|record| &record["type"]).collect();
    assert_eq!(closing, ["agent_settled", "agent_end", "turn_end"]);
    assert_eq!(tiller.texts(), ["first", "one", "second"]);

    tiller.limit(None);
    tiller.prompt("third");
    let said = tiller.texts();
    assert_eq!(said, ["first", "one", "second", "third", "three"]);
    tiller.end();

    let mut again = Tiller::start(folder.path(), &["--continue"]);
    assert_eq!(again.texts(), said);
    again.end();
}
