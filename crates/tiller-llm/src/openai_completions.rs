//! OpenAI's Chat Completions API, which many servers implement: decodes its stream. [`request`]
//! builds what is sent, and [`server`] knows the differences between servers.
//!
//! An answer has three strings that grow in parallel: text, thinking, and the arguments of calls.
//! None of them is ever declared complete, so all blocks end together when the stream does.

mod calls;
mod native;
mod request;
mod server;

use std::collections::HashMap;

use serde_json::Value;
use tiller_agent::message::{StopReason, Usage};
use tiller_agent::provider::{ProviderError, Request, StreamEvent};

use crate::compat::flag;
use crate::request_options::RequestOptions;
use crate::sse;
use crate::stream::{Api, Decode, HttpRequest};
use calls::Calls;
use native::{CallDelta, CompletionsChunk, CompletionsDelta, CompletionsWireUsage};

pub(crate) struct Completions;

impl Api for Completions {
    type Decoder = CompletionsDecoder;

    fn post(request: &Request, access: &RequestOptions) -> Result<HttpRequest, ProviderError> {
        request::post(request, access)
    }

    fn decoder(request: &Request) -> CompletionsDecoder {
        let model = &request.model;
        CompletionsDecoder::new(&model.id, flag(model, "supportsFinishReason", true))
    }

    fn error_text(status: u16, body: &str) -> String {
        format!("{status} {}", native::error_message(body))
    }
}

/// Converts the API's chunks.
#[derive(Debug)]
pub(crate) struct CompletionsDecoder {
    /// The requested model.
    model: String,
    /// Whether an answer without a finish reason was cut off.
    needs_finish_reason: bool,
    response_id: Option<String>,
    response_model: Option<String>,
    /// The emitted blocks, in the order they started.
    blocks: Vec<CompletionsBlock>,
    text: Option<usize>,
    thinking: Option<usize>,
    calls: Calls,
    /// Encrypted thinking, by the call it belongs to.
    hidden: HashMap<String, String>,
    usage: Option<Usage>,
    finish_reason: Option<String>,
    done: bool,
}

#[derive(Debug)]
enum CompletionsBlock {
    Text,
    Thinking {
        field: Option<&'static str>,
    },
    /// The call's index among all calls.
    Call(usize),
}

impl CompletionsDecoder {
    fn new(model: &str, needs_finish_reason: bool) -> CompletionsDecoder {
        CompletionsDecoder {
            model: model.to_owned(),
            needs_finish_reason,
            response_id: None,
            response_model: None,
            blocks: Vec::new(),
            text: None,
            thinking: None,
            calls: Calls::default(),
            hidden: HashMap::new(),
            usage: None,
            finish_reason: None,
            done: false,
        }
    }
}

impl Decode for CompletionsDecoder {
    fn push(
        &mut self,
        event: sse::Event<'_>,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), ProviderError> {
        let data = event.data.trim();
        if self.done || data.is_empty() {
            return Ok(());
        }
        if data == "[DONE]" {
            return self.finish(out);
        }
        let chunk = CompletionsChunk::read(data)?;
        self.introduce(chunk.id, chunk.model, out);
        let mut usage = chunk.usage;
        // Only one choice is requested.
        if let Some(choice) = chunk.choices.and_then(|choices| choices.0) {
            self.grow(choice.delta.unwrap_or_default(), out);
            let reason = choice.finish_reason.filter(|reason| !reason.is_empty());
            self.finish_reason = reason.or(self.finish_reason.take());
            usage = usage.or(choice.usage);
        }
        if let Some(counts) = usage {
            self.count(&counts, out);
        }
        Ok(())
    }

    /// Not every server sends `[DONE]`; the finish reason decides.
    fn end(&mut self, out: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        self.finish(out)
    }
}

impl CompletionsDecoder {
    /// Every chunk repeats the id and the model.
    fn introduce(&mut self, id: Option<String>, model: Option<String>, out: &mut Vec<StreamEvent>) {
        if let (None, Some(id)) = (&self.response_id, id.filter(|id| !id.is_empty())) {
            out.push(StreamEvent::ResponseId(id.clone()));
            self.response_id = Some(id);
        }
        let other = model.filter(|model| !model.is_empty() && *model != self.model);
        if let (None, Some(other)) = (&self.response_model, other) {
            out.push(StreamEvent::ResponseModel(other.clone()));
            self.response_model = Some(other);
        }
    }

    fn grow(&mut self, delta: CompletionsDelta, out: &mut Vec<StreamEvent>) {
        if let Some((field, thought)) = delta.thought() {
            self.think(Some(field), thought.to_owned(), out);
        }
        if !delta.content.thinking.is_empty() {
            self.think(None, delta.content.thinking, out);
        }
        for text in [delta.content.text, delta.refusal.unwrap_or_default()] {
            if !text.is_empty() {
                self.push_text(text, out);
            }
        }
        for call in delta.tool_calls.unwrap_or_default() {
            self.grow_call(call, out);
        }
        for detail in delta.reasoning_details.unwrap_or_default() {
            self.hide(&detail);
        }
    }

    fn push_text(&mut self, delta: String, out: &mut Vec<StreamEvent>) {
        let index = *self.text.get_or_insert_with(|| {
            let index = self.blocks.len();
            self.blocks.push(CompletionsBlock::Text);
            out.push(StreamEvent::TextStart { index });
            index
        });
        out.push(StreamEvent::TextDelta { index, delta });
    }

    fn think(&mut self, field: Option<&'static str>, delta: String, out: &mut Vec<StreamEvent>) {
        let index = *self.thinking.get_or_insert_with(|| {
            let index = self.blocks.len();
            self.blocks.push(CompletionsBlock::Thinking { field });
            out.push(StreamEvent::ThinkingStart { index });
            index
        });
        out.push(StreamEvent::ThinkingDelta { index, delta });
    }

    fn grow_call(&mut self, delta: CallDelta, out: &mut Vec<StreamEvent>) {
        let Some((at, arguments)) = self.calls.take(delta) else {
            return;
        };
        let call = &mut self.calls.all[at];
        if let Some(index) = call.block_index {
            out.extend(arguments.map(|delta| StreamEvent::CallDelta { index, delta }));
            return;
        }
        if let Some(arguments) = arguments {
            call.held.get_or_insert_default().push_str(&arguments);
        }
        if !call.id.is_empty() && !call.name.is_empty() {
            self.start_call(at, out);
        }
    }

    fn start_call(&mut self, at: usize, out: &mut Vec<StreamEvent>) {
        let index = self.blocks.len();
        self.blocks.push(CompletionsBlock::Call(at));
        let call = &mut self.calls.all[at];
        call.block_index = Some(index);
        let (id, name) = (call.id.clone(), call.name.clone());
        out.push(StreamEvent::CallStart { index, id, name });
        out.extend(call.held.take().map(|delta| StreamEvent::CallDelta { index, delta }));
    }

    /// OpenRouter passes on what some models want back with their calls. It may come before the
    /// call, or after it.
    fn hide(&mut self, detail: &Value) {
        let encrypted = detail["type"] == "reasoning.encrypted" && detail["data"].is_string();
        if let (true, Some(id)) = (encrypted, detail["id"].as_str()) {
            self.hidden.insert(id.to_owned(), detail.to_string());
        }
    }

    fn count(&mut self, counts: &CompletionsWireUsage, out: &mut Vec<StreamEvent>) {
        let usage = Some(counts.usage());
        // Some servers send the usage in every chunk.
        if usage != self.usage {
            out.extend(usage.clone().map(|usage| StreamEvent::Usage(Box::new(usage))));
            self.usage = usage;
        }
    }

    fn finish(&mut self, out: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        self.done = true;
        let nameless = self.start_held_calls(out);
        for (index, block) in std::mem::take(&mut self.blocks).into_iter().enumerate() {
            out.push(match block {
                CompletionsBlock::Text => StreamEvent::TextEnd { index, signature: None },
                CompletionsBlock::Thinking { field } => {
                    let signature = field.map(String::from);
                    StreamEvent::ThinkingEnd { index, signature, redacted: false }
                }
                CompletionsBlock::Call(at) => {
                    let thought_signature = self.hidden.remove(&self.calls.all[at].id);
                    StreamEvent::CallEnd { index, thought_signature }
                }
            });
        }
        if nameless {
            return Err(ProviderError::retry("the server sent a tool call without a name"));
        }
        let raw = self.finish_reason.take();
        let reason = self.stop_reason(raw.as_deref());
        let reason = reason.inspect_err(|_| out.extend(raw.clone().map(StreamEvent::RawStop)))?;
        out.push(StreamEvent::Done { reason, raw });
        Ok(())
    }

    /// Starts calls that never got an id, with a generated one. Returns whether some had no name
    /// either.
    fn start_held_calls(&mut self, out: &mut Vec<StreamEvent>) -> bool {
        let mut nameless = false;
        for at in 0..self.calls.all.len() {
            let call = &mut self.calls.all[at];
            if call.block_index.is_some() {
                continue;
            }
            if call.name.is_empty() {
                nameless = true;
                continue;
            }
            if call.id.is_empty() {
                let answer = self.response_id.as_deref().unwrap_or("call");
                call.id = format!("{answer}_{at}");
            }
            self.start_call(at, out);
        }
        nameless
    }

    fn stop_reason(&self, raw: Option<&str>) -> Result<StopReason, ProviderError> {
        let failed = |reason| format!("Provider finish_reason: {reason}");
        match raw {
            // Several servers report `stop` after tool calls.
            Some("stop" | "end" | "eos" | "tool_calls" | "function_call") => Ok(self.normal_stop()),
            Some("length" | "max_tokens" | "model_length") => Ok(StopReason::Length),
            Some(reason @ ("error" | "network_error" | "insufficient_system_resource")) => {
                Err(ProviderError::retry(failed(reason)))
            }
            Some(reason @ "model_context_window_exceeded") => {
                Err(ProviderError::Overflow { message: failed(reason).into() })
            }
            Some(other) => Err(ProviderError::fatal(failed(other))),
            None if self.needs_finish_reason => {
                Err(ProviderError::retry("Stream ended without finish_reason"))
            }
            None => Ok(self.normal_stop()),
        }
    }

    fn normal_stop(&self) -> StopReason {
        if self.calls.all.is_empty() { StopReason::Stop } else { StopReason::ToolUse }
    }
}

#[cfg(test)]
mod tests;
