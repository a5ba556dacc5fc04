//! Clients whose connection was cut, and that continue their stream of numbered records.

use serde_json::{Value, json};

use super::attach::streamed;
use super::client::{ServeClient, types_of};
use super::server::{ServeProcess, wait_until};

/// The numbers of these records of a session. Records without a number are not of its stream.
fn numbers(records: &[Value]) -> Vec<u64> {
    records.iter().filter_map(|record| record["seq"].as_u64()).collect()
}

fn numbered(server: &ServeProcess) -> ServeClient {
    let mut client = server.connect();
    client.ask(json!({"type": "hello", "sequence": true}));
    client
}

/// Attaches behind the last of these records. Returns the client and `data.replay`.
fn resume(server: &ServeProcess, handle: &str, records: &[Value]) -> (ServeClient, Value) {
    let epoch = records.iter().find_map(|record| record["epoch"].as_str()).unwrap();
    let since = numbers(records).into_iter().max().unwrap();
    let mut client = numbered(server);
    let attach = json!({"type": "attach", "sessionId": handle, "since": since, "epoch": epoch});
    let data = client.ask(attach);
    assert!(data["state"]["sessionId"].is_string());
    (client, data["replay"].clone())
}

fn assert_without_gap(records: &[Value]) {
    let numbers = numbers(records);
    let expected: Vec<u64> = (1..=numbers.len() as u64).collect();
    assert_eq!(numbers, expected, "numbers are missing or double");
    let epochs: Vec<&Value> = records.iter().map(|record| &record["epoch"]).collect();
    assert!(epochs.windows(2).all(|pair| pair[0] == pair[1]));
}

const GATED: &str = "say Before.\ncall bash {\"command\": \"until [ -e go ]; do sleep 0.02; done\"}\n\
                     \nrepeat 300 \"word{i} \"\n\nsay Second.";

#[test]
fn records_of_a_lost_connection_are_sent_again() {
    for web_socket in [false, true] {
        let server = if web_socket {
            ServeProcess::web_socket_script(GATED, &[])
        } else {
            ServeProcess::script(GATED, &[])
        };
        let mut observer = server.connect();
        let mut client = numbered(&server);
        let handle = client.open_in_memory();
        observer.ask(json!({"type": "attach", "sessionId": handle}));
        client.send(json!({"type": "prompt", "message": "Go", "sessionId": handle}));
        let mut records = client.until(|record| record["type"] == "tool_execution_start");
        client.cut();
        std::fs::write(server.path("go"), "").unwrap();
        let expected = observer.until_settled(&handle);
        let (mut client, replay) = resume(&server, &handle, &records);
        assert_eq!(replay["truncated"], false);
        let replayed = client.until_settled(&handle);
        let count = numbers(&replayed).len();
        assert_eq!(replay["records"], count);
        records.extend(replayed);
        client.prompt(&handle, "Again");
        records.extend(client.until_settled(&handle));
        let records: Vec<Value> =
            records.into_iter().filter(|record| record.get("seq").is_some()).collect();
        // The response of the second prompt was taken, with its number.
        let all = numbers(&records);
        assert!(all.windows(2).all(|pair| pair[0] < pair[1] && pair[1] <= pair[0] + 2), "{all:?}");
        let both = observer.until_settled(&handle);
        let expected: Vec<Value> = expected.into_iter().chain(both).collect();
        let events: Vec<Value> =
            records.into_iter().filter(|record| record["type"] != "response").collect();
        assert_eq!(types_of(&events, &handle), types_of(&expected, &handle));
        assert_eq!(streamed(&events, "text_delta"), streamed(&expected, "text_delta"));
    }
}

/// The connection is cut again and again in the middle of one answer.
#[test]
fn no_record_is_lost_and_none_comes_twice() {
    let server = ServeProcess::script("pace 2ms\nrepeat 400 \"word{i} \"", &[]);
    let mut client = numbered(&server);
    let handle = client.open_in_memory();
    client.send(json!({"type": "prompt", "message": "Go", "sessionId": handle}));
    let mut records = Vec::new();
    for _ in 0..12 {
        let read = records.len();
        let far = |record: &Value| {
            record["seq"].as_u64() >= Some(read as u64 + 20) || record["type"] == "agent_settled"
        };
        records.extend(client.until(far).into_iter().filter(|one| one.get("seq").is_some()));
        client.cut();
        let (again, replay) = resume(&server, &handle, &records);
        assert_eq!(replay["truncated"], false, "{replay}");
        client = again;
        if records.last().unwrap()["type"] == "agent_settled" {
            break;
        }
    }
    if records.last().unwrap()["type"] != "agent_settled" {
        records.extend(client.until_settled(&handle));
    }
    assert_without_gap(&records);
    let whole: String = (1..=400).map(|n| format!("word{n} ")).collect();
    assert_eq!(streamed(&records, "text_delta"), whole);
}

/// The server has not noticed yet that the old connection is gone; or it is not.
#[test]
fn stream_of_a_client_that_is_still_there_is_taken_over() {
    let server = ServeProcess::script("say One.\n\nsay Two.", &[]);
    let mut old = numbered(&server);
    let handle = old.open_in_memory();
    old.send(json!({"type": "prompt", "message": "Go", "sessionId": handle}));
    let mut records = old.until_settled(&handle);
    let (mut new, replay) = resume(&server, &handle, &records);
    assert_eq!(replay, json!({"records": 0, "truncated": false}));
    assert_eq!(old.take_type(&handle, "session_detached")["reason"], "taken_over");
    old.refused(json!({"type": "get_state", "sessionId": handle}), "unknown_session");
    new.send(json!({"type": "prompt", "message": "Go on", "sessionId": handle}));
    records.extend(new.until_settled(&handle));
    assert_without_gap(&records);
}

#[test]
fn stream_that_is_not_kept_is_truncated() {
    let server = ServeProcess::script("say One.\nhang", &[]);
    let mut client = numbered(&server);
    let handle = client.open_in_memory();
    client.send(json!({"type": "prompt", "message": "Go", "sessionId": handle}));
    let records = client.until(|record| record["assistantMessageEvent"]["type"] == "text_delta");
    let epoch = records.iter().find_map(|record| record["epoch"].as_str()).unwrap();
    for (since, epoch) in [(3, "no-such-epoch"), (1_000_000, epoch), (u64::MAX, epoch), (1, "")] {
        let mut other = numbered(&server);
        let mut attach = json!({"type": "attach", "sessionId": handle, "since": since});
        if !epoch.is_empty() {
            attach["epoch"] = json!(epoch);
        }
        let data = other.ask(attach);
        assert_eq!(data["replay"], json!({"records": 0, "truncated": true}), "{since}");
        let open = other.arrived_of(&handle);
        assert_eq!(types_of(&open, &handle), ["agent_start", "turn_start", "message_start"]);
        assert_eq!(numbers(&open)[0], 1);
        assert_ne!(open[0]["epoch"], epoch);
    }
}

/// A session keeps the streams of four clients that are gone.
#[test]
fn oldest_stream_is_forgotten() {
    let server = ServeProcess::script("say One.\n\nsay Two.", &[]);
    let mut owner = server.connect();
    let handle = owner.open_in_memory();
    let mut streams = Vec::new();
    for number in 0..5 {
        let mut client = numbered(&server);
        client.ask(json!({"type": "attach", "sessionId": handle}));
        let name = json!({"type": "set_session_name", "name": format!("{number}")});
        let mut name = name;
        name["sessionId"] = json!(handle);
        client.send(name);
        streams.push(
            client.until(|record| record["type"] == "response" && record.get("seq").is_some()),
        );
        client.cut();
        wait_until("the client is gone", || {
            let listed = server.connect().ask(json!({"type": "list_open_sessions"}));
            listed["sessions"][0]["clients"] == 1
        });
    }
    let truncated = |records: &[Value]| resume(&server, &handle, records).1["truncated"].clone();
    assert_eq!(truncated(&streams[0]), true);
    for stream in streams[2..].iter().rev() {
        assert_eq!(truncated(stream), false);
    }
}
