//! Whether the server starts at all, and whether it writes `agent_settled`.

use tiller_protocol::Level;

use super::super::bench::Bench;
use super::super::check::{NotMet, expect};
use super::super::line::text_of;
use super::super::reply::Reply;

/// What the other checks need to know about the server.
pub(in super::super) struct Probe {
    pub(in super::super) settles: bool,
}

/// Starts the server and sends a prompt.
pub(in super::super) fn probe(bench: &Bench) -> Result<Probe, NotMet> {
    let mut peer = bench.start(vec![Reply::text(&["Hello."])])?;
    if bench.level == Level::Xcsh {
        let first = peer.lines().first().map(|line| line.kind().to_owned());
        expect(first.as_deref() == Some("ready"), "the record ready first", || {
            format!("{first:?}")
        })?;
    }
    let mark = peer.prompt("Are you there?")?;
    let end = peer.wait_kind(mark, "agent_end")?;
    let answer = peer.since(mark).iter().rev().find_map(|line| line.ended("assistant"));
    let text = answer.map(text_of).unwrap_or_default();
    expect(text == "Hello.", "the model's answer \"Hello.\"", || format!("{text:?}"))?;
    // Two requests later, a server that writes agent_settled has written it, or will do so soon.
    peer.ask(serde_json::json!({"type": "get_state"}))?;
    peer.ask(serde_json::json!({"type": "get_messages"}))?;
    let settles = peer.since(end).iter().any(|line| line.is("agent_settled"));
    let settles = settles || peer.wait_kind(end, "agent_settled").is_ok();
    Ok(Probe { settles })
}
