use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use expect_test::{Expect, expect};
use tiller_agent::message::{Block as Stored, Message, StopReason};
use tiller_agent::model::ThinkingLevel;
use tiller_agent::provider::ToolSpec as Spec;

use super::*;
use crate::Interceptor;
use crate::interceptor::{BoxFuture, HeaderEdit, RequestInterceptor};
use crate::request_options::{AwsKeys, Secret};
use crate::testing::*;

fn check(request: &Request, expect: Expect) {
    check_post(post(request, &RequestOptions::with_key("bedrock-key")).unwrap(), expect);
}

fn tool(name: &str, description: &str) -> Spec {
    Spec { name: name.into(), description: description.into(), parameters: json!({}) }
}

#[test]
fn first_request() {
    let mut request = request(vec![user("Hello")]);
    request.tools = vec![tool("read", "Does read."), tool("odd", "")].into();
    let request = with_model(request, |model| {
        model.id = "us.anthropic.claude-test-4-5-20250929-v1:0".into();
        model.base_url = "https://bedrock-runtime.us-east-1.amazonaws.com/".into();
        model.cost.cache_read = 0.3;
    });
    check(
        &request,
        expect![[r#"
        POST https://bedrock-runtime.us-east-1.amazonaws.com/model/us.anthropic.claude-test-4-5-20250929-v1%3A0/converse-stream
        accept: application/vnd.amazon.eventstream
        authorization: Bearer bedrock-key
        messages
          {"role":"user","content":[{"text":"Hello"},{"cachePoint":{"type":"default"}}]}
        system
          {"text":"Be brief."}
          {"cachePoint":{"type":"default"}}
        inferenceConfig {"maxTokens":8192}
        toolConfig {"tools":[{"toolSpec":{"name":"read","description":"Does read.","inputSchema":{"json":{"type":"object"}}}},{"toolSpec":{"name":"odd","description":"odd","inputSchema":{"json":{"type":"object"}}}},{"cachePoint":{"type":"default"}}]}
    "#]],
    );
    let arn = "arn:aws:bedrock:us-east-1:1:inference-profile/x";
    assert_eq!(escaped(arn), "arn%3Aaws%3Abedrock%3Aus-east-1%3A1%3Ainference-profile%2Fx");
}

#[test]
fn conversation_with_tools() {
    let mut refused = result("c", vec![Stored::text("no such file")]);
    let Message::ToolResult(inner) = &mut refused else { unreachable!() };
    inner.is_error = true;
    let request = request(vec![
        user("first"),
        Message::user("Look", vec![png(), Stored::image("AA==", "image/bmp")], 1),
        answer(vec![
            thought("First, look.", Some("sig")),
            hidden_thought("ZGFyaw=="),
            thought("Cut short.", None),
            Stored::text("Reading."),
            call("a", "read", json!({"path": "a", "limit": 3})),
            call("b|é", "read", json!({})),
            call("c", "read", json!({})),
        ]),
        result("a", vec![Stored::text("one"), png()]),
        result("b|é", vec![]),
        refused,
        user("go on"),
    ]);
    check(
        &request,
        expect![[r#"
        POST http://127.0.0.1:9/model/claude-test/converse-stream
        accept: application/vnd.amazon.eventstream
        authorization: Bearer bedrock-key
        messages
          {"role":"user","content":[{"text":"first"},{"text":"Look"},{"image":{"format":"png","source":{"bytes":"iVBORw0KGgo="}}},{"text":"(image omitted: image/bmp is not supported)"}]}
          {"role":"assistant","content":[{"reasoningContent":{"reasoningText":{"text":"First, look.","signature":"sig"}}},{"reasoningContent":{"redactedContent":"ZGFyaw=="}},{"text":"Cut short."},{"text":"Reading."},{"toolUse":{"toolUseId":"a","name":"read","input":{"path":"a","limit":3}}},{"toolUse":{"toolUseId":"b__","name":"read","input":{}}},{"toolUse":{"toolUseId":"c","name":"read","input":{}}}]}
          {"role":"user","content":[{"toolResult":{"toolUseId":"a","content":[{"text":"one"},{"image":{"format":"png","source":{"bytes":"iVBORw0KGgo="}}}],"status":"success"}},{"toolResult":{"toolUseId":"b__","content":[{"text":"(no output)"}],"status":"success"}},{"toolResult":{"toolUseId":"c","content":[{"text":"no such file"}],"status":"error"}},{"text":"go on"}]}
        system
          {"text":"Be brief."}
        inferenceConfig {"maxTokens":8192}
        toolConfig {"tools":[{"toolSpec":{"name":"read","description":"Not available any more.","inputSchema":{"json":{"type":"object","properties":{}}}}}]}
    "#]],
    );
}

#[test]
fn content_of_other_models_is_converted() {
    let request = request(vec![
        user("go"),
        failed(StopReason::Error, vec![Stored::text("half")]),
        foreign(vec![thought("Hm.", Some("theirs"))]),
        answer(vec![thought("unsigned", None), Stored::text("So.")]),
        user("go on"),
    ]);
    let request = with_model(request, |model| model.id = "amazon.nova-lite-v1:0".into());
    check(
        &request,
        expect![[r#"
        POST http://127.0.0.1:9/model/amazon.nova-lite-v1%3A0/converse-stream
        accept: application/vnd.amazon.eventstream
        authorization: Bearer bedrock-key
        messages
          {"role":"user","content":[{"text":"go"}]}
          {"role":"assistant","content":[{"text":"Hm."},{"text":"unsigned"},{"text":"So."}]}
          {"role":"user","content":[{"text":"go on"}]}
        system
          {"text":"Be brief."}
        inferenceConfig {"maxTokens":8192}
    "#]],
    );
}

#[test]
fn levels_of_thinking() {
    use ThinkingLevel::*;
    let mut printed = String::new();
    for (id, map, level) in [
        ("anthropic.claude-sonnet-4-5", json!(null), Off),
        ("anthropic.claude-sonnet-4-5", json!(null), Low),
        ("anthropic.claude-sonnet-4-5", json!(null), Xhigh),
        ("anthropic.claude-opus-4-7", json!(null), Minimal),
        ("anthropic.claude-opus-4-7", json!({"xhigh": "xhigh"}), Xhigh),
        ("amazon.nova-2-lite-v1:0", json!(null), High),
    ] {
        let mut request = with_model(request(vec![user("hi")]), |model| {
            model.id = id.into();
            model.thinking_level_map = serde_json::from_value(map).unwrap();
        });
        request.thinking = level;
        let body = body_of(post(&request, &RequestOptions::default()).unwrap());
        let fields = body.get("additionalModelRequestFields").unwrap_or(&Value::Null);
        printed += &format!("{id} {}: {fields}\n", level.name());
    }
    expect![[r#"
        anthropic.claude-sonnet-4-5 off: null
        anthropic.claude-sonnet-4-5 low: {"thinking":{"type":"enabled","budget_tokens":2048},"anthropic_beta":["interleaved-thinking-2025-05-14"]}
        anthropic.claude-sonnet-4-5 xhigh: {"thinking":{"type":"enabled","budget_tokens":7168},"anthropic_beta":["interleaved-thinking-2025-05-14"]}
        anthropic.claude-opus-4-7 minimal: {"thinking":{"type":"adaptive","display":"summarized"},"output_config":{"effort":"low"}}
        anthropic.claude-opus-4-7 xhigh: {"thinking":{"type":"adaptive","display":"summarized"},"output_config":{"effort":"xhigh"}}
        amazon.nova-2-lite-v1:0 high: null
    "#]].assert_eq(&printed);
}

#[test]
fn requests_are_signed_unless_there_is_a_key() {
    let mut access = RequestOptions {
        aws: Some(AwsKeys {
            access_key_id: "AKIDEXAMPLE".into(),
            secret_access_key: Secret::new("very-secret"),
            session_token: None,
            region: None,
        }),
        ..RequestOptions::default()
    };
    let request = request(vec![user("hi")]);
    let signed = |access: &RequestOptions| {
        let HttpRequest { headers, .. } = post(&request, access).unwrap();
        let mut found = headers.into_iter().filter(|(name, _)| *name == "authorization");
        found.next().map(|(_, value)| value.split(' ').next().unwrap().to_owned())
    };
    assert_eq!(signed(&access).as_deref(), Some("AWS4-HMAC-SHA256"));
    access.key = Some(Secret::new("bedrock-key"));
    assert_eq!(signed(&access).as_deref(), Some("Bearer"));
    assert_eq!(signed(&RequestOptions::default()), None);
}

#[test]
fn empty_conversation_is_refused() {
    let err = post(&request(Vec::new()), &RequestOptions::default()).unwrap_err();
    assert_eq!(err, ProviderError::fatal("there is nothing to send: the conversation is empty"));
}

/// An interceptor that replaces the body.
struct BodyReplacer;

const CHANGED: &[u8] = br#"{"changed":true}"#;

impl RequestInterceptor for BodyReplacer {
    fn body(&self, _body: &[u8]) -> BoxFuture<Option<Vec<u8>>> {
        Box::pin(std::future::ready(Some(CHANGED.to_vec())))
    }

    fn headers(&self, _headers: Vec<(String, String)>) -> BoxFuture<Option<Vec<HeaderEdit>>> {
        Box::pin(std::future::ready(None))
    }

    fn answered(&self, _status: u16, _headers: Vec<(String, String)>) {}
}

#[tokio::test]
async fn changed_body_is_signed_again() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        let (mut caller, _) = listener.accept().unwrap();
        let mut reader = BufReader::new(caller.try_clone().unwrap());
        let mut head = Vec::new();
        while head.last().is_none_or(|line: &String| line.len() > 2) {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            head.push(line);
        }
        let mut body = vec![0; CHANGED.len()];
        reader.read_exact(&mut body).unwrap();
        caller.write_all(b"HTTP/1.1 403 No\r\ncontent-length: 0\r\n\r\n").unwrap();
        (head, body)
    });
    let keys = AwsKeys {
        access_key_id: "AKIDEXAMPLE".into(),
        secret_access_key: Secret::new("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"),
        session_token: None,
        region: Some("eu-west-1".into()),
    };
    let request = with_model(request(vec![user("Hello")]), |model| {
        model.api = "bedrock-converse-stream".into();
        model.base_url = url.clone();
    });
    let access = RequestOptions {
        aws: Some(keys.clone()),
        interceptor: Some(Interceptor(Arc::new(BodyReplacer))),
        ..RequestOptions::default()
    };
    let begun = SystemTime::now();
    let mut events = crate::provider(&request.model, access).unwrap().stream(request);
    while futures_util::StreamExt::next(&mut events).await.is_some() {}
    let (head, body) = server.join().unwrap();
    assert_eq!(body, CHANGED);
    let path = head[0].split(' ').nth(1).unwrap();
    let sent: Vec<&str> = head
        .iter()
        .filter_map(|line| line.strip_prefix("authorization: "))
        .map(str::trim)
        .collect();
    // The signature contains the second at which it was made.
    let seconds = begun.elapsed().unwrap().as_secs() + 1;
    let made = (0..=seconds).map(|second| {
        let when = begun + Duration::from_secs(second);
        let signed = sign::headers(&format!("{url}{path}"), CHANGED, &keys, when).unwrap();
        signed.into_iter().find(|(name, _)| *name == "authorization").unwrap().1
    });
    let made: Vec<String> = made.collect();
    assert!(sent.len() == 1 && made.iter().any(|made| made == sent[0]), "{sent:?} {made:?}");
}
