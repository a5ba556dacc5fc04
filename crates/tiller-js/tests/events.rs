//! Events and hooks, and the results of handlers.
#![allow(clippy::unwrap_used)]

mod support;

use expect_test::{Expect, expect};
use serde_json::json;
use support::Stage;
use tiller_js::event::{Event, StartReason};
use tiller_js::hook::{
    BeforeAgentStart, BeforeProviderRequest, Context, Input, InputSource, MessageEnd,
    ResourcesDiscover, SessionBeforeSwitch, SwitchReason, ToolCall, ToolResult, UserBash,
};

fn call(input: serde_json::Value) -> ToolCall {
    ToolCall { tool_call_id: "c1".into(), tool_name: "bash".into(), input }
}

/// Runs the `tool_call` hook for a `bash` call with `command`.
async fn check_call(sources: &[&str], expect: Expect) {
    let names = ["ext-1.ts", "ext-2.ts", "ext-3.ts"];
    let files: Vec<(&str, &str)> = names.into_iter().zip(sources.iter().copied()).collect();
    let stage = Stage::play(&files).await;
    stage.log();
    let outcome = stage.extensions.run_hook(call(json!({"command": "ls"}))).await;
    expect.assert_eq(&format!("{outcome:?}\n{}", stage.log()));
}

#[tokio::test]
async fn tool_call_without_objection_is_allowed() {
    check_call(&["export default (pi) => pi.on('tool_call', async (event, ctx) => { console.log(event, ctx.hasUI, ctx.mode); });"], expect![[r#"
        Ok(ToolVerdict { block: None, terminate: false, input: None })
        Info: {
          type: 'tool_call',
          toolCallId: 'c1',
          toolName: 'bash',
          input: { command: 'ls' }
        } true rpc"#]]).await;
}

#[tokio::test]
async fn blocked_tool_call_skips_later_handlers() {
    check_call(
        &[
            "export default (pi) => { pi.on('tool_call', () => undefined); pi.on('tool_call', (e) => ({ block: true, reason: `no ${e.input.command}` })); };",
            "export default (pi) => pi.on('tool_call', () => console.log('not asked'));",
        ],
        expect![[r#"
            Ok(ToolVerdict { block: Some("no ls"), terminate: false, input: None })
        "#]],
    )
    .await;
    check_call(
        &["export default (pi) => pi.on('tool_call', () => ({ block: true }));"],
        expect![[r#"
        Ok(ToolVerdict { block: Some("Tool execution was blocked"), terminate: false, input: None })
    "#]],
    )
    .await;
}

#[tokio::test]
async fn arguments_are_changed_in_place() {
    check_call(
        &[
            "export default (pi) => pi.on('tool_call', (e) => { e.input.command += ' -l'; });",
            "export default (pi) => pi.on('tool_call', async (e) => { await null; e.input.command += ' -a'; });",
        ],
        expect![[r#"
            Ok(ToolVerdict { block: None, terminate: false, input: Some(Object {"command": String("ls -l -a")}) })
        "#]],
    )
    .await;
}

#[tokio::test]
async fn throwing_tool_call_handler_blocks_the_call() {
    check_call(
        &["export default (pi) => pi.on('tool_call', (e) => { throw new Error('gate broke'); });"],
        expect![[r#"
            Err(HookRefused { reason: "gate broke" })
        "#]],
    )
    .await;
    check_call(&["export default (pi) => pi.on('tool_call', async (e) => { await null; JSON.parse('{'); });"], expect![[r#"
        Err(HookRefused { reason: "Expected property name or '}' in JSON at position 1 (line 1 column 2)" })
    "#]]).await;
}

#[tokio::test]
async fn hook_without_handlers_has_the_default_result() {
    check_call(
        &["export default (pi) => pi.on('session_start', () => {});"],
        expect![[r#"
        Ok(ToolVerdict { block: None, terminate: false, input: None })
    "#]],
    )
    .await;
}

#[tokio::test]
async fn tool_result_handlers_chain() {
    let stage = Stage::play(&[
        ("ext-1.ts", "export default (pi) => { pi.on('tool_result', (e) => ({ content: [{ type: 'text', text: 'first' }] })); pi.on('tool_result', () => { throw new Error('oops'); }); };"),
        ("ext-2.ts", "export default (pi) => pi.on('tool_result', (e) => { console.log(e.content[0].text, e.isError); return { isError: true, details: { seen: 1 } }; });"),
    ])
    .await;
    stage.log();
    let hook = ToolResult {
        tool_call_id: "c1".into(),
        tool_name: "bash".into(),
        input: json!({}),
        content: json!([{"type": "text", "text": "plain"}]),
        details: None,
        is_error: false,
        usage: None,
    };
    let change = stage.extensions.run_hook(hook).await.unwrap();
    expect![[r#"
        ToolResultChange { content: Some(Array [Object {"type": String("text"), "text": String("first")}]), details: Some(Object {"seen": Number(1)}), is_error: Some(true), usage: None }
        extension_error ext-1.ts tool_result: oops at DIR/ext-1.ts:1:144
        Info: first false"#]].assert_eq(&format!("{change:?}\n{}", stage.log()));
}

#[tokio::test]
async fn input_is_transformed_and_handled() {
    let stage = Stage::play(&[
        ("ext-1.ts", "export default (pi) => pi.on('input', (e) => e.text.startsWith('?') ? { action: 'transform', text: e.text.slice(1) } : { action: 'continue' });"),
        ("ext-2.ts", "export default (pi) => pi.on('input', (e) => { console.log(e.text, e.source); if (e.text === 'stop') return { action: 'handled' }; });"),
    ])
    .await;
    stage.log();
    let mut shown = Vec::new();
    for text in ["plain", "?odd", "?stop"] {
        let hook = Input {
            text: text.into(),
            images: None,
            source: InputSource::Rpc,
            streaming_behavior: None,
        };
        shown.push(format!("{:?}", stage.extensions.run_hook(hook).await.unwrap()));
    }
    expect![[r#"
        Continue
        Transform { text: "odd", images: None }
        Handled
        Info: plain rpc
        Info: odd rpc
        Info: stop rpc"#]]
    .assert_eq(&format!("{}\n{}", shown.join("\n"), stage.log()));
}

#[tokio::test]
async fn system_prompt_changes_accumulate() {
    let stage = Stage::play(&[
        ("ext-1.ts", "export default (pi) => pi.on('before_agent_start', (e, ctx) => ({ systemPrompt: e.systemPrompt + ' One.', message: { customType: 'n', content: 'note', display: false } }));"),
        ("ext-2.ts", "export default (pi) => pi.on('before_agent_start', (e, ctx) => { console.log(e.systemPrompt, '/', ctx.getSystemPrompt()); e.systemPromptOptions.selectedTools.push('x'); return { systemPrompt: e.systemPrompt + ' Two.' }; });"),
    ])
    .await;
    stage.log();
    let hook = BeforeAgentStart {
        prompt: "hi".into(),
        images: None,
        system_prompt: "Zero.".into(),
        system_prompt_options: json!({"selectedTools": ["read"]}),
    };
    let change = stage.extensions.run_hook(hook).await.unwrap();
    expect![[r#"
        PromptChange { messages: [Object {"customType": String("n"), "content": String("note"), "display": Bool(false)}], system_prompt: Some("Zero. One. Two."), system_prompt_options: Some(Object {"selectedTools": Array [String("read"), String("x")]}) }
        Info: Zero. One. / Zero. One."#]].assert_eq(&format!("{change:?}\n{}", stage.log()));
}

#[tokio::test]
async fn other_hooks_return_their_results() {
    let stage = Stage::play(&[(
        "ext.ts",
        r#"export default (pi) => {
            pi.on("context", (e) => { e.messages.push({ role: "user", content: "more" }); });
            pi.on("context", (e) => ({ messages: e.messages.slice(1) }));
            pi.on("before_provider_request", (e) => ({ ...e.payload, temperature: 0 }));
            pi.on("before_provider_request", (e) => { console.log(e.payload.temperature); });
            pi.on("session_before_switch", async (e, ctx) => ({ cancel: !(await ctx.ui.confirm("Leave?", e.reason)) }));
            pi.on("resources_discover", (e) => ({ skillPaths: ["skills"], promptPaths: [] }));
            pi.on("user_bash", (e) => e.command === "x" ? { result: { output: "done", exitCode: 0, cancelled: false, truncated: false } } : undefined);
            pi.on("message_end", (e) => ({ message: { ...e.message, content: "changed" } }));
            pi.on("message_end", (e) => ({ message: { ...e.message, role: "other" } }));
        };"#,
    )])
    .await;
    stage.log();
    stage.host.answers.lock().unwrap().push(true.into());
    let extensions = &stage.extensions;
    let messages = vec![json!({"role": "user", "content": "a"})];
    let context = extensions.run_hook(Context { messages }).await;
    let payload =
        extensions.run_hook(BeforeProviderRequest { payload: json!({"model": "m"}) }).await;
    let switch = |reason| SessionBeforeSwitch { reason, target_session_file: None };
    let stays = extensions.run_hook(switch(SwitchReason::New)).await;
    let leaves = extensions.run_hook(switch(SwitchReason::Resume)).await;
    let found =
        extensions.run_hook(ResourcesDiscover { cwd: ".".into(), reason: "startup".into() }).await;
    let bash = extensions
        .run_hook(UserBash { command: "x".into(), exclude_from_context: false, cwd: ".".into() })
        .await;
    let message = extensions
        .run_hook(MessageEnd { message: json!({"role": "assistant", "content": []}) })
        .await;
    let shown = format!(
        "{context:?}\n{payload:?}\n{stays:?}\n{leaves:?}\n{found:?}\n{bash:?}\n{message:?}\n{}",
        stage.log()
    );
    expect![[r#"
        Ok(Messages { messages: Some([Object {"role": String("user"), "content": String("more")}]) })
        Ok(Payload { payload: Some(Object {"model": String("m"), "temperature": Number(0)}) })
        Ok(Cancel { cancel: false, skip_conversation_restore: false })
        Ok(Cancel { cancel: true, skip_conversation_restore: false })
        Ok(DiscoveredPaths { skill_paths: [("skills", "DIR/ext.ts")], prompt_paths: [], theme_paths: [] })
        Ok(UserBashOutcome { result: Some(Object {"output": String("done"), "exitCode": Number(0), "cancelled": Bool(false), "truncated": Bool(false)}), operations: None })
        Ok(Replacement { message: Some(Object {"role": String("assistant"), "content": String("changed")}) })
        Info: 0
        dialog {"method":"confirm","title":"Leave?","message":"new"}
        dialog {"method":"confirm","title":"Leave?","message":"resume"}
        extension_error ext.ts message_end: message_end handlers must return a message with the same role"#]].assert_eq(&shown.replace(&*stage.dir.path().to_string_lossy(), "DIR"));
}

#[tokio::test]
async fn events_keep_their_order_and_errors_are_reported() {
    let stage = Stage::play(&[
        (
            "ext-1.ts",
            r#"export default (pi) => {
                let n = 0;
                pi.on("session_start", async (e) => { console.log("start", e.reason, ++n); await new Promise((r) => setTimeout(r, 20)); console.log("started"); });
                const off = pi.on("agent_start", () => { console.log("agent", ++n); off(); });
                pi.on("turn_start", (e) => { throw new TypeError(`turn ${e.turnIndex}`); });
                pi.on("tool_call", () => { console.log("asked", n); });
            };"#,
        ),
        ("ext-2.ts", "export default (pi) => pi.on('turn_start', () => { console.log('second'); });"),
    ])
    .await;
    stage.log();
    let extensions = &stage.extensions;
    extensions
        .emit(&Event::SessionStart { reason: StartReason::Startup, previous_session_file: None });
    extensions.emit(&Event::AgentStart);
    extensions.emit(&Event::TurnStart { turn_index: 0, timestamp: 1 });
    extensions.run_hook(call(json!({}))).await.unwrap();
    extensions.emit_and_wait(&Event::AgentStart).await;
    expect![[r#"
        Info: start startup 1
        Info: started
        Info: agent 2
        extension_error ext-1.ts turn_start: turn 0 at DIR/ext-1.ts:5:74
        Info: second
        Info: asked 2"#]]
    .assert_eq(&stage.log());
}

#[tokio::test]
async fn isolated_extension_keeps_its_load_order() {
    let adds = |name: &str| {
        format!(
            "export default (pi) => pi.on('tool_call', (e) => {{ e.input.command += '{name}'; globalThis.n = (globalThis.n ?? 0) + 1; console.log(globalThis.n); }});"
        )
    };
    let (a, b, c) = (adds("a"), adds("b"), adds("c"));
    let stage = Stage::set(
        &[("ext-1.ts", &a), ("ext-2.ts", &b), ("ext-3.ts", &c)],
        support::quick_limits(),
    );
    let mut extensions = stage.extension_files();
    extensions[1].isolate = true;
    stage.extensions.load(&extensions).await;
    stage.extensions.bind().await;
    let verdict = stage.extensions.run_hook(call(json!({"command": "-"}))).await;
    expect![[r#"
        Ok(ToolVerdict { block: None, terminate: false, input: Some(Object {"command": String("-abc")}) })
        Info: 1
        Info: 1
        Info: 2"#]].assert_eq(&format!("{verdict:?}\n{}", stage.log()));
}
