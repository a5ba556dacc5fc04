use expect_test::{Expect, expect};
use serde_json::json;
use tiller_agent::message::{
    BashExecution, BranchSummary, CompactionSummary, CustomMessage, StopReason, UserMessage,
};
use tiller_agent::model::Modality;

use super::*;
use crate::testing::*;

/// Prints what the model would see, one line per turn.
fn check(messages: Vec<Message>, expect: Expect) {
    check_with(&model(), false, messages, expect);
}

fn check_with(model: &Model, block_images: bool, messages: Vec<Message>, expect: Expect) {
    let messages: Vec<Arc<Message>> = messages.into_iter().map(Arc::new).collect();
    let clean_id = |id: &str| id.replace('|', "_");
    let turns = conversation(&messages, model, &ConvertRules { block_images, clean_id });
    expect.assert_eq(&turns.iter().map(listed).collect::<String>());
}

fn listed(turns: &ConvertedTurn<'_>) -> String {
    let (who, what): (_, Vec<String>) = match turns {
        ConvertedTurn::User(parts) => ("user", parts.iter().map(part).collect()),
        ConvertedTurn::Assistant(parts) => {
            ("assistant", parts.iter().map(assistant_part).collect())
        }
        ConvertedTurn::Results(results) => ("results", results.iter().map(one_result).collect()),
    };
    format!("{who} {}\n", what.join(", "))
}

fn part(part: &UserPart<'_>) -> String {
    match part {
        UserPart::Text(text) => format!("{text:?}"),
        UserPart::Image { mime_type, .. } => format!("[{mime_type}]"),
    }
}

fn assistant_part(parts: &AssistantPart<'_>) -> String {
    let signed = |signature: &Option<&str>| match signature {
        Some(signature) => format!(" signed {signature}"),
        None => String::new(),
    };
    match parts {
        AssistantPart::Text { text, signature } => format!("say {text:?}{}", signed(signature)),
        AssistantPart::Thinking { redacted: true, signature, .. } => {
            format!("hidden{}", signed(signature))
        }
        AssistantPart::Thinking { text, signature, .. } => {
            format!("think {text:?}{}", signed(signature))
        }
        AssistantPart::Call { id, name, arguments, signature, .. } => {
            format!("call {id} {name} {}{}", json!(arguments), signed(signature))
        }
    }
}

fn one_result(result: &CallResult<'_>) -> String {
    let content: Vec<_> = result.content.iter().map(part).collect();
    let outcome = if result.is_error { "error" } else { "ok" };
    format!("{} {} {outcome} {}", result.id, result.tool_name, content.join(" + "))
}

fn text(text: &str) -> Vec<Block> {
    vec![Block::text(text)]
}

#[test]
fn plain_conversation_is_unchanged() {
    check(
        vec![
            user("What is in a.txt?"),
            answer(vec![
                thought("Look.", Some("sig")),
                Block::text("Reading."),
                call("c1", "read", json!({"path": "a.txt"})),
                call("c2", "ls", json!({})),
            ]),
            result("c1", text("alpha")),
            result("c2", text("a.txt")),
            answer(text("Alpha.")),
            old_user("Thanks."),
        ],
        expect![[r#"
            user "What is in a.txt?"
            assistant think "Look." signed sig, say "Reading.", call c1 read {"path":"a.txt"}, call c2 ls {}
            results c1 read ok "alpha", c2 read ok "a.txt"
            assistant say "Alpha."
            user "Thanks."
        "#]],
    );
}

#[test]
fn failed_answers_and_their_results_are_dropped() {
    check(
        vec![
            user("one"),
            failed(StopReason::Error, text("half")),
            failed(StopReason::Error, vec![call("c1", "read", json!({}))]),
            result("c1", text("orphan")),
            user("two"),
        ],
        expect![[r#"
            user "one"
            user "two"
        "#]],
    );
}

#[test]
fn text_before_an_abort_is_kept() {
    let thought = Block::Thinking {
        thinking: "half a thou".into(),
        thinking_signature: None,
        redacted: false,
    };
    check(
        vec![
            user("one"),
            failed(
                StopReason::Aborted,
                vec![thought, Block::text("First I"), call("c1", "read", json!({}))],
            ),
            result("c1", text("Operation aborted")),
            failed(StopReason::Aborted, Vec::new()),
            user("two"),
        ],
        expect![[r#"
            user "one"
            assistant say "First I", call c1 read {}
            results c1 read ok "Operation aborted"
            user "two"
        "#]],
    );
}

#[test]
fn failed_answer_does_not_separate_calls_from_results() {
    check(
        vec![
            user("go"),
            answer(vec![call("c1", "read", json!({}))]),
            failed(StopReason::Error, Vec::new()),
            result("c1", text("late")),
        ],
        expect![[r#"
            user "go"
            assistant call c1 read {}
            results c1 read ok "late"
        "#]],
    );
}

#[test]
fn every_call_has_a_result_and_every_result_a_call() {
    check(
        vec![
            result("c0", text("whose?")),
            user("go"),
            answer(vec![call("c1", "read", json!({})), call("c2", "bash", json!({}))]),
            result("c2", text("done")),
            result("c9", text("whose?")),
            result("c2", text("again?")),
            user("and now?"),
            answer(vec![call("c3", "read", json!({}))]),
        ],
        expect![[r#"
            user "go"
            assistant call c1 read {}, call c2 bash {}
            results c1 read error "No result provided", c2 read ok "done"
            user "and now?"
            assistant call c3 read {}
            results c3 read error "No result provided"
        "#]],
    );
}

#[test]
fn results_come_before_messages_sent_meanwhile() {
    check(
        vec![
            user("go"),
            answer(vec![call("c1", "read", json!({})), call("c2", "read", json!({}))]),
            result("c1", text("one")),
            user("hurry"),
            result("c2", text("two")),
        ],
        expect![[r#"
            user "go"
            assistant call c1 read {}, call c2 read {}
            results c1 read ok "one", c2 read ok "two"
            user "hurry"
        "#]],
    );
}

#[test]
fn call_ids_are_made_unique() {
    check(
        vec![
            user("go"),
            foreign(vec![call("c|1", "a", json!({})), call("c_1", "b", json!({}))]),
            result("c|1", text("of a")),
            result("c_1", text("of b")),
            foreign(vec![call("c_1", "c", json!({})), call("c_1", "d", json!({}))]),
            result("c_1", text("of c")),
            result("c_1", text("of d")),
        ],
        expect![[r#"
            user "go"
            assistant call c_1 a {}, call c_1_2 b {}
            results c_1 read ok "of a", c_1_2 read ok "of b"
            assistant call c_1_3 c {}, call c_1_4 d {}
            results c_1_3 read ok "of c", c_1_4 read ok "of d"
        "#]],
    );
}

#[test]
fn thinking_of_another_model_becomes_text() {
    let signed_text = Block::Text { text: "b".into(), text_signature: Some("s2".into()) };
    let mut signed_call = call("c1", "read", json!({}));
    let Block::ToolCall(inner) = &mut signed_call else { unreachable!() };
    inner.thought_signature = Some("s3".into());
    let content = vec![
        thought("a", Some("s1")),
        hidden_thought("dark"),
        thought("", None),
        thought(" ", Some("s4")),
        signed_text,
        signed_call,
    ];
    check(
        vec![user("go"), foreign(content.clone()), user("go on"), answer(content)],
        expect![[r#"
            user "go"
            assistant say "a", say "b", call c1 read {}
            results c1 read error "No result provided"
            user "go on"
            assistant think "a" signed s1, hidden signed dark, think " " signed s4, say "b" signed s2, call c1_2 read {} signed s3
            results c1_2 read error "No result provided"
        "#]],
    );
}

#[test]
fn images_become_notes_for_models_without_vision() {
    let blind = Model { input: vec![Modality::Text], ..model() };
    let messages = || {
        vec![
            Message::user("look", vec![png(), png()], 1),
            answer(vec![call("c1", "read", json!({}))]),
            result("c1", vec![Block::text("a picture"), png()]),
            Message::user("", vec![png()], 1),
        ]
    };
    check(
        messages(),
        expect![[r#"
        user "look", [image/png], [image/png]
        assistant call c1 read {}
        results c1 read ok "a picture" + [image/png]
        user [image/png]
    "#]],
    );
    check_with(
        &blind,
        false,
        messages(),
        expect![[r#"
        user "look", "(image omitted: model does not support images)"
        assistant call c1 read {}
        results c1 read ok "a picture" + "(tool image omitted: model does not support images)"
        user "(image omitted: model does not support images)"
    "#]],
    );
    check_with(
        &model(),
        true,
        messages(),
        expect![[r#"
        user "look", "Image reading is disabled."
        assistant call c1 read {}
        results c1 read ok "a picture" + "Image reading is disabled."
        user "Image reading is disabled."
    "#]],
    );
}

#[test]
fn empty_content_is_left_out() {
    check(
        vec![
            user(" \n"),
            user("say nothing"),
            answer(Vec::new()),
            answer(vec![Block::text(""), thought("", None)]),
            user("again"),
            old_user(""),
        ],
        expect![[r#"
            user "say nothing"
            user "again"
        "#]],
    );
}

#[test]
fn empty_prompt_is_still_sent() {
    check(
        vec![user("")],
        expect![[r#"
        user "(empty message)"
    "#]],
    );
    check(
        vec![user("hi"), answer(text("hello")), user("  ")],
        expect![[r#"
        user "hi"
        assistant say "hello"
        user "(empty message)"
    "#]],
    );
    check(
        vec![user("hi"), answer(text("hello")), result("c1", text("orphan"))],
        expect![[r#"
            user "hi"
            assistant say "hello"
            user "(empty message)"
        "#]],
    );
    check(Vec::new(), expect![[""]]);
}

#[test]
fn other_messages_are_sent_as_user_content() {
    let bash = |command: &str, output: &str| BashExecution {
        command: command.into(),
        output: output.into(),
        exit_code: Some(0),
        cancelled: false,
        truncated: false,
        full_output_path: None,
        timestamp: 1,
        exclude_from_context: false,
    };
    let custom = CustomMessage {
        custom_type: "note".into(),
        content: Content::Text("remember".into()),
        display: true,
        details: None,
        timestamp: 1,
    };
    check(
        vec![
            Message::CompactionSummary(CompactionSummary {
                summary: "We began.".into(),
                tokens_before: 9,
                timestamp: 1,
            }),
            Message::BranchSummary(BranchSummary {
                summary: "We strayed.".into(),
                from_id: "x".into(),
                timestamp: 1,
            }),
            Message::Custom(custom),
            Message::BashExecution(bash("echo hi", "hi\n")),
            Message::BashExecution(bash("true", "")),
            Message::BashExecution(BashExecution {
                exclude_from_context: true,
                ..bash("secret", "secret")
            }),
            Message::BashExecution(BashExecution {
                exit_code: Some(7),
                truncated: true,
                full_output_path: Some("/tmp/full".into()),
                ..bash("fail", "…end")
            }),
            Message::BashExecution(BashExecution {
                exit_code: None,
                cancelled: true,
                ..bash("sleep 9", "")
            }),
            Message::User(UserMessage { content: Content::Blocks(text("well?")), timestamp: 1 }),
        ],
        expect![[r#"
            user "To save room, the conversation up to here was replaced with this summary of it:\n\n<summary>\nWe began.\n</summary>"
            user "Before this point the conversation took another path and came back. What happened there:\n\n<summary>\nWe strayed.</summary>"
            user "remember"
            user "Ran `echo hi`\n```\nhi\n\n```"
            user "Ran `true`\n(no output)"
            user "Ran `fail`\n```\n…end\n```\n\nCommand exited with code 7\n\n[Output truncated. Full output: /tmp/full]"
            user "Ran `sleep 9`\n(no output)\n\n(command cancelled)"
            user "well?"
        "#]],
    );
}

#[test]
fn repeated_ids_take_linear_time() {
    // Quadratic work here would take minutes.
    let mut messages = Vec::new();
    for _ in 0..50_000 {
        messages.push(Arc::new(answer(vec![call("call_0", "read", json!({}))])));
        messages.push(Arc::new(result("call_0", text("x"))));
    }
    let rules = ConvertRules { block_images: false, clean_id: str::to_owned };
    let turns = conversation(&messages, &model(), &rules);
    let Some(ConvertedTurn::Results(last)) = turns.last() else { panic!("ends with a result") };
    assert_eq!((turns.len(), &*last[0].id), (100_000, "call_0_50000"));
}
