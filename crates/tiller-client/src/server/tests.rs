use std::path::PathBuf;

use serde_json::json;
use tokio::net::{UnixListener, UnixStream};

use super::*;

/// A server of many sessions that does what each test says.
struct FakeServer {
    lines: LineReader,
    writer: Writer,
}

impl FakeServer {
    fn new(stream: UnixStream) -> FakeServer {
        let (reader, writer) = stream.into_split();
        FakeServer { lines: LineReader::new(Box::new(reader)), writer: Box::new(writer) }
    }

    async fn read(&mut self) -> Value {
        let line = self.lines.next().await.unwrap().expect("a command");
        serde_json::from_slice(&line).unwrap()
    }

    async fn write(&mut self, record: Value) {
        self.writer.write_all(format!("{record}\n").as_bytes()).await.unwrap();
    }

    async fn respond(&mut self, command: &Value, data: Value) {
        self.write(json!({"id": command["id"], "type": "response", "command": command["type"],
            "success": true, "data": data}))
            .await;
    }

    async fn greet(&mut self) -> Value {
        let hello = self.read().await;
        self.respond(&hello, hello_data()).await;
        hello
    }
}

fn hello_data() -> Value {
    json!({
        "server": "fake", "version": "9", "wire": "pi-delta", "stream": "deltas", "commands": [],
        "events": [], "limits": {"lineBytes": 1}, "diagnostics": [], "schema": "",
        "promptResults": true, "sequence": {"epoch": "e"},
    })
}

/// A connection over a real socket.
async fn connect() -> (Server, FakeServer) {
    let folder = folder();
    let path = folder.join("tiller.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let address = format!("unix:{}", path.display());
    let (server, accepted) = tokio::join!(Server::connect(&address), listener.accept());
    std::fs::remove_dir_all(folder).unwrap();
    (server.unwrap(), FakeServer::new(accepted.unwrap().0))
}

/// A new folder for a socket.
fn folder() -> PathBuf {
    use std::hash::{BuildHasher, RandomState};
    let name = format!("tiller-client-{:016x}", RandomState::new().hash_one(()));
    let folder = std::env::temp_dir().join(name);
    std::fs::create_dir(&folder).unwrap();
    folder
}

fn text(error: ClientError) -> String {
    error.to_string()
}

#[tokio::test]
async fn opened_session_uses_the_connection_alone() {
    let (server, mut fake) = connect().await;
    let open = OpenSession {
        cwd: Some("/home/ada".into()),
        model_id: Some("demo".to_owned()),
        provider: Some("tiller".to_owned()),
        in_memory: true,
        ..OpenSession::default()
    };
    let opening = server.open_session(open, Client::builder());
    let serving = async {
        let command = fake.read().await;
        assert_eq!(
            command,
            json!({"id": "server", "type": "open_session", "cwd": "/home/ada", "provider": "tiller",
                "modelId": "demo", "inMemory": true, "dedicated": true})
        );
        // A record of another kind comes first.
        fake.write(json!({"type": "server_stopping", "seconds": 30})).await;
        fake.respond(&command, json!({"sessionId": "s1", "state": {}})).await;
        fake.greet().await
    };
    let (client, hello) = tokio::join!(opening, serving);
    assert_eq!(hello["sessionId"], Value::Null);
    let client = client.unwrap();
    let ((), ()) = tokio::join!(async { client.abort().await.unwrap() }, async {
        let abort = fake.read().await;
        assert_eq!((&abort["type"], &abort["sessionId"]), (&json!("abort"), &Value::Null));
        fake.respond(&abort, Value::Null).await;
    });
}

#[tokio::test]
async fn attached_session_is_named_in_each_command() {
    let (server, mut fake) = connect().await;
    let attaching = server.attach("s\"1", AttachMode::Watch, Client::builder());
    let serving = async {
        let command = fake.read().await;
        assert_eq!((&command["type"], &command["mode"]), (&json!("attach"), &json!("watch")));
        fake.respond(&command, json!({"sessionId": "s\"1"})).await;
        fake.greet().await
    };
    let (client, hello) = tokio::join!(attaching, serving);
    client.unwrap();
    assert_eq!((&hello["type"], &hello["sessionId"]), (&json!("hello"), &json!("s\"1")));
}

#[tokio::test]
async fn refused_session_is_an_error() {
    let (mut server, mut fake) = connect().await;
    let selection = ListSessions { all: true, limit: Some(1), ..ListSessions::default() };
    let (sessions, ()) = tokio::join!(server.list_sessions(selection), async {
        let command = fake.read().await;
        fake.respond(&command, json!({"sessions": [], "next": null})).await;
    });
    assert_eq!(sessions.unwrap().sessions, []);
    let opening = server.open_session(OpenSession::default(), Client::builder());
    let (opened, ()) = tokio::join!(opening, async {
        let command = fake.read().await;
        fake.write(json!({"id": command["id"], "type": "response", "command": "open_session",
            "success": false, "error": "the session is open already", "code": "session_in_use"}))
            .await;
    });
    assert_eq!(text(opened.unwrap_err()), "open_session: the session is open already");
}

#[tokio::test]
async fn server_that_ends_before_it_answers_is_an_error() {
    let (server, fake) = connect().await;
    drop(fake);
    let opened = server.open_session(OpenSession::default(), Client::builder()).await;
    assert_eq!(text(opened.unwrap_err()), "the connection to tiller has ended");
}

#[tokio::test]
async fn address_without_a_server_is_an_error() {
    for (address, reason) in [
        ("unix:/nowhere/tiller.sock", "No such file or directory"),
        ("127.0.0.1:7433", "expected unix:PATH or ws://HOST:PORT"),
    ] {
        let error = text(Server::connect(address).await.err().unwrap());
        assert!(error.starts_with(&format!("cannot connect to {address}: ")), "{error}");
        assert!(error.contains(reason), "{error}");
    }
}

#[cfg(feature = "websocket")]
mod websocket {
    use futures_util::{SinkExt, StreamExt};
    use tokio::net::TcpListener;
    use tokio_tungstenite::accept_hdr_async;
    use tokio_tungstenite::tungstenite::Message;
    use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};

    use super::*;

    /// Accepts a connection whose token is `secret`.
    #[allow(clippy::result_large_err)]
    fn check_token(request: &Request, response: Response) -> Result<Response, ErrorResponse> {
        let token = request.headers().get("authorization");
        if token.is_some_and(|token| token == "Bearer secret") {
            return Ok(response);
        }
        let mut refusal = ErrorResponse::new(None);
        *refusal.status_mut() = tokio_tungstenite::tungstenite::http::StatusCode::UNAUTHORIZED;
        Err(refusal)
    }

    #[tokio::test]
    async fn lines_are_messages_of_a_websocket() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("ws://{}", listener.local_addr().unwrap());
        let serving = tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            let mut socket = accept_hdr_async(stream, check_token).await.unwrap();
            while let Some(Ok(Message::Text(line))) = socket.next().await {
                let command: Value = serde_json::from_str(&line).unwrap();
                let data = match command["type"].as_str().unwrap() {
                    "hello" => hello_data(),
                    "get_last_assistant_text" => json!({"text": "x".repeat(200_000)}),
                    _ => json!({}),
                };
                let response = json!({"id": command["id"], "type": "response",
                    "command": command["type"], "success": true, "data": data});
                socket.send(Message::text(response.to_string())).await.unwrap();
            }
        });
        let server = Server::connect_with_token(&address, "secret").await.unwrap();
        let client = server.open_session(OpenSession::default(), Client::builder()).await.unwrap();
        let text = client.get_last_assistant_text().await.unwrap().text;
        assert_eq!(text.flatten().map(|text| text.len()), Some(200_000));
        client.close().await;
        serving.await.unwrap();
    }

    #[tokio::test]
    async fn wrong_token_is_an_error_with_advice() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("ws://{}", listener.local_addr().unwrap());
        let connecting = Server::connect_with_token(&address, "wrong");
        let (server, ()) = tokio::join!(connecting, async {
            let (stream, _) = listener.accept().await.unwrap();
            assert!(accept_hdr_async(stream, check_token).await.is_err());
        });
        let error = text(server.err().unwrap());
        assert!(error.contains("the token is missing or wrong (401)"), "{error}");
    }
}
