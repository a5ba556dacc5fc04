//! The cost of extensions: time until the first one is loaded, memory, and the duration of a hook.
//!
//! `cargo bench -p tiller-js --bench engine`

#![allow(clippy::print_stdout, reason = "a benchmark prints its figures")]

#[path = "../tests/support/mod.rs"]
mod support;

use std::time::{Duration, Instant};

use serde_json::json;
use support::Stage;
use tiller_js::Limits;
use tiller_js::hook::{Context, ToolCall};

const GATE: &str = r#"
import type { ExtensionAPI } from "@earendil-works/pi-coding-agent";
const dangerous = [/\brm\s+-rf\b/, /\bsudo\b/];
export default function (pi: ExtensionAPI) {
    pi.on("tool_call", async (event, ctx) => {
        if (event.toolName !== "bash") return undefined;
        const command = event.input.command as string;
        if (!dangerous.some((pattern) => pattern.test(command))) return undefined;
        return { block: true, reason: `no: ${command}` };
    });
    pi.on("context", (event) => undefined);
}
"#;

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(measure());
}

async fn measure() {
    let before = memory_kb();
    let mut loads = Vec::new();
    let mut kept = None;
    let mut after = before;
    for round in 0..30 {
        let stage = Stage::set(&[("ext.ts", GATE)], Limits::default());
        let begun = Instant::now();
        let report = stage.load().await;
        stage.extensions.bind().await;
        loads.push(begun.elapsed());
        assert!(report.errors.is_empty(), "{:?}", report.errors);
        if round == 0 {
            after = memory_kb();
            kept = Some(stage);
        } else {
            stage.extensions.stop();
        }
    }
    let first = loads[0];
    let median_load = median(&mut loads);
    println!("first extension: {first:.1?} at first, {median_load:.1?} at the median");
    println!("memory of the first engine: {:.1} MB", (after - before) as f64 / 1024.0);
    let stage = kept.expect("the first stage");
    let mut calls = Vec::new();
    for number in 0..20_000 {
        let call = ToolCall {
            tool_call_id: format!("call-{number}"),
            tool_name: "bash".into(),
            input: json!({"command": "ls -la src && cat Cargo.toml"}),
        };
        let begun = Instant::now();
        let verdict = stage.extensions.run_hook(call).await.expect("the gate is open");
        calls.push(begun.elapsed());
        assert_eq!(verdict.block, None);
    }
    println!("a tool_call hook: {:.1?} at the median", median(&mut calls));
    let message = json!({"role": "user", "content": [{"type": "text", "text": "x".repeat(2000)}]});
    let mut contexts = Vec::new();
    for _ in 0..50 {
        let hook = Context { messages: vec![message.clone(); 200] };
        let begun = Instant::now();
        stage.extensions.run_hook(hook).await.expect("context fails open");
        contexts.push(begun.elapsed());
    }
    println!("a context hook with 200 messages: {:.1?} at the median", median(&mut contexts));
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn memory_kb() -> i64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let rss = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    rss.and_then(|rss| rss.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
