//! How the process ends: by the end of stdin, and by signals.

use nix::sys::signal::Signal;
use serde_json::json;

use super::super::bench::Bench;
use super::super::check::{Check, Group, NotMet, expect, expect_eq};
use super::super::laws;
use super::super::line::ServerLine;
use super::super::peer::Peer;
use super::super::reply::{Part, Reply};
use super::SLEEP;

const fn eof(name: &'static str, run: fn(&Bench) -> Result<(), NotMet>) -> Check {
    Check { group: Group::Eof, name, run }
}

const fn signal(name: &'static str, run: fn(&Bench) -> Result<(), NotMet>) -> Check {
    Check { group: Group::Signals, name, run }
}

pub(super) const CHECKS: &[Check] = &[
    eof("EOF when idle ends the process with 0", idle),
    eof("EOF in an answer ends the process with 0", in_answer),
    eof("EOF during a tool ends the process with 0", during_tool),
    eof("a run is closed with its events at EOF", closing_events),
    eof("commands before EOF are all answered", pending_commands),
    eof("a last line without LF is answered", last_line),
    signal("SIGTERM ends an idle server", term_idle),
    signal("SIGTERM ends a server during a tool", term_during_tool),
    signal("SIGINT ends a server in an answer", int_in_answer),
];

fn expect_zero(peer: &mut Peer) -> Result<(), NotMet> {
    peer.close_stdin();
    let status = peer.wait_for_exit()?;
    expect(status.code() == Some(0), "exit code 0", || status.to_string())
}

/// A server in the middle of an answer.
fn answering(bench: &Bench) -> Result<Peer, NotMet> {
    let mut peer = bench.start(vec![Reply::Stream(vec![Part::Text("Half"), Part::Stall])])?;
    let mark = peer.prompt("Long?")?;
    peer.wait(mark, "text_delta", |line| line.is_step("text_delta"))?;
    Ok(peer)
}

/// A server that runs a tool.
fn running_tool(bench: &Bench) -> Result<Peer, NotMet> {
    let mut peer = bench.start(vec![Reply::bash("call_1", SLEEP)])?;
    peer.prompt("Sleep?")?;
    peer.wait_for_file("begun")?;
    Ok(peer)
}

fn idle(bench: &Bench) -> Result<(), NotMet> {
    expect_zero(&mut bench.start(vec![])?)
}

fn in_answer(bench: &Bench) -> Result<(), NotMet> {
    expect_zero(&mut answering(bench)?)
}

fn during_tool(bench: &Bench) -> Result<(), NotMet> {
    expect_zero(&mut running_tool(bench)?)
}

fn closing_events(bench: &Bench) -> Result<(), NotMet> {
    let mut peer = running_tool(bench)?;
    peer.close_stdin();
    peer.wait_for_exit()?;
    laws::pairs_nest(peer.lines())?;
    Ok(laws::calls_have_results(peer.lines())?)
}

fn pending_commands(bench: &Bench) -> Result<(), NotMet> {
    let mut peer = bench.start(vec![])?;
    let mark = peer.mark();
    let lines = (1..=20).map(|id| format!("{{\"id\":{id},\"type\":\"get_messages\"}}\n"));
    let bash = json!({"id": 21, "type": "bash", "command": "sleep 300"});
    peer.write(lines.collect::<String>() + &format!("{bash}\n"));
    peer.close_stdin();
    peer.wait_for_exit()?;
    let answered = peer.since(mark).iter().filter(|line| line.is_response());
    let answered = answered.filter_map(|line| line.field("id").as_u64()).count();
    expect_eq(&answered, &21, "the number of responses")
}

fn last_line(bench: &Bench) -> Result<(), NotMet> {
    let mut peer = bench.start(vec![])?;
    let mark = peer.mark();
    peer.write("{\"id\":\"last\",\"type\":\"get_state\"}");
    peer.close_stdin();
    peer.wait_for_exit()?;
    let answered = peer.since(mark).iter().any(|line| line.answers(&json!("last")));
    let came = || peer.since(mark).iter().map(ServerLine::summary).collect::<Vec<_>>().join(", ");
    expect(answered, "the response to the last line", || format!("[{}]", came()))
}

fn expect_exit(peer: &mut Peer, signal: Signal) -> Result<(), NotMet> {
    peer.signal(signal);
    peer.wait_for_exit().map(|_| ())
}

fn term_idle(bench: &Bench) -> Result<(), NotMet> {
    expect_exit(&mut bench.start(vec![])?, Signal::SIGTERM)
}

fn term_during_tool(bench: &Bench) -> Result<(), NotMet> {
    expect_exit(&mut running_tool(bench)?, Signal::SIGTERM)
}

fn int_in_answer(bench: &Bench) -> Result<(), NotMet> {
    expect_exit(&mut answering(bench)?, Signal::SIGINT)
}
