//! `tiller connect`: a session of a server at the stdin and stdout of a classic client.

use serde_json::json;

use super::server::{ServeProcess, command, processes_with, unique_word, wait_for_stderr};
use crate::client::{Client, Place, types};

/// A server with both addresses, and the address that `tiller connect` gets.
fn server(script: &str, web_socket: bool) -> (ServeProcess, String) {
    let options = ["--listen", "ws://127.0.0.1:0", "--listen", "unix:s.sock"];
    let server = ServeProcess::script(script, &options);
    let address = if web_socket {
        format!("ws://{}", server.tcp_address())
    } else {
        "unix:s.sock".to_owned()
    };
    (server, address)
}

fn connect(place: &Place, arguments: &[&str]) -> Client {
    let mut all = vec!["connect"];
    all.extend(arguments);
    Client::start(command(place, &all), place.clone())
}

#[test]
fn classic_client_talks_to_a_session_of_the_server() {
    for web_socket in [false, true] {
        let (server, address) = server("say One.\n\nsay Two.", web_socket);
        let mut client = connect(server.place(), &[&address, "--name", "Harbour"]);
        client.say(&json!({"id": "1", "type": "prompt", "message": "Hello"}));
        let records = client.until_type("agent_settled");
        assert_eq!(records[0]["id"], "1", "nothing comes before the first response");
        for record in &records {
            assert!(record.get("sessionId").is_none(), "{record}");
        }
        let update = records.iter().find(|record| record["type"] == "message_update").unwrap();
        assert!(update.get("message").is_some(), "the level is pi: {update}");
        client.say(&json!({"id": "2", "type": "get_state"}));
        assert_eq!(client.response("2")["data"]["sessionName"], "Harbour");
        let listed = server.connect_web_socket().ask(json!({"type": "list_open_sessions"}));
        assert_eq!(listed["sessions"][0]["name"], "Harbour");
        client.write("{\"id\":\"3\",\"type\":\"get_last_assistant_text\"}");
        client.close_stdin();
        let (records, code) = client.end();
        assert_eq!(records[0]["data"]["text"], "One.", "the last line needs no end");
        assert_eq!((records.len(), code), (1, Some(0)), "{records:?}");
        let listed = server.connect_web_socket().ask(json!({"type": "list_open_sessions"}));
        assert_eq!(listed["sessions"], json!([]));
        server.stop();
    }
}

#[test]
fn eof_ends_the_run_with_its_events() {
    for web_socket in [false, true] {
        let word = unique_word();
        let call = json!({"command": format!("sleep 300; : {word}")});
        let (server, address) = server(&format!("call bash {call}\n\nsay Slept."), web_socket);
        let mut client = connect(server.place(), &[&address, "--no-session"]);
        client.say(&json!({"id": "1", "type": "prompt", "message": "Sleep"}));
        client.until_type("tool_execution_start");
        client.close_stdin();
        let (records, code) = client.end();
        let closing =
            "tool_execution_end message_start message_end turn_end agent_end agent_settled";
        assert_eq!((types(&records).join(" ").as_str(), code), (closing, Some(0)));
        assert_eq!(processes_with(&word), Vec::<u32>::new());
    }
}

#[test]
fn refused_session_is_reported_in_a_sentence() {
    for web_socket in [false, true] {
        let (server, address) = server("say Hello.", web_socket);
        for (arguments, words) in [
            (["--session", "/nowhere/a.jsonl"], "/nowhere/a.jsonl"),
            (["--model", "tiller/none"], "none"),
        ] {
            let mut all = vec![address.as_str()];
            all.extend(arguments);
            let mut client = connect(server.place(), &all);
            assert_eq!(client.line(), None);
            assert_eq!(client.exit_code(), Some(1));
            wait_for_stderr(&client, "the server refuses: ");
            wait_for_stderr(&client, words);
        }
    }
}

#[test]
fn missing_server_is_reported_in_a_sentence() {
    let place = Place::new();
    std::fs::create_dir(place.path().join("agent")).unwrap();
    let token = place.path().join("agent/serve-token");
    std::fs::write(&token, "a-token-of-some-length").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&token, mode).unwrap();
    for arguments in [&[][..], &["unix:other.sock"], &["ws://127.0.0.1:9"]] {
        let mut client = connect(&place, arguments);
        assert_eq!(client.line(), None);
        assert_eq!(client.exit_code(), Some(1));
        wait_for_stderr(&client, "is `tiller serve` running?");
    }
}

#[test]
fn end_of_the_server_ends_the_client() {
    for web_socket in [false, true] {
        let (mut server, address) = server("start\nhang", web_socket);
        let mut client = connect(server.place(), &[&address, "--no-session"]);
        client.say(&json!({"id": "1", "type": "prompt", "message": "Hello"}));
        client.until_type("message_start");
        server.signal("TERM");
        server.signal("TERM");
        let (records, code) = client.end();
        assert_eq!(records.last().unwrap()["type"], "agent_settled", "{records:?}");
        assert_eq!(code, Some(0));
        assert_eq!(server.exit_code(), Some(0));
    }
}
