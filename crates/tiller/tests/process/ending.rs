//! How the process ends: end of input, signals, closed stdout.

use serde_json::json;

use super::client::{Client, Place, types};

/// A client whose prompt is running a tool.
fn busy() -> Client {
    let script = "call bash {\"command\": \"sleep 60\"}\n\nsay Slept.";
    let mut client = Place::new().rpc(script, &[]);
    client.say(&json!({"id": "1", "type": "prompt", "message": "Sleep"}));
    client.until_type("tool_execution_start");
    client
}

const CLOSING: &str =
    "tool_execution_end message_start message_end turn_end agent_end agent_settled";

#[test]
fn eof_aborts_the_run() {
    let mut client = busy();
    client.say(&json!({"id": "2", "type": "abort"}));
    client.close_stdin();
    let (records, code) = client.end();
    let expected = format!("{CLOSING} response");
    assert_eq!((types(&records).join(" "), code), (expected, Some(0)));
}

#[test]
fn eof_with_finish_waits_for_the_run() {
    let script = "say One.\n\nsay Two.";
    let mut client = Place::new().rpc(script, &["--on-eof", "finish"]);
    // One write, so that the follow-up arrives before the run can end.
    client.write(
        "{\"id\":\"1\",\"type\":\"prompt\",\"message\":\"one\"}\n\
         {\"id\":\"2\",\"type\":\"follow_up\",\"message\":\"two\"}\n",
    );
    client.close_stdin();
    let (records, code) = client.end();
    let said = records.iter().filter(|record| record["type"] == "message_end");
    let said: Vec<_> = said.map(|record| &record["message"]["content"][0]["text"]).collect();
    assert_eq!(said, ["one", "One.", "two", "Two."]);
    assert_eq!(code, Some(0));
}

#[test]
fn signals_abort_the_run_and_set_the_exit_code() {
    for (name, code) in [("INT", 130), ("TERM", 143), ("HUP", 129)] {
        let client = busy();
        client.signal(name);
        let (records, exit) = client.end();
        assert_eq!((types(&records).join(" ").as_str(), exit), (CLOSING, Some(code)), "{name}");
    }
}

#[test]
fn signal_ends_print_mode() {
    let place = Place::new().with("talk.script", "start\nhang");
    let arguments = ["--mode", "json", "--no-session", "--script", "talk.script", "Hello"];
    let command = place.command(&arguments);
    let mut client = Client::start(command, place);
    client.close_stdin();
    client.until(|record| record["message"]["role"] == "assistant");
    client.signal("TERM");
    let (records, code) = client.end();
    assert_eq!(types(&records), ["message_end", "turn_end", "agent_end", "agent_settled"]);
    assert_eq!(code, Some(143));
}

#[test]
fn closed_stdout_ends_the_process() {
    let mut client = Place::new().rpc("start\nhang", &[]);
    client.say(&json!({"id": "1", "type": "prompt", "message": "Hello"}));
    client.close_stdout();
    client.say(&json!({"id": "2", "type": "get_state"}));
    assert_eq!(client.exit_code(), Some(1));
}
