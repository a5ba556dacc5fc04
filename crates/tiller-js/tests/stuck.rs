//! Extensions that block in a host operation, and extensions that make the host allocate too much.
//! Hooks end in time, and memory outside the engine counts against its limit.
#![allow(clippy::unwrap_used)]

mod support;

use std::io::Read;
use std::time::Duration;

use expect_test::{Expect, expect};
use nix::sys::stat::Mode;
use serde_json::json;
use support::Stage;
use tiller_js::Limits;
use tiller_js::hook::ToolCall;

fn limits() -> Limits {
    Limits {
        memory_bytes: 48 << 20,
        slice: Duration::from_millis(150),
        long_slice: Duration::from_secs(10),
        load: Duration::from_secs(20),
        hook: Duration::from_secs(5),
        hook_max: Duration::from_secs(20),
        ..Limits::default()
    }
}

fn call() -> ToolCall {
    let input = json!({"command": "ls"});
    ToolCall { tool_call_id: "c1".into(), tool_name: "bash".into(), input }
}

async fn stage(body: &str, limits: Limits) -> Stage {
    let source = format!(
        "import fs from 'node:fs'; import crypto from 'node:crypto'; import zlib from 'node:zlib';
        import net from 'node:net'; import {{ spawn, spawnSync }} from 'node:child_process';
        export default (pi) => pi.on('tool_call', {body});"
    );
    let stage = Stage::set(&[("ext.js", &source)], limits);
    for name in ["fifo", "back.fifo", "fifo.js"] {
        nix::unistd::mkfifo(&stage.dir.path().join(name), Mode::S_IRWXU).unwrap();
    }
    let report = stage.load().await;
    assert_eq!(report.errors, []);
    stage.extensions.bind().await;
    stage
}

/// The outcome of a `tool_call` hook with this handler.
async fn check(body: &str, expect: Expect) {
    check_within(limits(), body, expect).await;
}

async fn check_within(limits: Limits, body: &str, expect: Expect) {
    let stage = stage(body, limits).await;
    let verdict = match stage.extensions.run_hook(call()).await {
        Ok(verdict) => format!("{:?}", verdict.block),
        Err(refused) => format!("refused: {}", refused.reason),
    };
    expect.assert_eq(&verdict);
}

#[tokio::test]
async fn reading_a_fifo_without_writer_times_out() {
    let stopped = || expect!["refused: stopped after 150 ms"];
    check("() => { fs.readFileSync('fifo'); }", stopped()).await;
    check(
        "() => { const fd = fs.openSync('fifo'); fs.readSync(fd, new Uint8Array(9)); }",
        stopped(),
    )
    .await;
    check("() => { fs.readFileSync(fs.openSync('fifo')); }", stopped()).await;
}

#[tokio::test]
async fn writing_a_fifo_without_reader_times_out() {
    let stopped = || expect!["refused: stopped after 150 ms"];
    check("() => { fs.writeFileSync('fifo', 'x'); }", stopped()).await;
    check("() => { fs.openSync('fifo', 'w'); }", stopped()).await;
    check("() => { fs.truncateSync('fifo'); }", stopped()).await;
}

#[tokio::test]
async fn fifo_is_neither_imported_nor_copied() {
    let refusal = |attempt: &str| {
        format!(
            "async () => {{ try {{ {attempt} }} catch (error) {{
                return {{ block: true, reason: error.message.replaceAll(process.cwd(), 'DIR').split('\\n')[0] }};
            }} }}"
        )
    };
    check(
        &refusal("await import('./fifo.js');"),
        expect![[r#"Some("Cannot find module './fifo.js'")"#]],
    )
    .await;
    let script = "(await import('tiller:host')).native.script(process.cwd() + '/fifo.js?1');";
    check(&refusal(script), expect![[r#"Some("cannot read DIR/fifo.js: not a regular file")"#]])
        .await;
    check(
        &refusal("fs.copyFileSync('fifo', 'copy');"),
        expect![[r#"Some("EINVAL: invalid argument, copyfile 'DIR/fifo' -> 'DIR/copy'")"#]],
    )
    .await;
}

/// Two FIFOs: from a single one, the extension could read back what it wrote.
#[tokio::test]
async fn fifo_with_both_ends_open_works() {
    let stage = stage(
        "async () => { fs.writeFileSync('fifo', 'to the test'); const back = await fs.promises.readFile('back.fifo', 'utf8'); return { block: true, reason: back }; }",
        Limits { slice: Duration::from_secs(20), ..limits() },
    )
    .await;
    let (fifo, back) = (stage.dir.path().join("fifo"), stage.dir.path().join("back.fifo"));
    let other = std::thread::spawn(move || {
        let mut received = String::new();
        std::fs::File::open(&fifo).unwrap().read_to_string(&mut received).unwrap();
        std::fs::write(&back, "from the test").unwrap();
        received
    });
    assert_eq!(
        stage.extensions.run_hook(call()).await.unwrap().block.as_deref(),
        Some("from the test")
    );
    assert_eq!(other.join().unwrap(), "to the test");
}

#[tokio::test]
async fn pending_read_ends_with_the_engine() {
    let stage = stage("() => { fs.promises.readFile('fifo'); fs.promises.open('fifo').then((file) => file.read(new Uint8Array(9))); }", limits()).await;
    assert_eq!(stage.extensions.run_hook(call()).await.unwrap().block, None);
    // Otherwise the runtime would wait for the blocked reader thread, and the test would not end.
    stage.extensions.stop();
}

#[tokio::test]
async fn pbkdf2_with_a_billion_rounds_times_out() {
    check(
        "() => { crypto.pbkdf2Sync('a', 'b', 1e9, 64, 'sha512'); }",
        expect!["refused: stopped after 150 ms"],
    )
    .await;
    check(
        "() => { crypto.pbkdf2Sync('a', 'b', 1, 64 << 20, 'md5'); }",
        expect!["refused: stopped after 150 ms"],
    )
    .await;
}

#[tokio::test]
async fn uninterruptible_work_is_reported_as_stuck() {
    check(
        "() => { 'a'.repeat(300_000).indexOf('a'.repeat(150_000) + 'b'); }",
        expect!["refused: the extension does not come to an end"],
    )
    .await;
}

#[tokio::test]
async fn spawn_sync_of_a_long_child_times_out() {
    let limits = Limits {
        hook: Duration::from_millis(100),
        hook_max: Duration::from_millis(300),
        ..limits()
    };
    check_within(
        limits,
        "() => ({ block: true, reason: String(spawnSync('sleep', ['60']).error?.code) })",
        expect![[r#"Some("ETIMEDOUT")"#]],
    )
    .await;
}

fn roomy() -> Limits {
    Limits { slice: Duration::from_secs(20), hook: Duration::from_secs(60), ..limits() }
}

async fn too_much(body: &str) {
    check_within(roomy(), body, expect!["refused: out of memory"]).await;
}

#[tokio::test]
async fn host_buffers_count_as_memory() {
    too_much("() => { const all = []; for (let i = 0; i < 64; i++) all.push(crypto.randomBytes(1 << 20)); }").await;
    too_much("() => { const all = []; for (let i = 0; i < 64; i++) all.push(new TextEncoder().encode('x'.repeat(1 << 20))); }").await;
}

#[tokio::test]
async fn endless_file_exceeds_the_memory_limit() {
    too_much("() => { fs.readFileSync('/dev/zero'); }").await;
    too_much("async () => { await fs.promises.readFile('/dev/zero'); }").await;
}

#[tokio::test]
async fn compression_bomb_exceeds_the_memory_limit() {
    let bomb = "zlib.gzipSync(zlib.gzipSync(new Uint8Array(20 << 20)))";
    let twice = format!(
        "() => {{ const zip = zlib.gzipSync(new Uint8Array(15 << 20)); const all = new Uint8Array(zip.length * 8); for (let i = 0; i < 8; i++) all.set(zip, i * zip.length); zlib.gunzipSync(all); {bomb}; }}"
    );
    too_much(&twice).await;
}

#[tokio::test]
async fn pending_operations_count_as_memory() {
    too_much("async () => { const all = []; const zip = new Uint8Array(1 << 20); for (let i = 0; i < 64; i++) all.push(new Promise((yes, no) => fs.write(0, zip, 0, zip.length, null, (error) => error?.code === 'ERR_OUT_OF_MEMORY' ? no(error) : yes())), fs.promises.writeFile('fifo', zip)); await Promise.all(all); }").await;
}

#[tokio::test]
async fn unread_bytes_count_as_memory() {
    too_much("async () => { const child = spawn('sleep', ['60']); try { for (let i = 0; i < 64; i++) child.stdin.write(new Uint8Array(1 << 20)); } finally { child.kill('SIGKILL'); } }").await;
    too_much("async () => { const server = net.createServer(() => {}).listen(0); await new Promise((done) => server.on('listening', done)); const socket = net.connect(server.address().port); await new Promise((done) => socket.on('connect', done)); socket.pause(); const { native } = await import('tiller:host'); for (let i = 0; ; i++) native.sync('net.write', String(i % 64), new Uint8Array(1 << 20)); }").await;
}

#[tokio::test]
async fn json_of_many_values_exceeds_the_memory_limit() {
    too_much("async (_event, ctx) => { ctx.sessionManager.appendCustomEntry('x', JSON.parse(`[${'0,'.repeat(1 << 20)}0]`)); }").await;
}

#[tokio::test]
async fn very_long_stack_is_truncated() {
    check_within(
        roomy(),
        "() => { const error = new Error('long'); error.stack = '    at f (/dev/zero:1:1)\\n    at f (fifo:1:1)\\n'.repeat(10000); throw error; }",
        expect!["refused: long"],
    )
    .await;
}
