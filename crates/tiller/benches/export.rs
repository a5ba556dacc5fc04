//! Measures the export: time, memory and bytes for sessions of growing length, for prose and code.
//!
//! The cost per entry must not grow with the session, and memory must stay far below its size.
//! `cargo bench --bench export` prints the table.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

const ENTRIES: [usize; 3] = [1_000, 10_000, 100_000];

fn main() {
    let dir = tempfile::tempdir().expect("a folder to work in");
    let mut table =
        String::from("entries  kind     session      page      time   an entry   memory\n");
    for (kind, message) in [("prose", prose as fn(usize) -> Value), ("code", code)] {
        for entries in ENTRIES {
            let session = dir.path().join("session.jsonl");
            let read = write_session(&session, entries, message);
            let page = dir.path().join("page.html");
            let (time, peak_kb) = export(dir.path(), &session, &page);
            let written = fs::metadata(&page).map_or(0, |meta| meta.len());
            table += &format!(
                "{entries:<8} {kind:<6} {:>6.1} MB {:>6.1} MB {:>6.0} ms {:>7.1} µs {:>5} MB\n",
                read as f64 / 1e6,
                written as f64 / 1e6,
                time.as_secs_f64() * 1e3,
                time.as_secs_f64() * 1e6 / entries as f64,
                peak_kb / 1024,
            );
        }
    }
    // The reader of the table may be gone.
    std::io::stdout().write_all(table.as_bytes()).ok();
}

/// The elapsed time, and the peak memory use.
fn export(home: &Path, session: &Path, page: &Path) -> (Duration, u64) {
    let begun = Instant::now();
    let mut child = Command::new(env!("CARGO_BIN_EXE_tiller"))
        .arg("--export")
        .args([session, page])
        .env_clear()
        .env("HOME", home)
        // A secret to mask, as every user has one.
        .env("ANTHROPIC_API_KEY", "sk-ant-nobody-ever-said-this")
        .stdout(Stdio::null())
        .spawn()
        .expect("tiller starts");
    let status = format!("/proc/{}/status", child.id());
    let mut peak_kb = 0;
    loop {
        let text = fs::read_to_string(&status).unwrap_or_default();
        let peak =
            text.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB"));
        peak_kb = peak.and_then(|peak| peak.parse().ok()).unwrap_or(0).max(peak_kb);
        if let Ok(Some(status)) = child.try_wait() {
            assert!(status.success(), "{status}");
            return (begun.elapsed(), peak_kb);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn write_session(path: &Path, entries: usize, message: fn(usize) -> Value) -> u64 {
    let mut text = json!({"type": "session", "version": 3, "id": "bench", "cwd": "/tmp",
        "timestamp": "2026-11-16T01:00:00.000Z"})
    .to_string();
    for at in 0..entries {
        let parent = at.checked_sub(1).map(|parent| format!("{parent:08x}"));
        let entry = json!({"type": "message", "id": format!("{at:08x}"), "parentId": parent,
            "timestamp": "2026-11-16T01:00:00.000Z", "message": message(at)});
        text += &format!("\n{entry}");
    }
    text.push('\n');
    fs::write(path, &text).expect("the session is written");
    text.len() as u64
}

const WORDS: &str =
    "The quick brown fox jumps over the lazy dog while the agent reads, edits and tests the code. ";

/// A user message, an answer that reads a file, the file, an answer.
fn prose(at: usize) -> Value {
    match at % 4 {
        0 => json!({"role": "user", "content": [text(&WORDS.repeat(3))], "timestamp": at}),
        1 => answer(
            json!([text("I look at the file."), {"type": "toolCall", "id": format!("c{at}"), "name": "read",
            "arguments": {"path": format!("src/file{at}.rs")}}]),
        ),
        2 => json!({"role": "toolResult", "toolCallId": format!("c{}", at - 1), "toolName": "read",
            "content": [text(&WORDS.repeat(2))], "isError": false, "timestamp": at}),
        _ => answer(json!([text(WORDS)])),
    }
}

/// The same, with code in every message.
fn code(at: usize) -> Value {
    let code =
        "fn main() {\n    let x = \"a\"; // why\n    println!(\"{x}\", 1 + 2);\n}\n".repeat(6);
    match at % 4 {
        2 => json!({"role": "toolResult", "toolCallId": format!("c{}", at - 1), "toolName": "read",
            "content": [text(&code)], "isError": false, "timestamp": at}),
        3 => answer(json!([text(&format!("Like this:\n\n```rust\n{code}```\n"))])),
        _ => prose(at),
    }
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn answer(content: Value) -> Value {
    json!({"role": "assistant", "content": content, "api": "a", "provider": "p", "model": "m",
        "usage": {"input": 120, "output": 40, "cacheRead": 1000, "cacheWrite": 60, "totalTokens": 1220,
            "cost": {"input": 0.0, "output": 0.0, "cacheRead": 0.0, "cacheWrite": 0.0, "total": 0.001}},
        "stopReason": "stop", "timestamp": 1})
}
