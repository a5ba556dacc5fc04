//! An extension's tool as an agent tool.

use serde::Deserialize;
use serde_json::{Value, json};

use tiller_agent::message::{Arguments, Block};
use tiller_agent::provider::ToolSpec;
use tiller_agent::tool::{Failure, Tool, ToolContext, ToolOutput, ToolResult};

use crate::coalesce::{self, KeepNewest};
use crate::engine_handle::{CallError, EngineHandle};
use crate::entry::Entry;

/// `prepares` says whether it has a function that rewrites its arguments before they are checked.
pub(crate) fn tool(spec: ToolSpec, extension: u32, engine: EngineHandle, prepares: bool) -> Tool {
    let name = spec.name.clone();
    let preparing = (engine.clone(), name.clone());
    let tool = Tool::new(spec, move |arguments, cx| {
        run(engine.clone(), extension, name.clone(), Value::Object(arguments), cx)
    });
    if !prepares {
        return tool;
    }
    tool.prepare(move |arguments| {
        let (engine, name) = preparing.clone();
        Box::pin(prepare(engine, extension, name, arguments))
    })
}

async fn prepare(
    engine: EngineHandle,
    extension: u32,
    name: String,
    arguments: Arguments,
) -> Result<Arguments, Failure> {
    let call = json!({ "extension": extension, "name": name, "params": arguments });
    let prepared = engine.call(Entry::Prepare, &call).await.map_err(|err| failure(&name, err))?;
    match serde_json::from_str(&prepared) {
        Ok(Value::Object(arguments)) => Ok(arguments),
        _ => Err(Failure::new(format!(
            "Validation failed for tool \"{name}\":\n  - root: must be object\n\n\
             Received arguments:\n{prepared}"
        ))),
    }
}

async fn run(
    engine: EngineHandle,
    extension: u32,
    name: String,
    arguments: Value,
    cx: ToolContext,
) -> ToolResult {
    let call = json!({ "extension": extension, "name": name, "params": arguments,
        "toolCallId": &*cx.call_id });
    let (progress, mut shown) = coalesce::channel::<KeepNewest>();
    let mut running =
        engine.call_about(Entry::Tool, "tool", &call, Some(cx.cancel.clone()), Some(progress));
    let result = loop {
        tokio::select! {
            biased;
            Some(partial) = shown.next() => {
                // Invalid progress is dropped; the result reports the error.
                if let Ok(partial) = serde_json::from_str::<ToolAnswer>(&partial) {
                    cx.show(partial.into_output());
                }
            }
            result = &mut running => break result,
        }
    };
    match result {
        Ok(answer) => match serde_json::from_str::<ToolAnswer>(&answer) {
            Ok(answer) => Ok(answer.into_output()),
            Err(err) => Err(Failure::new(format!("the tool \"{name}\" gave no result: {err}"))),
        },
        Err(err) => Err(failure(&name, err)),
    }
}

/// Errors a tool throws are for the model; other errors name the extension.
fn failure(name: &str, err: CallError) -> Failure {
    match err {
        CallError::Thrown(thrown) => Failure::new(thrown.message),
        err => Failure::new(format!("the tool \"{name}\" failed: {err}")),
    }
}

/// The result of `execute`, and its progress.
#[derive(Deserialize)]
struct ToolAnswer {
    #[serde(default)]
    content: Vec<Part>,
    #[serde(default)]
    details: Option<Value>,
    #[serde(default)]
    terminate: Option<Value>,
    #[serde(default)]
    usage: Option<Value>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Part {
    Block(Block),
    /// Content that no model accepts; it is shown as JSON.
    Other(Value),
}

impl ToolAnswer {
    fn into_output(self) -> ToolOutput {
        let block = |part| match part {
            Part::Block(block) => block,
            Part::Other(Value::String(text)) => Block::text(text),
            Part::Other(other) => Block::text(other.to_string()),
        };
        let content = self.content.into_iter().map(block).collect();
        let ends_run = self.terminate == Some(Value::Bool(true));
        let usage = self.usage.clone().and_then(|usage| Box::deserialize(usage).ok());
        // The client receives both as the tool returned them.
        let words = [("terminate", self.terminate), ("usage", self.usage)];
        let other = words.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
        ToolOutput { content, details: self.details, usage, ends_run, other: other.collect() }
    }
}
