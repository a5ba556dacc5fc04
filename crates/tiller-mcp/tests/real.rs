//! Real servers: `@modelcontextprotocol/server-everything` and `server-filesystem` from npm, and the
//! Python SDK from PyPI, over stdio and streamable HTTP. `.ci/run` installs them into `target/ci/mcp`.

#![allow(clippy::unwrap_used)]

mod common;
#[path = "../../tiller/tests/support/skip.rs"]
#[allow(dead_code, reason = "node is not asked for here")]
mod skip;

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use common::Bench;
use expect_test::expect;
use serde_json::{Value, json};
use tiller_mcp::Step;
use tokio_util::sync::CancellationToken;

/// Where the servers are installed. Nothing, and the test is skipped, where they are not.
fn installed(program: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/ci/mcp").join(program);
    if path.exists() {
        return Some(path);
    }
    skip::skip("MCP", &format!("{program} is not installed in target/ci/mcp"));
    None
}

fn everything() -> Option<PathBuf> {
    installed("node_modules/.bin/mcp-server-everything")
}

#[tokio::test]
async fn server_everything_over_stdio() {
    let Some(program) = everything() else { return };
    let bench = Bench::start(json!({"s": {"command": program}})).await;
    check_everything(&bench).await;
}

#[tokio::test]
async fn server_everything_over_http() {
    let Some(program) = everything() else { return };
    let server = HttpServer::start(Command::new(program).arg("streamableHttp"));
    let bench = Bench::start(json!({"s": {"url": server.url("/mcp")}})).await;
    check_everything(&bench).await;
    bench.pool.stop().await;
}

async fn check_everything(bench: &Bench) {
    assert_eq!((bench.status().step, bench.status().problems.to_vec()), (Step::Ready, vec![]));
    expect!["Echo: hi"].assert_eq(&bench.text("mcp__s__echo", json!({"message": "hi"})).await);
    expect!["The sum of 2 and 3 is 5."]
        .assert_eq(&bench.text("mcp__s__get_sum", json!({"a": 2, "b": 3})).await);
    let image = bench.text("mcp__s__get_tiny_image", json!({})).await;
    assert!(image.contains("[image/png]"), "{image}");
    let structured = json!({"location": "Chicago"});
    let structured =
        bench.call("mcp__s__get_structured_content", structured, CancellationToken::new()).await;
    let structured = structured.unwrap().other;
    assert!(structured["structuredContent"]["temperature"].is_number(), "{structured:?}");
    let links = bench.text("mcp__s__get_resource_links", json!({"count": 2})).await;
    assert!(links.contains("demo://resource/"), "{links}");
    let long = json!({"duration": 1, "steps": 2});
    let long = bench.text("mcp__s__trigger_long_running_operation", long).await;
    assert!(long.contains("completed"), "{long}");
    let wrong = bench.text("mcp__s__get_sum", json!({"a": "x"})).await;
    assert!(wrong.starts_with("! "), "{wrong}");
}

#[tokio::test]
async fn server_filesystem_reads_and_writes() {
    let Some(program) = installed("node_modules/.bin/mcp-server-filesystem") else { return };
    let folder = tempfile::tempdir().unwrap();
    let entry = json!({"files": {"command": program, "args": [folder.path()]}});
    let bench = Bench::start(entry).await;
    let path = folder.path().join("note.txt");
    let written = json!({"path": path, "content": "héllo\n"});
    let written = bench.text("mcp__files__write_file", written).await;
    assert!(written.contains("Successfully wrote"), "{written}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "héllo\n");
    assert_eq!(bench.text("mcp__files__read_text_file", json!({"path": path})).await, "héllo\n");
    let outside = bench.text("mcp__files__read_text_file", json!({"path": "/etc/passwd"})).await;
    assert!(outside.starts_with("! Access denied"), "{outside}");
}

/// A server of the Python SDK, with the transport in its argument.
const PYTHON: &str = r#"
import asyncio, sys
from mcp.server import MCPServer
from mcp.server.mcpserver import Context

mcp = MCPServer("python")

@mcp.tool()
def add(a: int, b: int) -> int:
    "Adds two numbers"
    return a + b

@mcp.tool()
async def steps(count: int, ctx: Context) -> str:
    "Reports progress"
    for step in range(count):
        await ctx.report_progress(step, count, f"step {step}")
    return "done"

@mcp.tool()
def fail() -> str:
    raise ValueError("no luck")

if sys.argv[1] == "stdio":
    mcp.run()
else:
    mcp.run(transport="streamable-http", port=int(sys.argv[1]))
"#;

fn python() -> Option<PathBuf> {
    installed("python/bin/python3")
}

#[tokio::test]
async fn python_sdk_over_stdio() {
    let Some(python) = python() else { return };
    let bench =
        Bench::start(json!({"s": {"command": python, "args": ["-c", PYTHON, "stdio"]}})).await;
    check_python(&bench).await;
}

#[tokio::test]
async fn python_sdk_over_http() {
    let Some(python) = python() else { return };
    let port = free_port().to_string();
    let mut command = Command::new(python);
    command.args(["-c", PYTHON, &port]);
    let server = HttpServer::start_on(&mut command, &port);
    let bench = Bench::start(json!({"s": {"url": server.url("/mcp")}})).await;
    check_python(&bench).await;
    bench.pool.stop().await;
}

async fn check_python(bench: &Bench) {
    let status = bench.status();
    assert_eq!((status.error(), &status.step), (None, &Step::Ready));
    // The one without `initialize`.
    assert_eq!(status.protocol_version.as_deref(), Some("2026-07-28"));
    assert_eq!(bench.text("mcp__s__add", json!({"a": 2, "b": 3})).await, "5");
    assert_eq!(bench.text("mcp__s__steps", json!({"count": 3})).await, "done");
    let failed = bench.text("mcp__s__fail", json!({})).await;
    assert!(failed.starts_with("! Error executing tool fail"), "{failed}");
}

#[tokio::test]
async fn server_that_restarts_loses_its_session_and_gets_a_new_one() {
    let Some(program) = everything() else { return };
    let port = free_port().to_string();
    let start = || {
        HttpServer::start_on(Command::new(&program).arg("streamableHttp").env("PORT", &port), &port)
    };
    let server = start();
    let mut bench = Bench::start(json!({"s": {"url": server.url("/mcp")}})).await;
    assert_eq!(bench.text("mcp__s__echo", json!({"message": "1"})).await, "Echo: 1");
    drop(server);
    let failed = bench.text("mcp__s__echo", json!({"message": "2"})).await;
    assert!(failed.starts_with("! "), "{failed}");
    let _server = start();
    // Either the stream of announcements or a call learns that the session is gone.
    let lost = bench.text("mcp__s__echo", json!({"message": "3"})).await;
    assert!(lost == "Echo: 3" || lost.contains("the server has ended the session"), "{lost}");
    bench.until(|status| status.step == Step::Ready).await;
    assert_eq!(bench.text("mcp__s__echo", json!({"message": "4"})).await, "Echo: 4");
}

/// A server on the loopback interface, killed at the end.
struct HttpServer {
    child: Child,
    port: String,
}

impl HttpServer {
    fn start(command: &mut Command) -> HttpServer {
        let port = free_port().to_string();
        command.env("PORT", &port);
        HttpServer::start_on(command, &port)
    }

    /// Starts a server that listens on this port, and waits until it does.
    fn start_on(command: &mut Command, port: &str) -> HttpServer {
        let mut child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap());
        let mut seen = String::new();
        while !(seen.contains("listening on port") || seen.contains("Uvicorn running")) {
            assert_ne!(lines.read_line(&mut seen).unwrap(), 0, "it has ended: {seen}");
        }
        std::thread::spawn(move || lines.read_to_end(&mut Vec::new()));
        HttpServer { child, port: port.to_owned() }
    }

    fn url(&self, path: &str) -> Value {
        json!(format!("http://127.0.0.1:{}{path}", self.port))
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
