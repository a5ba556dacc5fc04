//! Sockets: connections that an extension opens or accepts.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use serde::Deserialize;
use serde_json::json;
use tiller_agent::mutex;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::{mpsc, watch};

use super::{Later, OpError, OpEvents, OpInput, OpOutput, OpReply, unknown};
use crate::access::{Access, Socket};
use crate::engine_state::EngineState;
use crate::memory::MemoryHold;

/// The sending sides of connections, by number. Dropping one closes it.
pub(crate) type Sockets = Arc<Mutex<HashMap<u64, Out>>>;
/// Bytes not yet written count against the engine's memory.
type Out = mpsc::UnboundedSender<(Vec<u8>, MemoryHold)>;
type OutReceiver = mpsc::UnboundedReceiver<(Vec<u8>, MemoryHold)>;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SocketAddress {
    #[serde(default)]
    host: Option<String>,
    #[serde(default)]
    port: u16,
    /// The path of a Unix socket.
    #[serde(default)]
    path: Option<String>,
}

pub(super) fn sync(core: &Rc<EngineState>, name: &str, input: OpInput) -> OpReply {
    match name {
        "write" => {
            let id: u64 = input.read()?;
            if let Some(socket) = lock(&core.resources.borrow().sockets).get(&id) {
                let bytes = input.bytes();
                let hold = core.memory.hold(bytes.len())?;
                // A closed connection is reported by its end.
                socket.send((bytes, hold)).ok();
            }
            Ok(OpOutput::Nothing)
        }
        "end" => {
            lock(&core.resources.borrow().sockets).remove(&input.read()?);
            Ok(OpOutput::Nothing)
        }
        _ => Err(unknown(name)),
    }
}

fn lock(sockets: &Sockets) -> MutexGuard<'_, HashMap<u64, Out>> {
    mutex::lock(sockets)
}

/// `net.connect`: sends `{id, …}` when connected, then bytes, and ends when the peer closes.
/// `net.listen`: sends `{port}`, then `{id, …}` for each connection and the bytes of all of them,
/// each announced by a JSON event.
pub(super) fn start(
    core: &Rc<EngineState>,
    name: &str,
    input: &OpInput,
    sink: OpEvents,
) -> Result<Later, OpError> {
    let place: SocketAddress = input.read()?;
    let socket = if place.path.is_some() { Socket::File } else { Socket::Network };
    core.allow(Access::Socket(socket))?;
    match name {
        "connect" => {
            let sockets = core.resources.borrow().sockets.clone();
            Ok(Box::pin(connect(place, sockets, sink)))
        }
        "listen" => {
            let sockets = core.resources.borrow().sockets.clone();
            Ok(Box::pin(listen(place, sockets, sink)))
        }
        _ => Err(unknown(name)),
    }
}

async fn connect(place: SocketAddress, sockets: Sockets, sink: OpEvents) -> OpReply {
    let (id, from) = number(&sockets);
    if let Some(path) = &place.path {
        let stream = UnixStream::connect(path).await.map_err(|err| refused(&err, &place))?;
        sink.tell(OpOutput::json(&json!({ "id": id })));
        return carry(
            stream,
            from,
            |bytes| sink.tell(OpOutput::Bytes(bytes)),
            || sink.is_full(),
            &place,
        )
        .await;
    }
    let host = place.host.as_deref().unwrap_or("localhost");
    let stream =
        TcpStream::connect((host, place.port)).await.map_err(|err| refused(&err, &place))?;
    let local = stream.local_addr().ok();
    let remote = stream.peer_addr().ok();
    sink.tell(OpOutput::json(&json!({
        "id": id,
        "localAddress": local.map(|at| at.ip().to_string()), "localPort": local.map(|at| at.port()),
        "remoteAddress": remote.map(|at| at.ip().to_string()),
        "remotePort": remote.map(|at| at.port()),
    })));
    carry(stream, from, |bytes| sink.tell(OpOutput::Bytes(bytes)), || sink.is_full(), &place).await
}

/// How long reading pauses when the extension is too far behind.
const FULL_PAUSE: std::time::Duration = std::time::Duration::from_millis(10);

/// Copies bytes both ways until the peer closes and everything is written.
async fn carry(
    stream: impl AsyncRead + AsyncWrite,
    mut from: OutReceiver,
    tell: impl Fn(Vec<u8>),
    is_full: impl Fn() -> bool,
    place: &SocketAddress,
) -> OpReply {
    let (mut read, mut write) = tokio::io::split(stream);
    let writing = async {
        while let Some((bytes, _hold)) = from.recv().await {
            if write.write_all(&bytes).await.is_err() {
                break;
            }
        }
        // The peer may already be gone.
        write.shutdown().await.ok();
    };
    let reading = async {
        loop {
            // Applies backpressure while the extension is behind.
            while is_full() {
                tokio::time::sleep(FULL_PAUSE).await;
            }
            let mut bytes = Vec::with_capacity(16 << 10);
            match read.read_buf(&mut bytes).await {
                Ok(0) => return Ok(OpOutput::Nothing),
                Ok(_) => tell(bytes),
                Err(err) => return Err(refused(&err, place)),
            }
        }
    };
    let (_, ended) = tokio::join!(writing, reading);
    ended
}

async fn listen(place: SocketAddress, sockets: Sockets, sink: OpEvents) -> OpReply {
    let refused = |err: std::io::Error| refused(&err, &place);
    // Dropped with the listener, which closes its connections.
    let (open, _) = watch::channel(());
    if let Some(path) = &place.path {
        let listener = UnixListener::bind(path).map_err(refused)?;
        sink.tell(OpOutput::json(&json!({ "path": path })));
        loop {
            let (stream, _) = listener.accept().await.map_err(refused)?;
            serve(stream, json!({}), &sockets, &sink, open.subscribe());
        }
    }
    let host = place.host.as_deref().unwrap_or("127.0.0.1");
    let listener = TcpListener::bind((host, place.port)).await.map_err(refused)?;
    let at = listener.local_addr().map_err(refused)?;
    sink.tell(OpOutput::json(&json!({ "port": at.port(), "address": at.ip().to_string() })));
    loop {
        let (stream, peer) = listener.accept().await.map_err(refused)?;
        let from = json!({ "remoteAddress": peer.ip().to_string(), "remotePort": peer.port() });
        serve(stream, from, &sockets, &sink, open.subscribe());
    }
}

fn serve(
    stream: impl AsyncRead + AsyncWrite + Send + 'static,
    mut about: serde_json::Value,
    sockets: &Sockets,
    sink: &OpEvents,
    mut listener: watch::Receiver<()>,
) {
    let (id, from) = number(sockets);
    about["id"] = id.into();
    sink.tell(OpOutput::json(&about));
    let sink = sink.clone();
    tokio::spawn(async move {
        let told = sink.clone();
        let tell = move |bytes: Vec<u8>| {
            // Announced by a JSON event, because bytes are sent alone.
            told.tell(OpOutput::json(&json!({ "from": id })));
            told.tell(OpOutput::Bytes(bytes));
        };
        let place = SocketAddress { host: None, port: 0, path: None };
        tokio::select! {
            _ = listener.changed() => (),
            _ = carry(stream, from, tell, || sink.is_full(), &place) => (),
        }
        sink.tell(OpOutput::json(&json!({ "ended": id })));
    });
}

/// Numbers of connections.
static NUMBERS: AtomicU64 = AtomicU64::new(1);

fn number(sockets: &Sockets) -> (u64, OutReceiver) {
    let id = NUMBERS.fetch_add(1, Ordering::Relaxed);
    let (to, from) = mpsc::unbounded_channel();
    lock(sockets).insert(id, to);
    (id, from)
}

/// `connect ECONNREFUSED 127.0.0.1:1`, as in node.
fn refused(err: &std::io::Error, place: &SocketAddress) -> OpError {
    let number = err.raw_os_error();
    let code = match number {
        Some(number) => format!("{:?}", nix::errno::Errno::from_raw(number)),
        None => "ENOTFOUND".to_owned(),
    };
    let host = place.host.as_deref().unwrap_or("localhost");
    let target = place.path.clone().unwrap_or_else(|| format!("{host}:{}", place.port));
    let mut failed = OpError::coded(&code, format!("connect {code} {target}"));
    failed.fields.push(("syscall", "connect".into()));
    failed.fields.push(("errno", number.map_or(-3008, |number| -number).into()));
    failed.fields.push(("address", host.into()));
    failed.fields.push(("port", place.port.into()));
    failed
}
