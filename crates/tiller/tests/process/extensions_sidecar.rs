//! Extensions that run in node, in the real program. Without a suitable node, only the error texts
//! are tested.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{Client, Place};
use crate::skip::has_node;

const DATABASE: &str = r#"
    import { DatabaseSync } from "node:sqlite";
    export default function (pi) {
        const db = new DatabaseSync(":memory:");
        db.exec("create table words (word text)");
        pi.registerTool({
            name: "remember",
            description: "Keep a word",
            parameters: { type: "object", properties: { word: { type: "string" } } },
            async execute(id, { word }) {
                db.prepare("insert into words values (?)").run(word);
                const { n } = db.prepare("select count(*) as n from words").get();
                return { content: [{ type: "text", text: `${n} kept` }], details: { n } };
            },
        });
        pi.registerCommand("sidecar_pid", {
            handler: async (args, ctx) => {
                const sure = await ctx.ui.confirm("Sure?", "Really");
                pi.appendEntry("sidecar_pid", { sure, pid: process.pid, cwd: process.cwd() === ctx.cwd });
            },
        });
        pi.registerCommand("die", { handler: () => process.kill(process.pid, "SIGKILL") });
        pi.on("tool_call", (event) => {
            if (event.input.word === "loop") for (;;);
        });
    }"#;

fn start(script: &str) -> Client {
    Place::new().with("ext.ts", DATABASE).rpc(script, &["-e", "ext.ts"])
}

fn of_type<'a>(records: &'a [Value], kind: &str) -> Vec<&'a Value> {
    records.iter().filter(|record| record["type"] == kind).collect()
}

pub fn is_alive(pid: u64) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(" Z"))
}

/// The process id of the sidecar.
fn sidecar_pid(client: &mut Client) -> u64 {
    client.say(&json!({"id": "sidecar_pid", "type": "prompt", "message": "/sidecar_pid"}));
    let asked = client.until_type("extension_ui_request").pop().unwrap();
    client.say(&json!({"type": "extension_ui_response", "id": asked["id"], "confirmed": true}));
    let records = client.until(|record| record["id"] == "sidecar_pid");
    let data = &of_type(&records, "entry_appended")[0]["entry"]["data"];
    assert_eq!((&data["sure"], &data["cwd"]), (&json!(true), &json!(true)));
    data["pid"].as_u64().unwrap()
}

#[test]
fn tool_that_needs_node_runs_in_a_sidecar() {
    if !has_node() {
        return;
    }
    let mut client =
        start("call remember {\"word\": \"blue\"}\n\nexpect tool-result 1 kept\nsay Kept.\n");
    client.say(&json!({"type": "prompt", "message": "Remember"}));
    let records = client.until_type("agent_settled");
    let ended = of_type(&records, "tool_execution_end");
    assert_eq!(ended[0]["result"]["details"]["n"], 1, "{records:?}");
}

#[test]
fn loop_in_a_sidecar_blocks_only_its_own_call() {
    if !has_node() {
        return;
    }
    let script = "call remember {\"word\": \"loop\"}\n\nsay Well.\n\n\
                  call remember {\"word\": \"blue\"}\n\nexpect tool-result 1 kept\nsay Kept.\n";
    let mut client = start(script);
    client.say(&json!({"type": "prompt", "message": "Remember"}));
    client.until_type("tool_execution_start");
    client.say(&json!({"id": "1", "type": "get_state"}));
    assert_eq!(client.response("1")["success"], true);
    let records = client.until_type("agent_settled");
    assert_eq!(of_type(&records, "tool_execution_end")[0]["isError"], true, "{records:?}");
    assert!(!of_type(&records, "extension_error").is_empty(), "{records:?}");
    // Another process has taken over.
    client.say(&json!({"type": "prompt", "message": "Again"}));
    let records = client.until_type("agent_settled");
    assert_eq!(of_type(&records, "tool_execution_end")[0]["isError"], false, "{records:?}");
}

#[test]
fn dying_sidecar_is_restarted_a_few_times() {
    if !has_node() {
        return;
    }
    let mut client = start("call read {\"path\": \"ext.ts\"}\n\nsay Well.\n");
    let first = sidecar_pid(&mut client);
    for n in 0..3 {
        client.say(&json!({"id": "die", "type": "prompt", "message": "/die"}));
        let records = client.until(|record| record["id"] == "die");
        let reported = of_type(&records, "extension_error");
        assert!(
            reported.iter().any(|it| it["error"].to_string().contains("signal 9")),
            "{records:?}"
        );
        if n == 0 {
            assert_ne!(sidecar_pid(&mut client), first);
        }
    }
    client.say(&json!({"id": "2", "type": "get_commands"}));
    assert_eq!(client.response("2")["data"]["commands"], json!([]));
    // Calls it guarded stay blocked, and the rest continues.
    client.say(&json!({"type": "prompt", "message": "Look"}));
    let records = client.until_type("agent_settled");
    let ended = of_type(&records, "tool_execution_end")[0];
    assert_eq!(ended["isError"], true, "{records:?}");
    assert!(ended.to_string().contains("which guards this, is gone"), "{ended}");
}

#[test]
fn sidecar_ends_with_tiller() {
    if !has_node() {
        return;
    }
    for is_killed in [false, true] {
        let mut client = start("say Nothing.\n");
        let pid = sidecar_pid(&mut client);
        assert!(is_alive(pid));
        if is_killed {
            client.signal("KILL")
        } else {
            client.close_stdin()
        }
        let begun = Instant::now();
        while is_alive(pid) {
            assert!(begun.elapsed() < Duration::from_secs(20), "node goes on without tiller");
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Starts an extension that needs node, with this `node` at most.
fn refused(node: Option<&str>, settings: &Value) -> String {
    let place = Place::new().with("wasm.ts", "export default () => new WebAssembly.Module(1);");
    let bin = place.path().join("bin");
    fs::create_dir_all(&bin).unwrap();
    if let Some(script) = node {
        fs::write(bin.join("node"), script).unwrap();
        fs::set_permissions(bin.join("node"), PermissionsExt::from_mode(0o755)).unwrap();
    }
    fs::create_dir_all(place.path().join(".pi/agent")).unwrap();
    fs::write(place.path().join(".pi/agent/settings.json"), settings.to_string()).unwrap();
    let mut command = place.command(&["--mode", "rpc", "--no-session", "-e", "wasm.ts"]);
    command.env("PATH", format!("{}:/bin", bin.display()));
    let mut client = Client::start(command, place.clone());
    let reported = client.until_type("extension_error").pop().unwrap();
    assert_eq!(reported["event"], "load");
    let error = reported["error"].as_str().unwrap();
    error.replace(&*bin.to_string_lossy(), "BIN")
}

#[test]
fn missing_sidecar_error_names_what_is_needed() {
    let old =
        "#!/bin/bash\necho '{\"type\":\"unfit\",\"why\":\"version v1 is too old\"}' >&${*: -2:1}\n";
    let none = json!({});
    let off = json!({"extensionSidecars": false});
    let denied = json!({"extensionSettings": {"wasm.ts": {"permissions": {"net": false}}}});
    let here = json!({"extensionSettings": {"wasm.ts": {"engine": "embedded"}}});
    let lacks = "Failed to load extension: WebAssembly cannot run inside tiller";
    // The machine may have a program of that name in /bin.
    if !["node", "bun"].iter().any(|name| fs::exists(format!("/bin/{name}")).unwrap()) {
        let reported = format!("{lacks}; there is no node or bun in PATH to run it beside");
        assert_eq!(refused(None, &none), reported);
    }
    if !fs::exists("/bin/bun").unwrap() {
        let reported = format!("{lacks}; node (BIN/node) cannot be used: version v1 is too old");
        assert_eq!(refused(Some(old), &none), reported);
    }
    assert_eq!(refused(None, &off), format!("{lacks}; sidecars are turned off in the settings"));
    let reported = format!("{lacks}; a sidecar cannot be kept from what the settings deny it: net");
    assert_eq!(refused(Some(old), &denied), reported);
    assert_eq!(refused(None, &here), lacks);
}

/// Runs one test of this file again, without node.
#[test]
fn missing_node_skips_or_fails_the_test() {
    let place = Place::new();
    let log = place.path().join("skipped");
    let test = "extensions_sidecar::sidecar_ends_with_tiller";
    let run = |required: &str| {
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", test]).env("PATH", place.path());
        command.env("TILLER_SKIPPED_LOG", &log).env("TILLER_SIDECAR_TESTS", required);
        command.output().unwrap()
    };
    let skipped = run("");
    assert!(skipped.status.success(), "{skipped:?}");
    let line = format!("SKIPPED {test}: node 22.15 or later is needed (there is none)\n");
    assert_eq!(fs::read_to_string(&log).unwrap(), line);
    assert!(!run("required").status.success());
}
