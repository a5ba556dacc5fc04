//! Sessions of one client: open, run beside each other, close.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;

use serde_json::{Value, json};

use super::client::{text_of, types_of};
use super::server::{ServeProcess, processes_with, unique_word, wait_until};

const CLOSING: &str =
    "tool_execution_end message_start message_end turn_end agent_end agent_settled";

#[test]
fn new_session_has_its_own_folder_model_name_and_tools() {
    let server = ServeProcess::script("say Hello.", &[]);
    let mut client = server.connect();
    std::fs::create_dir(server.path("harbour")).unwrap();
    let harbour = client.open(json!({
        "cwd": server.path("harbour"), "provider": "tiller", "modelId": "demo", "name": "Harbour",
        "tools": ["read"], "thinkingLevel": "high",
    }));
    let other = client.open(json!({}));
    assert_ne!(harbour.handle, other.handle);
    assert_eq!(harbour.state["model"]["id"], "demo");
    assert_eq!(harbour.state["sessionName"], "Harbour");
    assert_eq!(harbour.state["thinkingLevel"], "high");
    assert_eq!(other.state["model"]["id"], "script");
    let active = |client: &mut super::client::ServeClient, handle: &str| {
        let data = client.ask(json!({"type": "get_tools", "sessionId": handle}));
        let tools = data["tools"].as_array().unwrap().iter();
        let active = tools.filter(|tool| tool["isActive"] == true);
        active.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(active(&mut client, &harbour.handle), ["read"]);
    assert!(active(&mut client, &other.handle).len() > 1);
    let data = client.ask(json!({"type": "list_open_sessions"}));
    let sessions = data["sessions"].as_array().unwrap();
    let find = |handle: &str| sessions.iter().find(|one| one["sessionId"] == handle).unwrap();
    let listed = find(&harbour.handle);
    assert_eq!(listed["cwd"], json!(server.path("harbour").canonicalize().unwrap()));
    assert_eq!(listed["name"], "Harbour");
    assert_eq!(listed["model"], "tiller/demo");
    assert_eq!(listed["durableId"], harbour.state["sessionId"]);
    assert_eq!(listed["status"], "idle");
    assert_eq!((&listed["attached"], &listed["clients"]), (&json!(true), &json!(1)));
    assert!(find(&other.handle).get("name").is_none());
    let mut stranger = server.connect();
    let data = stranger.ask(json!({"type": "list_open_sessions"}));
    assert!(data["sessions"].as_array().unwrap().iter().all(|one| one["attached"] == false));
    server.stop();
}

/// As with `printf … | nc -U`.
#[test]
fn client_that_closes_its_side_at_once_gets_its_responses() {
    let server = ServeProcess::script("say Hello.", &[]);
    let mut socket = UnixStream::connect(server.socket()).unwrap();
    let lines = concat!(
        r#"{"id":"1","type":"open_session"}"#,
        "\n",
        r#"{"id":"2","type":"list_open_sessions"}"#
    );
    socket.write_all(lines.as_bytes()).unwrap();
    socket.shutdown(Shutdown::Write).unwrap();
    let mut read = String::new();
    socket.read_to_string(&mut read).unwrap();
    let records: Vec<Value> =
        read.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let opened = records.iter().find(|record| record["id"] == "1").unwrap();
    assert_eq!(opened["success"], true, "{read}");
    assert!(records.iter().any(|record| record["id"] == "2"), "{read}");
    // The session goes on without its client.
    let mut other = server.connect();
    let attach = json!({"type": "attach", "sessionId": opened["data"]["sessionId"]});
    assert_eq!(other.request(attach)["success"], true);
    server.stop();
}

#[test]
fn stored_session_is_opened_by_path_and_by_id() {
    let server = ServeProcess::script("say Stored.", &[]);
    std::fs::create_dir(server.path("elsewhere")).unwrap();
    let mut client = server.connect();
    let first = client.open(json!({"name": "Harbour", "cwd": server.path("elsewhere")}));
    client.prompt(&first.handle, "Hello");
    client.until_settled(&first.handle);
    client.ask(json!({"type": "close_session", "sessionId": first.handle}));
    let file = &first.state["sessionFile"];
    let id = first.state["sessionId"].as_str().unwrap();
    for wanted in [
        json!({"sessionPath": file}),
        json!({"sessionId": id, "cwd": server.path("elsewhere")}),
        json!({"sessionId": &id[..18], "cwd": server.path("elsewhere")}),
        json!({"sessionId": id}),
    ] {
        let again = client.open(wanted.clone());
        assert_ne!(again.handle, first.handle);
        assert_eq!(again.state["sessionId"], id, "{wanted}");
        assert_eq!(again.state["sessionName"], "Harbour");
        assert_eq!(again.state["messageCount"], 2);
        assert_eq!(again.state["model"]["id"], "script");
        let data = client.ask(json!({"type": "list_open_sessions"}));
        let cwd = server.path("elsewhere").canonicalize().unwrap();
        assert_eq!(data["sessions"][0]["cwd"], json!(cwd), "{wanted}");
        client.ask(json!({"type": "close_session", "sessionId": again.handle}));
    }
    // The stored sessions of all folders, or of one.
    let all = client.ask(json!({"type": "list_sessions"}));
    assert_eq!(all["sessions"].as_array().unwrap().len(), 1, "{all}");
    assert_eq!(all["sessions"][0]["name"], "Harbour");
    let some = client.ask(json!({"type": "list_sessions", "cwd": server.path("")}));
    assert_eq!(some["sessions"], json!([]));
    // The conditions are those of a session's list_sessions.
    for (conditions, expected) in [
        (json!({"name": "harb"}), 1),
        (json!({"name": "haven"}), 0),
        (json!({"search": "stored hel"}), 0),
        (json!({"search": "hel"}), 1),
        (json!({"modifiedSince": 1_000}), 1),
        (json!({"modifiedUntil": 1_000}), 0),
    ] {
        let mut command = conditions.clone();
        command["type"] = json!("list_sessions");
        let listed = client.ask(command);
        assert_eq!(listed["sessions"].as_array().unwrap().len(), expected, "{conditions}");
    }
    server.stop();
}

#[test]
fn session_in_memory_leaves_no_file() {
    let server = ServeProcess::script("say Hello.", &[]);
    let mut client = server.connect();
    let opened = client.open(json!({"inMemory": true}));
    assert!(opened.state.get("sessionFile").is_none());
    client.prompt(&opened.handle, "Hello");
    client.until_settled(&opened.handle);
    let all = client.ask(json!({"type": "list_sessions"}));
    assert_eq!(all["sessions"], json!([]));
}

/// Each tool call waits for the other session's, so the test ends only if both run at once.
#[test]
fn two_sessions_run_at_once() {
    let server = ServeProcess::script("", &[]);
    let mut client = server.connect();
    let mut handles = Vec::new();
    for (own, other) in [("a", "b"), ("b", "a")] {
        let wait = format!("touch {own}; until [ -e {other} ]; do sleep 0.02; done");
        server.set_script(&format!("call bash {}\n\nsay Met.", json!({"command": wait})));
        handles.push(client.open_in_memory());
    }
    for handle in &handles {
        client.prompt(handle, "Meet");
    }
    let data = client.ask(json!({"type": "list_open_sessions"}));
    assert_eq!(data["sessions"].as_array().unwrap().len(), 2);
    for handle in &handles {
        client.take_type(handle, "agent_settled");
    }
    server.stop();
}

#[test]
fn commands_of_a_session_are_handled_in_their_order() {
    let server = ServeProcess::web_socket_script("say Hello.", &["--listen", "unix:s.sock"]);
    for mut client in [
        server.connect_web_socket(),
        super::client::ServeClient::unix(&server.path("s.sock"), Default::default()),
    ] {
        let handle = client.open_in_memory();
        let command = |number: usize| {
            let name = format!("name {number}");
            json!({"id": number, "type": "set_session_name", "name": name, "sessionId": handle})
        };
        client.say_together(&(0..200).map(command).collect::<Vec<_>>());
        let records = client.until(|record| record["id"] == 199);
        let ids = records.iter().filter(|record| record["type"] == "response");
        let ids: Vec<u64> = ids.map(|record| record["id"].as_u64().unwrap()).collect();
        assert_eq!(ids, (0..200).collect::<Vec<_>>());
        let state = client.ask(json!({"type": "get_state", "sessionId": handle}));
        assert_eq!(state["sessionName"], "name 199");
    }
}

#[test]
fn closing_a_session_ends_its_run_and_its_children() {
    let word = unique_word();
    let call = json!({"command": format!("sleep 300; : {word}")});
    let server = ServeProcess::script(&format!("call bash {call}\n\nsay Slept."), &[]);
    let mut client = server.connect();
    let handle = client.open_in_memory();
    let survivor = client.open_in_memory();
    client.prompt(&handle, "Sleep");
    client.take_type(&handle, "tool_execution_start");
    wait_until("the command runs", || !processes_with(&word).is_empty());
    client.arrived_of(&handle);
    let id = client.send(json!({"type": "close_session", "sessionId": handle}));
    let records = client.until(|record| record["id"] == id.as_str());
    // The client that closes the session gets the response alone, behind the last record.
    assert_eq!(types_of(&records, &handle).join(" "), CLOSING);
    assert_eq!(records.last().unwrap()["success"], true);
    assert_eq!(processes_with(&word), Vec::<u32>::new());
    client.refused(json!({"type": "get_state", "sessionId": handle}), "unknown_session");
    let data = client.ask(json!({"type": "list_open_sessions"}));
    let sessions = data["sessions"].as_array().unwrap();
    assert_eq!(sessions.iter().map(|one| &one["sessionId"]).collect::<Vec<_>>(), [&survivor]);
    assert_eq!(client.arrived(), [] as [Value; 0]);
}

/// The response of each close comes behind the last record, however much is on its way.
#[test]
fn response_of_a_close_comes_last() {
    let server = ServeProcess::script("repeat 3000 \"word {i} \"\nhang", &[]);
    let mut client = server.connect();
    for round in 0..10 {
        let handle = client.open_in_memory();
        client.say(&json!({"type": "prompt", "message": "Go on", "sessionId": handle}));
        client.take_type(&handle, "message_update");
        let id = client.send(json!({"type": "close_session", "sessionId": handle}));
        let records = client.until(|record| record["id"] == id.as_str());
        let types = types_of(&records, &handle);
        assert!(types.ends_with(&["agent_end", "agent_settled"]), "round {round}: {types:?}");
        let data = client.ask(json!({"type": "list_open_sessions"}));
        assert_eq!(data["sessions"], json!([]), "round {round}");
        assert_eq!(client.arrived(), [] as [Value; 0]);
    }
}

#[test]
fn hello_without_a_session_chooses_for_later_ones() {
    let server = ServeProcess::script("say Hello.", &[]);
    let mut client = server.connect();
    let before = client.open_in_memory();
    let hello = client.ask(json!({"type": "hello", "promptResults": true, "sequence": true}));
    let names = hello["commands"].as_array().unwrap();
    for name in ["open_session", "attach", "prompt"] {
        assert!(names.contains(&json!(name)), "{name}");
    }
    let after = client.open_in_memory();
    for handle in [&before, &after] {
        client.prompt(handle, "Hello");
        client.take_type(handle, "agent_settled");
    }
    let result = client.take_type(&after, "prompt_result");
    assert!(result["epoch"].is_string(), "{result}");
    let earlier = client.arrived_of(&before);
    let (of_before, of_after): (Vec<Value>, Vec<Value>) =
        earlier.into_iter().partition(|one| one["sessionId"] == before.as_str());
    let is_plain = |one: &Value| one["type"] != "prompt_result" && one.get("seq").is_none();
    assert!(of_before.iter().all(is_plain), "{of_before:?}");
    let numbers: Vec<u64> = of_after.iter().map(|one| one["seq"].as_u64().unwrap()).collect();
    assert!(numbers.is_sorted() && numbers.len() > 4, "{numbers:?}");
    // With a session, the choice is for that one.
    client.ask(json!({"type": "hello", "stream": "snapshots", "sessionId": before}));
    let chosen = client.ask(json!({"type": "get_capabilities", "sessionId": before}));
    assert_eq!(chosen["stream"], "snapshots");
    let own = client.ask(json!({"type": "get_capabilities"}));
    assert_eq!((&own["stream"], &own["promptResults"]), (&json!("deltas"), &json!(true)));
}

#[test]
fn level_is_chosen_for_each_client() {
    let server = ServeProcess::script("say Hello.", &[]);
    let mut client = server.connect();
    client.ask(json!({"type": "hello", "wire": "pi"}));
    let handle = client.open_in_memory();
    let mut other = server.connect();
    other.ask(json!({"type": "attach", "sessionId": handle}));
    client.prompt(&handle, "Hello");
    let snapshots = client.until_settled(&handle);
    let deltas = other.until_settled(&handle);
    let has_message = |records: &[Value]| {
        let updates = records.iter().filter(|record| record["type"] == "message_update");
        updates.map(|update| update.get("message").is_some()).collect::<Vec<_>>()
    };
    assert!(has_message(&snapshots).iter().all(|has| *has));
    assert!(has_message(&deltas).iter().all(|has| !*has));
    let answer = |records: &[Value]| {
        text_of(&records.iter().rfind(|one| one["type"] == "message_end").unwrap()["message"])
    };
    assert_eq!((answer(&snapshots), answer(&deltas)), ("Hello.".into(), "Hello.".into()));
}
