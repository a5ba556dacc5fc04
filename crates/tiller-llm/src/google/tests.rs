use expect_test::{Expect, expect};

use super::*;
use crate::testing::recordings;

fn check(recording: &str, expect: Expect) {
    recordings::check(|| GoogleDecoder::new("gemini-test", 3), recording, expect);
}

fn decode(stream: &str) -> String {
    recordings::decode(GoogleDecoder::new("gemini-test", 3), stream.as_bytes(), stream.len())
}

#[test]
fn text_and_usage() {
    check(
        "google_text.sse",
        expect![[r#"
        response r1
        answered by gemini-test-001
        0 text
        0 + "Hello, "
        usage 12 in, 1 out (Some(0) thinking), 4000 read, 0 written, 4013 in all
        0 + "日本 😀 \"quoted\"\n"
        usage 12 in, 8 out (Some(0) thinking), 4000 read, 0 written, 4020 in all
        0 + "café"
        usage 12 in, 25 out (Some(0) thinking), 4000 read, 0 written, 4037 in all
        0 end
        done Stop Some("STOP")
    "#]],
    );
}

#[test]
fn signatures_are_attached_to_their_parts() {
    check(
        "google_thinking.sse",
        expect![[r#"
        response r2
        0 thinking
        0 + "Let me "
        usage 100 in, 10 out (Some(10) thinking), 0 read, 0 written, 110 in all
        0 + "consider."
        usage 100 in, 30 out (Some(30) thinking), 0 read, 0 written, 130 in all
        0 end, signed c2lnMQ==
        1 text
        1 + "42"
        1 + "."
        usage 100 in, 40 out (Some(30) thinking), 0 read, 0 written, 140 in all
        1 end, signed c2lnMg==
        done Stop Some("STOP")
    "#]],
    );
}

#[test]
fn calls_without_ids_get_generated_ones() {
    check(
        "google_calls.sse",
        expect![[r#"
        response r3
        0 text
        0 + "Let me look."
        0 end
        1 call read read_r3_1
        1 + {"path":"a.txt"}
        1 end, signed c2lnMw==
        2 call ls ls_r3_2
        2 + {}
        2 end
        3 call ls given
        3 + {}
        3 end
        4 call ls ls_r3_4
        4 + {}
        4 end
        5 text
        5 + "So."
        usage 100 in, 9 out (Some(0) thinking), 0 read, 0 written, 109 in all
        5 end
        done ToolUse Some("STOP")
    "#]],
    );
}

#[test]
fn unknown_events_are_ignored() {
    check(
        "google_noise.sse",
        expect![[r#"
            usage 5 in, 0 out (Some(0) thinking), 0 read, 0 written, 5 in all
            0 text
            0 + "On "
            0 + "two lines, "
            usage 5 in, 0 out (Some(0) thinking), 0 read, 0 written, 5 in all
            0 + "half a smile �"
            0 end
            1 call ls ls_3_1
            1 + {}
            1 end
            done ToolUse Some("STOP")
        "#]],
    );
}

#[test]
fn response_model_may_come_late() {
    let stream = r#"data: {"promptFeedback":{}}

data: {"candidates":[{"content":{"parts":[{"text":"Hi"}]}}],"responseId":"r9","modelVersion":"gemini-other"}

data: {"candidates":[{"finishReason":"STOP"}],"responseId":"r9","modelVersion":"gemini-other"}

"#;
    expect![[r#"
        response r9
        answered by gemini-other
        0 text
        0 + "Hi"
        0 end
        done Stop Some("STOP")
    "#]]
    .assert_eq(&decode(stream));
}

#[test]
fn error_event_ends_the_stream() {
    check(
        "google_error.sse",
        expect![[r#"
            response r5
            0 text
            0 + "half "
            usage 100 in, 1 out (Some(0) thinking), 0 read, 0 written, 101 in all
            0 end
            Retry { message: "{\"error\":{\"code\":503,\"message\":\"Overloaded\",\"status\":\"UNAVAILABLE\"}}", after: None }
        "#]],
    );
}

#[test]
fn garbled_event_is_retried() {
    check(
        "google_malformed.sse",
        expect![[r#"
        response r5
        0 text
        0 + "half "
        usage 100 in, 1 out (Some(0) thinking), 0 read, 0 written, 101 in all
        Retry { message: "Unterminated string in JSON at position 40 (line 1 column 41)", after: None }
    "#]],
    );
}

#[test]
fn stream_without_an_end_is_cut_off() {
    check(
        "google_cut_off.sse",
        expect![[r#"
            response r5
            0 text
            0 + "half "
            usage 100 in, 1 out (Some(0) thinking), 0 read, 0 written, 101 in all
            0 end
            Retry { message: "Stream ended without finish_reason", after: None }
        "#]],
    );
}

#[test]
fn refusal_is_an_error_with_usage() {
    check(
        "google_refusal.sse",
        expect![[r#"
            response r5
            0 text
            0 + "half "
            usage 100 in, 1 out (Some(0) thinking), 0 read, 0 written, 101 in all
            usage 100 in, 20 out (Some(0) thinking), 0 read, 0 written, 120 in all
            0 end
            raw stop SAFETY
            Fatal { message: "Provider stopped with: SAFETY: not this" }
        "#]],
    );
}

#[test]
fn blocked_prompt_is_an_error() {
    check(
        "google_blocked.sse",
        expect![[r#"
            response r6
            usage 100 in, 0 out (Some(0) thinking), 0 read, 0 written, 100 in all
            Fatal { message: "The provider refused the prompt: PROHIBITED_CONTENT" }
        "#]],
    );
}

#[test]
fn stop_reasons_are_mapped() {
    let mut printed = String::new();
    for reason in
        ["STOP", "MAX_TOKENS", "SAFETY", "RECITATION", "MALFORMED_FUNCTION_CALL", "BOREDOM"]
    {
        let stream = format!("data: {{\"candidates\":[{{\"finishReason\":\"{reason}\"}}]}}\n\n");
        printed += &decode(&stream);
    }
    expect![[r#"
        done Stop Some("STOP")
        done Length Some("MAX_TOKENS")
        raw stop SAFETY
        Fatal { message: "Provider stopped with: SAFETY" }
        raw stop RECITATION
        Fatal { message: "Provider stopped with: RECITATION" }
        raw stop MALFORMED_FUNCTION_CALL
        Retry { message: "Provider stopped with: MALFORMED_FUNCTION_CALL", after: None }
        raw stop BOREDOM
        Fatal { message: "Provider stopped with: BOREDOM" }
    "#]]
    .assert_eq(&printed);
}

#[test]
fn errors_are_classified() {
    let mut printed = String::new();
    for error in [
        r#"{"code":429,"message":"Resource has been exhausted","status":"RESOURCE_EXHAUSTED"}"#,
        r#"{"code":400,"message":"The input token count (9) exceeds the maximum number of tokens allowed (8).","status":"INVALID_ARGUMENT"}"#,
        r#"{"code":403,"message":"no","status":"PERMISSION_DENIED"}"#,
        r#"{"message":"no"}"#,
    ] {
        printed += &decode(&format!("data: {{\"error\":{error}}}\n\n"));
    }
    expect![[r#"
        Retry { message: "{\"error\":{\"code\":429,\"message\":\"Resource has been exhausted\",\"status\":\"RESOURCE_EXHAUSTED\"}}", after: None }
        Overflow { message: "{\"error\":{\"code\":400,\"message\":\"The input token count (9) exceeds the maximum number of tokens allowed (8).\",\"status\":\"INVALID_ARGUMENT\"}}" }
        Auth { message: "{\"error\":{\"code\":403,\"message\":\"no\",\"status\":\"PERMISSION_DENIED\"}}" }
        Fatal { message: "{\"error\":{\"message\":\"no\"}}" }
    "#]].assert_eq(&printed);
}

#[test]
fn error_responses_are_shown() {
    let body = "{\n  \"error\": {\n    \"code\": 503,\n    \"status\": \"UNAVAILABLE\"\n  }\n}";
    expect![[r#"{"error":{"code":503,"status":"UNAVAILABLE"}}"#]]
        .assert_eq(&GenerateContent::error_text(503, body));
    assert_eq!(GenerateContent::error_text(502, "<html>"), "<html>");
}
