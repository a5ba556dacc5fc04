//! Streamable HTTP against a small server on the loopback interface: sessions, events, headers, and
//! addresses that are no MCP server.

#![allow(clippy::unwrap_used)]

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use common::Bench;
use expect_test::expect;
use serde_json::{Value, json};
use tiller_mcp::Step;

/// A request as the server has received it.
struct Request {
    /// Method, and the headers that are about the protocol.
    head: String,
    body: Value,
}

/// Serves each request with `answer`, which writes the whole response. Returns the address and the
/// heads of all requests.
fn serve(
    answer: impl Fn(&Request, &mut TcpStream) + Send + Sync + 'static,
) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let heads = Arc::<Mutex<Vec<String>>>::default();
    let (answer, seen) = (Arc::new(answer), heads.clone());
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let (answer, seen) = (answer.clone(), seen.clone());
            std::thread::spawn(move || {
                let mut connection = connection.unwrap();
                if let Some(request) = read(&connection) {
                    seen.lock().unwrap().push(request.head.clone());
                    answer(&request, &mut connection);
                }
            });
        }
    });
    (url, heads)
}

fn read(connection: &TcpStream) -> Option<Request> {
    let mut reader = BufReader::new(connection);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let method = line.split(' ').next()?.to_owned();
    let (mut length, mut headers) = (0, Vec::new());
    loop {
        line.clear();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim().split_once(": ") else { break };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.parse().ok()?,
            name if name.starts_with("mcp-") || name == "authorization" => {
                headers.push(format!(" {name}={value}"));
            }
            _ => {}
        }
    }
    headers.sort();
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let called = body["method"].as_str().unwrap_or_default();
    Some(Request { head: format!("{method} {called}{}", headers.concat()), body })
}

fn respond(to: &mut TcpStream, status: &str, headers: &str, body: &str) {
    let length = body.len();
    // The client may have gone.
    write!(
        to,
        "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n\r\n{body}"
    )
    .ok();
}

fn respond_json(to: &mut TcpStream, headers: &str, body: &Value) {
    respond(to, "200 OK", &format!("content-type: application/json{headers}"), &body.to_string());
}

/// A server with sessions, which answers calls with events.
fn with_session(request: &Request, to: &mut TcpStream) {
    let id = &request.body["id"];
    match request.body["method"].as_str().unwrap_or_default() {
        "server/discover" => {
            let refusal = json!({"jsonrpc": "2.0", "id": null,
                "error": {"code": -32000, "message": "Bad Request: no session"}});
            respond(to, "400 Bad Request", "content-type: application/json", &refusal.to_string());
        }
        "initialize" => respond_json(
            to,
            "\r\nmcp-session-id: abc",
            &json!({"jsonrpc": "2.0", "id": id, "result": {"protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}}, "serverInfo": {"name": "http", "version": "1"}}}),
        ),
        "tools/list" => respond_json(
            to,
            "",
            &json!({"jsonrpc": "2.0", "id": id, "result": {"tools": [
                {"name": "events", "inputSchema": {"type": "object"}},
                {"name": "huge", "inputSchema": {"type": "object"}},
                {"name": "cut", "inputSchema": {"type": "object"}},
                {"name": "broken", "inputSchema": {"type": "object"}}]}}),
        ),
        "tools/call" => call(request, to),
        _ if request.head.starts_with("GET") => respond(to, "405 Method Not Allowed", "a: b", ""),
        _ => respond(to, "202 Accepted", "a: b", ""),
    }
}

fn call(request: &Request, to: &mut TcpStream) {
    let id = &request.body["id"];
    let events = "content-type: text/event-stream";
    match request.body["params"]["name"].as_str().unwrap() {
        "events" => {
            let token = &request.body["params"]["_meta"]["progressToken"];
            let progress = json!({"jsonrpc": "2.0", "method": "notifications/progress",
                "params": {"progressToken": token, "progress": 1}});
            let result = json!({"jsonrpc": "2.0", "id": id,
                "result": {"content": [{"type": "text", "text": "by events"}]}});
            let body = format!(
                ": hi\n\nid: 1\ndata:\n\ndata: {progress}\n\nevent: message\ndata: {result}\n\n"
            );
            respond(to, "200 OK", events, &body);
        }
        "huge" => {
            let head =
                "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: application/json\r\n\r\n";
            to.write_all(head.as_bytes()).unwrap();
            let chunk = vec![b' '; 1 << 20];
            for _ in 0..100 {
                if to.write_all(&chunk).is_err() {
                    return;
                }
            }
        }
        "cut" => respond(to, "200 OK", events, "data: {\"jsonrpc\":\"2.0\",\n\n"),
        _ => respond(to, "500 Internal Server Error", "a: b", "out of luck"),
    }
}

#[tokio::test]
async fn session_is_kept_and_ended() {
    let (url, heads) = serve(with_session);
    let headers = json!({"Authorization": "Bearer x", "Mcp-Session-Id": "mine", "Accept": "no"});
    let bench = Bench::start(json!({"s": {"url": url, "headers": headers}})).await;
    assert_eq!(bench.text("mcp__s__events", json!({})).await, "by events");
    bench.pool.stop().await;
    let mut heads = heads.lock().unwrap().clone();
    // The stream of announcements is opened beside the rest.
    heads.retain(|head| !head.starts_with("GET"));
    expect![[r#"
        POST server/discover authorization=Bearer x mcp-method=server/discover mcp-protocol-version=2026-07-28
        POST initialize authorization=Bearer x
        POST notifications/initialized authorization=Bearer x mcp-protocol-version=2025-06-18 mcp-session-id=abc
        POST tools/list authorization=Bearer x mcp-protocol-version=2025-06-18 mcp-session-id=abc
        POST tools/call authorization=Bearer x mcp-protocol-version=2025-06-18 mcp-session-id=abc
        DELETE  authorization=Bearer x mcp-protocol-version=2025-06-18 mcp-session-id=abc"#]]
    .assert_eq(&heads.join("\n"));
}

#[tokio::test]
async fn answers_that_cannot_be_used_fail_their_call_only() {
    let (url, _) = serve(with_session);
    let bench = Bench::start(json!({"s": {"url": url}})).await;
    let mut table = String::new();
    for tool in ["huge", "cut", "broken", "events"] {
        table += &format!("{}\n", bench.text(&format!("mcp__s__{tool}"), json!({})).await);
    }
    expect![[r#"
        ! the result is longer than 16 MiB and was discarded: ask for less at once
        ! the server has ended its answer without a result
        ! the server answers 500 Internal Server Error: out of luck
        by events
    "#]]
    .assert_eq(&table);
}

/// The error of a server that answers everything like this, and whether it is tried again.
async fn error_of(status: &'static str, headers: &'static str, body: &'static str) -> String {
    let (url, _) = serve(move |_, to| respond(to, status, headers, body));
    let bench = Bench::start(json!({"s": {"url": url}})).await;
    let status = bench.status();
    let again = if matches!(status.step, Step::Restarting { .. }) { "again" } else { "not again" };
    format!("{} ({again})\n", status.error().unwrap())
}

#[tokio::test]
async fn address_that_is_no_server_says_what_to_do() {
    let mut table = error_of("401 Unauthorized", "www-authenticate: Bearer", "").await;
    table += &error_of("200 OK", "content-type: text/html", "<html>").await;
    table += &error_of("404 Not Found", "a: b", "no such page").await;
    table += &error_of("503 Service Unavailable", "a: b", "").await;
    table += &error_of("302 Found", "location: http://127.0.0.1:9/", "").await;
    table += &error_of("200 OK", "content-type: application/json", "[1, 2]").await;
    let refused = Bench::start(json!({"s": {"url": "http://127.0.0.1:9/mcp"}})).await;
    table += refused.status().error().unwrap();
    expect![[r#"
        the server requires authorization (401): add an `Authorization` header to `headers` of this server, such as "Bearer ${TOKEN}". OAuth is not supported (not again)
        the server answers with content of type "text/html" in place of JSON: check that the address is that of an MCP server (again)
        the server answers 404 Not Found: no such page (again)
        the server answers 503 Service Unavailable (again)
        the server answers 302 Found (again)
        the server answers with JSON that is no answer of an MCP server: check its address (again)
        cannot reach http://127.0.0.1:9/mcp: connection refused"#]].assert_eq(&table);
}
