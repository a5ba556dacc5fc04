//! Steering and follow-up messages.

use serde_json::{Value, json};

use super::super::bench::Bench;
use super::super::check::{Check, Group, NotMet, expect, expect_eq};
use super::super::laws::conversation;
use super::super::peer::Peer;
use super::super::reply::Reply;
use super::WAIT_FOR_GO;

const fn check(name: &'static str, run: fn(&Bench) -> Result<(), NotMet>) -> Check {
    Check { group: Group::Queues, name, run }
}

pub(super) const CHECKS: &[Check] = &[
    check("steer during a tool is in the next request", steer),
    check("follow_up is sent when the run would end", follow_up),
    check("steering one at a time takes a turn each", steering_one_at_a_time),
    check("steering all is sent in one request", steering_all),
    check("follow-ups one at a time take a turn each", follow_ups_one_at_a_time),
    check("follow-ups all are sent in one request", follow_ups_all),
    check("a prompt with streamingBehavior is queued", streaming_behavior),
    check("queue_update shows the queue fill and empty", queue_update),
    check("two messages with one text are two messages", same_text),
    check("a queued message survives an abort", survives_abort),
    check("clear_queue empties the queues", clear_queue),
];

/// A server whose first tool waits until [`finish`]; its prompt has been sent.
fn busy(bench: &Bench, mode: Option<Value>) -> Result<(Peer, usize), NotMet> {
    let mut replies = vec![Reply::bash("call_1", WAIT_FOR_GO)];
    replies.extend([&["One."], &["Two."], &["Three."], &["Four."]].map(|text| Reply::text(text)));
    let mut peer = bench.start(replies)?;
    if let Some(mode) = mode {
        peer.must(mode)?;
    }
    let mark = peer.prompt("Start?")?;
    peer.wait_for_file("begun")?;
    Ok((peer, mark))
}

/// Lets the tool end, waits for the end of the run, and returns the conversations of all requests
/// after the first, each without what the request before it had.
fn finish(peer: &mut Peer, mark: usize) -> Result<Vec<Vec<String>>, NotMet> {
    peer.create_file("go")?;
    peer.settle(mark)?;
    let requests: Vec<Vec<String>> = peer.model().requests().iter().map(conversation).collect();
    let new = |pair: &[Vec<String>]| {
        let added = pair[1].iter().skip(pair[0].len()).cloned();
        added.filter(|line| line.starts_with("user")).collect()
    };
    Ok(requests.windows(2).map(new).collect())
}

fn queue(peer: &mut Peer, command: &str, message: &str) -> Result<(), NotMet> {
    peer.must(json!({"type": command, "message": message})).map(|_| ())
}

fn steer(bench: &Bench) -> Result<(), NotMet> {
    let (mut peer, mark) = busy(bench, None)?;
    queue(&mut peer, "steer", "Left?")?;
    let sent = finish(&mut peer, mark)?;
    expect_eq(&sent, &vec![vec!["user Left?"]], "new user messages per request:")
}

fn follow_up(bench: &Bench) -> Result<(), NotMet> {
    let (mut peer, mark) = busy(bench, None)?;
    queue(&mut peer, "follow_up", "Then?")?;
    let sent = finish(&mut peer, mark)?;
    expect_eq(&sent, &vec![vec![], vec!["user Then?"]], "new user messages per request:")
}

fn two(bench: &Bench, command: &str, mode: Value) -> Result<Vec<Vec<String>>, NotMet> {
    let (mut peer, mark) = busy(bench, Some(mode))?;
    queue(&mut peer, command, "A?")?;
    queue(&mut peer, command, "B?")?;
    finish(&mut peer, mark)
}

fn steering_one_at_a_time(bench: &Bench) -> Result<(), NotMet> {
    let mode = json!({"type": "set_steering_mode", "mode": "one-at-a-time"});
    let sent = two(bench, "steer", mode)?;
    expect_eq(&sent, &vec![vec!["user A?"], vec!["user B?"]], "new user messages per request:")
}

fn steering_all(bench: &Bench) -> Result<(), NotMet> {
    let sent = two(bench, "steer", json!({"type": "set_steering_mode", "mode": "all"}))?;
    expect_eq(&sent, &vec![vec!["user A?", "user B?"]], "new user messages per request:")
}

fn follow_ups_one_at_a_time(bench: &Bench) -> Result<(), NotMet> {
    let mode = json!({"type": "set_follow_up_mode", "mode": "one-at-a-time"});
    let sent = two(bench, "follow_up", mode)?;
    let expected = vec![vec![], vec!["user A?"], vec!["user B?"]];
    expect_eq(&sent, &expected, "new user messages per request:")
}

fn follow_ups_all(bench: &Bench) -> Result<(), NotMet> {
    let sent = two(bench, "follow_up", json!({"type": "set_follow_up_mode", "mode": "all"}))?;
    expect_eq(&sent, &vec![vec![], vec!["user A?", "user B?"]], "new user messages per request:")
}

fn streaming_behavior(bench: &Bench) -> Result<(), NotMet> {
    let (mut peer, mark) = busy(bench, None)?;
    for (behavior, message) in [("followUp", "Then?"), ("steer", "Left?")] {
        peer.must(json!({"type": "prompt", "message": message, "streamingBehavior": behavior}))?;
    }
    let sent = finish(&mut peer, mark)?;
    expect_eq(
        &sent,
        &vec![vec!["user Left?"], vec!["user Then?"]],
        "new user messages per request:",
    )
}

fn queue_update(bench: &Bench) -> Result<(), NotMet> {
    let (mut peer, mark) = busy(bench, None)?;
    queue(&mut peer, "steer", "Left?")?;
    queue(&mut peer, "follow_up", "Then?")?;
    finish(&mut peer, mark)?;
    let updates = peer.since(mark).iter().filter(|line| line.is("queue_update"));
    let updates: Vec<Value> =
        updates.map(|line| json!([line.field("steering"), line.field("followUp")])).collect();
    let expected = [
        json!([["Left?"], []]),
        json!([["Left?"], ["Then?"]]),
        json!([[], ["Then?"]]),
        json!([[], []]),
    ];
    expect_eq(&updates, &expected.to_vec(), "the queues")
}

fn same_text(bench: &Bench) -> Result<(), NotMet> {
    let (mut peer, mark) = busy(bench, None)?;
    queue(&mut peer, "follow_up", "Again?")?;
    queue(&mut peer, "follow_up", "Again?")?;
    let sent = finish(&mut peer, mark)?;
    let expected = vec![vec![], vec!["user Again?"], vec!["user Again?"]];
    expect_eq(&sent, &expected, "new user messages per request:")
}

fn survives_abort(bench: &Bench) -> Result<(), NotMet> {
    let (mut peer, mark) = busy(bench, None)?;
    queue(&mut peer, "steer", "Left?")?;
    peer.must(json!({"type": "abort"}))?;
    peer.settle(mark)?;
    let state = peer.must(json!({"type": "get_state"}))?;
    expect_eq(&state["pendingMessageCount"], &json!(1), "pendingMessageCount after the abort")?;
    peer.run("Next?")?;
    let last = peer.model().requests().last().map(conversation).unwrap_or_default();
    let is_sent = last.iter().any(|line| line == "user Left?");
    expect(is_sent, "the queued message with the next prompt", || format!("{last:?}"))
}

fn clear_queue(bench: &Bench) -> Result<(), NotMet> {
    let (mut peer, mark) = busy(bench, None)?;
    queue(&mut peer, "steer", "Left?")?;
    queue(&mut peer, "follow_up", "Then?")?;
    let cleared = peer.must_if_known(json!({"type": "clear_queue"}))?;
    let expected = json!({"steering": ["Left?"], "followUp": ["Then?"]});
    expect_eq(&cleared, &expected, "the cleared messages")?;
    let sent = finish(&mut peer, mark)?;
    expect_eq(&sent, &vec![Vec::<String>::new()], "new user messages per request:")
}
