use std::collections::BTreeMap;

use expect_test::{Expect, expect};
use serde_json::json;
use tiller_agent::message::{Block, Message, StopReason};

use super::*;
use crate::testing::*;

fn check(request: &Request, expect: Expect) {
    check_with(request, &RequestOptions::with_key("sk-ant-api03-key"), expect);
}

fn check_with(request: &Request, access: &RequestOptions, expect: Expect) {
    check_post(post(request, access).unwrap(), expect);
}

/// Prints only the thinking settings of the body, and their header.
fn check_thinking(change: impl FnOnce(&mut Model), level: ThinkingLevel, expect: Expect) {
    let mut request = with_model(request(vec![user("hi")]), change);
    request.thinking = level;
    let HttpRequest { headers, body, .. } = post(&request, &RequestOptions::default()).unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap();
    let beta = headers.iter().find(|(name, _)| *name == "anthropic-beta").map(|(_, beta)| &**beta);
    expect.assert_eq(&format!(
        "{} {} {}",
        body.get("thinking").unwrap_or(&Value::Null),
        body.get("output_config").unwrap_or(&Value::Null),
        beta.unwrap_or("-"),
    ));
}

#[test]
fn first_request() {
    let mut request = request(vec![user("Hello")]);
    request.tools = vec![
        tool("read", json!({"type": "object", "properties": {"path": {"type": "string"}}})),
        tool("odd", json!({"properties": {}})),
        tool("odder", json!(null)),
    ]
    .into();
    check(
        &request,
        expect![[r#"
        POST http://127.0.0.1:9/v1/messages
        anthropic-version: 2023-06-01
        x-api-key: sk-ant-api03-key
        model "claude-test"
        messages
          {"role":"user","content":[{"type":"text","text":"Hello","cache_control":{"type":"ephemeral"}}]}
        max_tokens 8192
        stream true
        system
          {"type":"text","text":"Be brief.","cache_control":{"type":"ephemeral"}}
        tools
          {"name":"read","description":"Does read.","eager_input_streaming":true,"input_schema":{"type":"object","properties":{"path":{"type":"string"}}}}
          {"name":"odd","description":"Does odd.","eager_input_streaming":true,"input_schema":{"properties":{},"type":"object"}}
          {"name":"odder","description":"Does odder.","eager_input_streaming":true,"input_schema":{"type":"object","properties":{}},"cache_control":{"type":"ephemeral"}}
        thinking {"type":"disabled"}
    "#]],
    );
}

#[test]
fn conversation_with_tools() {
    let error = |id: &str| {
        let mut message = result(id, vec![Block::text("no such file"), png()]);
        let Message::ToolResult(result) = &mut message else { unreachable!() };
        result.is_error = true;
        message
    };
    let request = request(vec![
        Message::user("Look at these", vec![png(), Block::image("AA==", "image/bmp")], 1),
        answer(vec![
            thought("First, look.", Some("sig")),
            hidden_thought("dark"),
            Block::text("Reading."),
            call("toolu_1", "read", json!({"path": "a", "limit": 3})),
            call("toolu_2", "read", json!({})),
            call("toolu_3", "read", json!({})),
            call("toolu_4", "read", json!({})),
        ]),
        result("toolu_1", vec![Block::text("one"), Block::text("two")]),
        result("toolu_2", vec![Block::text("a picture"), png()]),
        error("toolu_3"),
    ]);
    check(
        &request,
        expect![[r#"
        POST http://127.0.0.1:9/v1/messages
        anthropic-version: 2023-06-01
        x-api-key: sk-ant-api03-key
        model "claude-test"
        messages
          {"role":"user","content":[{"type":"text","text":"Look at these"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgo="}},{"type":"text","text":"(image omitted: image/bmp is not supported)"}]}
          {"role":"assistant","content":[{"type":"thinking","thinking":"First, look.","signature":"sig"},{"type":"redacted_thinking","data":"dark"},{"type":"text","text":"Reading."},{"type":"tool_use","id":"toolu_1","name":"read","input":{"path":"a","limit":3}},{"type":"tool_use","id":"toolu_2","name":"read","input":{}},{"type":"tool_use","id":"toolu_3","name":"read","input":{}},{"type":"tool_use","id":"toolu_4","name":"read","input":{}}]}
          {"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"one\ntwo","is_error":false},{"type":"tool_result","tool_use_id":"toolu_2","content":[{"type":"text","text":"a picture"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgo="}}],"is_error":false},{"type":"tool_result","tool_use_id":"toolu_3","content":"no such file","is_error":true},{"type":"tool_result","tool_use_id":"toolu_4","content":"No result provided","is_error":true,"cache_control":{"type":"ephemeral"}}]}
        max_tokens 8192
        stream true
        system
          {"type":"text","text":"Be brief.","cache_control":{"type":"ephemeral"}}
        thinking {"type":"disabled"}
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
            call("call_1|fc_é", "read", json!({})),
            call("", "read", json!({})),
            call(&"x".repeat(99), "read", json!({})),
        ]),
        result("call_1|fc_é", vec![Block::text("")]),
        answer(vec![thought("Cut short", None), Block::text(" ")]),
        user("go on"),
    ]);
    check(
        &request,
        expect![[r#"
        POST http://127.0.0.1:9/v1/messages
        anthropic-version: 2023-06-01
        x-api-key: sk-ant-api03-key
        model "claude-test"
        messages
          {"role":"user","content":[{"type":"text","text":"go"}]}
          {"role":"assistant","content":[{"type":"text","text":"Hm."},{"type":"tool_use","id":"call_1_fc__","name":"read","input":{}},{"type":"tool_use","id":"call","name":"read","input":{}},{"type":"tool_use","id":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx","name":"read","input":{}}]}
          {"role":"user","content":[{"type":"tool_result","tool_use_id":"call_1_fc__","content":"","is_error":false},{"type":"tool_result","tool_use_id":"call","content":"No result provided","is_error":true},{"type":"tool_result","tool_use_id":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx","content":"No result provided","is_error":true}]}
          {"role":"assistant","content":[{"type":"text","text":"Cut short"}]}
          {"role":"user","content":[{"type":"text","text":"go on","cache_control":{"type":"ephemeral"}}]}
        max_tokens 8192
        stream true
        system
          {"type":"text","text":"Be brief.","cache_control":{"type":"ephemeral"}}
        thinking {"type":"disabled"}
    "#]],
    );
}

#[test]
fn compat_options_change_the_request() {
    let mut request = with_model(
        request(vec![user("go"), answer(vec![thought("Hm.", None)]), user("on")]),
        |model| {
            model.base_url = "https://example.test/anthropic/".into();
            model.compat = Some(json!({
                "supportsEagerToolInputStreaming": false,
                "supportsCacheControlOnTools": false,
                "supportsLongCacheRetention": false,
                "allowEmptySignature": true,
                "sendSessionAffinityHeaders": true,
            }));
        },
    );
    request.tools = vec![tool("read", json!({"type": "object"}))].into();
    let access =
        RequestOptions { cache_retention: CacheRetention::Long, ..RequestOptions::default() };
    check_with(
        &request,
        &access,
        expect![[r#"
        POST https://example.test/anthropic/v1/messages
        anthropic-version: 2023-06-01
        x-session-affinity: session-1
        model "claude-test"
        messages
          {"role":"user","content":[{"type":"text","text":"go"}]}
          {"role":"assistant","content":[{"type":"thinking","thinking":"Hm.","signature":""}]}
          {"role":"user","content":[{"type":"text","text":"on","cache_control":{"type":"ephemeral"}}]}
        max_tokens 8192
        stream true
        system
          {"type":"text","text":"Be brief.","cache_control":{"type":"ephemeral"}}
        tools
          {"name":"read","description":"Does read.","input_schema":{"type":"object"}}
        thinking {"type":"disabled"}
    "#]],
    );
}

#[test]
fn long_cache_retention_is_one_hour() {
    let access =
        RequestOptions { cache_retention: CacheRetention::Long, ..RequestOptions::default() };
    check_with(
        &request(vec![user("hi")]),
        &access,
        expect![[r#"
        POST http://127.0.0.1:9/v1/messages
        anthropic-version: 2023-06-01
        model "claude-test"
        messages
          {"role":"user","content":[{"type":"text","text":"hi","cache_control":{"type":"ephemeral","ttl":"1h"}}]}
        max_tokens 8192
        stream true
        system
          {"type":"text","text":"Be brief.","cache_control":{"type":"ephemeral","ttl":"1h"}}
        thinking {"type":"disabled"}
    "#]],
    );
}

#[test]
fn oauth_token_is_sent_as_bearer() {
    let mut request = request(vec![user("hi")]);
    request.system = "".into();
    request.thinking = ThinkingLevel::Low;
    check_with(
        &request,
        &RequestOptions::with_key("sk-ant-oat01-token"),
        expect![[r#"
        POST http://127.0.0.1:9/v1/messages
        anthropic-version: 2023-06-01
        authorization: Bearer sk-ant-oat01-token
        anthropic-beta: interleaved-thinking-2025-05-14,oauth-2025-04-20
        model "claude-test"
        messages
          {"role":"user","content":[{"type":"text","text":"hi","cache_control":{"type":"ephemeral"}}]}
        max_tokens 8192
        stream true
        thinking {"type":"enabled","budget_tokens":2048,"display":"summarized"}
    "#]],
    );
}

#[test]
fn levels_of_thinking() {
    use ThinkingLevel::*;
    let roomy = |model: &mut Model| model.max_tokens = 64_000;
    check_thinking(roomy, Off, expect![[r#"{"type":"disabled"} null -"#]]);
    check_thinking(
        roomy,
        Minimal,
        expect![[
            r#"{"type":"enabled","budget_tokens":1024,"display":"summarized"} null interleaved-thinking-2025-05-14"#
        ]],
    );
    check_thinking(
        roomy,
        Low,
        expect![[
            r#"{"type":"enabled","budget_tokens":2048,"display":"summarized"} null interleaved-thinking-2025-05-14"#
        ]],
    );
    check_thinking(
        roomy,
        Medium,
        expect![[
            r#"{"type":"enabled","budget_tokens":8192,"display":"summarized"} null interleaved-thinking-2025-05-14"#
        ]],
    );
    check_thinking(
        roomy,
        High,
        expect![[
            r#"{"type":"enabled","budget_tokens":16384,"display":"summarized"} null interleaved-thinking-2025-05-14"#
        ]],
    );
    check_thinking(
        roomy,
        Xhigh,
        expect![[
            r#"{"type":"enabled","budget_tokens":16384,"display":"summarized"} null interleaved-thinking-2025-05-14"#
        ]],
    );
    // A budget leaves room for the answer, or there is none.
    check_thinking(
        |model| model.max_tokens = 8192,
        High,
        expect![[
            r#"{"type":"enabled","budget_tokens":7168,"display":"summarized"} null interleaved-thinking-2025-05-14"#
        ]],
    );
    check_thinking(
        |model| model.max_tokens = 2048,
        High,
        expect![[
            r#"{"type":"enabled","budget_tokens":1024,"display":"summarized"} null interleaved-thinking-2025-05-14"#
        ]],
    );
    check_thinking(
        |model| model.max_tokens = 2047,
        High,
        expect![[r#"{"type":"disabled"} null -"#]],
    );
    check_thinking(|model| model.reasoning = false, High, expect!["null null -"]);
}

#[test]
fn adaptive_thinking_sends_the_effort() {
    use ThinkingLevel::*;
    fn adaptive(map: &[(ThinkingLevel, Option<&str>)]) -> impl FnOnce(&mut Model) {
        let map: BTreeMap<_, _> =
            map.iter().map(|(level, name)| (*level, name.map(String::from))).collect();
        move |model| {
            model.compat = Some(json!({"forceAdaptiveThinking": true}));
            model.thinking_level_map = Some(map);
        }
    }
    check_thinking(adaptive(&[]), Off, expect![[r#"{"type":"disabled"} null -"#]]);
    check_thinking(adaptive(&[(Off, None)]), Off, expect!["null null -"]);
    check_thinking(
        adaptive(&[]),
        Minimal,
        expect![[r#"{"type":"adaptive","display":"summarized"} {"effort":"low"} -"#]],
    );
    check_thinking(
        adaptive(&[]),
        Medium,
        expect![[r#"{"type":"adaptive","display":"summarized"} {"effort":"medium"} -"#]],
    );
    check_thinking(
        adaptive(&[(Xhigh, Some("max"))]),
        Xhigh,
        expect![[r#"{"type":"adaptive","display":"summarized"} {"effort":"max"} -"#]],
    );
    check_thinking(
        adaptive(&[]),
        Xhigh,
        expect![[r#"{"type":"adaptive","display":"summarized"} {"effort":"high"} -"#]],
    );
}

#[test]
fn empty_conversation_is_refused() {
    let err = post(&request(Vec::new()), &RequestOptions::default()).unwrap_err();
    assert_eq!(err, ProviderError::fatal("there is nothing to send: the conversation is empty"));
}

#[test]
fn forced_tool_is_sent_unless_thinking() {
    let choice = |level| {
        let mut request = request(vec![user("hi")]);
        (request.forced_tool, request.thinking) = (Some("read".to_owned()), level);
        body_of(post(&request, &RequestOptions::default()).unwrap()).get("tool_choice").cloned()
    };
    assert_eq!(choice(ThinkingLevel::Off), Some(json!({"type": "tool", "name": "read"})));
    assert_eq!(choice(ThinkingLevel::High), None);
}
