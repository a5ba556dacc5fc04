//! A connection to a server: the handshake, the list of its tools, a call, the end.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, ClientCapabilities, ClientConfig,
    ClientRequest, ErrorCode, ErrorData, GetExtensions, Implementation, ListToolsRequest,
    PaginatedRequestParams, ProtocolVersion, ServerResult, SubscriptionFilter, Tool as WireTool,
};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, ClientServiceExt, Peer, PeerRequestOptions,
    RequestHandle, RunningService, ServiceError,
};
use rmcp::{ClientHandler, RoleClient};
use serde_json::{Map, Value};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::http::HttpSender;
use crate::stdio::{Child, ChildSpec};
use crate::traffic::{INCOMING_MAX, Outgoing, Progress, ProgressSink, Traffic, Wire};

/// How long a call may take, whatever progress it reports.
pub(crate) const CALL_MAX: Duration = Duration::from_secs(60 * 60);
/// More tools of one server are not listed.
pub const TOOLS_MAX: usize = 10_000;
/// A server that continues its list without end is stopped here.
const PAGES_MAX: usize = 1000;
/// Longer descriptions are cut.
const DESCRIPTION_MAX_BYTES: usize = 16 * 1024;

/// Where a server is.
pub(crate) enum Target {
    Stdio(ChildSpec),
    Http { url: String, headers: Vec<(String, String)> },
}

/// A tool as its server describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct RemoteTool {
    pub name: String,
    pub description: String,
    /// A JSON Schema of an object.
    pub parameters: Value,
}

/// The tools of a server, and what is wrong with those that are left out.
#[derive(Debug, Default)]
pub(crate) struct ToolList {
    pub tools: Vec<RemoteTool>,
    pub problems: Vec<String>,
}

/// Why there is no connection.
#[derive(Debug)]
pub(crate) struct OpenError {
    pub why: String,
    /// Another attempt would fail in the same way.
    pub is_final: bool,
}

/// Why a call has no result.
#[derive(Debug)]
pub(crate) enum CallError {
    Aborted,
    /// Nothing was heard of it for this long.
    TimedOut(Duration),
    /// It has taken [`CALL_MAX`], with progress.
    TookTooLong,
    /// The connection was closed before the result came.
    Closed,
    /// The server or the connection says why.
    Refused(String),
}

pub(crate) struct Connection {
    service: RunningService<RoleClient, Client>,
    pub(crate) traffic: Arc<Traffic>,
    end: Ending,
}

/// What has to be done at the end.
enum Ending {
    Stdio(Arc<Child>),
    Http(HttpSender),
}

/// tiller, as servers see it: without sampling, roots and elicitation.
struct Client;

impl ClientHandler for Client {
    fn get_info(&self) -> ClientConfig {
        let info = Implementation::new("tiller", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(ClientCapabilities::default(), info)
    }
}

impl Connection {
    /// Reaches a server and agrees with it on a version of the protocol.
    pub(crate) async fn open(
        target: Target,
        limit: Duration,
        holds_clock: bool,
    ) -> Result<Connection, OpenError> {
        let traffic = Arc::new(Traffic::new(holds_clock));
        let (sender, incoming) = mpsc::channel(INCOMING_MAX);
        let (outgoing, end) = match target {
            Target::Stdio(spec) => {
                let child = Child::start(spec, sender).await;
                let child = child.map_err(|why| OpenError { why, is_final: true })?;
                let child = Arc::new(child);
                (Outgoing::Stdio(child.clone()), Ending::Stdio(child))
            }
            Target::Http { url, headers } => {
                let http = HttpSender::new(url, headers, sender, traffic.closed.clone());
                (Outgoing::Http(http.clone()), Ending::Http(http))
            }
        };
        let wire = Wire { outgoing, incoming, traffic: traffic.clone() };
        // The revision of 2026-07-28 has no `initialize`; a server of an older one does not know
        // `server/discover`.
        let lifecycle = ClientLifecycleMode::Auto {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
            legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
        };
        let opening = Client.serve_with_lifecycle(wire, lifecycle);
        match tokio::time::timeout(limit, opening).await {
            Ok(Ok(service)) => Ok(Connection { service, traffic, end }),
            Ok(Err(err)) => {
                let is_final = end.needs_authorization();
                let why = end.explain(&err).await;
                end.stop().await;
                Err(OpenError { why, is_final })
            }
            Err(_) => {
                let mut why = format!("it did not answer within {} s", limit.as_secs_f64());
                if let Ending::Stdio(child) = &end
                    && let Some(words) = child.last_words()
                {
                    why = format!("{why}: {words}");
                }
                end.stop().await;
                Err(OpenError { why, is_final: false })
            }
        }
    }

    pub(crate) fn peer(&self) -> &Peer<RoleClient> {
        self.service.peer()
    }

    /// The name and the version of the server, as it says.
    pub(crate) fn server_version(&self) -> Option<String> {
        let info = self.peer().peer_info()?;
        let server = info.server_info.as_ref()?;
        Some(format!("{} {}", server.name, server.version))
    }

    /// The revision of the protocol that was agreed on.
    pub(crate) fn protocol_version(&self) -> Option<String> {
        Some(self.peer().peer_info()?.protocol_version.as_str().to_owned())
    }

    /// Asks to be told about another list of tools, where that has to be asked for. Ends with the
    /// subscription.
    pub(crate) fn subscribe(&self) {
        let Some(info) = self.peer().peer_info() else { return };
        if info.protocol_version.has_initialize() {
            if let Ending::Http(http) = &self.end {
                http.listen();
            }
            return;
        }
        let peer = self.peer().clone();
        let closed = self.traffic.closed.clone();
        tokio::spawn(async move {
            let filter = SubscriptionFilter::builder().tools_list_changed().build();
            let subscription = async {
                // A server without notifications refuses.
                let Ok(mut subscription) = peer.listen(filter).await else { return };
                while let Ok(Some(_)) = subscription.next().await {}
            };
            closed.run_until_cancelled(subscription).await;
        });
    }

    /// All tools of the server.
    pub(crate) async fn list_tools(&self, limit: Duration) -> Result<ToolList, String> {
        let mut list = ToolList::default();
        let mut cursor = None;
        for _ in 0..PAGES_MAX {
            let params = PaginatedRequestParams::default().with_cursor(cursor.take());
            let request = ListToolsRequest::with_param(params);
            let options = PeerRequestOptions::with_timeout(limit);
            let request = ClientRequest::ListToolsRequest(request);
            let handle = self.peer().send_request_with_option(request, options).await;
            let answer = match handle {
                Ok(handle) => handle.await_response().await,
                Err(err) => Err(err),
            };
            match answer {
                Ok(ServerResult::ListToolsResult(page)) => {
                    cursor = page.next_cursor;
                    page.tools.into_iter().for_each(|tool| list.add(tool));
                }
                Ok(ServerResult::CustomResult(page)) => {
                    cursor = page.0.get("nextCursor").and_then(Value::as_str).map(str::to_owned);
                    list.add_described(page.0);
                }
                Ok(ServerResult::EmptyResult(_)) => {}
                Ok(_) => return Err("its list of tools is malformed".to_owned()),
                // A server that offers other things than tools.
                Err(ServiceError::McpError(error)) if error.code == ErrorCode::METHOD_NOT_FOUND => {
                }
                Err(err) => return Err(format!("its tools cannot be listed: {}", sentence(err))),
            }
            if cursor.is_none() || list.is_full() {
                break;
            }
        }
        Ok(list)
    }

    /// Resolves when the server cannot be reached any more, with the reason.
    pub(crate) async fn closed(&self) -> String {
        self.traffic.closed.cancelled().await;
        match &self.end {
            Ending::Stdio(child) => child.ending().await,
            Ending::Http(http) => http.ending(),
        }
    }

    /// Ends the connection, and the server if tiller has started it.
    pub(crate) async fn stop(self) {
        self.traffic.closed.cancel();
        self.end.stop().await;
    }
}

impl Ending {
    async fn explain(&self, err: &ClientInitializeError) -> String {
        let why = match err {
            ClientInitializeError::LegacyFallbackFailed { fallback, .. } => fallback,
            other => other,
        };
        match (self, why) {
            (Ending::Stdio(child), ClientInitializeError::ConnectionClosed(_)) => {
                child.ending().await
            }
            (Ending::Http(http), ClientInitializeError::ConnectionClosed(_)) => http.ending(),
            (_, ClientInitializeError::JsonRpcError(error)) => shortened(&error.message),
            (_, ClientInitializeError::TransportError { error, .. }) => {
                shortened(&error.error.to_string())
            }
            (_, ClientInitializeError::NoCompatibleProtocolVersion { server_supported, .. }) => {
                let versions: Vec<&str> =
                    server_supported.iter().map(ProtocolVersion::as_str).collect();
                format!("it speaks other versions of the protocol: {}", versions.join(", "))
            }
            (_, other) => shortened(&format!("it does not follow the protocol: {other}")),
        }
    }

    fn needs_authorization(&self) -> bool {
        matches!(self, Ending::Http(http) if http.needs_authorization())
    }

    async fn stop(self) {
        match self {
            Ending::Stdio(child) => child.stop().await,
            Ending::Http(http) => http.stop().await,
        }
    }
}

impl ToolList {
    fn is_full(&self) -> bool {
        self.tools.len() >= TOOLS_MAX
    }

    fn add(&mut self, tool: WireTool) {
        let description = tool.description.map(|text| text.into_owned()).or(tool.title);
        let schema = Arc::unwrap_or_clone(tool.input_schema);
        self.add_checked(tool.name.into_owned(), description.unwrap_or_default(), schema);
    }

    /// Adds the tools of a page that is not quite as the protocol has it: one tool that is wrong
    /// does not take the others with it.
    fn add_described(&mut self, page: Value) {
        let Value::Object(mut page) = page else { return };
        let Some(Value::Array(tools)) = page.remove("tools") else {
            self.problems.push("its list of tools is malformed".to_owned());
            return;
        };
        for tool in tools {
            let name = tool.get("name").and_then(Value::as_str).unwrap_or("without a name");
            let name = name.to_owned();
            match serde_json::from_value::<WireTool>(tool) {
                Ok(tool) => self.add(tool),
                Err(err) => self.leave_out(&name, &err.to_string()),
            }
        }
    }

    fn add_checked(&mut self, name: String, mut description: String, schema: Map<String, Value>) {
        if self.is_full() {
            if self.tools.len() == TOOLS_MAX && !self.problems.iter().any(|p| p == &too_many()) {
                self.problems.push(too_many());
            }
            return;
        }
        let mut schema = schema;
        match schema.get("type") {
            Some(Value::String(kind)) if kind == "object" => {}
            None => {
                schema.insert("type".to_owned(), Value::from("object"));
            }
            Some(_) => return self.leave_out(&name, "its inputSchema is not that of an object"),
        }
        let parameters = Value::Object(schema);
        if let Err(why) = tiller_agent::arguments::check_schema(&parameters) {
            return self.leave_out(&name, &why);
        }
        description.truncate(description.floor_char_boundary(DESCRIPTION_MAX_BYTES));
        self.tools.push(RemoteTool { name, description, parameters });
    }

    fn leave_out(&mut self, name: &str, why: &str) {
        const PROBLEMS_MAX: usize = 20;
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(shortened(&format!("the tool {name} is left out: {why}")));
        }
    }
}

fn too_many() -> String {
    format!("it has more than {TOOLS_MAX} tools: the rest is left out")
}

/// Calls a tool. `limit` starts again with each progress, which is also passed on.
pub(crate) async fn call(
    peer: &Peer<RoleClient>,
    tool: &str,
    arguments: Map<String, Value>,
    limit: Duration,
    cancel: &CancellationToken,
    mut on_progress: impl FnMut(&Progress),
) -> Result<CallToolResult, CallError> {
    let (sink, mut progress) = watch::channel(Progress::default());
    let params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
    let mut request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
    request.extensions_mut().insert(ProgressSink(Arc::new(sink)));
    let options = PeerRequestOptions::no_options();
    let mut handle = match peer.send_request_with_option(request, options).await {
        Ok(handle) => handle,
        Err(err) => return Err(CallError::of(err)),
    };
    let overdue = sleep_until(Instant::now() + CALL_MAX);
    let silent = sleep(limit);
    tokio::pin!(overdue, silent);
    let failure = loop {
        tokio::select! {
            biased;
            answer = &mut handle.rx => {
                return match answer {
                    Ok(Ok(answer)) => read_result(answer),
                    Ok(Err(err)) => Err(CallError::of(err)),
                    Err(_) => Err(CallError::Closed),
                };
            }
            () = cancel.cancelled() => break CallError::Aborted,
            () = &mut overdue => break CallError::TookTooLong,
            Ok(()) = progress.changed() => {
                on_progress(&progress.borrow_and_update());
                silent.as_mut().reset(Instant::now() + limit);
            }
            () = &mut silent => break CallError::TimedOut(limit),
        }
    };
    give_up(handle, &failure);
    Err(failure)
}

/// Tells the server that a result is no longer needed.
fn give_up(handle: RequestHandle<RoleClient>, failure: &CallError) {
    let reason = match failure {
        CallError::Aborted => "aborted",
        _ => "timed out",
    };
    // The caller does not wait for it. A server that is gone needs no notification.
    tokio::spawn(async move { handle.cancel(Some(reason.to_owned())).await.ok() });
}

fn read_result(answer: ServerResult) -> Result<CallToolResult, CallError> {
    let refused = |why: &str| Err(CallError::Refused(why.to_owned()));
    match answer {
        ServerResult::CallToolResult(result) => Ok(result),
        ServerResult::EmptyResult(_) => Ok(CallToolResult::default()),
        ServerResult::InputRequiredResult(_) => {
            refused("the tool asks the user for input, which tiller does not support")
        }
        ServerResult::CreateTaskResult(_) => {
            refused("the tool runs as a task of the server, which tiller does not support")
        }
        _ => refused("the server's result is malformed"),
    }
}

impl CallError {
    fn of(err: ServiceError) -> CallError {
        match err {
            ServiceError::TransportClosed => CallError::Closed,
            err => CallError::Refused(sentence(err)),
        }
    }
}

fn sentence(err: ServiceError) -> String {
    match err {
        ServiceError::McpError(ErrorData { message, .. }) => shortened(&message),
        ServiceError::TransportSend(err) => shortened(&err.error.to_string()),
        ServiceError::TransportClosed => "the connection was closed".to_owned(),
        ServiceError::Timeout { timeout } => {
            format!("no answer within {} s", timeout.as_secs_f64())
        }
        other => shortened(&other.to_string()),
    }
}

/// A text of a server, short enough for an error.
fn shortened(text: &str) -> String {
    const MAX: usize = 2000;
    match text.len() {
        0 => "it gives no reason".to_owned(),
        length if length > MAX => format!("{}…", &text[..text.floor_char_boundary(MAX)]),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;
