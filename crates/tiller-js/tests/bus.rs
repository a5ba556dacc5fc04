//! `pi.events` between extensions in engines of their own.
#![allow(clippy::unwrap_used)]
#![allow(clippy::print_stderr, reason = "whoever runs the tests shall know what was left out")]

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
            console.log("heard", typeof data, JSON.stringify(data));
            if (data === "last") {
                off();
                pi.events.emit("answer", { done: true });
            }
        });
    };"#;

/// In the order of the alphabet: the two of them work at the same time.
const HEARD: &str = r#"Info: answered {"done":true}
Info: heard object {"n":1,"list":[null,"two"],"when":"1970-01-01T00:00:00.000Z"}
Info: heard string "last"
Info: heard undefined undefined
Info: the same: true
Warning: pi.events, there: not told to extensions in other engines: it is a Map"#;

async fn check(stage: Stage, change: impl Fn(&mut tiller_js::Extension)) {
    let mut extensions = stage.extensions();
    change(&mut extensions[1]);
    let report = stage.guests.load(&extensions).await;
    assert!(report.errors.is_empty(), "{:?}", report.errors);
    stage.guests.bind().await;
    stage.log();
    stage.command("go").await;
    stage.world.wait_for("answered").await;
    assert_eq!(stage.sorted_log(), HEARD);
    // Nobody listens any more, so nothing is told and nothing complained about.
    stage.command("go").await;
    expect!["Info: the same: true"].assert_eq(&stage.log());
}

fn files() -> [(&'static str, &'static str); 2] {
    [("ext-1.ts", SPEAKER), ("ext-2.ts", LISTENER)]
}

#[tokio::test]
async fn one_that_is_isolated_is_heard_and_hears() {
    check(Stage::set(&files(), quick_limits()), |extension| extension.isolate = true).await;
}

#[tokio::test]
async fn one_in_node_is_heard_and_hears() {
    if !support::skip::has_node() {
        return;
    }
    let path = std::env::var("PATH").unwrap();
    let stage = Stage::set_with(&files(), quick_limits(), true, path);
    check(stage, |extension| extension.engine = EngineChoice::Sidecar(Runtime::Node)).await;
}
