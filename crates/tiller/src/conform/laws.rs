//! What must hold for every run, as pure functions of the lines of a run or of a request to the
//! model. Each returns what is wrong.

use std::collections::BTreeMap;

use serde_json::Value;

use super::line::{ServerLine, calls_of, text_of};

/// Records that begin something and the records that end it, outermost first.
const PAIRS: [(&str, &str); 3] =
    [("agent_start", "agent_end"), ("turn_start", "turn_end"), ("message_start", "message_end")];

/// Runs, turns and messages are begun and ended in pairs, one inside the other.
pub(super) fn pairs_nest(lines: &[ServerLine]) -> Result<(), String> {
    let mut open: Vec<&str> = Vec::new();
    for line in lines {
        let kind = line.kind();
        if let Some(at) = PAIRS.iter().position(|(start, _)| *start == kind) {
            if open.len() != at {
                return Err(format!("{kind} inside of {}", open.last().unwrap_or(&"nothing")));
            }
            open.push(kind);
        } else if let Some((start, _)) = PAIRS.iter().find(|(_, end)| *end == kind)
            && open.pop() != Some(start)
        {
            return Err(format!("{kind} without {start} before it"));
        } else if kind == "message_update" && open.last() != Some(&"message_start") {
            return Err("message_update outside of a message".to_owned());
        }
    }
    match open.last() {
        Some(kind) => Err(format!("{kind} without its end")),
        None => Ok(()),
    }
}

/// The deltas of each answer join to the blocks of its `message_end`.
pub(super) fn deltas_join(lines: &[ServerLine]) -> Result<(), String> {
    let mut joined: BTreeMap<u64, String> = BTreeMap::new();
    for line in lines {
        let step = line.step();
        if let Some("text_delta" | "thinking_delta" | "toolcall_delta") = step["type"].as_str() {
            let index = step["contentIndex"].as_u64().ok_or("a delta without contentIndex")?;
            *joined.entry(index).or_default() += step["delta"].as_str().unwrap_or_default();
        }
        if let Some(message) = line.ended("assistant") {
            for (index, delta) in std::mem::take(&mut joined) {
                let index = usize::try_from(index).unwrap_or(usize::MAX);
                let block = message["content"].get(index).unwrap_or(&Value::Null);
                if !is_block_of(block, &delta) {
                    return Err(format!("the deltas {delta:?} for the block {block}"));
                }
            }
        }
    }
    Ok(())
}

fn is_block_of(block: &Value, joined: &str) -> bool {
    match block["type"].as_str() {
        Some("text") => block["text"] == joined,
        Some("thinking") => block["thinking"] == joined,
        Some("toolCall") => {
            serde_json::from_str::<Value>(joined).is_ok_and(|value| value == block["arguments"])
        }
        _ => false,
    }
}

/// Every tool call of an answer has one result, and the results are in the order of the calls. Every
/// call has one start and one end, unless its answer was aborted or failed: then it does not run.
pub(super) fn calls_have_results(lines: &[ServerLine]) -> Result<(), String> {
    let ids = |of: &dyn Fn(&ServerLine) -> Vec<String>| -> Vec<String> {
        lines.iter().flat_map(of).collect()
    };
    let id = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let called = ids(&|line| {
        let calls = line.ended("assistant").map(calls_of).unwrap_or_default();
        calls.into_iter().map(|call| id(&call["id"])).collect()
    });
    let results = ids(&|line| {
        line.ended("toolResult").map(|message| id(&message["toolCallId"])).into_iter().collect()
    });
    if results != called {
        return Err(format!("expected results of the calls {called:?}; came {results:?}"));
    }
    let mut run = ids(&|line| {
        let answer = line.ended("assistant").filter(|answer| is_whole(answer));
        let calls = answer.map(calls_of).unwrap_or_default();
        calls.into_iter().map(|call| id(&call["id"])).collect()
    });
    run.sort();
    for kind in ["tool_execution_start", "tool_execution_end"] {
        let mut seen =
            ids(&|line| line.is(kind).then(|| id(line.field("toolCallId"))).into_iter().collect());
        seen.sort();
        if seen != run {
            return Err(format!("expected {kind} for the calls {run:?}; came {seen:?}"));
        }
    }
    Ok(())
}

/// Whether the model gave the whole answer, so that its calls are run.
fn is_whole(answer: &Value) -> bool {
    !matches!(answer["stopReason"].as_str(), Some("aborted" | "error"))
}

/// The messages that a request sends to the model: `role text`.
pub(super) fn conversation(request: &Value) -> Vec<String> {
    let messages = request["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let sent = messages.iter().filter(|message| !is_system(message));
    sent.map(|message| {
        format!("{} {}", message["role"].as_str().unwrap_or("?"), text_of(message).trim())
    })
    .collect()
}

fn is_system(message: &Value) -> bool {
    matches!(message["role"].as_str(), Some("system" | "developer"))
}

/// Every tool call in a request to the model is followed by its results: providers refuse a
/// conversation in which one is missing.
pub(super) fn history_is_complete(request: &Value) -> Result<(), String> {
    let messages = request["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut open: Vec<&str> = Vec::new();
    for message in messages {
        if message["role"] == "tool" {
            let id = message["tool_call_id"].as_str().unwrap_or_default();
            match open.iter().position(|call| *call == id) {
                Some(at) => drop(open.remove(at)),
                None => return Err(format!("a result for {id}, which was not called")),
            }
            continue;
        }
        if let Some(id) = open.first() {
            return Err(format!("no result for the call {id}"));
        }
        let calls = message["tool_calls"].as_array().map(Vec::as_slice).unwrap_or_default();
        open = calls.iter().filter_map(|call| call["id"].as_str()).collect();
    }
    match open.first() {
        Some(id) => Err(format!("no result for the call {id}")),
        None => Ok(()),
    }
}

/// The messages that were announced as complete, without their times. A system prompt, which a
/// server may list among its messages, is left out.
pub(super) fn ended_messages(lines: &[ServerLine]) -> Vec<String> {
    let ended = lines.iter().filter(|line| line.is("message_end"));
    let ended = ended.map(ServerLine::message).filter(|message| !is_system(message));
    ended.map(outline).collect()
}

/// A message as `role text`, with the names of its calls.
fn outline(message: &Value) -> String {
    let role = message["role"].as_str().unwrap_or("?");
    let mut line = format!("{role} {}", text_of(message).trim());
    for call in calls_of(message) {
        line += &format!(" [{}]", call["name"].as_str().unwrap_or("?"));
    }
    line.trim().to_owned()
}

/// The messages of a `get_messages` response or of `agent_end`, as outlines. A system prompt is left
/// out.
pub(super) fn outlines(data: &Value) -> Vec<String> {
    let messages = data["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    messages.iter().filter(|message| !is_system(message)).map(outline).collect()
}

/// A line of stderr that shows a crash inside the server.
pub(super) fn crash(stderr: &str) -> Option<&str> {
    let marks = [
        "panicked at",
        "Unhandled",
        "Uncaught",
        "TypeError",
        "RangeError",
        "ReferenceError",
        "Traceback (most recent call last)",
        "Segmentation fault",
    ];
    stderr.lines().find(|line| marks.iter().any(|mark| line.contains(mark)))
}

#[cfg(test)]
mod tests;
