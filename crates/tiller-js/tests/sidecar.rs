//! Extensions in a node sidecar. Skipped without a node that is new enough; `peer.rs` tests the
//! sidecar protocol without node.
#![allow(clippy::unwrap_used)]

mod support;

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use expect_test::{Expect, expect};
use serde_json::json;
use support::{Stage, quick_limits, shown, skip};
use tiller_agent::tool::ToolContext;
use tiller_js::event::{Event, StartReason};
use tiller_js::hook::ToolCall;
use tiller_js::{EngineChoice, Extension, Extensions, Limits, Permissions, Runtime};
use tokio_util::sync::CancellationToken;

/// The `PATH`, if it contains a node that can be a sidecar.
fn path_with_node() -> Option<String> {
    skip::has_node().then(|| std::env::var("PATH").ok())?
}

/// Bun loads modules differently, so a little of everything is tested there too.
#[tokio::test]
async fn bun_runs_extensions() {
    if Command::new("bun").arg("--version").output().is_err() {
        skip::skip("SIDECAR", "there is no bun");
        return;
    }
    let path = std::env::var("PATH").unwrap();
    let files = [
        (
            "ext.ts",
            r#"
            import { Type } from "typebox";
            import { uuidv7 } from "@earendil-works/pi-ai";
            import { greet } from "./lib/greet.js";
            import old from "./old.cjs";
            enum Word { One = "one" }
            export default (pi) => {
                console.log(typeof Bun, greet(Word.One), old, typeof Type.Object, typeof uuidv7);
                pi.registerCommand("ask", {
                    handler: async (args, ctx) => {
                        const { stdout } = await pi.exec("echo", ["out"]);
                        ctx.ui.notify(`${await ctx.ui.input("Which?")} ${stdout.trim()}`);
                        throw new Error("no good");
                    },
                });
                pi.on("tool_call", ({ input: { command } }) => {
                    if (command === "loop") for (;;);
                    return { block: true, reason: "asked" };
                });
            };"#,
        ),
        ("lib/greet.ts", "export const greet = (name: string) => `hello ${name}`;"),
        ("old.cjs", "module.exports = typeof require('@sinclair/typebox').Type.String;"),
    ];
    let stage = Stage::set_with(&files, quick_limits(), true, path);
    let one = Extension::new(stage.dir.path().join("ext.ts"));
    let one = Extension { engine: EngineChoice::Sidecar(Runtime::Bun), ..one };
    let report = stage.extensions.load(&[one]).await;
    stage.host.note(shown(&report, &stage));
    stage.extensions.bind().await;
    *stage.host.answers.lock().unwrap() = vec!["blue".into()];
    stage.command("ask").await;
    for command in ["ls", "loop", "ls"] {
        stage.host.note(verdict(&stage.extensions, command).await);
    }
    expect![[r#"
        Info: object hello one function function function
        loaded ext.ts tool_call×1
        command /ask None
        dialog {"method":"input","title":"Which?"}
        notice {"method":"notify","message":"blue out"}
        extension_error command:ask command: no good at DIR/ext.ts:13:35
        Some("asked") None
        extension_error ext.ts tool_call: stopped after 400 ms of work without a pause
        refused: stopped after 400 ms
        Info: object hello one function function function
        Some("asked") None"#]]
    .assert_eq(&stage.log());
}

/// A stage with the extensions loaded, each in the engine that suits it.
async fn play(files: &[(&str, &str)]) -> Option<Stage> {
    play_within(quick_limits(), files).await
}

async fn play_within(limits: Limits, files: &[(&str, &str)]) -> Option<Stage> {
    let stage = Stage::set_with(files, limits, true, path_with_node()?);
    let report = stage.load().await;
    stage.host.note(shown(&report, &stage));
    stage.extensions.bind().await;
    Some(stage)
}

async fn check(files: &[(&str, &str)], expect: Expect) {
    if let Some(stage) = play(files).await {
        expect.assert_eq(&stage.log());
    }
}

const DATABASE: &str = r#"
    import { DatabaseSync } from "node:sqlite";
    import type { ExtensionAPI } from "@earendil-works/pi-coding-agent";
    import { Type } from "typebox";
    enum Table { Words = "words" }
    export default function (pi: ExtensionAPI) {
        const db = new DatabaseSync(":memory:");
        db.exec(`create table ${Table.Words} (word text)`);
        pi.registerTool({
            name: "remember",
            description: "Keep a word",
            parameters: Type.Object({ word: Type.String() }),
            async execute(id, { word }, signal, onUpdate) {
                onUpdate({ content: [{ type: "text", text: "..." }] });
                db.prepare("insert into words values (?)").run(word);
                const { n } = db.prepare("select count(*) as n from words").get();
                return { content: [{ type: "text", text: `${n} kept` }], details: { n } };
            },
        });
        pi.registerCommand("ask", {
            description: "Ask",
            handler: async (args, ctx) => {
                const said = await ctx.ui.input("Which?", "a word");
                ctx.ui.notify(`${said} in ${ctx.cwd === process.cwd()}`);
                pi.appendEntry("word", { said });
                const { stdout, code } = await pi.exec("echo", ["one", "two"]);
                console.log(stdout.trim(), code, await pi.setModel({ id: "m" }));
            },
        });
        pi.on("tool_call", (event) => {
            if (event.input.command?.includes("rm")) return { block: true, reason: "no" };
            event.input.seen = true;
        });
    }"#;

/// The outcome of a `tool_call` hook, as text.
async fn verdict(extensions: &Extensions, command: &str) -> String {
    let call = ToolCall {
        tool_call_id: "c1".into(),
        tool_name: "bash".into(),
        input: json!({ "command": command }),
    };
    match extensions.run_hook(call).await {
        Ok(verdict) => format!("{:?} {:?}", verdict.block, verdict.input.map(|it| it.to_string())),
        Err(refused) => format!("refused: {}", refused.reason),
    }
}

#[tokio::test]
async fn extension_that_needs_sqlite_runs_in_a_sidecar() {
    let Some(stage) = play(&[("ext.ts", DATABASE)]).await else { return };
    *stage.host.answers.lock().unwrap() = vec!["blue".into()];
    stage.command("ask").await;
    for command in ["rm x", "ls"] {
        stage.host.note(verdict(&stage.extensions, command).await);
    }
    let tools = stage.extensions.registrations().tools;
    let arguments = json!({"word": "blue"}).as_object().unwrap().clone();
    let (cx, _shown) = ToolContext::new(
        Arc::new(stage.dir.path().to_owned()),
        CancellationToken::new(),
        false,
        Arc::new([]),
    );
    let result = tools[0].tool.run(arguments, cx).await.unwrap();
    stage.host.note(format!("{:?} {:?}", result.content, result.details));
    expect![[r#"
        loaded ext.ts tool_call×1
        tool remember {"type":"object","required":["word"],"properties":{"word":{"type":"string"}}}
        command /ask Some("Ask")
        dialog {"method":"input","title":"Which?","placeholder":"a word"}
        notice {"method":"notify","message":"blue in true"}
        act AppendEntry { custom_type: "word", data: Some(Object {"said": String("blue")}) }
        request SetModel { model: Object {"id": String("m")} }
        Info: one two 0 true
        Some("no") None
        None Some("{\"command\":\"ls\",\"seen\":true}")
        [Text { text: "1 kept", text_signature: None }] Some(Object {"n": Number(1)})"#]]
    .assert_eq(&stage.log());
}

#[tokio::test]
async fn missing_features_are_found_while_loading() {
    check(
        &[
            (
                "ext1-wasm.ts",
                r#"
                const empty = new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0]);
                export default async () => {
                    const { instance } = await WebAssembly.instantiate(empty);
                    console.log("wasm", Object.keys(instance.exports).length);
                };"#,
            ),
            (
                "ext2-worker.ts",
                r#"
                import { Worker } from "node:worker_threads";
                export default async () => {
                    const worker = new Worker("require('worker_threads').parentPort.postMessage(6 * 7)", { eval: true });
                    console.log("worker", await new Promise((resolve) => worker.once("message", resolve)));
                };"#,
            ),
            ("ext3-plain.ts", "export default () => console.log('plain', process.version);"),
        ],
        expect![[r#"
            Info: wasm 0
            Info: worker 42
            Info: plain v24.0.0
            loaded ext1-wasm.ts
            loaded ext2-worker.ts
            loaded ext3-plain.ts"#]],
    )
    .await;
}

#[tokio::test]
async fn modules_load_as_in_the_embedded_engine() {
    check(
        &[
            (
                "ext.ts",
                r#"
                import "node:sqlite";
                import { greet, missing } from "./lib/greet.js";
                import data, { n } from "./data.json" with { type: "json" };
                import pack, { named, nothing } from "pack";
                import { Text, NoSuchThing } from "@earendil-works/pi-tui";
                import { fileURLToPath } from "node:url";
                import { uuidv7 } from "@mariozechner/pi-ai";
                export default async (pi) => {
                    const late = await import("./lib/late.mts");
                    console.log(greet("you"), missing, data.n, n, pack.named, named, nothing, late.default);
                    console.log(typeof Text, NoSuchThing, typeof uuidv7);
                    console.log(fileURLToPath(import.meta.url) === import.meta.filename, __filename === import.meta.filename);
                    console.log(require("./old.cjs"), require("./typed"), typeof require("typebox").Type.Object);
                };"#,
            ),
            ("data.json", r#"{"n": 7}"#),
            ("old.cjs", "module.exports = 'old ' + require('./old2');"),
            ("old2.js", "module.exports = 2;"),
            ("typed.ts", "const n: number = 3; export default n;"),
            ("lib/greet.ts", "export const greet = (name: string): string => `hello ${name}`;"),
            ("lib/late.mts", "enum Late { Yes = 'late' } export default Late.Yes;"),
            ("node_modules/pack/package.json", r#"{"main": "main.js"}"#),
            ("node_modules/pack/main.js", "const { Type } = require('@sinclair/typebox'); exports.named = typeof Type.String;"),
        ],
        expect![[r#"
            Warning: "./lib/greet.js" has no export "missing"; it is undefined
            Warning: "@earendil-works/pi-tui" has no export "NoSuchThing"; it is undefined
            Info: hello you undefined 7 7 function function undefined late
            Info: function undefined function
            Info: true true
            Info: old 2 [Module: null prototype] { __esModule: true, default: 3 } function
            loaded ext.ts"#]],
    )
    .await;
}

#[tokio::test]
async fn sidecar_errors_have_the_authors_positions() {
    let files = [(
        "ext.ts",
        "import 'node:sqlite';\ninterface Nothing {}\n\nexport default (pi) => {\n\tpi.registerCommand('go', { handler: async () => {\n\t\tawait null;\n\t\tthrow new Error('no good');\n\t} });\n\tpi.on('session_start', () => {\n\t\tsetTimeout(() => { throw new Error('late'); }, 1);\n\t\tPromise.reject(new Error('alone'));\n\t\tprocess.exit(1);\n\t});\n};",
    )];
    let Some(stage) = play(&files).await else { return };
    stage.command("go").await;
    let start = Event::SessionStart { reason: StartReason::Startup, previous_session_file: None };
    stage.extensions.emit_and_wait(&start).await;
    stage.host.wait_for("late").await;
    expect![[r#"
        command /go None
        extension_error command:go command: no good at DIR/ext.ts:7:9
        extension_error ext.ts session_start: process.exit() is not available to extensions; ctx.shutdown() asks for the end at DIR/ext.ts:12:11
        extension_error ext.ts uncaught_exception: late at DIR/ext.ts:10:28
        extension_error ext.ts unhandled_rejection: alone at DIR/ext.ts:11:18
        loaded ext.ts session_start×1"#]].assert_eq(&stage.sorted_log());
}

/// A hook that loops, before and after an `await`, and a process that exits: each time the sidecar
/// is restarted and the guarded call is blocked.
#[tokio::test]
async fn stuck_or_exited_sidecar_is_restarted() {
    let limits = Limits { slice: Duration::from_millis(400), violations: 9, ..quick_limits() };
    let source = r#"
        import "node:sqlite";
        export default (pi) => pi.on("tool_call", async ({ input: { command } }) => {
            if (command === "loop") for (;;);
            if (command === "later") { await new Promise((resolve) => setTimeout(resolve, 5)); for (;;); }
            if (command === "die") process.kill(process.pid, "SIGKILL");
            if (command === "wait") (await import("node:child_process")).execSync("sleep 1");
            return { block: true, reason: "asked" };
        });"#;
    let Some(stage) = play_within(limits, &[("ext.ts", source)]).await else { return };
    for command in ["loop", "ls", "later", "ls", "die", "ls", "wait"] {
        let verdict = verdict(&stage.extensions, command).await;
        stage.host.note(format!("{command}: {verdict}"));
    }
    expect![[r#"
        loaded ext.ts tool_call×1
        extension_error ext.ts tool_call: stopped after 400 ms of work without a pause
        loop: refused: stopped after 400 ms
        ls: Some("asked") None
        extension_error ext.ts tool_call: stopped after 400 ms of work without a pause
        later: refused: stopped after 400 ms
        ls: Some("asked") None
        extension_error ext.ts sidecar: node was ended by signal 9
        die: refused: node was ended by signal 9
        ls: Some("asked") None
        wait: Some("asked") None"#]]
    .assert_eq(&stage.log());
}

#[tokio::test]
async fn sidecar_that_keeps_failing_is_abandoned_and_its_guard_blocks() {
    let source = r#"
        import "node:sqlite";
        export default (pi) => {
            pi.registerCommand("die", { handler: () => process.kill(process.pid, "SIGKILL") });
            pi.on("tool_call", () => {});
            pi.on("session_start", () => console.log("started"));
        };"#;
    let Some(stage) = play(&[("ext.ts", source)]).await else { return };
    for _ in 0..3 {
        stage.command("die").await;
    }
    stage.host.note(verdict(&stage.extensions, "ls").await);
    stage.host.note(format!("{} commands", stage.extensions.registrations().commands.len()));
    expect![[r#"
        loaded ext.ts tool_call×1 session_start×1
        command /die None
        extension_error ext.ts sidecar: node was ended by signal 9
        extension_error command:die command: node was ended by signal 9
        Info: started
        extension_error ext.ts sidecar: node was ended by signal 9
        extension_error command:die command: node was ended by signal 9
        Info: started
        extension_error ext.ts sidecar: node was ended by signal 9
        changed
        extension_error <runtime> restart: given up: node was ended by signal 9 (3 times within a minute)
        extension_error command:die command: node was ended by signal 9
        refused: the extension DIR/ext.ts, which guards this, is gone
        0 commands"#]]
    .assert_eq(&stage.log());
}

#[tokio::test]
async fn exit_while_loading_does_not_affect_other_extensions() {
    check(
        &[
            (
                "ext1.ts",
                "import 'node:sqlite'; export default (pi) => pi.on('agent_start', () => {});",
            ),
            (
                "ext2.ts",
                "import 'node:sqlite'; export default () => process.kill(process.pid, 'SIGKILL');",
            ),
            (
                "ext3.ts",
                "import 'node:sqlite'; export default (pi) => pi.on('agent_end', () => {});",
            ),
        ],
        expect![[r#"
            extension_error ext2.ts sidecar: node was ended by signal 9
            loaded ext1.ts agent_start×1
            loaded ext3.ts agent_end×1
            error Failed to load extension: node was ended by signal 9"#]],
    )
    .await;
}

/// What an extension or its children print is not part of the protocol.
#[tokio::test]
async fn sidecar_output_is_logged_and_input_is_empty() {
    let files = [(
        "ext.ts",
        r#"
        import "node:sqlite";
        import { spawnSync } from "node:child_process";
        export default () => {
            process.stdout.write('{"type":"reply","call":1,"json":"null"}\n');
            spawnSync("sh", ["-c", "cat; echo from below"], { stdio: "inherit" });
        };"#,
    )];
    let Some(stage) = play(&files).await else { return };
    stage.host.wait_for("from below").await;
    expect![[r#"
        Info: from below
        Info: {"type":"reply","call":1,"json":"null"}
        loaded ext.ts"#]]
    .assert_eq(&stage.sorted_log());
}

#[tokio::test]
async fn settings_override_the_engine_choice() {
    let Some(path) = path_with_node() else { return };
    let source =
        "import 'node:sqlite'; export default () => console.log(process.versions.v8 !== '0.0.0');";
    let stage = Stage::set_with(&[("ext.ts", source)], quick_limits(), true, path);
    let one = Extension::new(stage.dir.path().join("ext.ts"));
    let denied = Permissions { net: false, exec: false, ..Permissions::ALL };
    let all = [
        one.clone(),
        Extension { isolate: true, ..one.clone() },
        Extension { engine: EngineChoice::Embedded, ..one.clone() },
        Extension { engine: EngineChoice::Sidecar(Runtime::Node), ..one.clone() },
        Extension { permissions: denied, ..one.clone() },
        Extension { engine: EngineChoice::Sidecar(Runtime::Node), permissions: denied, ..one },
    ];
    let report = stage.extensions.load(&all).await;
    for error in report.errors {
        stage.host.note(error.error);
    }
    expect![[r#"
        Info: true
        Info: true
        Info: false
        Info: true
        Info: false
        Failed to load extension: a sidecar cannot be kept from what the settings deny it: exec, net"#]].assert_eq(&stage.log());
}
