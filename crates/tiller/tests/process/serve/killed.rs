//! A server that is killed in the middle of its work.

use std::collections::HashMap;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::server::{ServeProcess, command, processes_with, unique_word, wait_until};
use crate::client::finish;

const SESSIONS: usize = 100;

/// The messages in a session file, in their order.
fn stored(file: &PathBuf) -> Vec<Value> {
    let text = std::fs::read_to_string(file).unwrap();
    // A last line without an end was being written.
    let lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    let entries = lines.map(|line| serde_json::from_str::<Value>(line).unwrap());
    let messages = entries.filter(|entry| entry["type"] == "message");
    messages.map(|mut entry| entry["message"].take()).collect()
}

#[test]
fn server_that_is_killed_leaves_no_child_and_loses_no_message() {
    let word = unique_word();
    let long = json!({"command": format!("sleep 300; : {word}")});
    let short = json!({"command": format!("sleep 0.1; : {word}")});
    let script = format!(
        "say Working.\ncall bash {short}\n\nsay Still.\ncall bash {short}\n\ncall bash {long}\n"
    );
    let mut server = ServeProcess::script(&script, &[]);
    let mut client = server.connect();
    let mut files = HashMap::new();
    for _ in 0..SESSIONS {
        let opened = client.open(json!({}));
        let file = opened.state["sessionFile"].as_str().unwrap().to_owned();
        files.insert(opened.handle, PathBuf::from(file));
    }
    for handle in files.keys() {
        client.say(&json!({"type": "prompt", "message": "Work", "sessionId": handle}));
    }
    // Some sessions have just begun, some are in their second turn, some are in the long call.
    let mut records = Vec::new();
    for _ in 0..2 * SESSIONS {
        records.extend(client.until(|record| record["type"] == "message_end"));
    }
    wait_until("commands run", || !processes_with(&word).is_empty());
    server.signal("KILL");
    assert_eq!(server.exit_code(), None);
    records.extend(client.rest());
    wait_until("all children have ended", || processes_with(&word).is_empty());

    let mut received: HashMap<&str, Vec<&Value>> = HashMap::new();
    for record in records.iter().filter(|record| record["type"] == "message_end") {
        let handle = record["sessionId"].as_str().unwrap();
        received.entry(handle).or_default().push(&record["message"]);
    }
    assert_eq!(received.len(), SESSIONS);
    for (handle, messages) in &received {
        let file = &files[*handle];
        let stored = stored(file);
        for (index, message) in messages.iter().enumerate() {
            let found = stored.get(index).unwrap_or(&Value::Null);
            for field in ["role", "content", "timestamp"] {
                assert_eq!(found[field], message[field], "message {index} of {}", file.display());
            }
        }
    }
    let place = server.place();
    let check = |file: &PathBuf| {
        let arguments = ["session", "check", file.to_str().unwrap()];
        let output = finish(command(place, &arguments), "");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{text}");
    };
    files.values().for_each(check);
    // The next server opens one of them.
    let next = ServeProcess::script_in(place.clone(), "say Again.", &[]);
    let mut client = next.connect();
    let file = files.values().next().unwrap();
    let opened = client.open(json!({"sessionPath": file}));
    client.prompt(&opened.handle, "Go on");
    client.until_settled(&opened.handle);
    next.stop();
}
