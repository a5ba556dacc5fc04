//! The functions of pi's packages.
#![allow(clippy::unwrap_used)]

mod support;

use expect_test::{Expect, expect};
use support::Stage;

/// Runs a command body and compares what it notifies.
async fn check(body: &str, expect: Expect) {
    let source = format!(
        r#"
        import * as pi from "@earendil-works/pi-coding-agent";
        import * as ai from "@earendil-works/pi-ai";
        import * as tui from "@earendil-works/pi-tui";
        const show = (...values) => console.log(values.map((value) => JSON.stringify(value)).join(" "));
        const tried = (work) => {{ try {{ return work(); }} catch (error) {{ return error.message; }} }};
        export default ({{ registerCommand }}) => registerCommand("go", {{ handler: async () => {{ {body} }} }});
        "#
    );
    let stage = Stage::play(&[("ext.ts", &source)]).await;
    stage.log();
    stage.command("go").await;
    expect.assert_eq(&stage.log());
}

#[tokio::test]
async fn front_matter_ends_at_a_line_that_begins_with_dashes() {
    check(
        r#"
        for (const text of ["---\na: x---y\nb: 1\n---\nbody\n", "--- \na: 1\n--- \nx", "---\n---\nx", "---\nno end", "text\n---\n"]) {
            show(pi.parseFrontmatter(text));
        }
        "#,
        expect![[r#"
            Info: {"frontmatter":{"a":"x---y","b":1},"body":"body"}
            Info: {"frontmatter":{"a":1},"body":"x"}
            Info: {"frontmatter":{},"body":"x"}
            Info: {"frontmatter":{},"body":"---\nno end"}
            Info: {"frontmatter":{},"body":"text\n---\n"}"#]],
    )
    .await;
}

#[tokio::test]
async fn front_matter_is_yaml_1_2() {
    check(
        r#"
        for (const head of ["version: 1.5\r\non: yes\r\nlist: [1.0, '2', 0x10]", "a: &x {b: 1}\nc: *x", "- one\n- two: |\n    text\n", "'q': >-\n  one\n  two"]) {
            show(pi.parseFrontmatter(`\uFEFF---\n${head}\n---\n`).frontmatter);
        }
        show(tried(() => pi.parseFrontmatter("---\na: 1\nb: use it: now\n---\n")));
        show(pi.stripFrontmatter("\uFEFFone\r\ntwo\r"), pi.stripFrontmatter("---\na: 1\n---\n\n body\n"));
        "#,
        expect![[r#"
            Info: {"version":1.5,"on":"yes","list":[1,"2",16]}
            Info: {"a":{"b":1},"c":{"b":1}}
            Info: ["one",{"two":"text\n"}]
            Info: {"q":"one two"}
            Info: "mapping values are not allowed in this context at line 3 column 10"
            Info: "one\ntwo\n" "body""#]],
    )
    .await;
}

#[tokio::test]
async fn text_is_truncated_to_lines_and_bytes() {
    check(
        r#"
        const shown = ({ content, truncatedBy, totalLines, maxLines, maxBytes }) => show(content, truncatedBy, totalLines, maxLines, maxBytes);
        shown(pi.truncateHead("a\nb\nc\n", { maxLines: 2 }));
        shown(pi.truncateTail("a\nb\nc\n", { maxLines: Infinity, maxBytes: 3 }));
        shown(pi.truncateHead("abc\n", { maxBytes: 3 }));
        show(pi.formatSize(512), pi.formatSize(1280), pi.formatSize(5 * 1024 * 1024));
        "#,
        expect![[r#"
            Info: "a\nb" "lines" 3 2 51200
            Info: "b\nc" "bytes" 3 null 3
            Info: "abc" "bytes" 1 2000 3
            Info: "512B" "1.3KB" "5.0MB""#]],
    )
    .await;
}

#[tokio::test]
async fn tool_arguments_are_converted_and_checked() {
    check(
        r#"
        const parameters = { type: "object", properties: { n: { type: "number" }, list: { type: "array", items: { type: "string" } },
            note: { type: "string" } }, required: ["n"] };
        const given = (args) => tried(() => ai.validateToolArguments({ name: "t", parameters }, { arguments: args }));
        show(given({ n: "5", list: "one", note: null }));
        show(given({ n: "five" }));
        "#,
        expect![[r#"
            Info: {"n":5,"list":["one"]}
            Info: "Validation failed for tool \"t\":\n  - n: must be number\n\nReceived arguments:\n{\n  \"n\": \"five\"\n}""#]],
    )
    .await;
}

#[tokio::test]
async fn messages_are_converted_for_the_model() {
    check(
        r#"
        const messages = [
            { role: "user", content: "hi", timestamp: 1 },
            { role: "bashExecution", command: "ls", output: "a", exitCode: 2, truncated: true, fullOutputPath: "/tmp/x", timestamp: 2 },
            { role: "bashExecution", command: "true", cancelled: true, timestamp: 3 },
            { role: "bashExecution", command: "pwd", excludeFromContext: true },
            { role: "custom", customType: "x", content: "note" },
            { role: "compactionSummary", summary: "We began.", timestamp: 4 },
            { role: "branchSummary", summary: "We strayed.", timestamp: NaN },
            { role: "notice", content: "left out" },
        ];
        const converted = pi.convertToLlm(messages);
        show(converted[0] === messages[0], converted.length);
        for (const { role, content, timestamp } of converted.slice(1)) show(role, content[0].text, timestamp ?? null);
        "#,
        expect![[r#"
            Info: true 6
            Info: "user" "Ran `ls`\n```\na\n```\n\nCommand exited with code 2\n\n[Output truncated. Full output: /tmp/x]" 2
            Info: "user" "Ran `true`\n(no output)\n\n(command cancelled)" 3
            Info: "user" "note" null
            Info: "user" "To save room, the conversation up to here was replaced with this summary of it:\n\n<summary>\nWe began.\n</summary>" 4
            Info: "user" "Before this point the conversation took another path and came back. What happened there:\n\n<summary>\nWe strayed.</summary>" null"#]],
    )
    .await;
}

#[tokio::test]
async fn a_context_is_built_from_entries() {
    check(
        r#"
        const at = { timestamp: "2026-01-01T00:00:00.000Z" };
        const entries = [
            { type: "message", id: "a", parentId: null, ...at, message: { role: "user", content: "hi" } },
            { type: "message", id: "b", parentId: "a", ...at, message: { role: "assistant", provider: "p", model: "m", content: [] } },
            { type: "model_change", id: "c", parentId: "b", ...at, provider: "q", modelId: "n" },
        ];
        for (const leaf of [undefined, null, "a", "b", "gone"]) {
            const { messages, model } = pi.buildSessionContext(entries, leaf);
            show(messages.length, model);
        }
        "#,
        expect![[r#"
            Info: 2 {"provider":"q","modelId":"n"}
            Info: 0 null
            Info: 1 null
            Info: 2 {"provider":"p","modelId":"m"}
            Info: 2 {"provider":"q","modelId":"n"}"#]],
    )
    .await;
}

#[tokio::test]
async fn compactions_and_edits_change_a_context() {
    check(
        r#"
        const message = (text) => ({ type: "message", message: { role: "user", content: text } });
        const entries = [
            message("one"), message("two"), { type: "compaction", summary: "first", firstKeptEntryId: "1" },
            message("three"), { type: "context_edit", targetId: "1", replacement: { content: "new two" } },
            { type: "context_edit", targetId: "3", replacement: null }, { type: "label", targetId: "0", label: "x" },
            { type: "compaction", summary: "second", firstKeptEntryId: "1" }, message("four"),
        ].map((entry, at) => ({ id: String(at), parentId: at > 0 ? String(at - 1) : null, timestamp: "2026-01-01T00:00:00.000Z", ...entry }));
        for (const leaf of ["2", "3", "8"]) {
            show(pi.buildSessionContext(entries, leaf).messages.map(({ content, summary }) => content ?? summary));
        }
        "#,
        expect![[r#"
            Info: ["first","two"]
            Info: ["first","two","three"]
            Info: ["second","new two","four"]"#]],
    )
    .await;
}

#[tokio::test]
async fn text_is_cut_to_a_width() {
    check(
        r#"
        show(tui.visibleWidth("⚡x"), tui.visibleWidth("日本"));
        show(tui.truncateToWidth("hello host", 5), tui.truncateToWidth("abc", 2), tui.truncateToWidth("abcdef", 3, ""));
        show(tui.truncateToWidth("日本語", 5, "…", true), tui.truncateToWidth("abc", 0), tui.truncateToWidth("abc", 5, "…", true));
        "#,
        expect![[r#"
            Info: 3 4
            Info: "he\u001b[0m...\u001b[0m" "\u001b[0m..\u001b[0m" "abc\u001b[0m"
            Info: "日本\u001b[0m…\u001b[0m" "" "abc  ""#]],
    )
    .await;
}

#[tokio::test]
async fn small_helpers_exist() {
    check(
        r#"
        show(pi.keyText("tui.select.cancel"), pi.keyHint("tui.select.confirm", "choose"), pi.keyText("nothing"));
        show(["src/Makefile", "Dockerfile", "a.jsx", "x"].map((path) => pi.getLanguageFromPath(path) ?? null));
        const stopped = { stopReason: "stop", usage: { input: 150, cacheRead: 60 } };
        show(ai.isContextOverflow(stopped, 200), ai.isContextOverflow(stopped, 300), ai.isContextOverflow(stopped));
        "#,
        expect![[r#"
            Info: "escape/ctrl+c" "enter choose" ""
            Info: ["makefile","dockerfile","javascript",null]
            Info: true false false"#]],
    )
    .await;
}

#[tokio::test]
async fn skills_are_loaded_from_the_given_folder() {
    check(
        r#"
        const operations = { exists: async (path) => path !== "/far/gone",
            glob: async (pattern, cwd, { limit }) => (pattern === "*.ts" ? [`${cwd}/one.ts`, "two.ts"].slice(0, limit) : []) };
        const find = async (args) => {
            try {
                const { content, details } = await pi.createFindTool("/far", { operations }).execute("1", args);
                show(content[0].text, details ?? null);
            } catch (error) {
                show(error.message);
            }
        };
        await find({ pattern: "*.ts" });
        await find({ pattern: "*.ts", path: "in", limit: 1 });
        await find({ pattern: "*.rs" });
        await find({ pattern: "*.ts", path: "gone" });
        "#,
        expect![[r#"
            Info: "one.ts\ntwo.ts" null
            Info: "one.ts\n\n[1 results limit reached. Use limit=2 for more, or refine pattern]" {"resultLimitReached":1}
            Info: "No files found matching pattern" null
            Info: "Path not found: /far/gone""#]],
    )
    .await;
}
