//! The API's chunks, with the variations of various servers.

use std::fmt;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use tiller_agent::message::Usage;
use tiller_agent::provider::ProviderError;

use crate::errors::{self, Failure};
use crate::json::{self, FirstItem};

#[derive(Debug, Deserialize)]
pub(super) struct CompletionsChunk {
    pub id: Option<String>,
    pub model: Option<String>,
    /// Boxed like other large fields, so that a chunk is small to move.
    pub choices: Option<FirstItem<Box<Choice>>>,
    /// Usually sent once.
    pub usage: Option<Box<CompletionsWireUsage>>,
    error: Option<Box<Value>>,
    object: Option<Object>,
    code: Option<Box<Value>>,
}

/// The type of the whole object.
#[derive(Debug, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Object {
    Error,
    /// A chunk, whatever its name.
    #[serde(other)]
    Other,
}

#[derive(Debug, Deserialize)]
pub(super) struct Choice {
    pub delta: Option<CompletionsDelta>,
    pub finish_reason: Option<String>,
    /// Moonshot sends the usage here.
    pub usage: Option<Box<CompletionsWireUsage>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct CompletionsDelta {
    pub content: CompletionsContent,
    pub refusal: Option<String>,
    reasoning_content: Option<String>,
    reasoning: Option<String>,
    reasoning_text: Option<String>,
    pub reasoning_details: Option<Vec<Value>>,
    pub tool_calls: Option<Vec<CallDelta>>,
}

/// The fields in which servers send thinking, and want it back.
pub(super) const THOUGHT_FIELDS: [&str; 3] = ["reasoning_content", "reasoning", "reasoning_text"];

impl CompletionsDelta {
    /// The thinking text and its field. Some servers fill two fields with the same text.
    pub(super) fn thought(&self) -> Option<(&'static str, &str)> {
        let values = [&self.reasoning_content, &self.reasoning, &self.reasoning_text];
        let thoughts = THOUGHT_FIELDS.into_iter().zip(values);
        let mut filled = thoughts.filter_map(|(field, value)| Some((field, value.as_deref()?)));
        filled.find(|(_, thought)| !thought.is_empty())
    }
}

/// A text; at Mistral also a list of parts, some of them thinking.
#[derive(Debug, Default)]
pub(super) struct CompletionsContent {
    pub text: String,
    pub thinking: String,
}

#[derive(Debug, Deserialize)]
struct CompletionsPart {
    text: Option<String>,
    thinking: Option<Vec<CompletionsPart>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct CallDelta {
    pub index: Option<u64>,
    pub id: Option<String>,
    pub function: Option<FunctionDelta>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct FunctionDelta {
    pub name: Option<String>,
    pub arguments: Option<Arguments>,
}

/// A piece of JSON text. Some servers send the object itself.
#[derive(Debug)]
pub(super) struct Arguments(pub String);

#[derive(Debug, Deserialize)]
pub(super) struct CompletionsWireUsage {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    total_tokens: Option<u64>,
    prompt_tokens_details: Option<PromptDetails>,
    completion_tokens_details: Option<CompletionDetails>,
    /// Moonshot's field.
    cached_tokens: Option<u64>,
    /// DeepSeek's field.
    prompt_cache_hit_tokens: Option<u64>,
}

#[derive(Debug, Deserialize)]
struct PromptDetails {
    cached_tokens: Option<u64>,
    cache_write_tokens: Option<u64>,
}

#[derive(Debug, Deserialize)]
struct CompletionDetails {
    reasoning_tokens: Option<u64>,
}

impl CompletionsWireUsage {
    /// The API's prompt tokens include cached ones, ours do not.
    pub(super) fn usage(&self) -> Usage {
        let details = self.prompt_tokens_details.as_ref();
        let cache_read = details
            .and_then(|details| details.cached_tokens)
            .or(self.cached_tokens)
            .or(self.prompt_cache_hit_tokens)
            .unwrap_or(0);
        let cache_write = details.and_then(|details| details.cache_write_tokens).unwrap_or(0);
        let thought =
            self.completion_tokens_details.as_ref().and_then(|details| details.reasoning_tokens);
        let reasoning = thought.unwrap_or(0);
        let prompt = self.prompt_tokens.unwrap_or(0);
        let mut output = self.completion_tokens.unwrap_or(0);
        // xAI counts thinking separately from the answer, others include it. The total shows which.
        let with_reasoning = prompt.saturating_add(output).saturating_add(reasoning);
        if reasoning > 0 && self.total_tokens == Some(with_reasoning) {
            output = output.saturating_add(reasoning);
        }
        let input = prompt.saturating_sub(cache_read).saturating_sub(cache_write);
        let counts = [input, output, cache_read, cache_write];
        Usage {
            input,
            output,
            cache_read,
            cache_write,
            reasoning: Some(reasoning),
            total_tokens: counts.into_iter().fold(0, u64::saturating_add),
            ..Usage::default()
        }
    }
}

impl CompletionsChunk {
    /// An error object in place of a chunk becomes an error.
    pub(super) fn read(data: &str) -> Result<CompletionsChunk, ProviderError> {
        let chunk: CompletionsChunk =
            json::read(data).map_err(|err| errors::unreadable(data, &err))?;
        let failed = match chunk.error.as_deref() {
            Some(Value::Object(error)) => !error.is_empty(),
            Some(Value::String(error)) => !error.is_empty(),
            _ => chunk.object == Some(Object::Error),
        };
        if failed { Err(failure(&chunk, data)) } else { Ok(chunk) }
    }
}

fn failure(chunk: &CompletionsChunk, data: &str) -> ProviderError {
    // OpenRouter passes on the status of the server behind it.
    let inner = chunk.error.as_ref().and_then(|error| error.get("code"));
    let status = match inner.or(chunk.code.as_deref()) {
        Some(Value::Number(code)) => code.as_u64().and_then(|code| u16::try_from(code).ok()),
        Some(Value::String(code)) => code.parse().ok(),
        _ => None,
    };
    let status = status.filter(|status| (400..600).contains(status));
    Failure { status, body: data, after: None }.classify(error_message(data))
}

/// The error's message, if it can be found.
pub(super) fn error_message(body: &str) -> String {
    let full_body = || body.trim().to_owned();
    let Ok(mut value) = json::read::<Value>(body) else {
        return full_body();
    };
    // Google wraps it in a list.
    if let Value::Array(list) = &mut value {
        value = list.first_mut().map(Value::take).unwrap_or_default();
    }
    let error = value.get("error").filter(|error| !error.is_null()).unwrap_or(&value);
    let message = match error {
        Value::String(text) => Some(text.as_str()),
        error => ["message", "detail"].into_iter().find_map(|key| error.get(key)?.as_str()),
    };
    let Some(message) = message.map(str::trim).filter(|message| !message.is_empty()) else {
        return full_body();
    };
    // OpenRouter's message is "Provider returned error"; the reason is in another field.
    match error.pointer("/metadata/raw").and_then(Value::as_str).map(str::trim) {
        Some(raw) if !raw.is_empty() => format!("{message}\n{raw}"),
        _ => message.to_owned(),
    }
}

impl<'de> Deserialize<'de> for CompletionsContent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<CompletionsContent, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = CompletionsContent;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text or a list of parts")
            }

            fn visit_unit<E: de::Error>(self) -> Result<CompletionsContent, E> {
                Ok(CompletionsContent::default())
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<CompletionsContent, E> {
                Ok(CompletionsContent { text: text.to_owned(), thinking: String::new() })
            }

            fn visit_seq<A: SeqAccess<'de>>(
                self,
                mut parts: A,
            ) -> Result<CompletionsContent, A::Error> {
                let mut content = CompletionsContent::default();
                while let Some(part) = parts.next_element::<CompletionsPart>()? {
                    content.text.push_str(&part.text.unwrap_or_default());
                    for thought in part.thinking.unwrap_or_default() {
                        content.thinking.push_str(&thought.text.unwrap_or_default());
                    }
                }
                Ok(content)
            }
        }
        deserializer.deserialize_any(Read)
    }
}

impl<'de> Deserialize<'de> for Arguments {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Arguments, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = Arguments;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("arguments as text or as an object")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Arguments, E> {
                Ok(Arguments(text.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Arguments, A::Error> {
                let object = Map::deserialize(MapAccessDeserializer::new(map))?;
                Ok(Arguments(Value::Object(object).to_string()))
            }
        }
        deserializer.deserialize_any(Read)
    }
}
