//! A provider whose answers an extension makes itself, as a provider like all others.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use serde_json::{Map, Value, json};
use tiller_agent::message::Message;
use tiller_agent::model::ThinkingLevel;
use tiller_agent::provider::{EventStream, ProviderError, Request, StreamEvent};
use tiller_js::Extensions;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::decoder::Decoder;
use crate::credentials::{SignIn, SignedIn};
use crate::models::{ProviderRegistration, ResolvedAuth, StreamsAnswers};

pub(crate) struct ExtensionProvider {
    pub(crate) guests: Extensions,
    pub(crate) name: String,
    /// How long it may say nothing.
    pub(crate) idle_timeout: Option<Duration>,
    pub(crate) turn: tokio::sync::Mutex<()>,
}

/// What an extension says about a provider, with those who do what it does itself.
pub(crate) fn offer(
    guests: Extensions,
    name: &str,
    config: Value,
    silence: Duration,
) -> ProviderRegistration {
    let guest = Arc::new(ExtensionProvider {
        guests,
        name: name.to_owned(),
        idle_timeout: (!silence.is_zero()).then_some(silence),
        turn: tokio::sync::Mutex::default(),
    });
    let answers = (config["streams"] == true).then(|| guest.clone() as Arc<dyn StreamsAnswers>);
    let sign_in = (config["hasOauth"] == true).then_some(guest as Arc<dyn SignIn>);
    ProviderRegistration { config, answers, sign_in }
}

impl StreamsAnswers for ExtensionProvider {
    fn answer(&self, request: Request, (key, headers): ResolvedAuth) -> EventStream {
        let cancel = CancellationToken::new();
        let mut model = json!(*request.model);
        model["headers"] = json!(request.model.headers);
        // The extension that answers needs the whole address.
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
        let told = self.guests.stream(&self.name, model, context, options, cancel.clone());
        let hearing = ProviderReader {
            told,
            decoder: Decoder::default(),
            ready: VecDeque::new(),
            idle_timeout: self.idle_timeout,
            _cancel: cancel.drop_guard(),
        };
        Box::pin(stream::unfold(Some(hearing), |hearing| async { hearing?.next().await }))
    }
}

/// The conversation as the model has to know it.
fn context(request: &Request) -> Value {
    // What failed is no part of the conversation, nor are the results of calls it made.
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
    let heard = request.messages.iter().filter(|message| !is_lost(message)).cloned().collect();
    json!({ "messages": transcript(&Request { messages: heard, ..request.clone() }) })
}

/// A conversation in pi's newer form: prompt and tools stand in a message of their own.
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
    told: BoxStream<'static, Value>,
    decoder: Decoder,
    ready: VecDeque<StreamEvent>,
    idle_timeout: Option<Duration>,
    /// Tells the extension when nobody listens any more.
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
                Some(limit) => match tokio::time::timeout(limit, self.told.next()).await {
                    Ok(event) => event,
                    Err(_elapsed) => return Some((Err(silent(limit)), None)),
                },
                None => self.told.next().await,
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

fn silent(limit: Duration) -> ProviderError {
    let seconds = limit.as_secs_f64();
    ProviderError::retry(format!(
        "timed out: nothing came from the extension's provider for {seconds} s"
    ))
}

impl SignIn for ExtensionProvider {
    fn key(
        &self,
        stored: Value,
    ) -> std::pin::Pin<Box<dyn Future<Output = Result<SignedIn, String>> + Send>> {
        let (guests, name) = (self.guests.clone(), self.name.clone());
        Box::pin(async move {
            let mut made = guests.sign_in(&name, stored).await?;
            let renewed = made["renewed"].take();
            let key = made["key"].as_str().ok_or("the extension made no key of the sign-in")?;
            let renewed = renewed.is_object().then_some(renewed);
            Ok(SignedIn { key: key.to_owned(), renewed })
        })
    }

    fn turn(&self) -> &tokio::sync::Mutex<()> {
        &self.turn
    }
}
