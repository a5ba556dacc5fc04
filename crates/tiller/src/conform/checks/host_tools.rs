//! Tools that the client runs. A server without `set_host_tools` is not wrong: its checks are
//! skipped.

use serde_json::{Value, json};

use super::super::bench::Bench;
use super::super::check::{Check, Group, NotMet, expect, expect_eq};
use super::super::laws;
use super::super::line::text_of;
use super::super::peer::Peer;
use super::super::reply::{Part, Reply};

const fn check(name: &'static str, run: fn(&Bench) -> Result<(), NotMet>) -> Check {
    Check { group: Group::HostTools, name, run }
}

pub(super) const CHECKS: &[Check] = &[
    check("a registered tool is offered to the model", register),
    check("a call is answered by the client's result", result),
    check("isError makes an error result", error),
    check("an update is written as tool_execution_update", update),
    check("abort cancels an open call", abort),
    check("a late result has no effect", late_result),
    check("invalid arguments are not sent to the client", invalid_arguments),
];

const NAME: &str = "echo_host";

/// A server with a host tool.
fn registered(bench: &Bench, replies: Vec<Reply>) -> Result<Peer, NotMet> {
    let mut peer = bench.start(replies)?;
    let parameters = json!({"type": "object", "properties": {"message": {"type": "string"}},
        "required": ["message"]});
    let tool = json!({"name": NAME, "description": "Echo a value", "parameters": parameters});
    let data = peer.must_if_known(json!({"type": "set_host_tools", "tools": [tool]}))?;
    expect_eq(&data["toolNames"], &json!([NAME]), "toolNames")?;
    Ok(peer)
}

/// The same, with a call of the tool that waits for the client. Returns the mark of its run and the
/// id of the call.
fn called(bench: &Bench) -> Result<(Peer, usize, Value), NotMet> {
    let call = Part::Call { id: "call_1", name: NAME, arguments: json!({"message": "hello"}) };
    let mut peer = registered(bench, vec![Reply::Stream(vec![call]), Reply::text(&["Done."])])?;
    let mark = peer.prompt("Use it?")?;
    let at = peer.wait_kind(mark, "host_tool_call")?;
    let call = peer.lines()[at].clone();
    expect_eq(call.field("arguments"), &json!({"message": "hello"}), "the arguments")?;
    expect_eq(call.field("toolCallId"), &json!("call_1"), "toolCallId")?;
    let id = call.field("id").clone();
    Ok((peer, mark, id))
}

fn content(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}]})
}

/// Sends a result, waits for the end of the run, and checks the result that the model gets.
fn expect_result(
    peer: &mut Peer,
    mark: usize,
    line: &Value,
    expected: (&str, bool),
) -> Result<(), NotMet> {
    peer.send(line);
    peer.settle(mark)?;
    laws::calls_have_results(peer.since(mark))?;
    let result = peer.since(mark).iter().find_map(|line| line.ended("toolResult"));
    let came = result.map(|result| (text_of(result), result["isError"] == true));
    expect_eq(
        &came,
        &Some((expected.0.to_owned(), expected.1)),
        "the result and whether it failed:",
    )
}

fn register(bench: &Bench) -> Result<(), NotMet> {
    let mut peer = registered(bench, vec![Reply::text(&["I have it."])])?;
    peer.run("Do you have it?")?;
    let requests = peer.model().requests();
    let tools = requests[0]["tools"].as_array().map(Vec::as_slice).unwrap_or_default();
    let offered = tools.iter().any(|tool| tool["function"]["name"] == NAME);
    expect(offered, "the tool in the request to the model", || "none of that name".into())
}

fn result(bench: &Bench) -> Result<(), NotMet> {
    let (mut peer, mark, id) = called(bench)?;
    let line = json!({"type": "host_tool_result", "id": id, "result": content("echoed")});
    expect_result(&mut peer, mark, &line, ("echoed", false))
}

fn error(bench: &Bench) -> Result<(), NotMet> {
    let (mut peer, mark, id) = called(bench)?;
    let line = json!({"type": "host_tool_result", "id": id, "result": content("no good"),
        "isError": true});
    expect_result(&mut peer, mark, &line, ("no good", true))
}

fn update(bench: &Bench) -> Result<(), NotMet> {
    let (mut peer, mark, id) = called(bench)?;
    peer.send(&json!({"type": "host_tool_update", "id": id, "partialResult": content("half")}));
    let at = peer.wait_kind(mark, "tool_execution_update")?;
    let partial = text_of(peer.lines()[at].field("partialResult"));
    expect_eq(&partial, &"half".to_owned(), "the partial result")?;
    let line = json!({"type": "host_tool_result", "id": id, "result": content("whole")});
    expect_result(&mut peer, mark, &line, ("whole", false))
}

fn abort(bench: &Bench) -> Result<(), NotMet> {
    let (mut peer, mark, id) = called(bench)?;
    peer.must(json!({"type": "abort"}))?;
    peer.settle(mark)?;
    let cancel = peer.since(mark).iter().find(|line| line.is("host_tool_cancel"));
    let target = cancel.map(|line| line.field("targetId").clone());
    expect_eq(&target, &Some(id), "targetId in host_tool_cancel")?;
    Ok(laws::calls_have_results(peer.since(mark))?)
}

fn late_result(bench: &Bench) -> Result<(), NotMet> {
    let (mut peer, mark, id) = called(bench)?;
    let line = json!({"type": "host_tool_result", "id": id, "result": content("echoed")});
    expect_result(&mut peer, mark, &line, ("echoed", false))?;
    let mark = peer.mark();
    peer.send(&line);
    peer.must(json!({"type": "get_state"}))?;
    let came = peer.since(mark).len();
    expect_eq(&came, &1, "the number of records after a late result and get_state:")
}

fn invalid_arguments(bench: &Bench) -> Result<(), NotMet> {
    let call = Part::Call { id: "call_1", name: NAME, arguments: json!({"message": {"no": 1}}) };
    let mut peer = registered(bench, vec![Reply::Stream(vec![call]), Reply::text(&["I see."])])?;
    let lines = peer.run("Use it?")?;
    let sent = lines.iter().any(|line| line.is("host_tool_call"));
    expect(!sent, "no host_tool_call", || "one".into())?;
    Ok(laws::calls_have_results(&lines)?)
}
