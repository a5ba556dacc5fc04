//! Shutdown with extensions that own processes and connections: nothing outlives tiller.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{Client, Place};
use crate::extensions_sidecar::is_alive;
use crate::loopback::{Loopback, Reply};
use crate::skip::has_node;

/// A client whose folder outlives it.
fn start(script: &str, extensions: &[&str]) -> (Client, Place) {
    let mut place = Place::new();
    let mut arguments = Vec::new();
    let names: Vec<String> = (1..=extensions.len()).map(|n| format!("ext{n}.ts")).collect();
    for (name, text) in names.iter().zip(extensions) {
        place = place.with(name, text);
        arguments.extend(["-e", name]);
    }
    (place.clone().rpc(script, &arguments), place)
}

/// Closes the input, and expects the exit within this time.
fn ends_within(client: Client, limit: Duration) -> Option<i32> {
    let begun = Instant::now();
    let code = client.end().1;
    assert!(begun.elapsed() < limit, "it took {:?}", begun.elapsed());
    code
}

/// End of input and a signal, each with its exit code.
const WAYS: [(&str, i32); 2] = [("EOF", 0), ("TERM", 143)];

fn go(client: &mut Client, way: &str) {
    match way {
        "EOF" => client.close_stdin(),
        signal => client.signal(signal),
    }
}

/// A client with a stored session.
fn with_stored_session(place: &Place, script: &str) -> Client {
    let place = place.clone().with("talk.script", script);
    let command = place.command(&["--mode", "rpc", "--script", "talk.script", "-e", "ext.ts"]);
    Client::start(command, place)
}

/// The lines of the only session, each of which must be complete.
fn session(place: &Place) -> Vec<Value> {
    let mut folders = vec![place.path().join(".pi/agent/sessions")];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    files.retain(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
    let [file] = files.as_slice() else { panic!("{files:?}") };
    let text = std::fs::read_to_string(file).unwrap();
    assert!(text.ends_with('\n'));
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn busy_sidecar_and_its_children_end_and_the_session_is_complete() {
    if !has_node() {
        return;
    }
    // Blocked in a loop, and in a child process it waits for.
    let bodies = ["for (;;);", "execSync('echo $$ > child.pid; exec sleep 600')"];
    for (body, (way, code)) in bodies.iter().zip(WAYS) {
        let extension = format!(
            r#"
            import "node:sqlite";
            import {{ execSync }} from "node:child_process";
            import {{ writeFileSync }} from "node:fs";
            export default function (pi) {{
                pi.registerTool({{
                    name: "work",
                    description: "Work",
                    parameters: {{ type: "object", properties: {{}} }},
                    async execute(id, params, signal, onUpdate) {{
                        writeFileSync("node.pid", String(process.pid));
                        onUpdate({{ content: [{{ type: "text", text: "at it" }}] }});
                        {body}
                    }},
                }});
            }}"#
        );
        let place = Place::new().with("ext.ts", &extension);
        let mut client = with_stored_session(&place, "call work {}\n\nsay Done.\n");
        client.say(&json!({"type": "prompt", "message": "Work"}));
        client.until_type("tool_execution_update");
        let pid = |name: &str| {
            let text = std::fs::read_to_string(place.path().join(name)).ok()?;
            text.trim().parse::<u64>().ok()
        };
        let node = pid("node.pid").unwrap();
        let begun = Instant::now();
        while body.contains("child") && pid("child.pid").is_none() {
            assert!(begun.elapsed() < Duration::from_secs(20), "the child does not begin");
            std::thread::sleep(Duration::from_millis(5));
        }
        go(&mut client, way);
        assert_eq!(ends_within(client, Duration::from_secs(4)), Some(code), "{body}");
        for pid in [Some(node), pid("child.pid")].into_iter().flatten() {
            let begun = Instant::now();
            while is_alive(pid) {
                assert!(begun.elapsed() < Duration::from_secs(20), "{body} goes on");
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        // Every call has a result.
        let roles: Vec<Value> = session(&place)
            .iter()
            .filter(|entry| entry["type"] == "message")
            .map(|entry| entry["message"]["role"].clone())
            .collect();
        assert_eq!(roles, ["user", "assistant", "toolResult"], "{body}");
    }
}

#[test]
fn pending_model_request_of_an_extension_ends_with_the_process() {
    for (way, code) in WAYS {
        let server = Loopback::start(vec![Reply::Hanging(String::new())]);
        let extension = format!(
            r#"
            import {{ complete }} from "@earendil-works/pi-ai";
            export default function (pi) {{
                pi.registerCommand("ask", {{
                    handler: async (args, ctx) => {{
                        const model = {{ id: "m", name: "M", api: "openai-completions", provider: "own",
                            baseUrl: "{}/v1", reasoning: false, input: ["text"], contextWindow: 1000,
                            maxTokens: 500, cost: {{ input: 1, output: 2, cacheRead: 0, cacheWrite: 0 }} }};
                        await complete(model, {{ messages: [{{ role: "user", content: "hi" }}] }}, {{ apiKey: "k" }});
                    }},
                }});
                pi.on("session_shutdown", () => {{}});
            }}"#,
            server.url
        );
        let (mut client, _place) = start("say Fine.\n", &[&extension]);
        client.say(&json!({"id": "1", "type": "prompt", "message": "/ask"}));
        server.asked();
        go(&mut client, way);
        assert_eq!(ends_within(client, Duration::from_secs(4)), Some(code));
        server.caller_left();
    }
}
