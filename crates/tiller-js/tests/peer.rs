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
requests=${*: -2:1}; messages=${*: -1}
send() { echo "$1" >&$requests; }
request() { send "$1"; read -r answer <&$requests; }
receive() { read -r message <&$messages || exit; turn=$(sed 's/^{"turn":\([0-9]*\).*/\1/' <<<"$message"); id=$(sed 's/.*"id":\([0-9]*\).*/\1/' <<<"$message"); }
handled() { send "{\"type\":\"handled\",\"turn\":$turn}"; }
registered='{\"extensions\":[{\"number\":1,\"path\":\"ext.ts\",\"handlers\":[[\"tool_call\",1]]}],\"listeners\":[\"tool_call\",\"agent_start\"],\"changed\":false}'
load() { receive; request "{\"type\":\"sync\",\"name\":\"registered\",\"json\":\"$registered\",\"task\":[0,1]}"; send "{\"type\":\"reply\",\"call\":$id,\"json\":\"null\"}"; handled; }
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
        stage.host.note(format!("not loaded: {}", error.error));
    }
    stage.extensions.emit(&Event::AgentStart);
    let call = ToolCall {
        tool_call_id: "c1".into(),
        tool_name: "bash".into(),
        input: json!({"command": "ls"}),
    };
    stage.host.note(match stage.extensions.run_hook(call).await {
        Ok(verdict) => format!("{:?}", verdict.block),
        Err(refused) => format!("refused: {}", refused.reason),
    });
    if script.contains("echo last_line") {
        stage.host.wait_for("last_line").await;
    }
    stage.extensions.stop();
    expect.assert_eq(&stage.sorted_log());
}

#[tokio::test]
async fn sidecar_protocol_round_trip() {
    check(
        r#"
        send '{"type":"hello"}'
        load
        receive; echo "$message"; handled
        receive; echo "$message"
        echo "$id $turn" >&2
        request '{"type":"start","name":"request","json":"{\"type\":\"waitForIdle\"}","task":[2,1]}'
        echo "$answer"
        receive; echo "$message"; handled
        request '{"type":"sync","name":"query","json":"{\"type\":\"thinkingLevel\"}","task":[2,1]}'; echo "$answer"
        request '{"type":"sync","name":"nothing.such","task":[2,1]}'; echo "$answer"
        request '{"type":"load","id":"tiller:theme"}'; echo "${answer:0:40}"
        request '{"type":"resolve","importer":"/x/ext.ts?1","name":"typebox"}'; echo "$answer"
        send '{"type":"report","path":"ext.ts","event":"tool_call","message":"hm"}'
        send '{"type":"reply","call":2,"json":"{\"outcome\":{\"block\":\"by the shell\"},\"ends\":true}"}'
        echo last_line
        receive
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
            Info: {"turn":4,"task":[2,1],"type":"done","id":1,"output":{"json":"{\"cancelled\":false}"}}
            Some("by the shell")
            extension_error ext.ts tool_call: hm
            request WaitForIdle"#]],
    )
    .await;
}

#[tokio::test]
async fn sidecar_reports_unfit() {
    let too_old = r#"send '{"type":"unfit","why":"version v1 is too old"}'"#;
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
    check(r#"send '{"type":"hello"}'; load; receive; receive; send 'what?'; sleep 60"#, expect![[r#"
        extension_error <runtime> sidecar: node sent an invalid line: expected value at line 1 column 1
        refused: node sent an invalid line: expected value at line 1 column 1"#]]).await;
}

#[tokio::test]
async fn sidecar_never_reads_messages() {
    check(
        r#"send '{"type":"hello"}'; load; exec sleep 60"#,
        expect![[r#"
        extension_error <runtime> agent_start: stopped after 1500 ms of work without a pause
        refused: stopped after 1500 ms of work without a pause"#]],
    )
    .await;
}

#[tokio::test]
async fn sidecar_closes_its_sockets() {
    check(
        r#"send '{"type":"hello"}'; load; receive; receive; eval "exec $requests>&-"; exec sleep 60"#,
        expect![[r#"
        extension_error <runtime> sidecar: node was ended by signal 9
        refused: node was ended by signal 9"#]],
    )
    .await;
}
