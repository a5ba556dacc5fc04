//! Shared fixtures for tests.

pub(crate) mod recordings;

use std::collections::BTreeMap;
use std::sync::Arc;

use expect_test::Expect;
use serde_json::Value;
use tiller_agent::message::{
    AssistantMessage, Block, Content, Message, StopReason, ToolCall, ToolResultMessage, Usage,
    UserMessage,
};
use tiller_agent::model::{Modality, Model, Price, ThinkingLevel};
use tiller_agent::provider::{Request, ToolSpec};

use crate::stream::HttpRequest;

pub(crate) fn model() -> Model {
    Model {
        id: "claude-test".into(),
        name: "Claude Test".into(),
        api: "anthropic-messages".into(),
        provider: "anthropic".into(),
        base_url: "http://127.0.0.1:9".into(),
        reasoning: true,
        thinking_level_map: None,
        input: vec![Modality::Text, Modality::Image],
        cost: Price::default(),
        context_window: 200_000,
        max_tokens: 8192,
        headers: BTreeMap::new(),
        compat: None,
    }
}

pub(crate) fn request(messages: Vec<Message>) -> Request {
    Request {
        model: Arc::new(model()),
        system: "Be brief.".into(),
        messages: messages.into_iter().map(Arc::new).collect(),
        tools: Vec::new().into(),
        forced_tool: None,
        temperature: None,
        thinking: ThinkingLevel::Off,
        session_id: "session-1".into(),
    }
}

pub(crate) fn with_model(mut request: Request, change: impl FnOnce(&mut Model)) -> Request {
    let mut model = (*request.model).clone();
    change(&mut model);
    request.model = Arc::new(model);
    request
}

pub(crate) fn tool(name: &str, parameters: Value) -> ToolSpec {
    ToolSpec { name: name.into(), description: format!("Does {name}."), parameters }
}

/// Checks a request: its headers, then the body with one line per message.
pub(crate) fn check_post(post: HttpRequest, expect: Expect) {
    let HttpRequest { url, headers, .. } = &post;
    let mut printed = format!("POST {url}\n");
    for (name, value) in headers {
        printed += &format!("{name}: {value}\n");
    }
    for (key, value) in body_of(post).as_object().unwrap() {
        match value.as_array() {
            Some(items) => {
                printed += &format!("{key}\n");
                items.iter().for_each(|item| printed += &format!("  {item}\n"));
            }
            None => printed += &format!("{key} {value}\n"),
        }
    }
    expect.assert_eq(&printed);
}

pub(crate) fn body_of(post: HttpRequest) -> Value {
    serde_json::from_slice(&post.body).unwrap()
}

pub(crate) fn user(text: &str) -> Message {
    Message::user(text, Vec::new(), 1)
}

pub(crate) fn old_user(text: &str) -> Message {
    Message::User(UserMessage { content: Content::Text(text.into()), timestamp: 1 })
}

/// An answer of the requested model.
pub(crate) fn answer(content: Vec<Block>) -> Message {
    let requested = model();
    Message::Assistant(AssistantMessage {
        content,
        api: requested.api,
        provider: requested.provider,
        model: requested.id,
        usage: Usage::default(),
        stop_reason: StopReason::Stop,
        timestamp: 1,
        ..AssistantMessage::default()
    })
}

/// An answer of another model.
pub(crate) fn foreign(content: Vec<Block>) -> Message {
    let mut message = answer(content);
    let Message::Assistant(answer) = &mut message else { unreachable!() };
    answer.model = "gpt-test".into();
    message
}

pub(crate) fn failed(stop_reason: StopReason, content: Vec<Block>) -> Message {
    let mut message = answer(content);
    let Message::Assistant(answer) = &mut message else { unreachable!() };
    answer.stop_reason = stop_reason;
    message
}

pub(crate) fn thought(text: &str, signature: Option<&str>) -> Block {
    Block::Thinking {
        thinking: text.into(),
        thinking_signature: signature.map(String::from),
        redacted: false,
    }
}

pub(crate) fn hidden_thought(signature: &str) -> Block {
    let thinking_signature = Some(signature.into());
    Block::Thinking { thinking: String::new(), thinking_signature, redacted: true }
}

pub(crate) fn call(id: &str, name: &str, arguments: Value) -> Block {
    let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
    Block::ToolCall(ToolCall {
        id: id.into(),
        name: name.into(),
        arguments,
        arguments_error: None,
        thought_signature: None,
    })
}

pub(crate) fn result(id: &str, content: Vec<Block>) -> Message {
    Message::ToolResult(ToolResultMessage {
        tool_call_id: id.into(),
        tool_name: "read".into(),
        content,
        details: None,
        is_error: false,
        usage: None,
        timestamp: 1,
        duration_ms: None,
    })
}

pub(crate) fn png() -> Block {
    Block::image("iVBORw0KGgo=", "image/png")
}
