//! A client on a WebSocket: one record per text message, in both directions.

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use tiller_server::connection::ClientInput;
use tiller_server::lines::{LINE_MAX_BYTES, Line};
use tiller_server::out::OutputQueue;
use tiller_server::{ClientInputs, Router};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio::time::{Instant, interval_at};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Bytes, Error, Message, Utf8Bytes};

/// A client that is silent for so long is asked whether it is there, and dropped if it is silent
/// for as long again.
const PING_INTERVAL: Duration = Duration::from_secs(30);

/// How long a client that closes may take to read the reply.
const CLOSE_LIMIT: Duration = Duration::from_secs(2);

/// Serves a client until it or its sessions are gone. The handshake has been made.
pub async fn serve_web_socket(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    router: &Router,
) {
    let config = WebSocketConfig::default()
        .max_message_size(Some(LINE_MAX_BYTES))
        .max_frame_size(Some(LINE_MAX_BYTES));
    let socket = WebSocketStream::from_raw_socket(stream, Role::Server, Some(config)).await;
    let (write, read) = socket.split();
    let (inputs, output) = router.connect();
    let (control, control_messages) = mpsc::channel(4);
    let reader = tokio::spawn(read_messages(read, inputs, control, output.clone()));
    // The client may be gone; its task ends with its inputs.
    write_records(write, &output, control_messages).await.ok();
    output.close();
    reader.abort();
}

/// What the reading side asks the writing side to send.
enum Control {
    Ping,
    Close(CloseCode, &'static str),
}

async fn read_messages<S: AsyncRead + AsyncWrite + Unpin>(
    mut read: SplitStream<WebSocketStream<S>>,
    inputs: ClientInputs,
    control: mpsc::Sender<Control>,
    output: Arc<OutputQueue>,
) {
    let mut pings = interval_at(Instant::now() + PING_INTERVAL, PING_INTERVAL);
    let mut is_asked = false;
    loop {
        let message = tokio::select! {
            message = read.next() => message,
            _ = pings.tick() => {
                if is_asked {
                    break;
                }
                is_asked = true;
                // The writing side may be busy with a client that is slow, or gone.
                control.try_send(Control::Ping).ok();
                continue;
            }
        };
        is_asked = false;
        pings.reset();
        match message {
            Some(Ok(Message::Text(text))) => {
                let line = Line::Text(Bytes::from(text).into());
                if !inputs.send(ClientInput::Lines(vec![line])).await {
                    break;
                }
            }
            Some(Ok(Message::Binary(_))) => {
                let reason = "records are text messages";
                control.send(Control::Close(CloseCode::Unsupported, reason)).await.ok();
                break;
            }
            Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {}
            Some(Err(Error::Capacity(_))) => {
                let reason = "the message is too long";
                control.send(Control::Close(CloseCode::Size, reason)).await.ok();
                break;
            }
            Some(Ok(Message::Close(_))) => {
                // The next read writes the reply. A client that does not read it is given up.
                tokio::time::timeout(CLOSE_LIMIT, read.next()).await.ok();
                break;
            }
            Some(Err(_)) | None => break,
        }
    }
    inputs.send(ClientInput::EndOfInput).await;
    drop(inputs);
    // What the client's task still writes has no reader.
    drop(control);
    drop(output);
}

async fn write_records<S: AsyncRead + AsyncWrite + Unpin>(
    mut write: SplitSink<WebSocketStream<S>, Message>,
    output: &OutputQueue,
    mut control: mpsc::Receiver<Control>,
) -> Result<(), Error> {
    loop {
        tokio::select! {
            biased;
            Some(control) = control.recv() => match control {
                Control::Ping => write.send(Message::Ping(Bytes::new())).await?,
                Control::Close(code, reason) => {
                    let frame = CloseFrame { code, reason: Utf8Bytes::from_static(reason) };
                    return write.send(Message::Close(Some(frame))).await;
                }
            },
            chunk = output.next() => {
                let Some(chunk) = chunk else {
                    return write.send(Message::Close(None)).await;
                };
                for line in chunk.bytes().split(|&byte| byte == b'\n') {
                    if !line.is_empty() {
                        let text = String::from_utf8_lossy(line).into_owned();
                        write.feed(Message::text(text)).await?;
                    }
                }
                write.flush().await?;
                chunk.written();
            }
        }
    }
}
