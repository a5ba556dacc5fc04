//! Commands that the server refuses, and their codes.

use serde_json::json;

use super::server::{ServeProcess, command};
use crate::client::Client;

#[test]
fn commands_without_a_session_are_refused_with_a_code() {
    let server = ServeProcess::script("say Hello.", &[]);
    let mut client = server.connect();
    let handle = client.open_in_memory();
    client.refused(json!({"type": "prompt", "message": "Hello"}), "missing_session_id");
    client.refused(json!({"type": "get_state"}), "missing_session_id");
    for unknown in ["s1-000000", "", "nonsense"] {
        for kind in ["get_state", "close_session", "attach", "detach"] {
            client.refused(json!({"type": kind, "sessionId": unknown}), "unknown_session");
        }
    }
    // A session that is open, but not for this client.
    let mut stranger = server.connect();
    let prompt = json!({"type": "prompt", "message": "Hello", "sessionId": handle});
    stranger.refused(prompt, "unknown_session");
    stranger.refused(json!({"type": "detach", "sessionId": handle}), "unknown_session");
    client.ask(json!({"type": "detach", "sessionId": handle}));
    client.refused(json!({"type": "get_state", "sessionId": handle}), "unknown_session");
}

#[test]
fn lines_that_are_no_commands_are_refused_and_the_next_one_is_answered() {
    let server = ServeProcess::web_socket_script("say Hello.", &["--listen", "unix:s.sock"]);
    let unix = super::client::ServeClient::unix(&server.path("s.sock"), Default::default());
    for mut client in [server.connect_web_socket(), unix] {
        for line in ["{", "[]", "null", "\"open_session\"", "{}", "{\"type\":7}", "\u{0}"] {
            client.write_line(line);
            let refused = client.take(|record| record["type"] == "response");
            assert_eq!(refused["success"], false, "{line}: {refused}");
        }
        for line in [
            r#"{"id":"x","type":"nonsense"}"#,
            r#"{"id":"x","type":"nonsense","sessionId":"s1-0"}"#,
            r#"{"id":"x","type":"open_session","cwd":7}"#,
            r#"{"id":"x","type":"open_session","inMemory":"yes"}"#,
            r#"{"id":"x","type":"attach"}"#,
            r#"{"id":"x","type":"attach","sessionId":"s1-0","mode":"own"}"#,
            r#"{"id":"x","type":"get_state","sessionId":7}"#,
        ] {
            client.write_line(line);
            let refused = client.response("x");
            assert_eq!(refused["success"], false, "{line}");
            assert!(!refused["error"].as_str().unwrap().is_empty(), "{line}");
        }
        client.write_line("");
        client.write_line("  ");
        client.ask(json!({"type": "list_open_sessions"}));
        assert_eq!(client.arrived(), [] as [serde_json::Value; 0]);
    }
}

#[test]
fn session_that_cannot_be_opened_is_refused_with_the_reason() {
    let server = ServeProcess::script("say Hello.", &[]);
    std::fs::write(server.path("broken.jsonl"), "this is no session\n").unwrap();
    let mut client = server.connect();
    for (request, words) in [
        (json!({"cwd": "/nowhere/at/all"}), "/nowhere/at/all"),
        (json!({"sessionPath": "/nowhere/a.jsonl"}), "/nowhere/a.jsonl"),
        (json!({"sessionPath": server.path("broken.jsonl")}), "broken.jsonl"),
        (json!({"sessionId": "0199-no-such-id"}), "0199-no-such-id"),
        (json!({"provider": "tiller", "modelId": "no-such-model"}), "no-such-model"),
    ] {
        let mut request = request;
        request["type"] = json!("open_session");
        let refused = client.refused(request, "cannot_open");
        let error = refused["error"].as_str().unwrap();
        assert!(error.contains(words), "{words}: {error}");
    }
    let data = client.ask(json!({"type": "list_open_sessions"}));
    assert_eq!(data["sessions"], json!([]));
}

#[test]
fn model_needs_its_provider() {
    let server = ServeProcess::script("say Hello.", &[]);
    let mut client = server.connect();
    for half in [json!({"modelId": "demo"}), json!({"provider": "tiller"})] {
        let mut request = half;
        request["type"] = json!("open_session");
        let refused = client.request(request);
        assert_eq!(refused["success"], false, "{refused}");
    }
}

#[test]
fn session_that_is_open_here_is_refused_with_its_handle() {
    let server = ServeProcess::script("say Hello.", &[]);
    let mut client = server.connect();
    let opened = client.open(json!({}));
    client.prompt(&opened.handle, "Hello");
    client.until_settled(&opened.handle);
    let mut other = server.connect();
    for wanted in [
        json!({"sessionPath": opened.state["sessionFile"]}),
        json!({"sessionId": opened.state["sessionId"]}),
    ] {
        let mut request = wanted;
        request["type"] = json!("open_session");
        request["name"] = json!("Renamed");
        let refused = other.refused(request, "session_in_use");
        assert_eq!(refused["data"]["sessionId"], opened.handle.as_str(), "{refused}");
    }
    let attached = other.ask(json!({"type": "attach", "sessionId": opened.handle}));
    assert_eq!(attached["state"]["sessionId"], opened.state["sessionId"]);
    assert!(attached["state"].get("sessionName").is_none());
}

#[test]
fn session_that_another_process_has_open_is_refused_with_its_name() {
    let server = ServeProcess::script("say Hello.", &[]);
    let arguments = ["--mode", "rpc", "--script", "talk.script", "--model", "tiller/script"];
    let mut classic = Client::start(command(server.place(), &arguments), server.place().clone());
    classic.say(&json!({"id": "1", "type": "prompt", "message": "Hello"}));
    classic.until_type("agent_settled");
    classic.say(&json!({"id": "2", "type": "get_state"}));
    let state = classic.response("2");
    let mut client = server.connect();
    let open = json!({"type": "open_session", "sessionPath": state["data"]["sessionFile"]});
    let refused = client.refused(open.clone(), "session_in_use");
    let owner = &refused["data"]["owner"];
    assert_eq!(owner["pid"], classic.id(), "{refused}");
    let words = |name: &str| owner[name].as_str().unwrap();
    assert!(words("program").starts_with("tiller ") && !words("started").is_empty());
    assert_eq!((owner.get("address"), refused["data"].get("sessionId")), (None, None));
    let pid = classic.id().to_string();
    assert!(refused["error"].as_str().unwrap().contains(&pid), "{refused}");
    classic.close_stdin();
    assert_eq!(classic.end().1, Some(0));
    client.ask(open);
}

#[test]
fn session_that_another_server_has_open_is_refused_with_its_address() {
    let server = ServeProcess::script("say Hello.", &[]);
    let mut client = server.connect();
    let opened = client.open(json!({}));
    client.prompt(&opened.handle, "Hello");
    client.until_settled(&opened.handle);
    let options = ["--listen", "unix:other.sock"];
    let other = ServeProcess::script_in(server.place().clone(), "say Hello.", &options);
    let mut stranger =
        super::client::ServeClient::unix(&other.path("other.sock"), Default::default());
    let open = json!({"type": "open_session", "sessionId": opened.state["sessionId"]});
    let refused = stranger.refused(open, "session_in_use");
    let address = format!("unix:{}", server.socket().display());
    assert_eq!(refused["data"]["owner"]["address"], address, "{refused}");
    assert!(refused["error"].as_str().unwrap().contains(&address), "{refused}");
}

#[test]
fn more_sessions_than_allowed_are_refused() {
    let server = ServeProcess::script("say Hello.", &["--max-sessions", "2"]);
    let mut client = server.connect();
    let first = client.open_in_memory();
    client.open_in_memory();
    client.refused(json!({"type": "open_session", "inMemory": true}), "too_many_sessions");
    client.ask(json!({"type": "close_session", "sessionId": first}));
    client.open_in_memory();
}

#[test]
fn more_extensions_than_allowed_are_refused() {
    let place = crate::client::Place::new().with("ext.js", "export default () => {};");
    let options = ["--max-extensions", "1", "--", "-e", "ext.js"];
    let server = ServeProcess::script_in(place, "say Hello.", &options);
    let mut client = server.connect();
    let first = client.open_in_memory();
    let open = json!({"type": "open_session", "inMemory": true});
    client.refused(open, "too_many_sessions");
    client.ask(json!({"type": "close_session", "sessionId": first}));
    client.open_in_memory();
}

/// The session's extension delays its end, so that commands arrive while it closes.
#[test]
fn commands_for_a_session_that_closes_are_refused() {
    let ext = "export default (pi) => pi.on('session_shutdown', () =>
                 new Promise((done) => setTimeout(done, 400)));";
    let place = crate::client::Place::new().with("ext.js", ext);
    let server = ServeProcess::script_in(place, "say Hello.", &["--", "-e", "ext.js"]);
    let mut client = server.connect();
    let handle = client.open_in_memory();
    client.prompt(&handle, "Hello");
    client.until_settled(&handle);
    let close = client.send(json!({"type": "close_session", "sessionId": handle}));
    // Commands that are handled before the session has ended are answered, too.
    let mut codes = Vec::new();
    let attach = json!({"type": "attach", "sessionId": handle});
    let mut other = server.connect();
    loop {
        let response = other.request(attach.clone());
        codes.push(response["code"].clone());
        if response["code"] == "unknown_session" {
            break;
        }
    }
    assert_eq!(client.response(&close)["success"], true);
    codes.dedup();
    assert!(
        codes.iter().all(|code| {
            code.is_null() || code == "session_closing" || code == "unknown_session"
        })
    );
}
