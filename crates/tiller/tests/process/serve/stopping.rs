//! The end of the server, and its Unix socket.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;

use serde_json::{Value, json};

use super::client::types_of;
use super::server::{ServeProcess, command, processes_with, unique_word, wait_for_stderr};
use crate::client::{Client, Place};

const GATED: &str =
    "call bash {\"command\": \"until [ -e go ]; do sleep 0.02; done\"}\n\nsay Done.\n\nsay More.";

fn closed(records: &[Value], handle: &str) -> Vec<Value> {
    let closed = records.iter().filter(|one| one["type"] == "session_closed");
    closed.filter(|one| one["sessionId"] == handle).cloned().collect()
}

#[test]
fn sigterm_lets_running_answers_finish_and_starts_nothing_new() {
    let options = ["--listen", "unix:s.sock", "--listen", "ws://127.0.0.1:0"];
    let mut server = ServeProcess::script(GATED, &options);
    let mut client = server.connect();
    let running = client.open_in_memory();
    let idle = client.open_in_memory();
    client.prompt(&running, "Wait");
    client.take_type(&running, "tool_execution_start");
    let mut other = server.connect_web_socket();
    other.ask(json!({"type": "attach", "sessionId": running}));
    server.signal("TERM");
    let stopping = client.take(|record| record["type"] == "server_stopping");
    assert_eq!(stopping["seconds"], 30);
    other.take(|record| record["type"] == "server_stopping");
    let closed_idle = client.take(|record| record["type"] == "session_closed");
    assert_eq!(closed_idle["sessionId"], idle.as_str());
    assert_eq!(closed_idle["reason"], "server_stopping");
    for kind in ["prompt", "follow_up", "abort_and_prompt"] {
        let prompt = json!({"type": kind, "message": "More", "sessionId": running});
        client.refused(prompt, "server_stopping");
    }
    client.refused(json!({"type": "open_session", "inMemory": true}), "server_stopping");
    assert_eq!(server.get("/health", &server.bearer()).0, 503);
    client.ask(json!({"type": "get_state", "sessionId": running}));
    std::fs::write(server.path("go"), "").unwrap();
    for client in [&mut client, &mut other] {
        let records = client.rest();
        let types = types_of(&records, &running);
        assert_eq!(types.last(), Some(&"session_closed"), "{types:?}");
        let text = records.iter().any(|one| one["assistantMessageEvent"]["delta"] == "Done.");
        assert!(text, "the answer has not finished: {types:?}");
        assert_eq!(closed(&records, &running)[0]["reason"], "server_stopping");
    }
    assert_eq!(server.exit_code(), Some(0));
    assert!(!server.path("s.sock").exists());
}

#[test]
fn runs_that_take_too_long_are_aborted() {
    let mut server = ServeProcess::script(GATED, &["--drain-seconds", "1"]);
    let mut client = server.connect();
    let handle = client.open_in_memory();
    client.prompt(&handle, "Wait");
    client.take_type(&handle, "tool_execution_start");
    server.signal("TERM");
    let records = client.rest();
    let settled = records.iter().find(|record| record["type"] == "agent_settled").unwrap();
    assert_eq!(settled["aborted"], true);
    assert_eq!(closed(&records, &handle)[0]["reason"], "server_stopping");
    assert_eq!(server.exit_code(), Some(0));
}

/// With the time that a drain has, the test would take longer than it may.
#[test]
fn second_signal_ends_the_server_at_once() {
    let word = unique_word();
    let call = json!({"command": format!("sleep 300; : {word}")});
    let script = format!("call bash {call}\n\nsay Done.");
    let mut server = ServeProcess::script(&script, &["--drain-seconds", "3000"]);
    let mut client = server.connect();
    let handle = client.open_in_memory();
    client.prompt(&handle, "Wait");
    client.take_type(&handle, "tool_execution_start");
    server.signal("TERM");
    client.take(|record| record["type"] == "server_stopping");
    server.signal("TERM");
    let records = client.rest();
    let settled = records.iter().find(|record| record["type"] == "agent_settled").unwrap();
    assert_eq!(settled["aborted"], true);
    assert_eq!(closed(&records, &handle)[0]["reason"], "server_stopping");
    assert_eq!(server.exit_code(), Some(0));
    assert_eq!(processes_with(&word), Vec::<u32>::new());
}

#[test]
fn exit_code_tells_the_signal() {
    for (name, code) in [("TERM", 0), ("INT", 130), ("HUP", 129)] {
        let mut server = ServeProcess::script("say Hello.", &[]);
        let socket = server.socket();
        assert!(socket.ends_with("agent/tiller.sock"), "{}", socket.display());
        let mode = socket.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let mut client = server.connect();
        client.open_in_memory();
        server.signal(name);
        client.rest();
        assert_eq!(server.exit_code(), Some(code), "{name}");
        assert!(!socket.exists());
    }
}

#[test]
fn socket_of_a_server_that_is_gone_is_replaced() {
    let place = Place::new();
    std::fs::create_dir(place.path().join("agent")).unwrap();
    drop(UnixListener::bind(place.path().join("agent/tiller.sock")).unwrap());
    let mut server = ServeProcess::script_in(place, "say Hello.", &[]);
    server.connect().open_in_memory();
    // The same after a server that could not remove its socket.
    let place = server.place().clone();
    server.signal("KILL");
    server.exit_code();
    assert!(server.socket().exists());
    let next = ServeProcess::script_in(place, "say Hello.", &[]);
    next.connect().open_in_memory();
    next.stop();
}

#[test]
fn second_server_on_the_same_socket_is_refused() {
    let server = ServeProcess::script("say Hello.", &[]);
    let mut second = Client::start(command(server.place(), &["serve"]), server.place().clone());
    assert_eq!(second.exit_code(), Some(1));
    assert_eq!(second.line(), None);
    wait_for_stderr(&second, "another server listens on unix:");
    server.connect().open_in_memory();
    // A file that is no socket stays.
    std::fs::write(server.path("notes"), "mine").unwrap();
    let arguments = ["serve", "--listen", "unix:notes"];
    let mut third = Client::start(command(server.place(), &arguments), server.place().clone());
    assert_eq!(third.exit_code(), Some(1));
    assert_eq!(std::fs::read_to_string(server.path("notes")).unwrap(), "mine");
}

/// A server whose socket file was replaced leaves the file of the other alone.
#[test]
fn server_removes_only_its_own_socket() {
    let first = ServeProcess::script("say Hello.", &[]);
    std::fs::remove_file(first.socket()).unwrap();
    let second = ServeProcess::script_in(first.place().clone(), "say Hello.", &[]);
    first.stop();
    assert!(second.socket().exists());
    second.connect().open_in_memory();
    second.stop();
}
