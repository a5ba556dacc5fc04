//! Approvals on the command line.

use expect_test::expect;
use serde_json::{Value, json};

use super::client::Place;

const WRITES: &str = "call write {\"path\":\"a.txt\",\"content\":\"a\"}\n\nsay Done.";

/// Runs a script with `--mode json` and returns the results of its tools.
fn results(place: &Place, arguments: &[&str]) -> Vec<String> {
    let mut all = vec!["--mode", "json", "--no-session", "--script", "talk.script"];
    all.extend(arguments);
    let output = place.output(&all, "");
    let records = String::from_utf8(output.stdout).unwrap();
    let records = records.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let ends = records.filter(|record| record["type"] == "tool_execution_end");
    ends.map(|end| end["result"]["content"][0]["text"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn call_that_needs_an_approval_is_denied_where_no_client_can_answer() {
    let place = Place::new().with("talk.script", WRITES);
    assert_eq!(
        results(&place, &["--approvals", "ask", "Go"]),
        [
            "The call was denied: it needs the user's approval, and there is no client that can ask. \
         A rule in `permissions.allow` of the user's settings.json can allow it."
        ]
    );
    assert!(!place.path().join("a.txt").exists());
    assert_eq!(
        results(&place, &["--approvals", "edits", "Go"]),
        ["Successfully wrote 1 bytes to a.txt"]
    );
}

#[test]
fn flag_replaces_the_setting_of_the_user() {
    let place = Place::new().with("talk.script", WRITES);
    std::fs::create_dir_all(place.path().join(".pi/agent")).unwrap();
    let place = place.with(".pi/agent/settings.json", r#"{"approvals":"read-only"}"#);
    assert_eq!(
        results(&place, &["Go"]),
        ["The call was refused: approvals are `read-only`, so only reading tools run."]
    );
    assert_eq!(
        results(&place, &["--approvals", "off", "Go"]),
        ["Successfully wrote 1 bytes to a.txt"]
    );
}

#[test]
fn unknown_mode_is_an_error() {
    let output = Place::new().output(&["--approvals", "always", "-p", "Go"], "");
    expect![[r#"
        Error: Invalid value "always" for --approvals <MODE>: expected one of: off, edits, ask, read-only
    "#]]
    .assert_eq(&String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn client_is_asked_and_its_answer_decides() {
    let mut client = Place::new().rpc(WRITES, &["--approvals", "ask"]);
    client.say(&json!({"id": "1", "type": "prompt", "message": "Go"}));
    let question = client.until_type("extension_ui_request").pop().unwrap();
    assert_eq!(question["toolName"], "write");
    assert_eq!(question["args"], json!({"path": "a.txt", "content": "a"}));
    client.say(&json!({"type": "extension_ui_response", "id": question["id"], "value": "Allow"}));
    let records = client.until_type("agent_settled");
    let end = records.iter().find(|record| record["type"] == "tool_execution_end").unwrap();
    assert_eq!(end["isError"], false);
}
