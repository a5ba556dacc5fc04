//! `tiller --mode rpc --multi-session`: many sessions on stdin and stdout.

use serde_json::{Value, json};

use super::client::types_of;
use super::server::{command, processes_with, unique_word};
use crate::client::{Client, Place};

fn start(script: &str) -> Client {
    let place = Place::new().with("talk.script", script);
    let arguments = ["--mode", "rpc", "--multi-session", "--script", "talk.script"];
    Client::start(command(&place, &arguments), place)
}

fn open(client: &mut Client, id: &str) -> String {
    client.say(&json!({"id": id, "type": "open_session", "inMemory": true}));
    let response = client.response(id);
    assert_eq!(response["success"], true, "{response}");
    response["data"]["sessionId"].as_str().unwrap().to_owned()
}

/// A client with two sessions that run a command with this word.
fn busy(word: &str) -> (Client, [String; 2]) {
    let call = json!({"command": format!("sleep 300; : {word}")});
    let mut client = start(&format!("call bash {call}\n\nsay Slept."));
    let handles = [open(&mut client, "a"), open(&mut client, "b")];
    for handle in &handles {
        client.say(&json!({"type": "prompt", "message": "Sleep", "sessionId": handle}));
        client.until_type("tool_execution_start");
    }
    (client, handles)
}

const CLOSING: &str =
    "tool_execution_end message_start message_end turn_end agent_end agent_settled";

fn assert_closed(records: &[Value], handles: &[String], reason: &str) {
    for handle in handles {
        let mut types = types_of(records, handle);
        assert_eq!(types.pop(), Some("session_closed"));
        assert_eq!(types.join(" "), CLOSING);
        let mut closed = records.iter().filter(|one| one["type"] == "session_closed");
        let closed = closed.find(|one| one["sessionId"] == handle.as_str()).unwrap();
        assert_eq!(closed["reason"], reason);
    }
}

#[test]
fn several_sessions_share_stdin_and_stdout() {
    let mut client = start("say One.\n\nsay Two.");
    let handles = ["a", "b", "c"].map(|id| open(&mut client, id));
    for handle in &handles {
        client.say(&json!({"type": "prompt", "message": "Hello", "sessionId": handle}));
    }
    let mut records = Vec::new();
    while records.iter().filter(|one: &&Value| one["type"] == "agent_settled").count() < 3 {
        records.extend(client.until_type("agent_settled"));
    }
    for handle in &handles {
        assert_eq!(types_of(&records, handle).last(), Some(&"agent_settled"));
    }
    client.say(&json!({"id": "x", "type": "close_session", "sessionId": handles[0]}));
    assert_eq!(client.response("x")["success"], true);
    client.say(&json!({"id": "y", "type": "get_state", "sessionId": handles[0]}));
    assert_eq!(client.response("y")["code"], "unknown_session");
    client.close_stdin();
    let (records, code) = client.end();
    assert_eq!(code, Some(0));
    let closed = records.iter().filter(|record| record["type"] == "session_closed");
    assert_eq!(closed.count(), 2, "{records:?}");
}

#[test]
fn eof_ends_the_runs_of_all_sessions() {
    let word = unique_word();
    let (mut client, handles) = busy(&word);
    client.close_stdin();
    let (records, code) = client.end();
    assert_closed(&records, &handles, "closed");
    assert_eq!(code, Some(0));
    assert_eq!(processes_with(&word), Vec::<u32>::new());
}

#[test]
fn signals_end_all_sessions_and_set_the_exit_code() {
    for (name, code) in [("TERM", 143), ("INT", 130), ("HUP", 129)] {
        let word = unique_word();
        let (client, handles) = busy(&word);
        client.signal(name);
        let (records, exit) = client.end();
        let records: Vec<Value> =
            records.into_iter().filter(|one| one["type"] != "server_stopping").collect();
        assert_closed(&records, &handles, "server_stopping");
        assert_eq!(exit, Some(code), "{name}");
        assert_eq!(processes_with(&word), Vec::<u32>::new());
    }
}

#[test]
fn closed_stdout_ends_the_process() {
    let mut client = start("say Hello.");
    client.close_stdout();
    client.say(&json!({"type": "open_session", "inMemory": true}));
    assert_eq!(client.exit_code(), Some(1));
}

/// Everything that was sent before the end of stdin is answered.
#[test]
fn commands_before_eof_are_handled() {
    for _ in 0..5 {
        let mut client = start("say Hello.");
        let mut lines = String::new();
        for id in ["a", "b", "c"] {
            let open = json!({"id": id, "type": "open_session", "inMemory": true});
            lines.push_str(&format!("{open}\n"));
        }
        lines.push_str("{\"id\":\"z\",\"type\":\"list_open_sessions\"}");
        client.write(&lines);
        client.close_stdin();
        let (records, code) = client.end();
        assert_eq!(code, Some(0));
        for id in ["a", "b", "c", "z"] {
            let response = records.iter().find(|record| record["id"] == id);
            assert_eq!(response.expect("a response")["success"], true, "{response:?}");
        }
        let closed = records.iter().filter(|record| record["type"] == "session_closed");
        assert_eq!(closed.count(), 3);
    }
}

#[test]
fn flags_that_select_a_session_are_refused() {
    for flag in [&["--continue"][..], &["--session", "a"], &["Hello"], &["--mode", "json"]] {
        let place = Place::new();
        let mut arguments = vec!["--mode", "rpc", "--multi-session"];
        arguments.extend(flag);
        let output = crate::client::finish(command(&place, &arguments), "");
        assert!(!output.status.success(), "{flag:?}");
        assert!(output.stdout.is_empty() && !output.stderr.is_empty(), "{flag:?}");
    }
}
