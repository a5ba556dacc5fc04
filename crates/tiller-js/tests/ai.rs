//! Helpers of pi-ai. The expected values are those of pi 0.87.1.
#![allow(clippy::unwrap_used)]

mod support;

use expect_test::{Expect, expect};
use support::Stage;

/// Compares what the body writes with `log`.
async fn check(body: &str, expect: Expect) {
    let extension = format!(
        r#"
        import * as ai from "@earendil-works/pi-ai";
        const log = (...said) => console.log(said.join(" "));
        export default () => {{ {body} }};"#
    );
    let stage = Stage::play(&[("ext.ts", &extension)]).await;
    let said = stage.log();
    let said: Vec<&str> = said.lines().filter_map(|line| line.strip_prefix("Info: ")).collect();
    expect.assert_eq(&said.join("\n"));
}

#[tokio::test]
async fn thinking_levels() {
    check(
        r#"
        const all = ["off", "minimal", "low", "medium", "high", "xhigh", "max"];
        for (const model of [
            { reasoning: false },
            { reasoning: true },
            { reasoning: true, thinkingLevelMap: { xhigh: "xhigh" } },
            { reasoning: true, thinkingLevelMap: { off: null, minimal: null, max: "max" } },
            { reasoning: true, thinkingLevelMap: { low: null, medium: null, high: null } },
            { reasoning: true, thinkingLevelMap: { off: null, minimal: null, low: null, medium: null, high: "h" } },
        ]) {
            const clamped = all.map((level) => ai.clampThinkingLevel(model, level));
            log(...ai.getSupportedThinkingLevels(model), "|", ...clamped);
        }"#,
        expect![[r#"
            off | off off off off off off off
            off minimal low medium high | off minimal low medium high high high
            off minimal low medium high xhigh | off minimal low medium high xhigh xhigh
            low medium high max | low low low medium high max max
            off minimal | off minimal minimal minimal minimal minimal minimal
            high | high high high high high high high"#]],
    )
    .await;
}

#[tokio::test]
async fn costs_with_prices_of_longer_prompts() {
    check(
        r#"
        const cost = { input: 2, output: 10, cacheRead: 0.2, cacheWrite: 2.5, tiers: [
            { inputTokensAbove: 272000, input: 4, output: 15, cacheRead: 0.4, cacheWrite: 5 },
            { inputTokensAbove: 100000, input: 3, output: 12, cacheRead: 0.3, cacheWrite: 3 },
        ] };
        for (const usage of [
            { input: 100000, output: 10, cacheRead: 0, cacheWrite: 0 },
            { input: 100001, output: 1000, cacheRead: 0, cacheWrite: 0 },
            { input: 1000, output: 1000, cacheRead: 272000, cacheWrite: 0 },
            { input: 1000, output: 1000, cacheRead: 0, cacheWrite: 1000, cacheWrite1h: 600 },
        ]) {
            const held = (usage.cost = { input: -1 });
            const given = ai.calculateCost({ cost }, usage);
            log(JSON.stringify(given), given === held && usage.cost === held);
        }"#,
        expect![[r#"
            {"input":0.19999999999999998,"output":0.0001,"cacheRead":0,"cacheWrite":0,"total":0.20009999999999997} true
            {"input":0.300003,"output":0.012,"cacheRead":0,"cacheWrite":0,"total":0.31200300000000003} true
            {"input":0.004,"output":0.015000000000000001,"cacheRead":0.10880000000000001,"cacheWrite":0,"total":0.12780000000000002} true
            {"input":0.002,"output":0.01,"cacheRead":0,"cacheWrite":0.0034,"total":0.0154} true"#]],
    )
    .await;
}
