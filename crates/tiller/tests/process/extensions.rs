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
