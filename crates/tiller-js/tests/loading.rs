//! Loading: TypeScript, modules, scripts, packages, and errors in them.
#![allow(clippy::unwrap_used)]

mod support;

use expect_test::{Expect, expect};
use support::Stage;

async fn check(files: &[(&str, &str)], expect: Expect) {
    let stage = Stage::play(files).await;
    expect.assert_eq(&stage.log());
}

#[tokio::test]
async fn the_smallest_extension() {
    check(
        &[("ext.ts", "export default function (pi: any) { console.log('hello', 1 + 1); }")],
        expect![[r#"
            Info: hello 2
            loaded ext.ts"#]],
    )
    .await;
}

#[tokio::test]
async fn modules_import_each_other() {
    check(
        &[
            (
                "ext.ts",
                r#"
                import { greet, type Name } from "./lib/greet.js";
                import * as all from "./lib/greet";
                import data from "./data.json" with { type: "json" };
                export default async (pi) => {
                    const late = await import("./lib/late.mts");
                    console.log(greet("you" as Name), Object.keys(all).join(), data.n, late.default);
                    console.log(import.meta.filename.endsWith("ext.ts"), import.meta.url.startsWith("file:///"));
                };"#,
            ),
            ("lib/greet.ts", "export type Name = string;\nexport enum Tone { Kind }\nexport const greet = (n: Name) => `hello ${n} ${Tone.Kind}`;\n"),
            ("lib/late.mts", "const x: number = await Promise.resolve(4);\nexport default x;\n"),
            ("data.json", r#"{"n": 3}"#),
        ],
        expect![[r#"
            Info: hello you 0 Tone,greet 3 4
            Info: true true
            loaded ext.ts"#]],
    )
    .await;
}

#[tokio::test]
async fn scripts_and_packages() {
    check(
        &[
            (
                "ext.ts",
                r#"
                import odd, { named } from "odd";
                import esm from "esm";
                import { sub } from "esm/sub";
                import * as whole from "odd";
                const path = require("node:path");
                export default () => {
                    console.log(odd.named, named, Object.keys(whole).sort().join());
                    console.log(esm, sub, path.basename(__filename), require("./data.json").n);
                    console.log(require("esm").default, typeof require.resolve("odd"));
                };"#,
            ),
            ("data.json", r#"{"n": 3}"#),
            ("node_modules/odd/package.json", r#"{"name": "odd", "main": "lib/index.js"}"#),
            ("node_modules/odd/lib/index.js", "const { inner } = require('./inner');\nexports.named = inner(1);\nObject.defineProperty(exports, 'other', { value: 2, enumerable: true });\n"),
            ("node_modules/odd/lib/inner.js", "module.exports = { inner: (n) => n + 1 };\n"),
            (
                "node_modules/esm/package.json",
                r#"{"name": "esm", "type": "module", "exports": {".": {"import": "./i.js", "require": "./r.cjs"}, "./sub": "./sub.js"}}"#,
            ),
            ("node_modules/esm/i.js", "export default 'imported';\n"),
            ("node_modules/esm/r.cjs", "module.exports = { default: 'required' };\n"),
            ("node_modules/esm/sub.js", "export const sub = 'below';\n"),
        ],
        expect![[r#"
            Info: 2 2 default,named,other
            Info: imported below ext.ts 3
            Info: required string
            loaded ext.ts"#]],
    )
    .await;
}

#[tokio::test]
async fn a_script_can_be_an_extension() {
    check(
        &[(
            "ext.js",
            "module.exports = function (pi) { pi.registerCommand('c', { handler() {} }); };\n",
        )],
        expect![[r#"
            loaded ext.js
            command /c None"#]],
    )
    .await;
}

#[tokio::test]
async fn missing_export_is_undefined_and_reported_once() {
    check(
        &[
            (
                "ext-1.ts",
                r#"
                import { DynamicBorder, NoSuchThing } from "@earendil-works/pi-coding-agent";
                import { readFileSync, noSuchFunction } from "node:fs";
                import { Missing } from "./lib.ts";
                export { Gone } from "./lib.ts";
                export default () => console.log(typeof DynamicBorder, typeof readFileSync, NoSuchThing, noSuchFunction, Missing);
                "#,
            ),
            ("ext-2.ts", "import { noSuchFunction } from 'fs'; export default () => console.log(noSuchFunction);"),
            ("lib.ts", "export const here = 1;\n"),
        ],
        expect![[r#"
            Warning: "@earendil-works/pi-coding-agent" has no export "NoSuchThing"; it is undefined
            Warning: "node:fs" has no export "noSuchFunction"; it is undefined
            Warning: "./lib.ts" has no export "Missing"; it is undefined
            Warning: "./lib.ts" has no export "Gone"; it is undefined
            Info: function function undefined undefined undefined
            Warning: "fs" has no export "noSuchFunction"; it is undefined
            Info: undefined
            loaded ext-1.ts
            loaded ext-2.ts"#]],
    )
    .await;
}

#[tokio::test]
async fn pi_packages_resolve_under_both_names() {
    check(
        &[(
            "ext.ts",
            r#"
            import { Type } from "@sinclair/typebox";
            import { Type as Same } from "typebox";
            import { StringEnum } from "@mariozechner/pi-ai";
            import { Text } from "@mariozechner/pi-tui";
            export default (pi) => {
                console.log(Type === Same, typeof Text);
                pi.registerTool({
                    name: "t", label: "T", description: "d",
                    parameters: Type.Object({ a: Type.String(), b: Type.Optional(StringEnum(["x", "y"])) }),
                    async execute() { return { content: [], details: {} }; },
                });
            };"#,
        )],
        expect![[r#"
            Info: true function
            loaded ext.ts
            tool t {"type":"object","required":["a"],"properties":{"a":{"type":"string"},"b":{"type":"string","enum":["x","y"]}}}"#]],
    )
    .await;
}

#[tokio::test]
async fn errors_have_the_authors_positions() {
    check(
        &[
            ("ext-1.ts", "const a = 1;\nconst b = ;\n"),
            ("ext-2.ts", "import 'no-such-package';\nexport default () => {};\n"),
            ("ext-3.ts", "export const notDefault = 1;\n"),
            ("ext-4.ts", "interface A { x: number }\n\ntype B = A;\nexport default function (pi: any) {\n  const a: B = undefined as any;\n  return a.x;\n}\n"),
            ("ext-5.ts", "export default async () => { await null; throw 'a string'; };\n"),
            ("ext-6.ts", "import x from './addon.node';\nexport default () => x;\n"),
            ("addon.node", ""),
            ("ext-7.ts", "import x from 'node:nothing';\nexport default () => x;\n"),
            ("ext-8.ts", "export default (pi) => pi.sendMessage({ customType: 'x', content: 'y' });\n"),
            ("ext-9.ts", "export default (pi) => console.log('still here');\n"),
        ],
        expect![[r#"
            Info: still here
            loaded ext-9.ts
            error Failed to load extension: DIR/ext-1.ts:2:11: Unexpected token
            error Failed to load extension: Cannot find module 'no-such-package'
            Require stack:
            - DIR/ext-2.ts
            error Extension does not export a valid factory function: DIR/ext-3.ts
            error Failed to load extension: cannot read property 'x' of undefined at DIR/ext-4.ts:6:10
            error Failed to load extension: a string
            error Failed to load extension: native addons cannot run inside tiller: DIR/addon.node; sidecars are turned off in the settings
            error Failed to load extension: No such built-in module: node:nothing
            error Failed to load extension: Extension runtime not initialized. Action methods cannot be called during extension loading. at DIR/ext-8.ts:1:24"#]],
    )
    .await;
}

#[tokio::test]
async fn modules_belong_to_one_extension() {
    let counts = "import { count } from './count';\nexport default () => console.log(count(), (globalThis.shared = (globalThis.shared ?? 0) + 1));\n";
    check(
        &[
            ("ext-1.ts", counts),
            ("ext-2.ts", counts),
            ("count.ts", "let n = 0;\nexport const count = () => ++n;\n"),
        ],
        expect![[r#"
            Info: 1 1
            Info: 1 2
            loaded ext-1.ts
            loaded ext-2.ts"#]],
    )
    .await;
}

#[tokio::test]
async fn import_cycles_load() {
    check(
        &[
            ("ext.ts", "import { a } from './a';\nexport default () => console.log(a());\n"),
            ("a.ts", "import { b } from './b';\nexport const a = () => 'a' + b();\nexport const late = () => 'late';\n"),
            ("b.ts", "import { late } from './a';\nimport { createRequire } from 'node:module';\nlet caught = '';\ntry { createRequire(import.meta.url)('./a.ts'); } catch (error) { caught = error.message.replace(/ \\/.*\\//, ' '); }\nexport const b = () => 'b' + late() + caught;\n"),
        ],
        expect![[r#"
            Info: ablateCannot require() ES Module a.ts?1 in a cycle
            loaded ext.ts"#]],
    )
    .await;
}

#[tokio::test]
async fn name_conflicts_are_reported() {
    let both = r#"export default (pi) => {
        const tool = { name: "t", label: "T", description: "d", parameters: { type: "object" }, execute() {} };
        pi.registerTool(tool);
        pi.registerCommand("c", { description: "x", handler() {} });
        pi.registerFlag("f", { type: "boolean", default: false });
    };"#;
    check(
        &[("ext-1.js", both), ("ext-2.js", both)],
        expect![[r#"
        loaded ext-1.js
        loaded ext-2.js
        tool t {"type":"object"}
        command /c:1 Some("x")
        command /c:2 Some("x")
        flag --f Boolean Some(Bool(false))
        error Tool "t" conflicts with DIR/ext-1.js
        error Flag "--f" conflicts with DIR/ext-1.js"#]],
    )
    .await;
}
