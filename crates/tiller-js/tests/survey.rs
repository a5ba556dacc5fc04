//! Other people's extensions: loads every one in a folder and prints a table of what it registers.
//! `SURVEY=/path/to/extensions cargo test -p tiller-js --test survey -- --ignored --nocapture`
#![allow(clippy::unwrap_used)]

mod support;

use std::path::{Path, PathBuf};

use serde_json::json;
use support::Stage;
use tiller_js::event::{Event, StartReason};
use tiller_js::hook::{BeforeAgentStart, Context, Input, InputSource, ToolCall, ToolResult};
use tiller_js::{Extension, Limits};

#[tokio::test]
#[ignore = "needs a folder of extensions in SURVEY"]
async fn survey() {
    let root = std::env::var("SURVEY").expect("SURVEY names a folder of extensions");
    let (mut loaded, mut all) = (0, 0);
    for path in entries(Path::new(&root)) {
        all += 1;
        let stage = Stage::set(&[], Limits::default());
        let begun = std::time::Instant::now();
        let report = stage.guests.load(&[Extension::new(&path)]).await;
        let took = begun.elapsed();
        if report.errors.is_empty() {
            loaded += 1;
        }
        stage.guests.bind().await;
        fire(&stage).await;
        let name = path.strip_prefix(&root).unwrap().display().to_string();
        println!("== {name} {:.1} ms", took.as_secs_f64() * 1000.0);
        println!("{}", support::shown(&report, &stage));
        for line in stage.log().lines().filter(|line| noteworthy(line)) {
            println!("   {line}");
        }
        stage.guests.stop();
    }
    println!("{loaded} of {all} loaded");
}

fn noteworthy(line: &str) -> bool {
    line.starts_with("extension_error") || line.starts_with("Warning")
}

/// Tells and asks what a short run would.
async fn fire(stage: &Stage) {
    let guests = &stage.guests;
    guests
        .tell(&Event::SessionStart { reason: StartReason::Startup, previous_session_file: None })
        .await;
    let input = Input {
        text: "hello".into(),
        images: None,
        source: InputSource::Rpc,
        streaming_behavior: None,
    };
    guests.ask(input).await.ok();
    let start = BeforeAgentStart {
        prompt: "hello".into(),
        images: None,
        system_prompt: "You are helpful.".into(),
        system_prompt_options: json!({"selectedTools": [], "toolSnippets": {}, "promptGuidelines": [], "sections": {}, "contextFiles": [], "skills": [], "cwd": "."}),
    };
    guests.ask(start).await.ok();
    guests.tell(&Event::AgentStart).await;
    guests.tell(&Event::TurnStart { turn_index: 0, timestamp: 1 }).await;
    guests.ask(Context { messages: vec![json!({"role": "user", "content": "hello"})] }).await.ok();
    let call = ToolCall {
        tool_call_id: "c".into(),
        tool_name: "bash".into(),
        input: json!({"command": "ls"}),
    };
    guests.ask(call).await.ok();
    let result = ToolResult {
        tool_call_id: "c".into(),
        tool_name: "bash".into(),
        input: json!({"command": "ls"}),
        content: json!([{"type": "text", "text": "a"}]),
        details: None,
        is_error: false,
        usage: None,
    };
    guests.ask(result).await.ok();
    guests.tell(&Event::AgentEnd { messages: vec![] }).await;
    guests.tell(&Event::AgentSettled { aborted: false }).await;
}

/// Files, and folders with an index or a list in their `package.json`.
fn entries(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut names: Vec<PathBuf> =
        std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    for path in names {
        if path.is_file() {
            if path.extension().is_some_and(|ending| ending == "ts" || ending == "js") {
                found.push(path);
            }
            continue;
        }
        let manifest = std::fs::read_to_string(path.join("package.json")).unwrap_or_default();
        let manifest: serde_json::Value = serde_json::from_str(&manifest).unwrap_or_default();
        let listed = manifest["pi"]["extensions"].as_array().cloned().unwrap_or_default();
        if listed.is_empty() {
            let index = ["index.ts", "index.js"].map(|name| path.join(name));
            found.extend(index.into_iter().find(|index| index.exists()));
        } else {
            found
                .extend(listed.iter().filter_map(|name| name.as_str()).map(|name| path.join(name)));
        }
    }
    found
}
