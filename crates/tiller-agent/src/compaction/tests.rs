//! Tests of the cut, the summary requests and the resulting text.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use expect_test::{Expect, expect};
use futures_util::stream;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::cut::{Plan, plan};
use super::summary::{Progress, ProgressListener, Summarizer, SummaryError};
use super::summary_text::SummaryText;
use super::{ContextLimits, FileLists, transcript};
use crate::message::{
    AssistantMessage, Block, CompactionSummary, Message, StopReason, ToolCall, ToolResultMessage,
    Usage,
};
use crate::model::{Modality, Model, Price, ThinkingLevel};
use crate::provider::{EventStream, Provider, ProviderError, Request, StreamEvent};
use crate::retry::RetryPolicy;

/// A conversation in short form: one message per word, `u` user, `a` answer, `c` an answer with a
/// call, `r` a result, `s` a summary. A number after the letter is the length in tokens.
fn conversation(short: &str) -> Vec<Arc<Message>> {
    let messages = short.split_whitespace().enumerate().map(|(at, word)| {
        let (kind, size) = word.split_at(1);
        let text = "word".repeat(size.parse::<usize>().unwrap_or(1));
        Arc::new(match kind {
            "u" => Message::user(text, Vec::new(), at as u64),
            "a" => answer(vec![Block::text(text)]),
            "c" => answer(vec![Block::ToolCall(ToolCall {
                id: format!("call_{at}"),
                name: "read".into(),
                arguments: json!({"path": text}).as_object().unwrap().clone(),
                arguments_error: None,
                thought_signature: None,
            })]),
            "r" => Message::ToolResult(ToolResultMessage {
                tool_call_id: String::new(),
                tool_name: "read".into(),
                content: vec![Block::text(text)],
                details: None,
                is_error: false,
                usage: None,
                timestamp: 0,
                duration_ms: None,
            }),
            "s" => {
                let summary =
                    "## Goal\nWords.\n\n<last-user-message>\nDo it.\n</last-user-message>";
                let (summary, tokens_before, timestamp) = (summary.to_owned(), 0, 0);
                Message::CompactionSummary(CompactionSummary { summary, tokens_before, timestamp })
            }
            other => panic!("{other} is no message"),
        })
    });
    messages.collect()
}

fn answer(content: Vec<Block>) -> Message {
    Message::Assistant(AssistantMessage {
        content,
        stop_reason: StopReason::Stop,
        ..AssistantMessage::default()
    })
}

/// Prints the cut in short form: `[history] (beginning of a turn) kept`, and how much of the user's
/// message is kept.
fn check_cut(keep: u64, short: &str, expected: Expect) {
    let messages = conversation(short);
    let words: Vec<&str> = short.split_whitespace().collect();
    let shown = match plan(&messages, keep) {
        None => "nothing".to_owned(),
        Some(plan) => {
            let start = usize::from(plan.earlier.is_some());
            let turn = start + plan.history.len();
            let part = |from: usize, to: usize| words[from..to].join(" ");
            let request = plan.request.map(|words| format!(", asked {} bytes", words.len()));
            format!(
                "[{}] ({}) {}{}",
                part(start, turn),
                part(turn, plan.first_kept),
                part(plan.first_kept, words.len()),
                request.unwrap_or_default()
            )
        }
    };
    expected.assert_eq(&shown);
}

#[test]
fn newest_turns_are_kept() {
    check_cut(20, "u10 a10 u10 a10 u10 a10", expect!["[u10 a10 u10 a10] () u10 a10"]);
    check_cut(21, "u10 a10 u10 a10 u10 a10", expect!["[u10 a10] (u10) a10 u10 a10"]);
    check_cut(1, "u10 a10", expect!["[] (u10) a10, asked 40 bytes"]);
}

#[test]
fn short_conversation_is_not_cut() {
    check_cut(100, "u10 a10 u10 a10", expect!["nothing"]);
    check_cut(10, "u10", expect!["nothing"]);
    check_cut(10, "", expect!["nothing"]);
    check_cut(10, "s u10", expect!["nothing"]);
}

#[test]
fn result_is_not_separated_from_its_call() {
    check_cut(5, "u10 a10 u10 c1 r50", expect!["[u10 a10] (u10) c1 r50, asked 40 bytes"]);
    check_cut(60, "u10 c1 r50 c1 r50 a10", expect!["[] (u10 c1 r50 c1 r50) a10, asked 40 bytes"]);
    check_cut(10, "u10 c1 c1 r50 r50", expect!["[] (u10 c1) c1 r50 r50, asked 40 bytes"]);
}

#[test]
fn newest_user_message_is_kept_even_if_huge() {
    check_cut(10, "u10 a10 u500", expect!["[u10 a10] () u500"]);
    check_cut(10, "u10 a10 u500 a1", expect!["[u10 a10] () u500 a1"]);
}

#[test]
fn earlier_summary_is_continued() {
    check_cut(10, "s a10 u10 a10", expect!["[a10] (u10) a10, asked 40 bytes"]);
    // The turn began before the summary: its request is taken from there.
    check_cut(10, "s c1 r10 c1 r10", expect!["[c1 r10] () c1 r10, asked 6 bytes"]);
}

#[test]
fn summary_text_round_trips() {
    let memory = SummaryText {
        summary: "## Goal\nA <thing>.".into(),
        request: Some("Do\n\n<it>".into()),
        files: FileLists {
            read_files: vec!["a".into()],
            modified_files: vec!["b".into(), "c".into()],
        },
    };
    expect![[r#"
        ## Goal
        A <thing>.

        <last-user-message>
        Do

        <it>
        </last-user-message>

        <read-files>
        a
        </read-files>

        <modified-files>
        b
        c
        </modified-files>"#]]
    .assert_eq(&memory.write());
    assert_eq!(SummaryText::read(&memory.write()), memory);
    let plain = SummaryText { summary: "Plain words.".into(), ..SummaryText::default() };
    assert_eq!(SummaryText::read(&plain.write()), plain);
}

#[test]
fn transcript_formats_all_kinds_of_messages() {
    let mut messages = conversation("u1 c1 r1 a1 s1");
    messages.push(Arc::new(answer(vec![
        Block::Thinking { thinking: "Hm.".into(), thinking_signature: None, redacted: false },
        Block::text("Yes."),
    ])));
    let long = "x".repeat(2003);
    messages.extend(conversation("r1"));
    if let Some(Message::ToolResult(result)) = messages.last_mut().map(Arc::make_mut) {
        result.content = vec![Block::text(long)];
    }
    let text = transcript::parts(&messages).join("\n").replace(&"x".repeat(2000), "x…");
    expect![[r#"
        [User]: word
        [Assistant tool calls]: read(path="word")
        [Tool result]: word
        [Assistant]: word
        [User]: ## Goal
        Words.

        <last-user-message>
        Do it.
        </last-user-message>
        [Assistant thinking]: Hm.
        [Assistant]: Yes.
        [Tool result]: x…

        [... 3 more characters truncated]"#]]
    .assert_eq(&text);
}

#[test]
fn limits_are_reduced_for_small_windows() {
    let figures = |window| {
        let ContextLimits { threshold, keep, reserve } = ContextLimits::new(window, 16_384, 20_000);
        (threshold, keep, reserve)
    };
    assert_eq!(figures(200_000), (183_616, 20_000, 16_384));
    assert_eq!(figures(32_768), (16_384, 8192, 16_384));
    assert_eq!(figures(8192), (4096, 2048, 4096));
    assert_eq!(figures(0), (0, 0, 0));
}

/// A model with scripted answers that records its requests.
struct Played {
    answers: Mutex<VecDeque<Vec<Result<StreamEvent, ProviderError>>>>,
    asked: Mutex<Vec<String>>,
}

impl Provider for Played {
    fn stream(&self, request: Request) -> EventStream {
        let Message::User(asked) = &*request.messages[0] else { panic!("not a user message") };
        let limit = request.model.max_tokens;
        self.asked.lock().unwrap().push(format!("{limit}: {}", asked.content.text()));
        let answer = self.answers.lock().unwrap().pop_front();
        Box::pin(stream::iter(answer.unwrap_or_default()))
    }
}

fn says(text: &str) -> Vec<Result<StreamEvent, ProviderError>> {
    ends(text, StopReason::Stop)
}

fn ends(text: &str, reason: StopReason) -> Vec<Result<StreamEvent, ProviderError>> {
    let usage = Usage { input: 10, output: 2, total_tokens: 12, ..Usage::default() };
    vec![
        Ok(StreamEvent::Start),
        Ok(StreamEvent::TextStart { index: 0 }),
        Ok(StreamEvent::TextDelta { index: 0, delta: text.into() }),
        Ok(StreamEvent::TextEnd { index: 0, signature: None }),
        Ok(StreamEvent::Usage(Box::new(usage))),
        Ok(StreamEvent::Done { reason, raw: None }),
    ]
}

fn calls() -> Vec<Result<StreamEvent, ProviderError>> {
    vec![
        Ok(StreamEvent::Start),
        Ok(StreamEvent::CallStart { index: 0, id: "1".into(), name: "read".into() }),
        Ok(StreamEvent::CallEnd { index: 0, thought_signature: None }),
        Ok(StreamEvent::Done { reason: StopReason::ToolUse, raw: None }),
    ]
}

fn fails(error: ProviderError) -> Vec<Result<StreamEvent, ProviderError>> {
    vec![Err(error)]
}

fn overflow() -> Vec<Result<StreamEvent, ProviderError>> {
    fails(ProviderError::Overflow { message: "too long".into() })
}

/// Records all progress.
#[derive(Default)]
struct RecordedProgress(Mutex<Vec<Progress>>);

impl ProgressListener for RecordedProgress {
    async fn on_progress(&self, progress: Progress) {
        self.0.lock().unwrap().push(progress);
    }
}

/// Has a plan summarised by a model with this window, and prints the requests (without the
/// instructions) and the result.
async fn summarise(
    window: u64,
    plan: &Plan,
    answers: Vec<Vec<Result<StreamEvent, ProviderError>>>,
) -> String {
    let played = Arc::new(Played { answers: Mutex::new(answers.into()), asked: Mutex::default() });
    let writer = Summarizer {
        provider: played.clone(),
        model: Arc::new(Model {
            id: "m".into(),
            name: "m".into(),
            api: "a".into(),
            provider: "p".into(),
            base_url: String::new(),
            reasoning: false,
            thinking_level_map: None,
            input: vec![Modality::Text],
            cost: Price::default(),
            context_window: window,
            max_tokens: 8000,
            headers: Default::default(),
            compat: None,
        }),
        thinking: ThinkingLevel::Off,
        limits: ContextLimits::new(window, 1000, 100),
        retry: RetryPolicy { enabled: true, max_retries: 2, base_delay_ms: 10, max_delay_ms: 50 },
        session_id: "s".into(),
        now: 0,
        cancel: CancellationToken::new(),
    };
    let progress = RecordedProgress::default();
    let result = writer.write(plan, Some("the point"), &progress).await;
    let mut shown = String::new();
    for asked in played.asked.lock().unwrap().iter() {
        let (conversation, rest) = asked.split_once("\n</conversation>").unwrap();
        let parts = conversation.matches("[User]").count();
        let previous = rest.split_once("<previous-summary>\n").map(|(_, text)| {
            text.split_once("\n</previous-summary>").unwrap().0.replace('\n', " ")
        });
        let limit = asked.split_once(':').unwrap().0;
        let focus = if asked.contains("Additional focus: the point") { ", focused" } else { "" };
        let size = conversation.len() / 1000;
        shown.push_str(&format!("asked ≤{limit}: {parts} parts, {size} kB{focus}"));
        if let Some(previous) = previous {
            shown.push_str(&format!(", previous {previous:?}"));
        }
        shown.push('\n');
    }
    for progress in progress.0.lock().unwrap().iter() {
        shown.push_str(&format!("{progress:?}\n"));
    }
    match result {
        Ok(written) => shown.push_str(&format!(
            "wrote {:?}, {} tokens\n",
            written.summary, written.usage.total_tokens
        )),
        Err(SummaryError::Cancelled) => shown.push_str("cancelled\n"),
        Err(SummaryError::Failed(error)) => shown.push_str(&format!("failed: {error}\n")),
    }
    shown
}

fn planned(short: &str) -> Plan {
    plan(&conversation(short), 20).unwrap()
}

#[tokio::test(start_paused = true)]
async fn short_conversation_takes_one_request() {
    let written = summarise(9000, &planned("u10 a10 u10 a10"), vec![says("Notes.")]).await;
    expect![[r#"
        asked ≤800: 1 parts, 0 kB, focused
        wrote "Notes.", 12 tokens
    "#]]
    .assert_eq(&written);
}

#[tokio::test(start_paused = true)]
async fn split_turn_gets_a_summary_of_its_own() {
    let plan = planned("s u10 a10 u9 c1 r10 c1 r20");
    let written = summarise(9000, &plan, vec![says("Notes."), says("The turn.")]).await;
    expect![[r###"
        asked ≤800: 1 parts, 0 kB, focused, previous "## Goal Words."
        asked ≤500: 1 parts, 0 kB
        wrote "Notes.\n\n---\n\n**Turn Context (split turn):**\n\nThe turn.\n\n<last-user-message>\nwordwordwordwordwordwordwordwordword\n</last-user-message>\n\n<read-files>\nword\n</read-files>", 24 tokens
    "###]].assert_eq(&written);
}

#[tokio::test(start_paused = true)]
async fn long_conversation_is_summarised_in_pieces() {
    let plan = planned("u2000 a2000 u2000 a2000 u2000 a2000 u10 a10");
    let written =
        summarise(6000, &plan, vec![says("One."), says("Two."), says("Three."), says("Four.")])
            .await;
    expect![[r#"
        asked ≤800: 1 parts, 16 kB, focused
        asked ≤800: 1 parts, 16 kB, focused, previous "One."
        asked ≤800: 1 parts, 16 kB, focused, previous "Two."
        wrote "Three.", 36 tokens
    "#]]
    .assert_eq(&written);
}

#[tokio::test(start_paused = true)]
async fn an_overflow_halves_the_pieces() {
    let plan = planned("u1000 a1000 u1000 a1000 u10 a10");
    let answers =
        vec![overflow(), overflow(), says("One."), says("Two."), says("Three."), says("Four.")];
    let written = summarise(90_000, &plan, answers).await;
    expect![[r#"
        asked ≤800: 2 parts, 16 kB, focused
        asked ≤800: 1 parts, 8 kB, focused
        asked ≤800: 1 parts, 4 kB, focused
        asked ≤800: 0 parts, 4 kB, focused, previous "One."
        asked ≤800: 1 parts, 4 kB, focused, previous "Two."
        asked ≤800: 0 parts, 4 kB, focused, previous "Three."
        wrote "Four.", 48 tokens
    "#]]
    .assert_eq(&written);
}

#[tokio::test(start_paused = true)]
async fn halving_stops_after_a_limit() {
    let plan = planned("u1000 a1000 u1000 a1000 u10 a10");
    let written = summarise(90_000, &plan, vec![overflow(); 20]).await;
    expect![[r#"
        asked ≤800: 2 parts, 16 kB, focused
        asked ≤800: 1 parts, 8 kB, focused
        asked ≤800: 1 parts, 4 kB, focused
        asked ≤800: 1 parts, 1 kB, focused
        asked ≤800: 1 parts, 0 kB, focused
        asked ≤800: 1 parts, 0 kB, focused
        failed: Summarization failed: too long
    "#]]
    .assert_eq(&written);
}

#[tokio::test(start_paused = true)]
async fn tool_call_in_a_summary_is_retried_with_less() {
    let plan = planned("u3000 a2900 u10 a10");
    let written =
        summarise(90_000, &plan, vec![calls(), says("One."), says("Two."), says("Three.")]).await;
    expect![[r#"
        asked ≤800: 1 parts, 23 kB, focused
        asked ≤800: 1 parts, 6 kB, focused
        asked ≤800: 0 parts, 6 kB, focused, previous "One."
        asked ≤800: 0 parts, 11 kB, focused, previous "Two."
        wrote "Three.", 36 tokens
    "#]]
    .assert_eq(&written);
    let written = summarise(90_000, &plan, vec![calls(), calls()]).await;
    expect![[r#"
        asked ≤800: 1 parts, 23 kB, focused
        asked ≤800: 1 parts, 6 kB, focused
        failed: Summarization attempted to call a tool
    "#]]
    .assert_eq(&written);
    // A short conversation was not the reason.
    let written = summarise(90_000, &planned("u10 a10 u10 a10"), vec![calls()]).await;
    expect![[r#"
        asked ≤800: 1 parts, 0 kB, focused
        failed: Summarization attempted to call a tool
    "#]]
    .assert_eq(&written);
}

#[tokio::test(start_paused = true)]
async fn useless_answers_are_errors() {
    let plan = planned("u10 a10 u10 a10");
    let cut_off = summarise(9000, &plan, vec![ends("Not", StopReason::Length)]).await;
    let empty = summarise(9000, &plan, vec![says(" \n")]).await;
    let refused = fails(ProviderError::Auth { message: "401 no".into() });
    let refused = summarise(9000, &plan, vec![refused]).await;
    expect![[r#"
        asked ≤800: 1 parts, 0 kB, focused
        failed: Summarization failed: generation hit the token cap and the summary is incomplete
        asked ≤800: 1 parts, 0 kB, focused
        failed: Summarization failed: the model wrote nothing
        asked ≤800: 1 parts, 0 kB, focused
        failed: Summarization failed: 401 no
    "#]]
    .assert_eq(&format!("{cut_off}{empty}{refused}"));
}

#[tokio::test(start_paused = true)]
async fn overloaded_provider_is_retried() {
    let plan = planned("u10 a10 u10 a10");
    let overloaded = || fails(ProviderError::retry("529"));
    let patient = summarise(9000, &plan, vec![overloaded(), overloaded(), says("Notes.")]).await;
    let exhausted = summarise(9000, &plan, vec![overloaded(), overloaded(), overloaded()]).await;
    expect![[r#"
        asked ≤800: 1 parts, 0 kB, focused
        asked ≤800: 1 parts, 0 kB, focused
        asked ≤800: 1 parts, 0 kB, focused
        RetryScheduled { attempt: 1, max_attempts: 2, delay_ms: 10, error: "529" }
        RetryBegins
        RetryScheduled { attempt: 2, max_attempts: 2, delay_ms: 20, error: "529" }
        RetryBegins
        RetriesOver
        wrote "Notes.", 12 tokens
        asked ≤800: 1 parts, 0 kB, focused
        asked ≤800: 1 parts, 0 kB, focused
        asked ≤800: 1 parts, 0 kB, focused
        RetryScheduled { attempt: 1, max_attempts: 2, delay_ms: 10, error: "529" }
        RetryBegins
        RetryScheduled { attempt: 2, max_attempts: 2, delay_ms: 20, error: "529" }
        RetryBegins
        RetriesOver
        failed: Summarization failed: 529
    "#]]
    .assert_eq(&format!("{patient}{exhausted}"));
}

#[test]
fn prompts_contain_the_sections_clients_expect() {
    for heading in ["## Goal", "## Progress", "### Blocked", "## Next Steps", "## Critical Context"]
    {
        assert!(include_str!("prompts/summary.md").contains(heading));
        assert!(include_str!("prompts/update.md").contains(heading));
    }
}
