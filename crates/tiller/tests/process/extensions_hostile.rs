//! Hostile extensions in the real program: while each misbehaves, and afterwards, the server
//! answers.

use serde_json::{Value, json};

use crate::client::{Client, Place};

/// Bodies of `tool_call` handlers. The first word is what happens to the call: a handler that
/// returns nothing lets it through.
const BODIES: [(&str, &str); 12] = [
    ("blocked", "for (;;);"),
    ("blocked", "for (;;) { try { for (;;); } catch { continue; } finally { continue; } }"),
    ("blocked", "await null; await new Promise((done) => setTimeout(done, 1)); for (;;);"),
    ("blocked", "const deeper = () => deeper() + 1; deeper();"),
    ("blocked", "const all = []; for (;;) all.push(new Array(1e6).fill(all.length));"),
    ("blocked", "throw { get message() { for (;;); }, get stack() { throw 1; } };"),
    (
        "through",
        "return { get block() { return false; }, get reason() { throw new Error('no'); } };",
    ),
    ("blocked", "return { get block() { throw new Error('no'); } };"),
    (
        "through",
        "for (let n = 0; n < 10_000; n++) setTimeout(() => { for (let m = 0; m < 100; m++); }, n % 50);",
    ),
    (
        "through",
        "Object.prototype.block = undefined; Array.prototype.push = () => { throw new Error('no'); }; \
         JSON.parse = JSON.stringify = () => 'no'; globalThis.Map = undefined;",
    ),
    ("blocked", "process.exit(3);"),
    ("blocked", "process.kill = 1; process.abort();"),
];

fn start(body: &str) -> Client {
    let extension = format!("export default (pi) => pi.on('tool_call', async () => {{ {body} }});");
    let place = Place::new().with("notes.md", "hello\n").with("ext.js", &extension);
    place.rpc("call read {\"path\": \"notes.md\"}\n\nsay Done.\n", &["-e", "ext.js"])
}

fn answers(client: &mut Client, id: &str) -> Vec<Value> {
    client.say(&json!({"id": id, "type": "get_state"}));
    let records = client.until(|record| record["id"] == id);
    assert_eq!(records.last().unwrap()["success"], true);
    records
}

#[test]
fn server_answers_whatever_a_hook_does() {
    // Few at a time: those that loop use most of the processor.
    for some in BODIES.chunks(3) {
        std::thread::scope(|scope| {
            for (expected, body) in some {
                scope.spawn(move || check(body, *expected == "blocked"));
            }
        });
    }
}

fn check(body: &str, is_blocked: bool) {
    let mut client = start(body);
    client.say(&json!({"type": "prompt", "message": "Read"}));
    client.until_type("tool_execution_start");
    let mut records = answers(&mut client, "meanwhile");
    // The run may have ended before the request.
    if records.iter().all(|record| record["type"] != "agent_settled") {
        records.extend(client.until_type("agent_settled"));
    }
    let ended = records.iter().find(|record| record["type"] == "tool_execution_end").unwrap();
    assert_eq!(ended["isError"], is_blocked, "{body}: {ended}");
    answers(&mut client, "after");
    client.close_stdin();
    assert_eq!(client.end().1, Some(0), "{body}");
}

/// The response arrives during the loop, not after its interruption: a loop of up to two seconds is
/// still running by then.
#[test]
fn get_state_is_answered_during_an_endless_loop() {
    let mut client = start("for (;;);");
    client.say(&json!({"type": "prompt", "message": "Read"}));
    client.until_type("tool_execution_start");
    for n in 0..20 {
        let records = answers(&mut client, &format!("{n}"));
        assert!(records.iter().all(|record| record["type"] != "tool_execution_end"), "{records:?}");
    }
    client.until_type("extension_error");
}

/// An extension that never finishes loading does not block the server.
#[test]
fn top_level_loop_does_not_block_the_server() {
    let place = Place::new().with("ext.js", "for (;;);");
    let mut client = place.rpc("say Done.\n", &["-e", "ext.js"]);
    let records = answers(&mut client, "meanwhile");
    // A server that waited would have given up the extension before it answered.
    assert!(records.iter().all(|record| record["type"] != "extension_error"), "{records:?}");
    client.close_stdin();
    assert_eq!(client.end().1, Some(0));
}

/// Without an extension there is no engine: no thread of that name, and none of its memory.
#[test]
fn no_engine_is_started_without_extensions() {
    let threads = |extension: Option<&str>| {
        let place = Place::new();
        let place = match extension {
            Some(extension) => place.with("ext.js", extension),
            None => place,
        };
        let arguments: &[&str] = if extension.is_some() { &["-e", "ext.js"] } else { &[] };
        let mut client = place.rpc("say Done.\n", arguments);
        client.say(&json!({"id": "1", "type": "get_commands"}));
        client.response("1");
        let tasks = std::fs::read_dir(format!("/proc/{}/task", client.id())).unwrap();
        let name = |task: std::io::Result<std::fs::DirEntry>| {
            std::fs::read_to_string(task.unwrap().path().join("comm")).unwrap_or_default()
        };
        let names: Vec<String> = tasks.map(name).collect();
        names.iter().filter(|name| name.trim() == "extensions").count()
    };
    assert_eq!(threads(None), 0);
    assert_eq!(threads(Some("export default () => {};")), 1);
}

fn begin(extension: &str) -> Client {
    Place::new().with("ext.js", extension).rpc("say Done.\n", &["-e", "ext.js"])
}

/// A failing hook without a decision is reported, and everything continues.
#[test]
fn loops_in_session_start_and_prompt_hooks_are_reported() {
    for name in ["session_start", "input", "before_agent_start", "resources_discover"] {
        let mut client =
            begin(&format!("export default (pi) => pi.on('{name}', () => {{ for (;;); }});"));
        client.say(&json!({"type": "prompt", "message": "Go on"}));
        let records = client.until_type("agent_settled");
        let reported = records.iter().find(|record| record["type"] == "extension_error");
        assert_eq!(reported.unwrap()["event"], name);
    }
}

/// An extension gets more events than it handles: some are dropped, which is reported once.
#[test]
fn events_for_a_blocked_extension_are_dropped() {
    let mut client = begin(
        "export default (pi) => {
            pi.on('session_info_changed', () => {});
            pi.registerCommand('busy', { handler: async (args, ctx) => {
                ctx.ui.notify('busy');
                const { readFileSync } = await import('node:fs');
                for (;;) { try { readFileSync(args); return; } catch {} }
            } });
        };",
    );
    let place = Place::new();
    let free = place.path().join("free");
    let busy = format!("/busy {}", free.display());
    client.say(&json!({"id": "busy", "type": "prompt", "message": busy}));
    client.until_type("extension_ui_request");
    let name = |n| format!("{}\n", json!({"id": n, "type": "set_session_name", "name": n}));
    let names: String = (0..5000).map(|n| name(format!("{n}"))).collect();
    let writing = client.write_beside(names.into_bytes());
    let mut records = client.until(|record| record["id"] == "4999");
    client.take_back(writing);
    std::fs::write(free, "").unwrap();
    records.extend(client.until(|record| record["id"] == "busy"));
    let errors = records.iter().filter(|record| record["type"] == "extension_error");
    assert_eq!(errors.count(), 1);
}

/// However an extension blocks, tiller exits soon after its client.
#[test]
fn hanging_extensions_do_not_delay_the_exit() {
    let waits = "ctx.ui.notify('waiting'); await new Promise(() => {});";
    let loops = "ctx.ui.notify('waiting'); for (;;);";
    let hook = |name: &str, body: &str| {
        format!("export default (pi) => pi.on('{name}', async (event, ctx) => {{ {body} }});")
    };
    let command = |body: &str| {
        let handler = format!("async (words, ctx) => {{ {body} }}");
        format!("export default (pi) => pi.registerCommand('go', {{ handler: {handler} }});")
    };
    let extensions = [
        hook("session_start", waits),
        hook("input", loops),
        hook("agent_before_settle", waits),
        command(waits),
        command(loops),
    ];
    let leave = |extension: &str, is_signal: bool| {
        let mut client = begin(extension);
        client.say(&json!({"type": "prompt", "message": "/go"}));
        client.until(|record| record["message"] == "waiting");
        let begun = std::time::Instant::now();
        if is_signal {
            client.signal("TERM")
        } else {
            client.close_stdin()
        }
        assert_eq!(client.end().1, Some(if is_signal { 143 } else { 0 }), "{extension}");
        assert!(begun.elapsed().as_secs() < 10, "{extension}");
    };
    for extension in &extensions {
        std::thread::scope(|scope| {
            scope.spawn(|| leave(extension, false));
            scope.spawn(|| leave(extension, true));
        });
    }
}
