//! What we say to a sidecar and it to us, with a shell in the place of node: it shows how little
//! the one on the other side has to know, and what becomes of one that knows less.
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

/// How a shell becomes a sidecar: its last two words are the numbers of its files.
const HEAD: &str = r#"#!/bin/bash
line=${*: -2:1}; news=${*: -1}
say() { echo "$1" >&$line; }
ask() { say "$1"; read -r answer <&$line; }
hear() { read -r told <&$news || exit; turn=$(sed 's/^{"turn":\([0-9]*\).*/\1/' <<<"$told"); id=$(sed 's/.*"id":\([0-9]*\).*/\1/' <<<"$told"); }
took() { say "{\"type\":\"took\",\"turn\":$turn}"; }
registered='{\"extensions\":[{\"number\":1,\"path\":\"ext.ts\",\"handlers\":[[\"tool_call\",1]]}],\"listeners\":[\"tool_call\",\"agent_start\"],\"changed\":false}'
load() { hear; ask "{\"type\":\"sync\",\"name\":\"registered\",\"json\":\"$registered\",\"task\":[0,1]}"; say "{\"type\":\"reply\",\"call\":$id,\"json\":\"null\"}"; took; }
"#;

/// A stage whose only node is a shell that does this.
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
    for error in stage.guests.load(&[one]).await.errors {
        stage.world.note(format!("not loaded: {}", error.error));
    }
    stage.guests.emit(&Event::AgentStart);
    let call = ToolCall {
        tool_call_id: "c1".into(),
        tool_name: "bash".into(),
        input: json!({"command": "ls"}),
    };
    stage.world.note(match stage.guests.run_hook(call).await {
        Ok(verdict) => format!("{:?}", verdict.block),
        Err(refused) => format!("refused: {}", refused.reason),
    });
    if script.contains("echo farewell") {
        stage.world.wait_for("farewell").await;
    }
    stage.guests.stop();
    expect.assert_eq(&stage.sorted_log());
}

#[tokio::test]
async fn a_conversation() {
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
        echo farewell
        hear
        "#,
        expect![[r#"
            Error: 2 3
            Info: farewell
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
async fn one_that_is_not_fit() {
    let too_old = r#"say '{"type":"unfit","why":"version v1 is too old"}'"#;
    check(too_old, expect![[r#"
        None
        not loaded: Failed to load extension: node (DIR/bin/node) cannot be used: version v1 is too old"#]]).await;
}

#[tokio::test]
async fn one_that_says_nothing() {
    check("exit 3", expect![[r#"
        None
        not loaded: Failed to load extension: node (DIR/bin/node) cannot be used: it ended before it began"#]]).await;
}

#[tokio::test]
async fn one_that_makes_no_sense() {
    check(r#"say '{"type":"hello"}'; load; hear; hear; say 'what?'; sleep 60"#, expect![[r#"
        extension_error <runtime> sidecar: node said what makes no sense: expected value at line 1 column 1
        refused: node said what makes no sense: expected value at line 1 column 1"#]]).await;
}

#[tokio::test]
async fn one_that_does_not_hear() {
    check(
        r#"say '{"type":"hello"}'; load; exec sleep 60"#,
        expect![[r#"
        extension_error <runtime> agent_start: stopped after 1500 ms of work without a pause
        refused: stopped after 1500 ms of work without a pause"#]],
    )
    .await;
}

#[tokio::test]
async fn one_that_closes_its_files() {
    check(
        r#"say '{"type":"hello"}'; load; hear; hear; eval "exec $line>&-"; exec sleep 60"#,
        expect![[r#"
        extension_error <runtime> sidecar: node was ended by signal 9
        refused: node was ended by signal 9"#]],
    )
    .await;
}
