//! Builds requests of the Messages API: the conversation, the tools, the thinking settings and the
//! cache marks.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::Value;
use tiller_agent::message::Arguments;
use tiller_agent::model::{Model, ThinkingLevel};
use tiller_agent::provider::{ProviderError, Request, ToolSpec};

use crate::compat::flag;
use crate::convert::{self, AssistantPart, CallResult, ConvertRules, ConvertedTurn, UserPart};
use crate::max_tokens;
use crate::request_options::{CacheRetention, RequestOptions, Secret};
use crate::stream::HttpRequest;

pub(super) fn post(
    request: &Request,
    access: &RequestOptions,
) -> Result<HttpRequest, ProviderError> {
    let body = AnthropicBody::new(request, access)?;
    let headers = headers(request, access, &body);
    let url = format!("{}/v1/messages", request.model.base_url.trim_end_matches('/'));
    let body = serde_json::to_vec(&body)
        .map_err(|err| ProviderError::fatal(format!("cannot write the request: {err}")))?;
    Ok(HttpRequest { url, headers, body })
}

fn headers(
    request: &Request,
    access: &RequestOptions,
    body: &AnthropicBody<'_>,
) -> Vec<(&'static str, String)> {
    let mut headers = vec![("anthropic-version", "2023-06-01".to_owned())];
    let mut betas = Vec::new();
    if matches!(body.thinking, Some(AnthropicThinking::Enabled { .. })) {
        betas.push("interleaved-thinking-2025-05-14");
    }
    match access.key.as_ref().map(Secret::expose) {
        // An OAuth token of a user's account, not an API key.
        Some(token) if token.starts_with("sk-ant-oat") => {
            headers.push(("authorization", format!("Bearer {token}")));
            betas.push("oauth-2025-04-20");
        }
        Some(token) if request.model.provider == "github-copilot" => {
            headers.push(("authorization", format!("Bearer {token}")));
        }
        Some(key) => headers.push(("x-api-key", key.to_owned())),
        None => (),
    }
    if !betas.is_empty() {
        headers.push(("anthropic-beta", betas.join(",")));
    }
    if flag(&request.model, "sendSessionAffinityHeaders", false) {
        headers.push(("x-session-affinity", request.session_id.to_string()));
    }
    headers
}

#[derive(Serialize)]
struct AnthropicBody<'a> {
    model: &'a str,
    messages: Vec<AnthropicTurn<'a>>,
    max_tokens: u64,
    stream: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<AnthropicItem<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<AnthropicTool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<AnthropicToolChoice<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<AnthropicThinking>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_config: Option<OutputConfig<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
}

impl<'a> AnthropicBody<'a> {
    fn new(
        request: &'a Request,
        access: &RequestOptions,
    ) -> Result<AnthropicBody<'a>, ProviderError> {
        let model = &*request.model;
        let cache = Cache::new(model, access);
        let rules = ConvertRules { block_images: access.block_images, clean_id };
        let turns = convert::conversation(&request.messages, model, &rules);
        let empty_signatures = flag(model, "allowEmptySignature", false);
        let mut messages: Vec<AnthropicTurn> = turns
            .into_iter()
            .map(|turn| AnthropicTurn::new(turn, empty_signatures))
            .filter(|turn| !turn.content.is_empty())
            .collect();
        if messages.is_empty() {
            return Err(ProviderError::fatal(
                "there is nothing to send: the conversation is empty",
            ));
        }
        // Everything up to the last user message is cached: the next request begins with it.
        if let Some(turn) = messages.last_mut().filter(|turn| turn.role == "user") {
            turn.content.last_mut().into_iter().for_each(|item| item.keep(cache));
        }
        let system = (!request.system.trim().is_empty()).then(|| AnthropicItem::Text {
            text: (&*request.system).into(),
            cache_control: Some(cache),
        });
        let max_tokens = max_tokens::max_tokens(request);
        let (thinking, output_config) = thinking(request, access, max_tokens);
        Ok(AnthropicBody {
            model: &model.id,
            messages,
            max_tokens,
            stream: true,
            system: Vec::from_iter(system),
            tools: tools(&request.tools, model, cache),
            tool_choice: AnthropicToolChoice::of(request, thinking.as_ref()),
            // The API accepts no temperature while thinking.
            temperature: request
                .temperature
                .filter(|_| !thinking.as_ref().is_some_and(AnthropicThinking::is_on)),
            thinking,
            output_config,
        })
    }
}

#[derive(Serialize)]
struct AnthropicToolChoice<'a> {
    r#type: &'static str,
    name: &'a str,
}

impl<'a> AnthropicToolChoice<'a> {
    /// A tool cannot be forced while thinking: the API refuses such a request.
    fn of(
        request: &'a Request,
        thinking: Option<&AnthropicThinking>,
    ) -> Option<AnthropicToolChoice<'a>> {
        let name = request.forced_tool.as_deref()?;
        let thinks = thinking.is_some_and(AnthropicThinking::is_on);
        (!thinks).then_some(AnthropicToolChoice { r#type: "tool", name })
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

#[derive(Serialize)]
struct AnthropicTurn<'a> {
    role: &'static str,
    content: Vec<AnthropicItem<'a>>,
}

impl<'a> AnthropicTurn<'a> {
    fn new(turn: ConvertedTurn<'a>, empty_signatures: bool) -> AnthropicTurn<'a> {
        match turn {
            ConvertedTurn::User(parts) => AnthropicTurn {
                role: "user",
                content: parts.into_iter().map(AnthropicItem::part).collect(),
            },
            ConvertedTurn::Results(results) => AnthropicTurn {
                role: "user",
                content: results.into_iter().map(AnthropicItem::result).collect(),
            },
            ConvertedTurn::Assistant(parts) => {
                let items = parts
                    .into_iter()
                    .filter_map(|it| AnthropicItem::assistant(it, empty_signatures));
                AnthropicTurn { role: "assistant", content: items.collect() }
            }
        }
    }
}

/// A content block.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum AnthropicItem<'a> {
    Text {
        text: Cow<'a, str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<Cache>,
    },
    Image {
        source: AnthropicSource<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<Cache>,
    },
    Thinking {
        thinking: &'a str,
        signature: &'a str,
    },
    RedactedThinking {
        data: &'a str,
    },
    ToolUse {
        id: String,
        name: &'a str,
        input: &'a Arguments,
    },
    ToolResult {
        tool_use_id: String,
        content: ResultContent<'a>,
        is_error: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<Cache>,
    },
}

#[derive(Serialize)]
struct AnthropicSource<'a> {
    r#type: &'static str,
    media_type: &'a str,
    data: &'a str,
}

/// Text alone as a string, with images as blocks.
#[derive(Serialize)]
#[serde(untagged)]
enum ResultContent<'a> {
    Text(String),
    Items(Vec<AnthropicItem<'a>>),
}

impl<'a> AnthropicItem<'a> {
    fn part(part: UserPart<'a>) -> AnthropicItem<'a> {
        match part {
            UserPart::Text(text) => AnthropicItem::text(text),
            UserPart::Image {
                data,
                mime_type: media_type @ ("image/png" | "image/jpeg" | "image/gif" | "image/webp"),
            } => AnthropicItem::Image {
                source: AnthropicSource { r#type: "base64", media_type, data },
                cache_control: None,
            },
            // An image of an unsupported type would make every later request fail.
            UserPart::Image { mime_type, .. } => {
                AnthropicItem::text(format!("(image omitted: {mime_type} is not supported)"))
            }
        }
    }

    fn text(text: impl Into<Cow<'a, str>>) -> AnthropicItem<'a> {
        AnthropicItem::Text { text: text.into(), cache_control: None }
    }

    fn assistant(part: AssistantPart<'a>, empty_signatures: bool) -> Option<AnthropicItem<'a>> {
        match part {
            AssistantPart::Text { text, .. } => {
                (!text.trim().is_empty()).then(|| AnthropicItem::text(text))
            }
            AssistantPart::Thinking { signature, redacted: true, .. } => {
                signature.map(|data| AnthropicItem::RedactedThinking { data })
            }
            AssistantPart::Thinking { text: thinking, signature, .. } => match signature {
                Some(signature) if !signature.is_empty() => {
                    Some(AnthropicItem::Thinking { thinking, signature })
                }
                _ if empty_signatures => Some(AnthropicItem::Thinking { thinking, signature: "" }),
                // Cut short before it was signed. The API refuses it as thinking.
                _ => (!thinking.trim().is_empty()).then(|| AnthropicItem::text(thinking)),
            },
            AssistantPart::Call { id, name, arguments, .. } => {
                Some(AnthropicItem::ToolUse { id, name, input: arguments })
            }
        }
    }

    fn result(result: CallResult<'a>) -> AnthropicItem<'a> {
        let has_images = result.content.iter().any(|part| matches!(part, UserPart::Image { .. }));
        // The API accepts images only in successful results.
        let content = if has_images && !result.is_error {
            ResultContent::Items(result.content.into_iter().map(AnthropicItem::part).collect())
        } else {
            let texts = result.content.iter().filter_map(|part| match part {
                UserPart::Text(text) => Some(&**text),
                UserPart::Image { .. } => None,
            });
            ResultContent::Text(texts.collect::<Vec<_>>().join("\n"))
        };
        AnthropicItem::ToolResult {
            tool_use_id: result.id,
            content,
            is_error: result.is_error,
            cache_control: None,
        }
    }

    /// Marks the end of what the provider should cache.
    fn keep(&mut self, cache: Cache) {
        match self {
            AnthropicItem::Text { cache_control, .. }
            | AnthropicItem::Image { cache_control, .. }
            | AnthropicItem::ToolResult { cache_control, .. } => *cache_control = Some(cache),
            // An answer's parts are never last.
            AnthropicItem::Thinking { .. }
            | AnthropicItem::RedactedThinking { .. }
            | AnthropicItem::ToolUse { .. } => (),
        }
    }
}

#[derive(Clone, Copy, Serialize)]
struct Cache {
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl: Option<&'static str>,
}

impl Cache {
    fn new(model: &Model, access: &RequestOptions) -> Cache {
        let long = access.cache_retention == CacheRetention::Long
            && flag(model, "supportsLongCacheRetention", true);
        Cache { r#type: "ephemeral", ttl: long.then_some("1h") }
    }
}

#[derive(Serialize)]
struct AnthropicTool<'a> {
    name: &'a str,
    description: &'a str,
    /// Arguments are streamed before they are complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    eager_input_streaming: Option<bool>,
    input_schema: Cow<'a, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<Cache>,
}

fn tools<'a>(specs: &'a [ToolSpec], model: &Model, cache: Cache) -> Vec<AnthropicTool<'a>> {
    let eager = flag(model, "supportsEagerToolInputStreaming", true).then_some(true);
    let mut tools: Vec<AnthropicTool> = specs
        .iter()
        .map(|spec| AnthropicTool {
            name: &spec.name,
            description: &spec.description,
            eager_input_streaming: eager,
            input_schema: convert::object_schema(&spec.parameters),
            cache_control: None,
        })
        .collect();
    if flag(model, "supportsCacheControlOnTools", true)
        && let Some(last) = tools.last_mut()
    {
        last.cache_control = Some(cache);
    }
    tools
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum AnthropicThinking {
    Enabled {
        budget_tokens: u64,
        display: &'static str,
    },
    /// The model decides how much to think; `output_config` sets the effort.
    Adaptive {
        display: &'static str,
    },
    Disabled,
}

impl AnthropicThinking {
    fn is_on(&self) -> bool {
        !matches!(self, AnthropicThinking::Disabled)
    }
}

#[derive(Serialize)]
struct OutputConfig<'a> {
    effort: &'a str,
}

fn thinking<'a>(
    request: &'a Request,
    access: &RequestOptions,
    max_tokens: u64,
) -> (Option<AnthropicThinking>, Option<OutputConfig<'a>>) {
    /// The API's smallest budget, also reserved for the answer itself.
    const LEAST: u64 = 1024;
    let (model, level) = (&*request.model, request.thinking);
    let named = model.thinking_level_map.as_ref().and_then(|map| map.get(&level));
    if !model.reasoning {
        return (None, None);
    }
    if level == ThinkingLevel::Off {
        // A model that always thinks refuses the `disabled` setting.
        let off = if named == Some(&None) { None } else { Some(AnthropicThinking::Disabled) };
        return (off, None);
    }
    let display = "summarized";
    if flag(model, "forceAdaptiveThinking", false) {
        let effort = match (named, level) {
            (Some(Some(name)), _) => name,
            (_, ThinkingLevel::Off | ThinkingLevel::Minimal | ThinkingLevel::Low) => "low",
            (_, ThinkingLevel::Medium) => "medium",
            (_, ThinkingLevel::High | ThinkingLevel::Xhigh | ThinkingLevel::Max) => "high",
        };
        return (Some(AnthropicThinking::Adaptive { display }), Some(OutputConfig { effort }));
    }
    let budget_tokens = access.thinking_budgets.of(level).min(max_tokens.saturating_sub(LEAST));
    let thinking = if budget_tokens >= LEAST {
        AnthropicThinking::Enabled { budget_tokens, display }
    } else {
        AnthropicThinking::Disabled
    };
    (Some(thinking), None)
}

#[cfg(test)]
mod tests;
