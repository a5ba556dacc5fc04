//! Builds requests of the Responses API: the conversation as a list of items, the tools and the
//! thinking settings.
//!
//! Nothing is stored on the server (`store: false`), so each request contains everything, including
//! the model's own encrypted reasoning.

use std::borrow::Cow;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;
use tiller_agent::model::{Model, ThinkingLevel};
use tiller_agent::provider::{ProviderError, Request, ToolSpec};

use super::TextSignature;
use crate::compat::{flag, text};
use crate::convert::{self, AssistantPart, CallResult, ConvertRules, ConvertedTurn, UserPart};
use crate::max_tokens;
use crate::request_options::{CacheRetention, RequestOptions, Secret};
use crate::stream::HttpRequest;

pub(crate) fn post(
    request: &Request,
    access: &RequestOptions,
) -> Result<HttpRequest, ProviderError> {
    let url = format!("{}/responses", request.model.base_url.trim_end_matches('/'));
    let mut headers = Vec::new();
    if let Some(key) = access.key.as_ref().map(Secret::expose) {
        headers.push(("authorization", format!("Bearer {key}")));
    }
    // Requests with the same session id are routed to the same cache.
    if flag(&request.model, "sendSessionIdHeader", true) {
        if text(&request.model, "sessionAffinityFormat") != Some("openai-nosession") {
            headers.push(("session_id", request.session_id.to_string()));
        }
        headers.push(("x-client-request-id", request.session_id.to_string()));
    }
    Ok(HttpRequest { url, headers, body: body(request, &request.model.id, access)? })
}

/// The body, which is the same on every server. `name` is the server's name for the model.
pub(crate) fn body(
    request: &Request,
    name: &str,
    access: &RequestOptions,
) -> Result<Vec<u8>, ProviderError> {
    let body = ResponsesBody { model: name, ..ResponsesBody::new(request, access)? };
    serde_json::to_vec(&body)
        .map_err(|err| ProviderError::fatal(format!("cannot write the request: {err}")))
}

#[derive(Serialize)]
struct ResponsesBody<'a> {
    model: &'a str,
    input: Vec<ResponsesItem<'a>>,
    stream: bool,
    prompt_cache_key: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_cache_retention: Option<&'static str>,
    store: bool,
    max_output_tokens: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<ResponsesTool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<ResponsesToolChoice<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<ResponsesReasoning<'a>>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    include: &'static [&'static str],
}

impl<'a> ResponsesBody<'a> {
    fn new(
        request: &'a Request,
        access: &RequestOptions,
    ) -> Result<ResponsesBody<'a>, ProviderError> {
        /// The API's minimum.
        const LEAST_TOKENS: u64 = 16;
        let model = &*request.model;
        let rules = ConvertRules { block_images: access.block_images, clean_id };
        let turns = convert::conversation(&request.messages, model, &rules);
        let mut input = Vec::with_capacity(turns.len() + 1);
        if !request.system.trim().is_empty() {
            let developer = model.reasoning && flag(model, "supportsDeveloperRole", true);
            let role = if developer { "developer" } else { "system" };
            input.push(ResponsesItem::System { role, content: &request.system });
        }
        let before = input.len();
        turns.into_iter().for_each(|turn| push_items(turn, &mut input));
        if input.len() == before {
            return Err(ProviderError::fatal(
                "there is nothing to send: the conversation is empty",
            ));
        }
        let long = access.cache_retention == CacheRetention::Long
            && flag(model, "supportsLongCacheRetention", true);
        let reasoning = ResponsesReasoning::new(model, request.thinking);
        let thinks = model.reasoning && reasoning.as_ref().is_none_or(|it| it.effort != "none");
        Ok(ResponsesBody {
            model: &model.id,
            input,
            stream: true,
            prompt_cache_key: short(&request.session_id),
            prompt_cache_retention: long.then_some("24h"),
            store: false,
            max_output_tokens: max_tokens::max_tokens(request).max(LEAST_TOKENS),
            tools: request.tools.iter().map(ResponsesTool::new).collect(),
            tool_choice: request
                .forced_tool
                .as_deref()
                .map(|name| ResponsesToolChoice { r#type: "function", name }),
            temperature: request.temperature,
            reasoning,
            include: if thinks { &["reasoning.encrypted_content"] } else { &[] },
        })
    }
}

#[derive(Serialize)]
struct ResponsesToolChoice<'a> {
    r#type: &'static str,
    name: &'a str,
}

/// The API's limit for names and ids.
const ID_MAX_CHARS: usize = 64;

fn short(id: &str) -> &str {
    let end = id.char_indices().nth(ID_MAX_CHARS).map_or(id.len(), |(end, _)| end);
    &id[..end]
}

/// Stored as `call_id|item_id`; the first part links a call and its result. Letters, digits, `_`
/// and `-` are valid everywhere.
fn clean_id(id: &str) -> String {
    let call_id = id.split_once('|').map_or(id, |(call_id, _)| call_id);
    let allowed = |c: char| {
        if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }
    };
    match call_id {
        "" => "call".to_owned(),
        call_id => call_id.chars().map(allowed).take(ID_MAX_CHARS).collect(),
    }
}

/// One element of `input`.
#[derive(Serialize)]
#[serde(untagged)]
enum ResponsesItem<'a> {
    System {
        role: &'static str,
        content: &'a str,
    },
    User {
        role: &'static str,
        content: Vec<Input<'a>>,
    },
    /// Unchanged from the response.
    Reasoning(&'a RawValue),
    Typed(TypedItem<'a>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum TypedItem<'a> {
    Message {
        role: &'static str,
        content: [OutputText<'a>; 1],
        status: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        phase: Option<String>,
    },
    FunctionCall {
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<&'a str>,
        call_id: String,
        name: &'a str,
        arguments: String,
    },
    FunctionCallOutput {
        call_id: String,
        output: Output<'a>,
    },
}

#[derive(Serialize)]
struct OutputText<'a> {
    r#type: &'static str,
    text: &'a str,
    annotations: [Value; 0],
}

/// Text alone as a string, with images as a list.
#[derive(Serialize)]
#[serde(untagged)]
enum Output<'a> {
    Text(String),
    Items(Vec<Input<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Input<'a> {
    InputText { text: Cow<'a, str> },
    InputImage { detail: &'static str, image_url: DataUrl<'a> },
}

/// Serialised without building the string: images have megabytes.
struct DataUrl<'a> {
    mime_type: &'a str,
    data: &'a str,
}

impl Serialize for DataUrl<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("data:{};base64,{}", self.mime_type, self.data))
    }
}

impl<'a> Input<'a> {
    fn new(part: UserPart<'a>) -> Input<'a> {
        match part {
            UserPart::Text(text) => Input::InputText { text },
            UserPart::Image {
                data,
                mime_type: mime_type @ ("image/png" | "image/jpeg" | "image/gif" | "image/webp"),
            } => Input::InputImage { detail: "auto", image_url: DataUrl { mime_type, data } },
            // An image of an unsupported type would make every later request fail.
            UserPart::Image { mime_type, .. } => Input::InputText {
                text: format!("(image omitted: {mime_type} is not supported)").into(),
            },
        }
    }
}

fn push_items<'a>(turn: ConvertedTurn<'a>, input: &mut Vec<ResponsesItem<'a>>) {
    match turn {
        ConvertedTurn::User(parts) => {
            let content = parts.into_iter().map(Input::new).collect();
            input.push(ResponsesItem::User { role: "user", content });
        }
        ConvertedTurn::Assistant(parts) => {
            input.extend(parts.into_iter().filter_map(assistant_item));
            // The API refuses reasoning without a following item, as in an answer cut short.
            while matches!(input.last(), Some(ResponsesItem::Reasoning(_))) {
                input.pop();
            }
        }
        ConvertedTurn::Results(results) => input.extend(results.into_iter().map(result_item)),
    }
}

fn assistant_item(part: AssistantPart<'_>) -> Option<ResponsesItem<'_>> {
    match part {
        AssistantPart::Text { text, .. } if text.trim().is_empty() => None,
        AssistantPart::Text { text, signature } => {
            let (id, phase) = signature.map(message_id).unwrap_or_default();
            Some(ResponsesItem::Typed(TypedItem::Message {
                role: "assistant",
                content: [OutputText { r#type: "output_text", text, annotations: [] }],
                status: "completed",
                id,
                phase,
            }))
        }
        // Reasoning cut short before the complete item arrived is lost: only the server can encrypt
        // it.
        AssistantPart::Thinking { signature, .. } => signature.and_then(reasoning_item),
        AssistantPart::Call { id: call_id, own_id, name, arguments, .. } => {
            let id = own_id.and_then(|id| id.split_once('|')).map(|(_, item_id)| item_id);
            Some(ResponsesItem::Typed(TypedItem::FunctionCall {
                id: id.filter(|id| is_id(id, "fc")),
                call_id,
                name,
                arguments: Value::Object(arguments.clone()).to_string(),
            }))
        }
    }
}

/// Some gateways create ids of their own, which the API would refuse. Ids are optional.
fn is_id(id: &str, kind: &str) -> bool {
    id.starts_with(kind) && id.len() <= ID_MAX_CHARS
}

fn message_id(signature: &str) -> (Option<String>, Option<String>) {
    let (id, phase) = match serde_json::from_str::<TextSignature>(signature) {
        Ok(signature) => (signature.id, signature.phase),
        // Older files contain the bare id.
        Err(_) => (signature.to_owned(), None),
    };
    (Some(id).filter(|id| is_id(id, "msg_")), phase)
}

fn reasoning_item(signature: &str) -> Option<ResponsesItem<'_>> {
    #[derive(Deserialize)]
    struct Typed<'a> {
        r#type: &'a str,
    }
    let item: &RawValue = serde_json::from_str(signature).ok()?;
    let Typed { r#type } = serde_json::from_str(item.get()).ok()?;
    (r#type == "reasoning").then_some(ResponsesItem::Reasoning(item))
}

fn result_item(result: CallResult<'_>) -> ResponsesItem<'_> {
    let has_images = result.content.iter().any(|part| matches!(part, UserPart::Image { .. }));
    let output = if has_images {
        Output::Items(result.content.into_iter().map(Input::new).collect())
    } else {
        let texts = result.content.iter().filter_map(|part| match part {
            UserPart::Text(text) => Some(&**text),
            UserPart::Image { .. } => None,
        });
        Output::Text(texts.collect::<Vec<_>>().join("\n"))
    };
    ResponsesItem::Typed(TypedItem::FunctionCallOutput { call_id: result.id, output })
}

#[derive(Serialize)]
struct ResponsesTool<'a> {
    r#type: &'static str,
    name: &'a str,
    description: &'a str,
    parameters: Cow<'a, Value>,
    /// Must be set to false: strict schemas have no optional arguments, and ours have some.
    strict: bool,
}

impl<'a> ResponsesTool<'a> {
    fn new(spec: &'a ToolSpec) -> ResponsesTool<'a> {
        ResponsesTool {
            r#type: "function",
            name: &spec.name,
            description: &spec.description,
            parameters: convert::object_schema(&spec.parameters),
            strict: false,
        }
    }
}

#[derive(Serialize)]
struct ResponsesReasoning<'a> {
    effort: &'a str,
    /// The reasoning itself is encrypted; the summary is shown to the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<&'static str>,
}

impl<'a> ResponsesReasoning<'a> {
    fn new(model: &'a Model, level: ThinkingLevel) -> Option<ResponsesReasoning<'a>> {
        if !model.reasoning || !flag(model, "supportsReasoningEffort", true) {
            return None;
        }
        let named = model.thinking_level_map.as_ref().and_then(|map| map.get(&level));
        let (effort, summary) = match (named, level) {
            // A model that always thinks refuses to be switched off.
            (Some(None), ThinkingLevel::Off) => return None,
            (Some(Some(name)), ThinkingLevel::Off) => (name.as_str(), None),
            (None, ThinkingLevel::Off) => ("none", None),
            (Some(Some(name)), _) => (name.as_str(), Some("auto")),
            (_, level) => (level.name(), Some("auto")),
        };
        Some(ResponsesReasoning { effort, summary })
    }
}

#[cfg(test)]
mod tests;
