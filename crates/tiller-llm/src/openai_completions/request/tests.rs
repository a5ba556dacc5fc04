use std::collections::BTreeMap;

use expect_test::{Expect, expect};
use tiller_agent::message::{Block, Message};
use tiller_agent::model::{Model, ThinkingLevel};

use super::*;
use crate::testing::{body_of, call, check_post, png, result, thought, tool, user, with_model};

/// Like the shared one, with a model of this API.
fn request(messages: Vec<Message>) -> Request {
    with_model(crate::testing::request(messages), |model| {
        model.id = "gpt-test".into();
        model.api = "openai-completions".into();
        model.provider = "openai".into();
        model.base_url = "http://127.0.0.1:9/v1/".into();
    })
}

/// An answer of the requested model.
fn answer(content: Vec<Block>) -> Message {
    let mut message = crate::testing::answer(content);
    let Message::Assistant(answer) = &mut message else { unreachable!() };
    answer.model = "gpt-test".into();
    answer.api = "openai-completions".into();
    answer.provider = "openai".into();
    message
}

fn with_compat(request: Request, compat: Value) -> Request {
    with_model(request, |model| model.compat = Some(compat))
}

fn check(request: &Request, expect: Expect) {
    check_with(request, &RequestOptions::with_key("sk-key"), expect);
}

fn check_with(request: &Request, access: &RequestOptions, expect: Expect) {
    check_post(post(request, access).unwrap(), expect);
}

/// Prints only the messages.
fn check_messages(request: &Request, expect: Expect) {
    let body = body_of(post(request, &RequestOptions::default()).unwrap());
    let messages = body["messages"].as_array().unwrap();
    expect.assert_eq(&messages.iter().map(|it| format!("{it}\n")).collect::<String>());
}

/// Everything in the body that is not sent to other servers.
fn extras(request: &Request, access: &RequestOptions) -> String {
    let HttpRequest { headers, body, .. } = post(request, access).unwrap();
    let Value::Object(mut body) = serde_json::from_slice(&body).unwrap() else { unreachable!() };
    for usual in ["model", "messages", "stream", "tools"] {
        body.shift_remove(usual);
    }
    let headers = headers.iter().filter(|(name, _)| *name != "authorization");
    let names: Vec<_> = headers.map(|(name, _)| *name).collect();
    format!("{} {}\n", Value::Object(body), names.join(" ")).replace(" \n", "\n")
}

#[test]
fn first_request() {
    let mut request = request(vec![user("Hello")]);
    request.tools = vec![
        tool("read", json!({"type": "object", "properties": {"path": {"type": "string"}}})),
        tool("odd", json!({"properties": {}})),
    ]
    .into();
    request.thinking = ThinkingLevel::Low;
    check(
        &request,
        expect![[r#"
        POST http://127.0.0.1:9/v1/chat/completions
        authorization: Bearer sk-key
        model "gpt-test"
        messages
          {"role":"developer","content":"Be brief."}
          {"role":"user","content":[{"type":"text","text":"Hello"}]}
        stream true
        stream_options {"include_usage":true}
        store false
        max_completion_tokens 8192
        tools
          {"type":"function","function":{"name":"read","description":"Does read.","parameters":{"type":"object","properties":{"path":{"type":"string"}}}}}
          {"type":"function","function":{"name":"odd","description":"Does odd.","parameters":{"properties":{},"type":"object"}}}
        reasoning_effort "low"
    "#]],
    );
}

#[test]
fn request_of_a_model_without_thinking() {
    let request = with_model(request(vec![user("Hello")]), |model| model.reasoning = false);
    check_with(
        &request,
        &RequestOptions::default(),
        expect![[r#"
        POST http://127.0.0.1:9/v1/chat/completions
        model "gpt-test"
        messages
          {"role":"system","content":"Be brief."}
          {"role":"user","content":[{"type":"text","text":"Hello"}]}
        stream true
        stream_options {"include_usage":true}
        store false
        max_completion_tokens 8192
    "#]],
    );
}

fn conversation() -> Vec<Message> {
    vec![
        Message::user("Look at these", vec![png(), Block::image("AA==", "image/bmp")], 1),
        answer(vec![
            thought("First, look.", Some("reasoning_content")),
            Block::text("Reading."),
            call("call_1", "read", json!({"path": "a", "limit": 3})),
            call("call_2", "read", json!({})),
            call("call_3", "read", json!({})),
        ]),
        result("call_1", vec![Block::text("one"), Block::text("two")]),
        result("call_2", vec![png()]),
        result("call_3", vec![]),
        answer(vec![thought("Then think.", Some("reasoning")), call("call_4", "ls", json!({}))]),
        result("call_4", vec![Block::text("a.txt")]),
        answer(vec![thought("Only thoughts.", Some("reasoning_text"))]),
        user("And now?"),
    ]
}

#[test]
fn conversation_with_tools() {
    check_messages(
        &request(conversation()),
        expect![[r#"
        {"role":"developer","content":"Be brief."}
        {"role":"user","content":[{"type":"text","text":"Look at these"},{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo="}},{"type":"text","text":"(image omitted: image/bmp is not supported)"}]}
        {"role":"assistant","content":"Reading.","reasoning_content":"First, look.","tool_calls":[{"id":"call_1","type":"function","function":{"name":"read","arguments":"{\"path\":\"a\",\"limit\":3}"}},{"id":"call_2","type":"function","function":{"name":"read","arguments":"{}"}},{"id":"call_3","type":"function","function":{"name":"read","arguments":"{}"}}]}
        {"role":"tool","content":"one\ntwo","tool_call_id":"call_1"}
        {"role":"tool","content":"(see the attached image)","tool_call_id":"call_2"}
        {"role":"tool","content":"(no output)","tool_call_id":"call_3"}
        {"role":"user","content":[{"type":"text","text":"Images from the tool results above:"},{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo="}}]}
        {"role":"assistant","content":null,"reasoning":"Then think.","tool_calls":[{"id":"call_4","type":"function","function":{"name":"ls","arguments":"{}"}}]}
        {"role":"tool","content":"a.txt","tool_call_id":"call_4"}
        {"role":"user","content":[{"type":"text","text":"And now?"}]}
    "#]],
    );
}

#[test]
fn server_options_change_the_request() {
    let request = with_compat(
        request(conversation()),
        json!({
            "supportsDeveloperRole": false,
            "requiresToolResultName": true,
            "requiresAssistantAfterToolResult": true,
            "requiresThinkingAsText": true,
        }),
    );
    check_messages(
        &request,
        expect![[r#"
            {"role":"system","content":"Be brief."}
            {"role":"user","content":[{"type":"text","text":"Look at these"},{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo="}},{"type":"text","text":"(image omitted: image/bmp is not supported)"}]}
            {"role":"assistant","content":"First, look.\n\nReading.","tool_calls":[{"id":"call_1","type":"function","function":{"name":"read","arguments":"{\"path\":\"a\",\"limit\":3}"}},{"id":"call_2","type":"function","function":{"name":"read","arguments":"{}"}},{"id":"call_3","type":"function","function":{"name":"read","arguments":"{}"}}]}
            {"role":"tool","content":"one\ntwo","tool_call_id":"call_1","name":"read"}
            {"role":"tool","content":"(see the attached image)","tool_call_id":"call_2","name":"read"}
            {"role":"tool","content":"(no output)","tool_call_id":"call_3","name":"read"}
            {"role":"assistant","content":"I have the results."}
            {"role":"user","content":[{"type":"text","text":"Images from the tool results above:"},{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo="}}]}
            {"role":"assistant","content":"Then think.","tool_calls":[{"id":"call_4","type":"function","function":{"name":"ls","arguments":"{}"}}]}
            {"role":"tool","content":"a.txt","tool_call_id":"call_4","name":"read"}
            {"role":"assistant","content":"Only thoughts."}
            {"role":"user","content":[{"type":"text","text":"And now?"}]}
        "#]],
    );
}

#[test]
fn thinking_field_is_always_sent_where_required() {
    let compat = json!({"requiresReasoningContentOnAssistantMessages": true});
    let messages = vec![
        user("a"),
        answer(vec![Block::text("b")]),
        user("c"),
        answer(vec![thought("hm", Some("reasoning_content")), Block::text("d")]),
        user("e"),
    ];
    check_messages(
        &with_compat(request(messages), compat),
        expect![[r#"
        {"role":"developer","content":"Be brief."}
        {"role":"user","content":[{"type":"text","text":"a"}]}
        {"role":"assistant","content":"b","reasoning_content":""}
        {"role":"user","content":[{"type":"text","text":"c"}]}
        {"role":"assistant","content":"d","reasoning_content":"hm"}
        {"role":"user","content":[{"type":"text","text":"e"}]}
    "#]],
    );
}

#[test]
fn thinking_is_sent_back_to_the_same_model_only() {
    let messages = vec![
        user("a"),
        answer(vec![
            thought("one", Some("reasoning")),
            thought("two", Some("reasoning")),
            thought("signed elsewhere", Some("EqQBCkYI==")),
            thought("nobody's", None),
            Block::text("b"),
        ]),
        user("c"),
        crate::testing::foreign(vec![
            thought("another model's", Some("reasoning")),
            Block::text("d"),
        ]),
        user("e"),
    ];
    check_messages(
        &request(messages),
        expect![[r#"
        {"role":"developer","content":"Be brief."}
        {"role":"user","content":[{"type":"text","text":"a"}]}
        {"role":"assistant","content":"b","reasoning":"one\ntwo"}
        {"role":"user","content":[{"type":"text","text":"c"}]}
        {"role":"assistant","content":"another model's\n\nd"}
        {"role":"user","content":[{"type":"text","text":"e"}]}
    "#]],
    );
}

#[test]
fn encrypted_thinking_is_sent_back_with_its_call() {
    let detail = json!({"type": "reasoning.encrypted", "id": "call_1", "data": "c2VjcmV0"});
    let signed = |id: &str, signature: &str| {
        let Block::ToolCall(mut call) = call(id, "ls", json!({})) else { unreachable!() };
        call.thought_signature = Some(signature.into());
        Block::ToolCall(call)
    };
    let messages = vec![
        user("a"),
        answer(vec![signed("call_1", &detail.to_string()), signed("call_2", "EqQBCkYI==")]),
        user("b"),
    ];
    check_messages(
        &request(messages),
        expect![[r#"
        {"role":"developer","content":"Be brief."}
        {"role":"user","content":[{"type":"text","text":"a"}]}
        {"role":"assistant","content":null,"reasoning_details":[{"type":"reasoning.encrypted","id":"call_1","data":"c2VjcmV0"}],"tool_calls":[{"id":"call_1","type":"function","function":{"name":"ls","arguments":"{}"}},{"id":"call_2","type":"function","function":{"name":"ls","arguments":"{}"}}]}
        {"role":"tool","content":"No result provided","tool_call_id":"call_1"}
        {"role":"tool","content":"No result provided","tool_call_id":"call_2"}
        {"role":"user","content":[{"type":"text","text":"b"}]}
    "#]],
    );
}

#[test]
fn call_ids_are_adapted_to_the_server() {
    let messages = || {
        let ids = ["call_abc|fc_0123456789", "functions.read:0", &"x".repeat(80), "abcDEF123"];
        let calls = ids.iter().map(|id| call(id, "ls", json!({})));
        let results = ids.iter().map(|id| result(id, vec![Block::text("so")]));
        [user("a"), answer(calls.collect())].into_iter().chain(results).collect::<Vec<_>>()
    };
    let ids = |base_url: &str| {
        let request = with_model(request(messages()), |model| model.base_url = base_url.into());
        let body = body_of(post(&request, &RequestOptions::default()).unwrap());
        let calls = body["messages"][2]["tool_calls"].as_array().unwrap();
        let made: Vec<_> = calls.iter().map(|call| call["id"].clone()).collect();
        let results = body["messages"].as_array().unwrap()[3..].iter();
        let answered: Vec<_> = results.map(|result| result["tool_call_id"].clone()).collect();
        assert_eq!(made, answered);
        made.iter().map(|id| format!("{id}\n")).collect::<String>()
    };
    expect![[r#"
        "call_abc"
        "functions.read:0"
        "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
        "abcDEF123"
    "#]]
    .assert_eq(&ids("http://127.0.0.1:9/v1"));
    expect![[r#"
        "call_abc"
        "functions.read:0"
        "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx_lHwGFGEex"
        "abcDEF123"
    "#]]
    .assert_eq(&ids("https://api.openai.com/v1"));
    expect![[r#"
        "WFH8yRA8u"
        "Eyy5hYtqy"
        "lHwGFGEex"
        "abcDEF123"
    "#]]
    .assert_eq(&ids("https://api.mistral.ai/v1"));
}

#[test]
fn anthropic_cache_marks_are_set() {
    let mut request = with_model(request(conversation()), |model| {
        model.id = "anthropic/claude-test".into();
        model.base_url = "https://openrouter.ai/api/v1".into();
    });
    request.tools = vec![tool("a", json!({})), tool("b", json!({}))].into();
    let access =
        RequestOptions { cache_retention: CacheRetention::Long, ..RequestOptions::default() };
    check_with(
        &request,
        &access,
        expect![[r#"
        POST https://openrouter.ai/api/v1/chat/completions
        x-session-id: session-1
        model "anthropic/claude-test"
        messages
          {"role":"developer","content":[{"type":"text","text":"Be brief.","cache_control":{"type":"ephemeral","ttl":"1h"}}]}
          {"role":"user","content":[{"type":"text","text":"Look at these"},{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo="}},{"type":"text","text":"(image omitted: image/bmp is not supported)"}]}
          {"role":"assistant","content":"First, look.\n\nReading.","tool_calls":[{"id":"call_1","type":"function","function":{"name":"read","arguments":"{\"path\":\"a\",\"limit\":3}"}},{"id":"call_2","type":"function","function":{"name":"read","arguments":"{}"}},{"id":"call_3","type":"function","function":{"name":"read","arguments":"{}"}}]}
          {"role":"tool","content":"one\ntwo","tool_call_id":"call_1"}
          {"role":"tool","content":"(see the attached image)","tool_call_id":"call_2"}
          {"role":"tool","content":"(no output)","tool_call_id":"call_3"}
          {"role":"user","content":[{"type":"text","text":"Images from the tool results above:"},{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo="}}]}
          {"role":"assistant","content":"Then think.","tool_calls":[{"id":"call_4","type":"function","function":{"name":"ls","arguments":"{}"}}]}
          {"role":"tool","content":"a.txt","tool_call_id":"call_4"}
          {"role":"assistant","content":"Only thoughts."}
          {"role":"user","content":[{"type":"text","text":"And now?","cache_control":{"type":"ephemeral","ttl":"1h"}}]}
        stream true
        stream_options {"include_usage":true}
        store false
        max_completion_tokens 8192
        tools
          {"type":"function","function":{"name":"a","description":"Does a.","parameters":{"type":"object"},"strict":false}}
          {"type":"function","function":{"name":"b","description":"Does b.","parameters":{"type":"object"},"strict":false},"cache_control":{"type":"ephemeral","ttl":"1h"}}
        reasoning {"effort":"none"}
    "#]],
    );
}

#[test]
fn cache_mark_is_on_the_last_text() {
    let compat = json!({"cacheControlFormat": "anthropic"});
    let messages = vec![
        user("a"),
        answer(vec![Block::text("Looking."), call("call_1", "ls", json!({}))]),
        result("call_1", vec![Block::text("b")]),
        answer(vec![call("call_2", "ls", json!({}))]),
        result("call_2", vec![Block::text("c")]),
    ];
    let mut request = with_compat(request(messages), compat);
    check_messages(
        &request,
        expect![[r#"
            {"role":"developer","content":[{"type":"text","text":"Be brief.","cache_control":{"type":"ephemeral"}}]}
            {"role":"user","content":[{"type":"text","text":"a"}]}
            {"role":"assistant","content":[{"type":"text","text":"Looking.","cache_control":{"type":"ephemeral"}}],"tool_calls":[{"id":"call_1","type":"function","function":{"name":"ls","arguments":"{}"}}]}
            {"role":"tool","content":"b","tool_call_id":"call_1"}
            {"role":"assistant","content":null,"tool_calls":[{"id":"call_2","type":"function","function":{"name":"ls","arguments":"{}"}}]}
            {"role":"tool","content":"c","tool_call_id":"call_2"}
        "#]],
    );
    request.messages.truncate(1);
    request.system = "".into();
    check_messages(
        &request,
        expect![[r#"
        {"role":"user","content":[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}}]}
    "#]],
    );
}

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

#[test]
fn empty_conversation_is_refused() {
    let err = post(&request(Vec::new()), &RequestOptions::default()).unwrap_err();
    assert_eq!(err, ProviderError::fatal("there is nothing to send: the conversation is empty"));
}

#[test]
fn forced_tool_is_sent() {
    let choice = |tool: Option<&str>| {
        let mut request = request(vec![user("hi")]);
        request.forced_tool = tool.map(str::to_owned);
        body_of(post(&request, &RequestOptions::default()).unwrap()).get("tool_choice").cloned()
    };
    assert_eq!(
        choice(Some("read")),
        Some(json!({"type": "function", "function": {"name": "read"}}))
    );
    assert_eq!(choice(None), None);
}
