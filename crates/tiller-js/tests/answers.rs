//! Commands and tools have no time limit, so each must be answered even if the engine loses what
//! would have answered it.
#![allow(clippy::unwrap_used)]

mod support;

use std::time::Duration;

use support::Stage;
use tiller_js::Limits;

const UNANSWERABLE: &str = "the extension cannot answer any more: it ran out of memory, was interrupted, or waits for a promise that nothing settles";

async fn stage(source: &str) -> Stage {
    let limits = Limits {
        memory_bytes: 16 << 20,
        long_slice: Duration::from_millis(500),
        violations: 10,
        ..Limits::default()
    };
    let stage = Stage::set(&[("ext.js", source)], limits);
    assert_eq!(stage.load().await.errors, []);
    stage.extensions.bind().await;
    stage
}

async fn command(stage: &Stage, name: &str) -> String {
    let answer = tokio::time::timeout(Duration::from_secs(60), stage.extensions.command(name, ""));
    match answer.await {
        Ok(Some(Ok(()))) => "done".into(),
        Ok(Some(Err(failed))) => failed.error,
        Ok(None) => "no such command".into(),
        Err(_) => "no answer".into(),
    }
}

#[tokio::test]
async fn command_that_leaves_no_memory_for_its_answer_fails() {
    let source = "export default (pi) => pi.registerCommand('fill', { handler: async () => {
        globalThis.kept = null;
        await null;
        for (let i = 0; i < 2; i++) {
            try { for (;;) globalThis.kept = { before: globalThis.kept }; } catch {}
        }
    } });";
    let stage = stage(source).await;
    for _ in 0..2 {
        let answer = command(&stage, "fill").await;
        // A slow machine may run out of time first.
        let is_slow = answer == "stopped after 500 ms";
        assert!(is_slow || answer == UNANSWERABLE || answer == "out of memory", "{answer}");
    }
}

#[tokio::test]
async fn command_interrupted_in_the_turn_of_another_fails() {
    let source = "export default (pi) => {
        let go;
        pi.registerCommand('wait', { handler: async () => {
            await new Promise((resolve) => { go = resolve; });
            for (;;);
        } });
        pi.registerCommand('go', { handler: async () => { go(); } });
    };";
    let stage = stage(source).await;
    let (wait, go) = tokio::join!(command(&stage, "wait"), command(&stage, "go"));
    assert_eq!((wait.as_str(), go.as_str()), (UNANSWERABLE, "stopped after 500 ms"));
}

#[tokio::test]
async fn command_that_awaits_a_forgotten_promise_fails() {
    let source = "export default (pi) => pi.registerCommand('wait', {
        handler: () => new Promise(() => {})
    });";
    let stage = stage(source).await;
    assert_eq!(command(&stage, "wait").await, UNANSWERABLE);
}

#[tokio::test]
async fn pending_command_survives_the_interruption_of_another() {
    let source = "export default (pi) => {
        let go;
        pi.registerCommand('wait', { handler: async () => {
            await new Promise((resolve) => { go = resolve; });
        } });
        pi.registerCommand('loop', { handler: () => { for (;;); } });
        pi.registerCommand('go', { handler: async () => { go(); } });
    };";
    let stage = stage(source).await;
    let (wait, go) = tokio::join!(command(&stage, "wait"), async {
        let interrupted = command(&stage, "loop").await;
        (interrupted, command(&stage, "go").await)
    });
    assert_eq!((wait.as_str(), go.0.as_str()), ("done", "stopped after 500 ms"));
    assert_eq!(go.1, "done");
}
