//! The client against a server in memory that does what each test says.

use std::time::Duration;

use serde_json::{Value, json};
use tiller_protocol::{Command, Record, ToolOutput};
use tokio::io::{AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf, duplex, split};

use crate::framing::LineReader;
use crate::{Builder, Client, ClientError, Tool};

/// More than any line of these tests.
const PIPE_BYTES: usize = 64 << 10;

struct Server {
    lines: LineReader,
    writer: WriteHalf<DuplexStream>,
}

impl Server {
    /// The two ends of a pipe: the client's streams, and a server.
    fn pipe(bytes: usize) -> (ReadHalf<DuplexStream>, WriteHalf<DuplexStream>, Server) {
        let (near, far) = duplex(bytes);
        let (reader, writer) = split(near);
        let (far_reader, far_writer) = split(far);
        let lines = LineReader::new(Box::new(far_reader));
        (reader, writer, Server { lines, writer: far_writer })
    }

    /// The next command of the client.
    async fn read(&mut self) -> Value {
        loop {
            let line = self.lines.next().await.unwrap().expect("a command");
            if !line.is_empty() {
                return serde_json::from_slice(&line).unwrap();
            }
        }
    }

    async fn write(&mut self, line: impl ToString) {
        self.writer.write_all(format!("{}\n", line.to_string()).as_bytes()).await.unwrap();
    }

    async fn respond(&mut self, command: &Value, data: Value) {
        self.write(json!({
            "id": command["id"], "type": "response", "command": command["type"],
            "success": true, "data": data,
        }))
        .await;
    }

    async fn greet(&mut self) {
        let hello = self.read().await;
        assert_eq!((&hello["type"], &hello["wire"]), (&json!("hello"), &json!("pi-delta")));
        self.respond(&hello, hello_data()).await;
    }
}

fn hello_data() -> Value {
    json!({
        "server": "fake", "version": "9", "wire": "pi-delta", "stream": "deltas", "commands": [],
        "events": [], "limits": {"lineBytes": 1}, "diagnostics": [], "schema": "",
        "promptResults": true, "sequence": {"epoch": "e"},
    })
}

async fn connect(builder: Builder) -> (Client, Server) {
    let (reader, writer, mut server) = Server::pipe(PIPE_BYTES);
    let (client, ()) = tokio::join!(builder.attach(reader, writer), server.greet());
    (client.unwrap(), server)
}

#[tokio::test]
async fn responses_in_another_order_reach_their_requests() {
    let (client, mut server) = connect(Client::builder()).await;
    let (one, two, ()) = tokio::join!(client.get_queue(), client.abort(), async {
        let (one, two) = (server.read().await, server.read().await);
        assert_ne!(one["id"], two["id"]);
        let (queue, abort) = if one["type"] == "get_queue" { (one, two) } else { (two, one) };
        server.respond(&abort, Value::Null).await;
        server.respond(&queue, json!({"messages": []})).await;
    });
    assert_eq!(one.unwrap().messages, []);
    two.unwrap();
}

#[tokio::test]
async fn refusal_without_id_is_for_the_oldest_request_with_its_command() {
    let (client, mut server) = connect(Client::builder()).await;
    let refusal = json!({
        "type": "response", "command": "abort_bash", "success": false,
        "error": "Unknown command: abort_bash",
    });
    let (refused, answered, ()) = tokio::join!(client.abort_bash(), client.abort(), async {
        let (one, two) = (server.read().await, server.read().await);
        server.write(refusal).await;
        let abort = if one["type"] == "abort" { one } else { two };
        server.respond(&abort, Value::Null).await;
    });
    assert_eq!(refused.unwrap_err().to_string(), "abort_bash: Unknown command: abort_bash");
    answered.unwrap();
}

#[tokio::test]
async fn data_of_another_type_is_an_error() {
    let (client, mut server) = connect(Client::builder()).await;
    let (queue, ()) = tokio::join!(client.get_queue(), async {
        let command = server.read().await;
        server.respond(&command, json!({"messages": 5})).await;
    });
    let error = queue.unwrap_err().to_string();
    assert!(error.starts_with("the response to get_queue has unexpected data: "), "{error}");
}

#[tokio::test]
async fn command_without_response_cannot_be_requested() {
    let (client, _server) = connect(Client::builder()).await;
    let command = crate::host_calls::error_result("host_1".into(), "no".into());
    let refused = client.request::<()>(command).await;
    assert_eq!(refused, Err(ClientError::NoResponse { command: "host_tool_result" }));
}

#[tokio::test]
async fn text_before_the_first_response_is_ignored() {
    let (reader, writer, mut server) = Server::pipe(PIPE_BYTES);
    server.write("the end of a record\"}").await;
    server.write("Welcome!").await;
    server.write("").await;
    let (client, ()) = tokio::join!(Client::builder().attach(reader, writer), server.greet());
    let client = client.unwrap();
    assert_eq!(client.server().version, "9");

    let (refused, ()) = tokio::join!(client.get_state(), server.write("this is not json"));
    let expected = "expected a record in JSON from tiller, got: this is not json";
    assert_eq!(refused.unwrap_err().to_string(), expected);
    assert_eq!(client.abort().await.unwrap_err().to_string(), expected);
}

#[tokio::test]
async fn end_of_the_stream_fails_everything_that_is_pending() {
    let (client, mut server) = connect(Client::builder()).await;
    let mut events = client.events().await;
    let (turn, ()) = tokio::join!(client.prompt("Go"), async {
        let prompt = server.read().await;
        server.respond(&prompt, json!({"disposition": "started"})).await;
    });
    let mut turn = turn.unwrap();
    // The last line is incomplete.
    server.writer.write_all(b"{\"type\":\"agent_sta").await.unwrap();
    drop(server);
    let ended = ClientError::ServerExited { status: None, stderr_tail: String::new() };
    assert_eq!(turn.next().await, Err(ended.clone()));
    assert_eq!(turn.result().await, Err(ended.clone()));
    assert_eq!(events.next().await, Err(ended.clone()));
    assert_eq!(client.get_limits().await, Err(ended));
}

#[tokio::test]
async fn old_server_is_refused() {
    let (reader, writer, mut server) = Server::pipe(PIPE_BYTES);
    let (client, ()) = tokio::join!(Client::builder().attach(reader, writer), async {
        let hello = server.read().await;
        let mut data = hello_data();
        data.as_object_mut().unwrap().remove("sequence");
        server.respond(&hello, data).await;
    });
    assert_eq!(
        client.unwrap_err().to_string(),
        "this client needs a newer tiller: fake 9 has no numbers of records"
    );
}

#[tokio::test(start_paused = true)]
async fn silent_server_is_refused_in_time() {
    let (reader, writer, _server) = Server::pipe(PIPE_BYTES);
    let limit = Duration::from_secs(3);
    let refused = Client::builder().start_timeout(limit).attach(reader, writer).await;
    assert_eq!(refused.unwrap_err(), ClientError::StartTimeout { limit });
}

#[tokio::test(start_paused = true)]
async fn close_does_not_wait_longer_than_its_limit() {
    let (client, mut server) = connect(Client::builder()).await;
    let mut events = client.events().await;
    let (status, ()) = tokio::join!(client.close_within(Duration::from_secs(1)), async {
        assert_eq!(server.lines.next().await.unwrap(), None);
    });
    assert_eq!(status, None);
    assert_eq!(events.next().await, Ok(None));
}

#[tokio::test(start_paused = true)]
async fn close_does_not_wait_for_a_server_that_does_not_read() {
    let (client, mut server) = connect(Client::builder()).await;
    let (turn, ()) = tokio::join!(client.prompt("Go"), async {
        let prompt = server.read().await;
        server.respond(&prompt, json!({"disposition": "started"})).await;
    });
    let turn = turn.unwrap();
    let long = "x".repeat(2 << 20);
    let (refused, status) =
        tokio::join!(turn.steer(long), client.close_within(Duration::from_secs(1)));
    assert_eq!(refused.unwrap_err(), ClientError::Closed);
    assert_eq!(status, None);
}

#[tokio::test]
async fn dropped_client_fails_its_turns() {
    let (client, mut server) = connect(Client::builder()).await;
    let (turn, ()) = tokio::join!(client.prompt("Go"), async {
        let prompt = server.read().await;
        server.respond(&prompt, json!({"disposition": "started"})).await;
    });
    let mut turn = turn.unwrap();
    drop(client);
    assert_eq!(turn.next().await, Err(ClientError::Closed));
    assert_eq!(turn.steer("More").await.unwrap_err(), ClientError::Closed);
    assert_eq!(server.lines.next().await.unwrap(), None);
}

#[tokio::test]
async fn server_that_does_not_read_still_delivers_events() {
    let (client, mut server) = connect(Client::builder()).await;
    let mut events = client.events().await;
    let long = "x".repeat(2 << 20);
    let prompt = client.prompt(long.clone());
    let read = async {
        server.write(json!({"type": "brand_new", "seq": 7, "epoch": "e"})).await;
        let event = events.next().await.unwrap().unwrap();
        assert!(matches!(event.record(), Record::Unknown(_)));
        assert_eq!((event.seq(), client.position()), (7, event.position()));
        let prompt = server.read().await;
        assert_eq!(prompt["message"], long);
        server.respond(&prompt, json!({"disposition": "started"})).await;
    };
    tokio::join!(prompt, read).0.unwrap();
}

#[tokio::test]
async fn caller_that_gives_up_does_not_disturb_the_next() {
    let (client, mut server) = connect(Client::builder()).await;
    let first = tokio::select! {
        _ = client.get_limits() => panic!("there was no response"),
        command = server.read() => command,
    };
    let (limits, ()) = tokio::join!(client.get_limits(), async {
        let second = server.read().await;
        server.respond(&first, json!({"limits": {"maxTurns": 1}})).await;
        server.respond(&second, json!({"limits": {"maxTurns": 2}})).await;
    });
    assert_eq!(limits.unwrap().limits.max_turns, Some(2));
}

/// A client with tools, and the server after their registration.
async fn connect_tools(tools: Vec<Tool>) -> (Client, Server) {
    let (reader, writer, mut server) = Server::pipe(PIPE_BYTES);
    let builder = tools.into_iter().fold(Client::builder(), Builder::tool);
    let (client, ()) = tokio::join!(builder.attach(reader, writer), async {
        server.greet().await;
        let command = server.read().await;
        let names: Vec<&Value> =
            command["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
        let data = json!({"toolNames": names});
        server.respond(&command, data).await;
    });
    (client.unwrap(), server)
}

fn call(id: &str, tool: &str) -> Value {
    json!({
        "type": "host_tool_call", "id": id, "toolCallId": "call_1", "toolName": tool,
        "arguments": {"name": "Ada"},
    })
}

#[derive(serde::Deserialize)]
struct Greeting {
    name: String,
}

#[tokio::test]
async fn every_call_of_a_tool_gets_a_result() {
    let greet = |greeting: Greeting, _| async move { Ok(ToolOutput::text(greeting.name)) };
    let tools = vec![
        Tool::new("greet", "Greets", json!({}), greet),
        Tool::new("fail", "Fails", json!({}), |_: Value, _| async {
            Err("the tide is out".into())
        }),
        Tool::new("crash", "Crashes", json!({}), |_: Value, _| async { panic!("a bug") }),
        Tool::new("count", "Counts", json!({}), |_: Vec<u8>, _| async {
            Ok(ToolOutput::default())
        }),
    ];
    let (_client, mut server) = connect_tools(tools).await;
    let expected = [
        ("greet", false, "Ada"),
        ("fail", true, "the tide is out"),
        ("crash", true, "The tool crash has crashed"),
        ("count", true, "invalid type: map, expected a sequence"),
        ("none", true, "The host no longer has the tool none"),
    ];
    for (tool, is_error, text) in expected {
        server.write(call("host_1", tool)).await;
        let result = server.read().await;
        assert_eq!(result["type"], "host_tool_result");
        assert_eq!(result["id"], "host_1");
        assert_eq!(result["isError"].as_bool().unwrap_or_default(), is_error, "{tool}");
        assert_eq!(result["result"]["content"][0]["text"], text);
    }
}

#[tokio::test]
async fn refused_result_becomes_an_error_result() {
    let look = Tool::new("look", "Looks", json!({}), |_: Value, _| async {
        Ok(ToolOutput::text("a shore"))
    });
    let (_client, mut server) = connect_tools(vec![look]).await;
    server.write(call("host_1", "look")).await;
    assert_eq!(server.read().await["result"]["content"][0]["text"], "a shore");
    server
        .write(json!({
            "id": "host_1", "type": "response", "command": "host_tool_result", "success": false,
            "error": "not today",
        }))
        .await;
    let result = server.read().await;
    assert_eq!((&result["id"], &result["isError"]), (&json!("host_1"), &json!(true)));
    assert_eq!(result["result"]["content"][0]["text"], "not today");
}

#[tokio::test]
async fn cancelled_call_sends_no_result() {
    let wait =
        Tool::new("wait", "Waits", json!({}), |_: Value, context: crate::ToolContext| async move {
            context.update(ToolOutput::text("waiting")).await;
            context.cancelled().await;
            assert!(context.is_cancelled());
            Ok(ToolOutput::text("too late"))
        });
    let (client, mut server) = connect_tools(vec![wait]).await;
    server.write(call("host_1", "wait")).await;
    assert_eq!(server.read().await["type"], "host_tool_update");
    server.write(json!({"type": "host_tool_cancel", "id": "c", "targetId": "host_1"})).await;
    let (state, ()) = tokio::join!(client.request::<()>(Command::Abort), async {
        // The result would come before this command.
        let command = server.read().await;
        assert_eq!(command["type"], "abort");
        server.respond(&command, Value::Null).await;
    });
    state.unwrap();
}

#[tokio::test]
async fn refused_tools_leave_the_registered_ones() {
    let tool = |name: &str| {
        Tool::new(name, "", json!({}), |_: Value, _| async { Ok(ToolOutput::text("here")) })
    };
    let (client, mut server) = connect_tools(vec![tool("one")]).await;
    let (refused, ()) = tokio::join!(client.add_tool(tool("two")), async {
        let command = server.read().await;
        assert_eq!(command["tools"].as_array().unwrap().len(), 2);
        server
            .write(json!({
                "id": command["id"], "type": "response", "command": "set_host_tools",
                "success": false, "error": "no",
            }))
            .await;
    });
    assert_eq!(refused.unwrap_err().to_string(), "set_host_tools: no");
    let (removed, ()) = tokio::join!(client.remove_tool("one"), async {
        let command = server.read().await;
        assert_eq!(command["tools"], json!([]));
        server.respond(&command, json!({"toolNames": []})).await;
    });
    removed.unwrap();
}
