//! Sessions: new, switched, forked, and read again after the server was killed.

use serde_json::{Value, json};

use super::super::bench::Bench;
use super::super::check::{Check, Group, NotMet, expect, expect_eq};
use super::super::laws;
use super::super::line::text_of;
use super::super::peer::Peer;
use super::super::reply::{Part, Reply};
use super::SLEEP;

const fn check(name: &'static str, run: fn(&Bench) -> Result<(), NotMet>) -> Check {
    Check { group: Group::Sessions, name, run }
}

pub(super) const CHECKS: &[Check] = &[
    check("new_session starts an empty session", new_session),
    check("new_session during a run closes the run first", new_session_during_run),
    check("switch_session brings back the messages", switch_session),
    check("switch_session to a missing file is refused", switch_to_missing),
    check("fork keeps what was before the message", fork),
    check("get_entries and get_messages agree", entries),
    check("set_session_name is in get_state", name),
    check("kill -9 in the first answer keeps the prompt", killed_in_first_answer),
    check("kill -9 during a tool keeps every ended message", killed_during_tool),
];

fn messages(peer: &mut Peer) -> Result<Vec<String>, NotMet> {
    Ok(laws::outlines(&peer.must(json!({"type": "get_messages"}))?))
}

fn session_file(peer: &mut Peer) -> Result<Value, NotMet> {
    let state = peer.must(json!({"type": "get_state"}))?;
    let file = state["sessionFile"].clone();
    expect(file.is_string(), "sessionFile in get_state", || file.to_string())?;
    Ok(file)
}

/// Sends a command that changes the session, which nothing cancels.
fn change(peer: &mut Peer, request: Value) -> Result<Value, NotMet> {
    let data = peer.must(request)?;
    expect_eq(&data["cancelled"], &json!(false), "cancelled")?;
    Ok(data)
}

fn new_session(bench: &Bench) -> Result<(), NotMet> {
    let mut peer = bench.start(vec![Reply::text(&["One."])])?;
    peer.run("First?")?;
    let before = peer.must(json!({"type": "get_state"}))?;
    change(&mut peer, json!({"type": "new_session"}))?;
    let after = peer.must(json!({"type": "get_state"}))?;
    let is_other = before["sessionId"] != after["sessionId"];
    expect(is_other, "another sessionId", || after["sessionId"].to_string())?;
    expect_eq(&messages(&mut peer)?, &Vec::<String>::new(), "the messages")
}

fn new_session_during_run(bench: &Bench) -> Result<(), NotMet> {
    let mut peer = bench.start(vec![Reply::Stream(vec![Part::Text("Half"), Part::Stall])])?;
    let mark = peer.prompt("Long?")?;
    peer.wait(mark, "text_delta", |line| line.is_step("text_delta"))?;
    change(&mut peer, json!({"type": "new_session"}))?;
    let lines = peer.since(mark).to_vec();
    laws::pairs_nest(&lines)?;
    peer.model().push(Reply::text(&["Next."]));
    peer.run("What next?")?;
    let expected = vec!["user What next?".to_owned(), "assistant Next.".to_owned()];
    expect_eq(&messages(&mut peer)?, &expected, "the messages")
}

fn switch_session(bench: &Bench) -> Result<(), NotMet> {
    let mut peer = bench.start(vec![Reply::text(&["One."]), Reply::text(&["Two."])])?;
    peer.run("First?")?;
    let before = messages(&mut peer)?;
    let file = session_file(&mut peer)?;
    change(&mut peer, json!({"type": "new_session"}))?;
    peer.run("Second?")?;
    change(&mut peer, json!({"type": "switch_session", "sessionPath": file}))?;
    expect_eq(&messages(&mut peer)?, &before, "the messages")
}

fn switch_to_missing(bench: &Bench) -> Result<(), NotMet> {
    let mut peer = bench.start(vec![Reply::text(&["One."])])?;
    peer.run("First?")?;
    let before = messages(&mut peer)?;
    let path = peer.project().join("missing.jsonl");
    let response = peer.ask(json!({"type": "switch_session", "sessionPath": path}))?;
    expect(!response.succeeded(), "a refusal", || response.summary())?;
    expect(!path.exists(), "no file", || "a file with that name".into())?;
    expect_eq(&messages(&mut peer)?, &before, "the messages")
}

fn fork(bench: &Bench) -> Result<(), NotMet> {
    let mut peer = bench.start(vec![Reply::text(&["One."]), Reply::text(&["Two."])])?;
    peer.run("First?")?;
    let before = messages(&mut peer)?;
    peer.run("Second?")?;
    let listed = peer.must(json!({"type": "get_fork_messages"}))?;
    let entry = listed["messages"].as_array().and_then(|list| list.last()).cloned();
    let entry = entry.unwrap_or_default();
    expect_eq(&entry["text"], &json!("Second?"), "the last message that can be forked:")?;
    let forked = change(&mut peer, json!({"type": "fork", "entryId": entry["entryId"]}))?;
    expect_eq(&forked["text"], &json!("Second?"), "the text")?;
    expect_eq(&messages(&mut peer)?, &before, "the messages")
}

fn entries(bench: &Bench) -> Result<(), NotMet> {
    let call = Reply::bash("call_1", "echo here");
    let mut peer = bench.start(vec![call, Reply::text(&["Done."])])?;
    peer.run("What is here?")?;
    let data = peer.must_if_known(json!({"type": "get_entries"}))?;
    let entries = data["entries"].as_array().map(Vec::as_slice).unwrap_or_default();
    let stored = entries.iter().filter(|entry| entry["type"] == "message");
    let stored: Vec<Value> = stored.map(|entry| entry["message"].clone()).collect();
    let stored = laws::outlines(&json!({"messages": stored}));
    expect_eq(&stored, &messages(&mut peer)?, "the messages in entries:")
}

fn name(bench: &Bench) -> Result<(), NotMet> {
    let mut peer = bench.start(vec![])?;
    peer.must(json!({"type": "set_session_name", "name": "harbour"}))?;
    let state = peer.must(json!({"type": "get_state"}))?;
    expect_eq(&state["sessionName"], &json!("harbour"), "sessionName")
}

/// Kills the server, opens the session in another one, and checks that it has every message that
/// was announced as complete and that the conversation goes on.
fn expect_reopened(bench: &Bench, mut peer: Peer, ended: &[String]) -> Result<(), NotMet> {
    let file = session_file(&mut peer)?;
    let mut peer = peer.restart(bench)?;
    change(&mut peer, json!({"type": "switch_session", "sessionPath": file}))?;
    let listed = messages(&mut peer)?;
    let kept = listed.starts_with(ended);
    expect(kept, &format!("the messages {ended:?}"), || format!("{listed:?}"))?;
    let before = peer.model().requests().len();
    peer.model().push(Reply::text(&["Next."]));
    let lines = peer.run("What next?")?;
    let answer = lines.iter().rev().find_map(|line| line.ended("assistant"));
    expect_eq(&answer.map(text_of), &Some("Next.".to_owned()), "the answer to the next prompt")?;
    let requests = peer.model().requests();
    let request = requests.get(before).cloned().unwrap_or_default();
    Ok(laws::history_is_complete(&request)?)
}

fn killed_in_first_answer(bench: &Bench) -> Result<(), NotMet> {
    let mut peer = bench.start(vec![Reply::Stream(vec![Part::Text("Half"), Part::Stall])])?;
    let mark = peer.prompt("First?")?;
    peer.wait(mark, "text_delta", |line| line.is_step("text_delta"))?;
    let ended = laws::ended_messages(peer.since(mark));
    expect_reopened(bench, peer, &ended)
}

fn killed_during_tool(bench: &Bench) -> Result<(), NotMet> {
    let call = Reply::Stream(vec![Part::Text("I sleep."), Part::bash("call_1", SLEEP)]);
    let mut peer = bench.start(vec![Reply::text(&["One."]), call])?;
    peer.run("First?")?;
    peer.prompt("Sleep?")?;
    peer.wait_for_file("begun")?;
    // Its response comes after all events so far.
    peer.must(json!({"type": "get_state"}))?;
    let ended = laws::ended_messages(peer.lines());
    expect_reopened(bench, peer, &ended)
}
