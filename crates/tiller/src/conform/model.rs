//! The loopback model: an HTTP server on 127.0.0.1 that answers each request with the next reply of
//! a script, and records the requests.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tiller_agent::mutex;

use super::reply::{Reply, Step};

/// How often a stalled stream checks whether its client is still there.
const POLL: Duration = Duration::from_millis(50);
/// A longer request is not from a check of this suite.
const REQUEST_MAX_BYTES: usize = 64 << 20;

/// A model that a server under test sends requests to. Its threads end when it is dropped.
pub(super) struct Model {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<Script>,
    changed: Condvar,
}

#[derive(Default)]
struct Script {
    replies: VecDeque<Reply>,
    requests: Vec<Value>,
    /// Streams that the client closed while they stalled.
    disconnects: usize,
    closed: bool,
}

impl Model {
    pub(super) fn start(replies: Vec<Reply>) -> Result<Model, String> {
        let cannot = |err| format!("cannot listen on 127.0.0.1: {err}");
        let listener = TcpListener::bind("127.0.0.1:0").map_err(cannot)?;
        let address = listener.local_addr().map_err(cannot)?;
        let shared = Arc::new(Shared::default());
        shared.state().replies = replies.into();
        let accepting = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if accepting.state().closed {
                    break;
                }
                let shared = Arc::clone(&accepting);
                // A connection that fails has ended, which the server under test notices.
                thread::spawn(move || shared.serve(&stream).ok());
            }
        });
        Ok(Model { address, shared })
    }

    /// The `baseUrl` in models.json.
    pub(super) fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Adds a reply at the end of the script.
    pub(super) fn push(&self, reply: Reply) {
        self.shared.state().replies.push_back(reply);
    }

    /// The bodies of all requests so far.
    pub(super) fn requests(&self) -> Vec<Value> {
        self.shared.state().requests.clone()
    }

    /// Waits until there were this many requests.
    pub(super) fn wait_for_requests(&self, count: usize, until: Instant) -> bool {
        self.shared.wait(until, |script| script.requests.len() >= count)
    }

    /// Waits until the client has closed a stalled stream.
    pub(super) fn wait_for_disconnect(&self, until: Instant) -> bool {
        self.shared.wait(until, |script| script.disconnects > 0)
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        self.shared.state().closed = true;
        // Wakes the accepting thread. If it cannot be reached, it has ended.
        TcpStream::connect(self.address).ok();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, Script> {
        mutex::lock(&self.state)
    }

    fn wait(&self, until: Instant, is_met: impl Fn(&Script) -> bool) -> bool {
        let mut state = self.state();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if is_met(&state) || left.is_zero() {
                return is_met(&state);
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(std::sync::PoisonError::into_inner).0;
        }
    }

    /// Answers the one request of a connection.
    fn serve(&self, stream: &TcpStream) -> std::io::Result<()> {
        let Some(body) = read_request(stream)? else {
            return respond_not_found(stream);
        };
        let reply = {
            let mut state = self.state();
            state.requests.push(body);
            // 400 is not retried, so a request too many ends the run.
            state.replies.pop_front().unwrap_or(Reply::Refusal(400))
        };
        self.changed.notify_all();
        for step in reply.steps() {
            match step {
                Step::Send(bytes) => (&*stream).write_all(&bytes)?,
                Step::Cut => return stream.shutdown(Shutdown::Both),
                Step::Stall => self.stall(stream)?,
            }
        }
        Ok(())
    }

    /// Waits until the client closes the connection, or the model is dropped.
    fn stall(&self, mut stream: &TcpStream) -> std::io::Result<()> {
        stream.set_read_timeout(Some(POLL))?;
        let mut byte = [0];
        while !self.state().closed {
            match stream.read(&mut byte) {
                Err(err) if is_timeout(&err) => {}
                Ok(1..) => {}
                Ok(0) | Err(_) => {
                    self.state().disconnects += 1;
                    self.changed.notify_all();
                    break;
                }
            }
        }
        Ok(())
    }
}

fn is_timeout(err: &std::io::Error) -> bool {
    use std::io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(err.kind(), Interrupted | TimedOut | WouldBlock)
}

/// The JSON body of a POST request; none for any other request.
fn read_request(stream: &TcpStream) -> std::io::Result<Option<Value>> {
    let mut reader = BufReader::new(stream).take(REQUEST_MAX_BYTES as u64);
    let mut first = String::new();
    reader.read_line(&mut first)?;
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? <= 2 {
            break;
        }
        if let Some(number) = line.to_lowercase().strip_prefix("content-length:") {
            length = number.trim().parse().unwrap_or(0);
        }
    }
    if !first.starts_with("POST ") || length > REQUEST_MAX_BYTES {
        return Ok(None);
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok(serde_json::from_slice(&body).ok())
}

fn respond_not_found(mut stream: &TcpStream) -> std::io::Result<()> {
    stream.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
}
