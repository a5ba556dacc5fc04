//! A scripted answer of the loopback model, and its bytes in the format of OpenAI's Chat Completions
//! API. Pure; `model.rs` sends the bytes.

use serde_json::{Value, json};

/// The model's reply to one request.
#[derive(Clone, Debug)]
pub(super) enum Reply {
    /// A stream of events.
    Stream(Vec<Part>),
    /// An HTTP error.
    Refusal(u16),
    /// The request is read, and nothing is sent until the client disconnects.
    Silence,
}

/// A part of a streamed answer.
#[derive(Clone, Debug)]
pub(super) enum Part {
    Text(&'static str),
    Thinking(&'static str),
    /// A whole tool call; its arguments arrive in two pieces.
    Call {
        id: &'static str,
        name: &'static str,
        arguments: Value,
    },
    /// The beginning of a tool call, with this part of its arguments.
    CallStart {
        id: &'static str,
        name: &'static str,
        arguments: &'static str,
    },
    /// Nothing more is sent until the client disconnects.
    Stall,
    /// The connection is closed in the middle of the stream.
    Cut,
}

/// What the model's thread does next.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    Send(Vec<u8>),
    Stall,
    Cut,
}

impl Reply {
    /// An answer of these texts, one delta each.
    pub(super) fn text(deltas: &[&'static str]) -> Reply {
        Reply::Stream(deltas.iter().map(|delta| Part::Text(delta)).collect())
    }

    /// An answer that calls `bash` with this command.
    pub(super) fn bash(id: &'static str, command: &str) -> Reply {
        Reply::Stream(vec![Part::bash(id, command)])
    }

    /// All bytes of the reply and the pauses between them.
    pub(super) fn steps(&self) -> Vec<Step> {
        match self {
            Reply::Silence => vec![Step::Stall],
            Reply::Refusal(status) => vec![Step::Send(refusal(*status))],
            Reply::Stream(parts) => stream(parts),
        }
    }
}

impl Part {
    pub(super) fn bash(id: &'static str, command: &str) -> Part {
        Part::Call { id, name: "bash", arguments: json!({"command": command}) }
    }
}

fn refusal(status: u16) -> Vec<u8> {
    let body =
        json!({"error": {"message": format!("scripted error {status}"), "type": "scripted"}})
            .to_string();
    let length = body.len();
    format!(
        "HTTP/1.1 {status} Scripted\r\ncontent-type: application/json\r\nconnection: close\r\n\
         content-length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

fn stream(parts: &[Part]) -> Vec<Step> {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
                transfer-encoding: chunked\r\nconnection: close\r\n\r\n";
    let mut steps = vec![Step::Send(head.into())];
    let mut calls = 0;
    for part in parts {
        match part {
            Part::Text(text) => steps.push(delta(json!({"content": text}))),
            Part::Thinking(text) => steps.push(delta(json!({"reasoning_content": text}))),
            Part::Call { id, name, arguments } => {
                let arguments = arguments.to_string();
                let middle = arguments.floor_char_boundary(arguments.len() / 2);
                steps.push(call_start(calls, id, name, &arguments[..middle]));
                let rest = json!({"index": calls, "function": {"arguments": &arguments[middle..]}});
                steps.push(delta(json!({"tool_calls": [rest]})));
                calls += 1;
            }
            Part::CallStart { id, name, arguments } => {
                steps.push(call_start(calls, id, name, arguments));
                calls += 1;
            }
            Part::Stall => {
                steps.push(Step::Stall);
                return steps;
            }
            Part::Cut => {
                steps.push(Step::Cut);
                return steps;
            }
        }
    }
    let reason = if calls > 0 { "tool_calls" } else { "stop" };
    let usage = json!({"prompt_tokens": 10, "completion_tokens": 3, "total_tokens": 13});
    steps.push(event(&chunk(json!({}), json!(reason)).to_string()));
    let mut last = chunk(json!({}), Value::Null);
    last["choices"] = json!([]);
    last["usage"] = usage;
    steps.push(event(&last.to_string()));
    steps.push(event("[DONE]"));
    steps.push(Step::Send(b"0\r\n\r\n".to_vec()));
    steps
}

fn call_start(index: usize, id: &str, name: &str, arguments: &str) -> Step {
    let call = json!({"index": index, "id": id, "type": "function",
        "function": {"name": name, "arguments": arguments}});
    delta(json!({"tool_calls": [call]}))
}

fn delta(delta: Value) -> Step {
    event(&chunk(delta, Value::Null).to_string())
}

fn chunk(delta: Value, finish_reason: Value) -> Value {
    json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "scripted",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]})
}

/// One server-sent event in an HTTP chunk.
fn event(data: &str) -> Step {
    let event = format!("data: {data}\n\n");
    Step::Send(format!("{:x}\r\n{event}\r\n", event.len()).into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(reply: &Reply) -> String {
        let bytes = reply.steps().into_iter().map(|step| match step {
            Step::Send(bytes) => String::from_utf8(bytes).unwrap(),
            Step::Stall => "(stall)".into(),
            Step::Cut => "(cut)".into(),
        });
        bytes.collect()
    }

    #[test]
    fn a_stream_ends_with_done_unless_it_is_cut_or_stalls() {
        let whole = sent(&Reply::text(&["a", "b"]));
        assert!(
            whole.contains(r#""delta":{"content":"a"}"#) && whole.contains("[DONE]"),
            "{whole}"
        );
        assert!(whole.ends_with("0\r\n\r\n"), "{whole}");
        for (part, end) in [(Part::Stall, "(stall)"), (Part::Cut, "(cut)")] {
            let text = sent(&Reply::Stream(vec![Part::Text("a"), part, Part::Text("b")]));
            assert!(text.ends_with(end) && !text.contains("\"b\""), "{text}");
        }
    }

    #[test]
    fn the_pieces_of_a_call_join_to_its_arguments() {
        let text = sent(&Reply::bash("call_1", "echo größer"));
        let mut joined = String::new();
        for data in text.lines().filter_map(|line| line.split_once("data: ")).map(|(_, data)| data)
        {
            let Ok(chunk) = serde_json::from_str::<Value>(data) else { continue };
            let call = &chunk["choices"][0]["delta"]["tool_calls"][0];
            joined += call["function"]["arguments"].as_str().unwrap_or_default();
        }
        assert_eq!(joined, r#"{"command":"echo größer"}"#);
    }
}
