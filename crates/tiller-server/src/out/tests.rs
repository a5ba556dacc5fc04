use serde_json::Value;
use tiller_agent::message::{AssistantMessage, Message, ToolCall};

use super::*;

const LEVELS: [Level; 3] = [Level::Pi, Level::PiDelta, Level::Xcsh];

fn start() -> Event {
    let message = AssistantMessage {
        api: "a".into(),
        provider: "p".into(),
        model: "m".into(),
        timestamp: 1,
        ..AssistantMessage::default()
    };
    Event::message_start(Arc::new(Message::Assistant(message)), None)
}

/// The steps of one call, with these arguments in one delta if they are not empty.
fn call(index: usize, arguments: &str) -> Vec<Update> {
    let (id, name) = (format!("call_{index}"), "ls".to_owned());
    let parsed = serde_json::from_str(arguments).unwrap_or_default();
    let whole = ToolCall {
        id: id.clone(),
        name: name.clone(),
        arguments: parsed,
        arguments_error: None,
        thought_signature: None,
    };
    let mut steps = vec![Update::CallStart { index, id, name }];
    if !arguments.is_empty() {
        steps.push(Update::CallDelta { index, delta: arguments.to_owned() });
    }
    steps.push(Update::CallEnd { index, call: Box::new(whole) });
    steps
}

/// What a reader gets that reads at once, or only at the end.
fn written(level: Level, reads_at_once: bool, updates: Vec<Update>) -> (Vec<u8>, usize) {
    let (pipe, mut drain, _caught_up) = pipe();
    let mut out = Out::new(level, pipe);
    let (mut read, mut most) = (Vec::new(), 0);
    out.event(start());
    for update in updates {
        out.event(Event::MessageUpdate(update));
        out.flush();
        most = most.max(out.waiting_bytes());
        while reads_at_once && let Some(chunk) = drain.try_next() {
            drain.wrote(chunk.len());
            read.extend(chunk);
        }
    }
    out.close();
    while let Some(chunk) = drain.try_next() {
        read.extend(chunk);
    }
    (read, most)
}

fn lines(bytes: &[u8]) -> Vec<&[u8]> {
    let mut start = 0;
    let ends = memchr::memchr_iter(b'\n', bytes);
    ends.map(|end| &bytes[std::mem::replace(&mut start, end + 1)..end]).collect()
}

fn record(line: &[u8]) -> Value {
    serde_json::from_slice(line).unwrap()
}

#[test]
fn agent_end_and_agent_settled_are_two_writes() {
    for level in LEVELS {
        let (pipe, mut drain, _caught_up) = pipe();
        let mut out = Out::new(level, pipe);
        out.event(Event::TurnStart);
        out.event(Event::AgentEnd { messages: Vec::new(), will_retry: false });
        out.event(Event::AgentSettled { aborted: false });
        out.flush();
        let writes = std::iter::from_fn(|| drain.try_next());
        let writes: Vec<Vec<String>> = writes
            .map(|chunk| {
                let records = lines(&chunk).into_iter().map(record);
                records.map(|record| record["type"].as_str().unwrap().to_owned()).collect()
            })
            .collect();
        assert_eq!(writes, [vec!["turn_start", "agent_end"], vec!["agent_settled"]], "{level:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn output_for_many_blocks_stays_proportional_to_the_message() {
    for level in LEVELS {
        for arguments in ["", "{}"] {
            let steps: Vec<Update> = (0..8000).flat_map(|index| call(index, arguments)).collect();
            let (starts, all) = (8000, steps.len());
            let (bytes, _) = written(level, true, steps);
            assert!(bytes.len() < 80 << 20, "{level:?} {arguments}: {} MB", bytes.len() >> 20);
            let kinds = lines(&bytes).into_iter().filter_map(|line| {
                let line = std::str::from_utf8(&line[..line.len().min(400)]).ok()?;
                let kind = line.split_once(r#""assistantMessageEvent":{"type":""#)?.1;
                kind.split('"').next()
            });
            let kinds: Vec<&str> = kinds.collect();
            assert_eq!(kinds.len(), all, "{level:?} {arguments}: a record for every step");
            let count = |wanted: &str| kinds.iter().filter(|kind| **kind == wanted).count();
            assert_eq!((count("toolcall_start"), count("toolcall_end")), (starts, starts));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn blocks_are_written_without_the_message_while_the_reader_is_behind() {
    for level in LEVELS {
        let steps = (0..8000).flat_map(|index| call(index, "{}")).collect();
        let (_, most) = written(level, false, steps);
        assert!(most < 40 << 20, "{level:?}: {} MB", most >> 20);
    }
}

#[tokio::test(start_paused = true)]
async fn update_without_the_message_names_its_call() {
    let mut steps: Vec<Update> = (0..4000).flat_map(|index| call(index, "")).collect();
    steps.extend([
        Update::TextStart { index: 4000 },
        Update::TextDelta { index: 4000, delta: "x".repeat(100_000) },
    ]);
    let (bytes, _) = written(Level::Pi, true, steps);
    let lines = lines(&bytes);
    let is_bare = |line: &&&[u8]| line.starts_with(br#"{"type":"message_update","usage""#);
    let mut bare = lines.iter().filter(is_bare).map(|line| record(line));
    let start = bare.find(|record| record["assistantMessageEvent"]["type"] == "toolcall_start");
    let start = start.expect("not every step has the message");
    let index = start["assistantMessageEvent"]["contentIndex"].as_u64().unwrap();
    assert!(index > 100, "{index}");
    let event = &start["assistantMessageEvent"];
    assert_eq!(event["id"], format!("call_{index}"));
    assert_eq!(event["toolName"], "ls");
    assert!(start["usage"].is_object() && event.get("partial").is_none());
    let last = record(lines.last().unwrap());
    assert_eq!(last["message"]["content"].as_array().unwrap().len(), 4001);
    assert_eq!(last["message"], last["assistantMessageEvent"]["partial"]);
}

#[tokio::test(start_paused = true)]
async fn every_update_of_an_ordinary_message_has_the_message() {
    let long = format!("{{\"text\":\"{}\"}}", "x".repeat(50_000));
    let few = (0..16).flat_map(|index| call(index, &long));
    let many = (0..150).flat_map(|index| call(index, r#"{"path":"somewhere/in/the/tree.rs"}"#));
    for steps in [few.collect::<Vec<_>>(), many.collect()] {
        let (bytes, _) = written(Level::Pi, true, steps);
        let bare = br#"{"type":"message_update","usage""#;
        assert!(lines(&bytes).iter().all(|line| !line.starts_with(bare)));
    }
}
