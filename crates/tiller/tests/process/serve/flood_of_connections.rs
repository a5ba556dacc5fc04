//! Connections that show no token, in masses: other clients are served meanwhile.

use std::io::Write;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use serde_json::json;

use super::client::ServeClient;
use super::server::ServeProcess;

/// No answer may take longer, on any machine.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);

/// How many connections the process may open beside what other tests need.
fn connections_max() -> usize {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).unwrap();
    (hard as usize).saturating_sub(2000).clamp(100, 10_000)
}

/// Asks until this is so, but at least 50 times, and prints how long the answers took.
pub fn assert_answers(
    what: &str,
    client: &mut ServeClient,
    handle: &str,
    is_done: impl Fn() -> bool,
) {
    let mut times: Vec<Duration> = Vec::new();
    while times.len() < 50 || !is_done() {
        let begun = Instant::now();
        client.ask(json!({"type": "get_state", "sessionId": handle}));
        times.push(begun.elapsed());
        assert!(times[times.len() - 1] < ANSWER_LIMIT, "{what}: {times:?}");
    }
    times.sort();
    let (median, longest) = (times[times.len() / 2], times[times.len() - 1]);
    let line = format!("{what}: get_state takes {median:?} (median), {longest:?} (longest)\n");
    // Written directly, because libtest captures the output of a passing test.
    std::io::stderr().write_all(line.as_bytes()).ok();
}

#[test]
fn half_open_connections_delay_no_client() {
    let server = ServeProcess::web_socket_script("say Hello.", &[]);
    let address = server.tcp_address();
    let mut client = server.connect_web_socket();
    let handle = client.open_in_memory();
    let count = connections_max();
    let mut silent = Vec::new();
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while silent.len() < count {
                silent.extend(TcpStream::connect(&address).ok());
            }
            is_done.store(true, Ordering::Release);
        });
        let all_connected = || is_done.load(Ordering::Acquire);
        assert_answers("while connections open", &mut client, &handle, all_connected);
    });
    assert_answers(&format!("with {count} silent connections"), &mut client, &handle, || true);
    // A new client still gets its turn.
    let mut late = server.connect_web_socket();
    late.ask(json!({"type": "attach", "sessionId": handle}));
    let open = std::fs::read_dir(format!("/proc/{}/fd", server.id())).unwrap().count();
    assert!(open < 600, "the server holds {open} files");
}

#[test]
fn connections_that_send_a_byte_now_and_then_delay_no_client() {
    let server = ServeProcess::web_socket_script("say Hello.", &[]);
    let address = server.tcp_address();
    let mut client = server.connect_web_socket();
    let handle = client.open_in_memory();
    let head = format!("GET / HTTP/1.1\r\nHost: {address}\r\nX-Slow: ");
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let connect = |_| TcpStream::connect(&address).unwrap();
            let mut slow: Vec<TcpStream> = (0..200).map(connect).collect();
            for byte in head.bytes().chain(std::iter::repeat(b'x')) {
                if is_done.load(Ordering::Acquire) {
                    return;
                }
                for stream in &mut slow {
                    // The server may have closed it.
                    stream.write_all(&[byte]).ok();
                }
                thread::sleep(Duration::from_millis(5));
            }
        });
        for _ in 0..5 {
            assert_answers("with 200 slow connections", &mut client, &handle, || true);
            server.connect_web_socket().ask(json!({"type": "list_open_sessions"}));
        }
        is_done.store(true, Ordering::Release);
    });
}
