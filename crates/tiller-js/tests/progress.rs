//! Those who listen slowly: what is told meanwhile melts, and nothing of it is missing.
#![allow(clippy::unwrap_used)]

mod support;

use std::process::Command;

use futures_util::StreamExt;
use serde_json::{Value, json};
use support::Stage;
use tokio_util::sync::CancellationToken;

#[tokio::test]
async fn an_extension_that_listens_slowly_hears_a_model_in_larger_steps() {
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
async fn a_provider_that_nobody_listens_to_is_heard_in_larger_steps() {
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
    let events = stage.guests.stream("mine", model, context, json!({}), cancel);
    stage.world.wait_for("all said").await;
    let events: Vec<Value> = events.collect().await;
    let said = events.iter().filter_map(|event| event["delta"].as_str());
    let said: Vec<usize> = said.map(str::len).collect();
    assert_eq!(said, [2_000]);
    assert_eq!(events.last().unwrap()["type"], "done");
}

/// In time of the processor, which others on the machine do not change.
#[test]
fn a_line_to_a_sidecar_takes_time_as_its_length() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/js/sidecar/lines.js");
    let script = format!(
        r#"
        import {{ lines }} from "file://{file}";
        const piece = "x".repeat(64 * 1024);
        const cost = (pieces) => {{
            const begun = process.cpuUsage();
            let length = 0;
            const take = lines((line) => length = JSON.parse(`"${{line}}"`).length);
            for (let n = 0; n < pieces; n++) take(piece);
            take("\ntwo\nthr");
            if (length !== 3) throw new Error("lines are missing");
            const {{ user, system }} = process.cpuUsage(begun);
            return user + system;
        }};
        cost(100);
        const few = Math.min(cost(250), cost(250), cost(250));
        const many = Math.min(cost(2000), cost(2000));
        console.log(many / few < 24 ? "as its length" : many / few);"#
    );
    let run = Command::new("node").args(["--input-type=module", "-e", &script]).output();
    // Without node there is no sidecar either.
    let Ok(run) = run else { return };
    let said = String::from_utf8_lossy(&run.stdout).into_owned();
    assert_eq!(said.trim(), "as its length", "{}", String::from_utf8_lossy(&run.stderr));
}
