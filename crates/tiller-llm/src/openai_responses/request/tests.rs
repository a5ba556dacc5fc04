use expect_test::{Expect, expect};
use serde_json::json;
use tiller_agent::message::{Block, Message, StopReason};

use super::*;
use crate::testing::*;

fn check(request: &Request, expect: Expect) {
    check_with(request, &RequestOptions::with_key("sk-key"), expect);
}

fn check_with(request: &Request, access: &RequestOptions, expect: Expect) {
    check_post(post(request, access).unwrap(), expect);
}

fn signed_text(text: &str, signature: &str) -> Block {
    Block::Text { text: text.into(), text_signature: Some(signature.into()) }
}

const REASONING: &str =
    r#"{"id":"rs_1","type":"reasoning","summary":[],"encrypted_content":"gAAAAA=="}"#;

#[test]
fn first_request() {
    let mut request = request(vec![user("Hello")]);
    let parameters = json!({"type": "object", "properties": {"path": {"type": "string"}}});
    let description = "Does read.".to_owned();
    request.tools = vec![ToolSpec { name: "read".into(), description, parameters }].into();
    check(
        &request,
        expect![[r#"
        POST http://127.0.0.1:9/responses
        authorization: Bearer sk-key
        session_id: session-1
        x-client-request-id: session-1
        model "claude-test"
        input
          {"role":"developer","content":"Be brief."}
          {"role":"user","content":[{"type":"input_text","text":"Hello"}]}
        stream true
        prompt_cache_key "session-1"
        store false
        max_output_tokens 8192
        tools
          {"type":"function","name":"read","description":"Does read.","parameters":{"type":"object","properties":{"path":{"type":"string"}}},"strict":false}
        reasoning {"effort":"none"}
    "#]],
    );
}

#[test]
fn conversation_with_tools() {
    let request = request(vec![
        Message::user("Look at these", vec![png(), Block::image("AA==", "image/bmp")], 1),
        answer(vec![
            thought("First, look.", Some(REASONING)),
            signed_text("Reading.", r#"{"v":1,"id":"msg_1","phase":"commentary"}"#),
            call("call_1|fc_1", "read", json!({"path": "a", "limit": 3})),
            call("call_2|ctx_of_a_gateway", "read", json!({})),
            call("call_3", "read", json!({})),
        ]),
        result("call_1|fc_1", vec![Block::text("one"), Block::text("two")]),
        result("call_2|ctx_of_a_gateway", vec![Block::text("a picture"), png()]),
    ]);
    check(
        &request,
        expect![[r#"
        POST http://127.0.0.1:9/responses
        authorization: Bearer sk-key
        session_id: session-1
        x-client-request-id: session-1
        model "claude-test"
        input
          {"role":"developer","content":"Be brief."}
          {"role":"user","content":[{"type":"input_text","text":"Look at these"},{"type":"input_image","detail":"auto","image_url":"data:image/png;base64,iVBORw0KGgo="},{"type":"input_text","text":"(image omitted: image/bmp is not supported)"}]}
          {"id":"rs_1","type":"reasoning","summary":[],"encrypted_content":"gAAAAA=="}
          {"type":"message","role":"assistant","content":[{"type":"output_text","text":"Reading.","annotations":[]}],"status":"completed","id":"msg_1","phase":"commentary"}
          {"type":"function_call","id":"fc_1","call_id":"call_1","name":"read","arguments":"{\"path\":\"a\",\"limit\":3}"}
          {"type":"function_call","call_id":"call_2","name":"read","arguments":"{}"}
          {"type":"function_call","call_id":"call_3","name":"read","arguments":"{}"}
          {"type":"function_call_output","call_id":"call_1","output":"one\ntwo"}
          {"type":"function_call_output","call_id":"call_2","output":[{"type":"input_text","text":"a picture"},{"type":"input_image","detail":"auto","image_url":"data:image/png;base64,iVBORw0KGgo="}]}
          {"type":"function_call_output","call_id":"call_3","output":"No result provided"}
        stream true
        prompt_cache_key "session-1"
        store false
        max_output_tokens 8192
        reasoning {"effort":"none"}
    "#]],
    );
}

#[test]
fn content_of_other_models_is_converted() {
    let request = request(vec![
        user("go"),
        failed(StopReason::Error, vec![Block::text("half")]),
        foreign(vec![
            thought("Hm.", Some("theirs")),
            signed_text("So.", r#"{"v":1,"id":"msg_theirs"}"#),
            call("toolu é|fc_theirs", "read", json!({})),
            call("", "read", json!({})),
            call(&"x".repeat(99), "read", json!({})),
        ]),
        result("toolu é|fc_theirs", vec![Block::text("")]),
        // The same id twice.
        answer(vec![call("call|fc_1", "read", json!({})), call("call|fc_2", "read", json!({}))]),
        user("go on"),
    ]);
    check(
        &request,
        expect![[r#"
        POST http://127.0.0.1:9/responses
        authorization: Bearer sk-key
        session_id: session-1
        x-client-request-id: session-1
        model "claude-test"
        input
          {"role":"developer","content":"Be brief."}
          {"role":"user","content":[{"type":"input_text","text":"go"}]}
          {"type":"message","role":"assistant","content":[{"type":"output_text","text":"Hm.","annotations":[]}],"status":"completed"}
          {"type":"message","role":"assistant","content":[{"type":"output_text","text":"So.","annotations":[]}],"status":"completed"}
          {"type":"function_call","call_id":"toolu__","name":"read","arguments":"{}"}
          {"type":"function_call","call_id":"call","name":"read","arguments":"{}"}
          {"type":"function_call","call_id":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx","name":"read","arguments":"{}"}
          {"type":"function_call_output","call_id":"toolu__","output":""}
          {"type":"function_call_output","call_id":"call","output":"No result provided"}
          {"type":"function_call_output","call_id":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx","output":"No result provided"}
          {"type":"function_call","id":"fc_1","call_id":"call_2","name":"read","arguments":"{}"}
          {"type":"function_call","id":"fc_2","call_id":"call_3","name":"read","arguments":"{}"}
          {"type":"function_call_output","call_id":"call_2","output":"No result provided"}
          {"type":"function_call_output","call_id":"call_3","output":"No result provided"}
          {"role":"user","content":[{"type":"input_text","text":"go on"}]}
        stream true
        prompt_cache_key "session-1"
        store false
        max_output_tokens 8192
        reasoning {"effort":"none"}
    "#]],
    );
}

#[test]
fn incomplete_reasoning_is_not_sent_back() {
    let request = request(vec![
        user("go"),
        answer(vec![
            thought("no signature", None),
            thought("no item", Some("EqQBCkYI==")),
            thought("another item", Some(r#"{"type":"message"}"#)),
            thought("", Some(REASONING)),
            signed_text("old signature", "msg_old"),
            signed_text("long signature", &format!("msg_{}", "x".repeat(99))),
            thought("", Some(REASONING)),
        ]),
        user("go on"),
        failed(StopReason::Aborted, vec![thought("cut", Some(REASONING)), Block::text(" ")]),
        user("and on"),
    ]);
    check(
        &request,
        expect![[r#"
        POST http://127.0.0.1:9/responses
        authorization: Bearer sk-key
        session_id: session-1
        x-client-request-id: session-1
        model "claude-test"
        input
          {"role":"developer","content":"Be brief."}
          {"role":"user","content":[{"type":"input_text","text":"go"}]}
          {"id":"rs_1","type":"reasoning","summary":[],"encrypted_content":"gAAAAA=="}
          {"type":"message","role":"assistant","content":[{"type":"output_text","text":"old signature","annotations":[]}],"status":"completed","id":"msg_old"}
          {"type":"message","role":"assistant","content":[{"type":"output_text","text":"long signature","annotations":[]}],"status":"completed"}
          {"role":"user","content":[{"type":"input_text","text":"go on"}]}
          {"role":"user","content":[{"type":"input_text","text":"and on"}]}
        stream true
        prompt_cache_key "session-1"
        store false
        max_output_tokens 8192
        reasoning {"effort":"none"}
    "#]],
    );
}

#[test]
fn compat_options_change_the_request() {
    let access =
        RequestOptions { cache_retention: CacheRetention::Long, ..RequestOptions::default() };
    let request = with_model(request(vec![user("hi")]), |model| {
        model.base_url = "https://example.test/v1/".into();
        model.compat = Some(json!({
            "supportsDeveloperRole": false,
            "supportsLongCacheRetention": false,
            "supportsReasoningEffort": false,
            "sessionAffinityFormat": "openai-nosession",
        }));
    });
    check_with(
        &request,
        &access,
        expect![[r#"
        POST https://example.test/v1/responses
        x-client-request-id: session-1
        model "claude-test"
        input
          {"role":"system","content":"Be brief."}
          {"role":"user","content":[{"type":"input_text","text":"hi"}]}
        stream true
        prompt_cache_key "session-1"
        store false
        max_output_tokens 8192
        include
          "reasoning.encrypted_content"
    "#]],
    );
    let request = with_model(request, |model| {
        model.compat = Some(json!({"sendSessionIdHeader": false}));
        (model.reasoning, model.max_tokens) = (false, 3);
    });
    check_with(
        &request,
        &access,
        expect![[r#"
        POST https://example.test/v1/responses
        model "claude-test"
        input
          {"role":"system","content":"Be brief."}
          {"role":"user","content":[{"type":"input_text","text":"hi"}]}
        stream true
        prompt_cache_key "session-1"
        prompt_cache_retention "24h"
        store false
        max_output_tokens 16
    "#]],
    );
}

#[test]
fn levels_of_thinking() {
    use ThinkingLevel::*;
    let mut printed = String::new();
    for (map, level) in [
        (json!({}), Off),
        (json!({}), Minimal),
        (json!({}), High),
        (json!({"off": null}), Off),
        (json!({"off": "minimal"}), Off),
        (json!({"xhigh": "max"}), Xhigh),
    ] {
        let mut request = with_model(request(vec![user("hi")]), |model| {
            model.thinking_level_map = serde_json::from_value(map.clone()).unwrap();
        });
        request.thinking = level;
        let body = body_of(post(&request, &RequestOptions::default()).unwrap());
        printed += &format!("{map} {}: {} {}\n", level.name(), body["reasoning"], body["include"]);
    }
    expect![[r#"
        {} off: {"effort":"none"} null
        {} minimal: {"effort":"minimal","summary":"auto"} ["reasoning.encrypted_content"]
        {} high: {"effort":"high","summary":"auto"} ["reasoning.encrypted_content"]
        {"off":null} off: null ["reasoning.encrypted_content"]
        {"off":"minimal"} off: {"effort":"minimal"} ["reasoning.encrypted_content"]
        {"xhigh":"max"} xhigh: {"effort":"max","summary":"auto"} ["reasoning.encrypted_content"]
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
    assert_eq!(choice(Some("read")), Some(json!({"type": "function", "name": "read"})));
    assert_eq!(choice(None), None);
}
