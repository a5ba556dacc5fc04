//! The ways to a session: directly, as the only one of its process, or through a server with many
//! sessions. The conversation is the same; only `sessionId` is added to each line and taken away
//! again here.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use futures_util::{SinkExt, StreamExt};
use serde_json::Value;
use tiller::serve::{serve_lines, serve_web_socket};
use tiller_protocol::{Level, OpenSession};
use tiller_server::connection::{Channels, ClientInput};
use tiller_server::lines::{LINE_MAX_BYTES, Line, Lines};
use tiller_server::out::{Drain, OutputQueue, pipe};
use tiller_server::server::{INPUTS_MAX, serve};
use tiller_server::session_store::SessionStore;
use tiller_server::{
    ClientInputs, OpenError, Router, RouterConfig, RouterEnd, ServerConfig, SessionOpener,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

/// How the client reaches its session.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Door {
    /// The session is the only one of its process.
    Direct,
    /// `--multi-session`: lines with `sessionId`.
    Router,
    /// The same on a Unix socket.
    UnixSocket,
    /// The same on a WebSocket.
    WebSocket,
}

/// The client's ends of a session.
pub struct Entrance {
    pub lines: mpsc::Sender<ClientInput>,
    pub control: mpsc::Sender<ClientInput>,
    pub output: Output,
    pub task: JoinHandle<u8>,
}

/// What the client reads.
pub enum Output {
    Drain(Drain),
    /// Lines of a server with many sessions, as a server with one would have written them.
    Lines(mpsc::UnboundedReceiver<Vec<u8>>),
}

pub fn enter(door: Door, config: ServerConfig) -> Entrance {
    let (lines, lines_receiver) = mpsc::channel(INPUTS_MAX);
    let (control, control_receiver) = mpsc::channel(INPUTS_MAX);
    if door == Door::Direct {
        let (pipe, drain, caught_up) = pipe();
        let channels =
            Channels { lines: lines_receiver, control: control_receiver, pipe, caught_up };
        let task = tokio::spawn(serve(config, channels));
        return Entrance { lines, control, output: Output::Drain(drain), task };
    }
    let (written, output) = mpsc::unbounded_channel();
    let task = tokio::spawn(pass(door, config, lines_receiver, written));
    Entrance { lines, control, output: Output::Lines(output), task }
}

/// Opens the session that a transcript has prepared.
struct OneSession {
    config: Mutex<Option<ServerConfig>>,
    store: SessionStore,
}

impl SessionOpener for OneSession {
    fn open(&self, _: &OpenSession) -> Result<ServerConfig, OpenError> {
        let config = self.config.lock().unwrap().take();
        config.ok_or_else(|| OpenError { error: "opened twice".to_owned(), in_use: None })
    }

    fn location(&self, _: &OpenSession) -> Option<PathBuf> {
        None
    }

    fn store(&self) -> Result<SessionStore, String> {
        Ok(self.store.clone())
    }
}

/// Passes lines between the client and the session behind a router, until either ends.
async fn pass(
    door: Door,
    config: ServerConfig,
    mut lines: mpsc::Receiver<ClientInput>,
    written: mpsc::UnboundedSender<Vec<u8>>,
) -> u8 {
    let level: Level = config.level;
    let store = config.store.clone();
    let config = Mutex::new(Some(config));
    let limits = RouterConfig { level, idle_limit: None, max_sessions: 1, max_extensions: 100 };
    let router = Router::new(limits, Arc::new(OneSession { config, store }));
    let (client, mut records) = connect(door, &router).await;
    client.send(r#"{"type":"open_session"}"#.to_owned()).await;
    let opened: Value = serde_json::from_str(&records.next().await.unwrap()).unwrap();
    let handle = opened["data"]["sessionId"].as_str().unwrap().to_owned();
    let field = format!(",\"sessionId\":\"{handle}\"");
    loop {
        tokio::select! {
            biased;
            Some(input) = lines.recv() => match input {
                ClientInput::Lines(lines) => {
                    let text: String = lines.iter().map(|line| addressed(line, &field)).collect();
                    client.send(text).await;
                }
                ClientInput::EndOfInput => {
                    if let Sender::Inputs(inputs) = &client {
                        inputs.send(ClientInput::EndOfInput).await;
                    }
                    break;
                }
                _ => {}
            },
            record = records.next() => {
                let Some(record) = record else { return 0 };
                if is_closed(&record) {
                    return 0;
                }
                pass_on(&record, &field, &written);
            }
        }
    }
    let ending = tokio::spawn(async move {
        if door != Door::Router {
            router.end(RouterEnd::EndOfInput).await;
        }
    });
    while let Some(record) = records.next().await {
        if is_closed(&record) {
            break;
        }
        pass_on(&record, &field, &written);
    }
    ending.await.unwrap();
    0
}

fn is_closed(record: &str) -> bool {
    record.starts_with(r#"{"type":"session_closed""#)
}

/// Passes a record on as a process with one session would write it.
fn pass_on(record: &str, field: &str, written: &mpsc::UnboundedSender<Vec<u8>>) {
    if record.starts_with(r#"{"type":"extension_ui_closed""#) {
        return;
    }
    // The test may have ended.
    written.send(format!("{}\n", record.replace(field, "")).into()).ok();
}

/// A line for the session. A line that is no object goes as it is.
fn addressed(line: &Line, field: &str) -> String {
    let Line::Text(bytes) = line else { return String::new() };
    let text = String::from_utf8_lossy(bytes);
    match text.trim_end().strip_suffix('}').filter(|text| text.trim_start().starts_with('{')) {
        Some(open) if open.trim_start().len() > 1 => format!("{open}{field}}}\n"),
        _ => format!("{text}\n"),
    }
}

/// The client's end of a connection with a router.
enum Sender {
    Inputs(ClientInputs),
    Socket(tokio::sync::Mutex<tokio::net::unix::OwnedWriteHalf>),
    Messages(mpsc::UnboundedSender<String>),
}

impl Sender {
    async fn send(&self, text: String) {
        match self {
            Sender::Inputs(inputs) => {
                let mut lines = Vec::new();
                Lines::new(LINE_MAX_BYTES)
                    .push(format!("{text}\n").as_bytes(), |line| lines.push(line));
                inputs.send(ClientInput::Lines(lines)).await;
            }
            Sender::Socket(socket) => {
                let text = if text.ends_with('\n') { text } else { text + "\n" };
                socket.lock().await.write_all(text.as_bytes()).await.unwrap();
            }
            Sender::Messages(messages) => messages.send(text).unwrap(),
        }
    }
}

enum Records {
    Queue(Arc<OutputQueue>, std::collections::VecDeque<String>),
    Lines(mpsc::UnboundedReceiver<String>),
}

impl Records {
    async fn next(&mut self) -> Option<String> {
        match self {
            Records::Queue(queue, ready) => loop {
                if let Some(line) = ready.pop_front() {
                    return Some(line);
                }
                let chunk = queue.next().await?;
                let text = String::from_utf8(chunk.bytes().to_vec()).unwrap();
                ready.extend(text.lines().map(str::to_owned));
                chunk.written();
            },
            Records::Lines(lines) => lines.recv().await,
        }
    }
}

async fn connect(door: Door, router: &Router) -> (Sender, Records) {
    match door {
        Door::Direct | Door::Router => {
            let (inputs, queue) = router.connect_only_client();
            (Sender::Inputs(inputs), Records::Queue(queue, Default::default()))
        }
        Door::UnixSocket => {
            let (ours, theirs) = UnixStream::pair().unwrap();
            let (inputs, output) = router.connect();
            let (read, write) = theirs.into_split();
            tokio::spawn(serve_lines(read, write, inputs, output));
            let (mut read, write) = ours.into_split();
            let (sender, receiver) = mpsc::unbounded_channel();
            tokio::spawn(async move {
                let mut framing = Lines::new(usize::MAX);
                let mut buffer = vec![0; 64 << 10];
                while let Ok(count @ 1..) = read.read(&mut buffer).await {
                    framing.push(&buffer[..count], |line| {
                        if let Line::Text(text) = line {
                            sender.send(String::from_utf8(text).unwrap()).ok();
                        }
                    });
                }
            });
            (Sender::Socket(write.into()), Records::Lines(receiver))
        }
        Door::WebSocket => {
            let (ours, theirs) = UnixStream::pair().unwrap();
            let router = router.clone();
            tokio::spawn(async move { serve_web_socket(theirs, &router).await });
            let config = WebSocketConfig::default().max_message_size(None).max_frame_size(None);
            let socket = WebSocketStream::from_raw_socket(ours, Role::Client, Some(config)).await;
            let (mut write, mut read) = socket.split();
            let (messages, mut outgoing) = mpsc::unbounded_channel::<String>();
            tokio::spawn(async move {
                while let Some(text) = outgoing.recv().await {
                    for line in text.lines() {
                        write.feed(Message::text(line)).await.unwrap();
                    }
                    if write.flush().await.is_err() {
                        break;
                    }
                }
            });
            let (sender, receiver) = mpsc::unbounded_channel();
            tokio::spawn(async move {
                while let Some(Ok(message)) = read.next().await {
                    if let Message::Text(text) = message {
                        sender.send(text.to_string()).ok();
                    }
                }
            });
            (Sender::Messages(messages), Records::Lines(receiver))
        }
    }
}
