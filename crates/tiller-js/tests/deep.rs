//! Deeply nested sources and values. They are refused with an error; no stack overflows.
#![allow(clippy::unwrap_used)]

mod support;

use expect_test::{Expect, expect};
use serde_json::json;
use support::{Stage, quick_limits};
use tiller_js::hook::ToolCall;

const LEVELS: usize = 32_000;

fn nested(open: &str, close: &str) -> String {
    format!("{}1{}", open.repeat(LEVELS), close.repeat(LEVELS))
}

/// Loads an extension with these files and compares the first line of each error or log entry.
async fn check(files: &[(&str, &str)], expect: Expect) {
    let stage = Stage::set(files, quick_limits());
    let report = stage.load().await;
    for error in &report.errors {
        stage.host.note(format!("not loaded: {}", error.error));
    }
    stage.extensions.bind().await;
    stage.command("go").await;
    expect.assert_eq(&stage.log());
}

#[tokio::test]
async fn deeply_nested_source_is_refused() {
    let refused = || {
        expect![[r#"
            not loaded: Failed to load extension: DIR/ext.ts: nested more than 2000 levels deep
            no command go"#]]
    };
    for source in [nested("(", ")"), nested("[", "]"), nested("!", ""), nested("a=>", "")] {
        let source = format!("export default () => {source};");
        check(&[("ext.ts", &source)], refused()).await;
    }
}

#[tokio::test]
async fn deeply_nested_modules_are_refused() {
    let source = "import { createRequire } from 'node:module';
        const require = createRequire(import.meta.url);
        const attempts = {
            import: () => import('./deep.js'),
            require: () => require('./deep.cjs'),
            json: () => require('./deep.json'),
            package: () => import('./folder/index.js'),
            eval: () => (0, eval)('('.repeat(32000)),
            function: () => new Function('['.repeat(32000)),
            parse: () => JSON.parse('['.repeat(1e6)),
            expression: () => new RegExp('('.repeat(1e6)),
        };
        export default (pi) => pi.registerCommand('go', { handler: async () => {
            for (const [name, attempt] of Object.entries(attempts)) {
                try { await attempt(); console.log(name, 'went through'); } catch (error) { console.log(name, '-', error.message.split('\\n')[0]); }
            }
        } });";
    let (module, script) = (nested("(", ")"), format!("module.exports = {}", nested("[", "]")));
    let (json, package) = (nested("[", "]"), format!("{{\"x\": {}}}", nested("[", "]")));
    let files = [
        ("ext.js", source),
        ("deep.js", &module),
        ("deep.cjs", &script),
        ("deep.json", &json),
        ("folder/package.json", &package),
        ("folder/index.js", ""),
    ];
    check(&files, expect![[r#"
        Info: import - DIR/deep.js: nested more than 2000 levels deep
        Info: require - DIR/deep.cjs: nested more than 2000 levels deep
        Info: json - Maximum call stack size exceeded
        Info: package - Cannot find module './folder/index.js' from DIR/ext.js: JSONError { path: "DIR/folder/package.json", message: "recursion limit exceeded at line 1 column 133", line: 1, column: 133 }
        Info: eval - Maximum call stack size exceeded
        Info: function - Maximum call stack size exceeded
        Info: parse - Maximum call stack size exceeded
        Info: expression - too many captures"#]]).await;
}

#[tokio::test]
async fn deeply_nested_values_are_not_sent_to_the_host() {
    let source = "import { native } from 'tiller:host';
        const deep = (levels) => { let value = 1; for (let i = 0; i < levels; i++) value = [value]; return value; };
        const attempts = {
            entry: (pi) => pi.appendEntry('x', deep(32000)),
            shallower: (pi) => pi.appendEntry('x', deep(500)),
            text: () => native.sync('act', '['.repeat(32000)),
            start: async () => { const { ask } = await import('tiller:host'); await ask('request', { type: 'setModel', model: deep(500) }); },
            tool: (pi) => pi.registerTool({ name: 't', parameters: { type: 'object', x: deep(32000) } }),
            registered: () => native.sync('registered', `{\"extensions\":${'['.repeat(32000)}`),
            partial: () => native.sync('text.partialJson', JSON.stringify('['.repeat(32000))) && 'shown',
            arguments: () => native.sync('checkArguments', `{\"tool\":\"t\",\"schema\":${'{\"a\":'.repeat(32000)}`),
        };
        export default (pi) => {
            pi.on('tool_call', (event) => { event.input.deep = deep(500); });
            pi.registerCommand('go', { handler: async () => {
            for (const [name, attempt] of Object.entries(attempts)) {
                try { await attempt(pi); console.log(name, 'went through'); } catch (error) { console.log(name, '-', error.message.split('\\n')[0]); }
            }
        } }); };";
    check(
        &[("ext.js", source)],
        expect![[r#"
        Info: entry - Maximum call stack size exceeded
        Info: shallower - recursion limit exceeded at line 1 column 173
        Info: text - invalid type: sequence, expected variant identifier at line 1 column 1
        Info: start - recursion limit exceeded at line 1 column 154
        Info: tool - Maximum call stack size exceeded
        Info: registered - invalid type: sequence, expected u32 at line 1 column 16
        Info: partial went through
        Info: arguments - recursion limit exceeded at line 1 column 652"#]],
    )
    .await;
    let stage = Stage::set(&[("ext.js", source)], quick_limits());
    stage.load().await;
    stage.extensions.bind().await;
    let call = ToolCall { tool_call_id: "c".into(), tool_name: "bash".into(), input: json!({}) };
    let refused = stage.extensions.run_hook(call).await;
    assert!(refused.is_err());
}
