//! The sidecar protocol, with a shell script in place of node: shows how little a sidecar has to
//! implement, and how failures are handled.
#![allow(clippy::unwrap_used)]

mod support;

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use expect_test::{Expect, expect};
use serde_json::json;
use support::{Stage, quick_limits};
use tiller_js::event::Event;
use tiller_js::hook::ToolCall;
use tiller_js::{EngineChoice, Extension, Limits, Runtime};

/// Functions for a shell script that acts as a sidecar: its last two arguments are the descriptors
/// of the sockets.
const HEAD: &str = r#"#!/bin/bash
line=${*: -2:1}; news=${*: -1}
say() { echo "$1" >&$line; }
ask() { say "$1"; read -r answer <&$line; }
hear() { read -r told <&$news || exit; turn=$(sed 's/^{"turn":\([0-9]*\).*/\1/' <<<"$told"); id=$(sed 's/.*"id":\([0-9]*\).*/\1/' <<<"$told"); }
took() { say "{\"type\":\"took\",\"turn\":$turn}"; }
registered='{\"extensions\":[{\"number\":1,\"path\":\"ext.ts\",\"handlers\":[[\"tool_call\",1]]}],\"listeners\":[\"tool_call\",\"agent_start\"],\"changed\":false}'
load() { hear; ask "{\"type\":\"sync\",\"name\":\"registered\",\"json\":\"$registered\",\"task\":[0,1]}"; say "{\"type\":\"reply\",\"call\":$id,\"json\":\"null\"}"; took; }
"#;

/// A stage whose only node is this shell script.
fn stage(script: &str) -> Stage {
    let limits = Limits { slice: Duration::from_millis(1500), ..quick_limits() };
    let stage = Stage::set(&[("ext.ts", "")], limits.clone());
    let bin = stage.dir.path().join("bin");
    std::fs::create_dir(&bin).unwrap();
    let node = bin.join("node");
    std::fs::write(&node, format!("{HEAD}{script}")).unwrap();
    std::fs::set_permissions(&node, PermissionsExt::from_mode(0o755)).unwrap();
    stage.with_path(limits, format!("{}:/usr/bin:/bin", bin.display()))
}

async fn check(script: &str, expect: Expect) {
    let stage = stage(script);
    let one = Extension::new(stage.dir.path().join("ext.ts"));
    let one = Extension { engine: EngineChoice::Sidecar(Runtime::Node), ..one };
    for error in stage.extensions.load(&[one]).await.errors {
        stage.world.note(format!("not loaded: {}", error.error));
    }
    stage.extensions.emit(&Event::AgentStart);
    let call = ToolCall {
        tool_call_id: "c1".into(),
        tool_name: "bash".into(),
        input: json!({"command": "ls"}),
    };
    stage.world.note(match stage.extensions.run_hook(call).await {
        Ok(verdict) => format!("{:?}", verdict.block),
        Err(refused) => format!("refused: {}", refused.reason),
    });
    if script.contains("echo last_line") {
        stage.world.wait_for("last_line").await;
    }
    stage.extensions.stop();
    expect.assert_eq(&stage.sorted_log());
}

#[tokio::test]
async fn sidecar_protocol_round_trip() {
    check(
        r#"
        say '{"type":"hello"}'
        load
        hear; echo "$told"; took
        hear; echo "$told"
        echo "$id $turn" >&2
        ask '{"type":"start","name":"request","json":"{\"type\":\"waitForIdle\"}","task":[2,1]}'
        echo "$answer"
        hear; echo "$told"; took
        ask '{"type":"sync","name":"query","json":"{\"type\":\"thinkingLevel\"}","task":[2,1]}'; echo "$answer"
        ask '{"type":"sync","name":"nothing.such","task":[2,1]}'; echo "$answer"
        ask '{"type":"load","id":"tiller:theme"}'; echo "${answer:0:40}"
        ask '{"type":"resolve","importer":"/x/ext.ts?1","name":"typebox"}'; echo "$answer"
        say '{"type":"report","path":"ext.ts","event":"tool_call","message":"hm"}'
        say '{"type":"reply","call":2,"json":"{\"outcome\":{\"block\":\"by the shell\"},\"ends\":true}"}'
        echo last_line
        hear
        "#,
        expect![[r#"
            Error: 2 3
            Info: last_line
            Info: {"failed":{"message":"no operation \"nothing.such\"","name":null,"fields":{}}}
            Info: {"json":"1"}
            Info: {"json":"\"medium\""}
            Info: {"module":{"source":"// A theme without 
            Info: {"text":"pi:typebox"}
            Info: {"turn":2,"task":[0,0],"type":"emit","json":"{\"type\":\"agent_start\"}"}
            Info: {"turn":3,"task":[2,0],"type":"call","id":2,"entry":"ask","json":"{\"name\":\"tool_call\",\"event\":{\"toolCallId\":\"c1\",\"toolName\":\"bash\",\"input\":{\"command\":\"ls\"}},\"so_far\":null,\"extensions\":[1,1]}"}
            Info: {"turn":4,"task":[2,1],"type":"done","id":1,"given":{"json":"{\"cancelled\":false}"}}
            Some("by the shell")
            extension_error ext.ts tool_call: hm
            request WaitForIdle"#]],
    )
    .await;
}

#[tokio::test]
async fn sidecar_reports_unfit() {
    let too_old = r#"say '{"type":"unfit","why":"version v1 is too old"}'"#;
    check(too_old, expect![[r#"
        None
        not loaded: Failed to load extension: node (DIR/bin/node) cannot be used: version v1 is too old"#]]).await;
}

#[tokio::test]
async fn sidecar_exits_before_its_first_line() {
    check("exit 3", expect![[r#"
        None
        not loaded: Failed to load extension: node (DIR/bin/node) cannot be used: it ended before it began"#]]).await;
}

#[tokio::test]
async fn sidecar_sends_invalid_json() {
    check(r#"say '{"type":"hello"}'; load; hear; hear; say 'what?'; sleep 60"#, expect![[r#"
        extension_error <runtime> sidecar: node said what makes no sense: expected value at line 1 column 1
        refused: node said what makes no sense: expected value at line 1 column 1"#]]).await;
}

#[tokio::test]
async fn sidecar_never_reads_messages() {
    check(
        r#"say '{"type":"hello"}'; load; exec sleep 60"#,
        expect![[r#"
        extension_error <runtime> agent_start: stopped after 1500 ms of work without a pause
        refused: stopped after 1500 ms of work without a pause"#]],
    )
    .await;
}

#[tokio::test]
async fn sidecar_closes_its_sockets() {
    check(
        r#"say '{"type":"hello"}'; load; hear; hear; eval "exec $line>&-"; exec sleep 60"#,
        expect![[r#"
        extension_error <runtime> sidecar: node was ended by signal 9
        refused: node was ended by signal 9"#]],
    )
    .await;
}
