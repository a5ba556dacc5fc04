//! MCP servers as processes: they end with tiller, however it ends, and `tiller mcp list`.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::client::{Client, Place};

/// Answers with its process id, and has a child in a session of its own. It ignores SIGTERM, and it
/// does not end with its stdin.
pub const SERVER: &str = r#"
trap '' TERM
setsid sleep 1000 >/dev/null 2>&1 &
child=$!
answer() { echo "{\"jsonrpc\":\"2.0\",\"id\":$id,$1}"; }
while read -r line; do
  id=${line#*'"id":'}; id=${id%%[,\}]*}
  case $line in
    *'"method":"server/discover"'*) answer '"error":{"code":-32601,"message":"unknown"}' ;;
    *'"method":"initialize"'*) answer '"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"stubborn","version":"1.0"}}' ;;
    *'"method":"tools/list"'*) answer '"result":{"tools":[{"name":"pids","description":"Its processes","inputSchema":{"type":"object"}}]}' ;;
    *'"method":"tools/call"'*) answer "\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"$$ $child\"}]}" ;;
  esac
done
sleep 1000
sleep 1000
"#;

pub const CONFIG: &str = r#"{"mcpServers": {"s": {"command": "sh", "args": ["server.sh"]}}}"#;

/// A client whose server runs, and the processes of the server.
fn with_server(script: &str, arguments: &[&str]) -> (Client, Vec<String>) {
    let place = Place::new().with("server.sh", SERVER).with("mcp.json", CONFIG);
    let mut all = vec!["--mcp-config", "mcp.json"];
    all.extend(arguments);
    let mut client = place.rpc(script, &all);
    client.say(&json!({"id": "1", "type": "prompt", "message": "Which processes?"}));
    let records = client.until(|record| record["type"] == "tool_execution_end");
    let result = &records.last().unwrap()["result"]["content"][0]["text"];
    let pids: Vec<String> = result.as_str().unwrap().split(' ').map(str::to_owned).collect();
    assert!(pids.len() == 2 && pids.iter().all(|pid| lives(pid)), "{pids:?}");
    (client, pids)
}

pub const CALL: &str = "call mcp__s__pids {}\n\nsay Two.";
const CALL_AND_HANG: &str = "call mcp__s__pids {}\n\nstart\nhang";

pub fn lives(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

pub fn until_gone(pids: &[String]) {
    let since = Instant::now();
    while let Some(pid) = pids.iter().find(|pid| lives(pid)) {
        assert!(since.elapsed() < Duration::from_secs(60), "process {pid} still lives");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn servers_end_at_end_of_input() {
    let (mut client, pids) = with_server(CALL, &[]);
    client.until_type("agent_settled");
    client.close_stdin();
    assert_eq!(client.end().1, Some(0));
    until_gone(&pids);
}

#[test]
fn servers_end_by_sigterm_during_a_run() {
    let (client, pids) = with_server(CALL_AND_HANG, &[]);
    client.signal("TERM");
    assert_eq!(client.end().1, Some(143));
    until_gone(&pids);
}

#[test]
fn servers_end_when_tiller_is_killed() {
    let (mut client, pids) = with_server(CALL_AND_HANG, &[]);
    client.signal("KILL");
    assert_eq!(client.exit_code(), None);
    until_gone(&pids);
}

#[test]
fn server_that_the_client_removes_ends() {
    let (mut client, pids) = with_server(CALL, &[]);
    client.until_type("agent_settled");
    let same = serde_json::from_str::<Value>(CONFIG).unwrap()["mcpServers"].clone();
    client.say(&json!({"id": "2", "type": "set_mcp_servers", "mcpServers": same}));
    // It is the same server, so it keeps running.
    let data = client.response("2")["data"].clone();
    assert_eq!(
        (&data["servers"][0]["source"], &data["servers"][0]["state"]),
        (&json!("client"), &json!("ready"))
    );
    assert!(lives(&pids[0]));
    let other = json!({"s": {"command": "sh", "args": ["server.sh", "again"]}});
    client.say(&json!({"id": "3", "type": "set_mcp_servers", "mcpServers": other}));
    client.response("3");
    until_gone(&pids);
    client.close_stdin();
    client.end();
}

#[test]
fn no_mcp_starts_nothing() {
    let place = Place::new().with("server.sh", "touch started").with("mcp.json", CONFIG);
    let folder = place.clone();
    let mut client = place.rpc("say Hello.", &["--mcp-config", "mcp.json", "--no-mcp"]);
    client.say(&json!({"id": "1", "type": "prompt", "message": "Hi"}));
    client.until_type("agent_settled");
    client.say(&json!({"id": "2", "type": "get_mcp_servers"}));
    assert_eq!(client.response("2")["data"], json!({"servers": []}));
    let servers = serde_json::from_str::<Value>(CONFIG).unwrap()["mcpServers"].clone();
    client.say(&json!({"id": "3", "type": "set_mcp_servers", "mcpServers": servers}));
    let refused = client.response("3");
    assert_eq!(refused["error"], "MCP is switched off by --no-mcp");
    client.close_stdin();
    client.end();
    assert!(!folder.path().join("started").exists());
}

#[test]
fn list_shows_servers_tools_and_problems() {
    let place = Place::new().with("server.sh", SERVER).with("mcp.json", CONFIG);
    let output = place.output(&["mcp", "list", "--mcp-config", "mcp.json"], "");
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text, "s (--mcp-config, sh): ready, stubborn 1.0\n  mcp__s__pids  Its processes\n");
    assert_eq!(output.status.code(), Some(0));

    let config = r#"{"mcpServers": {"a": {"command": "no-such-program"}, "b": {"type": "sse"},
        "c": {"command": "x", "enabled": false}}}"#;
    let place = place.with("mcp.json", config);
    let output = place.output(&["mcp", "list", "--mcp-config", "mcp.json"], "");
    let text = String::from_utf8(output.stdout).unwrap();
    let text = text.replace(&*place.path().to_string_lossy(), "FOLDER");
    expect_test::expect![[r#"
        a (--mcp-config, no-such-program): failed: the program no-such-program was not found: install it, or write its full path in `command`
        c (--mcp-config, x): disabled
        ! MCP server "b" in FOLDER/mcp.json is skipped: the transport `sse` is not supported: use the server's streamable HTTP address, often /mcp in place of /sse, with `type` "http"
    "#]].assert_eq(&text);
    assert_eq!(output.status.code(), Some(1));

    let output = Place::new().output(&["mcp", "list"], "");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("There are no MCP servers. Add one to /"), "{text}");
}
