//! `abort` at every point of a run: it is answered, the run is closed, and the next prompt works.

use serde_json::{Value, json};

use super::super::bench::Bench;
use super::super::check::{Check, Group, NotMet, expect, expect_eq};
use super::super::laws;
use super::super::line::{ServerLine, text_of};
use super::super::peer::Peer;
use super::super::reply::{Part, Reply};
use super::SLEEP;

const fn check(name: &'static str, run: fn(&Bench) -> Result<(), NotMet>) -> Check {
    Check { group: Group::Abort, name, run }
}

pub(super) const CHECKS: &[Check] = &[
    check("abort when idle is answered", idle),
    check("abort in the same write as the prompt", same_write),
    check("abort before the first byte of an answer", first_byte),
    check("abort in the text keeps the text", text),
    check("abort in the thinking", thinking),
    check("abort in the arguments of a call", arguments),
    check("abort during a tool", tool),
    check("abort in the pause before a retry", retry_pause),
    check("two aborts are both answered", twice),
    check("abort closes the request to the model", disconnect),
    check("abort_bash ends the client's command", bash),
];

/// Aborts, and checks that the run is closed and the next prompt works. Returns the lines of the
/// aborted run.
fn abort(peer: &mut Peer, mark: usize) -> Result<Vec<ServerLine>, NotMet> {
    peer.must(json!({"type": "abort"}))?;
    let end = peer.settle(mark)?;
    let lines = peer.lines()[mark..=end].to_vec();
    laws::pairs_nest(&lines)?;
    laws::calls_have_results(&lines)?;
    next_prompt_works(peer)?;
    Ok(lines)
}

fn next_prompt_works(peer: &mut Peer) -> Result<(), NotMet> {
    let before = peer.model().requests().len();
    peer.model().push(Reply::text(&["Next."]));
    let lines = peer.run("What next?")?;
    let answer = lines.iter().rev().find_map(|line| line.ended("assistant"));
    let text = answer.map(text_of).unwrap_or_default();
    expect(text == "Next.", "the answer \"Next.\" to the next prompt", || format!("{text:?}"))?;
    let requests = peer.model().requests();
    expect_eq(&(requests.len() - before), &1, "the number of requests after the abort:")?;
    Ok(laws::history_is_complete(&requests[before])?)
}

/// The aborted answer: the last one of the run.
fn aborted_answer(lines: &[ServerLine]) -> Result<Value, NotMet> {
    let answer = lines.iter().rev().find_map(|line| line.ended("assistant"));
    let answer =
        answer.ok_or_else(|| NotMet::from("expected an aborted answer; came none".to_owned()))?;
    expect_eq(&answer["stopReason"], &json!("aborted"), "stopReason")?;
    Ok(answer.clone())
}

/// Starts a run whose answer has these parts and then stalls; waits for the step, and aborts.
fn abort_at(bench: &Bench, parts: Vec<Part>, step: &str) -> Result<Vec<ServerLine>, NotMet> {
    let mut peer =
        bench.start(vec![Reply::Stream(parts.into_iter().chain([Part::Stall]).collect())])?;
    let mark = peer.prompt("Long?")?;
    peer.wait(mark, step, |line| line.is_step(step))?;
    abort(&mut peer, mark)
}

fn idle(bench: &Bench) -> Result<(), NotMet> {
    let mut peer = bench.start(vec![])?;
    let mark = peer.mark();
    peer.must(json!({"type": "abort"}))?;
    let started = peer.since(mark).iter().any(|line| line.is("agent_start"));
    expect(!started, "no run", || "agent_start".into())?;
    next_prompt_works(&mut peer)
}

fn same_write(bench: &Bench) -> Result<(), NotMet> {
    let mut peer = bench.start(vec![])?;
    let mark = peer.mark();
    let prompt = json!({"id": "p", "type": "prompt", "message": "Now?"});
    peer.write(format!("{prompt}\n{}\n", json!({"id": "a", "type": "abort"})));
    peer.response(mark, &json!("p"))?;
    let response = peer.response(mark, &json!("a"))?;
    expect(response.succeeded(), "success of abort", || response.summary())?;
    let end = peer.settle(mark)?;
    let requests = peer.model().requests().len();
    expect(requests == 0, "no request to the model", || format!("{requests}"))?;
    aborted_answer(&peer.lines()[mark..=end])?;
    next_prompt_works(&mut peer)
}

fn first_byte(bench: &Bench) -> Result<(), NotMet> {
    let mut peer = bench.start(vec![Reply::Silence])?;
    let mark = peer.prompt("Anything?")?;
    let asked = peer.model().wait_for_requests(1, peer.limit());
    expect(asked, "a request to the model", || "none".into())?;
    aborted_answer(&abort(&mut peer, mark)?).map(|_| ())
}

fn text(bench: &Bench) -> Result<(), NotMet> {
    let lines = abort_at(bench, vec![Part::Text("Half an ans")], "text_delta")?;
    let answer = aborted_answer(&lines)?;
    expect_eq(&text_of(&answer), &"Half an ans".to_owned(), "the text")
}

fn thinking(bench: &Bench) -> Result<(), NotMet> {
    let lines = abort_at(bench, vec![Part::Thinking("Let me see")], "thinking_delta")?;
    aborted_answer(&lines).map(|_| ())
}

fn arguments(bench: &Bench) -> Result<(), NotMet> {
    let call =
        Part::CallStart { id: "call_1", name: "bash", arguments: "{\"command\": \"touch ran" };
    let lines = abort_at(bench, vec![call], "toolcall_delta")?;
    aborted_answer(&lines).map(|_| ())
}

fn tool(bench: &Bench) -> Result<(), NotMet> {
    let mut peer = bench.start(vec![Reply::bash("call_1", SLEEP)])?;
    let mark = peer.prompt("Sleep?")?;
    peer.wait_for_file("begun")?;
    let lines = abort(&mut peer, mark)?;
    let result = lines.iter().find_map(|line| line.ended("toolResult"));
    let is_error = result.map(|result| &result["isError"]);
    expect(is_error == Some(&json!(true)), "an error result", || format!("{is_error:?}"))
}

fn retry_pause(bench: &Bench) -> Result<(), NotMet> {
    let settings = json!({"retry": {"enabled": true, "maxRetries": 3, "baseDelayMs": 60_000}});
    let mut peer = bench.start_with(vec![Reply::Refusal(500)], &settings)?;
    let mark = peer.prompt("Once more?")?;
    peer.wait_kind(mark, "auto_retry_start")?;
    let lines = abort(&mut peer, mark)?;
    let end = lines.iter().find(|line| line.is("auto_retry_end"));
    let success = end.map(|line| line.field("success"));
    expect(success == Some(&json!(false)), "auto_retry_end without success", || {
        format!("{success:?}")
    })
}

fn twice(bench: &Bench) -> Result<(), NotMet> {
    let mut peer = bench.start(vec![Reply::Stream(vec![Part::Text("Half"), Part::Stall])])?;
    let mark = peer.prompt("Long?")?;
    peer.wait(mark, "text_delta", |line| line.is_step("text_delta"))?;
    let (first_mark, first) = peer.post(json!({"type": "abort"}));
    let (second_mark, second) = peer.post(json!({"type": "abort"}));
    for (mark, id) in [(first_mark, first), (second_mark, second)] {
        let response = peer.response(mark, &id)?;
        expect(response.succeeded(), "success of abort", || response.summary())?;
    }
    peer.settle(mark)?;
    next_prompt_works(&mut peer)
}

fn disconnect(bench: &Bench) -> Result<(), NotMet> {
    let mut peer = bench.start(vec![Reply::Stream(vec![Part::Text("Half"), Part::Stall])])?;
    let mark = peer.prompt("Long?")?;
    peer.wait(mark, "text_delta", |line| line.is_step("text_delta"))?;
    peer.must(json!({"type": "abort"}))?;
    let closed = peer.model().wait_for_disconnect(peer.limit());
    expect(closed, "that the connection to the model is closed", || "an open connection".into())
}

fn bash(bench: &Bench) -> Result<(), NotMet> {
    let mut peer = bench.start(vec![])?;
    let (mark, id) = peer.post(json!({"type": "bash", "command": SLEEP}));
    peer.wait_for_file("begun")?;
    peer.must(json!({"type": "abort_bash"}))?;
    let response = peer.response(mark, &id)?;
    expect_eq(&response.data()["cancelled"], &json!(true), "cancelled")
}
