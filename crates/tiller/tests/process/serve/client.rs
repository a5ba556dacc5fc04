//! A client of a server with many sessions, on a Unix socket or a WebSocket. It takes records in
//! the order that a test asks for, since those of several sessions mix.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;

use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::client::{IntoClientRequest, client};
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Message, WebSocket};

use super::server::PATIENCE;
use crate::client::{LAST_RECORDS, RECORD_MAX_CHARS, Tail, push};

pub struct ServeClient {
    socket: Socket,
    /// Set until the first line is read.
    unread: Option<Socket>,
    lines: Option<Receiver<String>>,
    /// Records that were read and not taken.
    backlog: VecDeque<Value>,
    last: VecDeque<String>,
    last_id: u32,
    stderr: Tail,
}

enum Socket {
    Unix(UnixStream),
    WebSocket(Box<WebSocket<TcpStream>>),
}

/// A session that was opened.
pub struct Opened {
    pub handle: String,
    pub state: Value,
}

impl ServeClient {
    pub fn unix(path: &Path, stderr: Tail) -> ServeClient {
        let stream = UnixStream::connect(path).unwrap();
        let unread = Socket::Unix(stream.try_clone().unwrap());
        ServeClient::new(Socket::Unix(stream), unread, stderr)
    }

    pub fn web_socket(address: &str, token: &str, stderr: Tail) -> ServeClient {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        let mut request = format!("ws://{address}/").into_client_request().unwrap();
        let bearer = HeaderValue::from_str(&format!("Bearer {token}")).unwrap();
        request.headers_mut().insert("authorization", bearer);
        let reading = stream.try_clone().unwrap();
        let config = WebSocketConfig::default().max_message_size(None).max_frame_size(None);
        let (socket, _) = client(request, stream).expect("the handshake succeeds");
        // Nothing follows the handshake before the client has sent something.
        let unread = WebSocket::from_raw_socket(reading, Role::Client, Some(config));
        let unread = Socket::WebSocket(Box::new(unread));
        ServeClient::new(Socket::WebSocket(Box::new(socket)), unread, stderr)
    }

    fn new(socket: Socket, unread: Socket, stderr: Tail) -> ServeClient {
        ServeClient {
            socket,
            unread: Some(unread),
            lines: None,
            backlog: VecDeque::new(),
            last: VecDeque::new(),
            last_id: 0,
            stderr,
        }
    }

    pub fn say(&mut self, record: &Value) {
        self.write_line(&record.to_string());
    }

    /// Several records in one write.
    pub fn say_together(&mut self, records: &[Value]) {
        let lines: Vec<String> = records.iter().map(Value::to_string).collect();
        match &self.socket {
            Socket::Unix(_) => self.write_line(&lines.join("\n")),
            Socket::WebSocket(_) => lines.iter().for_each(|line| self.write_line(line)),
        }
    }

    pub fn write_line(&mut self, line: &str) {
        match &mut self.socket {
            Socket::Unix(stream) => stream.write_all(format!("{line}\n").as_bytes()).unwrap(),
            Socket::WebSocket(socket) => socket.send(Message::text(line)).unwrap(),
        }
    }

    /// Sends a command with an id of its own, and returns the id.
    pub fn send(&mut self, mut command: Value) -> String {
        self.last_id += 1;
        let id = format!("c{}", self.last_id);
        command["id"] = json!(id);
        self.say(&command);
        id
    }

    /// Sends a command, and takes its response.
    #[track_caller]
    pub fn request(&mut self, command: Value) -> Value {
        let shown = command.to_string();
        let id = self.send(command);
        self.take_awaited(&format!("the response to {shown}"), |record| is_response(record, &id))
    }

    /// Sends a command that succeeds, and returns the data of its response.
    #[track_caller]
    pub fn ask(&mut self, command: Value) -> Value {
        let mut response = self.request(command);
        assert_eq!(response["success"], true, "{response}");
        response["data"].take()
    }

    /// Sends a command that is refused with this code, and returns its response.
    #[track_caller]
    pub fn refused(&mut self, command: Value, code: &str) -> Value {
        let response = self.request(command);
        assert_eq!((&response["success"], &response["code"]), (&json!(false), &json!(code)));
        assert!(response["error"].is_string(), "{response}");
        response
    }

    #[track_caller]
    pub fn response(&mut self, id: &str) -> Value {
        self.take_awaited(&format!("the response {id}"), |record| is_response(record, id))
    }

    /// Opens a session: these fields and `type`.
    #[track_caller]
    pub fn open(&mut self, mut fields: Value) -> Opened {
        fields["type"] = json!("open_session");
        let mut data = self.ask(fields);
        let handle = data["sessionId"].as_str().expect("the handle").to_owned();
        Opened { handle, state: data["state"].take() }
    }

    /// Opens a session in memory, and returns its handle.
    #[track_caller]
    pub fn open_in_memory(&mut self) -> String {
        self.open(json!({"inMemory": true})).handle
    }

    #[track_caller]
    pub fn prompt(&mut self, handle: &str, message: &str) {
        self.ask(json!({"type": "prompt", "message": message, "sessionId": handle}));
    }

    /// Takes the first record that matches, from those that were read or from the next ones.
    #[track_caller]
    pub fn take(&mut self, matches: impl Fn(&Value) -> bool) -> Value {
        let caller = std::panic::Location::caller();
        self.take_awaited(&format!("the condition at {caller}"), matches)
    }

    /// The next record of this type from this session.
    #[track_caller]
    pub fn take_type(&mut self, handle: &str, kind: &str) -> Value {
        let awaited = format!("{kind} of {handle}");
        self.take_awaited(&awaited, |record| {
            record["type"] == kind && record["sessionId"] == handle
        })
    }

    #[track_caller]
    fn take_awaited(&mut self, awaited: &str, matches: impl Fn(&Value) -> bool) -> Value {
        let mut place = 0;
        loop {
            while place < self.backlog.len() {
                if matches(&self.backlog[place]) {
                    return self.backlog.remove(place).unwrap();
                }
                place += 1;
            }
            match self.read_line(awaited) {
                Some(line) => self.backlog.push_back(serde_json::from_str(&line).unwrap()),
                None => self.fail("the server has closed the connection", awaited),
            }
        }
    }

    /// Takes all records up to the first one that matches.
    #[track_caller]
    pub fn until(&mut self, matches: impl Fn(&Value) -> bool) -> Vec<Value> {
        let caller = std::panic::Location::caller();
        let awaited = format!("the condition at {caller}");
        let mut records = Vec::new();
        loop {
            let record = match self.backlog.pop_front() {
                Some(record) => record,
                None => match self.read_line(&awaited) {
                    Some(line) => serde_json::from_str(&line).unwrap(),
                    None => self.fail("the server has closed the connection", &awaited),
                },
            };
            records.push(record);
            if matches(&records[records.len() - 1]) {
                return records;
            }
        }
    }

    /// Takes all records up to the end of the session's run.
    #[track_caller]
    pub fn until_settled(&mut self, handle: &str) -> Vec<Value> {
        self.until(|record| record["type"] == "agent_settled" && record["sessionId"] == handle)
    }

    /// Everything that has arrived when the server has answered one more command.
    #[track_caller]
    pub fn arrived(&mut self) -> Vec<Value> {
        self.ask(json!({"type": "get_capabilities"}));
        self.backlog.drain(..).collect()
    }

    /// The same for records of a session, which may be behind those of the server.
    #[track_caller]
    pub fn arrived_of(&mut self, handle: &str) -> Vec<Value> {
        self.ask(json!({"type": "get_state", "sessionId": handle}));
        self.backlog.drain(..).collect()
    }

    /// Reads until the server closes the connection.
    pub fn rest(&mut self) -> Vec<Value> {
        let mut records: Vec<Value> = self.backlog.drain(..).collect();
        while let Some(line) = self.read_line("the end of the connection") {
            records.push(serde_json::from_str(&line).unwrap());
        }
        records
    }

    fn read_line(&mut self, awaited: &str) -> Option<String> {
        self.start_reading();
        match self.lines.as_ref().unwrap().recv_timeout(PATIENCE) {
            Ok(line) => {
                push(&mut self.last, line.chars().take(RECORD_MAX_CHARS).collect(), LAST_RECORDS);
                Some(line)
            }
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => self.fail("the server says nothing more", awaited),
        }
    }

    /// Reads from a thread, so that the server is never held back from here on.
    pub fn start_reading(&mut self) {
        let Some(unread) = self.unread.take() else { return };
        let (sender, lines) = channel();
        self.lines = Some(lines);
        thread::spawn(move || match unread {
            // The receiver is dropped when the test ends.
            Socket::Unix(stream) => {
                let lines = BufReader::new(stream).lines().map_while(Result::ok);
                lines.map(|line| sender.send(line)).take_while(Result::is_ok).for_each(drop);
            }
            Socket::WebSocket(mut socket) => {
                while let Ok(message) = socket.read() {
                    match message {
                        // The receiver is dropped when the test ends.
                        Message::Text(line) => drop(sender.send(line.to_string())),
                        Message::Close(_) => return,
                        _ => {}
                    }
                }
            }
        });
    }

    /// Cuts the connection in both directions at once.
    pub fn cut(self) {
        // The server may have closed it already.
        match &self.socket {
            Socket::Unix(stream) => stream.shutdown(Shutdown::Both).ok(),
            Socket::WebSocket(socket) => socket.get_ref().shutdown(Shutdown::Both).ok(),
        };
    }

    #[track_caller]
    fn fail(&self, what: &str, awaited: &str) -> ! {
        let last: String = self.last.iter().map(|line| format!("  {line}\n")).collect();
        let stderr = self.stderr.text();
        panic!("{what}; awaited: {awaited}\nlast records:\n{last}stderr:\n{stderr}");
    }
}

impl Drop for ServeClient {
    fn drop(&mut self) {
        match &self.socket {
            Socket::Unix(stream) => stream.shutdown(Shutdown::Both).ok(),
            Socket::WebSocket(socket) => socket.get_ref().shutdown(Shutdown::Both).ok(),
        };
    }
}

fn is_response(record: &Value, id: &str) -> bool {
    record["type"] == "response" && record["id"] == id
}

/// The types of these records of a session, without message and tool updates.
pub fn types_of<'a>(records: &'a [Value], handle: &str) -> Vec<&'a str> {
    let own = records.iter().filter(|record| record["sessionId"] == handle);
    let types = own.map(|record| record["type"].as_str().unwrap());
    types.filter(|kind| !matches!(*kind, "message_update" | "tool_execution_update")).collect()
}

/// The text of a message.
pub fn text_of(message: &Value) -> String {
    match &message["content"] {
        Value::String(text) => text.clone(),
        content => {
            let blocks = content.as_array().into_iter().flatten();
            blocks.filter_map(|block| block["text"].as_str()).collect()
        }
    }
}
