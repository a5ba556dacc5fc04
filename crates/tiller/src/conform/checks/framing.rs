//! Lines: what ends one, what is refused, and what comes back with the response.

use serde_json::{Value, json};
use tiller_protocol::Level;

use super::super::bench::Bench;
use super::super::check::{Check, Group, NotMet, expect, expect_eq};
use super::super::line::{ServerLine, text_of};
use super::super::peer::Peer;
use super::super::reply::{Part, Reply};

const fn check(name: &'static str, run: fn(&Bench) -> Result<(), NotMet>) -> Check {
    Check { group: Group::Framing, name, run }
}

pub(super) const CHECKS: &[Check] = &[
    check("blank lines are ignored", blank_lines),
    check("CRLF ends a line", crlf),
    check("U+2028 and U+2029 do not end a line", line_separators),
    check("invalid JSON is refused as parse", invalid_json),
    check("JSON that is not an object is refused", not_an_object),
    check("invalid UTF-8 does not end the server", invalid_utf8),
    check("an unknown command is refused by name", unknown_command),
    check("unknown fields are ignored", unknown_fields),
    check("an id of any JSON type is returned", ids),
    check("an id beyond 2^53 keeps its digits", large_id),
    check("a request without id gets a response without id", no_id),
    check("a line of 4 MiB is accepted", long_line),
    check("a line may arrive in pieces", split_line),
    check("lines of one write are answered in order", many_lines),
    check("stdout has only records", only_records),
];

/// Sends a request, so that everything before it has been handled when its response is here.
/// Returns the lines up to it.
fn fence(peer: &mut Peer, mark: usize) -> Result<Vec<ServerLine>, NotMet> {
    let response = peer.ask(json!({"type": "get_state"}))?;
    expect(response.succeeded(), "an answer to get_state", || response.summary())?;
    let lines = peer.since(mark).iter();
    Ok(lines.filter(|line| **line != response).cloned().collect())
}

fn responses(lines: &[ServerLine]) -> Vec<String> {
    lines.iter().filter(|line| line.is_response()).map(ServerLine::summary).collect()
}

fn blank_lines(bench: &Bench) -> Result<(), NotMet> {
    let mut peer = bench.start(vec![])?;
    let mark = peer.mark();
    peer.write("\n   \n\t\r\n");
    let came = responses(&fence(&mut peer, mark)?);
    expect(came.is_empty(), "no response to a blank line", || came.join(", "))
}

fn crlf(bench: &Bench) -> Result<(), NotMet> {
    let mut peer = bench.start(vec![])?;
    let mark = peer.mark();
    peer.write("{\"id\":\"crlf\",\"type\":\"get_state\"}\r\n");
    let response = peer.response(mark, &json!("crlf"))?;
    expect(response.succeeded(), "an answer to a line with CRLF", || response.summary())
}

fn line_separators(bench: &Bench) -> Result<(), NotMet> {
    const SAID: &str = "one\u{2028}two\u{2029}three";
    let mut peer = bench.start(vec![Reply::text(&[SAID])])?;
    let asked = format!("{SAID}?");
    let lines = peer.run(&asked)?;
    let texts = |role| lines.iter().filter_map(|line| line.ended(role)).map(text_of).collect();
    let (users, answers): (Vec<String>, Vec<String>) = (texts("user"), texts("assistant"));
    expect_eq(&users, &vec![asked], "the user's message")?;
    expect_eq(&answers, &vec![SAID.to_owned()], "the answer")
}

fn invalid_json(bench: &Bench) -> Result<(), NotMet> {
    let mut peer = bench.start(vec![])?;
    let mark = peer.mark();
    peer.write("{\"type\":\"get_state\"\nhello\n");
    let lines = fence(&mut peer, mark)?;
    let refused = lines.iter().filter(|line| {
        line.is_response() && !line.succeeded() && line.text_field("command") == "parse"
    });
    let count = refused.count();
    expect(count == 2, "a refusal of `parse` for each of 2 lines", || {
        format!("{count}: {}", responses(&lines).join(", "))
    })
}

fn not_an_object(bench: &Bench) -> Result<(), NotMet> {
    const LINES: [&str; 5] = ["5", "[]", "\"get_state\"", "{}", "null"];
    let mut peer = bench.start(vec![])?;
    for line in LINES {
        let mark = peer.mark();
        peer.write(format!("{line}\n"));
        let lines = fence(&mut peer, mark)?;
        let refused = lines.iter().filter(|line| line.is_response() && !line.succeeded()).count();
        let expected = format!("one refusal of the line {line}");
        expect(refused == 1, &expected, || format!("{:?}", responses(&lines)))?;
    }
    Ok(())
}

fn invalid_utf8(bench: &Bench) -> Result<(), NotMet> {
    let mut peer = bench.start(vec![])?;
    let mark = peer.mark();
    peer.write(b"{\"type\":\"get_state\",\"x\":\"\xff\xfe\"}\n".to_vec());
    let lines = fence(&mut peer, mark)?;
    let count = responses(&lines).len();
    expect(count == 1, "one response to a line with invalid UTF-8", || format!("{count}"))
}

fn unknown_command(bench: &Bench) -> Result<(), NotMet> {
    let mut peer = bench.start(vec![])?;
    let mark = peer.mark();
    peer.write("{\"id\":\"u\",\"type\":\"no_such_command\"}\n");
    let lines = fence(&mut peer, mark)?;
    let response = lines.iter().find(|line| line.is_response());
    let response =
        response.ok_or_else(|| NotMet::from("expected a refusal; came none".to_owned()))?;
    let id = response.has("id").then(|| response.field("id").clone());
    let expected = (bench.level != Level::Xcsh).then(|| json!("u"));
    expect(!response.succeeded(), "a refusal", || response.summary())?;
    expect_eq(&response.text_field("command"), &"no_such_command", "the command")?;
    expect_eq(&id, &expected, "the id")
}

fn unknown_fields(bench: &Bench) -> Result<(), NotMet> {
    let mut peer = bench.start(vec![])?;
    peer.must(json!({"type": "get_state", "colour": {"deep": [1, null]}})).map(|_| ())
}

fn ids(bench: &Bench) -> Result<(), NotMet> {
    let mut peer = bench.start(vec![])?;
    let ids = [json!("gr\u{f6}\u{df}er\u{2028}"), json!(7), json!(1.5), json!(""), json!(0)];
    for id in
        ids.into_iter().chain([json!(false), json!([1, "a"]), json!({"a": {"b": 2}}), Value::Null])
    {
        let mark = peer.mark();
        peer.send(&json!({"id": id, "type": "get_state"}));
        let lines = fence(&mut peer, mark)?;
        let response = lines.iter().find(|line| line.is_response());
        let came = response
            .map(|line| if line.has("id") { line.field("id").to_string() } else { "none".into() });
        let expected = format!("the id {id}");
        expect(came == Some(id.to_string()), &expected, || came.unwrap_or("no response".into()))?;
    }
    Ok(())
}

fn large_id(bench: &Bench) -> Result<(), NotMet> {
    let mut peer = bench.start(vec![])?;
    let mark = peer.mark();
    peer.write("{\"id\":9007199254740993,\"type\":\"get_state\"}\n");
    let lines = fence(&mut peer, mark)?;
    let response = lines.iter().find(|line| line.is_response());
    let id = response.map(|line| line.field("id").to_string());
    expect_eq(&id, &Some("9007199254740993".to_owned()), "the id")
}

fn no_id(bench: &Bench) -> Result<(), NotMet> {
    let mut peer = bench.start(vec![])?;
    let mark = peer.mark();
    peer.send(&json!({"type": "get_state"}));
    let lines = fence(&mut peer, mark)?;
    let response = lines.iter().find(|line| line.is_response());
    let has_id = response.map(|line| line.has("id"));
    expect_eq(&has_id, &Some(false), "whether there is an id:")
}

fn long_line(bench: &Bench) -> Result<(), NotMet> {
    let mut peer = bench.start(vec![])?;
    let padding = "x".repeat(4 << 20);
    peer.must(json!({"type": "get_state", "padding": padding})).map(|_| ())
}

fn split_line(bench: &Bench) -> Result<(), NotMet> {
    let mut peer = bench.start(vec![])?;
    let line = "{\"id\":\"second\",\"type\":\"set_session_name\",\"name\":\"größer\"}\n".as_bytes();
    let middle = line.iter().position(|byte| *byte == 0xc3).unwrap_or(0) + 1;
    let mark = peer.mark();
    let mut first = b"{\"id\":\"first\",\"type\":\"get_state\"}\n".to_vec();
    first.extend_from_slice(&line[..middle]);
    peer.write(first);
    // The server has read the first half when it has answered the line before it.
    peer.response(mark, &json!("first"))?;
    peer.write(&line[middle..]);
    let response = peer.response(mark, &json!("second"))?;
    expect(response.succeeded(), "success of set_session_name", || response.summary())?;
    let state = peer.must(json!({"type": "get_state"}))?;
    expect_eq(&state["sessionName"], &json!("größer"), "the name")
}

fn many_lines(bench: &Bench) -> Result<(), NotMet> {
    let mut peer = bench.start(vec![])?;
    let mark = peer.mark();
    let lines: String =
        (1..=100).map(|id| format!("{{\"id\":{id},\"type\":\"get_messages\"}}\n")).collect();
    peer.write(lines);
    peer.response(mark, &json!(100))?;
    let came: Vec<u64> =
        peer.since(mark).iter().filter_map(|line| line.field("id").as_u64()).collect();
    expect_eq(&came, &(1..=100).collect::<Vec<u64>>(), "the ids")
}

fn only_records(bench: &Bench) -> Result<(), NotMet> {
    let noise = "echo to stdout; echo to stderr >&2; printf 'no line end'";
    let call = Reply::Stream(vec![Part::Text("I look."), Part::bash("call_1", noise)]);
    let mut peer = bench.start(vec![call, Reply::Refusal(400), Reply::text(&["Done."])])?;
    peer.write("not JSON\n");
    peer.run("Is this noisy?")?;
    peer.must(json!({"type": "bash", "command": noise}))?;
    peer.run("And this?")?;
    peer.close_stdin();
    peer.wait_for_exit()?;
    match peer.malformed().first() {
        Some(line) => Err(NotMet::Failed(format!("expected only records; the line {line} came"))),
        None => Ok(()),
    }
}
