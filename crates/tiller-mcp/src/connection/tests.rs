//! Calls on a paused clock: limits pass without anything waiting for them.

use rmcp::model::{ClientJsonRpcMessage, ClientNotification, JsonRpcMessage, ServerJsonRpcMessage};
use serde_json::{from_value, json};

use super::*;

/// The server's side of a connection.
struct Server {
    /// tiller's side, which ends when it is dropped.
    client: Option<RunningService<RoleClient, Client>>,
    messages: mpsc::UnboundedReceiver<ClientJsonRpcMessage>,
    answers: mpsc::Sender<ServerJsonRpcMessage>,
}

impl Server {
    /// The next message, as JSON.
    async fn next(&mut self) -> Value {
        serde_json::to_value(self.messages.recv().await.unwrap()).unwrap()
    }

    async fn say(&self, message: Value) {
        let message: ServerJsonRpcMessage = from_value(message).unwrap();
        self.answers.send(message).await.unwrap();
    }

    async fn answer(&self, request: &Value, result: Value) {
        self.say(json!({"jsonrpc": "2.0", "id": request["id"], "result": result})).await;
    }

    async fn progress(&self, request: &Value, progress: u32, message: &str) {
        let token = &request["params"]["_meta"]["progressToken"];
        self.say(json!({"jsonrpc": "2.0", "method": "notifications/progress", "params":
            {"progressToken": token, "progress": progress, "total": 3, "message": message}}))
            .await;
    }
}

async fn connect() -> (RunningService<RoleClient, Client>, Arc<Traffic>, Server) {
    let traffic = Arc::new(Traffic::new(false));
    let (sender, messages) = mpsc::unbounded_channel();
    let (answers, incoming) = mpsc::channel(INCOMING_MAX);
    let wire = Wire { outgoing: Outgoing::Test(sender), incoming, traffic: traffic.clone() };
    let mut server = Server { client: None, messages, answers };
    let opening = tokio::spawn(Client.serve_with_lifecycle(
        wire,
        ClientLifecycleMode::Auto {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
            legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
        },
    ));
    let discover = server.next().await;
    assert_eq!(discover["method"], "server/discover");
    server
        .say(json!({"jsonrpc": "2.0", "id": discover["id"],
            "error": {"code": -32601, "message": "unknown"}}))
        .await;
    let initialize = server.next().await;
    server
        .answer(
            &initialize,
            json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                "serverInfo": {"name": "s", "version": "1"}}),
        )
        .await;
    server.next().await;
    (opening.await.unwrap().unwrap(), traffic, server)
}

fn print(result: &Result<CallToolResult, CallError>) -> String {
    match result {
        Ok(result) => serde_json::to_string(result).unwrap(),
        Err(err) => format!("{err:?}"),
    }
}

const LIMIT: Duration = Duration::from_secs(60);

/// Calls a tool of a server that behaves like `server`. Returns the result, the progress and how many
/// seconds it took.
async fn called<F: Future<Output = Server>>(
    server: impl FnOnce(Server, Value) -> F,
) -> (String, Vec<String>, u64, Server) {
    let (service, _traffic, mut waiting) = connect().await;
    let since = Instant::now();
    let mut shown = Vec::new();
    let never = CancellationToken::new();
    let call = call(service.peer(), "t", Map::new(), LIMIT, &never, |progress| {
        shown.push(progress.to_string());
    });
    let serve = async move {
        let request = waiting.next().await;
        server(waiting, request).await
    };
    let (result, mut server) = tokio::join!(call, serve);
    server.client = Some(service);
    (print(&result), shown, since.elapsed().as_secs(), server)
}

#[tokio::test(start_paused = true)]
async fn progress_starts_the_limit_again_and_is_shown() {
    let (result, shown, seconds, _server) = called(async |server, request| {
        for (step, word) in [(1, "one"), (2, "two"), (3, "three")] {
            sleep(Duration::from_secs(50)).await;
            server.progress(&request, step, word).await;
        }
        sleep(Duration::from_secs(50)).await;
        server.answer(&request, json!({"content": []})).await;
        server
    })
    .await;
    assert_eq!(result, r#"{"content":[]}"#);
    assert_eq!(shown, ["1/3 one", "2/3 two", "3/3 three"]);
    assert_eq!(seconds, 200);
}

#[tokio::test(start_paused = true)]
async fn call_without_an_answer_is_cancelled_at_the_server() {
    let (result, _, seconds, mut server) = called(async |server, _| server).await;
    assert_eq!((result.as_str(), seconds), ("TimedOut(60s)", 60));
    let message = server.messages.recv().await.unwrap();
    let JsonRpcMessage::Notification(notification) = message else { panic!("{message:?}") };
    let ClientNotification::CancelledNotification(cancelled) = notification.notification else {
        panic!("no cancellation");
    };
    assert_eq!(cancelled.params.reason.as_deref(), Some("timed out"));
}

#[tokio::test(start_paused = true)]
async fn endless_progress_ends_after_an_hour() {
    let (result, _, seconds, _server) = called(async |server, request| {
        for step in 0..200 {
            sleep(Duration::from_secs(20)).await;
            server.progress(&request, step, "more").await;
        }
        server
    })
    .await;
    assert_eq!((result.as_str(), seconds / 100), ("TookTooLong", 40));
}

#[tokio::test(start_paused = true)]
async fn answers_that_cannot_be_used_say_why() {
    let mut table = String::new();
    for answer in [
        json!({"resultType": "input_required", "inputRequests": {}, "requestState": "x"}),
        json!({"resultType": "task", "taskId": "1", "status": "working",
            "createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z", "ttlMs": 5}),
        json!({}),
        json!({"content": "text"}),
        json!(7),
    ] {
        let (result, ..) = called(async |server, request| {
            server.answer(&request, answer).await;
            server
        })
        .await;
        table += &format!("{result}\n");
    }
    expect_test::expect![[r#"
        Refused("the tool asks the user for input, which tiller does not support")
        Refused("the tool runs as a task of the server, which tiller does not support")
        {"resultType":"complete","content":[]}
        Refused("the server's result is malformed")
        Refused("the server's result is malformed")
    "#]]
    .assert_eq(&table);
}
