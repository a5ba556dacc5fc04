//! Clients that break the rules of a WebSocket, or disappear. The server goes on.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

use serde_json::json;

use super::server::{PATIENCE, ServeProcess, wait_until};

/// A WebSocket as bytes, behind its handshake.
fn raw_socket(server: &ServeProcess) -> TcpStream {
    let mut stream = TcpStream::connect(server.tcp_address()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let head = format!(
        "GET / HTTP/1.1\r\nHost: {}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{}\r\n\r\n",
        server.tcp_address(),
        server.bearer()
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut response = Vec::new();
    while !response.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        response.extend(byte);
    }
    let response = String::from_utf8(response).unwrap();
    assert!(response.starts_with("HTTP/1.1 101"), "{response}");
    assert!(response.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "{response}");
    stream
}

/// What the server sends until it closes the connection.
fn rest(mut stream: TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    // A connection that is reset has ended, too.
    stream.read_to_end(&mut bytes).ok();
    bytes
}

/// A frame of a client; its mask is zero.
fn frame(opcode: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0x80 | opcode];
    match payload.len() {
        length @ 0..=125 => frame.push(0x80 | length as u8),
        length @ 126..=0xffff => {
            frame.push(0x80 | 126);
            frame.extend((length as u16).to_be_bytes());
        }
        length => {
            frame.push(0x80 | 127);
            frame.extend((length as u64).to_be_bytes());
        }
    }
    frame.extend([0; 4]);
    frame.extend(payload);
    frame
}

const CLOSE: u8 = 0x88;

#[test]
fn frames_that_break_the_rules_end_their_connection_only() {
    let server = ServeProcess::web_socket_script("say Hello.", &[]);
    let mut witness = server.connect_web_socket();
    let handle = witness.open_in_memory();
    let too_long = [&[0x81, 0x80 | 127][..], &((64u64 << 20) + 1).to_be_bytes(), &[0; 4]].concat();
    for (what, bytes) in [
        ("a frame without a mask", vec![0x81, 2, b'{', b'}']),
        ("reserved bits", vec![0xf1, 0x80, 0, 0, 0, 0]),
        ("an unknown opcode", frame(0x3, b"{}")),
        ("text that is not UTF-8", frame(0x1, &[0xff, 0xfe])),
        ("a continuation of nothing", frame(0x0, b"{}")),
        ("a long ping", frame(0x9, &[0; 200])),
        ("a length of 2^63", [&[0x81, 0xff][..], &[0xff; 8], &[0; 4]].concat()),
        ("a message longer than 64 MiB", too_long),
        ("noise", (0..=255).cycle().skip(77).take(5000).collect()),
    ] {
        let mut stream = raw_socket(&server);
        stream.write_all(&bytes).unwrap();
        rest(stream);
        let state = witness.request(json!({"type": "get_state", "sessionId": handle}));
        assert_eq!(state["success"], true, "after {what}");
    }
    wait_until("only the witness is connected", || {
        server.get("/metrics", &server.bearer()).1.contains("\ntiller_clients 1\n")
    });
}

#[test]
fn binary_messages_are_refused_with_a_reason() {
    let server = ServeProcess::web_socket_script("say Hello.", &[]);
    let mut stream = raw_socket(&server);
    stream.write_all(&frame(0x2, b"{}")).unwrap();
    let bytes = rest(stream);
    assert_eq!(bytes[0], CLOSE);
    assert_eq!(u16::from_be_bytes([bytes[2], bytes[3]]), 1003);
    assert!(String::from_utf8_lossy(&bytes).contains("records are text messages"));
}

/// Several fragments make one record; a ping between them is answered.
#[test]
fn fragments_make_one_record() {
    let server = ServeProcess::web_socket_script("say Hello.", &[]);
    let mut stream = raw_socket(&server);
    let mut first = frame(0x1, b"{\"id\":1,\"type\":");
    first[0] = 0x01;
    stream.write_all(&first).unwrap();
    stream.write_all(&frame(0x9, b"there?")).unwrap();
    stream.write_all(&frame(0x0, b"\"list_open_sessions\"}")).unwrap();
    let mut text = String::new();
    while !text.contains("\"sessions\":[]") {
        let mut bytes = [0; 1000];
        let count = stream.read(&mut bytes).unwrap();
        assert!(count > 0, "{text}");
        text.push_str(&String::from_utf8_lossy(&bytes[..count]));
    }
    assert!(text.contains("there?"), "{text}");
    stream.write_all(&frame(0x8, &1000u16.to_be_bytes())).unwrap();
    assert_eq!(rest(stream)[0], CLOSE);
}

/// A line of a Unix socket that is too long is refused, and the next one is answered.
#[test]
fn line_that_is_too_long_is_refused() {
    let server = ServeProcess::script("say Hello.", &[]);
    let mut client = server.connect();
    client.write_line(&"x".repeat((64 << 20) + 1));
    let refused = client.take(|record| record["type"] == "response");
    assert!(refused["error"].as_str().unwrap().contains("64 MiB"), "{refused}");
    client.ask(json!({"type": "list_open_sessions"}));
}

#[test]
fn clients_that_disappear_leave_their_sessions_running() {
    let wait = json!({"command": "until [ -e go ]; do sleep 0.02; done"});
    let script = format!("call bash {wait}\n\nsay Done.");
    let server = ServeProcess::web_socket_script(&script, &["--listen", "unix:s.sock"]);
    let mut handles = Vec::new();
    for round in 0..4 {
        let mut client = match round % 2 {
            0 => server.connect_web_socket(),
            _ => super::client::ServeClient::unix(&server.path("s.sock"), Default::default()),
        };
        let handle = client.open_in_memory();
        client.prompt(&handle, "Wait");
        client.take_type(&handle, "tool_execution_start");
        client.cut();
        handles.push(handle);
    }
    // One in the middle of a frame, one in the middle of a line.
    let mut stream = raw_socket(&server);
    stream.write_all(&frame(0x1, &[b' '; 1000])[..500]).unwrap();
    stream.shutdown(Shutdown::Both).unwrap();
    std::fs::write(server.path("go"), "").unwrap();
    let mut client = server.connect_web_socket();
    for handle in &handles {
        client.ask(json!({"type": "attach", "sessionId": handle}));
        wait_until("the run has ended", || {
            let data = server.connect_web_socket().ask(json!({"type": "list_open_sessions"}));
            let sessions = data["sessions"].as_array().unwrap();
            sessions.iter().any(|one| {
                one["sessionId"] == handle.as_str()
                    && one["messageCount"] == 4
                    && one["status"] == "idle"
            })
        });
    }
}

/// Commands that are refused or answered by the server itself wait for a client that does not read.
#[test]
fn client_that_asks_and_does_not_read_fills_no_memory() {
    let server = ServeProcess::script("say Hello.", &[]);
    let memory = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() >> 10
    };
    let before = memory();
    let mut stream = std::os::unix::net::UnixStream::connect(server.socket()).unwrap();
    stream.set_write_timeout(Some(std::time::Duration::from_secs(1))).unwrap();
    let lines = "{\"type\":\"get_capabilities\"}\n".repeat(2000);
    // The responses are many times longer than the commands.
    let written = (0..100).take_while(|_| stream.write_all(lines.as_bytes()).is_ok()).count();
    let after = memory();
    println!("{written} writes of {} KiB; {before} MiB, then {after} MiB", lines.len() >> 10);
    assert!(written < 100, "the client is never held back");
    assert!(after < before + 256, "{before} MiB, then {after} MiB");
    server.connect().open_in_memory();
}
