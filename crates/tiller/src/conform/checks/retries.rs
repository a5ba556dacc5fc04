//! Failed answers: which are retried, how often, and how a retry is announced and cancelled.

use serde_json::{Value, json};

use super::super::bench::Bench;
use super::super::check::{Check, Group, NotMet, expect, expect_eq};
use super::super::laws;
use super::super::line::{ServerLine, text_of};
use super::super::reply::{Part, Reply};

const fn check(name: &'static str, run: fn(&Bench) -> Result<(), NotMet>) -> Check {
    Check { group: Group::Retries, name, run }
}

pub(super) const CHECKS: &[Check] = &[
    check("500 is retried", status_500),
    check("429 is retried", status_429),
    check("a stream that breaks off is retried", broken_stream),
    check("400 is not retried", status_400),
    check("retries end after maxRetries", exhausted),
    check("set_auto_retry false turns retries off", turned_off),
    check("abort_retry ends the pause", abort_retry),
];

/// Runs a prompt whose first answer fails in this way and whose second succeeds. The failure must
/// be announced and retried.
fn expect_retry(bench: &Bench, failure: Reply) -> Result<(), NotMet> {
    let mut peer = bench.start(vec![failure, Reply::text(&["Now it works."])])?;
    let lines = peer.run("Does it work?")?;
    laws::pairs_nest(&lines)?;
    let starts = lines.iter().filter(|line| line.is("auto_retry_start")).count();
    expect_eq(&starts, &1, "the number of auto_retry_start")?;
    expect_eq(&retry_success(&lines), &Some(json!(true)), "success in auto_retry_end")?;
    let answer = lines.iter().rev().find_map(|line| line.ended("assistant"));
    expect_eq(&answer.map(text_of), &Some("Now it works.".to_owned()), "the answer")
}

fn retry_success(lines: &[ServerLine]) -> Option<Value> {
    let end = lines.iter().rev().find(|line| line.is("auto_retry_end"));
    end.map(|line| line.field("success").clone())
}

/// The run ended with a failed answer, after this many requests.
fn expect_failure(lines: &[ServerLine], requests: (usize, usize)) -> Result<(), NotMet> {
    laws::pairs_nest(lines)?;
    let answer = lines.iter().rev().find_map(|line| line.ended("assistant"));
    let reason = answer.map(|answer| answer["stopReason"].clone());
    expect_eq(&reason, &Some(json!("error")), "stopReason")?;
    expect_eq(&requests.0, &requests.1, "the number of requests to the model:")
}

fn status_500(bench: &Bench) -> Result<(), NotMet> {
    expect_retry(bench, Reply::Refusal(500))
}

fn status_429(bench: &Bench) -> Result<(), NotMet> {
    expect_retry(bench, Reply::Refusal(429))
}

fn broken_stream(bench: &Bench) -> Result<(), NotMet> {
    expect_retry(bench, Reply::Stream(vec![Part::Text("Half an ans"), Part::Cut]))
}

fn status_400(bench: &Bench) -> Result<(), NotMet> {
    let mut peer = bench.start(vec![Reply::Refusal(400), Reply::text(&["Never."])])?;
    let lines = peer.run("Does it work?")?;
    expect_failure(&lines, (peer.model().requests().len(), 1))
}

fn exhausted(bench: &Bench) -> Result<(), NotMet> {
    let settings = json!({"retry": {"enabled": true, "maxRetries": 2, "baseDelayMs": 10}});
    let failures = vec![Reply::Refusal(503), Reply::Refusal(503), Reply::Refusal(503)];
    let mut peer = bench.start_with(failures, &settings)?;
    let lines = peer.run("Does it work?")?;
    expect_failure(&lines, (peer.model().requests().len(), 3))?;
    expect_eq(&retry_success(&lines), &Some(json!(false)), "success in auto_retry_end")?;
    peer.model().push(Reply::text(&["Now."]));
    let lines = peer.run("And now?")?;
    let answer = lines.iter().rev().find_map(|line| line.ended("assistant"));
    expect_eq(&answer.map(text_of), &Some("Now.".to_owned()), "the answer to the next prompt")
}

fn turned_off(bench: &Bench) -> Result<(), NotMet> {
    let mut peer = bench.start(vec![Reply::Refusal(500), Reply::text(&["Never."])])?;
    peer.must(json!({"type": "set_auto_retry", "enabled": false}))?;
    let lines = peer.run("Does it work?")?;
    let announced = lines.iter().any(|line| line.is("auto_retry_start"));
    expect(!announced, "no auto_retry_start", || "one".into())?;
    expect_failure(&lines, (peer.model().requests().len(), 1))
}

fn abort_retry(bench: &Bench) -> Result<(), NotMet> {
    let settings = json!({"retry": {"enabled": true, "maxRetries": 3, "baseDelayMs": 60_000}});
    let mut peer = bench.start_with(vec![Reply::Refusal(500)], &settings)?;
    let mark = peer.prompt("Once more?")?;
    peer.wait_kind(mark, "auto_retry_start")?;
    peer.must(json!({"type": "abort_retry"}))?;
    let at = peer.wait_kind(mark, "auto_retry_end")?;
    let success = peer.lines()[at].field("success").clone();
    expect_eq(&success, &json!(false), "success in auto_retry_end")?;
    peer.settle(mark)?;
    peer.model().push(Reply::text(&["Next."]));
    peer.run("What next?").map(|_| ())
}
