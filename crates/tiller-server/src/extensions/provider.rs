//! A provider implemented by an extension.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use serde_json::{Map, Value, json};
use tiller_agent::message::Message;
use tiller_agent::model::ThinkingLevel;
use tiller_agent::provider::{EventStream, ProviderError, Request, StreamEvent};
use tiller_config::credentials::{SignIn, SignedIn};
use tiller_config::models::{ProviderRegistration, ResolvedAuth, StreamsAnswers};
use tiller_js::Extensions;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::decoder::Decoder;

pub(crate) struct ExtensionProvider {
    pub(crate) extensions: Extensions,
    pub(crate) name: String,
    /// The longest silence before a request fails.
    pub(crate) idle_timeout: Option<Duration>,
    pub(crate) turn: tokio::sync::Mutex<()>,
}

/// A provider registration, with the callbacks that the extension implements.
pub(crate) fn registration(
    extensions: Extensions,
    name: &str,
    config: Value,
    silence: Duration,
) -> ProviderRegistration {
    let provider = Arc::new(ExtensionProvider {
        extensions,
        name: name.to_owned(),
        idle_timeout: (!silence.is_zero()).then_some(silence),
        turn: tokio::sync::Mutex::default(),
    });
    let answers = (config["streams"] == true).then(|| provider.clone() as Arc<dyn StreamsAnswers>);
    let sign_in = (config["hasOauth"] == true).then_some(provider as Arc<dyn SignIn>);
    ProviderRegistration { config, answers, sign_in }
}

impl StreamsAnswers for ExtensionProvider {
    fn answer(&self, request: Request, (key, headers): ResolvedAuth) -> EventStream {
        let cancel = CancellationToken::new();
        let mut model = json!(*request.model);
        model["headers"] = json!(request.model.headers);
        // The extension needs the full address, with its password.
        model["baseUrl"] = json!(request.model.base_url);
        let mut options = json!({
            "apiKey": key, "headers": headers, "sessionId": *request.session_id,
            "maxTokens": request.model.max_tokens,
        });
        if request.thinking != ThinkingLevel::Off {
            options["reasoning"] = json!(request.thinking.name());
        }
        if let Some(temperature) = request.temperature {
            options["temperature"] = json!(temperature);
        }
        let context = context(&request);
        let events = self.extensions.stream(&self.name, model, context, options, cancel.clone());
        let hearing = ProviderReader {
            events,
            decoder: Decoder::default(),
            ready: VecDeque::new(),
            idle_timeout: self.idle_timeout,
            _cancel: cancel.drop_guard(),
        };
        Box::pin(stream::unfold(Some(hearing), |hearing| async { hearing?.next().await }))
    }
}

/// The conversation as the extension needs it.
fn context(request: &Request) -> Value {
    // Failed answers are not part of the conversation, nor are the results of their calls.
    let failed = |message: &&Arc<Message>| message.as_assistant().is_some_and(|a| a.failed());
    let failed: Vec<_> = request.messages.iter().filter(failed).collect();
    let is_lost = |message: &Message| match message {
        Message::Assistant(answer) => answer.failed(),
        Message::ToolResult(result) => failed.iter().any(|message| {
            let calls = message.as_assistant().into_iter().flat_map(|answer| answer.tool_calls());
            calls.into_iter().any(|call| call.id == result.tool_call_id)
        }),
        _ => false,
    };
    let messages = request.messages.iter().filter(|message| !is_lost(message)).cloned().collect();
    json!({ "messages": transcript(&Request { messages, ..request.clone() }) })
}

/// A conversation in pi's newer format: prompt and tools are a message of their own.
pub(crate) fn transcript(request: &Request) -> Vec<Value> {
    let tools = request.tools.iter().map(|tool| {
        json!({
            "name": tool.name, "description": tool.description, "parameters": tool.parameters,
        })
    });
    let tools: Vec<Value> = tools.collect();
    let mut messages = Vec::with_capacity(request.messages.len() + 1);
    if !request.system.is_empty() || !tools.is_empty() {
        let timestamp = request.messages.first().map_or(0, |message| message.timestamp());
        let mut first = Map::new();
        first.insert("role".to_owned(), json!("system"));
        first.insert("content".to_owned(), json!(*request.system));
        if !tools.is_empty() {
            first.insert("toolsAdded".to_owned(), Value::Array(tools));
        }
        first.insert("timestamp".to_owned(), json!(timestamp));
        messages.push(Value::Object(first));
    }
    messages.extend(request.messages.iter().map(|message| json!(**message)));
    messages
}

struct ProviderReader {
    events: BoxStream<'static, Value>,
    decoder: Decoder,
    ready: VecDeque<StreamEvent>,
    idle_timeout: Option<Duration>,
    /// Cancels the extension's stream when the reader is dropped.
    _cancel: DropGuard,
}

impl ProviderReader {
    async fn next(
        mut self,
    ) -> Option<(Result<StreamEvent, ProviderError>, Option<ProviderReader>)> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                let is_last = matches!(event, StreamEvent::Done { .. });
                return Some((Ok(event), (!is_last).then_some(self)));
            }
            let event = match self.idle_timeout {
                Some(limit) => match tokio::time::timeout(limit, self.events.next()).await {
                    Ok(event) => event,
                    Err(_elapsed) => return Some((Err(silence_error(limit)), None)),
                },
                None => self.events.next().await,
            };
            let Some(event) = event else {
                return Some((Err(ProviderError::fatal(UNFINISHED)), None));
            };
            let mut events = Vec::new();
            let decoded = self.decoder.push(&event, &mut events);
            self.ready.extend(events);
            if let Err(error) = decoded {
                return Some((Err(error), None));
            }
        }
    }
}

const UNFINISHED: &str = "the extension's provider ended its stream without `done` or `error`";

fn silence_error(limit: Duration) -> ProviderError {
    let seconds = limit.as_secs_f64();
    ProviderError::retry(format!(
        "timed out: the extension's provider sent nothing for {seconds} s"
    ))
}

impl SignIn for ExtensionProvider {
    fn key(
        &self,
        stored: Value,
    ) -> std::pin::Pin<Box<dyn Future<Output = Result<SignedIn, String>> + Send>> {
        let extensions = self.extensions.clone();
        let name = self.name.clone();
        Box::pin(async move {
            let mut made = extensions.sign_in(&name, stored).await?;
            let renewed = made["renewed"].take();
            let key =
                made["key"].as_str().ok_or("the extension returned no key for the sign-in")?;
            let renewed = renewed.is_object().then_some(renewed);
            Ok(SignedIn { key: key.to_owned(), renewed })
        })
    }

    fn refresh_lock(&self) -> &tokio::sync::Mutex<()> {
        &self.turn
    }
}
