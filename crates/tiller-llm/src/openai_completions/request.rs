//! Builds requests of the Chat Completions API: the conversation, the tools, the thinking settings
//! and server-specific fields.

mod messages;
mod thinking;

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Value, json};
use tiller_agent::provider::{ProviderError, Request, ToolSpec};

use super::server::{MaxTokens, Server};
use crate::compat::setting;
use crate::request_options::{CacheRetention, RequestOptions, Secret};
use crate::stream::HttpRequest;
use crate::{convert, max_tokens};
use messages::CompletionsTurn;
use thinking::CompletionsThinking;

pub(super) fn post(
    request: &Request,
    access: &RequestOptions,
) -> Result<HttpRequest, ProviderError> {
    let server = Server::of(&request.model);
    let body = CompletionsBody::new(request, access, &server)?;
    let url = format!("{}/chat/completions", request.model.base_url.trim_end_matches('/'));
    let body = serde_json::to_vec(&body)
        .map_err(|err| ProviderError::fatal(format!("cannot write the request: {err}")))?;
    Ok(HttpRequest { url, headers: headers(request, access, &server), body })
}

fn headers(
    request: &Request,
    access: &RequestOptions,
    server: &Server,
) -> Vec<(&'static str, String)> {
    let key = access.key.as_ref().map(Secret::expose);
    let bearer = key.map(|key| ("authorization", format!("Bearer {key}")));
    let session = server.affinity.iter().map(|name| (*name, request.session_id.to_string()));
    bearer.into_iter().chain(session).collect()
}

#[derive(Serialize)]
struct CompletionsBody<'a> {
    model: &'a str,
    messages: Vec<CompletionsTurn<'a>>,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    store: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<CompletionsTool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_stream: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(flatten)]
    thinking: CompletionsThinking<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_cache_key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_cache_retention: Option<&'static str>,
    /// OpenRouter's provider routing, from the user's settings.
    #[serde(skip_serializing_if = "Option::is_none")]
    provider: Option<&'a Value>,
    /// Vercel's, likewise.
    #[serde(rename = "providerOptions", skip_serializing_if = "Option::is_none")]
    provider_options: Option<Value>,
    /// The priority, for vLLM.
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<&'a Value>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

impl<'a> CompletionsBody<'a> {
    fn new(
        request: &'a Request,
        access: &RequestOptions,
        server: &Server,
    ) -> Result<CompletionsBody<'a>, ProviderError> {
        let model = &*request.model;
        let mut messages = messages::of(request, access, server);
        if messages.iter().all(CompletionsTurn::is_system) {
            return Err(ProviderError::fatal(
                "there is nothing to send: the conversation is empty",
            ));
        }
        let mut tools = tools(&request.tools, server);
        let long = access.cache_retention == CacheRetention::Long && server.long_cache;
        if server.cache_marks {
            let mark = CacheMark { r#type: "ephemeral", ttl: long.then_some("1h") };
            messages::mark(&mut messages, mark);
            tools.last_mut().into_iter().for_each(|tool| tool.cache_control = Some(mark));
        }
        let max_tokens = max_tokens::max_tokens(request);
        let field = |field| (server.max_tokens == field).then_some(max_tokens);
        // Cache marks and cache keys exclude each other.
        let long = long && !server.cache_marks;
        let gateway = setting(model, "vercelGatewayRouting").filter(|routing| routing.is_object());
        Ok(CompletionsBody {
            model: &model.id,
            messages,
            stream: true,
            stream_options: server
                .usage_in_streaming
                .then_some(StreamOptions { include_usage: true }),
            store: server.store.then_some(false),
            max_completion_tokens: field(MaxTokens::MaxCompletionTokens),
            max_tokens: field(MaxTokens::MaxTokens),
            tool_stream: (server.tool_stream && !tools.is_empty()).then_some(true),
            tools,
            tool_choice: request
                .forced_tool
                .as_ref()
                .map(|name| json!({"type": "function", "function": {"name": name}})),
            temperature: request.temperature,
            thinking: CompletionsThinking::new(request, server),
            prompt_cache_key: (server.cache_key || long).then_some(&*request.session_id),
            prompt_cache_retention: long.then_some("24h"),
            provider: setting(model, "openRouterRouting").filter(|routing| routing.is_object()),
            provider_options: gateway.map(|routing| json!({"gateway": routing})),
            priority: setting(model, "vllmPriority").filter(|priority| priority.is_i64()),
        })
    }
}

/// Anthropic's cache mark, which some servers pass on.
#[derive(Clone, Copy, Debug, Serialize)]
struct CacheMark {
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl: Option<&'static str>,
}

#[derive(Serialize)]
struct CompletionsTool<'a> {
    r#type: &'static str,
    function: CompletionsToolFunction<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<CacheMark>,
}

#[derive(Serialize)]
struct CompletionsToolFunction<'a> {
    name: &'a str,
    description: &'a str,
    parameters: Cow<'a, Value>,
    /// Always false: our schemas have optional fields, which strict tools may not have.
    #[serde(skip_serializing_if = "Option::is_none")]
    strict: Option<bool>,
}

fn tools<'a>(specs: &'a [ToolSpec], server: &Server) -> Vec<CompletionsTool<'a>> {
    let tools = specs.iter().map(|spec| CompletionsTool {
        r#type: "function",
        function: CompletionsToolFunction {
            name: &spec.name,
            description: &spec.description,
            parameters: convert::object_schema(&spec.parameters),
            strict: server.strict_tools.then_some(false),
        },
        cache_control: None,
    });
    tools.collect()
}

#[cfg(test)]
mod tests;
