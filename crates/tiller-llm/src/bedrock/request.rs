//! Builds requests of ConverseStream: the conversation, the tools, the thinking settings and the
//! cache marks. The format is the same for the models of all makers; thinking and caching are used
//! only for models known to support them.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::time::SystemTime;

use serde::Serialize;
use serde_json::{Value, json};
use tiller_agent::message::Arguments;
use tiller_agent::model::Model;
use tiller_agent::provider::{ProviderError, Request};

use super::sign;
use super::thinking::{is_claude, thinking};
use crate::convert::{self, AssistantPart, CallResult, ConvertRules, ConvertedTurn, UserPart};
use crate::max_tokens;
use crate::request_options::{RequestOptions, Secret};
use crate::stream::HttpRequest;

pub(super) fn post(
    request: &Request,
    access: &RequestOptions,
) -> Result<HttpRequest, ProviderError> {
    let base = request.model.base_url.trim_end_matches('/');
    let url = format!("{base}/model/{}/converse-stream", escaped(&request.model.id));
    let body = serde_json::to_vec(&BedrockBody::new(request, access)?)
        .map_err(|err| ProviderError::fatal(format!("cannot write the request: {err}")))?;
    let mut headers = vec![("accept", "application/vnd.amazon.eventstream".to_owned())];
    match (&access.key, &access.aws) {
        (Some(key), _) => {
            headers.push(("authorization", format!("Bearer {}", Secret::expose(key))));
        }
        (None, Some(keys)) => {
            headers.extend(sign::headers(&url, &body, keys, SystemTime::now())?);
        }
        // A gateway may add credentials itself.
        (None, None) => (),
    }
    Ok(HttpRequest { url, headers, body })
}

/// The signature covers the body, too.
pub(super) fn sign_again(
    post: &mut HttpRequest,
    access: &RequestOptions,
) -> Result<(), ProviderError> {
    if let (None, Some(keys)) = (&access.key, &access.aws) {
        let signed = sign::headers(&post.url, &post.body, keys, SystemTime::now())?;
        post.headers.retain(|(name, _)| !signed.iter().any(|(other, _)| other == name));
        post.headers.extend(signed);
    }
    Ok(())
}

/// Ids contain colons, and ARNs contain slashes.
fn escaped(id: &str) -> String {
    let mut escaped = String::with_capacity(id.len());
    for byte in id.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                escaped.push(byte.into());
            }
            other => escaped += &format!("%{other:02X}"),
        }
    }
    escaped
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct BedrockBody<'a> {
    messages: Vec<BedrockTurn<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<BedrockBlock<'a>>,
    inference_config: InferenceConfig,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_config: Option<ToolConfig<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    additional_model_request_fields: Option<Value>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct InferenceConfig {
    max_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
}

impl<'a> BedrockBody<'a> {
    fn new(
        request: &'a Request,
        access: &RequestOptions,
    ) -> Result<BedrockBody<'a>, ProviderError> {
        let model = &*request.model;
        let rules = ConvertRules { block_images: access.block_images, clean_id };
        let converted = convert::conversation(&request.messages, model, &rules);
        let mut messages = turns(converted, model);
        if messages.is_empty() {
            return Err(ProviderError::fatal(
                "there is nothing to send: the conversation is empty",
            ));
        }
        let caches = caches(model);
        // Everything up to the last user message is cached: the next request begins with it.
        if let Some(turn) = messages.last_mut().filter(|turn| caches && turn.role == "user") {
            turn.content.push(BedrockBlock::CachePoint(CachePoint::DEFAULT));
        }
        let mut system = Vec::new();
        if !request.system.trim().is_empty() {
            system.push(BedrockBlock::Text((&*request.system).into()));
            system.extend(caches.then_some(BedrockBlock::CachePoint(CachePoint::DEFAULT)));
        }
        let max_tokens = max_tokens::max_tokens(request);
        Ok(BedrockBody {
            system,
            inference_config: InferenceConfig { max_tokens, temperature: request.temperature },
            tool_config: ToolConfig::new(request, &messages, caches),
            additional_model_request_fields: thinking(request, access, max_tokens),
            messages,
        })
    }
}

/// Letters, digits, `_` and `-`, 1 to 64 of them.
fn clean_id(id: &str) -> String {
    let allowed = |c: char| {
        if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }
    };
    match id {
        "" => "call".to_owned(),
        id => id.chars().map(allowed).take(64).collect(),
    }
}

/// A price for cache reads means that the model has a cache. Other makers' models have no cache
/// marks.
fn caches(model: &Model) -> bool {
    is_claude(model) && model.cost.cache_read > 0.0
}

#[derive(Serialize)]
struct BedrockTurn<'a> {
    role: &'static str,
    content: Vec<BedrockBlock<'a>>,
}

/// Roles must alternate, so consecutive messages of one role are merged.
fn turns<'a>(converted: Vec<ConvertedTurn<'a>>, model: &Model) -> Vec<BedrockTurn<'a>> {
    let mut turns: Vec<BedrockTurn> = Vec::with_capacity(converted.len());
    for turn in converted {
        let (role, content): (_, Vec<BedrockBlock>) = match turn {
            ConvertedTurn::User(parts) => {
                ("user", parts.into_iter().map(BedrockBlock::part).collect())
            }
            ConvertedTurn::Results(results) => {
                ("user", results.into_iter().map(BedrockBlock::result).collect())
            }
            ConvertedTurn::Assistant(parts) => {
                let blocks = parts.into_iter().filter_map(|it| BedrockBlock::assistant(it, model));
                ("assistant", blocks.collect())
            }
        };
        match turns.last_mut() {
            _ if content.is_empty() => (),
            Some(last) if last.role == role => last.content.extend(content),
            _ => turns.push(BedrockTurn { role, content }),
        }
    }
    turns
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum BedrockBlock<'a> {
    Text(Cow<'a, str>),
    Image(Image<'a>),
    ReasoningContent(BedrockReasoning<'a>),
    ToolUse(ToolUse<'a>),
    ToolResult(ToolResult<'a>),
    CachePoint(CachePoint),
}

#[derive(Serialize)]
struct Image<'a> {
    format: &'a str,
    source: BedrockSource<'a>,
}

#[derive(Serialize)]
struct BedrockSource<'a> {
    bytes: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum BedrockReasoning<'a> {
    ReasoningText { text: &'a str, signature: &'a str },
    RedactedContent(&'a str),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolUse<'a> {
    tool_use_id: String,
    name: &'a str,
    input: &'a Arguments,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolResult<'a> {
    tool_use_id: String,
    content: Vec<BedrockBlock<'a>>,
    status: &'static str,
}

#[derive(Serialize)]
struct CachePoint {
    r#type: &'static str,
}

impl CachePoint {
    const DEFAULT: CachePoint = CachePoint { r#type: "default" };
}

impl<'a> BedrockBlock<'a> {
    fn part(part: UserPart<'a>) -> BedrockBlock<'a> {
        match part {
            UserPart::Text(text) => BedrockBlock::Text(text),
            UserPart::Image { data, mime_type } => match mime_type.strip_prefix("image/") {
                Some(format @ ("png" | "jpeg" | "gif" | "webp")) => {
                    BedrockBlock::Image(Image { format, source: BedrockSource { bytes: data } })
                }
                // An image of an unsupported type would make every later request fail.
                _ => BedrockBlock::Text(
                    format!("(image omitted: {mime_type} is not supported)").into(),
                ),
            },
        }
    }

    fn assistant(part: AssistantPart<'a>, model: &Model) -> Option<BedrockBlock<'a>> {
        match part {
            AssistantPart::Text { text, .. } => {
                (!text.trim().is_empty()).then(|| BedrockBlock::Text(text.into()))
            }
            AssistantPart::Thinking { signature: Some(signature), redacted: true, .. } => {
                Some(BedrockBlock::ReasoningContent(BedrockReasoning::RedactedContent(signature)))
            }
            AssistantPart::Thinking { text, signature: Some(signature), .. } => {
                Some(BedrockBlock::ReasoningContent(BedrockReasoning::ReasoningText {
                    text,
                    signature,
                }))
            }
            // Claude gets unsigned thinking, from an answer cut short, as text. Other models do not
            // accept their thinking back.
            AssistantPart::Thinking { text, .. } => (is_claude(model) && !text.trim().is_empty())
                .then(|| BedrockBlock::Text(text.into())),
            AssistantPart::Call { id: tool_use_id, name, arguments: input, .. } => {
                Some(BedrockBlock::ToolUse(ToolUse { tool_use_id, name, input }))
            }
        }
    }

    fn result(result: CallResult<'a>) -> BedrockBlock<'a> {
        let mut content: Vec<BedrockBlock> =
            result.content.into_iter().map(BedrockBlock::part).collect();
        if content.is_empty() {
            content.push(BedrockBlock::Text("(no output)".into()));
        }
        let status = if result.is_error { "error" } else { "success" };
        BedrockBlock::ToolResult(ToolResult { tool_use_id: result.id, content, status })
    }
}

#[derive(Serialize)]
struct ToolConfig<'a> {
    tools: Vec<BedrockTool<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum BedrockTool<'a> {
    ToolSpec(ToolSpec<'a>),
    CachePoint(CachePoint),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolSpec<'a> {
    name: &'a str,
    description: &'a str,
    input_schema: InputSchema<'a>,
}

#[derive(Serialize)]
struct InputSchema<'a> {
    json: Cow<'a, Value>,
}

impl<'a> ToolConfig<'a> {
    fn new(
        request: &'a Request,
        messages: &[BedrockTurn<'a>],
        caches: bool,
    ) -> Option<ToolConfig<'a>> {
        let mut tools: Vec<BedrockTool> = request
            .tools
            .iter()
            .map(|spec| {
                let json = convert::object_schema(&spec.parameters);
                BedrockTool::spec(&spec.name, &spec.description, json)
            })
            .collect();
        // The API refuses calls in a conversation without tools, so the called tools are declared.
        if tools.is_empty() {
            let names: BTreeSet<&'a str> = messages.iter().flat_map(|turn| turn.calls()).collect();
            let schema = || Cow::Owned(json!({"type": "object", "properties": {}}));
            let removed = "Not available any more.";
            tools.extend(names.into_iter().map(|name| BedrockTool::spec(name, removed, schema())));
        } else if caches {
            tools.push(BedrockTool::CachePoint(CachePoint::DEFAULT));
        }
        (!tools.is_empty()).then_some(ToolConfig { tools })
    }
}

impl<'a> BedrockTool<'a> {
    /// A description must not be empty.
    fn spec(name: &'a str, description: &'a str, json: Cow<'a, Value>) -> BedrockTool<'a> {
        let description = if description.is_empty() { name } else { description };
        BedrockTool::ToolSpec(ToolSpec { name, description, input_schema: InputSchema { json } })
    }
}

impl<'a> BedrockTurn<'a> {
    fn calls(&self) -> impl Iterator<Item = &'a str> {
        self.content.iter().filter_map(|block| match block {
            BedrockBlock::ToolUse(call) => Some(call.name),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests;
