//! What transcripts cannot show: a server that answers as this test says. The whole server is in
//! `crates/tiller/tests/acp_transcripts`.

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::*;

/// A connection whose server says what the test says.
struct Peers {
    connection: Connection,
}

impl Peers {
    /// A client that is initialized.
    fn new() -> Peers {
        let mut peers = Peers { connection: Connection::new("1.0.0", "/") };
        peers.client(json!({"id": 0, "method": "initialize", "params": {"protocolVersion": 1}}));
        peers.connection.take_output();
        peers
    }

    /// The same with the open session `s`, whose handle is `h`.
    fn with_session() -> Peers {
        let mut peers = Peers::new();
        peers.open(json!([]));
        peers.answer("get_available_models", json!({"models": []}));
        peers.answer("get_available_thinking_levels", json!({"levels": ["off"]}));
        peers.connection.take_output();
        peers
    }

    /// Requests a session, and lets the server open it.
    fn open(&mut self, mcp_servers: Value) {
        let params = json!({"cwd": "/w", "mcpServers": mcp_servers});
        self.client(json!({"id": 1, "method": "session/new", "params": params}));
        self.answer("open_session", json!({"sessionId": "h", "state": state()}));
    }

    fn client(&mut self, mut message: Value) {
        message["jsonrpc"] = json!("2.0");
        self.connection.client_line(message.to_string().as_bytes());
    }

    fn prompt(&mut self, id: i64) {
        let params = json!({"sessionId": "s", "prompt": [{"type": "text", "text": "Hi."}]});
        self.client(json!({"id": id, "method": "session/prompt", "params": params}));
    }

    fn server(&mut self, record: Value) {
        self.connection.server_line(record.to_string().as_bytes());
    }

    /// The server answers the newest command with this name.
    fn answer(&mut self, command: &str, data: Value) {
        let id = self.id_of(command);
        let response = json!({"id": id, "type": "response", "command": command, "success": true, "data": data});
        self.server(response);
    }

    fn refuse(&mut self, command: &str, error: &str) {
        let id = self.id_of(command);
        let response = json!({"id": id, "type": "response", "command": command, "success": false, "error": error});
        self.server(response);
    }

    /// The id of the newest command with this name. Lines before it are dropped.
    fn id_of(&mut self, command: &str) -> Value {
        let output = self.connection.take_output();
        let lines =
            output.to_server.iter().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let found = lines.rev().find(|line| line["type"] == command);
        found.unwrap_or_else(|| panic!("no {command}: {output:?}"))["id"].clone()
    }

    fn check(&mut self, expected: Expect) {
        let Output { to_client, to_server } = self.connection.take_output();
        let client = to_client.iter().map(|line| format!("client {line}\n"));
        let server = to_server.iter().map(|line| format!("server {line}\n"));
        expected.assert_eq(&client.chain(server).collect::<String>());
    }
}

fn state() -> Value {
    let model = json!({
        "id": "m", "name": "M", "api": "a", "provider": "p", "baseUrl": "", "reasoning": false,
        "input": ["text"], "contextWindow": 1, "maxTokens": 1,
        "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
    });
    json!({
        "model": model, "thinkingLevel": "off", "isStreaming": false, "isCompacting": false,
        "steeringMode": "all", "followUpMode": "all", "interruptMode": "wait", "sessionId": "s",
        "autoCompactionEnabled": true, "messageCount": 1, "pendingMessageCount": 0,
        "queuedMessageCount": 0,
    })
}

#[test]
fn mcp_servers_come_before_everything_else() {
    let mut peers = Peers::new();
    peers.open(json!([{"name": "files", "command": "/bin/files", "args": [], "env": []}]));
    peers.check(expect![[r#"
        server {"id":"3","sessionId":"h","type":"set_mcp_servers","mcpServers":{"files":{"command":"/bin/files"}}}
    "#]]);
    let response = json!({"id": "3", "type": "response", "command": "set_mcp_servers", "success": true, "sessionId": "h"});
    peers.server(response);
    peers.check(expect![[r#"
        server {"id":"4","sessionId":"h","type":"get_available_models"}
    "#]]);
}

#[test]
fn dialog_that_names_a_call_is_a_permission_of_that_call() {
    let mut peers = Peers::with_session();
    peers.server(json!({
        "type": "extension_ui_request", "id": "d", "sessionId": "h", "method": "select",
        "title": "Run it?", "options": ["Allow", "Always allow", "Deny"], "toolCallId": "c",
    }));
    peers.check(expect![[r#"
        client {"jsonrpc":"2.0","id":1,"method":"session/request_permission","params":{"sessionId":"s","toolCall":{"toolCallId":"c","title":"Run it?"},"options":[{"optionId":"option-0","name":"Allow","kind":"allow_once"},{"optionId":"option-1","name":"Always allow","kind":"allow_always"},{"optionId":"option-2","name":"Deny","kind":"reject_once"}]}}
    "#]]);
    let outcome = json!({"outcome": "selected", "optionId": "option-1"});
    peers.client(json!({"id": 1, "result": {"outcome": outcome}}));
    peers.check(expect![[r#"
        server {"sessionId":"h","type":"extension_ui_response","id":"d","value":"Always allow"}
    "#]]);
    // A second answer means nothing.
    peers.client(json!({"id": 1, "result": {"outcome": outcome}}));
    peers.check(expect![""]);
}

#[test]
fn session_that_crashes_answers_its_prompts_with_errors() {
    let mut peers = Peers::with_session();
    peers.prompt(2);
    peers.prompt(3);
    let params = json!({"sessionId": "s", "configId": "model", "value": "p/m"});
    peers.client(json!({"id": 5, "method": "session/set_config_option", "params": params}));
    peers.connection.take_output();
    peers.server(json!({"type": "session_closed", "sessionId": "h", "reason": "crashed", "error": "it broke"}));
    peers.prompt(4);
    peers.check(expect![[r#"
        client {"jsonrpc":"2.0","id":2,"error":{"code":-32603,"message":"the session s has ended: it broke"}}
        client {"jsonrpc":"2.0","id":3,"error":{"code":-32603,"message":"the session s has ended: it broke"}}
        client {"jsonrpc":"2.0","id":5,"error":{"code":-32603,"message":"the session s has ended: it broke"}}
        client {"jsonrpc":"2.0","id":4,"error":{"code":-32002,"message":"no session s is open; `session/load` opens a stored one"}}
    "#]]);
}

#[test]
fn prompt_that_is_refused_for_lack_of_a_key_asks_to_authenticate() {
    for (state, code) in [("auth_error", -32000), ("no_provider", -32000), ("connected", -32603)] {
        let mut peers = Peers::with_session();
        peers.prompt(2);
        peers.refuse("prompt", "No API key found for p");
        peers.answer(
            "get_integrations",
            json!({"version": "1", "model": {"state": state}, "services": []}),
        );
        let line = peers.connection.take_output().to_client.concat();
        let expected = format!(r#""error":{{"code":{code},"message":"No API key found for p"}}"#);
        assert!(line.contains(&expected), "{line}");
    }
}

#[test]
fn request_that_was_cancelled_while_its_session_opens_closes_it() {
    let mut peers = Peers::new();
    let params = json!({"cwd": "/w", "mcpServers": []});
    peers.client(json!({"id": 1, "method": "session/new", "params": params}));
    let id = peers.id_of("open_session");
    peers.client(json!({"method": "$/cancel_request", "params": {"requestId": 1}}));
    let data = json!({"sessionId": "h", "state": state()});
    peers.server(json!({"id": id, "type": "response", "command": "open_session", "success": true, "data": data}));
    peers.answer("get_available_models", json!({"models": []}));
    peers.answer("get_available_thinking_levels", json!({"levels": ["off"]}));
    peers.check(expect![[r#"
        client {"jsonrpc":"2.0","id":1,"error":{"code":-32800,"message":"cancelled"}}
        server {"id":"5","type":"close_session","sessionId":"h"}
    "#]]);
}

#[test]
fn lines_of_the_server_that_make_no_sense_are_ignored() {
    let mut peers = Peers::with_session();
    for line in [
        "",
        "nonsense",
        "[]",
        r#"{"type":"response","id":"999","command":"x","success":true}"#,
        r#"{"type":"response","id":7,"command":"x","success":true}"#,
        r#"{"type":"agent_start"}"#,
        r#"{"type":"agent_start","sessionId":"another"}"#,
        r#"{"type":"new_record","sessionId":"h"}"#,
    ] {
        peers.connection.server_line(line.as_bytes());
    }
    peers.check(expect![""]);
}
