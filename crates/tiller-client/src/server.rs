//! A connection to `tiller serve`, which holds many sessions. A client uses one of them: after
//! [`Server::open_session`] the connection carries this session alone.

use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tiller_protocol::data::SessionsData;
use tiller_protocol::{
    Attach, AttachMode, Command, ListSessions, OpenSession, Response, ServerCommand,
};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

use crate::builder::SessionLines;
use crate::framing::{LineReader, Writer};
use crate::{Builder, Client, ClientError};

/// How long the server may take to accept a connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// The `id` of the requests before the session is open. One is sent at a time.
const REQUEST_ID: &str = "server";

/// A connection to a server of many sessions.
pub struct Server {
    lines: LineReader,
    writer: Writer,
}

/// A request with its `id`.
#[derive(Serialize)]
struct ServerRequest<'a, C> {
    id: &'a str,
    #[serde(flatten)]
    command: C,
}

/// The fields of a line that tell a response from other records.
#[derive(Deserialize)]
struct LineKind {
    #[serde(rename = "type")]
    kind: String,
    id: Option<Value>,
}

impl Server {
    /// Connects to `unix:PATH`, or with the feature `websocket` to `ws://HOST:PORT`.
    pub async fn connect(address: &str) -> Result<Server, ClientError> {
        Server::connect_with(address, None).await
    }

    /// The same with a token, which a `ws://` address needs.
    pub async fn connect_with_token(address: &str, token: &str) -> Result<Server, ClientError> {
        Server::connect_with(address, Some(token)).await
    }

    /// Uses a connection that is open already: any streams that carry the lines of a server.
    pub fn over(
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Server {
        Server { lines: LineReader::new(Box::new(reader)), writer: Box::new(writer) }
    }

    async fn connect_with(address: &str, token: Option<&str>) -> Result<Server, ClientError> {
        let connecting = async {
            if let Some(path) = address.strip_prefix("unix:") {
                return connect_unix(path).await;
            }
            if address.starts_with("ws://") {
                return connect_websocket(address, token).await;
            }
            Err("expected unix:PATH or ws://HOST:PORT".to_owned())
        };
        let connected = timeout(CONNECT_LIMIT, connecting).await;
        let connected = connected
            .unwrap_or_else(|_| Err(format!("it did not answer within {CONNECT_LIMIT:?}")));
        connected.map_err(|reason| ClientError::ServerUnreachable {
            address: address.to_owned(),
            reason,
        })
    }

    /// The stored sessions, newest first. Without a folder, those of all folders.
    pub async fn list_sessions(
        &mut self,
        selection: ListSessions,
    ) -> Result<SessionsData, ClientError> {
        self.request("list_sessions", Command::ListSessions(selection)).await
    }

    /// Opens a session, and gives the connection to it. The session ends with the client.
    ///
    /// The builder decides about the level, tools and dialogs of the client; what it says about a
    /// process has no effect.
    pub async fn open_session(
        mut self,
        open: OpenSession,
        builder: Builder,
    ) -> Result<Client, ClientError> {
        let command = ServerCommand::OpenSession(OpenSession { dedicated: true, ..open });
        self.request::<Value>("open_session", command).await?;
        builder.open_on_server(SessionLines::dedicated(self.lines, self.writer)).await
    }

    /// Attaches to a session that is open on the server, by its handle. The session goes on when
    /// the client is closed.
    ///
    /// What was going on when the client was attached is not among its events: it reads the
    /// conversation with [`Client::get_messages`].
    pub async fn attach(
        mut self,
        session_id: &str,
        mode: AttachMode,
        builder: Builder,
    ) -> Result<Client, ClientError> {
        let handle = session_id.to_owned();
        let attach = Attach { session_id: handle.clone(), mode, since: None, epoch: None };
        self.request::<Value>("attach", ServerCommand::Attach(attach)).await?;
        builder.open_on_server(SessionLines::shared(self.lines, self.writer, handle)).await
    }

    /// Sends a command and waits for its response. Other records are skipped.
    async fn request<T: DeserializeOwned>(
        &mut self,
        name: &str,
        command: impl Serialize,
    ) -> Result<T, ClientError> {
        let request = ServerRequest { id: REQUEST_ID, command };
        let line = serde_json::to_string(&request);
        let line =
            line.map_err(|err| ClientError::protocol(format!("cannot send {name}: {err}")))?;
        let lost = || ClientError::ServerExited { status: None, stderr_tail: String::new() };
        let sent = async {
            self.writer.write_all(format!("{line}\n").as_bytes()).await?;
            self.writer.flush().await
        };
        sent.await.map_err(|_| lost())?;
        loop {
            let line = self.lines.next().await.ok().flatten().ok_or_else(lost)?;
            let kind: Option<LineKind> = serde_json::from_slice(&line).ok();
            let is_response = |line: &LineKind| {
                line.kind == "response"
                    && line.id.as_ref().is_none_or(|id| id.as_str() == Some(REQUEST_ID))
            };
            if kind.as_ref().is_some_and(is_response) {
                return read_response(name, &line);
            }
        }
    }
}

fn read_response<T: DeserializeOwned>(name: &str, line: &[u8]) -> Result<T, ClientError> {
    let response: Response<'static> = serde_json::from_slice(line)
        .map_err(|err| ClientError::protocol(format!("invalid response to {name}: {err}")))?;
    if let Some(error) = &response.error {
        let error = error.clone().into_owned();
        return Err(ClientError::CommandRefused { command: name.to_owned(), error });
    }
    response.read().map_err(|why| {
        ClientError::protocol(format!("the response to {name} has unexpected data: {why}"))
    })
}

#[cfg(unix)]
async fn connect_unix(path: &str) -> Result<Server, String> {
    let stream = tokio::net::UnixStream::connect(path).await.map_err(|err| err.to_string())?;
    let (reader, writer) = stream.into_split();
    Ok(Server::over(reader, writer))
}

#[cfg(not(unix))]
async fn connect_unix(_path: &str) -> Result<Server, String> {
    Err("this system has no Unix sockets".to_owned())
}

#[cfg(feature = "websocket")]
async fn connect_websocket(address: &str, token: Option<&str>) -> Result<Server, String> {
    let stream = crate::websocket::connect(address, token).await?;
    let (reader, writer) = tokio::io::split(stream);
    Ok(Server::over(reader, writer))
}

#[cfg(not(feature = "websocket"))]
async fn connect_websocket(_address: &str, _token: Option<&str>) -> Result<Server, String> {
    Err("this program was built without WebSockets".to_owned())
}

#[cfg(test)]
mod tests;
