//! MCP servers of sessions: each session has its own, and they end with it.

use serde_json::{Value, json};

use super::client::ServeClient;
use super::server::ServeProcess;
use crate::mcp::{CALL, CONFIG, SERVER, lives, until_gone};

/// The processes of a session's MCP server.
fn pids(client: &mut ServeClient, handle: &str) -> Vec<String> {
    let servers = serde_json::from_str::<Value>(CONFIG).unwrap()["mcpServers"].clone();
    let set = json!({"type": "set_mcp_servers", "sessionId": handle, "mcpServers": servers});
    client.ask(set);
    client.prompt(handle, "Which processes?");
    let records = client.until_settled(handle);
    let ended = records.iter().find(|record| record["type"] == "tool_execution_end").unwrap();
    let text = ended["result"]["content"][0]["text"].as_str().unwrap();
    text.split(' ').map(str::to_owned).collect()
}

#[test]
fn each_session_has_its_own_servers_and_they_end_with_it() {
    let server = ServeProcess::script(CALL, &[]);
    std::fs::write(server.path("server.sh"), SERVER).unwrap();
    let mut client = server.connect();
    let cwd = server.place().path();
    let mut open = || {
        let opened = client.open(json!({"cwd": cwd}));
        let pids = pids(&mut client, &opened.handle);
        (opened.handle, pids)
    };
    let (first, of_first) = open();
    let (_, of_second) = open();
    assert_ne!(of_first, of_second);
    client.ask(json!({"type": "close_session", "sessionId": first}));
    until_gone(&of_first);
    assert!(of_second.iter().all(|pid| lives(pid)));
    server.signal("KILL");
    until_gone(&of_second);
}
