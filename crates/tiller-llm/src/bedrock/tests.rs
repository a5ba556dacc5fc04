use expect_test::{Expect, expect};

use super::framing::{frame, framed};
use super::*;
use crate::testing::recordings;

/// Recordings are stored as text and framed here.
fn check(recording: &str, expect: Expect) {
    let text = String::from_utf8(recordings::bytes_of(recording)).unwrap();
    recordings::check_bytes(BedrockDecoder::default, &framed(&text), expect);
}

fn decode(bytes: &[u8]) -> String {
    recordings::decode(BedrockDecoder::default(), bytes, bytes.len())
}

#[test]
fn text_and_usage() {
    check(
        "bedrock_text.sse",
        expect![[r#"
        0 text
        0 + "Hello, "
        0 + "日本 😀 \"quoted\"\n"
        0 + "café"
        0 end
        usage 12 in, 25 out (None thinking), 4000 read, 300 written, 4337 in all
        done Stop Some("end_turn")
    "#]],
    );
}

#[test]
fn thinking_has_a_signature() {
    check(
        "bedrock_thinking.sse",
        expect![[r#"
        0 thinking
        0 + "Let me "
        0 + "consider."
        0 end, signed EqQBCkYI==
        1 thinking
        1 end hidden, signed ZGFyaw==
        2 text
        2 + "42."
        2 end
        usage 100 in, 40 out (None thinking), 0 read, 0 written, 140 in all
        done Stop Some("end_turn")
    "#]],
    );
}

#[test]
fn tool_arguments_are_streamed() {
    check(
        "bedrock_calls.sse",
        expect![[r#"
        0 text
        0 + "Let me look."
        0 end
        1 call read tooluse_1
        1 + {"path":
        1 + "a.txt"}
        1 end
        2 call ls tooluse_2
        2 end
        usage 100 in, 9 out (None thinking), 0 read, 0 written, 109 in all
        done ToolUse Some("tool_use")
    "#]],
    );
}

#[test]
fn unknown_events_are_ignored() {
    check(
        "bedrock_noise.sse",
        expect![[r#"
        0 text
        0 + "Left "
        0 + "open"
        usage 5 in, 1 out (None thinking), 0 read, 0 written, 6 in all
        0 end
        done Stop Some("end_turn")
    "#]],
    );
}

#[test]
fn error_event_ends_the_stream() {
    check(
        "bedrock_error.sse",
        expect![[r#"
        0 text
        0 + "half "
        Retry { message: "throttlingException: Too many tokens, please wait before trying again.", after: None }
    "#]],
    );
}

#[test]
fn stream_without_an_end_is_cut_off() {
    check(
        "bedrock_cut_off.sse",
        expect![[r#"
        0 text
        0 + "half "
        Retry { message: "Bedrock stream ended before messageStop", after: None }
    "#]],
    );
}

#[test]
fn stop_reasons_are_mapped() {
    let mut printed = String::new();
    for reason in [
        "end_turn",
        "stop_sequence",
        "tool_use",
        "max_tokens",
        "guardrail_intervened",
        "content_filtered",
        "model_context_window_exceeded",
        "malformed_tool_use",
        "boredom",
    ] {
        let stop = format!(r#"{{"stopReason":"{reason}"}}"#);
        printed += &decode(&frame("event", &[(":event-type", "messageStop")], &stop));
    }
    expect![[r#"
        done Stop Some("end_turn")
        done Stop Some("stop_sequence")
        done ToolUse Some("tool_use")
        done Length Some("max_tokens")
        raw stop guardrail_intervened
        Fatal { message: "The model refused to complete the request" }
        raw stop content_filtered
        Fatal { message: "The model refused to complete the request" }
        raw stop model_context_window_exceeded
        Overflow { message: "the answer filled the model's window (model_context_window_exceeded)" }
        raw stop malformed_tool_use
        Retry { message: "Unhandled stop reason: malformed_tool_use", after: None }
        raw stop boredom
        Fatal { message: "Unhandled stop reason: boredom" }
    "#]]
    .assert_eq(&printed);
}

#[test]
fn exceptions_are_classified() {
    let mut printed = String::new();
    for (name, payload) in [
        ("throttlingException", r#"{"message":"Too many requests, please wait"}"#),
        ("modelStreamErrorException", r#"{"message":"The system encountered an error"}"#),
        ("serviceUnavailableException", "{}"),
        ("validationException", r#"{"message":"Input is too long for requested model."}"#),
        ("validationException", r#"{"message":"The content is empty"}"#),
        ("accessDeniedException", r#"{"message":"You may not"}"#),
        ("newException", r#"{"message":"Something new"}"#),
    ] {
        printed += &decode(&frame("exception", &[(":exception-type", name)], payload));
    }
    let headers = [(":error-code", "InternalError"), (":error-message", "An internal error")];
    printed += &decode(&frame("error", &headers, ""));
    expect![[r#"
        Retry { message: "throttlingException: Too many requests, please wait", after: None }
        Retry { message: "modelStreamErrorException: The system encountered an error", after: None }
        Retry { message: "serviceUnavailableException: {}", after: None }
        Overflow { message: "validationException: Input is too long for requested model." }
        Fatal { message: "validationException: The content is empty" }
        Auth { message: "accessDeniedException: You may not" }
        Fatal { message: "newException: Something new" }
        Retry { message: "InternalError: An internal error", after: None }
    "#]]
    .assert_eq(&printed);
}

#[test]
fn invalid_frames_are_errors() {
    let whole = frame("event", &[(":event-type", "messageStart")], "{}");
    let mut garbled = whole.clone();
    garbled[20] ^= 1;
    let mut huge = whole.clone();
    huge[0] = 0x7F;
    let mut printed = decode(&garbled);
    printed += &decode(&huge);
    printed += &decode(b"HTTP/1.1 200 OK\r\n\r\nthis is not an event stream at all");
    expect![[r#"
        Retry { message: "cannot read what the server sent: message checksum 0x8B93FD5B didn't match expected checksum 0x5D14C65", after: None }
        Retry { message: "Bedrock stream ended before messageStop", after: None }
        Retry { message: "Bedrock stream ended before messageStop", after: None }
    "#]].assert_eq(&printed);
}

#[test]
fn error_responses_are_shown() {
    let mut printed = String::new();
    for body in [r#"{"message":"no such model"}"#, r#"{"Message":"denied"}"#, "<html>"] {
        printed += &format!("{}\n", ConverseStream::error_text(400, body));
    }
    expect![[r#"
        400 no such model
        400 denied
        400 <html>
    "#]]
    .assert_eq(&printed);
}
