//! Clients that join in the middle of something.

use serde_json::{Value, json};

use super::client::{ServeClient, text_of, types_of};
use super::server::ServeProcess;

/// The text that the updates among these records add.
pub fn streamed(records: &[Value], kind: &str) -> String {
    let updates = records.iter().filter(|record| record["type"] == "message_update");
    let steps = updates.map(|update| &update["assistantMessageEvent"]);
    steps.filter(|step| step["type"] == kind).map(|step| step["delta"].as_str().unwrap()).collect()
}

fn attach(server: &ServeProcess, handle: &str) -> (ServeClient, Value) {
    let mut client = server.connect();
    let data = client.ask(json!({"type": "attach", "sessionId": handle}));
    (client, data)
}

#[test]
fn client_joins_in_the_middle_of_an_answer() {
    let script = "hold\nthink Ponder\ndelta ing\nsay Hel\ndelta lo\nhang";
    let server = ServeProcess::script(script, &[]);
    let mut first = server.connect();
    let handle = first.open_in_memory();
    first.prompt(&handle, "Hello");
    first.take(|record| record["assistantMessageEvent"]["delta"] == "lo");
    first.ask(json!({"type": "steer", "message": "Be quick", "sessionId": handle}));
    let (mut second, data) = attach(&server, &handle);
    assert_eq!(data["state"]["isStreaming"], true);
    assert!(data.get("replay").is_none(), "{data}");
    let open = second.arrived_of(&handle);
    let types = ["agent_start", "turn_start", "message_start", "queue_update"];
    assert_eq!(types_of(&open, &handle), types);
    assert_eq!(streamed(&open, "text_delta"), "Hello");
    assert_eq!(streamed(&open, "thinking_delta"), "Pondering");
    first.say(&json!({"type": "abort", "sessionId": handle}));
    let rest = second.until_settled(&handle);
    let answer = rest.iter().find(|record| record["type"] == "message_end").unwrap();
    assert_eq!(text_of(&answer["message"]), "Hello");
    assert_eq!(types_of(&first.until_settled(&handle), &handle).last(), Some(&"agent_settled"));
}

#[test]
fn client_joins_while_a_tool_runs() {
    let wait = "echo begun; until [ -e go ]; do sleep 0.02; done; echo over";
    let script = format!("call bash {}\n\nsay Done.", json!({"command": wait}));
    let server = ServeProcess::script(&script, &[]);
    let mut first = server.connect();
    let handle = first.open_in_memory();
    first.prompt(&handle, "Wait");
    first.take(|record| {
        record["type"] == "tool_execution_update" && record.to_string().contains("begun")
    });
    let (mut second, _) = attach(&server, &handle);
    let open = second.arrived_of(&handle);
    assert_eq!(types_of(&open, &handle), ["agent_start", "turn_start", "tool_execution_start"]);
    let update = open.iter().find(|record| record["type"] == "tool_execution_update").unwrap();
    assert!(update.to_string().contains("begun"), "{update}");
    first.arrived_of(&handle);
    std::fs::write(server.path("go"), "").unwrap();
    let kinds = |records: &[Value]| types_of(records, &handle).join(" ");
    let rest = [first.until_settled(&handle), second.until_settled(&handle)];
    assert_eq!(kinds(&rest[0]), kinds(&rest[1]));
    assert_eq!(streamed(&rest[0], "text_delta"), "Done.");
    assert_eq!(streamed(&rest[1], "text_delta"), "Done.");
    // Between runs nothing is open.
    let (mut third, data) = attach(&server, &handle);
    assert_eq!(data["state"]["isStreaming"], false);
    assert_eq!(third.arrived_of(&handle), [] as [Value; 0]);
    let messages = third.ask(json!({"type": "get_messages", "sessionId": handle}));
    assert_eq!(messages["messages"].as_array().unwrap().len(), 4);
}

/// Joining is exact at any moment: what was streamed before and what comes after make the answer.
#[test]
fn records_before_and_after_joining_make_the_whole_answer() {
    let server = ServeProcess::script("pace 1ms\nrepeat 300 \"word{i} \"", &[]);
    let mut first = server.connect();
    let handle = first.open_in_memory();
    first.prompt(&handle, "Hello");
    let mut joined = Vec::new();
    for _ in 0..8 {
        first.take_type(&handle, "message_update");
        joined.push(attach(&server, &handle).0);
    }
    let whole: String = (1..=300).map(|n| format!("word{n} ")).collect();
    for client in &mut joined {
        let records = client.until_settled(&handle);
        assert_eq!(streamed(&records, "text_delta"), whole);
        let starts = types_of(&records, &handle);
        assert_eq!(starts[..2], ["agent_start", "turn_start"], "{starts:?}");
    }
}

/// A client that attaches again continues with a new attachment of its own.
#[test]
fn client_that_attaches_twice_gets_each_record_once() {
    let server = ServeProcess::script("say One.\n\nsay Two.", &[]);
    let mut client = server.connect();
    let handle = client.open_in_memory();
    client.ask(json!({"type": "attach", "sessionId": handle}));
    client.prompt(&handle, "Hello");
    let records = client.until_settled(&handle);
    let count = |kind: &str| records.iter().filter(|record| record["type"] == kind).count();
    assert_eq!((count("agent_start"), count("agent_end"), count("message_end")), (1, 1, 2));
    let listed = client.ask(json!({"type": "list_open_sessions"}));
    assert_eq!(listed["sessions"][0]["clients"], 1);
}
