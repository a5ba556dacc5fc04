use expect_test::{Expect, expect};
use serde_json::json;

use super::*;

/// The outputs for records, each on a line. Colours are shown as `<red>…<>`.
fn check(shows_thinking: bool, records: &[Value], expect: Expect) {
    let mut view = ChatView::new(Paint { has_color: true }, shows_thinking);
    let mut shown = String::new();
    for record in records {
        let record: Record<'static> = serde_json::from_value(record.clone()).unwrap();
        for output in view.record(&record) {
            shown += &format!("{}\n", colors(&format!("{output:?}")));
        }
    }
    expect.assert_eq(&shown);
}

fn colors(text: &str) -> String {
    let names = [("0", ""), ("1", "bold"), ("2", "dim"), ("31", "red"), ("32", "green")];
    let names = names.into_iter().chain([("33", "yellow"), ("36", "cyan")]);
    names.fold(text.to_owned(), |text, (code, name)| {
        text.replace(&format!("\\u{{1b}}[{code}m"), &format!("<{name}>"))
    })
}

fn usage() -> Value {
    let cost = json!({"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0});
    json!({"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 0, "cost": cost})
}

fn answer(stop_reason: &str, content: &Value, error: Option<&str>) -> Value {
    let mut message = json!({"role": "assistant", "content": content, "api": "a", "provider": "p",
        "model": "m", "usage": usage(), "stopReason": stop_reason, "timestamp": 1});
    if let Some(error) = error {
        message["errorMessage"] = error.into();
        message["errorHint"] = "Check the key.".into();
    }
    message
}

fn step(step: &Value) -> Value {
    json!({"type": "message_update", "usage": usage(), "assistantMessageEvent": step})
}

fn delta(kind: &str, text: &str) -> Value {
    step(&json!({"type": kind, "contentIndex": 0, "delta": text}))
}

fn call(id: &str, tool: &str, args: &Value) -> Value {
    json!({"type": "tool_execution_start", "toolCallId": id, "toolName": tool, "args": args})
}

fn end(id: &str, tool: &str, is_error: bool, text: &str) -> Value {
    json!({"type": "tool_execution_end", "toolCallId": id, "toolName": tool, "isError": is_error,
        "result": {"content": [{"type": "text", "text": text}]}, "durationMs": 1234})
}

#[test]
fn answer_is_shown_as_it_grows() {
    let records = [
        json!({"type": "message_start", "message": answer("pending", &json!([]), None)}),
        step(&json!({"type": "thinking_start", "contentIndex": 0})),
        delta("thinking_delta", "Hm."),
        step(&json!({"type": "thinking_end", "contentIndex": 0, "content": "Hm."})),
        step(&json!({"type": "text_start", "contentIndex": 1})),
        delta("text_delta", "Hel\u{1b}[3"),
        delta("text_delta", "1mlo\u{7}"),
        step(&json!({"type": "text_end", "contentIndex": 1, "content": "Hello"})),
        json!({"type": "message_end", "message": answer("stop", &json!([]), None)}),
    ];
    check(
        false,
        &records,
        expect![[r#"
        EndOfText
        EndOfText
        Text { stream: Answer, text: "Hel" }
        Text { stream: Answer, text: "lo" }
        EndOfText
        EndOfText
    "#]],
    );
    check(
        true,
        &records,
        expect![[r#"
        EndOfText
        Text { stream: Thinking, text: "Hm." }
        EndOfText
        EndOfText
        Text { stream: Answer, text: "Hel" }
        Text { stream: Answer, text: "lo" }
        EndOfText
        EndOfText
    "#]],
    );
}

#[test]
fn failed_and_cut_answers_have_their_reason() {
    let text = json!([{"type": "text", "text": "Half of"}]);
    check(
        false,
        &[
            json!({"type": "message_end",
                "message": answer("error", &json!([]), Some("529 {\"error\":{\"message\":\"busy\"}}"))}),
            json!({"type": "message_end", "message": answer("length", &text, None)}),
            json!({"type": "message_end", "message": answer("aborted", &text, None)}),
            json!({"type": "agent_settled", "aborted": true}),
            json!({"type": "agent_settled", "aborted": false}),
        ],
        expect![[r#"
            EndOfText
            Error("<red>Error: 529 busy<>")
            Lines("<dim>Check the key.<>")
            EndOfText
            Lines("Half of")
            Error("<yellow>Warning: the answer was cut off at the model's output limit<>")
            EndOfText
            Lines("Half of")
            Lines("<dim>[aborted]<>")
        "#]],
    );
}

#[test]
fn calls_are_one_line_and_edits_three() {
    let diff = json!({"diff": " 1 a\n-2 b\n-3 c\n+2 B\u{1b}[2J"});
    let edited = json!({"content": [{"type": "text", "text": "Done"}], "details": diff});
    check(
        false,
        &[
            call("1", "bash", &json!({"command": "ls\n -l"})),
            end("1", "bash", false, "a.txt"),
            call("2", "bash", &json!({"command": "false"})),
            end("2", "bash", true, "some output\n\nCommand exited with code 1"),
            call("3", "read", &json!({"path": "x"})),
            end("3", "read", true, "ENOENT: no such file\nmore"),
            call("4", "edit", &json!({"path": "src/a.rs", "edits": []})),
            json!({"type": "tool_execution_end", "toolCallId": "4", "toolName": "edit",
                "result": edited, "isError": false}),
        ],
        expect![[r#"
            CallStart { id: "1", line: "<cyan>[bash]<> ls -l" }
            CallEnd { id: "1", tail: "<dim> ok 1.2 s<>", line: "<cyan>[bash]<> ls -l<dim> ok 1.2 s<>" }
            CallStart { id: "2", line: "<cyan>[bash]<> false" }
            CallEnd { id: "2", tail: "<red> failed: Command exited with code 1<>", line: "<cyan>[bash]<> false<red> failed: Command exited with code 1<>" }
            CallStart { id: "3", line: "<cyan>[read]<> x" }
            CallEnd { id: "3", tail: "<red> failed: ENOENT: no such file<>", line: "<cyan>[read]<> x<red> failed: ENOENT: no such file<>" }
            CallStart { id: "4", line: "<cyan>[edit]<> src/a.rs" }
            CallEnd { id: "4", tail: " +1 -2", line: "<cyan>[edit]<> src/a.rs +1 -2" }
            Lines("<red>  -2 b<>")
            Lines("<green>  +2 B<>")
        "#]],
    );
}

#[test]
fn events_are_one_line() {
    let result = json!({"summary": "s", "firstKeptEntryId": "e", "tokensBefore": 150_000,
        "estimatedTokensAfter": 21_200});
    check(
        false,
        &[
            json!({"type": "auto_retry_start", "attempt": 1, "maxAttempts": 3, "delayMs": 2000,
                "errorMessage": "529 {\"error\":{\"message\":\"busy\"}}"}),
            json!({"type": "auto_retry_end", "success": false, "attempt": 3}),
            json!({"type": "compaction_start", "reason": "threshold"}),
            json!({"type": "compaction_end", "reason": "threshold", "result": result,
                "aborted": false, "willRetry": false}),
            json!({"type": "compaction_end", "reason": "threshold", "aborted": false,
                "willRetry": false, "errorMessage": "Auto-compaction failed"}),
            json!({"type": "limit_reached", "limit": "maxTurns", "max": 1, "used": 1}),
            json!({"type": "extension_error", "extensionPath": "x.ts", "event": "load",
                "error": "no"}),
            json!({"type": "session_error", "error": "cannot write session file x: full"}),
            json!({"type": "thinking_level_changed", "level": "high"}),
            json!({"type": "extension_ui_request", "id": "1", "method": "notify",
                "message": "Noted", "notifyType": "warning"}),
            json!({"type": "extension_ui_request", "id": "2", "method": "setStatus",
                "statusKey": "build", "statusText": "3 of 7"}),
            json!({"type": "extension_ui_request", "id": "3", "method": "confirm",
                "title": "Sure?", "message": ""}),
            json!({"type": "bash_execution_update", "id": "4", "delta": "out\u{1b}[1m\n"}),
            json!({"type": "something_new"}),
        ],
        expect![[r#"
            Lines("<dim>[retry 1 of 3 in 2.0 s] 529 busy<>")
            Lines("<dim>[retry] gave up after attempt 3<>")
            Lines("<dim>[compaction] summarizing the conversation …<>")
            Lines("<dim>[compaction] 150000 tokens became about 21200<>")
            Error("<red>Error: Auto-compaction failed<>")
            Error("<yellow>Warning: the limit of 1 turn per prompt is reached<>")
            Error("<red>Error: x.ts: no<>")
            Error("<red>Error: cannot write session file x: full<>")
            Lines("<dim>[thinking] high<>")
            Error("<yellow>Warning: Noted<>")
            Lines("<dim>[build] 3 of 7<>")
            Text { stream: Shell, text: "out\n" }
        "#]],
    );
}

#[test]
fn queued_message_is_shown_when_it_is_sent() {
    let mut view = ChatView::new(Paint { has_color: false }, false);
    let queued = view.message_queued("mine".to_owned(), "Keep it\nshort");
    assert_eq!(queued, Output::Lines("[queued] Keep it short".to_owned()));
    let user = |id: &str| {
        let message = json!({"role": "user", "content": "Keep it\nshort", "timestamp": 1});
        let record = json!({"type": "message_start", "message": message, "clientMessageId": id});
        serde_json::from_value::<Record<'static>>(record).unwrap()
    };
    assert_eq!(view.record(&user("another")), []);
    assert_eq!(view.record(&user("mine")), [Output::Lines("[sent] Keep it short".to_owned())]);
}
