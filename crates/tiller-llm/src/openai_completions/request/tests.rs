mod servers;

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
    for name in ["model", "messages", "stream", "tools"] {
        body.shift_remove(name);
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
