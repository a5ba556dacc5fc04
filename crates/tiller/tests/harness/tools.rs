//! Tools for tests of the agent loop.

use std::time::Duration;

use serde_json::{Value, json};
use tiller_agent::message::Arguments;
use tiller_agent::provider::ToolSpec;
use tiller_agent::tool::{Failure, Tool, ToolContext, ToolOutput, ToolResult};

pub fn all() -> Vec<Tool> {
    vec![
        Tool::new(spec("nap", json!({"ms": {"type": "number"}})), nap),
        Tool::new(
            spec("shout", json!({"words": {"type": "array", "items": {"type": "string"}}})),
            shout,
        ),
        Tool::new(spec("stubborn", json!({})), stubborn),
        Tool::new(spec("crash", json!({})), crash),
    ]
}

fn spec(name: &str, properties: Value) -> ToolSpec {
    let required: Vec<&String> = properties.as_object().unwrap().keys().collect();
    ToolSpec {
        name: name.into(),
        description: format!("{name}, for tests"),
        parameters: json!({"type": "object", "required": required, "properties": properties}),
    }
}

/// Sleeps until cancelled.
async fn nap(arguments: Arguments, cx: ToolContext) -> ToolResult {
    let ms = arguments["ms"].as_u64().unwrap();
    tokio::select! {
        () = tokio::time::sleep(Duration::from_millis(ms)) => Ok(ToolOutput::text(format!("slept {ms} ms"))),
        () = cx.cancel.cancelled() => Err(Failure::new("woken up")),
    }
}

/// Reports its words one by one, 100 ms apart.
async fn shout(arguments: Arguments, cx: ToolContext) -> ToolResult {
    let mut said = String::new();
    for word in arguments["words"].as_array().unwrap() {
        said.push_str(word.as_str().unwrap());
        cx.show(ToolOutput::text(said.clone()));
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(ToolOutput::text(said))
}

/// Never ends and ignores cancellation.
async fn stubborn(_: Arguments, _: ToolContext) -> ToolResult {
    std::future::pending().await
}

async fn crash(_: Arguments, _: ToolContext) -> ToolResult {
    panic!("on purpose")
}
