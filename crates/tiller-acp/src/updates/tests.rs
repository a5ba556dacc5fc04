use std::path::Path;

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::*;

/// The updates of these records, one after the other.
fn check(offer: ClientOffer, records: &[Value], expected: Expect) {
    let mut updates = Updates::new(Path::new("/w"), offer);
    let mut printed = String::new();
    for record in records {
        let record: Record<'static> = serde_json::from_value(record.clone()).unwrap();
        for update in updates.of(&record, true) {
            printed += &format!("{}\n", serde_json::to_string(&update).unwrap());
        }
    }
    expected.assert_eq(&printed);
}

const NOTHING: ClientOffer =
    ClientOffer { forms: false, compactions: false, notices: false, terminal_auth: false };
const ALL: ClientOffer =
    ClientOffer { forms: true, compactions: true, notices: true, terminal_auth: true };

fn user(text: &str) -> Value {
    json!({"role": "user", "content": [{"type": "text", "text": text}], "timestamp": 1})
}

fn step(step: Value) -> Value {
    json!({"type": "message_update", "assistantMessageEvent": step})
}

fn start(id: &str, tool: &str, args: Value) -> Value {
    json!({"type": "tool_execution_start", "toolCallId": id, "toolName": tool, "args": args})
}

fn end(id: &str, tool: &str, text: &str) -> Value {
    let result = json!({"content": [{"type": "text", "text": text}]});
    json!({"type": "tool_execution_end", "toolCallId": id, "toolName": tool, "result": result, "isError": false})
}

#[test]
fn messages_of_the_client_are_not_shown_again() {
    check(
        NOTHING,
        &[
            json!({"type": "message_start", "message": user("mine"), "clientMessageId": "acp"}),
            json!({"type": "message_start", "message": user("an extension's")}),
        ],
        expect![[r#"
            {"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"an extension's"},"messageId":"m1"}
        "#]],
    );
}

#[test]
fn failure_of_an_mcp_server_is_shown_until_it_works_again() {
    let failed = json!({"name": "docs", "state": "restarting", "toolCount": 0, "error": "it has ended with exit code 1"});
    let ready = json!({"name": "docs", "state": "ready", "toolCount": 2});
    let change = |server: &Value| json!({"type": "mcp_servers_change", "servers": [server]});
    check(
        ALL,
        &[change(&failed), change(&failed), change(&ready), change(&failed)],
        expect![[r#"
        {"sessionUpdate":"notice","severity":"warning","title":"The MCP server docs does not work","description":"it has ended with exit code 1"}
        {"sessionUpdate":"notice","severity":"warning","title":"The MCP server docs does not work","description":"it has ended with exit code 1"}
    "#]],
    );
    check(NOTHING, &[change(&failed)], expect![[""]]);
}

#[test]
fn call_grows_from_its_name_to_its_result() {
    let arguments = json!({"command": "ls"});
    let call = json!({"type": "toolCall", "id": "c", "name": "bash", "arguments": arguments});
    let partial = json!({"content": [{"type": "text", "text": "a"}]});
    check(
        NOTHING,
        &[
            step(
                json!({"type": "toolcall_start", "contentIndex": 0, "id": "c", "toolName": "bash"}),
            ),
            step(json!({"type": "toolcall_delta", "contentIndex": 0, "delta": "{"})),
            step(json!({"type": "toolcall_end", "contentIndex": 0, "toolCall": call})),
            start("c", "bash", arguments),
            json!({"type": "tool_execution_update", "toolCallId": "c", "toolName": "bash", "partialResult": partial}),
            json!({"type": "tool_execution_update", "toolCallId": "c", "toolName": "bash", "partialResult": {"content": []}}),
            end("c", "bash", "a\nb"),
            end("c", "bash", "twice"),
        ],
        expect![[r#"
            {"sessionUpdate":"tool_call","toolCallId":"c","title":"bash","name":"bash","kind":"execute"}
            {"sessionUpdate":"tool_call_update","toolCallId":"c","title":"`ls`","rawInput":{"command":"ls"}}
            {"sessionUpdate":"tool_call_update","toolCallId":"c","status":"in_progress"}
            {"sessionUpdate":"tool_call_update","toolCallId":"c","content":[{"type":"content","content":{"type":"text","text":"```\na\n```"}}]}
            {"sessionUpdate":"tool_call_update","toolCallId":"c","status":"completed","title":"`ls`","content":[{"type":"content","content":{"type":"text","text":"```\na\nb\n```"}}],"rawOutput":{"output":"a\nb"}}
        "#]],
    );
}

#[test]
fn call_that_was_not_announced_begins_when_it_runs() {
    check(
        NOTHING,
        &[
            start("c", "read", json!({"path": "a"})),
            json!({"type": "agent_end", "messages": [], "willRetry": false}),
        ],
        expect![[r#"
            {"sessionUpdate":"tool_call","toolCallId":"c","title":"Read a","name":"read","kind":"read","status":"in_progress","locations":[{"path":"/w/a"}],"rawInput":{"path":"a"}}
            {"sessionUpdate":"tool_call_update","toolCallId":"c","status":"failed"}
        "#]],
    );
}

#[test]
fn arguments_that_an_extension_has_changed_are_shown() {
    let call = json!({"type": "toolCall", "id": "c", "name": "read", "arguments": {"path": "a"}});
    check(
        NOTHING,
        &[
            step(json!({"type": "toolcall_end", "contentIndex": 0, "toolCall": call})),
            start("c", "read", json!({"path": "b"})),
        ],
        expect![[r#"
            {"sessionUpdate":"tool_call","toolCallId":"c","title":"Read a","name":"read","kind":"read","locations":[{"path":"/w/a"}],"rawInput":{"path":"a"}}
            {"sessionUpdate":"tool_call_update","toolCallId":"c","status":"in_progress","title":"Read b","locations":[{"path":"/w/b"}],"rawInput":{"path":"b"}}
        "#]],
    );
}

#[test]
fn compactions_and_notices_are_for_clients_that_show_them() {
    let result = json!({"summary": "short", "firstKeptEntryId": "e", "tokensBefore": 9, "estimatedTokensAfter": 1});
    let notify = |kind: &str| json!({"type": "extension_ui_request", "id": "u", "method": "notify", "message": "Look", "notifyType": kind});
    let records = [
        json!({"type": "compaction_start", "reason": "manual"}),
        json!({"type": "compaction_end", "reason": "manual", "result": result, "aborted": false, "willRetry": false}),
        json!({"type": "compaction_start", "reason": "threshold"}),
        json!({"type": "compaction_end", "reason": "threshold", "aborted": false, "willRetry": false, "errorMessage": "no"}),
        json!({"type": "auto_retry_start", "attempt": 1, "maxAttempts": 3, "delayMs": 1, "errorMessage": "busy"}),
        json!({"type": "extension_error", "extensionPath": "/e.ts", "event": "load", "error": "broken"}),
        json!({"type": "session_error", "error": "full"}),
        notify("warning"),
        json!({"type": "session_info_changed", "name": "A name"}),
        json!({"type": "session_info_changed"}),
    ];
    check(
        ALL,
        &records,
        expect![[r#"
        {"sessionUpdate":"compaction_update","compactionId":"compaction-1","status":"in_progress"}
        {"sessionUpdate":"compaction_update","compactionId":"compaction-1","status":"completed","summary":[{"type":"text","text":"short"}]}
        {"sessionUpdate":"compaction_update","compactionId":"compaction-2","status":"in_progress"}
        {"sessionUpdate":"compaction_update","compactionId":"compaction-2","status":"failed","error":"no"}
        {"sessionUpdate":"notice","severity":"warning","title":"The request is sent again (1 of 3)","description":"busy"}
        {"sessionUpdate":"notice","severity":"error","title":"The extension /e.ts failed","description":"broken"}
        {"sessionUpdate":"notice","severity":"error","title":"The session could not be stored","description":"full"}
        {"sessionUpdate":"notice","severity":"warning","title":"Look"}
        {"sessionUpdate":"session_info_update","title":"A name"}
        {"sessionUpdate":"session_info_update","title":null}
    "#]],
    );
    check(
        NOTHING,
        &records,
        expect![[r#"
        {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Look"},"messageId":"m1"}
        {"sessionUpdate":"session_info_update","title":"A name"}
        {"sessionUpdate":"session_info_update","title":null}
    "#]],
    );
}

#[test]
fn usage_is_shown_when_it_is_known() {
    let stats = |usage: Value| {
        let tokens = json!({"input": 1, "output": 1, "cacheRead": 0, "cacheWrite": 0, "total": 2});
        let mut stats = json!({
            "sessionId": "s", "userMessages": 1, "assistantMessages": 1, "toolCalls": 0,
            "toolResults": 0, "totalMessages": 2, "tokens": tokens, "cost": 0.5,
        });
        stats["contextUsage"] = usage;
        let stats: StatsData<'static> = serde_json::from_value(stats).unwrap();
        usage_text(&stats)
    };
    let known = stats(json!({"tokens": 10, "contextWindow": 100, "percent": 10}));
    expect![[r#"{"sessionUpdate":"usage_update","used":10,"size":100,"cost":{"amount":0.5,"currency":"USD"}}"#]]
        .assert_eq(&known);
    assert_eq!(stats(json!({"tokens": null, "contextWindow": 100, "percent": null})), "null");
    assert_eq!(stats(Value::Null), "null");
}

fn usage_text(stats: &StatsData<'_>) -> String {
    serde_json::to_string(&usage(stats)).unwrap()
}
