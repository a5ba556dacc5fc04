//! `tiller connect`: a session of a running server on stdin and stdout, for programs that speak the
//! RPC mode.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::thread;

use clap::Parser;
use futures_util::{SinkExt, StreamExt};
use serde::Deserialize;
use serde_json::json;
use tiller_agent::model::ThinkingLevel;
use tiller_protocol::OpenSession;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

use super::address::Address;
use super::token;
use crate::args::WireLevel;
use crate::launch::ProcessEnv;
use crate::usage::StartError;

/// Connect stdin and stdout to a session of a running server
///
/// To the program that starts it, this is `tiller --mode rpc`: the same commands, the same records,
/// one session. The session runs in the server, and ends when stdin does.
#[derive(Debug, Parser)]
#[command(
    name = "tiller connect",
    disable_version_flag = true,
    args_override_self = true,
    after_help = include_str!("../../texts/connect-examples.md")
)]
pub struct ConnectCommand {
    /// The address of the server [default: unix: in the agent folder]
    address: Option<String>,
    /// The file of the token, for ws addresses [default: serve-token in the agent folder]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Record format: pi, pi-delta or xcsh [default: pi]
    #[arg(long, value_enum, value_name = "LEVEL", hide_possible_values = true)]
    wire: Option<WireLevel>,
    /// The working directory of the session [default: this one]
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// Open this session: a file, an id, or the beginning of an id
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
    /// The provider of the model
    #[arg(long, value_name = "NAME", requires = "model")]
    provider: Option<String>,
    /// The model, as PROVIDER/ID or, with --provider, as ID
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// Thinking level: off, minimal, low, medium, high, xhigh
    #[arg(long, value_name = "LEVEL")]
    thinking: Option<String>,
    /// Name of the session
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Tools the model may use: names or patterns
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    tools: Option<Vec<String>>,
    /// Open the session read-only, even while another process writes to it
    #[arg(long, requires = "session")]
    read_only: bool,
    /// Store nothing on disk
    #[arg(long)]
    no_session: bool,
    /// Accepted, since programs that start the RPC mode pass it
    #[arg(long, hide = true)]
    mode: Option<String>,
}

impl ConnectCommand {
    /// Copies lines until one side ends. Returns the exit code.
    pub fn run(self, env: ProcessEnv) -> Result<u8, StartError> {
        let agent_dir = env.agent_dir();
        let text = self.address.as_deref().unwrap_or("unix:");
        let address = Address::read(text, &agent_dir).map_err(StartError::Usage)?;
        let token_file = self.token_file.clone().unwrap_or_else(|| agent_dir.join("serve-token"));
        let level = self.wire.map(WireLevel::level).unwrap_or_default();
        let open = self.request(&env.cwd)?;
        let mut first = String::new();
        let hello = json!({ "id": HELLO, "type": "hello", "wire": level });
        let mut open = serde_json::to_value(&open).expect("our own types serialize to JSON");
        open["id"] = json!(OPEN);
        open["type"] = json!("open_session");
        for line in [hello, open] {
            first.push_str(&line.to_string());
            first.push('\n');
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|err| format!("cannot start the runtime: {err}"))?;
        let result = runtime.block_on(connect(&address, &token_file, first));
        runtime.shutdown_background();
        Ok(result?)
    }

    fn request(&self, cwd: &Path) -> Result<OpenSession, StartError> {
        let cwd = self.cwd.as_ref().map_or_else(|| cwd.to_owned(), |folder| cwd.join(folder));
        let (provider, model_id) = match (&self.provider, &self.model) {
            (Some(provider), Some(model)) => (Some(provider.clone()), Some(model.clone())),
            (None, Some(model)) => match model.split_once('/') {
                Some((provider, id)) => (Some(provider.to_owned()), Some(id.to_owned())),
                None => {
                    let why = format!("--model {model}: expected PROVIDER/ID");
                    return Err(StartError::Usage(why));
                }
            },
            (_, None) => (None, None),
        };
        let is_path = |text: &&String| text.contains('/') || text.ends_with(".jsonl");
        let session_path = self.session.as_ref().filter(is_path).map(|path| cwd.join(path));
        let session_id = self.session.clone().filter(|_| session_path.is_none());
        let thinking_level = match self.thinking.as_deref() {
            Some(name) => Some(ThinkingLevel::read(name).ok_or_else(|| {
                StartError::Usage(format!("--thinking {name}: no such thinking level"))
            })?),
            None => None,
        };
        Ok(OpenSession {
            session_path,
            session_id,
            cwd: Some(cwd),
            provider,
            model_id,
            thinking_level,
            name: self.name.clone(),
            tools: self.tools.clone(),
            in_memory: self.no_session,
            read_only: self.read_only,
            dedicated: true,
        })
    }
}

const HELLO: &str = "tiller-connect-hello";
const OPEN: &str = "tiller-connect-open";

/// The part of a response that tells whether the session is open.
#[derive(Deserialize)]
struct Opened {
    id: Option<String>,
    success: bool,
    error: Option<String>,
}

/// Whether the server's line answers `open_session`, and how.
fn opened(line: &str) -> Result<bool, String> {
    let response = serde_json::from_str::<Opened>(line);
    match response {
        Ok(Opened { id: Some(id), success, error }) if id == OPEN || !success => match error {
            Some(error) => Err(format!("the server refuses: {error}")),
            None => Ok(true),
        },
        Ok(_) => Ok(false),
        Err(_) => Err("the server does not speak the protocol of tiller serve".to_owned()),
    }
}

async fn connect(address: &Address, token_file: &Path, first: String) -> Result<u8, String> {
    let cannot = |err: &dyn std::fmt::Display| format!("cannot connect to {address}: {err}");
    match address {
        Address::Unix(path) => {
            let stream = UnixStream::connect(path)
                .await
                .map_err(|err| format!("{}; is `tiller serve` running?", cannot(&err)))?;
            over_lines(stream, first).await
        }
        Address::WebSocket(socket) => {
            let token = token::read(token_file)?;
            let stream = TcpStream::connect(socket)
                .await
                .map_err(|err| format!("{}; is `tiller serve` running?", cannot(&err)))?;
            let mut request =
                format!("ws://{socket}/").into_client_request().map_err(|err| cannot(&err))?;
            let bearer = HeaderValue::from_str(&format!("Bearer {token}"));
            let bearer = bearer.map_err(|err| cannot(&err))?;
            request.headers_mut().insert("authorization", bearer);
            let config = WebSocketConfig::default().max_message_size(None).max_frame_size(None);
            let (socket, _) =
                tokio_tungstenite::client_async_with_config(request, stream, Some(config))
                    .await
                    .map_err(|err| cannot(&err))?;
            over_messages(socket, first).await
        }
    }
}

async fn over_lines(stream: UnixStream, first: String) -> Result<u8, String> {
    let (read, mut write) = stream.into_split();
    let mut read = BufReader::new(read);
    write.write_all(first.as_bytes()).await.map_err(lost)?;
    loop {
        let mut line = String::new();
        if read.read_line(&mut line).await.map_err(lost)? == 0 {
            return Err(CLOSED.to_owned());
        }
        if opened(&line)? {
            break;
        }
    }
    let mut stdin = spawn_reader();
    let to_server = async {
        while let Some(bytes) = stdin.recv().await {
            write.write_all(&bytes).await.map_err(lost)?;
        }
        write.shutdown().await.map_err(lost)
    };
    let from_server = async {
        let mut buffer = vec![0; 64 << 10];
        loop {
            let count = read.read(&mut buffer).await.map_err(lost)?;
            if count == 0 {
                return Ok(0);
            }
            if !print(&buffer[..count]) {
                return Ok(1);
            }
        }
    };
    relay(to_server, from_server).await
}

async fn over_messages(
    socket: tokio_tungstenite::WebSocketStream<TcpStream>,
    first: String,
) -> Result<u8, String> {
    let (mut write, mut read) = socket.split();
    for line in first.lines() {
        write.send(Message::text(line)).await.map_err(lost)?;
    }
    loop {
        match read.next().await {
            Some(Ok(Message::Text(line))) if opened(&line)? => break,
            Some(Ok(_)) => {}
            Some(Err(err)) => return Err(lost(err)),
            None => return Err(CLOSED.to_owned()),
        }
    }
    let mut stdin = spawn_reader();
    let to_server = async {
        let mut lines = tiller_server::lines::Lines::new(usize::MAX);
        while let Some(bytes) = stdin.recv().await {
            let mut complete = Vec::new();
            lines.push(&bytes, |line| complete.push(line));
            for line in complete {
                write.send(message(line)).await.map_err(lost)?;
            }
        }
        if let Some(line) = lines.finish() {
            write.send(message(line)).await.map_err(lost)?;
        }
        // A WebSocket cannot be closed in one direction.
        write.send(Message::text(r#"{"type":"close_session"}"#)).await.map_err(lost)
    };
    let from_server = async {
        loop {
            match read.next().await {
                Some(Ok(Message::Text(line))) => {
                    if !print(line.as_bytes()) || !print(b"\n") {
                        return Ok(1);
                    }
                }
                Some(Ok(Message::Close(_))) | None => return Ok(0),
                Some(Ok(_)) => {}
                Some(Err(err)) => return Err(lost(err)),
            }
        }
    };
    relay(to_server, from_server).await
}

fn message(line: tiller_server::lines::Line) -> Message {
    match line {
        tiller_server::lines::Line::Text(text) => {
            Message::text(String::from_utf8_lossy(&text).into_owned())
        }
        // Without a limit no line is too long.
        tiller_server::lines::Line::TooLong => Message::text(""),
    }
}

/// Runs both directions until the server has ended its side. The end of stdin does not end it.
async fn relay(
    to_server: impl Future<Output = Result<(), String>>,
    from_server: impl Future<Output = Result<u8, String>>,
) -> Result<u8, String> {
    tokio::pin!(to_server, from_server);
    tokio::select! {
        code = &mut from_server => code,
        // If nothing more can be sent, the server's last records tell why.
        _ = &mut to_server => from_server.await,
    }
}

/// Reads stdin on a thread, since a read of a terminal or a pipe cannot be interrupted.
fn spawn_reader() -> mpsc::Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel(8);
    thread::spawn(move || {
        let mut stdin = io::stdin().lock();
        let mut buffer = vec![0; 64 << 10];
        while let Ok(count) = stdin.read(&mut buffer) {
            if count == 0 || sender.blocking_send(buffer[..count].to_vec()).is_err() {
                break;
            }
        }
    });
    receiver
}

/// Writes to the program that has started this one. False: it reads no more.
fn print(bytes: &[u8]) -> bool {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes).and_then(|()| stdout.flush()).is_ok()
}

fn lost(err: impl std::fmt::Display) -> String {
    format!("the connection to the server is lost: {err}")
}

const CLOSED: &str = "the server has closed the connection";
