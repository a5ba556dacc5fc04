use expect_test::{Expect, expect};

use super::*;
use crate::testing::recordings;

/// Decodes a recording whole and then byte by byte; both must print the same.
fn check(recording: &str, expect: Expect) {
    recordings::check(|| AnthropicDecoder::new("claude-test"), recording, expect);
}

fn decode(bytes: &[u8], chunk_bytes: usize) -> String {
    recordings::decode(AnthropicDecoder::new("claude-test"), bytes, chunk_bytes)
}

#[test]
fn text_and_usage() {
    check(
        "anthropic_text.sse",
        expect![[r#"
            response msg_01
            answered by claude-test-20250101
            usage 12 in, 1 out (None thinking), 4000 read, 300 written (100 for an hour), 4313 in all
            0 text
            0 + "Hello, "
            0 + "日本 😀 \"quoted\"\n"
            0 + "café 😀"
            0 end
            usage 12 in, 25 out (None thinking), 4000 read, 300 written (100 for an hour), 4337 in all
            done Stop Some("end_turn")
        "#]],
    );
}

#[test]
fn thinking_has_a_signature() {
    check(
        "anthropic_thinking.sse",
        expect![[r#"
            response msg_02
            usage 100 in, 1 out (None thinking), 0 read, 0 written (0 for an hour), 101 in all
            0 thinking
            0 + "Let me "
            0 + "consider."
            0 end, signed EqQBCkYI==
            1 thinking
            1 + "[Reasoning redacted]"
            1 end hidden, signed EmwKAhgB
            2 text
            2 + "42."
            2 end
            usage 100 in, 40 out (Some(30) thinking), 0 read, 0 written (0 for an hour), 140 in all
            done Stop Some("end_turn")
        "#]],
    );
}

#[test]
fn tool_arguments_are_streamed() {
    check(
        "anthropic_calls.sse",
        expect![[r#"
            response msg_03
            usage 100 in, 1 out (None thinking), 0 read, 0 written (0 for an hour), 101 in all
            0 text
            0 + "Let me look."
            0 end
            1 call read toolu_01
            1 + {"path":
            1 + "a.txt"}
            1 end
            2 call ls toolu_02
            2 end
            3 call bash toolu_03
            3 + {"command":"true","timeout":5}
            3 end
            usage 100 in, 9 out (None thinking), 0 read, 0 written (0 for an hour), 109 in all
            done ToolUse Some("tool_use")
        "#]],
    );
}

#[test]
fn unknown_events_are_ignored() {
    check(
        "anthropic_noise.sse",
        expect![[r#"
            response msg_04
            usage 5 in, 0 out (None thinking), 0 read, 0 written (0 for an hour), 5 in all
            0 text
            0 + "Started "
            0 + "on two lines"
            0 + ", half a smile �"
            usage 5 in, 0 out (None thinking), 0 read, 0 written (0 for an hour), 5 in all
            0 end
            done Stop None
        "#]],
    );
}

#[test]
fn error_event_ends_the_stream() {
    check(
        "anthropic_error.sse",
        expect![[r#"
            response msg_05
            usage 100 in, 1 out (None thinking), 0 read, 0 written (0 for an hour), 101 in all
            0 text
            0 + "half "
            Retry { message: "{\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}", after: None }
        "#]],
    );
}

#[test]
fn garbled_event_is_retried() {
    check(
        "anthropic_malformed.sse",
        expect![[r#"
            response msg_05
            usage 100 in, 1 out (None thinking), 0 read, 0 written (0 for an hour), 101 in all
            0 text
            0 + "half "
            Retry { message: "Could not parse Anthropic SSE event content_block_delta: Unterminated string in JSON at position 65 (line 1 column 66); data={\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_del; raw=event: content_block_delta\\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_del", after: None }
        "#]],
    );
}

#[test]
fn stream_without_an_end_is_cut_off() {
    check(
        "anthropic_cut_off.sse",
        expect![[r#"
            response msg_05
            usage 100 in, 1 out (None thinking), 0 read, 0 written (0 for an hour), 101 in all
            0 text
            0 + "half "
            Retry { message: "Anthropic stream ended before message_stop", after: None }
        "#]],
    );
}

#[test]
fn refusal_is_an_error_with_usage() {
    check(
        "anthropic_refusal.sse",
        expect![[r#"
            response msg_05
            usage 100 in, 1 out (None thinking), 0 read, 0 written (0 for an hour), 101 in all
            0 text
            0 + "half "
            0 end
            usage 100 in, 20 out (None thinking), 0 read, 0 written (0 for an hour), 120 in all
            raw stop refusal
            Fatal { message: "The model refused to complete the request" }
        "#]],
    );
}

#[test]
fn stop_reasons_are_mapped() {
    let mut printed = String::new();
    for reason in [
        "end_turn",
        "pause_turn",
        "stop_sequence",
        "max_tokens",
        "tool_use",
        "sensitive",
        "model_context_window_exceeded",
        "boredom",
    ] {
        let stream = format!(
            "data: {{\"type\":\"message_delta\",\"delta\":{{\"stop_reason\":\"{reason}\"}}}}\n\n\
             data: {{\"type\":\"message_stop\"}}\n\n"
        );
        printed += decode(stream.as_bytes(), stream.len()).lines().last().unwrap();
        printed += "\n";
    }
    expect![[r#"
        done Stop Some("end_turn")
        done Stop Some("pause_turn")
        done Stop Some("stop_sequence")
        done Length Some("max_tokens")
        done ToolUse Some("tool_use")
        Fatal { message: "Provider stopped with: sensitive" }
        Overflow { message: "the answer filled the model's window (model_context_window_exceeded)" }
        Fatal { message: "Unhandled stop reason: boredom" }
    "#]]
    .assert_eq(&printed);
}

#[test]
fn long_garbage_is_shortened_in_the_error() {
    let stream = format!("data: {{\"é\":\"{}\n\n", "é".repeat(1 << 20));
    let printed = decode(stream.as_bytes(), stream.len());
    assert!(printed.len() < 20_000, "{} bytes", printed.len());
}
