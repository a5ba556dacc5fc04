//! The differences between servers of this API. Known servers are recognised by their host;
//! `compat` of the model overrides this.

use reqwest::Url;
use tiller_agent::model::Model;

use crate::compat::{flag, text};

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Server {
    /// Supports `store`, which is on by default at OpenAI.
    pub store: bool,
    /// Supports the role `developer`, the system role of OpenAI's reasoning models.
    pub developer_role: bool,
    pub reasoning_effort: bool,
    /// Sends the usage only on request, and supports the request.
    pub usage_in_streaming: bool,
    pub max_tokens: MaxTokens,
    /// Supports `strict` in tools.
    pub strict_tools: bool,
    /// Requires the tool's name in a result.
    pub result_names: bool,
    /// Requires an assistant message between a result and a user message.
    pub answer_after_results: bool,
    /// Accepts thinking only as text.
    pub thinking_as_text: bool,
    /// Requires the thinking field in every answer, even if it is empty.
    pub empty_thoughts: bool,
    pub thinking: ThinkingFormat,
    /// Supports Anthropic's cache marks.
    pub cache_marks: bool,
    /// Supports a cache key.
    pub cache_key: bool,
    /// Supports caching for an hour or a day.
    pub long_cache: bool,
    /// The headers for session affinity.
    pub affinity: &'static [&'static str],
    /// Streams arguments only on request.
    pub tool_stream: bool,
    pub ids: CompletionsIds,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum MaxTokens {
    MaxTokens,
    MaxCompletionTokens,
}

/// How the thinking level is set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum ThinkingFormat {
    OpenAi,
    OpenRouter,
    Together,
    Baseten,
    DeepSeek,
    Zai,
    Qwen,
    ChatTemplate,
    QwenChatTemplate,
    StringThinking,
    AntLing,
}

/// The headers with the session id at most servers that use one.
const SESSION: &[&str] = &["session_id", "x-client-request-id", "x-session-affinity"];
const OPENROUTER_SESSION: &[&str] = &["x-session-id"];

/// Which ids of calls are accepted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum CompletionsIds {
    Any,
    /// At most 40 characters.
    Short,
    /// Nine letters and digits.
    Nine,
}

impl Server {
    pub(super) fn of(model: &Model) -> Server {
        let address = Url::parse(&model.base_url).ok();
        let host = address.as_ref().and_then(Url::host_str).unwrap_or_default();
        let known = Server::known(host, &model.id);
        let switch = |name, default| flag(model, name, default);
        let affinity = match text(model, "sessionAffinityFormat") {
            Some("openai") => SESSION,
            Some("openai-nosession") => &SESSION[1..],
            Some("openrouter") => OPENROUTER_SESSION,
            _ if known.affinity.is_empty() => SESSION,
            _ => known.affinity,
        };
        let sends_session = switch("sendSessionAffinityHeaders", !known.affinity.is_empty());
        Server {
            store: switch("supportsStore", known.store),
            developer_role: switch("supportsDeveloperRole", known.developer_role),
            reasoning_effort: switch("supportsReasoningEffort", known.reasoning_effort),
            usage_in_streaming: switch("supportsUsageInStreaming", known.usage_in_streaming),
            max_tokens: match text(model, "maxTokensField") {
                Some("max_tokens") => MaxTokens::MaxTokens,
                Some("max_completion_tokens") => MaxTokens::MaxCompletionTokens,
                _ => known.max_tokens,
            },
            strict_tools: switch("supportsStrictMode", known.strict_tools),
            result_names: switch("requiresToolResultName", known.result_names),
            answer_after_results: switch(
                "requiresAssistantAfterToolResult",
                known.answer_after_results,
            ),
            thinking_as_text: switch("requiresThinkingAsText", known.thinking_as_text),
            empty_thoughts: switch(
                "requiresReasoningContentOnAssistantMessages",
                known.empty_thoughts,
            ),
            thinking: text(model, "thinkingFormat")
                .and_then(ThinkingFormat::read)
                .unwrap_or(known.thinking),
            cache_marks: text(model, "cacheControlFormat")
                .map_or(known.cache_marks, |format| format == "anthropic"),
            cache_key: known.cache_key,
            long_cache: switch("supportsLongCacheRetention", known.long_cache),
            affinity: if sends_session { affinity } else { &[] },
            tool_stream: switch("zaiToolStream", known.tool_stream),
            ids: known.ids,
        }
    }

    /// An unknown server is treated like OpenAI's.
    fn known(host: &str, model: &str) -> Server {
        use ThinkingFormat as Thinking;
        let is = |domain: &str| {
            host.strip_suffix(domain).is_some_and(|sub| sub.is_empty() || sub.ends_with('.'))
        };
        let is_any = |domains: &[&str]| domains.iter().any(|domain| is(domain));
        let standard = Server {
            store: true,
            developer_role: true,
            reasoning_effort: true,
            usage_in_streaming: true,
            max_tokens: MaxTokens::MaxCompletionTokens,
            strict_tools: false,
            result_names: false,
            answer_after_results: false,
            thinking_as_text: false,
            empty_thoughts: false,
            thinking: Thinking::OpenAi,
            cache_marks: false,
            cache_key: false,
            long_cache: true,
            affinity: &[],
            tool_stream: false,
            ids: CompletionsIds::Any,
        };
        // What most other servers have in common.
        let plain = Server { store: false, developer_role: false, ..standard.clone() };
        let older = Server { max_tokens: MaxTokens::MaxTokens, ..plain.clone() };

        if is("api.openai.com") {
            Server { strict_tools: true, cache_key: true, ids: CompletionsIds::Short, ..standard }
        } else if is("openrouter.ai") {
            let maker = model.trim_start_matches('~').split('/').next();
            Server {
                developer_role: matches!(maker, Some("openai" | "anthropic")),
                strict_tools: true,
                thinking: Thinking::OpenRouter,
                cache_marks: maker == Some("anthropic"),
                affinity: OPENROUTER_SESSION,
                ..standard
            }
        } else if is("api.groq.com") {
            Server { strict_tools: true, ..standard }
        } else if is("api.deepseek.com") {
            Server {
                strict_tools: true,
                thinking: Thinking::DeepSeek,
                empty_thoughts: true,
                ..older
            }
        } else if is_any(&["api.z.ai", "open.bigmodel.cn"]) {
            Server {
                reasoning_effort: false,
                strict_tools: true,
                thinking: Thinking::Zai,
                tool_stream: true,
                ..older
            }
        } else if is_any(&["api.moonshot.ai", "api.moonshot.cn"]) {
            Server { reasoning_effort: false, thinking: Thinking::DeepSeek, ..older }
        } else if is_any(&["api.together.ai", "api.together.xyz"]) {
            Server {
                reasoning_effort: false,
                thinking: Thinking::Together,
                long_cache: false,
                ..older
            }
        } else if is("api.mistral.ai") {
            // It refuses unknown fields, and sends the usage without being asked.
            Server {
                reasoning_effort: false,
                usage_in_streaming: false,
                answer_after_results: true,
                result_names: true,
                thinking_as_text: true,
                long_cache: false,
                ids: CompletionsIds::Nine,
                ..older
            }
        } else if is("api.fireworks.ai") {
            Server { strict_tools: true, long_cache: false, affinity: SESSION, ..plain }
        } else if is("inference.baseten.co") {
            Server { strict_tools: true, long_cache: false, affinity: SESSION, ..older }
        } else if is("gateway.ai.cloudflare.com") {
            Server { reasoning_effort: false, long_cache: false, affinity: SESSION, ..older }
        } else if is("api.cloudflare.com") {
            Server { strict_tools: true, long_cache: false, affinity: SESSION, ..plain }
        } else if is("aliyuncs.com") {
            Server {
                reasoning_effort: false,
                strict_tools: true,
                thinking: Thinking::Qwen,
                ..plain
            }
        } else if is("xiaomimimo.com") {
            Server {
                strict_tools: true,
                thinking: Thinking::DeepSeek,
                empty_thoughts: true,
                ..standard
            }
        } else if is("api.ant-ling.com") {
            Server {
                reasoning_effort: false,
                strict_tools: true,
                thinking: Thinking::AntLing,
                long_cache: false,
                ..older
            }
        } else if is("integrate.api.nvidia.com") {
            Server { reasoning_effort: false, long_cache: false, ..older }
        } else if is("opencode.ai") {
            Server { strict_tools: true, ..older }
        } else if is("chutes.ai") {
            older
        } else if is("githubcopilot.com") {
            Server { reasoning_effort: false, strict_tools: true, ..plain }
        } else if is("api.x.ai") {
            Server { reasoning_effort: false, ..plain }
        } else if is("api.cerebras.ai") {
            plain
        } else if is("router.huggingface.co") {
            Server { developer_role: false, strict_tools: true, ..standard }
        } else {
            standard
        }
    }
}

impl ThinkingFormat {
    fn read(name: &str) -> Option<ThinkingFormat> {
        Some(match name {
            "openai" => ThinkingFormat::OpenAi,
            "openrouter" => ThinkingFormat::OpenRouter,
            "together" => ThinkingFormat::Together,
            "baseten" => ThinkingFormat::Baseten,
            "deepseek" => ThinkingFormat::DeepSeek,
            "zai" => ThinkingFormat::Zai,
            "qwen" => ThinkingFormat::Qwen,
            "chat-template" => ThinkingFormat::ChatTemplate,
            "qwen-chat-template" => ThinkingFormat::QwenChatTemplate,
            "string-thinking" => ThinkingFormat::StringThinking,
            "ant-ling" => ThinkingFormat::AntLing,
            _ => return None,
        })
    }
}
