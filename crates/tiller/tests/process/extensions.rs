//! Extensions in the real program: loading, events, and engines that hang.

use serde_json::{Value, json};

use crate::client::{Client, Place};

/// A client with one extension of this source.
pub fn with(script: &str, extension: &str) -> Client {
    let place = Place::new().with("notes.md", "hello\n").with("ext.ts", extension);
    place.rpc(script, &["-e", "ext.ts"])
}

pub fn of_type<'a>(records: &'a [Value], kind: &str) -> Vec<&'a Value> {
    records.iter().filter(|record| record["type"] == kind).collect()
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
