use expect_test::{Expect, expect};
use serde_json::json;

use super::*;
use crate::testing::recordings;

fn check(recording: &str, expect: Expect) {
    recordings::check(|| CompletionsDecoder::new("gpt-test", true), recording, expect);
}

fn decode(stream: &str) -> String {
    recordings::decode(CompletionsDecoder::new("gpt-test", true), stream.as_bytes(), stream.len())
}

/// The events of chunks, one JSON text per line, without the end of the stream.
fn decode_chunks(chunks: &str) -> String {
    let lines = chunks.lines().map(str::trim).filter(|line| !line.is_empty());
    decode(&lines.map(|line| format!("data: {line}\n\n")).collect::<String>())
}

#[test]
fn text_and_usage() {
    check(
        "openai_text.sse",
        expect![[r#"
        response chatcmpl-01
        answered by gpt-test-2025-01-01
        0 text
        0 + "Hello, "
        0 + "日本 😀 \"quoted\"\n"
        0 + "café"
        usage 312 in, 25 out (Some(0) thinking), 4000 read, 0 written, 4337 in all
        0 end
        done Stop Some("stop")
    "#]],
    );
}

#[test]
fn thinking_keeps_its_field_name() {
    check(
        "openai_thinking.sse",
        expect![[r#"
        response chatcmpl-02
        0 thinking
        0 + "Let me "
        0 + "consider."
        1 text
        1 + "42"
        0 + " Yes."
        1 + "."
        usage 100 in, 40 out (Some(30) thinking), 0 read, 0 written, 140 in all
        0 end, signed reasoning_content
        1 end
        done Stop Some("stop")
    "#]],
    );
}

#[test]
fn all_blocks_end_with_the_stream() {
    check(
        "openai_calls.sse",
        expect![[r#"
        response chatcmpl-03
        0 text
        0 + "Let me look."
        1 call read call_1
        1 + 
        1 + {"path":
        2 call ls call_2
        2 + {}
        1 + "a.txt"}
        0 + " Wait."
        usage 100 in, 9 out (Some(0) thinking), 0 read, 0 written, 109 in all
        0 end
        1 end
        2 end
        done ToolUse Some("tool_calls")
    "#]],
    );
}

#[test]
fn irregular_call_deltas_are_assembled() {
    check(
        "openai_odd_calls.sse",
        expect![[r#"
        response gen-04
        0 call late call_late
        0 + {"n":1}
        1 call second call_same_index
        1 + {"n":2}
        2 call third call_new_ids
        2 + {"n":
        2 + 3}
        3 call fourth call_no_index
        3 + {"n":4}
        4 call fifth gen-04_4
        4 + {"n":5}
        0 end, signed {"type":"reasoning.encrypted","id":"call_late","data":"c2VjcmV0","format":"google-gemini-v1"}
        1 end
        2 end
        3 end
        4 end
        done ToolUse Some("stop")
    "#]],
    );
}

#[test]
fn unknown_events_are_ignored() {
    check(
        "openai_noise.sse",
        expect![[r#"
        response chatcmpl-05
        0 thinking
        0 + "Hm."
        1 text
        1 + "Parts, "
        usage 5 in, 1 out (Some(0) thinking), 0 read, 0 written, 6 in all
        answered by another
        1 + "half a smile �"
        1 + ", and no."
        usage 30 in, 4 out (Some(0) thinking), 20 read, 0 written, 54 in all
        0 end
        1 end
        done Stop Some("stop")
    "#]],
    );
}

#[test]
fn error_event_ends_the_stream() {
    check(
        "openai_error.sse",
        expect![[r#"
        response chatcmpl-06
        0 text
        0 + "half "
        Retry { message: "Overloaded", after: None }
    "#]],
    );
}

#[test]
fn garbled_event_is_retried() {
    check(
        "openai_malformed.sse",
        expect![[r#"
        response chatcmpl-06
        0 text
        0 + "half "
        Retry { message: "Unterminated string in JSON at position 47 (line 1 column 48)", after: None }
    "#]],
    );
}

#[test]
fn stream_without_an_end_is_cut_off() {
    check(
        "openai_cut_off.sse",
        expect![[r#"
        response chatcmpl-06
        0 text
        0 + "half "
        0 end
        Retry { message: "Stream ended without finish_reason", after: None }
    "#]],
    );
}

#[test]
fn refusal_is_an_error_with_usage() {
    check(
        "openai_refusal.sse",
        expect![[r#"
            response chatcmpl-06
            0 text
            0 + "half "
            usage 100 in, 20 out (Some(0) thinking), 0 read, 0 written, 120 in all
            0 end
            raw stop content_filter
            Fatal { message: "Provider finish_reason: content_filter" }
        "#]],
    );
}

#[test]
fn stop_reasons_are_mapped() {
    let mut printed = String::new();
    for reason in [
        "stop",
        "end",
        "eos",
        "length",
        "max_tokens",
        "model_length",
        "tool_calls",
        "content_filter",
        "network_error",
        "insufficient_system_resource",
        "model_context_window_exceeded",
        "boredom",
    ] {
        let chunk = json!({"choices": [{"delta": {}, "finish_reason": reason}]});
        printed += decode_chunks(&chunk.to_string()).lines().last().unwrap();
        printed += "\n";
    }
    expect![[r#"
        done Stop Some("stop")
        done Stop Some("end")
        done Stop Some("eos")
        done Length Some("length")
        done Length Some("max_tokens")
        done Length Some("model_length")
        done Stop Some("tool_calls")
        Fatal { message: "Provider finish_reason: content_filter" }
        Retry { message: "Provider finish_reason: network_error", after: None }
        Retry { message: "Provider finish_reason: insufficient_system_resource", after: None }
        Overflow { message: "Provider finish_reason: model_context_window_exceeded" }
        Fatal { message: "Provider finish_reason: boredom" }
    "#]]
    .assert_eq(&printed);
}

#[test]
fn stop_after_a_call_means_tool_use() {
    let call = r#"{"index":0,"id":"c","function":{"name":"ls","arguments":"{}"}}"#;
    let mut printed = String::new();
    for reason in ["stop", "tool_calls", "function_call", "length"] {
        let chunk = format!(
            r#"{{"choices":[{{"delta":{{"tool_calls":[{call}]}},"finish_reason":"{reason}"}}]}}"#
        );
        printed += decode_chunks(&chunk).lines().last().unwrap();
        printed += "\n";
    }
    expect![[r#"
        done ToolUse Some("stop")
        done ToolUse Some("tool_calls")
        done ToolUse Some("function_call")
        done Length Some("length")
    "#]]
    .assert_eq(&printed);
}

#[test]
fn missing_finish_reason_is_accepted_where_configured() {
    let chunk = r#"{"choices":[{"delta":{"content":"so"}}]}"#;
    let stream = format!("data: {chunk}\n\ndata: [DONE]\n\n");
    let decoder = CompletionsDecoder::new("gpt-test", false);
    expect![[r#"
        0 text
        0 + "so"
        0 end
        done Stop None
    "#]]
    .assert_eq(&recordings::decode(decoder, stream.as_bytes(), stream.len()));
}

#[test]
fn call_without_a_name_is_an_error() {
    expect![[r#"
        0 text
        0 + "so"
        0 end
        Retry { message: "the server sent a tool call without a name", after: None }
    "#]]
    .assert_eq(&decode_chunks(
        r#"
        {"choices":[{"delta":{"content":"so"}}]}
        {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c","function":{"arguments":"{}"}}]},"finish_reason":"tool_calls"}]}
        "#,
    ));
}

#[test]
fn usage_variants_of_servers_are_read() {
    let mut printed = String::new();
    for usage in [
        json!({"prompt_tokens": 80, "completion_tokens": 20, "total_tokens": 100, "prompt_tokens_details": {"cached_tokens": 30}}),
        // xAI: thinking tokens separate from the answer.
        json!({"prompt_tokens": 80, "completion_tokens": 20, "total_tokens": 105, "completion_tokens_details": {"reasoning_tokens": 5}}),
        // OpenAI: thinking tokens included in the answer.
        json!({"prompt_tokens": 80, "completion_tokens": 20, "total_tokens": 100, "completion_tokens_details": {"reasoning_tokens": 5}}),
        // DeepSeek.
        json!({"prompt_tokens": 80, "completion_tokens": 20, "total_tokens": 100, "prompt_cache_hit_tokens": 64, "prompt_cache_miss_tokens": 16}),
        // OpenRouter.
        json!({"prompt_tokens": 80, "completion_tokens": 20, "total_tokens": 100, "prompt_tokens_details": {"cached_tokens": 30, "cache_write_tokens": 40}, "cost": 0.1}),
        json!({"prompt_tokens": 8, "prompt_tokens_details": {"cached_tokens": 30}, "completion_tokens_details": null}),
        json!({"prompt_tokens": u64::MAX, "completion_tokens": u64::MAX, "total_tokens": 1}),
        json!({}),
    ] {
        let chunk = json!({"choices": [], "usage": usage});
        printed += decode_chunks(&chunk.to_string()).lines().next().unwrap();
        printed += "\n";
    }
    expect![[r#"
        usage 50 in, 20 out (Some(0) thinking), 30 read, 0 written, 100 in all
        usage 80 in, 25 out (Some(5) thinking), 0 read, 0 written, 105 in all
        usage 80 in, 20 out (Some(5) thinking), 0 read, 0 written, 100 in all
        usage 16 in, 20 out (Some(0) thinking), 64 read, 0 written, 100 in all
        usage 10 in, 20 out (Some(0) thinking), 30 read, 40 written, 100 in all
        usage 0 in, 0 out (Some(0) thinking), 30 read, 0 written, 30 in all
        usage 18446744073709551615 in, 18446744073709551615 out (Some(0) thinking), 0 read, 0 written, 18446744073709551615 in all
        usage 0 in, 0 out (Some(0) thinking), 0 read, 0 written, 0 in all
    "#]]
    .assert_eq(&printed);
}

#[test]
fn error_objects_in_the_stream_are_errors() {
    let mut printed = String::new();
    for error in [
        r#"{"error":{"message":"slow down","type":"rate_limit_error"}}"#,
        r#"{"error":{"code":502,"message":"Provider returned error","metadata":{"raw":"upstream: overloaded","provider_name":"X"}},"choices":[{"delta":{"content":""},"finish_reason":"error"}]}"#,
        r#"{"error":{"code":401,"message":"User not found."}}"#,
        r#"{"error":{"message":"This model's maximum context length is 8192 tokens","code":"context_length_exceeded"}}"#,
        r#"{"error":"no such model"}"#,
        r#"{"object":"error","message":"max_tokens is too large","code":400}"#,
        r#"{"object":"error","message":"later","code":"429"}"#,
        r#"{"error":{"weird":1}}"#,
        r#"{"error":""}"#,
        r#"{"error":{}}"#,
    ] {
        printed += decode_chunks(error).lines().last().unwrap();
        printed += "\n";
    }
    expect![[r#"
        Retry { message: "slow down", after: None }
        Retry { message: "Provider returned error\nupstream: overloaded", after: None }
        Auth { message: "User not found." }
        Overflow { message: "This model's maximum context length is 8192 tokens" }
        Fatal { message: "no such model" }
        Fatal { message: "max_tokens is too large" }
        Retry { message: "later", after: None }
        Fatal { message: "{\"error\":{\"weird\":1}}" }
        Retry { message: "Stream ended without finish_reason", after: None }
        Retry { message: "Stream ended without finish_reason", after: None }
    "#]]
    .assert_eq(&printed);
}

#[test]
fn error_responses_are_shown() {
    let mut printed = String::new();
    for (status, body) in [
        (429, r#"{"error":{"message":"Rate limit exceeded, slow down","type":"x","code":"y"}}"#),
        (404, r#"{"error":{"message":"model not found","param":null}}"#),
        (502, r#"{"error":{"message":"Provider returned error","metadata":{"raw":"busy"}}}"#),
        (400, r#"{"error":"invalid model"}"#),
        (404, r#"{"detail":"Not Found"}"#),
        (422, r#"{"object":"error","message":"bad role"}"#),
        (
            400,
            r#"[{"error":{"code":400,"message":"API key not valid.","status":"INVALID_ARGUMENT"}}]"#,
        ),
        (400, r#"{"detail":[{"loc":["body"],"msg":"field required"}]}"#),
        (400, r#"{"error":{"message":""}}"#),
        (503, "no healthy upstream\n"),
        (502, "<html>Bad Gateway</html>"),
        (500, "[]"),
    ] {
        printed += &format!("{:?}\n", Completions::error_text(status, body));
    }
    expect![[r#"
        "429 Rate limit exceeded, slow down"
        "404 model not found"
        "502 Provider returned error\nbusy"
        "400 invalid model"
        "404 Not Found"
        "422 bad role"
        "400 API key not valid."
        "400 {\"detail\":[{\"loc\":[\"body\"],\"msg\":\"field required\"}]}"
        "400 {\"error\":{\"message\":\"\"}}"
        "503 no healthy upstream"
        "502 <html>Bad Gateway</html>"
        "500 []"
    "#]]
    .assert_eq(&printed);
}

#[test]
fn arbitrary_chunks_do_not_panic() {
    for chunk in [
        "null",
        "7",
        "[]",
        "\"text\"",
        "{",
        "}",
        "{\"choices\":7}",
        "{\"choices\":[7]}",
        "{\"choices\":[{}]}",
        "{\"choices\":[{\"delta\":{\"content\":7}}]}",
        "{\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":-1}]}}]}",
        "{\"choices\":[{\"delta\":{\"reasoning_details\":[7,null,{\"type\":7}]}}]}",
    ] {
        assert_ne!(decode_chunks(chunk), "", "{chunk}");
    }
}

#[test]
fn many_calls_take_linear_time() {
    let calls = 20_000;
    let chunks = (0..calls).map(|n| {
        let call = json!({"index": n, "id": format!("c{n}"), "function": {"name": "ls", "arguments": "{}"}});
        format!("data: {}\n\n", json!({"choices": [{"delta": {"tool_calls": [call]}}]}))
    });
    let printed = decode(&chunks.collect::<String>());
    assert_eq!(printed.lines().filter(|line| line.contains(" call ls ")).count(), calls);
}
