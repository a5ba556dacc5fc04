//! Google's Gemini API: decodes its stream. [`request`] builds what is sent.
//!
//! A stream is a sequence of whole responses, each with the next few parts of the answer. Parts
//! have no start and no end: text continues until another kind of part follows, and a function call
//! comes complete.

mod request;
mod thinking;

use std::collections::HashSet;
use std::mem;

use serde::Deserialize;
use serde_json::{Map, Value};
use tiller_agent::message::{StopReason, Usage};
use tiller_agent::provider::{ProviderError, Request, StreamEvent};

use crate::blocks::{BlockKind, BlockMap};
use crate::errors::{self, Failure};
use crate::json::{self, FirstItem};
use crate::request_options::RequestOptions;
use crate::sse;
use crate::stream::{Api, Decode, HttpRequest};

pub(crate) struct GenerateContent;

impl Api for GenerateContent {
    type Decoder = GoogleDecoder;

    fn post(request: &Request, access: &RequestOptions) -> Result<HttpRequest, ProviderError> {
        request::post(request, access)
    }

    fn decoder(request: &Request) -> GoogleDecoder {
        GoogleDecoder::new(&request.model.id, request.messages.len())
    }

    /// The body contains the status, too. It is pretty-printed over many lines.
    fn error_text(_status: u16, body: &str) -> String {
        json::read::<Value>(body).map_or_else(|_| body.to_owned(), |body| body.to_string())
    }
}

/// Converts the API's responses.
#[derive(Debug)]
pub(crate) struct GoogleDecoder {
    /// The requested model.
    model: String,
    /// The number of messages before this answer.
    message_index: usize,
    response_id: Option<String>,
    /// The model that answers, once it was named.
    answered_by: Option<String>,
    blocks: BlockMap,
    /// The ids of the calls so far.
    calls: HashSet<String>,
    finish: Option<Finish>,
}

/// The API does not number blocks: one is open at a time.
const ONLY: usize = 0;

/// Why the answer ended. Some models send `STOP` with every piece, so only the last one counts.
#[derive(Debug)]
struct Finish {
    reason: String,
    message: Option<String>,
}

impl GoogleDecoder {
    fn new(model: &str, message_index: usize) -> GoogleDecoder {
        GoogleDecoder {
            model: model.to_owned(),
            message_index,
            response_id: None,
            answered_by: None,
            blocks: BlockMap::default(),
            calls: HashSet::new(),
            finish: None,
        }
    }
}

impl Decode for GoogleDecoder {
    fn push(
        &mut self,
        event: sse::Event<'_>,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), ProviderError> {
        let native: GoogleEvent =
            json::read(event.data).map_err(|err| errors::unreadable(event.data, &err))?;
        if let Some(error) = native.error {
            let status = error.code.and_then(|code| u16::try_from(code).ok());
            let failure = Failure { status, body: event.data, after: None };
            self.blocks.end_all(out);
            return Err(failure.classify(event.data.to_owned()));
        }
        self.begin(native.response_id, native.model_version, out);
        // Only one candidate is requested.
        if let Some(candidate) = native.candidates.0 {
            let parts = candidate.content.map(|content| content.parts).unwrap_or_default();
            parts.into_iter().for_each(|part| self.take(part, out));
            if let Some(reason) = candidate.finish_reason {
                self.finish = Some(Finish { reason, message: candidate.finish_message });
            }
        }
        out.extend(
            native.usage_metadata.map(|usage| StreamEvent::Usage(Box::new((*usage).into()))),
        );
        match native.prompt_feedback.and_then(|feedback| feedback.block_reason) {
            Some(reason) => {
                let message = format!("The provider refused the prompt: {reason}");
                Err(ProviderError::fatal(message))
            }
            None => Ok(()),
        }
    }

    fn end(&mut self, out: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        self.blocks.end_all(out);
        let Some(Finish { reason: raw, message }) = self.finish.take() else {
            return Err(ProviderError::retry("Stream ended without finish_reason"));
        };
        let reason = stop_reason(&raw, message, !self.calls.is_empty());
        let reason = reason.inspect_err(|_| out.push(StreamEvent::RawStop(raw.clone())))?;
        out.push(StreamEvent::Done { reason, raw: Some(raw) });
        Ok(())
    }
}

impl GoogleDecoder {
    /// The id and the model. Every response has them, but one that only reports on the prompt may
    /// not.
    fn begin(
        &mut self,
        response_id: Option<String>,
        model: Option<String>,
        out: &mut Vec<StreamEvent>,
    ) {
        if let (None, Some(id)) = (&self.response_id, response_id) {
            self.response_id = Some(id.clone());
            out.push(StreamEvent::ResponseId(id));
        }
        if let (None, Some(model)) = (&self.answered_by, model) {
            self.answered_by = Some(model.clone());
            out.extend((model != self.model).then_some(StreamEvent::ResponseModel(model)));
        }
    }

    fn take(&mut self, part: GoogleWirePart, out: &mut Vec<StreamEvent>) {
        if let Some(call) = part.function_call {
            self.call(*call, part.thought_signature, out);
        } else if let Some(text) = part.text {
            self.grow(text, part.thought, part.thought_signature, out);
        }
    }

    /// An empty text has no content, but may carry the signature of the part before it.
    fn grow(
        &mut self,
        text: String,
        thought: bool,
        signature: Option<String>,
        out: &mut Vec<StreamEvent>,
    ) {
        if text.is_empty() && signature.is_none() {
            return;
        }
        let kind = if thought { BlockKind::Thinking } else { BlockKind::Text };
        if self.blocks.get_kind(ONLY, kind).is_none() {
            self.blocks.end_all(out);
            if thought {
                self.blocks.start_thinking(ONLY, out)
            } else {
                self.blocks.start_text(ONLY, out)
            };
        }
        let Some(block) = self.blocks.get(ONLY) else { return };
        block.signature = signature.unwrap_or_else(|| mem::take(&mut block.signature));
        block.grow(text, out);
    }

    fn call(
        &mut self,
        call: GoogleWireCall,
        signature: Option<String>,
        out: &mut Vec<StreamEvent>,
    ) {
        self.blocks.end_all(out);
        let id = self.call_id(call.id, &call.name);
        let block = self.blocks.start_call(ONLY, id, call.name, out);
        block.full_text = Value::Object(call.args.unwrap_or_default()).to_string();
        block.signature = signature.unwrap_or_default();
        self.blocks.end_all(out);
    }

    /// The API's id, if there is one. Most models identify calls only by their order, but ids must
    /// be unique in the whole conversation.
    fn call_id(&mut self, sent_id: Option<String>, name: &str) -> String {
        let sent_id = sent_id.filter(|id| !id.is_empty() && !self.calls.contains(id));
        let id = sent_id.unwrap_or_else(|| {
            let number = self.calls.len() + 1;
            match &self.response_id {
                Some(response) => format!("{name}_{response}_{number}"),
                None => format!("{name}_{}_{number}", self.message_index),
            }
        });
        self.calls.insert(id.clone());
        id
    }
}

fn stop_reason(
    raw: &str,
    message: Option<String>,
    calls: bool,
) -> Result<StopReason, ProviderError> {
    let why = message.map(|why| format!(": {why}")).unwrap_or_default();
    let failed = || format!("Provider stopped with: {raw}{why}");
    match raw {
        "STOP" if calls => Ok(StopReason::ToolUse),
        "STOP" => Ok(StopReason::Stop),
        "MAX_TOKENS" => Ok(StopReason::Length),
        // The model produced invalid output. It rarely does so twice.
        "MALFORMED_FUNCTION_CALL" | "MALFORMED_RESPONSE" => Err(ProviderError::retry(failed())),
        _ => Err(ProviderError::fatal(failed())),
    }
}

/// A response of the API.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct GoogleEvent {
    #[serde(default)]
    candidates: FirstItem<NativeCandidate>,
    usage_metadata: Option<Box<GoogleWireUsage>>,
    model_version: Option<String>,
    response_id: Option<String>,
    prompt_feedback: Option<NativeFeedback>,
    error: Option<GoogleWireError>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct NativeCandidate {
    content: Option<NativeContent>,
    finish_reason: Option<String>,
    finish_message: Option<String>,
}

#[derive(Debug, Deserialize)]
struct NativeContent {
    #[serde(default)]
    parts: Vec<GoogleWirePart>,
}

/// Parts of other kinds (images, executed code) have none of these fields.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct GoogleWirePart {
    text: Option<String>,
    #[serde(default)]
    thought: bool,
    thought_signature: Option<String>,
    /// Boxed, so that a text part is small to move.
    function_call: Option<Box<GoogleWireCall>>,
}

#[derive(Debug, Deserialize)]
struct GoogleWireCall {
    id: Option<String>,
    name: String,
    args: Option<Map<String, Value>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct NativeFeedback {
    block_reason: Option<String>,
}

#[derive(Debug, Deserialize)]
struct GoogleWireError {
    code: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct GoogleWireUsage {
    prompt_token_count: u64,
    cached_content_token_count: u64,
    candidates_token_count: u64,
    thoughts_token_count: u64,
    total_token_count: Option<u64>,
}

impl From<GoogleWireUsage> for Usage {
    /// The API counts cached tokens as prompt tokens, and thinking tokens separately from the
    /// answer.
    fn from(usage: GoogleWireUsage) -> Usage {
        let cached = usage.cached_content_token_count;
        let output = usage.candidates_token_count.saturating_add(usage.thoughts_token_count);
        Usage {
            input: usage.prompt_token_count.saturating_sub(cached),
            output,
            cache_read: cached,
            total_tokens: usage
                .total_token_count
                .unwrap_or(usage.prompt_token_count.saturating_add(output)),
            reasoning: Some(usage.thoughts_token_count),
            ..Usage::default()
        }
    }
}

#[cfg(test)]
mod tests;
