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

use super::{OpError, OpEvents, OpFuture, OpInput, OpOutput, OpReply, unknown};
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

pub(super) fn sync(state: &Rc<EngineState>, name: &str, input: OpInput) -> OpReply {
    match name {
        "write" => {
            let id: u64 = input.read()?;
            if let Some(socket) = lock(&state.resources.borrow().sockets).get(&id) {
                let bytes = input.bytes();
                let hold = state.memory.hold(bytes.len())?;
                // A closed connection is reported by its end.
                socket.send((bytes, hold)).ok();
            }
            Ok(OpOutput::Nothing)
        }
        "end" => {
            lock(&state.resources.borrow().sockets).remove(&input.read()?);
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
    state: &Rc<EngineState>,
    name: &str,
    input: &OpInput,
    sink: OpEvents,
) -> Result<OpFuture, OpError> {
    let address: SocketAddress = input.read()?;
    let socket = if address.path.is_some() { Socket::File } else { Socket::Network };
    state.allow(Access::Socket(socket))?;
    match name {
        "connect" => {
            let sockets = state.resources.borrow().sockets.clone();
            Ok(Box::pin(connect(address, sockets, sink)))
        }
        "listen" => {
            let sockets = state.resources.borrow().sockets.clone();
            Ok(Box::pin(listen(address, sockets, sink)))
        }
        _ => Err(unknown(name)),
    }
}

async fn connect(address: SocketAddress, sockets: Sockets, sink: OpEvents) -> OpReply {
    let (id, from) = number(&sockets);
    if let Some(path) = &address.path {
        let stream = UnixStream::connect(path).await.map_err(|err| refused(&err, &address))?;
        sink.emit(OpOutput::json(&json!({ "id": id })));
        return copy_both_ways(
            stream,
            from,
            |bytes| sink.emit(OpOutput::Bytes(bytes)),
            || sink.is_full(),
            &address,
        )
        .await;
    }
    let host = address.host.as_deref().unwrap_or("localhost");
    let stream =
        TcpStream::connect((host, address.port)).await.map_err(|err| refused(&err, &address))?;
    let local = stream.local_addr().ok();
    let remote = stream.peer_addr().ok();
    sink.emit(OpOutput::json(&json!({
        "id": id,
        "localAddress": local.map(|at| at.ip().to_string()), "localPort": local.map(|at| at.port()),
        "remoteAddress": remote.map(|at| at.ip().to_string()),
        "remotePort": remote.map(|at| at.port()),
    })));
    copy_both_ways(
        stream,
        from,
        |bytes| sink.emit(OpOutput::Bytes(bytes)),
        || sink.is_full(),
        &address,
    )
    .await
}

/// How long reading pauses when the extension is too far behind.
const FULL_PAUSE: std::time::Duration = std::time::Duration::from_millis(10);

/// Copies bytes both ways until the peer closes and everything is written.
async fn copy_both_ways(
    stream: impl AsyncRead + AsyncWrite,
    mut from: OutReceiver,
    emit: impl Fn(Vec<u8>),
    is_full: impl Fn() -> bool,
    address: &SocketAddress,
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
                Ok(_) => emit(bytes),
                Err(err) => return Err(refused(&err, address)),
            }
        }
    };
    let (_, ended) = tokio::join!(writing, reading);
    ended
}

async fn listen(address: SocketAddress, sockets: Sockets, sink: OpEvents) -> OpReply {
    let refused = |err: std::io::Error| refused(&err, &address);
    // Dropped with the listener, which closes its connections.
    let (open, _) = watch::channel(());
    if let Some(path) = &address.path {
        let listener = UnixListener::bind(path).map_err(refused)?;
        sink.emit(OpOutput::json(&json!({ "path": path })));
        loop {
            let (stream, _) = listener.accept().await.map_err(refused)?;
            serve(stream, json!({}), &sockets, &sink, open.subscribe());
        }
    }
    let host = address.host.as_deref().unwrap_or("127.0.0.1");
    let listener = TcpListener::bind((host, address.port)).await.map_err(refused)?;
    let at = listener.local_addr().map_err(refused)?;
    sink.emit(OpOutput::json(&json!({ "port": at.port(), "address": at.ip().to_string() })));
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
    sink.emit(OpOutput::json(&about));
    let sink = sink.clone();
    tokio::spawn(async move {
        let events = sink.clone();
        let emit = move |bytes: Vec<u8>| {
            // Announced by a JSON event, because bytes are sent alone.
            events.emit(OpOutput::json(&json!({ "from": id })));
            events.emit(OpOutput::Bytes(bytes));
        };
        let address = SocketAddress { host: None, port: 0, path: None };
        tokio::select! {
            _ = listener.changed() => (),
            _ = copy_both_ways(stream, from, emit, || sink.is_full(), &address) => (),
        }
        sink.emit(OpOutput::json(&json!({ "ended": id })));
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
fn refused(err: &std::io::Error, address: &SocketAddress) -> OpError {
    let number = err.raw_os_error();
    let code = match number {
        Some(number) => format!("{:?}", nix::errno::Errno::from_raw(number)),
        None => "ENOTFOUND".to_owned(),
    };
    let host = address.host.as_deref().unwrap_or("localhost");
    let target = address.path.clone().unwrap_or_else(|| format!("{host}:{}", address.port));
    let mut err = OpError::coded(&code, format!("connect {code} {target}"));
    err.fields.push(("syscall", "connect".into()));
    err.fields.push(("errno", number.map_or(-3008, |number| -number).into()));
    err.fields.push(("address", host.into()));
    err.fields.push(("port", address.port.into()));
    err
}
