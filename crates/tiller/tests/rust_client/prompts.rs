//! Prompts: their events, text and results.

use tiller_client::ClientError;
use tiller_client::protocol::{
    Image, Level, LimitName, Limits, Prompt, PromptReason, PromptStatus, Record,
};

use crate::support::{Place, bounded, kinds, until_in};

/// One pixel.
const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

#[test]
fn prompt_is_answered_with_a_typed_result() {
    let place = Place::new();
    bounded(async {
        let client = place.client("say Hello there.\nusage input=10 output=3\n").await;
        let result = client.prompt("Hi").await.unwrap().result().await.unwrap();
        assert_eq!((result.status, result.text.as_str()), (PromptStatus::Done, "Hello there."));
        assert_eq!((result.runs, result.turns, result.messages), (1, 1, 2));
        assert_eq!((result.usage.input, result.usage.output, result.cost), (10, 3, 0.0));
        assert!(result.clone().check().is_ok_and(|same| same == result));
    });
}

#[test]
fn prompt_is_answered_at_every_level() {
    for level in Level::ALL {
        let place = Place::new();
        bounded(async {
            let builder = place.scripted("chunk words\nsay one two\n").wire(level);
            let client = builder.start().await.unwrap();
            assert_eq!(client.server().wire, level);
            let result = client.prompt("Count to 2").await.unwrap().result().await.unwrap();
            assert_eq!(result.check().unwrap().text, "one two");
        });
    }
}

#[test]
fn events_come_in_order_and_end_with_the_result() {
    let place = Place::new();
    bounded(async {
        let client = place.client("chunk words\nsay one two three\n").await;
        let mut turn = client.prompt("Count").await.unwrap();
        let expected = [
            "agent_start",
            "turn_start",
            "message_start",
            "message_end",
            "message_start",
            "message_end",
            "turn_end",
            "agent_end",
            "prompt_result",
        ];
        assert_eq!(kinds(&mut turn).await, expected);
        assert_eq!(turn.next().await, Ok(None));
        assert_eq!(turn.result().await.unwrap().text, "one two three");
    });
}

#[test]
fn text_is_streamed() {
    let place = Place::new();
    bounded(async {
        let client = place.client("chunk words\nthink Hm.\nsay one two three\n").await;
        let mut turn = client.prompt("Count").await.unwrap();
        let mut pieces = Vec::new();
        while let Some(text) = turn.next_text().await.unwrap() {
            pieces.push(text);
        }
        assert_eq!(pieces, ["one", " two", " three"]);
    });
}

#[test]
fn unusual_line_separators_pass_through() {
    let text = "a\u{2028}b\u{2029}c\u{85}d";
    let place = Place::new();
    bounded(async {
        let client = place.client(&format!("expect user \"{text}\"\nsay \"{text}\"\n")).await;
        let result = client.prompt(text).await.unwrap().result().await.unwrap();
        assert_eq!(result.text, text);
    });
}

#[test]
fn image_is_sent() {
    let place = Place::new();
    bounded(async {
        let client = place.client("expect images 1\nsay A dot.\n").await;
        let images = vec![Image::new(PNG, "image/png")];
        let prompt = Prompt { message: "Look".into(), images, ..Prompt::default() };
        let result = client.prompt(prompt).await.unwrap().result().await.unwrap();
        assert_eq!(result.check().unwrap().text, "A dot.");
    });
}

#[test]
fn prompts_follow_each_other_without_a_pause() {
    let place = Place::new();
    bounded(async {
        let client = place.client(&"say again\n\n".repeat(50)).await;
        for _ in 0..50 {
            let result = client.prompt("Go").await.unwrap().result().await.unwrap();
            assert_eq!(result.status, PromptStatus::Done);
        }
    });
}

#[test]
fn failed_answer_is_an_error() {
    let place = Place::new();
    bounded(async {
        let client = place.client("error fatal 400 no such thing\n").await;
        let result = client.prompt("Hi").await.unwrap().result().await.unwrap();
        assert_eq!((result.status, result.is_ok()), (PromptStatus::Error, false));
        let error = result.check().unwrap_err();
        assert!(matches!(error, ClientError::RunFailed(_)));
        assert!(error.to_string().contains("no such thing"), "{error}");
    });
}

#[test]
fn abort_keeps_the_partial_answer() {
    let place = Place::new();
    bounded(async {
        let client = place.client("say I could go on\nhang\n").await;
        let mut turn = client.prompt("Go").await.unwrap();
        turn.next_text().await.unwrap().unwrap();
        turn.abort().await.unwrap();
        let result = turn.result().await.unwrap();
        assert_eq!(result.status, PromptStatus::Aborted);
        assert_eq!(result.reason, Some(PromptReason::Abort));
        assert_eq!(result.text, "I could go on");
        assert!(!client.get_state().await.unwrap().is_streaming);
        turn.abort().await.unwrap();
    });
}

#[test]
fn second_prompt_is_refused_while_busy() {
    let place = Place::new();
    bounded(async {
        let client = place.client("hang\n").await;
        let mut turn = client.prompt("Go").await.unwrap();
        let refused = client.prompt("Me too").await.unwrap_err();
        let ClientError::CommandRefused { command, error } = &refused else { panic!("{refused}") };
        assert_eq!(command, "prompt");
        assert!(error.contains("already processing"), "{error}");
        turn.abort().await.unwrap();
    });
}

#[test]
fn abort_and_prompt_replaces_the_run() {
    let place = Place::new();
    bounded(async {
        let client = place.client("say first\nhang\n\nsay second\n").await;
        let mut first = client.prompt("One").await.unwrap();
        first.next_text().await.unwrap().unwrap();
        let mut second = client.abort_and_prompt("Two").await.unwrap();
        assert_eq!(first.result().await.unwrap().status, PromptStatus::Aborted);
        assert_eq!(second.result().await.unwrap().check().unwrap().text, "second");
    });
}

#[test]
fn limit_ends_the_run() {
    let place = Place::new();
    bounded(async {
        let client = place.client("call ls {}\n\nsay Done.\n").await;
        let limits = Limits { max_turns: Some(1), ..Limits::default() };
        assert_eq!(client.set_limits(limits.clone()).await.unwrap().limits, limits);
        assert_eq!(client.get_limits().await.unwrap().limits, limits);
        let mut events = client.events().await;
        let result = client.prompt("Go").await.unwrap().result().await.unwrap();
        assert_eq!(result.status, PromptStatus::Limit);
        assert_eq!(result.reason, Some(PromptReason::Limit(LimitName::MaxTurns)));
        until_in(&mut events, |record| matches!(record, Record::LimitReached { .. })).await;
    });
}
