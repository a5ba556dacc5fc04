//! Large amounts of input and output, without losses.

use std::time::Duration;
use std::{fs, thread};

use serde_json::json;

use super::client::{Client, Place};

const LINE_MAX_BYTES: usize = 64 << 20;

#[test]
fn second_prompt_of_one_write_is_refused() {
    let mut client = Place::new().rpc("say Only the first.", &[]);
    client.write(
        "{\"id\":\"1\",\"type\":\"prompt\",\"message\":\"one\"}\n\
         {\"id\":\"2\",\"type\":\"prompt\",\"message\":\"two\"}\n",
    );
    assert_eq!(client.response("1")["success"], true);
    assert_eq!(client.response("2")["success"], false);
    client.until_type("agent_settled");
}

#[test]
fn abort_in_the_same_write_aborts_the_prompt() {
    let mut client = Place::new().rpc("say Never.\nhang\n\nsay Later.", &[]);
    client.write(
        "{\"id\":\"1\",\"type\":\"prompt\",\"message\":\"one\"}\n{\"id\":\"2\",\"type\":\"abort\"}\n",
    );
    let records = client.until(|record| record["id"] == "2");
    let settled = records.iter().position(|record| record["type"] == "agent_settled");
    assert_eq!(settled, Some(records.len() - 2), "the abort is answered right behind the end");
    let answer = records.iter().rfind(|record| record["type"] == "message_end").unwrap();
    assert_eq!(answer["message"]["stopReason"], "aborted");
}

/// A prompt whose line has exactly this length.
fn prompt_of(bytes: usize, id: &str) -> Vec<u8> {
    let (head, tail) = (format!("{{\"id\":\"{id}\",\"type\":\"prompt\",\"message\":\""), "\"}\n");
    let mut line = head.into_bytes();
    line.resize(bytes + 1 - tail.len(), b'x');
    line.extend_from_slice(tail.as_bytes());
    line
}

#[test]
fn longest_line_is_accepted_and_a_longer_one_refused() {
    let mut client = Place::new().rpc("say Long.", &[]);
    let mut bytes = prompt_of(LINE_MAX_BYTES + 1, "over");
    bytes.extend(prompt_of(LINE_MAX_BYTES, "under"));
    let writing = client.write_beside(bytes);
    let refused = client.record().unwrap();
    assert_eq!(refused["command"], "parse");
    assert_eq!(refused["error"], "Failed to parse command: the line is longer than 64 MiB");
    assert_eq!(client.response("under")["success"], true);
    client.take_back(writing);
    if cfg!(debug_assertions) {
        // Records of that length take an unoptimised build half a minute.
        return;
    }
    let mut seen = Vec::new();
    loop {
        let line = client.line().expect("tiller ended too early");
        let kind = line.split('"').nth(3).unwrap().to_owned();
        seen.push((kind, line.len() > LINE_MAX_BYTES - 100));
        if seen.last().unwrap().0 == "agent_settled" {
            break;
        }
    }
    let long = seen.iter().filter(|(_, long)| *long).map(|(kind, _)| kind.as_str());
    assert_eq!(long.collect::<Vec<_>>(), ["message_start", "message_end", "agent_end"]);
}

/// Deterministic pseudo-random numbers (splitmix64).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % sides as u64) as usize
    }
}

const GOOD_LINES: [&str; 8] = [
    r#"{"id":"a","type":"prompt","message":"hello","images":[{"type":"image","data":"AAAA","mimeType":"image/png"}]}"#,
    r#"{"id":1,"type":"steer","message":"to the \ud83d\ude00 left"}"#,
    r#"{"id":null,"type":"set_model","provider":"tiller","modelId":"demo"}"#,
    r#"{"type":"set_thinking_level","level":"high","id":{"deep":[1,2,{"x":true}]}}"#,
    r#"{"id":"b","type":"set_steering_mode","mode":"all"}"#,
    r#"{"id":"c","type":"get_messages"}"#,
    r#"{"id":"d","type":"set_session_name","name":"größer"}"#,
    r#"{"id":"e","type":"cycle_thinking_level"}"#,
];

/// A damaged line, or none at all.
fn malformed(dice: &mut Dice) -> Vec<u8> {
    let mut line = GOOD_LINES[dice.roll(GOOD_LINES.len())].as_bytes().to_vec();
    match dice.roll(8) {
        0 => line.truncate(dice.roll(line.len())),
        1 => (0..dice.roll(200)).for_each(|_| line.push(dice.roll(256) as u8)),
        2 => line = (0..dice.roll(100)).map(|_| dice.roll(256) as u8).collect(),
        3 => line = b"[".repeat(dice.roll(2000)),
        4 => line = b" \t\r".repeat(dice.roll(3)),
        5 => {
            let (from, to) = (dice.roll(line.len()), dice.roll(line.len()));
            line.drain(from.min(to)..from.max(to));
        }
        _ => {
            for _ in 0..=dice.roll(4) {
                let at = dice.roll(line.len());
                line[at] = dice.roll(256) as u8;
            }
        }
    }
    line.retain(|&byte| byte != b'\n');
    line
}

#[test]
fn ten_thousand_malformed_lines_are_each_answered_or_ignored() {
    let place = Place::new();
    let command = place.command(&["--mode", "rpc", "--no-session"]);
    let mut client = Client::start(command, place);
    let mut dice = Dice(20);
    let (mut bytes, mut expected) = (Vec::new(), 0);
    for _ in 0..10_000 {
        let line = malformed(&mut dice);
        let is_blank = line.iter().all(u8::is_ascii_whitespace);
        expected += usize::from(!is_blank);
        bytes.extend(line);
        bytes.push(b'\n');
    }
    bytes.extend_from_slice(b"{\"id\":\"the end\",\"type\":\"get_state\"}\n");
    let writing = client.write_beside(bytes);
    let records = client.until(|record| record["id"] == "the end");
    client.take_back(writing);
    let answers = records.iter().filter(|record| record["type"] == "response").count();
    assert_eq!(answers, expected + 1);
    assert_eq!(records.last().unwrap()["success"], true);
}

#[test]
fn stalled_reader_costs_little_memory_and_loses_nothing() {
    const WORDS: usize = 50_000;
    for wire in ["pi", "pi-delta"] {
        let script = format!("repeat {WORDS} \"word{{i}} \"");
        let mut client = Place::new().rpc(&script, &["--wire", wire]);
        client.say(&json!({"id": "1", "type": "prompt", "message": "At length"}));
        // Nothing is read, yet the model's stream is read to its end: then the process is idle.
        wait_until_idle(client.id());
        let peak = peak_memory_bytes(client.id());
        let mut said = String::new();
        for record in client.until_type("agent_settled") {
            let step = &record["assistantMessageEvent"];
            match step["type"].as_str() {
                Some("text_delta") => said.push_str(step["delta"].as_str().unwrap()),
                Some("text_end") => assert_eq!(step["content"], said),
                _ => {}
            }
        }
        let whole: String = (1..=WORDS).map(|i| format!("word{i} ")).collect();
        assert_eq!(said.len(), whole.len());
        assert_eq!(said, whole);
        assert!(peak < 64 << 20, "{wire}: {} MiB", peak >> 20);
    }
}

#[test]
fn eight_thousand_empty_tool_calls_cost_less_than_100_mb() {
    const CALLS: usize = 8000;
    let script = format!("{}\nsay Done.", "call nothing {}\n".repeat(CALLS));
    let mut client = Place::new().rpc(&script, &["--wire", "pi"]);
    client.say(&json!({"id": "1", "type": "prompt", "message": "Call"}));
    let (mut bytes, mut starts, mut ends, mut results) = (0, 0, 0, 0);
    loop {
        let line = client.line().expect("tiller ended too early");
        bytes += line.len() + 1;
        let head = &line[..line.len().min(400)];
        starts += usize::from(head.contains(r#""assistantMessageEvent":{"type":"toolcall_start""#));
        ends += usize::from(head.contains(r#""assistantMessageEvent":{"type":"toolcall_end""#));
        results += usize::from(head.starts_with(r#"{"type":"tool_execution_end""#));
        if head.starts_with(r#"{"type":"agent_settled""#) {
            break;
        }
    }
    assert_eq!((starts, ends, results), (CALLS, CALLS, CALLS));
    assert!(bytes < 100_000_000, "{} MB", bytes / 1_000_000);
}

#[test]
fn stalled_reader_during_many_calls_costs_little_memory() {
    let script = format!("{}\nsay Done.", "call nothing {}\n".repeat(8000));
    let mut client = Place::new().rpc(&script, &["--wire", "pi"]);
    client.say(&json!({"id": "1", "type": "prompt", "message": "Call"}));
    wait_until_idle(client.id());
    let peak = peak_memory_bytes(client.id());
    assert!(peak < 128 << 20, "{} MiB", peak >> 20);
}

/// Waits until the process uses no processor time for a while. If it was only slow, the test is
/// weaker, but not wrong.
fn wait_until_idle(pid: u32) {
    let used = || {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let fields: Vec<&str> = stat.split_whitespace().collect();
        fields.get(13..15).map(|times| times.join(" "))
    };
    let mut quiet = 0;
    let mut before = used();
    for _ in 0..300 {
        thread::sleep(Duration::from_millis(50));
        let now = used();
        quiet = if now == before { quiet + 1 } else { 0 };
        before = now;
        if quiet == 4 {
            return;
        }
    }
}

/// The peak memory of the process, if the system reports it.
fn peak_memory_bytes(pid: u32) -> usize {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<usize>().ok());
    kib.unwrap_or(0) << 10
}

#[test]
fn pending_input_is_read_before_eof_counts() {
    let script = "repeat 20000 \"word{i} \"";
    let mut client = Place::new().rpc(script, &["--on-eof", "finish"]);
    client.say(&json!({"id": "1", "type": "prompt", "message": "At length"}));
    client.close_stdin();
    let (records, code) = client.end();
    assert_eq!(records.last().unwrap()["type"], "agent_settled");
    assert_eq!(code, Some(0));
    let end = records.iter().find(|record| record["assistantMessageEvent"]["type"] == "text_end");
    let text = end.unwrap()["assistantMessageEvent"]["content"].as_str().map(str::len);
    assert_eq!(text, Some((1..=20_000).map(|i| format!("word{i} ").len()).sum()));
}

#[test]
fn eof_is_noticed_with_a_stalled_reader() {
    let mut client = Place::new().rpc("repeat 20000 \"word{i} \"", &["--wire", "pi-delta"]);
    client.say(&json!({"id": "1", "type": "prompt", "message": "At length"}));
    wait_until_idle(client.id());
    // More than the server buffers for a stalled reader.
    client.write(&"{\"type\":\"get_messages\"}\n".repeat(100));
    wait_until_idle(client.id());
    client.close_stdin();
    assert_eq!(client.exit_code(), Some(0));
}

#[test]
fn commands_that_wait_for_an_extension_are_limited() {
    let never = "export default async function () { await new Promise(() => {}); }";
    let place = Place::new().with("never.js", never);
    let arguments = ["--mode", "rpc", "--no-session", "-e", "./never.js"];
    let mut client = Client::start(place.command(&arguments), place);
    let name = "x".repeat(1 << 20);
    let line = |id: usize| json!({"id": id, "type": "set_session_name", "name": name});
    let lines: String = (1..=20).map(|id| format!("{}\n", line(id))).collect();
    let writing = client.write_beside(lines.into_bytes());
    // The first 16 MB wait for the extension; later commands are refused at once.
    let refused = client.record().unwrap();
    assert_eq!((&refused["id"], &refused["success"]), (&json!(17), &json!(false)), "{refused}");
    let why = "Too many commands are waiting for files, extensions or another session. Send this \
               one again when they are answered";
    assert_eq!(refused["error"], why);
    client.take_back(writing);
}
