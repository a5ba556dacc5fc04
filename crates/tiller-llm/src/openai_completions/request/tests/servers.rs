//! What is sent to known servers, and what `compat` changes.

use super::*;

#[test]
fn known_servers_are_recognised_by_host() {
    let mut printed = String::new();
    for (base_url, id) in [
        ("http://localhost:11434/v1", "qwen3"),
        ("https://api.openai.com/v1", "gpt-5"),
        ("https://openrouter.ai/api/v1", "openai/gpt-5"),
        ("https://openrouter.ai/api/v1", "z-ai/glm-5"),
        ("https://api.groq.com/openai/v1", "qwen3"),
        ("https://api.deepseek.com", "deepseek-chat"),
        ("https://api.z.ai/api/paas/v4", "glm-5"),
        ("https://api.moonshot.ai/v1", "kimi-k2"),
        ("https://api.together.xyz/v1", "qwen3"),
        ("https://api.mistral.ai/v1", "devstral"),
        ("https://api.fireworks.ai/inference/v1", "qwen3"),
        ("https://api.x.ai/v1", "grok-4"),
        ("https://dashscope.aliyuncs.com/compatible-mode/v1", "qwen3"),
        ("https://notopenrouter.ai/v1", "z-ai/glm-5"),
        ("no address", "m"),
    ] {
        let mut request = with_model(request(vec![user("hi")]), |model| {
            model.base_url = base_url.into();
            model.id = id.into();
        });
        request.thinking = ThinkingLevel::High;
        request.tools = vec![tool("ls", json!({}))].into();
        let body = body_of(post(&request, &RequestOptions::default()).unwrap());
        let role = body["messages"][0]["role"].as_str().unwrap();
        let strict = &body["tools"][0]["function"]["strict"];
        printed += &format!("{base_url} {id}\n  {role}, strict {strict}, ");
        printed += &extras(&request, &RequestOptions::default());
    }
    expect![[r#"
        http://localhost:11434/v1 qwen3
          developer, strict null, {"stream_options":{"include_usage":true},"store":false,"max_completion_tokens":8192,"reasoning_effort":"high"}
        https://api.openai.com/v1 gpt-5
          developer, strict false, {"stream_options":{"include_usage":true},"store":false,"max_completion_tokens":8192,"reasoning_effort":"high","prompt_cache_key":"session-1"}
        https://openrouter.ai/api/v1 openai/gpt-5
          developer, strict false, {"stream_options":{"include_usage":true},"store":false,"max_completion_tokens":8192,"reasoning":{"effort":"high"}} x-session-id
        https://openrouter.ai/api/v1 z-ai/glm-5
          system, strict false, {"stream_options":{"include_usage":true},"store":false,"max_completion_tokens":8192,"reasoning":{"effort":"high"}} x-session-id
        https://api.groq.com/openai/v1 qwen3
          developer, strict false, {"stream_options":{"include_usage":true},"store":false,"max_completion_tokens":8192,"reasoning_effort":"high"}
        https://api.deepseek.com deepseek-chat
          system, strict false, {"stream_options":{"include_usage":true},"max_tokens":8192,"reasoning_effort":"high","thinking":{"type":"enabled"}}
        https://api.z.ai/api/paas/v4 glm-5
          system, strict false, {"stream_options":{"include_usage":true},"max_tokens":8192,"tool_stream":true,"thinking":{"type":"enabled"}}
        https://api.moonshot.ai/v1 kimi-k2
          system, strict null, {"stream_options":{"include_usage":true},"max_tokens":8192,"thinking":{"type":"enabled"}}
        https://api.together.xyz/v1 qwen3
          system, strict null, {"stream_options":{"include_usage":true},"max_tokens":8192,"reasoning":{"enabled":true}}
        https://api.mistral.ai/v1 devstral
          system, strict null, {"max_tokens":8192}
        https://api.fireworks.ai/inference/v1 qwen3
          system, strict false, {"stream_options":{"include_usage":true},"max_completion_tokens":8192,"reasoning_effort":"high"} session_id x-client-request-id x-session-affinity
        https://api.x.ai/v1 grok-4
          system, strict null, {"stream_options":{"include_usage":true},"max_completion_tokens":8192}
        https://dashscope.aliyuncs.com/compatible-mode/v1 qwen3
          system, strict false, {"stream_options":{"include_usage":true},"max_completion_tokens":8192,"enable_thinking":true}
        https://notopenrouter.ai/v1 z-ai/glm-5
          developer, strict null, {"stream_options":{"include_usage":true},"store":false,"max_completion_tokens":8192,"reasoning_effort":"high"}
        no address m
          developer, strict null, {"stream_options":{"include_usage":true},"store":false,"max_completion_tokens":8192,"reasoning_effort":"high"}
    "#]]
    .assert_eq(&printed);
}

#[test]
fn compat_overrides_the_known_server() {
    let mut printed = String::new();
    for compat in [
        json!({}),
        json!({"supportsStore": false, "supportsUsageInStreaming": false, "maxTokensField": "max_tokens"}),
        json!({"supportsStore": "no", "maxTokensField": "tokens", "thinkingFormat": "telepathy"}),
        json!({"supportsReasoningEffort": false}),
        json!({"openRouterRouting": {"only": ["anthropic"], "order": ["a", "b"]}}),
        json!({"openRouterRouting": "anthropic", "vllmPriority": "high"}),
        json!({"vercelGatewayRouting": {"only": ["bedrock"]}}),
        json!({"vllmPriority": -5}),
        json!({"cacheControlFormat": "none", "zaiToolStream": "yes"}),
        json!({"zaiToolStream": true}),
        json!({"sendSessionAffinityHeaders": true}),
        json!({"sendSessionAffinityHeaders": true, "sessionAffinityFormat": "openai-nosession"}),
        json!({"sendSessionAffinityHeaders": true, "sessionAffinityFormat": "openrouter"}),
        json!({"sessionAffinityFormat": "openrouter"}),
    ] {
        let mut request = with_compat(request(vec![user("hi")]), compat.clone());
        request.tools = vec![tool("ls", json!({}))].into();
        request.thinking = ThinkingLevel::High;
        printed += &format!("{compat}\n  {}", extras(&request, &RequestOptions::default()));
    }
    expect![[r#"
        {}
          {"stream_options":{"include_usage":true},"store":false,"max_completion_tokens":8192,"reasoning_effort":"high"}
        {"supportsStore":false,"supportsUsageInStreaming":false,"maxTokensField":"max_tokens"}
          {"max_tokens":8192,"reasoning_effort":"high"}
        {"supportsStore":"no","maxTokensField":"tokens","thinkingFormat":"telepathy"}
          {"stream_options":{"include_usage":true},"store":false,"max_completion_tokens":8192,"reasoning_effort":"high"}
        {"supportsReasoningEffort":false}
          {"stream_options":{"include_usage":true},"store":false,"max_completion_tokens":8192}
        {"openRouterRouting":{"only":["anthropic"],"order":["a","b"]}}
          {"stream_options":{"include_usage":true},"store":false,"max_completion_tokens":8192,"reasoning_effort":"high","provider":{"only":["anthropic"],"order":["a","b"]}}
        {"openRouterRouting":"anthropic","vllmPriority":"high"}
          {"stream_options":{"include_usage":true},"store":false,"max_completion_tokens":8192,"reasoning_effort":"high"}
        {"vercelGatewayRouting":{"only":["bedrock"]}}
          {"stream_options":{"include_usage":true},"store":false,"max_completion_tokens":8192,"reasoning_effort":"high","providerOptions":{"gateway":{"only":["bedrock"]}}}
        {"vllmPriority":-5}
          {"stream_options":{"include_usage":true},"store":false,"max_completion_tokens":8192,"reasoning_effort":"high","priority":-5}
        {"cacheControlFormat":"none","zaiToolStream":"yes"}
          {"stream_options":{"include_usage":true},"store":false,"max_completion_tokens":8192,"reasoning_effort":"high"}
        {"zaiToolStream":true}
          {"stream_options":{"include_usage":true},"store":false,"max_completion_tokens":8192,"tool_stream":true,"reasoning_effort":"high"}
        {"sendSessionAffinityHeaders":true}
          {"stream_options":{"include_usage":true},"store":false,"max_completion_tokens":8192,"reasoning_effort":"high"} session_id x-client-request-id x-session-affinity
        {"sendSessionAffinityHeaders":true,"sessionAffinityFormat":"openai-nosession"}
          {"stream_options":{"include_usage":true},"store":false,"max_completion_tokens":8192,"reasoning_effort":"high"} x-client-request-id x-session-affinity
        {"sendSessionAffinityHeaders":true,"sessionAffinityFormat":"openrouter"}
          {"stream_options":{"include_usage":true},"store":false,"max_completion_tokens":8192,"reasoning_effort":"high"} x-session-id
        {"sessionAffinityFormat":"openrouter"}
          {"stream_options":{"include_usage":true},"store":false,"max_completion_tokens":8192,"reasoning_effort":"high"}
    "#]]
    .assert_eq(&printed);
}

#[test]
fn long_cache_retention() {
    let access =
        RequestOptions { cache_retention: CacheRetention::Long, ..RequestOptions::default() };
    let request = request(vec![user("hi")]);
    let never = json!({"supportsLongCacheRetention": false});
    let never = with_compat(request.clone(), never);
    let openai = |model: &mut Model| model.base_url = "https://api.openai.com/v1".into();
    let openai = with_model(never.clone(), openai);
    let printed: String = [request, never, openai].iter().map(|it| extras(it, &access)).collect();
    expect![[r#"
        {"stream_options":{"include_usage":true},"store":false,"max_completion_tokens":8192,"prompt_cache_key":"session-1","prompt_cache_retention":"24h"}
        {"stream_options":{"include_usage":true},"store":false,"max_completion_tokens":8192}
        {"stream_options":{"include_usage":true},"store":false,"max_completion_tokens":8192,"prompt_cache_key":"session-1"}
    "#]]
    .assert_eq(&printed);
}

#[test]
fn thinking_formats_of_servers() {
    use ThinkingLevel::*;
    let mut printed = String::new();
    let template = json!({
        "enable_thinking": {"$var": "thinking.enabled"},
        "effort": {"$var": "thinking.effort"},
        "budget": {"$var": "thinking.enabled", "omitWhenOff": true},
        "nested": {"mode": {"$var": "thinking.mode"}, "kept": 1},
    });
    for format in [
        "openai",
        "openrouter",
        "together",
        "baseten",
        "deepseek",
        "zai",
        "qwen",
        "chat-template",
        "qwen-chat-template",
        "string-thinking",
        "ant-ling",
    ] {
        printed += &format!("{format}\n");
        for (level, named) in [
            (High, None),
            (High, Some(Some("deep"))),
            (Off, None),
            (Off, Some(Some("none"))),
            (Off, Some(None)),
        ] {
            let compat = json!({
                "thinkingFormat": format,
                "chatTemplateKwargs": template,
                "chatTemplateArgs": template,
                "supportsStore": false,
                "supportsUsageInStreaming": false,
            });
            let mut request = with_model(request(vec![user("hi")]), |model| {
                let map = named.map(|name: Option<&str>| (level, name.map(String::from)));
                model.thinking_level_map = map.map(|entry| BTreeMap::from([entry]));
                model.compat = Some(compat);
            });
            request.thinking = level;
            let sent = extras(&request, &RequestOptions::default());
            let sent = sent.replace(r#""max_completion_tokens":8192,"#, "");
            printed += &format!("  {} {named:?}: {sent}", level.name());
        }
    }
    expect![[r#"
        openai
          high None: {"reasoning_effort":"high"}
          high Some(Some("deep")): {"reasoning_effort":"deep"}
          off None: {"max_completion_tokens":8192}
          off Some(Some("none")): {"reasoning_effort":"none"}
          off Some(None): {"max_completion_tokens":8192}
        openrouter
          high None: {"reasoning":{"effort":"high"}}
          high Some(Some("deep")): {"reasoning":{"effort":"deep"}}
          off None: {"reasoning":{"effort":"none"}}
          off Some(Some("none")): {"reasoning":{"effort":"none"}}
          off Some(None): {"max_completion_tokens":8192}
        together
          high None: {"reasoning_effort":"high","reasoning":{"enabled":true}}
          high Some(Some("deep")): {"reasoning_effort":"deep","reasoning":{"enabled":true}}
          off None: {"reasoning":{"enabled":false}}
          off Some(Some("none")): {"reasoning":{"enabled":false}}
          off Some(None): {"max_completion_tokens":8192}
        baseten
          high None: {"reasoning_effort":"high","chat_template_args":{"enable_thinking":true,"effort":"high","budget":true,"nested":{"kept":1}}}
          high Some(Some("deep")): {"reasoning_effort":"deep","chat_template_args":{"enable_thinking":true,"effort":"deep","budget":true,"nested":{"kept":1}}}
          off None: {"chat_template_args":{"enable_thinking":false,"nested":{"kept":1}}}
          off Some(Some("none")): {"chat_template_args":{"enable_thinking":false,"effort":"none","nested":{"kept":1}}}
          off Some(None): {"chat_template_args":{"enable_thinking":false,"nested":{"kept":1}}}
        deepseek
          high None: {"reasoning_effort":"high","thinking":{"type":"enabled"}}
          high Some(Some("deep")): {"reasoning_effort":"deep","thinking":{"type":"enabled"}}
          off None: {"thinking":{"type":"disabled"}}
          off Some(Some("none")): {"thinking":{"type":"disabled"}}
          off Some(None): {"max_completion_tokens":8192}
        zai
          high None: {"reasoning_effort":"high","thinking":{"type":"enabled"}}
          high Some(Some("deep")): {"reasoning_effort":"deep","thinking":{"type":"enabled"}}
          off None: {"thinking":{"type":"disabled"}}
          off Some(Some("none")): {"thinking":{"type":"disabled"}}
          off Some(None): {"max_completion_tokens":8192}
        qwen
          high None: {"reasoning_effort":"high","enable_thinking":true}
          high Some(Some("deep")): {"reasoning_effort":"deep","enable_thinking":true}
          off None: {"enable_thinking":false}
          off Some(Some("none")): {"enable_thinking":false}
          off Some(None): {"max_completion_tokens":8192}
        chat-template
          high None: {"chat_template_kwargs":{"enable_thinking":true,"effort":"high","budget":true,"nested":{"kept":1}}}
          high Some(Some("deep")): {"chat_template_kwargs":{"enable_thinking":true,"effort":"deep","budget":true,"nested":{"kept":1}}}
          off None: {"chat_template_kwargs":{"enable_thinking":false,"nested":{"kept":1}}}
          off Some(Some("none")): {"chat_template_kwargs":{"enable_thinking":false,"effort":"none","nested":{"kept":1}}}
          off Some(None): {"chat_template_kwargs":{"enable_thinking":false,"nested":{"kept":1}}}
        qwen-chat-template
          high None: {"chat_template_kwargs":{"enable_thinking":true,"preserve_thinking":true}}
          high Some(Some("deep")): {"chat_template_kwargs":{"enable_thinking":true,"preserve_thinking":true}}
          off None: {"chat_template_kwargs":{"enable_thinking":false,"preserve_thinking":true}}
          off Some(Some("none")): {"chat_template_kwargs":{"enable_thinking":false,"preserve_thinking":true}}
          off Some(None): {"max_completion_tokens":8192}
        string-thinking
          high None: {"thinking":"high"}
          high Some(Some("deep")): {"thinking":"deep"}
          off None: {"thinking":"none"}
          off Some(Some("none")): {"thinking":"none"}
          off Some(None): {"max_completion_tokens":8192}
        ant-ling
          high None: {"max_completion_tokens":8192}
          high Some(Some("deep")): {"reasoning":{"effort":"deep"}}
          off None: {"max_completion_tokens":8192}
          off Some(Some("none")): {"max_completion_tokens":8192}
          off Some(None): {"max_completion_tokens":8192}
    "#]]
    .assert_eq(&printed);
}
