//! `pi.events` between extensions in separate engines.
#![allow(clippy::unwrap_used)]
#![allow(clippy::print_stderr, reason = "skipped tests are reported")]

mod support;

use expect_test::expect;
use support::{Stage, quick_limits};
use tiller_js::{EngineChoice, Runtime};

const SPEAKER: &str = r#"
    export default (pi) => {
        const shared = { n: 1, list: [null, "two"], when: new Date(0) };
        pi.events.on("here", (data) => console.log("the same:", data === shared));
        pi.events.on("answer", (data) => console.log("answered", JSON.stringify(data)));
        pi.registerCommand("go", { handler() {
            pi.events.emit("here", shared);
            pi.events.emit("there", shared);
            pi.events.emit("there");
            pi.events.emit("nowhere", { call() {} });
            for (const odd of [new Map(), () => {}, 3n, { deep: [new Error("x")] }]) pi.events.emit("there", odd);
            const round = {};
            round.round = round;
            pi.events.emit("there", round);
            pi.events.emit("there", "last");
        } });
    };"#;

const LISTENER: &str = r#"
    export default (pi) => {
        const off = pi.events.on("there", (data) => {
            console.log("received", typeof data, JSON.stringify(data));
            if (data === "last") {
                off();
                pi.events.emit("answer", { done: true });
            }
        });
    };"#;

/// Sorted, because the two engines run at the same time.
const RECEIVED: &str = r#"Info: answered {"done":true}
Info: received object {"n":1,"list":[null,"two"],"when":"1970-01-01T00:00:00.000Z"}
Info: received string "last"
Info: received undefined undefined
Info: the same: true
Warning: pi.events, there: not sent to extensions in other engines: it is a Map"#;

async fn check(stage: Stage, change: impl Fn(&mut tiller_js::Extension)) {
    let mut extensions = stage.extension_files();
    change(&mut extensions[1]);
    let report = stage.extensions.load(&extensions).await;
    assert!(report.errors.is_empty(), "{:?}", report.errors);
    stage.extensions.bind().await;
    stage.log();
    stage.command("go").await;
    stage.host.wait_for("answered").await;
    assert_eq!(stage.sorted_log(), RECEIVED);
    // The listener is gone, so nothing is sent and nothing is reported.
    stage.command("go").await;
    expect!["Info: the same: true"].assert_eq(&stage.log());
}

fn files() -> [(&'static str, &'static str); 2] {
    [("ext-1.ts", SPEAKER), ("ext-2.ts", LISTENER)]
}

#[tokio::test]
async fn bus_connects_isolated_extensions() {
    check(Stage::set(&files(), quick_limits()), |extension| extension.isolate = true).await;
}

#[tokio::test]
async fn bus_connects_extensions_in_node() {
    if !support::skip::has_node() {
        return;
    }
    let path = std::env::var("PATH").unwrap();
    let stage = Stage::set_with(&files(), quick_limits(), true, path);
    check(stage, |extension| extension.engine = EngineChoice::Sidecar(Runtime::Node)).await;
}
