//! Which request gets which answer, and when.

use std::future::pending;
use std::time::Duration;

use expect_test::expect;
use futures_util::{FutureExt, StreamExt};
use tiller_agent::provider::{Provider, StreamEvent};
use tokio::time::{Instant, timeout};

use crate::script::testing::{print, printed, request, user};
use crate::script::{Script, ScriptProvider};

#[tokio::test]
async fn exhausted_script_is_an_error() {
    let script = Script::parse("say one\n\n# here\nsay two\n").unwrap().named("talk.script");
    let provider = ScriptProvider::recording(script);
    assert_eq!(provider.unused(), [1, 4]);
    for _ in 0..2 {
        printed(provider.stream(request(vec![]))).await;
    }
    let third = printed(provider.stream(request(vec![user("more")]))).await;
    expect![[r#"
        error Fatal { message: "talk.script: script exhausted: the model was asked for answer 3, the script has 2; the last begins at line 4" }
    "#]]
    .assert_eq(&third);
    assert!(provider.unused().is_empty());
    assert_eq!(provider.errors().len(), 1);
    let shown: Vec<_> = provider.requests().iter().map(|it| it.messages.len()).collect();
    assert_eq!(shown, [0, 0, 1]);
}

#[tokio::test(start_paused = true)]
async fn delays_only_where_scripted() {
    let script =
        Script::parse("wait 500ms\nsay a\nwait 1.5s\ndelta b\n\npace 20ms\nchunk 1\nsay abc\n");
    let provider = ScriptProvider::new(script.unwrap());
    let began = Instant::now();
    let mut stream = provider.stream(request(vec![]));
    let mut times = Vec::new();
    while let Some(event) = stream.next().await {
        times.push((began.elapsed().as_millis(), event.is_ok()));
    }
    // Start, text start, first delta at once; then the second delta, the end and done.
    assert_eq!(
        times.iter().map(|(ms, _)| *ms).collect::<Vec<_>>(),
        [500, 500, 500, 2000, 2000, 2000]
    );
    assert!(times.iter().all(|(_, ok)| *ok));

    let began = Instant::now();
    printed(provider.stream(request(vec![]))).await;
    assert_eq!(began.elapsed(), Duration::from_millis(60));
}

#[tokio::test(start_paused = true)]
async fn hang_lasts_until_the_stream_is_dropped() {
    let provider = ScriptProvider::new(Script::parse("say Hold on\nhang\n\nsay next\n").unwrap());
    let mut stream = provider.stream(request(vec![]));
    let mut seen = Vec::new();
    let hour = Duration::from_secs(3600);
    while let Ok(Some(item)) = timeout(hour, stream.next()).await {
        seen.push(item);
    }
    drop(stream);
    expect![[r#"
        start
        0 text "Hold on"
    "#]]
    .assert_eq(&print(&seen));
    expect![[r#"
        start
        0 text "next" end
        done Stop
    "#]]
    .assert_eq(&printed(provider.stream(request(vec![]))).await);
}

#[tokio::test]
async fn unpolled_stream_takes_no_answer() {
    let provider = ScriptProvider::recording(Script::parse("say a\n").unwrap());
    drop(provider.stream(request(vec![])));
    assert_eq!(provider.unused(), [1]);
    assert_eq!(provider.requests().len(), 0);
}

#[tokio::test]
async fn live_answer_is_one_line_or_continued() {
    let (provider, mut feeder) = ScriptProvider::live();
    let mut stream = provider.stream(request(vec![user("what is here?")]));
    assert!(stream.next().now_or_never().is_none(), "nothing to say yet");

    feeder.feed("# a comment is nothing").unwrap();
    feeder.feed("call ls {}").unwrap();
    expect![[r#"
        start
        0 call ls call_1 "{}" end
        done ToolUse
    "#]]
    .assert_eq(&printed(stream).await);

    feeder.feed("think Well. \\").unwrap();
    let mut stream = provider.stream(request(vec![]));
    let mut seen = Vec::new();
    while let Some(Some(item)) = stream.next().now_or_never() {
        seen.push(item);
    }
    expect![[r#"
        start
        0 thinking "Well."
    "#]]
    .assert_eq(&print(&seen));
    feeder.feed("call ls \\").unwrap();
    feeder.feed("call ls").unwrap();
    expect![[r#"
        end
        1 call ls call_2 end
        2 call ls call_3 end
        done ToolUse
    "#]]
    .assert_eq(&printed(stream).await);
    assert_eq!(provider.requests().len(), 2);
}

#[tokio::test]
async fn dropped_live_answer_discards_its_rest() {
    let (provider, mut feeder) = ScriptProvider::live();
    feeder.feed("say Once upon \\").unwrap();
    let mut stream = provider.stream(request(vec![]));
    assert_eq!(stream.next().await, Some(Ok(StreamEvent::Start)));
    drop(stream);

    feeder.feed("say Yes?").unwrap();
    feeder.feed("say unasked").unwrap();
    expect![[r#"
        start
        0 text "Yes?" end
        done Stop
    "#]]
    .assert_eq(&printed(provider.stream(request(vec![]))).await);
    assert_eq!(provider.unused(), [3]);
    assert_eq!(feeder.feed("sya").unwrap_err().line, 4);
}

#[tokio::test]
async fn live_script_ends_when_its_feeder_is_dropped() {
    let (provider, feeder) = ScriptProvider::live();
    let waiting = tokio::spawn(printed(provider.stream(request(vec![]))));
    tokio::task::yield_now().await;
    drop(feeder);
    expect![[r#"
        error Fatal { message: "script: script exhausted: the model was asked for answer 1, the script has none" }
    "#]]
    .assert_eq(&waiting.await.unwrap());
}

#[tokio::test]
async fn two_requests_can_wait_at_once() {
    let (provider, mut feeder) = ScriptProvider::live();
    let first = tokio::spawn(printed(provider.stream(request(vec![]))));
    let second = tokio::spawn(printed(provider.stream(request(vec![]))));
    tokio::task::yield_now().await;
    feeder.feed("say a").unwrap();
    feeder.feed("say b").unwrap();
    let mut both = [first.await.unwrap(), second.await.unwrap()];
    both.sort();
    assert!(both[0].contains("\"a\"") && both[1].contains("\"b\""), "{both:?}");
}

#[tokio::test]
async fn long_answer_yields_to_other_tasks() {
    let provider = ScriptProvider::new(Script::parse("repeat 20000 \"tok{i} \"\n").unwrap());
    let mut stream = provider.stream(request(vec![]));
    let mut turns = 0u32;
    let others = async {
        loop {
            turns += 1;
            tokio::task::yield_now().await;
        }
    };
    let count = async {
        let mut bytes = 0;
        while let Some(Ok(event)) = stream.next().await {
            if let StreamEvent::TextDelta { delta, .. } = event {
                bytes += delta.len();
            }
        }
        bytes
    };
    let bytes = tokio::select! {
        biased;
        bytes = count => bytes,
        () = async { others.await; pending().await } => unreachable!("others never end"),
    };
    assert_eq!(bytes, (1..=20000).map(|i| format!("tok{i} ").len()).sum::<usize>());
    assert!(turns > 50, "only {turns} turns");
}
