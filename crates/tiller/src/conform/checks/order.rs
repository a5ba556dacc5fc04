//! The order and content of the events of a run.

use serde_json::{Value, json};
use tiller_protocol::{Level, Stream};

use super::super::bench::Bench;
use super::super::check::{Check, Group, NotMet, expect, expect_eq};
use super::super::laws;
use super::super::line::{ServerLine, text_of};
use super::super::reply::{Part, Reply};
use super::WAIT_FOR_GO;

const fn check(name: &'static str, run: fn(&Bench) -> Result<(), NotMet>) -> Check {
    Check { group: Group::Order, name, run }
}

pub(super) const CHECKS: &[Check] = &[
    check("the response to a prompt comes before agent_start", response_first),
    check("runs, turns and messages nest", nesting),
    check("deltas join to the message of message_end", deltas),
    check("updates have the form of the level", update_form),
    check("agent_end is followed by one agent_settled", settled),
    check("agent_end lists the messages of the run", run_messages),
    check("every tool call has one result, in order", results),
    check("a failing tool gives an error result", failing_tool),
    check("a call of an unknown tool gives an error result", unknown_tool),
    check("invalid arguments give an error result", invalid_arguments),
    check("a prompt during a run is refused", busy),
    check("the second prompt of one write is refused", two_prompts),
    check("commands are answered during a run", during_run),
    check("get_messages lists what message_end announced", messages_agree),
];

/// A run with thinking, text, two tool calls and a second answer.
fn rich_run(bench: &Bench) -> Result<Vec<ServerLine>, NotMet> {
    let first = Reply::Stream(vec![
        Part::Thinking("They want "),
        Part::Thinking("two things."),
        Part::Text("I look "),
        Part::Text("at both."),
        // The first call ends last.
        Part::bash("call_1", "until [ -e second ]; do sleep 0.02; done; echo one"),
        Part::bash("call_2", "touch second; echo two"),
    ]);
    let mut peer = bench.start(vec![first, Reply::text(&["All ", "done."])])?;
    peer.run("What is here?")
}

fn response_first(bench: &Bench) -> Result<(), NotMet> {
    let lines = rich_run(bench)?;
    let kinds: Vec<&str> = lines.iter().map(ServerLine::kind).collect();
    let place = |kind| kinds.iter().position(|one| *one == kind);
    expect(place("response") < place("agent_start"), "response before agent_start", || {
        kinds.join(", ")
    })
}

fn nesting(bench: &Bench) -> Result<(), NotMet> {
    Ok(laws::pairs_nest(&rich_run(bench)?)?)
}

fn deltas(bench: &Bench) -> Result<(), NotMet> {
    let lines = rich_run(bench)?;
    let count = |kind| lines.iter().filter(|line| line.is_step(kind)).count();
    for kind in ["thinking_delta", "text_delta", "toolcall_delta"] {
        expect(count(kind) > 0, &format!("at least one {kind}"), || "none".into())?;
    }
    Ok(laws::deltas_join(&lines)?)
}

fn update_form(bench: &Bench) -> Result<(), NotMet> {
    let lines = rich_run(bench)?;
    let updates: Vec<&ServerLine> = lines.iter().filter(|line| line.is("message_update")).collect();
    expect(!updates.is_empty(), "message_update", || "none".into())?;
    for update in updates {
        let forms = (update.has("message"), update.step().get("partial").is_some());
        let expected = match bench.level.stream() {
            Stream::Snapshots => (true, true),
            Stream::Deltas => (false, false),
        };
        expect_eq(&forms, &expected, "message and partial in an update:")?;
    }
    let start =
        lines.iter().find(|line| line.is("message_start") && line.message()["role"] == "assistant");
    let reason = start.map(|line| line.message()["stopReason"].clone());
    if bench.level == Level::PiDelta {
        expect_eq(&reason, &Some(json!("pending")), "stopReason in message_start")?;
    }
    Ok(())
}

fn settled(bench: &Bench) -> Result<(), NotMet> {
    let mut peer = bench.start(vec![Reply::text(&["Done."])])?;
    let mark = peer.prompt("Ready?")?;
    let end = peer.wait_kind(mark, "agent_end")?;
    peer.wait_kind(end, "agent_settled")?;
    peer.must(json!({"type": "get_state"}))?;
    let count = peer.lines().iter().filter(|line| line.is("agent_settled")).count();
    expect_eq(&count, &1, "the number of agent_settled")
}

fn run_messages(bench: &Bench) -> Result<(), NotMet> {
    let lines = rich_run(bench)?;
    let ended = laws::ended_messages(&lines);
    let end = lines.iter().rev().find(|line| line.is("agent_end"));
    let end = end.ok_or_else(|| NotMet::from("expected agent_end; came none".to_owned()))?;
    expect_eq(&laws::outlines(end.value()), &ended, "the messages")
}

fn results(bench: &Bench) -> Result<(), NotMet> {
    let lines = rich_run(bench)?;
    laws::calls_have_results(&lines)?;
    let texts: Vec<String> = lines
        .iter()
        .filter_map(|line| line.ended("toolResult"))
        .map(|message| text_of(message).trim().to_owned())
        .collect();
    expect_eq(&texts, &vec!["one".to_owned(), "two".to_owned()], "the results")
}

/// Runs a prompt whose answer makes this call. The call must give an error result, of which the
/// model is informed.
fn expect_error_result(bench: &Bench, name: &'static str, arguments: Value) -> Result<(), NotMet> {
    let call = Reply::Stream(vec![Part::Call { id: "call_1", name, arguments }]);
    let mut peer = bench.start(vec![call, Reply::text(&["I see."])])?;
    let lines = peer.run("Does it work?")?;
    laws::calls_have_results(&lines)?;
    let result = lines.iter().find_map(|line| line.ended("toolResult"));
    let is_error = result.map(|result| &result["isError"]);
    expect(is_error == Some(&json!(true)), "an error result", || format!("{is_error:?}"))?;
    let requests = peer.model().requests();
    expect_eq(&requests.len(), &2, "the number of requests to the model")?;
    Ok(laws::history_is_complete(&requests[1])?)
}

fn failing_tool(bench: &Bench) -> Result<(), NotMet> {
    expect_error_result(bench, "bash", json!({"command": "echo bad; exit 3"}))
}

fn unknown_tool(bench: &Bench) -> Result<(), NotMet> {
    expect_error_result(bench, "no_such_tool", json!({}))
}

fn invalid_arguments(bench: &Bench) -> Result<(), NotMet> {
    expect_error_result(bench, "read", json!({"path": {"not": "a text"}}))
}

fn busy(bench: &Bench) -> Result<(), NotMet> {
    let mut peer =
        bench.start(vec![Reply::bash("call_1", WAIT_FOR_GO), Reply::text(&["Done."])])?;
    let mark = peer.prompt("First?")?;
    peer.wait_for_file("begun")?;
    let second = peer.ask(json!({"type": "prompt", "message": "Second?"}))?;
    expect(!second.succeeded(), "a refusal of the second prompt", || second.summary())?;
    peer.create_file("go")?;
    peer.settle(mark)?;
    let users = peer.since(mark).iter().filter_map(|line| line.ended("user")).count();
    expect_eq(&users, &1, "the number of user messages")
}

fn two_prompts(bench: &Bench) -> Result<(), NotMet> {
    let mut peer = bench.start(vec![Reply::text(&["One."]), Reply::text(&["Two."])])?;
    let mark = peer.mark();
    let prompt = |id: &str| json!({"id": id, "type": "prompt", "message": format!("{id}?")});
    peer.write(format!("{}\n{}\n", prompt("a"), prompt("b")));
    let first = peer.response(mark, &json!("a"))?;
    let second = peer.response(mark, &json!("b"))?;
    let came = (first.succeeded(), second.succeeded());
    expect_eq(&came, &(true, false), "success of the two prompts:")?;
    peer.settle(mark)?;
    let users: Vec<String> =
        peer.since(mark).iter().filter_map(|line| line.ended("user")).map(text_of).collect();
    expect_eq(&users, &vec!["a?".to_owned()], "the user's messages")
}

fn during_run(bench: &Bench) -> Result<(), NotMet> {
    let mut peer =
        bench.start(vec![Reply::bash("call_1", WAIT_FOR_GO), Reply::text(&["Done."])])?;
    let mark = peer.prompt("Busy?")?;
    peer.wait_for_file("begun")?;
    let state = peer.must(json!({"type": "get_state"}))?;
    expect_eq(&state["isStreaming"], &json!(true), "isStreaming during the run")?;
    peer.create_file("go")?;
    peer.settle(mark)?;
    let state = peer.must(json!({"type": "get_state"}))?;
    expect_eq(&state["isStreaming"], &json!(false), "isStreaming after the run")
}

fn messages_agree(bench: &Bench) -> Result<(), NotMet> {
    let call = Reply::bash("call_1", "echo here");
    let mut peer = bench.start(vec![call, Reply::text(&["Done."]), Reply::text(&["Again."])])?;
    let mut ended = laws::ended_messages(&peer.run("First?")?);
    ended.extend(laws::ended_messages(&peer.run("Second?")?));
    let listed = laws::outlines(&peer.must(json!({"type": "get_messages"}))?);
    expect_eq(&listed, &ended, "the messages")
}
