//! Servers that are slow, die, lie, flood, or do not end. This program is also the server: its test
//! `server` plays one where the environment says which. libtest's own lines on stdout are noise that
//! a client has to ignore.

#![allow(clippy::unwrap_used)]

mod common;

use std::io::{BufRead, Write, stderr, stdin, stdout};
use std::time::Duration;

use common::{Bench, own_server, text, until_gone};
use expect_test::expect;
use serde_json::{Value, json};
use tiller_mcp::{Step, TOOLS_MAX};
use tokio_util::sync::CancellationToken;

fn hostile(mode: &str, timeout: f64) -> Value {
    json!({"s": own_server("server", mode, timeout)})
}

#[tokio::test]
async fn server_that_dies_fails_its_calls_and_is_restarted() {
    let mut bench = Bench::start(hostile("plain", 30.0)).await;
    let first = bench.text("mcp__s__pid", json!({})).await;
    expect!["! MCP server s: it has ended with exit code 3: thinking… | fatal: out of ideas. The call has no result, and may or may not have had an effect: check before you call again. The server is being restarted"]
        .assert_eq(&bench.text("mcp__s__crash", json!({})).await);
    until_gone(&first).await;
    // The next call waits for the new one.
    let second = bench.text("mcp__s__pid", json!({})).await;
    assert_ne!(first, second);
    let status = bench.until(|status| status.step == Step::Ready).await;
    assert_eq!(status.error(), None);
}

#[tokio::test]
async fn call_without_an_answer_ends_by_the_time_limit_and_the_server_stays() {
    let bench = Bench::start(hostile("plain", 2.0)).await;
    let pid = bench.text("mcp__s__pid", json!({})).await;
    expect!["! MCP server s: no answer and no progress within 2 s, so the call was cancelled. Ask for less, or tell the user to raise `timeout` of this server in mcp.json"]
        .assert_eq(&bench.text("mcp__s__hang", json!({})).await);
    assert_eq!(bench.text("mcp__s__pid", json!({})).await, pid);
}

#[tokio::test]
async fn aborted_call_is_cancelled_at_the_server() {
    let bench = Bench::start(hostile("plain", 30.0)).await;
    let cancel = CancellationToken::new();
    let call = bench.call("mcp__s__hang", json!({}), cancel.clone());
    let call = tokio::spawn(call);
    // The server has the call once it says so.
    while bench.text("mcp__s__hanging", json!({})).await != "1" {}
    cancel.cancel();
    assert_eq!(text(call.await.unwrap()), "! MCP server s: the call was aborted");
    while bench.text("mcp__s__cancelled", json!({})).await != "1" {}
}

#[tokio::test]
async fn result_of_100_mb_is_refused_and_the_server_goes_on() {
    let bench = Bench::start(hostile("plain", 50.0)).await;
    let pid = bench.text("mcp__s__pid", json!({})).await;
    expect!["! the result is longer than 16 MiB and was discarded: ask for less at once"]
        .assert_eq(&bench.text("mcp__s__huge", json!({})).await);
    assert_eq!(bench.text("mcp__s__pid", json!({})).await, pid);
}

#[tokio::test]
async fn endless_progress_ends_with_an_abort() {
    let bench = Bench::start(hostile("plain", 30.0)).await;
    let cancel = CancellationToken::new();
    let call = tokio::spawn(bench.call("mcp__s__progress", json!({}), cancel.clone()));
    // Other calls pass between.
    for _ in 0..10 {
        assert!(bench.text("mcp__s__pid", json!({})).await.parse::<u32>().is_ok());
    }
    cancel.cancel();
    assert_eq!(text(call.await.unwrap()), "! MCP server s: the call was aborted");
}

#[tokio::test]
async fn tools_with_impossible_schemas_are_left_out() {
    let bench = Bench::start(hostile("liar", 30.0)).await;
    let names: Vec<&str> = bench.pool.tools().iter().map(|tool| tool.tool.name()).collect();
    assert_eq!(names, ["mcp__s__good", "mcp__s__no_type"]);
    expect![[r#"
        the tool no-schema is left out: missing field `inputSchema`
        the tool text is left out: invalid type: string "string", expected a map
        the tool array is left out: its inputSchema is not that of an object
        the tool circular is left out: the schema refers to itself without end (anyOf, oneOf)
        the tool without a name is left out: missing field `name`"#]]
    .assert_eq(&bench.status().problems.join("\n"));
    expect!["! the server's result is malformed"]
        .assert_eq(&bench.text("mcp__s__good", json!({})).await);
}

#[tokio::test]
async fn more_than_10_000_tools_are_cut() {
    let bench = Bench::start(hostile("many", 30.0)).await;
    assert_eq!(bench.pool.tools().len(), TOOLS_MAX);
    expect!["it has more than 10000 tools: the rest is left out"]
        .assert_eq(&bench.status().problems.join("\n"));
}

#[tokio::test]
async fn server_that_never_answers_is_given_up() {
    let bench = Bench::start(hostile("silent", 0.2)).await;
    let status = bench.status();
    let why = status.error().unwrap();
    assert!(why.starts_with("it did not answer within 0.2 s"), "{why}");
    assert!(matches!(status.step, Step::Restarting { .. }));
}

#[tokio::test]
async fn program_that_is_no_server_is_quoted() {
    let entry = json!({"s": {"command": "sh", "args": ["-c", "echo usage: x >&2; exit 2"]}});
    let bench = Bench::start(entry).await;
    expect!["it has ended with exit code 2: usage: x"].assert_eq(bench.status().error().unwrap());
}

#[tokio::test]
async fn program_that_does_not_exist_is_not_tried_again() {
    let bench = Bench::start(json!({"s": {"command": "no-such-program"}})).await;
    let status = bench.status();
    expect![
        "the program no-such-program was not found: install it, or write its full path in `command`"
    ]
    .assert_eq(status.error().unwrap());
    assert!(matches!(status.step, Step::Failed { .. }));
}

#[tokio::test]
async fn changed_list_of_tools_is_followed() {
    let mut bench = Bench::start(hostile("plain", 30.0)).await;
    let before = bench.pool.tools().len();
    bench.text("mcp__s__grow", json!({})).await;
    bench.until(|status| status.tools.len() > before).await;
    assert_eq!(bench.text("mcp__s__grown", json!({})).await, "grown");
}

/// Ignores the end of stdin and SIGTERM, and has a child in a session of its own.
const STUBBORN: &str = r#"
trap '' TERM
setsid sh -c "trap '' TERM; echo \$\$ > $PIDS/child; sleep 1000" >/dev/null 2>&1 &
echo $$ > $PIDS/own
while read -r line; do
  id=${line#*'"id":'}; id=${id%%[,\}]*}
  case $line in
    *'"method":"server/discover"'*) echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"error\":{\"code\":-32601,\"message\":\"unknown\"}}" ;;
    *'"method":"initialize"'*) echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"protocolVersion\":\"2025-11-25\",\"capabilities\":{\"tools\":{}},\"serverInfo\":{\"name\":\"s\",\"version\":\"1\"}}}" ;;
    *'"method":"tools/list"'*) echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"tools\":[]}}" ;;
  esac
done
sleep 1000
sleep 1000
"#;

#[tokio::test]
async fn server_that_does_not_end_is_killed_with_all_it_has_started() {
    let folder = tempfile::tempdir().unwrap();
    let entry = json!({"s": {"command": "sh", "args": ["-c", STUBBORN],
        "env": {"PIDS": folder.path()}}});
    let mut bench = Bench::start(entry).await;
    bench.until(|status| status.step == Step::Ready).await;
    let pid = async |name: &str| loop {
        let pid = std::fs::read_to_string(folder.path().join(name)).unwrap_or_default();
        if pid.ends_with('\n') {
            return pid.trim().to_owned();
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    let pids = [pid("own").await, pid("child").await];
    bench.pool.stop().await;
    for pid in pids {
        until_gone(&pid).await;
    }
}

/// Plays the server that the environment names.
#[test]
fn server() {
    let Ok(mode) = std::env::var("TILLER_TEST_SERVER") else { return };
    // libtest has begun a line.
    writeln!(stdout(), "\nThis is no message.").unwrap();
    let mut server = Server { mode, ..Server::default() };
    for line in stdin().lock().lines() {
        let Ok(message) = serde_json::from_str::<Value>(&line.unwrap()) else { continue };
        server.handle(&message);
    }
    std::process::exit(0);
}

#[derive(Default)]
struct Server {
    mode: String,
    hanging: usize,
    cancelled: usize,
    has_grown: bool,
}

impl Server {
    fn handle(&mut self, message: &Value) {
        let id = &message["id"];
        match message["method"].as_str().unwrap_or_default() {
            "server/discover" if self.mode != "silent" => {
                write(&json!({"jsonrpc": "2.0", "id": id,
                    "error": {"code": -32601, "message": "Method not found"}}));
            }
            "initialize" if self.mode != "silent" => answer(
                id,
                json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                    "serverInfo": {"name": "hostile", "version": "1"}}),
            ),
            "tools/list" => self.list(id, message["params"]["cursor"].as_str()),
            "tools/call" => self.call(message),
            "notifications/cancelled" => self.cancelled += 1,
            _ => {}
        }
    }

    fn list(&self, id: &Value, cursor: Option<&str>) {
        let tool = |name: &str| json!({"name": name, "inputSchema": {"type": "object"}});
        match self.mode.as_str() {
            "liar" => answer(
                id,
                json!({"tools": [
                    tool("good"),
                    {"name": "no-schema"},
                    {"name": "no-type", "inputSchema": {}},
                    {"name": "text", "inputSchema": "string"},
                    {"name": "array", "inputSchema": {"type": "array"}},
                    {"name": "circular", "inputSchema": {"type": "object", "properties": {
                        "a": {"$ref": "#/$defs/a"}},
                        "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}]}}}},
                    {"inputSchema": {"type": "object"}},
                ]}),
            ),
            // Without end.
            "many" => {
                let page: usize = cursor.map_or(0, |cursor| cursor.parse().unwrap());
                let tools: Vec<Value> =
                    (0..1500).map(|number| tool(&format!("t{page}_{number}"))).collect();
                answer(id, json!({"tools": tools, "nextCursor": (page + 1).to_string()}));
            }
            _ => {
                let mut names = vec![
                    "pid",
                    "crash",
                    "hang",
                    "hanging",
                    "cancelled",
                    "huge",
                    "progress",
                    "grow",
                ];
                if self.has_grown {
                    names.push("grown");
                }
                let tools: Vec<Value> = names.into_iter().map(tool).collect();
                answer(id, json!({"tools": tools}));
            }
        }
    }

    fn call(&mut self, message: &Value) {
        let id = &message["id"];
        match message["params"]["name"].as_str().unwrap_or_default() {
            "pid" => say(id, &std::process::id().to_string()),
            "crash" => {
                let words = "\u{1b}[31mthinking…\u{1b}[0m\n\nfatal: out of ideas\n";
                stderr().write_all(words.as_bytes()).unwrap();
                std::process::exit(3);
            }
            "hang" => self.hanging += 1,
            "hanging" => say(id, &self.hanging.to_string()),
            "cancelled" => say(id, &self.cancelled.to_string()),
            "huge" => {
                let mut out = stdout().lock();
                write!(out, r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":["#).unwrap();
                let chunk = [b' '; 1 << 20];
                for _ in 0..100 {
                    out.write_all(&chunk).unwrap();
                }
                out.write_all(b"]}}\n").unwrap();
                out.flush().unwrap();
            }
            "progress" => {
                let token = message["params"]["_meta"]["progressToken"].clone();
                std::thread::spawn(move || {
                    for number in 0_u64.. {
                        write(&json!({"jsonrpc": "2.0", "method": "notifications/progress",
                            "params": {"progressToken": token, "progress": number}}));
                    }
                });
            }
            "grow" => {
                self.has_grown = true;
                write(&json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
                say(id, "");
            }
            "good" => answer(id, json!(["no", "result"])),
            "grown" => say(id, "grown"),
            other => panic!("{other}"),
        }
    }
}

fn say(id: &Value, text: &str) {
    answer(id, json!({"content": [{"type": "text", "text": text}]}));
}

fn answer(id: &Value, result: Value) {
    write(&json!({"jsonrpc": "2.0", "id": id, "result": result}));
}

fn write(message: &Value) {
    let mut out = stdout().lock();
    writeln!(out, "{message}").unwrap();
    out.flush().unwrap();
}
