//! Idle sessions: which are dropped from memory, and how they come back.

use serde_json::{Value, json};

use super::client::ServeClient;
use super::server::{ServeProcess, command, wait_until};
use crate::client::{Client, Place};

const OPTIONS: [&str; 2] = ["--idle-close", "1"];

fn status(client: &mut ServeClient, handle: &str) -> String {
    let listed = client.ask(json!({"type": "list_open_sessions"}));
    let mut sessions = listed["sessions"].as_array().unwrap().iter();
    let session = sessions.find(|one| one["sessionId"] == handle);
    session.map_or("gone", |one| one["status"].as_str().unwrap()).to_owned()
}

fn wait_for_status(server: &ServeProcess, handle: &str, wanted: &str) {
    wait_until(&format!("{handle} is {wanted}"), || {
        status(&mut server.connect(), handle) == wanted
    });
}

fn names(client: &mut ServeClient, handle: &str) -> Vec<Value> {
    let data = client.ask(json!({"type": "get_tools", "sessionId": handle}));
    let tools = data["tools"].as_array().unwrap().iter();
    tools.filter(|tool| tool["isActive"] == true).map(|tool| tool["name"].clone()).collect()
}

#[test]
fn idle_session_sleeps_and_the_next_command_wakes_it() {
    let place = Place::new();
    std::fs::create_dir_all(place.path().join("agent")).unwrap();
    std::fs::create_dir(place.path().join("harbour")).unwrap();
    let local = json!({"providers": {"local": {
        "baseUrl": "http://127.0.0.1:9", "api": "openai-completions", "apiKey": "key",
        "models": [{"id": "qwen"}],
    }}});
    std::fs::write(place.path().join("agent/models.json"), local.to_string()).unwrap();
    let server = ServeProcess::start(place, &["--idle-close", "1", "--", "--pace", "0"]);
    let mut client = server.connect();
    client.ask(json!({"type": "hello", "wire": "pi", "promptResults": true}));
    let opened = client.open(json!({
        "cwd": server.path("harbour"), "name": "Harbour", "tools": ["read", "bash"],
        "thinkingLevel": "low", "provider": "tiller", "modelId": "demo",
    }));
    let handle = &opened.handle;
    client.prompt(handle, "Hello");
    client.until_settled(handle);
    let choose = |provider: &str, id: &str| {
        json!({
            "type": "set_model", "provider": provider, "modelId": id,
            "sessionId": opened.handle,
        })
    };
    client.ask(choose("local", "qwen"));
    let state =
        |client: &mut ServeClient| client.ask(json!({"type": "get_state", "sessionId": handle}));
    let messages =
        |client: &mut ServeClient| client.ask(json!({"type": "get_messages", "sessionId": handle}));
    let before = (state(&mut client), messages(&mut client), names(&mut client, handle));
    wait_for_status(&server, handle, "asleep");
    let after = (state(&mut client), messages(&mut client), names(&mut client, handle));
    assert_eq!(before, after);
    assert_eq!(status(&mut client, handle), "idle");
    let listed = client.ask(json!({"type": "list_open_sessions"}));
    let cwd = server.path("harbour").canonicalize().unwrap();
    assert_eq!(listed["sessions"][0]["cwd"], json!(cwd));
    // A prompt wakes it, too, and the client's choices are still in force.
    client.ask(choose("tiller", "demo"));
    wait_for_status(&server, handle, "asleep");
    client.prompt(handle, "Again");
    let records = client.until_settled(handle);
    let has_message = |update: &Value| update.get("message").is_some();
    let mut updates = records.iter().filter(|record| record["type"] == "message_update");
    assert!(updates.all(has_message));
    assert!(records.iter().any(|record| record["type"] == "prompt_result"));
    assert_eq!(state(&mut client)["messageCount"], 4);
    server.stop();
}

#[test]
fn sleeping_session_can_be_attached_to_closed_and_not_opened_twice() {
    let server = ServeProcess::script("say One.\n\nsay Two.", &OPTIONS);
    let mut client = server.connect();
    let opened = client.open(json!({}));
    let handle = &opened.handle;
    client.prompt(handle, "Hello");
    client.until_settled(handle);
    wait_for_status(&server, handle, "asleep");
    let mut other = server.connect();
    let open = json!({"type": "open_session", "sessionPath": opened.state["sessionFile"]});
    let refused = other.refused(open.clone(), "session_in_use");
    assert_eq!(refused["data"]["sessionId"], handle.as_str());
    // A client that leaves does not wake it.
    client.cut();
    wait_until("the session has no client", || {
        let listed = server.connect().ask(json!({"type": "list_open_sessions"}));
        listed["sessions"][0]["clients"] == 0
    });
    assert_eq!(status(&mut other, handle), "asleep");
    let data = other.ask(json!({"type": "attach", "sessionId": handle}));
    assert_eq!(data["state"]["messageCount"], 2);
    wait_for_status(&server, handle, "asleep");
    other.ask(json!({"type": "close_session", "sessionId": handle}));
    assert_eq!(status(&mut other, handle), "gone");
    other.ask(open);
}

#[test]
fn numbers_go_on_after_a_sleep_and_a_lost_stream_is_truncated() {
    let server = ServeProcess::script("say One.\n\nsay Two.", &OPTIONS);
    let mut client = server.connect();
    client.ask(json!({"type": "hello", "sequence": true}));
    let handle = client.open(json!({})).handle;
    client.send(json!({"type": "prompt", "message": "Hello", "sessionId": handle}));
    let records = client.until_settled(&handle);
    let last = records.last().unwrap()["seq"].as_u64().unwrap();
    wait_for_status(&server, &handle, "asleep");
    client.send(json!({"type": "prompt", "message": "Again", "sessionId": handle}));
    let first = client.take(|record| record.get("seq").is_some());
    assert_eq!((&first["seq"], &first["epoch"]), (&json!(last + 1), &records[0]["epoch"]));
    client.until_settled(&handle);
    client.cut();
    wait_for_status(&server, &handle, "asleep");
    let mut client = server.connect();
    let epoch = &records[0]["epoch"];
    let attach = json!({"type": "attach", "sessionId": handle, "since": 1, "epoch": epoch});
    assert_eq!(client.ask(attach)["replay"], json!({"records": 0, "truncated": true}));
}

#[test]
fn session_with_something_in_memory_stays() {
    let place = Place::new().with("ext.js", "export default () => {};");
    let server = ServeProcess::script_in(place, "say One.", &OPTIONS);
    let mut client = server.connect();
    let tool = json!({"name": "mine", "description": "Mine", "parameters": {"type": "object"}});
    let mut handles = vec![client.open_in_memory()];
    for change in [
        json!({"type": "set_host_tools", "tools": [tool]}),
        json!({"type": "set_active_tools", "tools": ["read"]}),
        json!({"type": "set_limits", "maxTurns": 3}),
        json!({"type": "set_setting", "key": "compaction.enabled", "value": false}),
    ] {
        let handle = client.open(json!({})).handle;
        client.prompt(&handle, "Hello");
        client.until_settled(&handle);
        let mut change = change;
        change["sessionId"] = json!(handle);
        client.ask(change);
        handles.push(handle);
    }
    // This one has nothing in memory, and is younger than the others.
    let plain = client.open(json!({})).handle;
    client.prompt(&plain, "Hello");
    client.until_settled(&plain);
    wait_for_status(&server, &plain, "asleep");
    for handle in &handles {
        assert_eq!(status(&mut client, handle), "idle", "{handle}");
    }
    // Without clients, what cannot sleep is closed.
    client.cut();
    wait_for_status(&server, &handles[0], "gone");
}

#[test]
fn sleeping_session_that_another_process_has_open_is_closed_with_an_answer() {
    let server = ServeProcess::script("say One.", &OPTIONS);
    let mut client = server.connect();
    let opened = client.open(json!({}));
    let handle = &opened.handle;
    client.prompt(handle, "Hello");
    client.until_settled(handle);
    wait_for_status(&server, handle, "asleep");
    let file = opened.state["sessionFile"].as_str().unwrap();
    let arguments = ["--mode", "rpc", "--session", file, "--model", "tiller/demo"];
    let mut classic = Client::start(command(server.place(), &arguments), server.place().clone());
    classic.say(&json!({"id": "1", "type": "get_state"}));
    assert_eq!(classic.response("1")["data"]["messageCount"], 2);
    let request = json!({"type": "prompt", "message": "Again", "sessionId": handle});
    client.refused(request, "cannot_open");
    let closed = client.take(|record| record["type"] == "session_closed");
    assert!(closed["error"].as_str().unwrap().contains(&classic.id().to_string()), "{closed}");
}
