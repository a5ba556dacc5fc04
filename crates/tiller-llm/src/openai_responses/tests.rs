use expect_test::{Expect, expect};

use super::*;
use crate::testing::recordings;

fn check(recording: &str, expect: Expect) {
    recordings::check(|| ResponsesDecoder::new("gpt-test"), recording, expect);
}

fn decode(stream: &str) -> String {
    recordings::decode(ResponsesDecoder::new("gpt-test"), stream.as_bytes(), stream.len())
}

#[test]
fn text_and_usage() {
    check(
        "responses_text.sse",
        expect![[r#"
        response resp_01
        answered by gpt-test-2026-01-01
        0 text
        0 + "Hello, "
        0 + "日本 😀 \"quoted\"\n"
        0 + "café"
        0 end, signed {"v":1,"id":"msg_01"}
        usage 12 in, 25 out (Some(0) thinking), 4000 read, 0 written, 4037 in all
        done Stop Some("completed")
    "#]],
    );
}

#[test]
fn reasoning_item_is_stored_verbatim() {
    check(
        "responses_reasoning.sse",
        expect![[r#"
        response resp_02
        0 thinking
        0 + "**Looking**"
        0 + " around"
        0 + "\n\n"
        0 + "Then the sum."
        0 end, signed {"id":"rs_02","type":"reasoning","summary":[{"type":"summary_text","text":"**Looking** around"},{"type":"summary_text","text":"Then the sum."}],"encrypted_content":"gAAAAA-sealed=="}
        1 thinking
        1 end, signed {"id":"rs_02b","type":"reasoning","summary":[],"encrypted_content":"gAAAAB-sealed=="}
        2 text
        2 + "42."
        2 end, signed {"v":1,"id":"msg_02","phase":"final_answer"}
        usage 100 in, 40 out (Some(30) thinking), 0 read, 0 written, 140 in all
        done Stop Some("completed")
    "#]],
    );
}

#[test]
fn call_id_and_item_id_are_stored() {
    check(
        "responses_calls.sse",
        expect![[r#"
        response resp_03
        0 text
        0 + "Let me look."
        0 end, signed {"v":1,"id":"msg_03","phase":"commentary"}
        1 call read call_1|fc_1
        1 + {"path":
        2 call ls call_2|fc_2
        1 + "a.txt"}
        1 end
        2 + {}
        2 end
        3 call bash call_3
        3 + {"command":"true","timeout":5}
        3 end
        usage 100 in, 9 out (Some(0) thinking), 0 read, 0 written, 109 in all
        done ToolUse Some("completed")
    "#]],
    );
}

#[test]
fn unknown_events_are_ignored() {
    check(
        "responses_noise.sse",
        expect![[r#"
        response resp_04
        0 thinking
        0 + "Plainly thought."
        1 text
        1 + "I would rather not"
        1 + ", half a smile �"
        0 end
        1 end
        done Stop Some("completed")
    "#]],
    );
}

#[test]
fn error_event_ends_the_stream() {
    check(
        "responses_error.sse",
        expect![[r#"
            response resp_05
            0 text
            0 + "half "
            Retry { message: "Error Code server_error: Overloaded", after: None }
        "#]],
    );
}

#[test]
fn failed_response_is_an_error() {
    check(
        "responses_failed.sse",
        expect![[r#"
            response resp_05
            0 text
            0 + "half "
            raw stop failed
            Retry { message: "rate_limit_exceeded: Rate limit reached for gpt-test. Please try again in 1s.", after: Some(1s) }
        "#]],
    );
}

#[test]
fn garbled_event_is_retried() {
    check(
        "responses_malformed.sse",
        expect![[r#"
        response resp_05
        0 text
        0 + "half "
        Retry { message: "Unterminated string in JSON at position 41 (line 1 column 42)", after: None }
    "#]],
    );
}

#[test]
fn stream_without_an_end_is_cut_off() {
    check(
        "responses_cut_off.sse",
        expect![[r#"
        response resp_05
        0 text
        0 + "half "
        Retry { message: "OpenAI Responses stream ended before a terminal response event", after: None }
    "#]],
    );
}

#[test]
fn incomplete_response_stops_with_length() {
    check(
        "responses_length.sse",
        expect![[r#"
            response resp_05
            0 text
            0 + "half "
            0 end, signed {"v":1,"id":"msg_5"}
            usage 70 in, 20 out (Some(5) thinking), 30 read, 0 written, 120 in all
            done Length Some("incomplete.max_output_tokens")
        "#]],
    );
}

#[test]
fn items_without_deltas_are_emitted_at_their_end() {
    let mut stream = String::new();
    for (at, item) in [
        r#"{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"a"},{"type":"summary_text","text":"b"}]}"#,
        r#"{"type":"reasoning","id":"rs_2","summary":[],"content":[{"type":"reasoning_text","text":"c"}]}"#,
        r#"{"type":"message","content":[{"type":"output_text","text":"d"},{"type":"refusal","refusal":"e"}]}"#,
        r#"{"type":"function_call","call_id":"call_1","name":"ls","arguments":"{}"}"#,
    ]
    .into_iter()
    .enumerate()
    {
        let kind = "response.output_item.done";
        stream += &format!(
            "data: {{\"type\":\"{kind}\",\"output_index\":{at},\"item\":{item}}}\n\n"
        );
    }
    stream += "data: {\"type\":\"response.completed\"}\n\n";
    expect![[r#"
        0 thinking
        0 + "a\n\nb"
        0 end, signed {"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"a"},{"type":"summary_text","text":"b"}]}
        1 thinking
        1 + "c"
        1 end, signed {"type":"reasoning","id":"rs_2","summary":[],"content":[{"type":"reasoning_text","text":"c"}]}
        2 text
        2 + "de"
        2 end
        3 call ls call_1
        3 + {}
        3 end
        done ToolUse None
    "#]].assert_eq(&decode(&stream));
}

#[test]
fn inconsistent_items_are_tolerated() {
    let item = |kind: &str, item: &str| {
        format!("data: {{\"type\":\"response.output_item.{kind}\",\"item\":{item}}}\n\n")
    };
    let stream = [
        // The same index twice, and an end that belongs to neither.
        item("added", r#"{"type":"message","id":"msg_1"}"#),
        item("added", r#"{"type":"reasoning","id":"rs_1"}"#),
        "data: {\"type\":\"response.output_text.delta\",\"delta\":\"lost\"}\n\n".to_owned(),
        item("done", r#"{"type":"function_call","call_id":"c","name":"ls","arguments":"{}"}"#),
        "data: {\"type\":\"response.output_item.added\"}\n\n".to_owned(),
        item("added", r#"{"type":"function_call"}"#),
    ];
    expect![[r#"
        0 text
        0 end
        1 thinking
        1 end
        2 call ls c
        2 + {}
        2 end
        Retry { message: "cannot read what the server sent: missing field `call_id`", after: None }
    "#]]
    .assert_eq(&decode(&stream.concat()));
}

#[test]
fn stop_reasons_are_mapped() {
    let mut printed = String::new();
    for response in [
        r#"{"status":"completed"}"#,
        r#"{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}}"#,
        r#"{"status":"incomplete","incomplete_details":{"reason":"content_filter"}}"#,
        r#"{"status":"incomplete"}"#,
        r#"{"status":"cancelled"}"#,
    ] {
        let stream =
            format!("data: {{\"type\":\"response.incomplete\",\"response\":{response}}}\n\n");
        printed += &decode(&stream);
    }
    expect![[r#"
        done Stop Some("completed")
        done Length Some("incomplete.max_output_tokens")
        raw stop incomplete.content_filter
        Fatal { message: "Response incomplete: content_filter" }
        raw stop incomplete
        Fatal { message: "Response incomplete: no reason was given" }
        raw stop cancelled
        Fatal { message: "the server gave up without saying why" }
    "#]]
    .assert_eq(&printed);
}

#[test]
fn errors_are_classified() {
    let mut printed = String::new();
    for event in [
        r#"{"type":"error","code":"rate_limit_exceeded","message":"Slow down"}"#,
        r#"{"type":"error","error":{"type":"server_error","message":"Oh no"}}"#,
        r#"{"type":"error","error":{"code":"insufficient_quota","message":"Pay first"}}"#,
        r#"{"type":"error","code":null,"message":"Something"}"#,
        r#"{"type":"error"}"#,
        r#"{"type":"response.failed","response":{"error":{"code":"server_error","message":"Oh no"}}}"#,
        r#"{"type":"response.failed","response":{"error":{"code":"context_length_exceeded","message":"Your input exceeds the context window of this model."}}}"#,
        r#"{"type":"response.failed","response":{"error":{"code":"invalid_prompt","message":"No"}}}"#,
        r#"{"type":"response.failed"}"#,
    ] {
        printed += &decode(&format!("data: {event}\n\n"));
    }
    expect![[r#"
        Retry { message: "Error Code rate_limit_exceeded: Slow down", after: None }
        Retry { message: "Oh no", after: None }
        Auth { message: "Error Code insufficient_quota: Pay first" }
        Fatal { message: "Something" }
        Fatal { message: "the server gave up without saying why" }
        Retry { message: "server_error: Oh no", after: None }
        Overflow { message: "context_length_exceeded: Your input exceeds the context window of this model." }
        Fatal { message: "invalid_prompt: No" }
        Fatal { message: "the server gave up without saying why" }
    "#]].assert_eq(&printed);
}

#[test]
fn error_responses_are_shown() {
    let body =
        r#"{"error":{"message":"Overloaded","type":"server_error","param":null,"code":null}}"#;
    let mut printed = String::new();
    for body in [body, "upstream connect error", r#"{"error":{"code":7}}"#] {
        printed += &format!("{}\n", Responses::error_text(503, body));
    }
    expect![[r#"
        OpenAI API error (503): 503 Overloaded
        OpenAI API error (503): 503 upstream connect error
        OpenAI API error (503): 503 {"error":{"code":7}}
    "#]]
    .assert_eq(&printed);
}
