//! Requests for testing a model, and its answers printed one line per block.

use std::fmt::Write;
use std::sync::Arc;

use futures_util::StreamExt;
use serde_json::json;
use tiller_agent::message::{
    AssistantMessage, Block, Message, StopReason, ToolResultMessage, Usage,
};
use tiller_agent::model::ThinkingLevel;
use tiller_agent::provider::{EventStream, ProviderError, Request, StreamEvent, ToolSpec};

use super::Script;

pub(crate) fn request(messages: Vec<Message>) -> Request {
    Request {
        model: Arc::new(Script::model()),
        system: "Be brief.".into(),
        messages: messages.into_iter().map(Arc::new).collect(),
        tools: ["read", "bash"].map(tool).into(),
        forced_tool: None,
        temperature: None,
        thinking: ThinkingLevel::Medium,
        session_id: "s".into(),
    }
}

pub(crate) fn tool(name: &str) -> ToolSpec {
    ToolSpec { name: name.into(), description: String::new(), parameters: json!({}) }
}

pub(crate) fn user(text: &str) -> Message {
    Message::user(text, Vec::new(), 0)
}

pub(crate) fn assistant(content: Vec<Block>) -> Message {
    Message::Assistant(AssistantMessage {
        content,
        stop_reason: StopReason::Stop,
        ..AssistantMessage::default()
    })
}

pub(crate) fn result(id: &str, tool: &str, text: &str, is_error: bool) -> Message {
    Message::ToolResult(ToolResultMessage {
        tool_call_id: id.into(),
        tool_name: tool.into(),
        content: vec![Block::text(text)],
        details: None,
        is_error,
        usage: None,
        timestamp: 0,
        duration_ms: None,
    })
}

/// Plays the stream to its end.
pub(crate) async fn printed(stream: EventStream) -> String {
    let items: Vec<_> = stream.collect().await;
    print(&items)
}

/// A line for each block and for each event outside blocks; deltas side by side.
pub(crate) fn print(items: &[Result<StreamEvent, ProviderError>]) -> String {
    let mut out = String::new();
    let mut open = None;
    for item in items {
        let (line, block) = line(item);
        let joins = block.is_some() && block == open;
        let separator = if joins { " " } else { "\n" };
        write!(out, "{separator}{line}").unwrap();
        open = block;
    }
    out.push('\n');
    out.trim_start().to_owned()
}

fn line(item: &Result<StreamEvent, ProviderError>) -> (String, Option<usize>) {
    let signed = |name: &str, signature: &Option<String>| match signature {
        Some(signature) => format!("{name} signed {signature}"),
        None => name.into(),
    };
    match item {
        Err(error) => (format!("error {error:?}"), None),
        Ok(event) => match event {
            StreamEvent::Start => ("start".into(), None),
            StreamEvent::ResponseId(id) => (format!("response id {id}"), None),
            StreamEvent::ResponseModel(id) => (format!("response model {id}"), None),
            StreamEvent::TextStart { index } => (format!("{index} text"), Some(*index)),
            StreamEvent::ThinkingStart { index } => (format!("{index} thinking"), Some(*index)),
            StreamEvent::CallStart { index, id, name } => {
                (format!("{index} call {name} {id}"), Some(*index))
            }
            StreamEvent::TextDelta { index, delta }
            | StreamEvent::ThinkingDelta { index, delta }
            | StreamEvent::CallDelta { index, delta } => (format!("{delta:?}"), Some(*index)),
            StreamEvent::TextEnd { index, signature } => (signed("end", signature), Some(*index)),
            StreamEvent::ThinkingEnd { index, signature, redacted } => {
                let end = if *redacted { "end redacted" } else { "end" };
                (signed(end, signature), Some(*index))
            }
            StreamEvent::CallArguments { index, arguments } => {
                (format!("whole {arguments:?}"), Some(*index))
            }
            StreamEvent::CallEnd { index, thought_signature } => {
                (signed("end", thought_signature), Some(*index))
            }
            StreamEvent::Usage(usage) => {
                let Usage { input, output, cache_read, cache_write, total_tokens, .. } = &**usage;
                let cached = format!("cached {cache_read} {cache_write}");
                (format!("usage {input} {output} {cached} total {total_tokens}"), None)
            }
            StreamEvent::RawStop(raw) => (format!("raw stop {raw}"), None),
            StreamEvent::Done { reason, raw: None } => (format!("done {reason:?}"), None),
            StreamEvent::Done { reason, raw: Some(raw) } => {
                (format!("done {reason:?} {raw}"), None)
            }
        },
    }
}
