//! Hostile or badly written extensions. Each handles a `tool_call` hook; whatever it does, the hook
//! ends in time, the call is not allowed by accident, and a well-behaved extension in the same
//! engine goes on.
#![allow(clippy::unwrap_used)]

mod support;

use std::time::{Duration, Instant};

use expect_test::expect;
use serde_json::json;
use support::Stage;
use tiller_js::event::{Event, StartReason};
use tiller_js::hook::ToolCall;
use tiller_js::{Limits, Permissions};

const GOOD: &str = "export default (pi) => { let n = 0; pi.on('session_start', () => console.log('good', ++n)); pi.registerCommand('ping', { handler: () => console.log('pong') }); };";

fn limits() -> Limits {
    Limits {
        memory_bytes: 48 << 20,
        slice: Duration::from_millis(150),
        long_slice: Duration::from_millis(600),
        load: Duration::from_millis(500),
        hook: Duration::from_millis(500),
        ..Limits::default()
    }
}

fn unhurried() -> Limits {
    let long = Duration::from_secs(9);
    Limits { slice: long, long_slice: long, load: long, hook: long, ..limits() }
}

fn call() -> ToolCall {
    ToolCall {
        tool_call_id: "c1".into(),
        tool_name: "bash".into(),
        input: json!({"command": "ls"}),
    }
}

/// Loads `body` as a handler of `tool_call` beside a good extension, runs the hook, and checks that
/// the good one still works.
async fn check(body: &str, verdict: &str) {
    let source = format!("export default (pi) => pi.on('tool_call', {body});");
    check_within(limits(), &source, verdict).await;
}

/// The same with time to spare, for what a busy machine must not turn into a matter of time.
async fn check_unhurried(body: &str, verdict: &str) {
    let source = format!("export default (pi) => pi.on('tool_call', {body});");
    check_within(unhurried(), &source, verdict).await;
}

async fn check_within(limits: Limits, source: &str, verdict: &str) {
    let log = errors_first(&play(limits, source).await);
    assert_eq!(log, format!("{verdict}\nInfo: good 1\nInfo: pong"), "{source}");
}

const INTERRUPTED: &str = "extension_error ext-bad.js tool_call: stopped after 150 ms of work \
    without a pause\nrefused: stopped after 150 ms";

async fn play(limits: Limits, source: &str) -> String {
    let stage = Stage::set(&[("ext-bad.js", source), ("ext-good.js", GOOD)], limits);
    let begun = Instant::now();
    let report = stage.load().await;
    for error in &report.errors {
        stage.host.note(format!("not loaded: {}", error.error));
    }
    stage.extensions.bind().await;
    let verdict = match stage.extensions.run_hook(call()).await {
        Ok(verdict) => format!("{:?}", verdict.block),
        Err(refused) => format!("refused: {}", refused.reason),
    };
    stage.host.note(verdict);
    stage
        .extensions
        .emit_and_wait(&Event::SessionStart {
            reason: StartReason::Startup,
            previous_session_file: None,
        })
        .await;
    stage.command("ping").await;
    assert!(begun.elapsed() < Duration::from_secs(10), "took {:?}", begun.elapsed());
    stage.log()
}

/// A restart may fail one command, but not one after the other.
async fn ping_until_pong(stage: &Stage) {
    let begun = Instant::now();
    while !stage.host.lines.lock().unwrap().iter().any(|line| line.contains("pong")) {
        assert!(begun.elapsed() < Duration::from_secs(20));
        stage.command("ping").await;
    }
}

/// Sorts the errors to the front: when and how often they are reported varies.
fn errors_first(log: &str) -> String {
    let (mut errors, others): (Vec<&str>, Vec<&str>) =
        log.lines().partition(|line| line.starts_with("extension_error"));
    errors.sort_unstable();
    errors.dedup();
    errors.into_iter().chain(others).collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn endless_loop_is_interrupted() {
    check("() => { for (;;); }", INTERRUPTED).await;
}

#[tokio::test]
async fn loop_that_catches_everything_is_interrupted() {
    check(
        "() => { for (;;) { try { for (;;); } catch { continue; } finally { continue; } } }",
        INTERRUPTED,
    )
    .await;
}

#[tokio::test]
async fn loop_after_an_await_is_interrupted() {
    check(
        "async () => { await null; await new Promise((r) => setTimeout(r, 5)); for (;;); }",
        INTERRUPTED,
    )
    .await;
}

#[tokio::test]
async fn endless_recursion_throws() {
    check_unhurried(
        "() => { const f = () => f() + 1; return f(); }",
        "refused: Maximum call stack size exceeded",
    )
    .await;
    check_unhurried(
        "async () => { const f = async () => { await f(); }; await f(); }",
        "refused: Maximum call stack size exceeded",
    )
    .await;
}

#[tokio::test]
async fn exceeding_the_memory_limit_fails_the_hook() {
    check_unhurried(
        "() => { const all = []; for (;;) all.push(new Uint8Array(4 << 20)); }",
        "refused: out of memory",
    )
    .await;
    check_unhurried("() => { let s = 'x'; for (;;) s += s; }", "refused: string too long").await;
}

#[tokio::test]
async fn throwing_getters_do_not_break_the_host() {
    check_unhurried("() => ({ get block() { throw new Error('no'); } })", "refused: no").await;
    check_unhurried(
        "() => { throw { get message() { throw 1; }, get stack() { for (;;); } }; }",
        "refused: something was thrown that cannot be shown",
    )
    .await;
    check_unhurried("() => new Proxy({}, { get() { throw new Error('trap'); } })", "refused: trap")
        .await;
    check_unhurried("() => { throw null; }", "refused: null").await;
}

#[tokio::test]
async fn never_settling_promise_times_out() {
    check("() => new Promise(() => {})", "refused: stopped after 500 ms").await;
}

#[tokio::test]
async fn endless_chain_of_promises_is_interrupted() {
    let bad = "export default (pi) => pi.on('tool_call', () => { const f = () => Promise.resolve().then(f); f(); return new Promise(() => {}); });";
    let stage = Stage::set(
        &[("ext-bad.js", bad), ("ext-good.js", GOOD)],
        Limits {
            // The engine is loaded again after the interruption, also on a busy machine.
            load: Duration::from_secs(9),
            ..limits()
        },
    );
    stage.load().await;
    stage.extensions.bind().await;
    let refused = stage.extensions.run_hook(call()).await.err().unwrap();
    assert_eq!(refused.reason, "stopped after 150 ms");
    // Whether time or memory runs out first, and in which call, depends on speed.
    ping_until_pong(&stage).await;
}

#[tokio::test]
async fn engine_whose_memory_is_full_is_started_anew() {
    let bad = "const kept = []; export default (pi) => pi.on('tool_call', () => { try { for (;;) kept.push(new Array(64).fill(1)); } catch {} for (;;) { try { for (;;) kept.push({}); } catch { return; } } });";
    let stage = Stage::set(&[("ext-bad.js", bad), ("ext-good.js", GOOD)], unhurried());
    stage.load().await;
    stage.extensions.bind().await;
    // The memory may be full before the hook can answer.
    stage.extensions.run_hook(call()).await.ok();
    ping_until_pong(&stage).await;
    let log = stage.log();
    assert!(log.contains("the engine was started anew because its memory was full"), "{log}");
}

#[tokio::test]
async fn engine_whose_memory_is_full_again_and_again_is_given_up() {
    // The extension itself is loaded each time. What it does afterwards fills the memory.
    let bad = "export default (pi) => { pi.registerCommand('fill', { handler: () => { const kept = (globalThis.kept = []); try { for (;;) kept.push(new Array(64).fill(1)); } catch {} for (;;) { try { for (;;) kept.push({}); } catch { return; } } } }); };";
    let stage = Stage::set(&[("ext-bad.js", bad), ("ext-good.js", GOOD)], unhurried());
    stage.load().await;
    stage.extensions.bind().await;
    for _ in 0..6 {
        stage.command("fill").await;
    }
    stage.command("ping").await;
    let log = stage.log();
    let restarts = log.matches("started anew because its memory was full").count();
    assert_eq!(restarts, 2, "{log}");
    assert!(log.contains("given up: the memory was full 3 times within a minute"), "{log}");
    assert!(!log.contains("pong"), "{log}");
}

#[tokio::test]
async fn ten_thousand_timers_do_not_block_a_hook() {
    check_within(
        Limits { slice: Duration::from_secs(3), hook: Duration::from_secs(5), ..limits() },
        "export default (pi) => pi.on('tool_call', async () => { let n = 0; await new Promise((done) => { for (let i = 0; i < 10000; i++) setTimeout(() => { if (++n === 10000) done(); }, i % 7); }); console.log(n); });",
        "Info: 10000\nNone",
    )
    .await;
}

#[tokio::test]
async fn looping_interval_is_interrupted() {
    let bad = "export default (pi) => { setInterval(() => { for (;;); }, 1); };";
    let stage = Stage::set(&[("ext-bad.js", bad), ("ext-good.js", GOOD)], limits());
    stage.load().await;
    stage.extensions.bind().await;
    let begun = Instant::now();
    while !stage.host.lines.lock().unwrap().iter().any(|line| line.contains("started anew")) {
        assert!(begun.elapsed() < Duration::from_secs(10));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // The engine is restarted again and again.
    ping_until_pong(&stage).await;
}

#[tokio::test]
async fn replaced_prototypes_do_not_break_the_runtime() {
    let source = r#"export default (pi) => {
            Object.prototype.polluted = true;
            Array.prototype.map = () => { throw new Error("map"); };
            Promise.prototype.then = () => { throw new Error("then"); };
            JSON.stringify = () => "nonsense"; JSON.parse = () => ({});
            Object.keys = () => { throw new Error("keys"); };
            globalThis.setTimeout = () => {}; globalThis.Promise = class {};
            pi.on("tool_call", () => ({ block: true, reason: "still here" }));
        };"#;
    let log = errors_first(&play(unhurried(), source).await);
    expect![[r#"
            extension_error ext-good.js unhandled_rejection: map at DIR/ext-bad.js:3:53
            not loaded: map
            not loaded: then
            None
            no command ping"#]]
    .assert_eq(&log);
}

#[tokio::test]
async fn process_exit_and_kill_are_refused() {
    check_unhurried(
        "() => process.exit(1)",
        "refused: process.exit() is not available to extensions; ctx.shutdown() asks for the end",
    )
    .await;
    check_unhurried(
        "() => { process.kill(process.pid, 'SIGKILL'); }",
        "refused: kill EPERM: an extension cannot signal its own process",
    )
    .await;
    check_unhurried(
        "() => { process.abort(); }",
        "refused: process.abort() is not available to extensions; ctx.shutdown() asks for the end",
    )
    .await;
}

#[tokio::test]
async fn hanging_or_throwing_load_is_reported() {
    check_within(
        limits(),
        "for (;;);\nexport default () => {};",
        "extension_error ext-bad.js load: stopped after 600 ms of work without a pause\nnot loaded: Failed to load extension: stopped after 600 ms\nNone",
    )
    .await;
    check_within(
        limits(),
        "await new Promise(() => {});\nexport default () => {};",
        "not loaded: Failed to load extension: stopped after 500 ms\nNone",
    )
    .await;
    check_within(
        unhurried(),
        "export default () => { let s = 'x'; for (;;) s += s; };",
        "not loaded: Failed to load extension: string too long\nNone",
    )
    .await;
}

#[tokio::test]
async fn catastrophic_regular_expression_is_interrupted() {
    check("() => /^(a+)+$/.test('a'.repeat(40) + 'b')", INTERRUPTED).await;
}

#[tokio::test]
async fn unhandled_rejections_are_reported() {
    check_unhurried("() => { Promise.reject(new Error('not handled')); setTimeout(() => { throw new Error('from a timer'); }, 1); return new Promise((done) => setTimeout(done, 50)); }", "extension_error ext-bad.js timer: from a timer at DIR/ext-bad.js:1:122\nextension_error ext-bad.js unhandled_rejection: not handled at DIR/ext-bad.js:1:70\nNone").await;
}

#[tokio::test]
async fn restarted_engine_has_its_tool_call_handler_again() {
    let bad = "export default (pi) => { let n = 0; pi.on('tool_call', (e) => { n++; if (e.input.command === 'loop') for (;;); return { block: true, reason: `asked ${n} times` }; }); };";
    let stage = Stage::set(&[("ext-bad.js", bad), ("ext-good.js", GOOD)], limits());
    stage.load().await;
    stage.extensions.bind().await;
    let ask = |command: &str| ToolCall { input: json!({"command": command}), ..call() };
    for command in ["x", "loop", "loop", "x", "loop", "x"] {
        let verdict = stage.extensions.run_hook(ask(command)).await;
        stage.host.note(format!("{command}: {:?}", verdict.map(|verdict| verdict.block)));
    }
    let log = errors_first(&stage.log());
    // When the other extension is notified of the restart varies.
    let log: Vec<&str> = log.lines().filter(|line| !line.contains("good")).collect();
    expect![[r#"
        extension_error <runtime> restart: the engine was started anew after 3 interruptions
        extension_error ext-bad.js tool_call: stopped after 150 ms of work without a pause
        x: Ok(Some("asked 1 times"))
        loop: Err(HookRefused { reason: "stopped after 150 ms" })
        loop: Err(HookRefused { reason: "stopped after 150 ms" })
        x: Ok(Some("asked 4 times"))
        loop: Err(HookRefused { reason: "stopped after 150 ms" })
        x: Ok(Some("asked 1 times"))"#]]
    .assert_eq(&log.join("\n"));
}

#[tokio::test]
async fn lost_guard_blocks_what_it_guarded() {
    let guard = "import { existsSync, writeFileSync } from 'node:fs';\nif (existsSync('seen')) throw new Error('only once');\nwriteFileSync('seen', '');\nexport default (pi) => pi.on('tool_call', () => {});\n";
    let looping = "export default (pi) => pi.registerCommand('loop', { handler() { setTimeout(() => { for (;;); }, 0); } });";
    let limits = Limits { violations: 1, ..limits() };
    let stage = Stage::set(&[("ext-guard.js", guard), ("ext-loop.js", looping)], limits);
    stage.load().await;
    stage.extensions.bind().await;
    let ask = || async { stage.extensions.run_hook(call()).await.map(|verdict| verdict.block) };
    stage.host.note(format!("{:?}", ask().await));
    stage.command("loop").await;
    while !stage.host.lines.lock().unwrap().iter().any(|line| line.contains("only once")) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // Returns after the restart, with any result.
    stage.command("loop").await;
    stage.host.note(format!("{:?}", ask().await));
    expect![[r#"
        Ok(None)
        extension_error ext-loop.js timer: stopped after 150 ms of work without a pause
        extension_error <runtime> restart: the engine was started anew after 1 interruptions
        extension_error ext-guard.js load: Failed to load extension: only once at DIR/ext-guard.js:2:35
        Err(HookRefused { reason: "the extension DIR/ext-guard.js, which guards this, is gone" })"#]].assert_eq(&stage.log());
}

#[tokio::test]
async fn full_backlog_drops_events_and_reports_once() {
    let slow = "export default (pi) => pi.on('agent_start', () => new Promise(() => {}));";
    let stage = Stage::set(&[("ext-slow.js", slow)], Limits { backlog: 10, ..limits() });
    stage.load().await;
    stage.extensions.bind().await;
    let begun = Instant::now();
    for _ in 0..2000 {
        stage.extensions.emit(&Event::AgentStart);
    }
    assert!(begun.elapsed() < Duration::from_secs(1));
    stage.extensions.stop();
}

#[tokio::test]
async fn denied_operations_throw() {
    let source = r#"
        import { readFileSync } from "node:fs";
        import { execSync, spawn } from "node:child_process";
        import { connect } from "node:net";
        export default (pi) => pi.registerCommand("go", { handler: async () => {
            const attempts = {
                read: () => readFileSync("/etc/hostname"), write: () => import("fs/promises").then((fs) => fs.writeFile("/tmp/x", "")),
                run: () => execSync("ls"), spawn: () => new Promise((_, no) => spawn("ls").on("error", no)), exec: async () => { throw new Error((await pi.exec("ls", [])).stderr); },
                fetch: async () => { try { await fetch("http://127.0.0.1/"); } catch (error) { throw error.cause; } },
                connect: () => new Promise((_, no) => connect(1).on("error", no)), env: () => { throw new Error(JSON.stringify(process.env)); },
                kill: () => process.kill(1, 9),
            };
            for (const [name, attempt] of Object.entries(attempts)) {
                try { await attempt(); console.log(name, "went through"); } catch (error) { console.log(name, error.message); }
            }
        } });"#;
    let stage = Stage::set(&[("ext.js", source)], limits());
    let mut extensions = stage.extension_files();
    extensions[0].permissions = Permissions { fs: false, exec: false, net: false, env: false };
    stage.extensions.load(&extensions).await;
    stage.extensions.bind().await;
    stage.command("go").await;
    expect![[r#"
        Info: read EACCES: this extension has no permission for fs
        Info: write EACCES: this extension has no permission for fs
        Info: run EACCES: this extension has no permission for exec
        Info: spawn EACCES: this extension has no permission for exec
        Info: exec EACCES: this extension has no permission for exec
        Info: fetch EACCES: this extension has no permission for net
        Info: connect EACCES: this extension has no permission for net
        Info: env {}
        Info: kill EACCES: this extension has no permission for exec"#]]
    .assert_eq(&stage.log());
}
