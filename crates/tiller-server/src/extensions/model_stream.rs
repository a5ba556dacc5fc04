//! A model's answer as events of an assistant message stream, for extensions.
//!
//! Each event carries only what it adds. The growing message that extensions see with every event
//! is assembled in JavaScript (`js/runtime/partial-message.js`): sending the whole message each time
//! would be quadratic.

use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use serde_json::{Value, json};
use tiller_agent::event::Update;
use tiller_agent::message::{AssistantMessage, Block, Message, StopReason, UnixMs};
use tiller_agent::message_builder::{MessageBuilder, Step};
use tiller_agent::model::Model;
use tiller_agent::provider::{EventStream, Provider, ProviderError, Request};

/// Sends the request when the stream is first polled; dropping the stream cancels it. The last
/// event is `done` or `error`.
pub(crate) fn events(
    provider: Arc<dyn Provider>,
    request: Request,
    now: UnixMs,
) -> BoxStream<'static, Value> {
    let assembly = MessageBuilder::new(request.model.clone(), now);
    let answer = stream::once(async move { provider.stream(request) }).flatten();
    let hearing = EventReader { answer: answer.boxed(), assembly };
    stream::unfold(Some(hearing), |hearing| async { hearing?.next().await }).boxed()
}

/// A stream that fails at once.
pub(crate) fn failed(model: Option<Model>, why: &str, now: UnixMs) -> BoxStream<'static, Value> {
    let model = model.map_or_else(tiller_config::models::Models::none, Arc::new);
    let message = MessageBuilder::new(model, now).cut(StopReason::Error, why.to_owned());
    stream::iter([error(message)]).boxed()
}

struct EventReader {
    answer: EventStream,
    assembly: MessageBuilder,
}

impl EventReader {
    /// Waits for the next event to emit.
    async fn next(mut self) -> Option<(Value, Option<EventReader>)> {
        loop {
            let event = self.answer.next().await;
            let event = event.ok_or_else(ProviderError::incomplete).flatten();
            match event.and_then(|event| self.assembly.push(event)) {
                Ok(Step::Started) => {
                    let partial = value(self.assembly.skeleton());
                    return Some((json!({ "type": "start", "partial": partial }), Some(self)));
                }
                Ok(Step::Grew(update)) => return Some((event_json(update), Some(self))),
                Ok(Step::Ignored) => {}
                Ok(Step::Complete) => {
                    let message = self.assembly.complete();
                    let reason = json!(message.stop_reason);
                    let done =
                        json!({ "type": "done", "reason": reason, "message": value(message) });
                    return Some((done, None));
                }
                Err(failure) => {
                    let message = self.assembly.cut(StopReason::Error, failure.to_string());
                    return Some((error(message), None));
                }
            }
        }
    }
}

fn error(message: AssistantMessage) -> Value {
    json!({ "type": "error", "reason": "error", "error": value(message) })
}

fn value(message: AssistantMessage) -> Value {
    json!(Message::Assistant(message))
}

/// `usage` and `response` are not stream events: they change the growing message.
pub(crate) fn event_json(update: Update) -> Value {
    match update {
        Update::TextStart { index } => json!({ "type": "text_start", "contentIndex": index }),
        Update::TextDelta { index, delta } => {
            json!({ "type": "text_delta", "contentIndex": index, "delta": delta })
        }
        Update::TextEnd { index, content, signature } => json!({
            "type": "text_end", "contentIndex": index, "content": content,
            "textSignature": signature,
        }),
        Update::ThinkingStart { index } => {
            json!({ "type": "thinking_start", "contentIndex": index })
        }
        Update::ThinkingDelta { index, delta } => {
            json!({ "type": "thinking_delta", "contentIndex": index, "delta": delta })
        }
        Update::ThinkingEnd { index, content, signature, redacted } => json!({
            "type": "thinking_end", "contentIndex": index, "content": content,
            "thinkingSignature": signature, "redacted": redacted,
        }),
        Update::CallStart { index, id, name } => {
            json!({ "type": "toolcall_start", "contentIndex": index, "id": id, "name": name })
        }
        Update::CallDelta { index, delta } => {
            json!({ "type": "toolcall_delta", "contentIndex": index, "delta": delta })
        }
        Update::CallEnd { index, call } => {
            let call = Block::ToolCall(*call);
            json!({ "type": "toolcall_end", "contentIndex": index, "toolCall": call })
        }
        Update::Usage(usage) => json!({ "type": "usage", "usage": usage }),
        Update::ResponseId(id) => json!({ "type": "response", "responseId": id }),
        Update::ResponseModel(model) => json!({ "type": "response", "responseModel": model }),
    }
}
