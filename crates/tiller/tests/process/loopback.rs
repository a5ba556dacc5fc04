//! A model server on this machine: it answers each request with the test's replies, and records the
//! requests.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(60);

pub struct Loopback {
    pub url: String,
    asked: Receiver<Asked>,
    gone: Receiver<()>,
}

/// One request.
pub struct Asked {
    /// The first line and the headers, in lower case.
    pub head: String,
    pub body: Value,
}

/// A reply to a request.
pub enum Reply {
    /// A stream of server-sent events.
    Events(String),
    /// The same, and then nothing, until the client disconnects.
    Hanging(String),
    /// An error with this status and body.
    Refusal(u16, String),
}

impl Loopback {
    pub fn start(replies: Vec<Reply>) -> Loopback {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (tell, asked) = channel();
        let (part, gone) = channel();
        // It lives as long as the test.
        thread::spawn(move || {
            let callers = listener.incoming().map_while(Result::ok);
            for (caller, reply) in callers.zip(replies) {
                serve(caller, reply, &tell, &part);
            }
        });
        Loopback { url, asked, gone }
    }

    pub fn asked(&self) -> Asked {
        self.asked.recv_timeout(PATIENCE).expect("nobody asks the server")
    }

    /// Waits until a hanging client has closed its connection.
    pub fn caller_left(&self) {
        self.gone.recv_timeout(PATIENCE).expect("the connection stays open");
    }
}

fn serve(mut caller: TcpStream, reply: Reply, tell: &Sender<Asked>, part: &Sender<()>) {
    let mut reader = BufReader::new(caller.try_clone().unwrap());
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap() <= 2 {
            break;
        }
        let line = line.to_lowercase();
        if let Some(number) = line.strip_prefix("content-length:") {
            length = number.trim().parse().unwrap();
        }
        head += &line;
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let body = serde_json::from_slice(&body).unwrap_or_default();
    // The test may be over.
    tell.send(Asked { head, body }).ok();
    let begin = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nx-served-by: loopback\r\n\
                 connection: close\r\n\r\n";
    // The client may have disconnected.
    match reply {
        Reply::Events(events) => write!(caller, "{begin}{events}").unwrap_or(()),
        Reply::Hanging(events) => {
            write!(caller, "{begin}{events}").unwrap_or(());
            // Nothing more is sent, so this ends with the connection.
            reader.read_to_end(&mut Vec::new()).ok();
            part.send(()).ok();
        }
        Reply::Refusal(status, body) => {
            let length = body.len();
            write!(caller, "HTTP/1.1 {status} No\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}")
                .unwrap_or(());
        }
    }
}

/// An answer of one text, in the format of the Chat Completions API.
pub fn says(words: &[&str]) -> String {
    let mut events = String::new();
    for word in words {
        let choice = json!({"choices": [{"index": 0, "delta": {"content": word}}]});
        events += &format!("data: {choice}\n\n");
    }
    let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 3}});
    events + &format!("data: {end}\n\ndata: [DONE]\n\n")
}
