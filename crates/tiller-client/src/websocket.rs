//! A WebSocket as a stream of lines: each text message is one line.

use futures_util::{SinkExt, StreamExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex, split};
use tokio::net::TcpStream;
use tokio_tungstenite::client_async_with_config;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::error::Error as SocketError;
use tokio_tungstenite::tungstenite::http::{HeaderValue, StatusCode};
use tokio_tungstenite::tungstenite::protocol::{Message, WebSocketConfig};

/// How many bytes wait in each direction.
const PIPE_BYTES: usize = 64 << 10;
/// No record of tiller has this size.
const MESSAGE_MAX_BYTES: usize = 1 << 30;

/// Connects to `ws://HOST:PORT`. A task copies messages until one side ends.
pub(crate) async fn connect(address: &str, token: Option<&str>) -> Result<DuplexStream, String> {
    let mut request = address.into_client_request().map_err(|err| err.to_string())?;
    let uri = request.uri();
    let host = uri.host().ok_or("the address has no host")?.trim_matches(['[', ']']).to_owned();
    let port = uri.port_u16().ok_or("the address has no port, as in ws://127.0.0.1:7433")?;
    if let Some(token) = token {
        let value = HeaderValue::from_str(&format!("Bearer {token}"));
        let mut value = value.map_err(|_| "the token contains a line break or similar")?;
        value.set_sensitive(true);
        request.headers_mut().insert("authorization", value);
    }
    let tcp = TcpStream::connect((host, port)).await.map_err(|err| err.to_string())?;
    let config = WebSocketConfig::default()
        .max_message_size(Some(MESSAGE_MAX_BYTES))
        .max_frame_size(Some(MESSAGE_MAX_BYTES));
    let connected = client_async_with_config(request, tcp, Some(config)).await;
    let (socket, _) = connected.map_err(|error| words(&error))?;
    let (near, far) = duplex(PIPE_BYTES);
    let (mut outgoing, mut incoming) = socket.split();
    let (mut commands, mut records) = split(far);
    tokio::spawn(async move {
        let receive = async {
            while let Some(Ok(message)) = incoming.next().await {
                let written = match message {
                    Message::Text(text) => write_line(&mut records, text.as_bytes()).await,
                    Message::Binary(bytes) => write_line(&mut records, &bytes).await,
                    Message::Close(_) => break,
                    _ => continue,
                };
                // The client may have been dropped.
                if written.is_err() {
                    break;
                }
            }
            records.shutdown().await.ok();
        };
        let send = async {
            let mut bytes = Vec::new();
            let mut chunk = [0; 4096];
            while let Ok(length @ 1..) = commands.read(&mut chunk).await {
                bytes.extend_from_slice(&chunk[..length]);
                let Some(end) = bytes.iter().rposition(|byte| *byte == b'\n') else { continue };
                let rest = bytes.split_off(end + 1);
                for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                    let text = String::from_utf8_lossy(line).into_owned();
                    if outgoing.send(Message::text(text)).await.is_err() {
                        return;
                    }
                }
                bytes = rest;
            }
            // The other side may have closed the connection before.
            outgoing.send(Message::Close(None)).await.ok();
        };
        tokio::join!(receive, send);
    });
    Ok(near)
}

async fn write_line(
    records: &mut tokio::io::WriteHalf<DuplexStream>,
    line: &[u8],
) -> std::io::Result<()> {
    records.write_all(line).await?;
    records.write_all(b"\n").await
}

/// Why there is no connection. The server explains a missing token by its status alone.
fn words(error: &SocketError) -> String {
    match error {
        SocketError::Http(response) if response.status() == StatusCode::UNAUTHORIZED => {
            "the token is missing or wrong (401). It is in the file serve-token in the agent \
             folder of the server"
                .to_owned()
        }
        SocketError::Http(response) => format!("the server answered {}", response.status()),
        error => error.to_string(),
    }
}
