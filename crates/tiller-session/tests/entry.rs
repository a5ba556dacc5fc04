//! The text of every kind of entry, field by field, as pi writes it.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use expect_test::{Expect, expect};
use serde_json::json;
use tiller_agent::message::{
    AssistantMessage, BashExecution, Block, Content, CustomMessage, Message, StopReason, ToolCall,
    ToolResultMessage, Usage, UsageCost,
};
use tiller_agent::model::ThinkingLevel;
use tiller_session::entry::{BranchSummary, Compaction, SideUsage};
use tiller_session::{Body, Entry, Error, NewSession, Session, SessionId, Storage};

const NOW: u64 = 1_794_775_156_762;

fn session() -> Session {
    let new = NewSession {
        id: SessionId::read("s1").unwrap(),
        cwd: "/work".into(),
        parent_session: None,
        now: NOW,
    };
    Session::new(new, Storage::Memory)
}

/// Appends to a session with one entry, compares the line, with its own id as ID and that entry's
/// as ROOT, and checks that reading it returns the same body.
fn check(make: impl FnOnce(&str) -> Body, expected: Expect) {
    let mut session = session();
    let root = session.append(Body::SessionInfo { name: "root".into() }, NOW).unwrap();
    let body = make(&root);
    let id = session.append(body.clone(), NOW).unwrap();
    let line = session.raw(&id).unwrap().unwrap();
    expected.assert_eq(&line.replace(&id, "ID").replace(&root, "ROOT"));
    let entry = session.entry(&id).unwrap().unwrap();
    assert_eq!(entry.body, Some(body));
    assert_eq!(entry.parent_id.as_deref(), Some(root.as_str()));
}

fn usage() -> Usage {
    Usage {
        input: 100,
        output: 20,
        total_tokens: 120,
        cost: UsageCost { input: 0.0003, output: 0.0003, total: 0.0006, ..UsageCost::default() },
        ..Usage::default()
    }
}

#[test]
fn messages() {
    check(
        |_| Body::message(Message::user("hi", vec![Block::image("aGk=", "image/png")], 5)),
        expect![[
            r#"{"type":"message","id":"ID","parentId":"ROOT","timestamp":"2026-11-15T20:39:16.762Z","message":{"role":"user","content":[{"type":"text","text":"hi"},{"type":"image","data":"aGk=","mimeType":"image/png"}],"timestamp":5}}"#
        ]],
    );
    check(
        |_| {
            Body::message(Message::Assistant(AssistantMessage {
                content: vec![Block::ToolCall(ToolCall {
                    id: "call_1".into(),
                    name: "ls".into(),
                    arguments: json!({"path": "."}).as_object().unwrap().clone(),
                    arguments_error: None,
                    thought_signature: None,
                })],
                api: "anthropic-messages".into(),
                provider: "mock".into(),
                model: "mock-1".into(),
                usage: usage(),
                stop_reason: StopReason::ToolUse,
                timestamp: 6,
                response_id: Some("msg_1".into()),
                ..AssistantMessage::default()
            }))
        },
        expect![[
            r#"{"type":"message","id":"ID","parentId":"ROOT","timestamp":"2026-11-15T20:39:16.762Z","message":{"role":"assistant","content":[{"type":"toolCall","id":"call_1","name":"ls","arguments":{"path":"."}}],"api":"anthropic-messages","provider":"mock","model":"mock-1","usage":{"input":100,"output":20,"cacheRead":0,"cacheWrite":0,"totalTokens":120,"cost":{"input":0.0003,"output":0.0003,"cacheRead":0,"cacheWrite":0,"total":0.0006}},"stopReason":"toolUse","timestamp":6,"responseId":"msg_1"}}"#
        ]],
    );
    check(
        |_| {
            Body::message(Message::ToolResult(ToolResultMessage {
                tool_call_id: "call_1".into(),
                tool_name: "ls".into(),
                content: vec![Block::text("a.txt")],
                details: None,
                is_error: false,
                usage: None,
                timestamp: 7,
                duration_ms: None,
            }))
        },
        expect![[
            r#"{"type":"message","id":"ID","parentId":"ROOT","timestamp":"2026-11-15T20:39:16.762Z","message":{"role":"toolResult","toolCallId":"call_1","toolName":"ls","content":[{"type":"text","text":"a.txt"}],"isError":false,"timestamp":7}}"#
        ]],
    );
    check(
        |_| {
            Body::message(Message::BashExecution(BashExecution {
                command: "true".into(),
                output: String::new(),
                exit_code: Some(0),
                cancelled: false,
                truncated: false,
                full_output_path: None,
                timestamp: 8,
                exclude_from_context: true,
            }))
        },
        expect![[
            r#"{"type":"message","id":"ID","parentId":"ROOT","timestamp":"2026-11-15T20:39:16.762Z","message":{"role":"bashExecution","command":"true","output":"","exitCode":0,"cancelled":false,"truncated":false,"timestamp":8,"excludeFromContext":true}}"#
        ]],
    );
}

#[test]
fn settings() {
    check(
        |_| Body::ModelChange { provider: "mock".into(), model_id: "mock-1".into() },
        expect![[
            r#"{"type":"model_change","id":"ID","parentId":"ROOT","timestamp":"2026-11-15T20:39:16.762Z","provider":"mock","modelId":"mock-1"}"#
        ]],
    );
    check(
        |_| Body::ThinkingLevelChange { level: ThinkingLevel::Xhigh },
        expect![[
            r#"{"type":"thinking_level_change","id":"ID","parentId":"ROOT","timestamp":"2026-11-15T20:39:16.762Z","thinkingLevel":"xhigh"}"#
        ]],
    );
    check(
        |root| Body::Label { target_id: root.into(), label: Some("here".into()) },
        expect![[
            r#"{"type":"label","id":"ID","parentId":"ROOT","timestamp":"2026-11-15T20:39:16.762Z","targetId":"ROOT","label":"here"}"#
        ]],
    );
    check(
        |root| Body::Label { target_id: root.into(), label: None },
        expect![[
            r#"{"type":"label","id":"ID","parentId":"ROOT","timestamp":"2026-11-15T20:39:16.762Z","targetId":"ROOT"}"#
        ]],
    );
    check(
        |_| Body::SessionInfo { name: "my name".into() },
        expect![[
            r#"{"type":"session_info","id":"ID","parentId":"ROOT","timestamp":"2026-11-15T20:39:16.762Z","name":"my name"}"#
        ]],
    );
    check(
        |_| Body::TtsrInjection { rules: vec!["no-foo".into()] },
        expect![[
            r#"{"type":"ttsr_injection","id":"ID","parentId":"ROOT","timestamp":"2026-11-15T20:39:16.762Z","injectedRules":["no-foo"]}"#
        ]],
    );
}

#[test]
fn summaries_and_edits() {
    let compaction = |first_kept: Option<&str>| {
        Body::Compaction(Compaction {
            summary: "so far".into(),
            first_kept_entry_id: first_kept.map(str::to_owned),
            tokens_before: 4510,
            details: Some(json!({"readFiles": [], "modifiedFiles": []})),
            usage: None,
            from_hook: false,
        })
    };
    check(
        |root| compaction(Some(root)),
        expect![[
            r#"{"type":"compaction","id":"ID","parentId":"ROOT","timestamp":"2026-11-15T20:39:16.762Z","summary":"so far","firstKeptEntryId":"ROOT","tokensBefore":4510,"details":{"readFiles":[],"modifiedFiles":[]},"fromHook":false}"#
        ]],
    );
    check(
        |_| compaction(None),
        expect![[
            r#"{"type":"compaction","id":"ID","parentId":"ROOT","timestamp":"2026-11-15T20:39:16.762Z","summary":"so far","firstKeptEntryId":"ID","tokensBefore":4510,"details":{"readFiles":[],"modifiedFiles":[]},"fromHook":false}"#
        ]],
    );
    check(
        |root| {
            Body::BranchSummary(BranchSummary {
                from_id: root.into(),
                summary: "elsewhere".into(),
                details: None,
                usage: Some(usage()),
                from_hook: true,
            })
        },
        expect![[
            r#"{"type":"branch_summary","id":"ID","parentId":"ROOT","timestamp":"2026-11-15T20:39:16.762Z","fromId":"ROOT","summary":"elsewhere","usage":{"input":100,"output":20,"cacheRead":0,"cacheWrite":0,"totalTokens":120,"cost":{"input":0.0003,"output":0.0003,"cacheRead":0,"cacheWrite":0,"total":0.0006}},"fromHook":true}"#
        ]],
    );
    check(
        |root| Body::ContextEdit { target_id: root.into(), replacement: None },
        expect![[
            r#"{"type":"context_edit","id":"ID","parentId":"ROOT","timestamp":"2026-11-15T20:39:16.762Z","targetId":"ROOT","replacement":null}"#
        ]],
    );
    check(
        |root| Body::ContextEdit {
            target_id: root.into(),
            replacement: Some(Content::Text("other".into())),
        },
        expect![[
            r#"{"type":"context_edit","id":"ID","parentId":"ROOT","timestamp":"2026-11-15T20:39:16.762Z","targetId":"ROOT","replacement":{"content":"other"}}"#
        ]],
    );
    check(
        |_| {
            Body::Usage(SideUsage {
                kind: "cache_warm".into(),
                provider: "mock".into(),
                model: "mock-1".into(),
                usage: Usage::default(),
                note: None,
            })
        },
        expect![[
            r#"{"type":"usage","id":"ID","parentId":"ROOT","timestamp":"2026-11-15T20:39:16.762Z","kind":"cache_warm","provider":"mock","model":"mock-1","usage":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"totalTokens":0,"cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0}}}"#
        ]],
    );
}

/// pi puts the fields of these two before the id.
#[test]
fn entries_of_extensions() {
    check(
        |_| Body::Custom { custom_type: "notes".into(), data: Some(json!({"n": 1})) },
        expect![[
            r#"{"type":"custom","customType":"notes","data":{"n":1},"id":"ID","parentId":"ROOT","timestamp":"2026-11-15T20:39:16.762Z"}"#
        ]],
    );
    check(
        |_| {
            Body::CustomMessage(CustomMessage {
                custom_type: "reminder".into(),
                content: Content::Text("remember".into()),
                display: false,
                details: None,
                timestamp: NOW,
            })
        },
        expect![[
            r#"{"type":"custom_message","customType":"reminder","content":"remember","display":false,"id":"ID","parentId":"ROOT","timestamp":"2026-11-15T20:39:16.762Z"}"#
        ]],
    );
}

#[test]
fn custom_message_becomes_a_custom_message_entry_with_its_time() {
    let mut session = session();
    let message = CustomMessage {
        custom_type: "reminder".into(),
        content: Content::Text("remember".into()),
        display: true,
        details: Some(json!({"n": 1})),
        timestamp: 5_000,
    };
    let body = Body::Message(Arc::new(Message::Custom(message.clone())));
    let id = session.append(body, NOW).unwrap();
    let entry = session.entry(&id).unwrap().unwrap();
    assert_eq!(entry.kind, "custom_message");
    assert_eq!(entry.body, Some(Body::CustomMessage(message.clone())));
    assert_eq!(*session.context().unwrap().messages[0].message, Message::Custom(message));
}

#[test]
fn appending_a_summary_as_a_message_is_refused() {
    let summary = Message::CompactionSummary(tiller_agent::message::CompactionSummary {
        summary: "s".into(),
        tokens_before: 1,
        timestamp: 1,
    });
    let refused = session().append(Body::message(summary), NOW);
    assert!(matches!(refused, Err(Error::DerivedMessage)));
}

#[test]
fn unknown_parts_of_entries_are_ignored() {
    let kind_and_body = |line: &str| Entry::read(line).map(|entry| (entry.kind, entry.body));
    let read = kind_and_body(
        r#"{"type":"model_change","id":"a","parentId":null,"timestamp":"t","model":"openrouter/meta/llama","role":"default"}"#,
    );
    let model = Body::ModelChange { provider: "openrouter".into(), model_id: "meta/llama".into() };
    assert_eq!(read, Some(("model_change".into(), Some(model))));
    let read = kind_and_body(r#"{"type":"mode_change","id":"a","parentId":null,"mode":"plan"}"#);
    assert_eq!(read, Some(("mode_change".into(), None)));
    let read = kind_and_body(
        r#"{"type":"message","id":"a","parentId":null,"message":{"role":"system","content":""}}"#,
    );
    assert_eq!(read, Some(("message".into(), None)));
    assert_eq!(kind_and_body(r#"{"type":"message"}"#), None);
    assert_eq!(kind_and_body("[]"), None);
}
