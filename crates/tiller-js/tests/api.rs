//! What an extension can do through `pi` and `ctx`.
#![allow(clippy::unwrap_used)]

mod support;

use std::sync::Arc;

use expect_test::{Expect, expect};
use serde_json::{Value, json};
use support::Stage;
use tiller_agent::tool::{ToolContext, ToolOutput};
use tokio_util::sync::CancellationToken;

/// Runs a command body and compares what is recorded.
async fn check(body: &str, expect: Expect) {
    check_with(body, &[], expect).await;
}

async fn check_with(body: &str, answers: &[Value], expect: Expect) {
    let source = format!(
        "export default (pi) => pi.registerCommand('go', {{ handler: async (args, ctx) => {{ {body} }} }});"
    );
    let stage = Stage::play(&[("ext.ts", &source)]).await;
    stage.host.answers.lock().unwrap().extend_from_slice(answers);
    stage.log();
    stage.command("go").await;
    expect.assert_eq(&stage.log());
}

#[tokio::test]
async fn messages_and_entries() {
    check(
        r#"
        pi.sendMessage({ customType: "note", content: "hi", display: true }, { triggerTurn: true, deliverAs: "followUp" });
        pi.sendMessage({ customType: "note", display: false, details: { a: 1 } });
        pi.sendUserMessage("do it", { deliverAs: "steer" });
        pi.sendUserMessage([{ type: "text", text: "both" }]);
        pi.appendEntry("state", { n: 1 });
        console.log(ctx.sessionManager.getEntries());
        pi.setSessionName("new name");
        console.log(pi.getSessionName(), ctx.sessionManager.getSessionId());
        pi.setLabel("e1", "mark");
        pi.setActiveTools(["read"]);
        console.log(pi.getActiveTools(), pi.getAllTools().length, pi.getCommands());
        pi.setThinkingLevel("high");
        console.log(pi.getThinkingLevel(), await pi.setModel(ctx.model));
        "#,
        expect![[r#"
            act SendMessage { message: Object {"customType": String("note"), "content": String("hi"), "display": Bool(true)}, trigger_turn: Some(true), deliver_as: Some(FollowUp) }
            act SendMessage { message: Object {"customType": String("note"), "content": Array [], "display": Bool(false), "details": Object {"a": Number(1)}}, trigger_turn: None, deliver_as: None }
            act SendUserMessage { content: String("do it"), deliver_as: Some(Steer), expand_prompt_templates: false }
            act SendUserMessage { content: Array [Object {"type": String("text"), "text": String("both")}], deliver_as: None, expand_prompt_templates: false }
            act AppendEntry { custom_type: "state", data: Some(Object {"n": Number(1)}) }
            Info: [ { type: 'custom', customType: 'state', data: { n: 1 } } ]
            act SetSessionName { name: "new name" }
            Info: undefined session-1
            act SetLabel { entry_id: "e1", label: Some("mark") }
            act SetActiveTools { names: ["read"] }
            Info: [ 'read', 'bash' ] 2 []
            act SetThinkingLevel { level: "high" }
            request SetModel { model: Object {"provider": String("p"), "id": String("m"), "name": String("M")} }
            Info: medium true"#]],
    )
    .await;
}

#[tokio::test]
async fn ctx_reads_session_and_model_state() {
    check(
        r#"
        console.log(ctx.cwd === process.cwd(), ctx.mode, ctx.hasUI, ctx.isIdle(), ctx.isProjectTrusted(), ctx.hasPendingMessages());
        console.log(ctx.model, ctx.thinkingLevel, ctx.scopedModels, ctx.getContextUsage(), ctx.getSystemPrompt());
        console.log(ctx.modelRegistry.find("p", "m"), ctx.modelRegistry.find("q", "m"), ctx.modelRegistry.getAvailable().length);
        console.log(ctx.modelRegistry.hasConfiguredAuth(ctx.model), await ctx.modelRegistry.getApiKeyAndHeaders(ctx.model), await ctx.modelRegistry.getApiKey(ctx.model));
        console.log(ctx.signal, ctx.sessionManager.getLeafId(), ctx.sessionManager.getSessionFile(), ctx.sessionManager.getBranch());
        ctx.abort(); ctx.shutdown();
        await ctx.waitForIdle();
        await new Promise((done) => ctx.compact({ customInstructions: "short", onError: (error) => { console.log(error.message); done(); } }));
        "#,
        expect![[r#"
            Info: true rpc true true true false
            Info: { provider: 'p', id: 'm', name: 'M' } medium [] { tokens: 10, contextWindow: 100, percent: 10 } You are helpful.
            Info: { provider: 'p', id: 'm' } undefined 1
            request ApiKeyAndHeaders { model: Object {"provider": String("p"), "id": String("m"), "name": String("M")} }
            request ApiKeyAndHeaders { model: Object {"provider": String("p"), "id": String("m"), "name": String("M")} }
            Info: true { ok: true, apiKey: 'k' } k
            Info: undefined e1 undefined []
            act Abort
            act Shutdown
            request WaitForIdle
            request Compact { custom_instructions: Some("short") }
            Info: nothing to compact"#]],
    )
    .await;
}

#[tokio::test]
async fn dialogs() {
    check_with(
        r#"
        console.log(await ctx.ui.select("Pick", ["a", "b"], { timeout: 500 }));
        console.log(await ctx.ui.confirm("Sure?", "really"));
        console.log(await ctx.ui.input("Name", "you"), await ctx.ui.editor("Text", "old"));
        console.log(await ctx.ui.select("Nobody", ["x"]), await ctx.ui.confirm("Nobody", "?"));
        const stop = new AbortController();
        const waits = ctx.ui.input("Never", undefined, { signal: stop.signal });
        stop.abort();
        console.log(await waits, await ctx.ui.confirm("Late", "", { signal: stop.signal }));
        "#,
        &[
            "b".into(),
            true.into(),
            "me".into(),
            "new".into(),
            Value::Null,
            false.into(),
            "(never)".into(),
        ],
        expect![[r#"
            dialog {"method":"select","title":"Pick","options":["a","b"],"timeout":500}
            Info: b
            dialog {"method":"confirm","title":"Sure?","message":"really"}
            Info: true
            dialog {"method":"input","title":"Name","placeholder":"you"}
            dialog {"method":"editor","title":"Text","prefill":"old"}
            Info: me new
            dialog {"method":"select","title":"Nobody","options":["x"]}
            dialog {"method":"confirm","title":"Nobody","message":"?"}
            Info: undefined false
            dialog {"method":"input","title":"Never"}
            Info: undefined false"#]],
    )
    .await;
}

#[tokio::test]
async fn opening_and_closing_a_dialog_emits_events() {
    let stage = Stage::play(&[(
        "ext.ts",
        r#"export default (pi) => {
            pi.on("ui_prompt_start", (e) => console.log("start", e.kind, e.title));
            pi.on("ui_prompt_end", (e) => console.log("end", e.kind));
            pi.registerCommand("go", { handler: async (args, ctx) => { await Promise.all([ctx.ui.input("One"), ctx.ui.input("Two")]); } });
        };"#,
    )])
    .await;
    stage.log();
    stage.command("go").await;
    stage.command("go").await;
    expect![[r#"
        dialog {"method":"input","title":"One"}
        dialog {"method":"input","title":"Two"}
        Info: start input One
        Info: end input
        dialog {"method":"input","title":"One"}
        dialog {"method":"input","title":"Two"}
        Info: start input One
        Info: end input"#]]
    .assert_eq(&stage.log());
}

#[tokio::test]
async fn notices_are_shown_and_terminal_features_do_nothing() {
    check(
        r#"
        ctx.ui.notify("hello", "warning"); ctx.ui.notify("plain");
        ctx.ui.setStatus("k", ctx.ui.theme.fg("accent", "busy")); ctx.ui.setStatus("k", undefined);
        ctx.ui.setWidget("w", ["1", "2"], { placement: "belowEditor" }); ctx.ui.setWidget("w", undefined); ctx.ui.setWidget("f", () => ({}));
        ctx.ui.setTitle("t"); ctx.ui.setEditorText("e"); ctx.ui.pasteToEditor("p");
        ctx.ui.setWorkingMessage("x"); ctx.ui.setFooter(() => {}); ctx.ui.setHeader(undefined); ctx.ui.setEditorComponent(undefined);
        console.log(ctx.ui.getEditorText() === "", await ctx.ui.custom(() => { throw 1; }), typeof ctx.ui.onTerminalInput(() => {}), ctx.ui.getToolsExpanded());
        console.log(ctx.ui.getAllThemes(), ctx.ui.getTheme("x"), ctx.ui.setTheme("x"));
        "#,
        expect![[r#"
            notice {"method":"notify","message":"hello","notifyType":"warning"}
            notice {"method":"notify","message":"plain"}
            notice {"method":"setStatus","statusKey":"k","statusText":"busy"}
            notice {"method":"setStatus","statusKey":"k"}
            notice {"method":"setWidget","widgetKey":"w","widgetLines":["1","2"],"widgetPlacement":"belowEditor"}
            notice {"method":"setWidget","widgetKey":"w"}
            notice {"method":"setTitle","title":"t"}
            notice {"method":"set_editor_text","text":"e"}
            notice {"method":"set_editor_text","text":"p"}
            Info: true undefined function false
            Info: [] undefined { success: false, error: 'Theme switching not supported in RPC mode' }"#]],
    )
    .await;
}

#[tokio::test]
async fn exec_runs_commands_and_reports_failures() {
    check(
        r#"
        console.log(await pi.exec("sh", ["-c", "echo out; echo err >&2; exit 3"]));
        console.log(await pi.exec("no-such-program", []));
        console.log(await pi.exec("sleep", ["10"], { timeout: 50 }));
        const stop = new AbortController();
        setTimeout(() => stop.abort(), 20);
        console.log((await pi.exec("sleep", ["10"], { signal: stop.signal })).killed);
        console.log((await pi.exec("pwd", [], { cwd: "/" })).stdout);
        "#,
        expect![[r#"
            Info: { stdout: 'out\n', stderr: 'err\n', code: 3, killed: false }
            Info: { stdout: '', stderr: 'spawn no-such-program ENOENT', code: 1, killed: false }
            Info: { stdout: '', stderr: '', code: 0, killed: true }
            Info: true
            Info: /
        "#]],
    )
    .await;
}

#[tokio::test]
async fn extension_requests_a_model() {
    check(
        r#"
        const { complete } = await import("@earendil-works/pi-ai");
        const answer = await complete(ctx.model, { messages: [{ role: "user", content: "?" }] }, { apiKey: "k" });
        console.log(answer.content[0].text);
        for await (const event of ctx.modelRegistry.stream(ctx.model, { messages: [] })) console.log(event.type);
        console.log((await ctx.modelRegistry.complete(ctx.model, { messages: [] })).stopReason);
        "#,
        expect![[r#"
            model "m" {"messages":[{"role":"user","content":"?"}]}
            Info: yes
            model "m" {"messages":[]}
            Info: start
            Info: done
            model "m" {"messages":[]}
            Info: stop"#]],
    )
    .await;
}

#[tokio::test]
async fn throwing_command_is_reported() {
    check("await null;\nctx.nothing.here();", expect!["extension_error command:go command: cannot read property 'here' of undefined at DIR/ext.ts:2:1"]).await;
}

#[tokio::test]
async fn bus_delivers_events_in_one_engine() {
    let stage = Stage::play(&[
        ("ext-1.ts", "export default (pi) => { pi.events.on('ping', (data) => pi.events.emit('pong', data + 1)); pi.events.on('ping', () => { throw new Error('bad listener'); }); };"),
        ("ext-2.ts", "export default (pi) => { const off = pi.events.on('pong', (data) => { console.log('pong', data); off(); }); pi.registerCommand('go', { handler() { pi.events.emit('ping', 1); pi.events.emit('ping', 2); } }); };"),
    ])
    .await;
    stage.log();
    stage.command("go").await;
    expect![[r#"
        Info: pong 2
        Error: Event handler error (ping): bad listener
        Error: Event handler error (ping): bad listener"#]]
    .assert_eq(&stage.log());
}

#[tokio::test]
async fn flags() {
    let stage = Stage::play(&[(
        "ext.ts",
        r#"export default (pi) => {
            pi.registerFlag("fast", { type: "boolean", default: false });
            pi.registerFlag("name", { type: "string" });
            console.log(pi.getFlag("fast"), pi.getFlag("name"), pi.getFlag("other"));
            pi.registerCommand("go", { handler: () => console.log(pi.getFlag("fast"), pi.getFlag("name"), pi.getFlag("other")) });
            try { pi.registerFlag("bad", { type: "boolean", default: "x" }); } catch (error) { console.log(error.message); }
        };"#,
    )])
    .await;
    let values = json!({"fast": true, "name": "n", "other": true});
    stage.extensions.set_flags(values.as_object().unwrap()).await;
    stage.command("go").await;
    expect![[r#"
        Info: false undefined undefined
        Info: Invalid default for flag "bad": expected boolean, got string
        loaded ext.ts
        command /go None
        flag --fast Boolean Some(Bool(false))
        flag --name String None
        Info: true n undefined"#]]
    .assert_eq(&stage.log());
}

#[tokio::test]
async fn a_new_session_starts_over() {
    let stage = Stage::play(&[(
        "ext.ts",
        r#"
        let old, made = 0;
        export default (pi) => {
            console.log("made", ++made);
            pi.on("session_start", (e, ctx) => { old ??= ctx; });
            pi.registerCommand("go", { handler: async (args, ctx) => {
                const result = await ctx.newSession({
                    parentSession: "p",
                    setup: async (sm) => { sm.appendMessage({ role: "user", content: "before" }); },
                    withSession: async (fresh) => { console.log("in the new one", fresh.mode); await fresh.sendUserMessage("go on"); },
                });
                console.log(result);
                for (const stale of [() => ctx.cwd, () => pi.sendMessage({ customType: "x" })]) {
                    try { stale(); } catch (error) { console.log(error.message.slice(0, 40)); }
                }
            } });
        };"#,
    )])
    .await;
    *stage.host.extensions.lock().unwrap() = Some(stage.extensions.clone());
    stage.command("go").await;
    *stage.host.extensions.lock().unwrap() = None;
    expect![[r#"
        Info: made 1
        loaded ext.ts session_start×1
        command /go None
        request NewSession { parent_session: Some("p"), entries: [Object {"type": String("message"), "message": Object {"role": String("user"), "content": String("before")}}] }
        Info: made 2
        Info: in the new one rpc
        act SendUserMessage { content: String("go on"), deliver_as: None, expand_prompt_templates: false }
        request WaitForIdle
        Info: { cancelled: false }
        Info: This extension ctx is stale after sessio
        Info: This extension ctx is stale after sessio"#]].assert_eq(&stage.log());
}

#[tokio::test]
async fn registrations_after_loading_are_published() {
    let stage = Stage::play(&[(
        "ext.ts",
        r#"export default (pi) => pi.registerCommand("go", { handler: () => {
            pi.registerTool({ name: "late", label: "L", description: "d", parameters: { type: "object" }, execute: async () => ({ content: [] }) });
            pi.registerCommand("more", { handler() {} });
            pi.on("tool_call", () => {});
            pi.registerProvider("mine", { baseUrl: "http://x", apiKey: "$K", api: "openai-completions", models: [{ id: "m" }], streamSimple() {} });
        } });"#,
    )])
    .await;
    stage.log();
    stage.command("go").await;
    let now = stage.extensions.registrations();
    let tools: Vec<&str> = now.tools.iter().map(|tool| tool.tool.name()).collect();
    let commands: Vec<&str> = now.commands.iter().map(|command| command.name.as_str()).collect();
    let has_listener = stage.extensions.has_listener("tool_call");
    expect![[r#"
        ["late"] ["go", "more"] true Some(("mine", true))
        act RegisterProvider { name: "mine", config: Object {"baseUrl": String("http://x"), "apiKey": String("$K"), "api": String("openai-completions"), "models": Array [Object {"id": String("m")}], "streams": Bool(true), "hasOauth": Bool(false), "extensionPath": String("DIR/ext.ts")} }
        changed"#]].assert_eq(&format!(
        "{tools:?} {commands:?} {has_listener} {:?}\n{}",
        now.providers.first().map(|provider| (&provider.name, provider.streams)),
        stage.log()
    ));
}

async fn run_tool(source: &str, arguments: Value, cancel_after_ms: Option<u64>) -> String {
    let stage = Stage::play(&[("ext.ts", source)]).await;
    stage.log();
    let tool = stage.extensions.registrations().tools[0].tool.clone();
    let cancel = CancellationToken::new();
    let cwd = Arc::new(stage.dir.path().to_owned());
    let (cx, shown) = ToolContext::new(cwd, cancel.clone(), true, Arc::from([]));
    if let Some(ms) = cancel_after_ms {
        tokio::spawn(async move {
            tokio::time::sleep(std::time::Duration::from_millis(ms)).await;
            cancel.cancel();
        });
    }
    let result = tool.run(arguments.as_object().unwrap().clone(), cx).await;
    let json = |output: &ToolOutput| json!([output.content, output.details]).to_string();
    let shown = shown.borrow().as_ref().map_or("nothing".into(), json);
    let result = match result {
        Ok(output) => format!("gave {}", json(&output)),
        Err(failure) => format!("failed: {}", failure.message),
    };
    format!("showed {shown}\n{result}\n{}", stage.log())
}

#[tokio::test]
async fn a_tool_runs() {
    let shown = run_tool(
        r#"export default (pi) => pi.registerTool({
            name: "add", label: "Add", description: "d", parameters: { type: "object", properties: { a: { type: "number" } } },
            async execute(id, params, signal, onUpdate, ctx) {
                onUpdate({ content: [{ type: "text", text: "working" }] });
                return { content: [{ type: "text", text: String(params.a + 1) }, { type: "image", data: "AA==", mimeType: "image/png" }], details: { ok: true } };
            },
        });"#,
        json!({"a": 1}),
        None,
    )
    .await;
    expect![[r#"
        showed [[{"type":"text","text":"working"}],null]
        gave [[{"type":"text","text":"2"},{"type":"image","data":"AA==","mimeType":"image/png"}],{"ok":true}]
    "#]].assert_eq(&shown);
}

#[tokio::test]
async fn a_tool_fails() {
    let shown = run_tool(
        r#"export default (pi) => pi.registerTool({ name: "t", label: "T", description: "d", parameters: { type: "object" },
            async execute() { throw new Error("cannot"); } });"#,
        json!({}),
        None,
    )
    .await;
    expect![[r#"
        showed nothing
        failed: cannot
    "#]]
    .assert_eq(&shown);
}

#[tokio::test]
async fn cancelled_tool_call_aborts_its_signal() {
    let shown = run_tool(
        r#"export default (pi) => pi.registerTool({ name: "t", label: "T", description: "d", parameters: { type: "object" },
            execute: (id, params, signal) => new Promise((resolve, reject) => signal.addEventListener("abort", () => reject(new Error("stopped by signal")))) });"#,
        json!({}),
        Some(20),
    )
    .await;
    expect![[r#"
        showed nothing
        failed: stopped by signal
    "#]]
    .assert_eq(&shown);
}

#[tokio::test]
async fn a_provider_streams() {
    use futures_util::StreamExt;
    let stage = Stage::play(&[(
        "ext.ts",
        r#"
        import { createAssistantMessageEventStream } from "@earendil-works/pi-ai";
        export default (pi) => pi.registerProvider("mine", { baseUrl: "http://x", api: "mine-api", models: [{ id: "m", name: "M" }],
            streamSimple(model, context, options) {
                const stream = createAssistantMessageEventStream();
                (async () => {
                    await options.onPayload({});
                    stream.push({ type: "start", partial: {} });
                    await null;
                    stream.push({ type: "done", reason: "stop", message: { role: "assistant", content: [{ type: "text", text: context.messages[0].content }] } });
                })();
                return stream;
            } });"#,
    )])
    .await;
    let events: Vec<Value> = stage
        .extensions
        .stream(
            "mine",
            json!({"id": "m"}),
            json!({"messages": [{"role": "user", "content": "echo"}]}),
            json!({}),
            CancellationToken::new(),
        )
        .collect()
        .await;
    let shown: Vec<String> = events.iter().map(Value::to_string).collect();
    expect![[r#"
        {"type":"start"}
        {"type":"done","reason":"stop","message":{"role":"assistant","content":[{"type":"text","text":"echo"}]}}
        loaded ext.ts
        provider mine {"baseUrl":"http://x","api":"mine-api","models":[{"id":"m","name":"M"}]}
        act RegisterProvider { name: "mine", config: Object {"baseUrl": String("http://x"), "api": String("mine-api"), "models": Array [Object {"id": String("m"), "name": String("M")}], "streams": Bool(true), "hasOauth": Bool(false), "extensionPath": String("DIR/ext.ts")} }
        request BeforeProviderRequest { payload: Object {} }"#]].assert_eq(&format!("{}\n{}", shown.join("\n"), stage.log()));
}
