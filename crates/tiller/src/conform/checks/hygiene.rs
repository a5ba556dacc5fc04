//! What a server leaves behind: child processes, zombies, and words on stderr.

use nix::sys::signal::Signal;
use serde_json::json;

use super::super::bench::Bench;
use super::super::check::{Check, Group, NotMet, expect};
use super::super::laws;
use super::super::peer::Peer;
use super::super::processes;
use super::super::reply::{Part, Reply};
use super::SLEEP;

const fn check(name: &'static str, run: fn(&Bench) -> Result<(), NotMet>) -> Check {
    Check { group: Group::Hygiene, name, run }
}

pub(super) const CHECKS: &[Check] = &[
    check("no child is left after abort", after_abort),
    check("no child is left after abort_bash", after_abort_bash),
    check("no child is left after EOF", after_eof),
    check("no child is left after SIGTERM", after_term),
    check("no child is left after kill -9", after_kill),
    check("no detached child is left after EOF", detached),
    check("tools leave no zombies", zombies),
    check("stderr shows no crash", crashes),
];

/// A shell command with a child in a session of its own.
const DETACH: &str = "setsid sleep 300 </dev/null >/dev/null 2>&1 & touch begun; sleep 300";
/// A shell command whose background child runs until there is a file `go`.
const BACKGROUND: &str = "until [ -e go ]; do sleep 0.01; done </dev/null >/dev/null 2>&1 &";

fn needs_proc() -> Result<(), NotMet> {
    if processes::are_listed() {
        return Ok(());
    }
    Err(NotMet::Skipped("this system does not list processes in /proc".to_owned()))
}

/// A server that runs a tool with children.
fn running(bench: &Bench, command: &str) -> Result<(Peer, usize), NotMet> {
    needs_proc()?;
    let mut peer = bench.start(vec![Reply::bash("call_1", command)])?;
    let mark = peer.prompt("Sleep?")?;
    peer.wait_for_file("begun")?;
    Ok((peer, mark))
}

/// Waits until no process works in the project but those of `allowed`.
fn expect_gone(peer: &Peer, allowed: &[u32]) -> Result<(), NotMet> {
    let project = peer.project();
    let left = || {
        let mut left = processes::working_in(&project);
        left.retain(|pid| !allowed.contains(pid));
        left
    };
    peer.poll("that the children end", || left().is_empty()).map_err(|_| {
        let why = format!("expected that all children end; {} still run", left().len());
        NotMet::Failed(why)
    })
}

fn after_abort(bench: &Bench) -> Result<(), NotMet> {
    needs_proc()?;
    let mut peer = bench.start(vec![Reply::bash("call_1", SLEEP)])?;
    let before: Vec<u32> = processes::working_in(&peer.project()).into_iter().collect();
    let mark = peer.prompt("Sleep?")?;
    peer.wait_for_file("begun")?;
    peer.must(json!({"type": "abort"}))?;
    peer.settle(mark)?;
    expect_gone(&peer, &before)
}

fn after_abort_bash(bench: &Bench) -> Result<(), NotMet> {
    needs_proc()?;
    let mut peer = bench.start(vec![])?;
    let before: Vec<u32> = processes::working_in(&peer.project()).into_iter().collect();
    let (mark, id) = peer.post(json!({"type": "bash", "command": SLEEP}));
    peer.wait_for_file("begun")?;
    peer.must(json!({"type": "abort_bash"}))?;
    peer.response(mark, &id)?;
    expect_gone(&peer, &before)
}

fn after_eof(bench: &Bench) -> Result<(), NotMet> {
    let (mut peer, _) = running(bench, SLEEP)?;
    peer.close_stdin();
    peer.wait_for_exit()?;
    expect_gone(&peer, &[])
}

fn after_term(bench: &Bench) -> Result<(), NotMet> {
    let (mut peer, _) = running(bench, SLEEP)?;
    peer.signal(Signal::SIGTERM);
    peer.wait_for_exit()?;
    expect_gone(&peer, &[])
}

fn after_kill(bench: &Bench) -> Result<(), NotMet> {
    let (mut peer, _) = running(bench, SLEEP)?;
    peer.signal(Signal::SIGKILL);
    peer.wait_for_exit()?;
    expect_gone(&peer, &[])
}

fn detached(bench: &Bench) -> Result<(), NotMet> {
    let (mut peer, _) = running(bench, DETACH)?;
    peer.close_stdin();
    peer.wait_for_exit()?;
    expect_gone(&peer, &[])
}

fn zombies(bench: &Bench) -> Result<(), NotMet> {
    needs_proc()?;
    let calls = vec![Part::bash("call_1", "true & true"), Part::bash("call_2", BACKGROUND)];
    let mut peer = bench.start(vec![Reply::Stream(calls), Reply::text(&["Done."])])?;
    let before: Vec<u32> = processes::working_in(&peer.project()).into_iter().collect();
    peer.run("Do they end?")?;
    peer.create_file("go")?;
    // Now the children have ended, and are zombies unless they were reaped.
    expect_gone(&peer, &before)?;
    let left = || processes::zombies_of(peer.pid()).len();
    peer.poll("that ended children are reaped", || left() == 0).map_err(|_| {
        let why = format!("expected that ended children are reaped; {} are zombies", left());
        NotMet::Failed(why)
    })
}

fn crashes(bench: &Bench) -> Result<(), NotMet> {
    let call = Part::CallStart { id: "call_1", name: "bash", arguments: "{\"command\": [" };
    let replies = vec![
        Reply::Stream(vec![call]),
        Reply::text(&["I see."]),
        Reply::Stream(vec![Part::Text("Half"), Part::Stall]),
    ];
    let mut peer = bench.start(replies)?;
    for line in ["not JSON", "[1]", "{\"type\":5}", "{\"type\":\"prompt\",\"message\":7}"] {
        peer.write(format!("{line}\n"));
    }
    peer.run("Does it break?")?;
    let mark = peer.prompt("Long?")?;
    peer.wait(mark, "text_delta", |line| line.is_step("text_delta"))?;
    peer.must(json!({"type": "abort"}))?;
    peer.close_stdin();
    peer.wait_for_exit()?;
    let stderr = peer.stderr();
    let crash = laws::crash(&stderr);
    expect(crash.is_none(), "no crash on stderr", || format!("{:?}", crash.unwrap_or_default()))
}
