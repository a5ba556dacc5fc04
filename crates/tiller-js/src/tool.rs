//! An extension's tool, as the loop knows tools.

use serde::Deserialize;
use serde_json::{Value, json};

use tiller_agent::message::Block;
use tiller_agent::provider::ToolSpec;
use tiller_agent::tool::{Failure, Tool, ToolContext, ToolOutput, ToolResult};
use tokio::sync::mpsc;

use crate::thread::{Thread, Trouble};

pub(crate) fn tool(spec: ToolSpec, extension: u32, thread: Thread) -> Tool {
    let name = spec.name.clone();
    Tool::new(spec, move |arguments, cx| {
        run(thread.clone(), extension, name.clone(), Value::Object(arguments), cx)
    })
}

async fn run(
    thread: Thread,
    extension: u32,
    name: String,
    arguments: Value,
    cx: ToolContext,
) -> ToolResult {
    let call = json!({ "extension": extension, "name": name, "params": arguments,
        "toolCallId": &*cx.call_id });
    let (progress, mut shown) = mpsc::unbounded_channel::<String>();
    let mut running =
        thread.call_about("tool", "tool", &call, Some(cx.cancel.clone()), Some(progress));
    let result = loop {
        tokio::select! {
            biased;
            Some(partial) = shown.recv() => {
                // What cannot be read is not shown; the result says more than it would have.
                if let Ok(partial) = serde_json::from_str::<Answer>(&partial) {
                    cx.show(partial.into_output());
                }
            }
            result = &mut running => break result,
        }
    };
    match result {
        Ok(answer) => match serde_json::from_str::<Answer>(&answer) {
            Ok(answer) => Ok(answer.into_output()),
            Err(err) => Err(Failure::new(format!("the tool \"{name}\" gave no result: {err}"))),
        },
        Err(Trouble::Thrown(thrown)) => Err(Failure::new(thrown.message)),
        Err(trouble) => Err(Failure::new(format!("the tool \"{name}\" failed: {trouble}"))),
    }
}

/// What `execute` gives, and what it shows.
#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    content: Vec<Part>,
    #[serde(default)]
    details: Option<Value>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Part {
    Block(Block),
    /// Something no model understands; it is shown as what it is.
    Other(Value),
}

impl Answer {
    fn into_output(self) -> ToolOutput {
        let block = |part| match part {
            Part::Block(block) => block,
            Part::Other(Value::String(text)) => Block::text(text),
            Part::Other(other) => Block::text(other.to_string()),
        };
        let content = self.content.into_iter().map(block).collect();
        ToolOutput { content, details: self.details, ..ToolOutput::default() }
    }
}
