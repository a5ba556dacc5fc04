//! A server that is reached by streamable HTTP: each message is a POST, whose response is a message
//! or a stream of events with messages. A server of a revision with `initialize` may also give the
//! connection a session, and announce changes on a stream of its own.
//!
//! The older transport, SSE with two addresses, is not supported.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, ErrorData, GetMeta, JsonRpcMessage,
    RequestId, ServerJsonRpcMessage, ServerResult,
};
use tiller_agent::mutex;
use tiller_llm::http::{self, HttpExchange, HttpResponse};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::frames::{self, Frame, MESSAGE_MAX_BYTES};
use crate::header_value::encoded;
use crate::traffic::SendError;

/// How much of the body of a refusal is read.
const REFUSAL_MAX_BYTES: usize = 64 << 10;
/// The pause before the stream of announcements is opened again.
const LISTEN_PAUSE: Duration = Duration::from_secs(5);
/// How long the end of a session may take.
const DELETE_MAX: Duration = Duration::from_millis(1000);

/// Sends messages to a server. Copies share the session.
#[derive(Clone)]
pub(crate) struct HttpSender(Arc<Shared>);

struct Shared {
    url: String,
    /// From the server's entry.
    headers: Vec<(String, String)>,
    incoming: mpsc::Sender<ServerJsonRpcMessage>,
    session: Mutex<Session>,
    /// Fires when the connection is closed, by either side.
    closed: CancellationToken,
}

#[derive(Default)]
struct Session {
    /// What the server calls it, if it has sessions.
    id: Option<String>,
    /// The revision that `initialize` has agreed on.
    version: Option<String>,
    /// Why the connection is of no use any more.
    fault: Option<String>,
    needs_authorization: bool,
    /// Requests without a response, so that they can be given up.
    open: Vec<(RequestId, CancellationToken)>,
}

/// A request without a response.
struct OpenRequest {
    id: RequestId,
    given_up: CancellationToken,
}

impl HttpSender {
    pub(crate) fn new(
        url: String,
        headers: Vec<(String, String)>,
        incoming: mpsc::Sender<ServerJsonRpcMessage>,
        closed: CancellationToken,
    ) -> HttpSender {
        let mut headers = headers;
        headers.retain(|(name, _)| !is_own(name));
        let session = Mutex::default();
        HttpSender(Arc::new(Shared { url, headers, incoming, session, closed }))
    }

    /// Sends a message. The future of a notification resolves when the server has accepted it, that
    /// of a request at once: whatever becomes of it comes as a response.
    pub(crate) fn send(
        &self,
        message: ClientJsonRpcMessage,
    ) -> BoxFuture<'static, Result<(), SendError>> {
        let shared = self.0.clone();
        let open = match &message {
            JsonRpcMessage::Request(request) => Some(shared.begin(request.id.clone())),
            _ => None,
        };
        if let Some(id) = given_up(&message) {
            shared.give_up(id);
        }
        let Some(open) = open else {
            return Box::pin(async move { shared.post(&message, None).await.map_err(SendError) });
        };
        tokio::spawn(async move {
            let posted = async {
                tokio::select! {
                    biased;
                    () = shared.closed.cancelled() => Ok(()),
                    // The response, or the rest of its events, is no longer read.
                    () = open.given_up.cancelled() => Ok(()),
                    posted = shared.post(&message, Some(&open.id)) => posted,
                }
            };
            if let Err(why) = posted.await {
                let error = ErrorData::internal_error(why, None);
                let error = ServerJsonRpcMessage::error(error, Some(open.id.clone()));
                // The connection may be closed.
                shared.incoming.send(error).await.ok();
            }
            shared.end(&open.id);
        });
        Box::pin(std::future::ready(Ok(())))
    }

    /// Opens the stream on which a server of a revision with `initialize` announces changes. Most
    /// servers have none.
    pub(crate) fn listen(&self) {
        let shared = self.0.clone();
        tokio::spawn(async move {
            let closed = shared.closed.clone();
            closed.run_until_cancelled(shared.listen()).await;
        });
    }

    /// Why the connection is closed.
    pub(crate) fn ending(&self) -> String {
        let session = mutex::lock(&self.0.session);
        session.fault.clone().unwrap_or_else(|| "the connection was closed".to_owned())
    }

    pub(crate) fn needs_authorization(&self) -> bool {
        mutex::lock(&self.0.session).needs_authorization
    }

    /// Ends the session, if there is one.
    pub(crate) async fn stop(&self) {
        self.0.closed.cancel();
        let id = mutex::lock(&self.0.session).id.take();
        let Some(id) = id else { return };
        let mut headers = self.0.common_headers(None);
        headers.push(("mcp-session-id".to_owned(), id));
        let delete = self.0.exchange("DELETE", headers, None);
        // The server ends it by itself some time.
        tokio::time::timeout(DELETE_MAX, delete).await.ok();
    }
}

/// The request that a notification gives up.
fn given_up(message: &ClientJsonRpcMessage) -> Option<&RequestId> {
    let JsonRpcMessage::Notification(notification) = message else { return None };
    match &notification.notification {
        ClientNotification::CancelledNotification(cancelled) => {
            cancelled.params.request_id.as_ref()
        }
        _ => None,
    }
}

impl Shared {
    fn begin(&self, id: RequestId) -> OpenRequest {
        let given_up = CancellationToken::new();
        mutex::lock(&self.session).open.push((id.clone(), given_up.clone()));
        OpenRequest { id, given_up }
    }

    fn end(&self, id: &RequestId) {
        mutex::lock(&self.session).open.retain(|(other, _)| other != id);
    }

    fn give_up(&self, id: &RequestId) {
        let session = mutex::lock(&self.session);
        if let Some((_, given_up)) = session.open.iter().find(|(other, _)| other == id) {
            given_up.cancel();
        }
    }

    /// The connection is of no use any more.
    fn fail(&self, fault: String) {
        mutex::lock(&self.session).fault.get_or_insert(fault);
        self.closed.cancel();
    }

    /// Sends a message and passes on what the server answers, until it has answered all. `request` is
    /// the id of a request.
    async fn post(
        &self,
        message: &ClientJsonRpcMessage,
        request: Option<&RequestId>,
    ) -> Result<(), String> {
        let body = serde_json::to_vec(message).map_err(|err| err.to_string())?;
        let mut headers = self.common_headers(Some(message));
        headers.push(("content-type".to_owned(), "application/json".to_owned()));
        headers.push(("accept".to_owned(), "application/json, text/event-stream".to_owned()));
        if let Some(id) = mutex::lock(&self.session).id.clone() {
            headers.push(("mcp-session-id".to_owned(), id));
        }
        let response = self.exchange("POST", headers, Some(body)).await?;
        let is_initialize = matches!(message, JsonRpcMessage::Request(request)
            if matches!(request.request, ClientRequest::InitializeRequest(_)));
        if is_initialize {
            let id = header(&response, "mcp-session-id").map(str::to_owned);
            mutex::lock(&self.session).id = id;
        }
        match response.status {
            200..=299 => {}
            _ => return self.refused(response, request).await,
        }
        let Some(request) = request else { return Ok(()) };
        match header(&response, "content-type").unwrap_or_default() {
            kind if kind.starts_with("application/json") => {
                let body = collect(response, MESSAGE_MAX_BYTES).await?;
                if self.pass_on(&body).await.as_ref() == Some(request) {
                    Ok(())
                } else {
                    Err("the server answers with JSON that is no answer of an MCP server: check \
                         its address"
                        .to_owned())
                }
            }
            kind if kind.starts_with("text/event-stream") => {
                let has_answered = self.read_events(response, Some(request)).await?;
                if has_answered {
                    Ok(())
                } else {
                    Err("the server has ended its answer without a result".to_owned())
                }
            }
            kind => Err(format!(
                "the server answers with content of type {kind:?} in place of JSON: check that the \
                 address is that of an MCP server"
            )),
        }
    }

    /// Reads the response to a message that the server has not accepted.
    async fn refused(
        &self,
        response: HttpResponse,
        request: Option<&RequestId>,
    ) -> Result<(), String> {
        let status = response.status;
        let status_text = response.status_text.clone();
        let has_session = mutex::lock(&self.session).id.is_some();
        let body = collect(response, REFUSAL_MAX_BYTES).await.unwrap_or_default();
        if status == 401 {
            mutex::lock(&self.session).needs_authorization = true;
            return Err(
                "the server requires authorization (401): add an `Authorization` header to \
                        `headers` of this server, such as \"Bearer ${TOKEN}\". OAuth is not \
                        supported"
                    .to_owned(),
            );
        }
        if has_session && is_session_lost(status, &body) {
            self.fail("the server has ended the session".to_owned());
            return Err(
                "the server has ended the session, so the call was not made: call again".to_owned()
            );
        }
        // A refusal of the protocol, which is perhaps one that `rmcp` has to see.
        if let Some(Frame::Message(message)) = frames::parse(body.trim_ascii())
            && let JsonRpcMessage::Error(error) = *message
            && let Some(request) = request
        {
            let error = ServerJsonRpcMessage::error(error.error, Some(request.clone()));
            self.incoming.send(error).await.ok();
            return Ok(());
        }
        let text = String::from_utf8_lossy(&body);
        let text: String = text.trim().chars().take(300).collect();
        let colon = if text.is_empty() { "" } else { ": " };
        Err(format!("the server answers {status} {status_text}{colon}{text}"))
    }

    /// Passes on the messages of a stream of events, up to the response to `request`. Returns whether
    /// that has come.
    async fn read_events(
        &self,
        response: HttpResponse,
        request: Option<&RequestId>,
    ) -> Result<bool, String> {
        let mut events = http::events(response.body, MESSAGE_MAX_BYTES);
        while let Some(event) = events.next().await {
            let data = event?;
            let answered = self.pass_on(data.as_bytes()).await;
            if answered.is_some() && answered.as_ref() == request {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Passes a message on. Returns the id of the request that it answers.
    async fn pass_on(&self, text: &[u8]) -> Option<RequestId> {
        let Some(Frame::Message(message)) = frames::parse(text.trim_ascii()) else { return None };
        let answered = match &*message {
            JsonRpcMessage::Response(response) => {
                if let ServerResult::InitializeResult(result) = &response.result {
                    let version = result.protocol_version.as_str().to_owned();
                    mutex::lock(&self.session).version = Some(version);
                }
                Some(response.id.clone())
            }
            JsonRpcMessage::Error(error) => error.id.clone(),
            _ => None,
        };
        // Fails when the connection was closed meanwhile.
        self.incoming.send(*message).await.ok();
        answered
    }

    async fn listen(&self) {
        loop {
            let mut headers = self.common_headers(None);
            headers.push(("accept".to_owned(), "text/event-stream".to_owned()));
            if let Some(id) = mutex::lock(&self.session).id.clone() {
                headers.push(("mcp-session-id".to_owned(), id));
            }
            if let Ok(response) = self.exchange("GET", headers, None).await {
                match response.status {
                    // A stream that breaks off is opened again.
                    200 => {
                        self.read_events(response, None).await.ok();
                    }
                    // 405: the server has no such stream.
                    400..=499 => return,
                    _ => {}
                }
            }
            tokio::time::sleep(LISTEN_PAUSE).await;
        }
    }

    async fn exchange(
        &self,
        method: &str,
        headers: Vec<(String, String)>,
        body: Option<Vec<u8>>,
    ) -> Result<HttpResponse, String> {
        let exchange = HttpExchange {
            method: method.to_owned(),
            url: self.url.clone(),
            headers,
            body,
            // A redirect could take the headers to another server.
            follow_redirects: false,
        };
        http::exchange(exchange).await
    }

    /// The headers of the entry, and those about the protocol.
    fn common_headers(&self, message: Option<&ClientJsonRpcMessage>) -> Vec<(String, String)> {
        let mut headers = self.headers.clone();
        let request = match message {
            Some(JsonRpcMessage::Request(request)) => Some(&request.request),
            _ => None,
        };
        let own = request.and_then(|request| request.get_meta().protocol_version());
        let agreed = || mutex::lock(&self.session).version.clone();
        if let Some(version) = own.as_ref().map(|own| own.as_str().to_owned()).or_else(agreed) {
            headers.push(("mcp-protocol-version".to_owned(), version));
        }
        // Since 2026-07-28, for programs between that do not read the message.
        if let Some(request) = request.filter(|_| own.is_some()) {
            headers.push(("mcp-method".to_owned(), request.method().to_owned()));
            if let ClientRequest::CallToolRequest(call) = request {
                headers.push(("mcp-name".to_owned(), encoded(&call.params.name)));
            }
        }
        headers
    }
}

/// Whether a header is one that this file sets.
fn is_own(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    matches!(name.as_str(), "accept" | "content-type") || name.starts_with("mcp-")
}

/// Whether a server that was sent a session does not know it. The protocol has 404 for that; servers
/// of the TypeScript SDK also answer 400.
fn is_session_lost(status: u16, body: &[u8]) -> bool {
    let names_session = || String::from_utf8_lossy(body).to_lowercase().contains("session");
    status == 404 || status == 400 && names_session()
}

fn header<'a>(response: &'a HttpResponse, name: &str) -> Option<&'a str> {
    let found = response.headers.iter().find(|(other, _)| other.eq_ignore_ascii_case(name));
    found.map(|(_, value)| value.as_str())
}

/// The whole body.
async fn collect(response: HttpResponse, max: usize) -> Result<Vec<u8>, String> {
    let mut body = Vec::new();
    let mut chunks = response.body;
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk?;
        if body.len() + chunk.len() > max {
            return Err(format!(
                "the result is longer than {} MiB and was discarded: ask for less at once",
                max >> 20
            ));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}
