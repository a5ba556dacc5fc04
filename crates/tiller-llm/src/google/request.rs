//! Builds requests of the Gemini API: the conversation, the tools and the thinking settings.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Value, json};
use tiller_agent::message::Arguments;
use tiller_agent::model::Model;
use tiller_agent::provider::{ProviderError, Request, ToolSpec};

use super::thinking::{self, ThinkingConfig};
use crate::convert::{self, AssistantPart, CallResult, ConvertRules, ConvertedTurn};
use crate::max_tokens;
use crate::request_options::{RequestOptions, Secret};
use crate::stream::HttpRequest;

pub(super) fn post(
    request: &Request,
    access: &RequestOptions,
) -> Result<HttpRequest, ProviderError> {
    let base = request.model.base_url.trim_end_matches('/');
    let id = &request.model.id;
    let id = id.strip_prefix("models/").unwrap_or(id);
    let url = format!("{base}/models/{id}:streamGenerateContent?alt=sse");
    let key = access.key.as_ref().map(Secret::expose);
    let headers = key.map(|key| ("x-goog-api-key", key.to_owned())).into_iter().collect();
    let body = GoogleBody::new(request, access)?;
    let body = serde_json::to_vec(&body)
        .map_err(|err| ProviderError::fatal(format!("cannot write the request: {err}")))?;
    Ok(HttpRequest { url, headers, body })
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GoogleBody<'a> {
    contents: Vec<GoogleContent<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    system_instruction: Option<GoogleContent<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<[Tools<'a>; 1]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_config: Option<Value>,
    generation_config: GenerationConfig,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GenerationConfig {
    max_output_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_config: Option<ThinkingConfig>,
}

impl<'a> GoogleBody<'a> {
    fn new(request: &'a Request, access: &RequestOptions) -> Result<GoogleBody<'a>, ProviderError> {
        let model = &*request.model;
        // Calls and results have no ids here: they are matched by order.
        let rules = ConvertRules { block_images: access.block_images, clean_id: str::to_owned };
        let turns = convert::conversation(&request.messages, model, &rules);
        let mut contents = Vec::with_capacity(turns.len());
        turns.into_iter().for_each(|turn| push_contents(turn, model, &mut contents));
        if contents.is_empty() {
            return Err(ProviderError::fatal(
                "there is nothing to send: the conversation is empty",
            ));
        }
        let system = (!request.system.trim().is_empty()).then(|| GoogleContent {
            parts: vec![GooglePart::text(&*request.system)],
            role: "user",
        });
        let functions: Vec<_> = request.tools.iter().map(GoogleFunction::new).collect();
        Ok(GoogleBody {
            contents,
            system_instruction: system,
            tools: (!functions.is_empty()).then_some([Tools { function_declarations: functions }]),
            tool_config: request.forced_tool.as_ref().map(|name| {
                json!({"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": [name]}})
            }),
            generation_config: GenerationConfig {
                max_output_tokens: max_tokens::max_tokens(request),
                temperature: request.temperature,
                thinking_config: ThinkingConfig::new(request, access),
            },
        })
    }
}

#[derive(Serialize)]
struct GoogleContent<'a> {
    parts: Vec<GooglePart<'a>>,
    role: &'static str,
}

/// A part of any kind; only the fields of its kind are set.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct GooglePart<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    inline_data: Option<Blob<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    function_call: Option<FunctionCall<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    function_response: Option<FunctionResponse<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thought: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thought_signature: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Blob<'a> {
    mime_type: &'a str,
    data: &'a str,
}

#[derive(Serialize)]
struct FunctionCall<'a> {
    args: &'a Arguments,
    name: &'a str,
}

#[derive(Serialize)]
struct FunctionResponse<'a> {
    name: &'a str,
    response: GoogleAnswer,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    parts: Vec<GooglePart<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum GoogleAnswer {
    Output(String),
    Error(String),
}

impl<'a> GooglePart<'a> {
    fn text(text: impl Into<Cow<'a, str>>) -> GooglePart<'a> {
        GooglePart { text: Some(text.into()), ..GooglePart::default() }
    }

    fn from_user_part(part: convert::UserPart<'a>) -> GooglePart<'a> {
        match part {
            convert::UserPart::Text(text) => GooglePart::text(text),
            convert::UserPart::Image {
                data,
                mime_type:
                    mime_type
                    @ ("image/png" | "image/jpeg" | "image/webp" | "image/heic" | "image/heif"),
            } => {
                GooglePart { inline_data: Some(Blob { mime_type, data }), ..GooglePart::default() }
            }
            // An image of an unsupported type would make every later request fail.
            convert::UserPart::Image { mime_type, .. } => {
                GooglePart::text(format!("(image omitted: {mime_type} is not supported)"))
            }
        }
    }
}

fn push_contents<'a>(
    turn: ConvertedTurn<'a>,
    model: &Model,
    contents: &mut Vec<GoogleContent<'a>>,
) {
    match turn {
        ConvertedTurn::User(parts) => {
            let parts = parts.into_iter().map(GooglePart::from_user_part).collect();
            contents.push(GoogleContent { parts, role: "user" });
        }
        ConvertedTurn::Assistant(parts) => {
            let mut parts: Vec<GooglePart> = parts.into_iter().map(assistant_part).collect();
            if thinking::is_recent(model) {
                vouch(&mut parts);
            }
            if !parts.is_empty() {
                contents.push(GoogleContent { parts, role: "model" });
            }
        }
        ConvertedTurn::Results(results) => push_results(results, model, contents),
    }
}

fn assistant_part(part: AssistantPart<'_>) -> GooglePart<'_> {
    match part {
        AssistantPart::Text { text, signature } => {
            GooglePart { thought_signature: signature, ..GooglePart::text(text) }
        }
        // This API has no redacted thinking.
        AssistantPart::Thinking { text, signature, .. } => GooglePart {
            thought: Some(true),
            thought_signature: signature,
            ..GooglePart::text(text)
        },
        AssistantPart::Call { name, arguments, signature, .. } => GooglePart {
            function_call: Some(FunctionCall { args: arguments, name }),
            thought_signature: signature,
            ..GooglePart::default()
        },
    }
}

/// The first call of an answer must be signed, but another model's calls are not. Google documents
/// this value for that case. https://ai.google.dev/gemini-api/docs/thought-signatures
fn vouch(parts: &mut [GooglePart<'_>]) {
    let first = parts.iter_mut().find(|part| part.function_call.is_some());
    if let Some(call) = first {
        call.thought_signature.get_or_insert("skip_thought_signature_validator");
    }
}

/// Adds all results of an answer together, one per call.
fn push_results<'a>(
    results: Vec<CallResult<'a>>,
    model: &Model,
    contents: &mut Vec<GoogleContent<'a>>,
) {
    let mut pictures = Vec::new();
    let mut parts = Vec::with_capacity(results.len());
    for result in results {
        let (texts, images): (Vec<_>, Vec<_>) =
            result.content.into_iter().partition(|part| matches!(part, convert::UserPart::Text(_)));
        let texts = texts.iter().filter_map(|part| match part {
            convert::UserPart::Text(text) => Some(&**text),
            convert::UserPart::Image { .. } => None,
        });
        let mut text = texts.collect::<Vec<_>>().join("\n");
        if text.is_empty() && !images.is_empty() {
            text.push_str("(see the attached image)");
        }
        let images: Vec<GooglePart> = images.into_iter().map(GooglePart::from_user_part).collect();
        // Newer models accept images inside results.
        let picture_parts = if thinking::is_recent(model) {
            images
        } else {
            pictures.extend(images);
            Vec::new()
        };
        parts.push(GooglePart {
            function_response: Some(FunctionResponse {
                name: result.tool_name,
                response: if result.is_error {
                    GoogleAnswer::Error(text)
                } else {
                    GoogleAnswer::Output(text)
                },
                parts: picture_parts,
            }),
            ..GooglePart::default()
        });
    }
    contents.push(GoogleContent { parts, role: "user" });
    if !pictures.is_empty() {
        pictures.insert(0, GooglePart::text("Images from the tools:"));
        contents.push(GoogleContent { parts: pictures, role: "user" });
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Tools<'a> {
    function_declarations: Vec<GoogleFunction<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GoogleFunction<'a> {
    name: &'a str,
    description: &'a str,
    /// Real JSON Schema; the older `parameters` supports only a part of it.
    parameters_json_schema: Cow<'a, Value>,
}

impl<'a> GoogleFunction<'a> {
    fn new(spec: &'a ToolSpec) -> GoogleFunction<'a> {
        GoogleFunction {
            name: &spec.name,
            description: &spec.description,
            parameters_json_schema: convert::object_schema(&spec.parameters),
        }
    }
}

#[cfg(test)]
mod tests;
