//! Data stored in a session beside the messages, through the public interface.
#![allow(clippy::unwrap_used)]

mod common;

use common::{NOW, begin, reopen, say};
use serde_json::{Value, json};
use tiller_agent::message::{Block, Message, ToolResultMessage};
use tiller_session::{Body, Session, Storage};

fn kept(session: &Session) -> Option<Value> {
    session.newest_data("test.list", "lister").unwrap()
}

fn keep(session: &mut Session, custom_type: &str, data: Value) -> String {
    let body = Body::Custom { custom_type: custom_type.into(), data: Some(data) };
    session.append(body, NOW).unwrap()
}

fn result(session: &mut Session, tool: &str, is_error: bool, details: Value) -> String {
    let message = Message::ToolResult(ToolResultMessage {
        tool_call_id: "call".into(),
        tool_name: tool.into(),
        // Longer than the part of a line that is read to find its name.
        content: vec![Block::text("x".repeat(5000))],
        details: Some(details),
        is_error,
        usage: None,
        timestamp: NOW,
        duration_ms: None,
    });
    session.append(Body::message(message), NOW).unwrap()
}

#[test]
fn newest_data_on_the_path_to_the_leaf_wins() {
    let dir = tempfile::tempdir().unwrap();
    let mut session = begin(dir.path());
    assert_eq!(kept(&session), None);
    keep(&mut session, "test.list", json!(1));
    assert_eq!(kept(&session), Some(json!(1)), "in memory");
    say(&mut session, "hello");
    assert_eq!(kept(&session), Some(json!(1)), "on disk");
    let here = result(&mut session, "lister", false, json!(2));
    assert_eq!(kept(&session), Some(json!(2)));
    keep(&mut session, "test.list", json!(3));
    say(&mut session, "more");
    assert_eq!(kept(&session), Some(json!(3)));
    session.navigate(Some(&here), NOW).unwrap();
    assert_eq!(kept(&session), Some(json!(2)), "another branch has another list");

    let path = session.path().unwrap().to_owned();
    drop(session);
    assert_eq!(kept(&reopen(&path)), Some(json!(2)));
}

#[test]
fn data_of_other_types_is_ignored() {
    let mut session = Session::new(common::new_session(), Storage::Memory);
    keep(&mut session, "test.list", json!({"of": "ours"}));
    say(&mut session, "\"lister\" and \"test.list\"");
    keep(&mut session, "other", json!("test.list"));
    keep(&mut session, "other", json!("\"customType\":\"test.list\""));
    result(&mut session, "other", false, json!("lister"));
    result(&mut session, "lister", true, json!("failed"));
    assert_eq!(kept(&session), Some(json!({"of": "ours"})));
}

#[test]
fn type_late_in_the_line_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("odd.jsonl");
    let text = "y".repeat(5000);
    let lines = [
        r#"{"type":"session","version":3,"id":"s","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/"}"#.to_owned(),
        format!(
            r#"{{"type":"message","id":"a","parentId":null,"timestamp":"2026-01-01T00:00:00.000Z","message":{{"role":"toolResult","content":[{{"type":"text","text":"{text}"}}],"details":{{"late":true}},"toolCallId":"c","toolName":"lister","isError":false,"timestamp":1}}}}"#
        ),
    ];
    std::fs::write(&path, lines.join("\n") + "\n").unwrap();
    assert_eq!(kept(&reopen(&path)), Some(json!({"late": true})));
}
