use expect_test::{Expect, expect};
use serde_json::json;
use tiller_agent::message::{Block, Message, StopReason};
use tiller_agent::model::ThinkingLevel;

use super::*;
use crate::testing::*;

fn check(request: &Request, expect: Expect) {
    check_post(post(request, &RequestOptions::with_key("AIza-key")).unwrap(), expect);
}

/// The answers must be of the requested model, so only the request's model changes.
fn conversation() -> Request {
    let mut refused = result("c", vec![Block::text("no such file"), png()]);
    let Message::ToolResult(inner) = &mut refused else { unreachable!() };
    inner.is_error = true;
    let mut signed = call("a", "read", json!({"path": "a", "limit": 3}));
    let Block::ToolCall(inner) = &mut signed else { unreachable!() };
    inner.thought_signature = Some("c2lnMg==".into());
    let text = Block::Text { text: "Reading.".into(), text_signature: Some("c2lnMQ==".to_owned()) };
    request(vec![
        Message::user("Look at these", vec![png(), Block::image("AA==", "image/gif")], 1),
        answer(vec![
            thought("First, look.", None),
            thought("Then think.", Some("c2lnMA==")),
            text,
            signed,
            call("b", "read", json!({})),
            call("c", "read", json!({})),
            call("d", "ls", json!({})),
        ]),
        result("a", vec![Block::text("one"), Block::text("two")]),
        result("b", vec![png()]),
        refused,
    ])
}

#[test]
fn first_request() {
    let mut request = request(vec![user("Hello")]);
    let tool = |name: &str, parameters| ToolSpec {
        name: name.into(),
        description: format!("Does {name}."),
        parameters,
    };
    request.tools = vec![
        tool("read", json!({"type": "object", "properties": {"path": {"type": "string"}}})),
        tool("odd", json!(null)),
    ]
    .into();
    let request = with_model(request, |model| {
        model.base_url = "https://example.test/v1beta/".into();
        model.id = "models/gemini-test".into();
    });
    check(
        &request,
        expect![[r#"
        POST https://example.test/v1beta/models/gemini-test:streamGenerateContent?alt=sse
        x-goog-api-key: AIza-key
        contents
          {"parts":[{"text":"Hello"}],"role":"user"}
        systemInstruction {"parts":[{"text":"Be brief."}],"role":"user"}
        tools
          {"functionDeclarations":[{"name":"read","description":"Does read.","parametersJsonSchema":{"type":"object","properties":{"path":{"type":"string"}}}},{"name":"odd","description":"Does odd.","parametersJsonSchema":{"type":"object","properties":{}}}]}
        generationConfig {"maxOutputTokens":8192,"thinkingConfig":{"thinkingBudget":0}}
    "#]],
    );
}

#[test]
fn conversation_with_tools() {
    check(
        &conversation(),
        expect![[r#"
        POST http://127.0.0.1:9/models/claude-test:streamGenerateContent?alt=sse
        x-goog-api-key: AIza-key
        contents
          {"parts":[{"text":"Look at these"},{"inlineData":{"mimeType":"image/png","data":"iVBORw0KGgo="}},{"text":"(image omitted: image/gif is not supported)"}],"role":"user"}
          {"parts":[{"text":"First, look.","thought":true},{"text":"Then think.","thought":true,"thoughtSignature":"c2lnMA=="},{"text":"Reading.","thoughtSignature":"c2lnMQ=="},{"functionCall":{"args":{"path":"a","limit":3},"name":"read"},"thoughtSignature":"c2lnMg=="},{"functionCall":{"args":{},"name":"read"}},{"functionCall":{"args":{},"name":"read"}},{"functionCall":{"args":{},"name":"ls"}}],"role":"model"}
          {"parts":[{"functionResponse":{"name":"read","response":{"output":"one\ntwo"}}},{"functionResponse":{"name":"read","response":{"output":"(see the attached image)"}}},{"functionResponse":{"name":"read","response":{"error":"no such file"}}},{"functionResponse":{"name":"ls","response":{"error":"No result provided"}}}],"role":"user"}
          {"parts":[{"text":"Images from the tools:"},{"inlineData":{"mimeType":"image/png","data":"iVBORw0KGgo="}},{"inlineData":{"mimeType":"image/png","data":"iVBORw0KGgo="}}],"role":"user"}
        systemInstruction {"parts":[{"text":"Be brief."}],"role":"user"}
        generationConfig {"maxOutputTokens":8192,"thinkingConfig":{"thinkingBudget":0}}
    "#]],
    );
}

#[test]
fn newer_models_get_signatures_and_images_in_results() {
    let request = with_model(conversation(), |model| model.id = "gemini-3-pro-preview".into());
    check(
        &request,
        expect![[r#"
        POST http://127.0.0.1:9/models/gemini-3-pro-preview:streamGenerateContent?alt=sse
        x-goog-api-key: AIza-key
        contents
          {"parts":[{"text":"Look at these"},{"inlineData":{"mimeType":"image/png","data":"iVBORw0KGgo="}},{"text":"(image omitted: image/gif is not supported)"}],"role":"user"}
          {"parts":[{"text":"First, look."},{"text":"Then think."},{"text":"Reading."},{"functionCall":{"args":{"path":"a","limit":3},"name":"read"},"thoughtSignature":"skip_thought_signature_validator"},{"functionCall":{"args":{},"name":"read"}},{"functionCall":{"args":{},"name":"read"}},{"functionCall":{"args":{},"name":"ls"}}],"role":"model"}
          {"parts":[{"functionResponse":{"name":"read","response":{"output":"one\ntwo"}}},{"functionResponse":{"name":"read","response":{"output":"(see the attached image)"},"parts":[{"inlineData":{"mimeType":"image/png","data":"iVBORw0KGgo="}}]}},{"functionResponse":{"name":"read","response":{"error":"no such file"},"parts":[{"inlineData":{"mimeType":"image/png","data":"iVBORw0KGgo="}}]}},{"functionResponse":{"name":"ls","response":{"error":"No result provided"}}}],"role":"user"}
        systemInstruction {"parts":[{"text":"Be brief."}],"role":"user"}
        generationConfig {"maxOutputTokens":8192,"thinkingConfig":{"thinkingLevel":"LOW"}}
    "#]],
    );
}

#[test]
fn content_of_other_models_is_converted() {
    let request = request(vec![
        user("go"),
        failed(StopReason::Error, vec![Block::text("half")]),
        foreign(vec![thought("Hm.", Some("theirs")), call("call_1|fc_é", "read", json!({}))]),
        answer(vec![thought(" ", None)]),
        user("go on"),
    ]);
    check(
        &request,
        expect![[r#"
        POST http://127.0.0.1:9/models/claude-test:streamGenerateContent?alt=sse
        x-goog-api-key: AIza-key
        contents
          {"parts":[{"text":"go"}],"role":"user"}
          {"parts":[{"text":"Hm."},{"functionCall":{"args":{},"name":"read"}}],"role":"model"}
          {"parts":[{"functionResponse":{"name":"read","response":{"error":"No result provided"}}}],"role":"user"}
          {"parts":[{"text":"go on"}],"role":"user"}
        systemInstruction {"parts":[{"text":"Be brief."}],"role":"user"}
        generationConfig {"maxOutputTokens":8192,"thinkingConfig":{"thinkingBudget":0}}
    "#]],
    );
}

#[test]
fn levels_of_thinking() {
    use ThinkingLevel::*;
    let mut printed = String::new();
    for (id, map, level) in [
        ("gemini-2.5-pro", json!(null), Off),
        ("gemini-2.5-pro", json!(null), Minimal),
        ("gemini-2.5-pro", json!(null), Xhigh),
        ("gemini-2.5-flash", json!(null), Off),
        ("gemini-2.5-flash", json!(null), Medium),
        ("gemini-2.5-flash-lite", json!(null), Off),
        ("gemini-2.5-flash-lite", json!(null), Minimal),
        ("google/gemini-3-flash", json!(null), Off),
        ("google/gemini-3-flash", json!(null), Minimal),
        ("gemini-3.1-pro", json!({"off": null, "high": "high"}), Off),
        ("gemini-3.1-pro", json!({"off": null, "high": "high"}), High),
        ("gemini-3.1-pro", json!({"off": null, "high": "high"}), Xhigh),
        ("gemini-flash-latest", json!(null), Medium),
        ("gemma-4-31b-it", json!({"minimal": "MINIMAL"}), Minimal),
        ("mock-1", json!(null), Off),
        ("mock-1", json!(null), High),
    ] {
        let mut request = with_model(request(vec![user("hi")]), |model| {
            model.id = id.into();
            model.thinking_level_map = serde_json::from_value(map).unwrap();
        });
        request.thinking = level;
        let body = body_of(post(&request, &RequestOptions::default()).unwrap());
        let config = &body["generationConfig"]["thinkingConfig"];
        printed += &format!("{id} {}: {config}\n", level.name());
    }
    expect![[r#"
        gemini-2.5-pro off: {"thinkingBudget":128}
        gemini-2.5-pro minimal: {"includeThoughts":true,"thinkingBudget":1024}
        gemini-2.5-pro xhigh: {"includeThoughts":true,"thinkingBudget":16384}
        gemini-2.5-flash off: {"thinkingBudget":0}
        gemini-2.5-flash medium: {"includeThoughts":true,"thinkingBudget":8192}
        gemini-2.5-flash-lite off: {"thinkingBudget":0}
        gemini-2.5-flash-lite minimal: {"includeThoughts":true,"thinkingBudget":1024}
        google/gemini-3-flash off: {"thinkingLevel":"LOW"}
        google/gemini-3-flash minimal: {"includeThoughts":true,"thinkingLevel":"MINIMAL"}
        gemini-3.1-pro off: null
        gemini-3.1-pro high: {"includeThoughts":true,"thinkingLevel":"HIGH"}
        gemini-3.1-pro xhigh: {"includeThoughts":true,"thinkingLevel":"HIGH"}
        gemini-flash-latest medium: {"includeThoughts":true,"thinkingLevel":"MEDIUM"}
        gemma-4-31b-it minimal: {"includeThoughts":true,"thinkingLevel":"MINIMAL"}
        mock-1 off: {"thinkingBudget":0}
        mock-1 high: {"includeThoughts":true,"thinkingBudget":-1}
    "#]]
    .assert_eq(&printed);
    let request = with_model(request(vec![user("hi")]), |model| model.reasoning = false);
    let HttpRequest { body, .. } = post(&request, &RequestOptions::default()).unwrap();
    assert!(!String::from_utf8(body).unwrap().contains("thinkingConfig"));
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
        body_of(post(&request, &RequestOptions::default()).unwrap()).get("toolConfig").cloned()
    };
    assert_eq!(
        choice(Some("read")),
        Some(json!({"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["read"]}}))
    );
    assert_eq!(choice(None), None);
}
