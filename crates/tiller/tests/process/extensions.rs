//! Extensions in the real program: tools, hooks, dialogs, commands and errors.

use serde_json::{Value, json};

use crate::client::{Client, Place};

fn example(name: &str) -> String {
    format!("{}/../../examples/extensions/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn start(script: &str, extensions: &[&str]) -> Client {
    let place = Place::new().with("notes.md", "hello\n");
    let mut arguments = Vec::new();
    for path in extensions {
        arguments.extend(["-e", path]);
    }
    place.rpc(script, &arguments)
}

/// A client with one extension of this source.
pub fn with(script: &str, extension: &str) -> Client {
    let place = Place::new().with("notes.md", "hello\n").with("ext.ts", extension);
    place.rpc(script, &["-e", "ext.ts"])
}

pub fn of_type<'a>(records: &'a [Value], kind: &str) -> Vec<&'a Value> {
    records.iter().filter(|record| record["type"] == kind).collect()
}

#[test]
fn extension_tool_is_offered_and_called() {
    let script =
        "call word_count {\"text\": \"one two three\"}\n\nexpect tool-result 3 words\nsay Three.\n";
    let mut client = start(script, &[&example("word-count.ts")]);
    client.say(&json!({"type": "prompt", "message": "Count"}));
    let records = client.until_type("agent_settled");
    let ended = of_type(&records, "tool_execution_end");
    assert_eq!(ended[0]["result"]["details"]["words"], 3, "{records:?}");
    assert_eq!(ended[0]["isError"], false);
}

#[test]
fn tool_call_gate_asks_and_blocks() {
    let script = "call bash {\"command\": \"rm -rf nothing\"}\n\nsay Well.\n\n\
                  call bash {\"command\": \"rm -rf nothing && echo gone\"}\n\nsay Good.\n";
    let mut client = start(script, &[&example("permission-gate.ts")]);
    for (confirmed, expected) in [(false, "The user does not want this"), (true, "gone")] {
        client.say(&json!({"type": "prompt", "message": "Delete"}));
        let asked = client.until_type("extension_ui_request").pop().unwrap();
        assert_eq!(asked["method"], "confirm");
        assert_eq!(asked["title"], "Run this command?");
        assert_eq!(asked["timeout"], 60_000);
        let answer =
            json!({"type": "extension_ui_response", "id": asked["id"], "confirmed": confirmed});
        client.say(&answer);
        let records = client.until_type("agent_settled");
        let ended = of_type(&records, "tool_execution_end");
        let text = ended[0]["result"]["content"][0]["text"].as_str().unwrap();
        assert!(text.contains(expected), "{text}");
        assert_eq!(ended[0]["isError"], !confirmed);
    }
}

#[test]
fn command_opens_a_dialog_and_appends_an_entry() {
    let mut client = start("say Nothing.\n", &[&example("standup.ts")]);
    client.say(&json!({"id": "1", "type": "get_commands"}));
    let commands = client.response("1")["data"]["commands"].clone();
    assert_eq!(commands[0]["name"], "standup");
    assert_eq!(commands[0]["source"], "extension");
    client.say(&json!({"id": "2", "type": "prompt", "message": "/standup the tests"}));
    let asked = client.until_type("extension_ui_request").pop().unwrap();
    assert_eq!(asked["options"], json!(["feature", "fix", "chore"]));
    client.say(&json!({"type": "extension_ui_response", "id": asked["id"], "value": "fix"}));
    let records = client.until(|record| record["id"] == "2");
    let appended = of_type(&records, "entry_appended");
    assert_eq!(appended[0]["entry"]["data"], json!({"kind": "fix", "what": "the tests"}));
    let shown = of_type(&records, "extension_ui_request");
    assert_eq!(shown[0]["message"], "Noted: fix, the tests");
    // No dialog was opened, and a command cannot be queued.
    client.say(&json!({"id": "3", "type": "steer", "message": "/standup"}));
    let refused = client.response("3");
    assert_eq!(
        refused["error"],
        "Extension command \"/standup\" cannot be queued. Use prompt() or execute the command when not streaming."
    );
}

#[test]
fn extension_errors_are_reported_and_the_run_continues() {
    let mut client = with(
        "say Fine.\n",
        r#"
        export default function (pi) {
            pi.registerCommand("break", { handler: async () => { throw new Error("no good"); } });
            pi.on("before_agent_start", () => { throw new Error("not this either"); });
        }"#,
    );
    client.say(&json!({"id": "1", "type": "prompt", "message": "/break"}));
    let records = client.until(|record| record["id"] == "1");
    let errors = of_type(&records, "extension_error");
    assert_eq!(errors[0]["extensionPath"], "command:break");
    assert_eq!(errors[0]["event"], "command");
    assert_eq!(errors[0]["error"], "no good");
    client.say(&json!({"id": "2", "type": "prompt", "message": "Hello"}));
    let records = client.until_type("agent_settled");
    let errors = of_type(&records, "extension_error");
    assert_eq!(errors[0]["event"], "before_agent_start");
    let answered = of_type(&records, "message_end");
    assert_eq!(answered[1]["message"]["content"][0]["text"], "Fine.");
}

#[test]
fn failing_extension_does_not_block_the_others() {
    let place = Place::new()
        .with("bad.ts", "export default 3;")
        .with("good.ts", "export default (pi) => pi.registerCommand(\"fine\", { handler() {} });");
    std::fs::create_dir_all(place.path().join(".pi/agent")).unwrap();
    let settings = json!({"extensions": ["gone.ts"]});
    std::fs::write(place.path().join(".pi/agent/settings.json"), settings.to_string()).unwrap();
    let mut client = place.rpc("say Fine.\n", &["-e", "bad.ts", "-e", "good.ts"]);
    client.say(&json!({"id": "1", "type": "get_commands"}));
    let records = client.until(|record| record["id"] == "1");
    let errors = of_type(&records, "extension_error");
    assert_eq!(errors.len(), 2, "{records:?}");
    assert!(errors.iter().all(|error| error["event"] == "load"));
    let commands = &records.last().unwrap()["data"]["commands"];
    assert_eq!(commands[0]["name"], "fine");
}

#[test]
fn strict_mode_exits_if_an_extension_is_missing() {
    let place = Place::new();
    let client = place.rpc("say Fine.\n", &["--strict-extensions", "-e", "gone.ts"]);
    assert_eq!(client.end().1, Some(1));
}

#[test]
fn input_hooks_change_handle_and_extend_prompts() {
    let mut client = with(
        "expect user HELLO\nsay Loud.\n",
        r#"
        export default function (pi) {
            pi.on("input", (event) => {
                if (event.text === "mine") return { action: "handled" };
                return { action: "transform", text: event.text.toUpperCase() };
            });
            pi.on("before_agent_start", () => ({
                message: { customType: "note", content: "by the way", display: true },
            }));
        }"#,
    );
    client.say(&json!({"id": "1", "type": "prompt", "message": "mine"}));
    assert_eq!(client.response("1")["success"], true);
    client.say(&json!({"id": "2", "type": "prompt", "message": "hello"}));
    let records = client.until_type("agent_settled");
    let said: Vec<&Value> = of_type(&records, "message_end");
    assert_eq!(said[0]["message"]["content"][0]["text"], "HELLO", "{said:?}");
    assert_eq!(said[1]["message"]["role"], "custom");
    assert_eq!(said[1]["message"]["content"], "by the way");
}

#[test]
fn endless_loop_blocks_only_its_own_call() {
    let script = "call read {\"path\": \"notes.md\"}\n\nsay Done.\n";
    let mut client =
        with(script, "export default (pi) => pi.on(\"tool_call\", () => { while (true) {} });");
    client.say(&json!({"type": "prompt", "message": "Read"}));
    client.until_type("tool_execution_start");
    client.say(&json!({"id": "1", "type": "get_state"}));
    assert_eq!(client.response("1")["success"], true);
    let records = client.until_type("agent_settled");
    let ended = of_type(&records, "tool_execution_end");
    assert_eq!(ended[0]["isError"], true, "{ended:?}");
}

#[test]
fn session_hook_can_cancel_a_switch() {
    let mut client = with(
        "say One.\n",
        "export default (pi) => pi.on(\"session_before_switch\", () => ({ cancel: true }));",
    );
    client.say(&json!({"id": "1", "type": "prompt", "message": "Hello"}));
    client.until_type("agent_settled");
    client.say(&json!({"id": "2", "type": "new_session"}));
    assert_eq!(client.response("2")["data"], json!({"cancelled": true}));
    client.say(&json!({"id": "3", "type": "get_messages"}));
    let messages = client.response("3")["data"]["messages"].clone();
    assert_eq!(messages.as_array().unwrap().len(), 2);
}

#[test]
fn session_start_and_shutdown_are_emitted() {
    let place = Place::new().with(
        "ext.ts",
        r#"
        import { appendFileSync } from "node:fs";
        export default function (pi) {
            for (const name of ["session_start", "agent_start", "turn_end", "agent_end", "session_shutdown"]) {
                pi.on(name, (event) => appendFileSync("heard.txt", `${event.type} ${event.reason ?? event.turnIndex ?? ""}\n`));
            }
        }"#,
    );
    let folder = place.clone();
    let mut client = place.rpc("say One.\n", &["-e", "ext.ts"]);
    client.say(&json!({"type": "prompt", "message": "Hello"}));
    client.until_type("agent_settled");
    client.close_stdin();
    assert_eq!(client.end().1, Some(0));
    let heard = std::fs::read_to_string(folder.path().join("heard.txt")).unwrap();
    assert_eq!(
        heard,
        "session_start startup\nagent_start \nturn_end 0\nagent_end \nsession_shutdown quit\n"
    );
}
