//! Slow receivers: queued progress is merged, and nothing is lost.
#![allow(clippy::unwrap_used)]

mod support;

use futures_util::StreamExt;
use serde_json::{Value, json};
use support::Stage;
use tokio_util::sync::CancellationToken;

#[tokio::test]
async fn slow_reader_gets_merged_model_events() {
    let stage = Stage::play(&[(
        "ext.ts",
        r#"
        export default (pi) => pi.registerCommand("go", {
            handler: async (args, ctx) => {
                const stream = ctx.modelRegistry.stream(ctx.model, { messages: [] }, { deltas: 50000 });
                let steps = 0, text = 0;
                for await (const event of stream) {
                    if (event.type !== "text_delta") continue;
                    steps += 1;
                    text += event.delta.length;
                    // Nothing else happens in this engine for a while.
                    if (steps === 1) for (const end = Date.now() + 300; Date.now() < end; );
                }
                console.log(steps < 25000 ? "few" : steps, text);
            },
        });"#,
    )])
    .await;
    stage.log();
    stage.command("go").await;
    assert!(stage.log().ends_with("Info: few 50000"), "{}", stage.log());
}

#[tokio::test]
async fn unread_provider_events_are_merged() {
    let stage = Stage::play(&[(
        "ext.ts",
        r#"
        export default (pi) => pi.registerProvider("mine", {
            baseUrl: "http://x", api: "mine-api", models: [{ id: "m", name: "M" }],
            async *streamSimple() {
                yield { type: "start" };
                yield { type: "text_start", contentIndex: 0 };
                for (let n = 0; n < 2000; n++) {
                    if (n % 50 === 0) await new Promise((done) => setTimeout(done, 0));
                    yield { type: "text_delta", contentIndex: 0, delta: "x" };
                }
                console.log("all said");
                yield { type: "done", reason: "stop", message: { role: "assistant", content: [] } };
            },
        });"#,
    )])
    .await;
    let (model, context) = (json!({"id": "m"}), json!({"messages": []}));
    let cancel = CancellationToken::new();
    let events = stage.extensions.stream("mine", model, context, json!({}), cancel);
    stage.host.wait_for("all said").await;
    let events: Vec<Value> = events.collect().await;
    let said = events.iter().filter_map(|event| event["delta"].as_str());
    let said: Vec<usize> = said.map(str::len).collect();
    assert_eq!(said, [2_000]);
    assert_eq!(events.last().unwrap()["type"], "done");
}

/// Counts the characters that are searched and joined, whatever the number of chunks.
#[tokio::test]
async fn splitting_lines_is_linear() {
    let lines = include_str!("../js/sidecar/lines.js");
    let counts = r#"
        import { lines } from "./lines.js";
        const { indexOf } = String.prototype;
        const { join } = Array.prototype;
        const piece = "x".repeat(1000);
        const handled = (pieces) => {
            let count = 0;
            const lengths = [];
            String.prototype.indexOf = function (what, from = 0) {
                const at = indexOf.call(this, what, from);
                count += (at < 0 ? this.length : at + 1) - from;
                return at;
            };
            Array.prototype.join = function (between) {
                const text = join.call(this, between);
                count += text.length;
                return text;
            };
            try {
                const take = lines((line) => lengths.push(line.length));
                for (let n = 0; n < pieces; n++) take(piece);
                take("\ntwo\nthr");
            } finally {
                String.prototype.indexOf = indexOf;
                Array.prototype.join = join;
            }
            const length = pieces * piece.length;
            if (lengths[0] !== length || lengths[1] !== 3) throw new Error(`${lengths}`);
            return Math.round(count / length);
        };
        export default (pi) => pi.registerCommand("go", {
            handler: async () => console.log(handled(10), handled(1000)),
        });"#;
    let stage = Stage::play(&[("ext.ts", counts), ("lines.js", lines)]).await;
    stage.log();
    stage.command("go").await;
    assert!(stage.log().ends_with("Info: 2 2"), "{}", stage.log());
}
