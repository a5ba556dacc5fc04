//! `todo_write`: the model keeps a list of what it means to do.

use serde::Deserialize;
use serde_json::Value;
use tiller_agent::message::Arguments;
use tiller_agent::provider::ToolSpec;
use tiller_agent::todo::ops::Op;
use tiller_agent::tool::{Failure, Tool, ToolEffect, ToolResult};

use crate::server::Input;
use crate::tasks::{Responder, Tasks};
use crate::todos::TodoWrite;

/// The name of the tool.
pub const NAME: &str = "todo_write";

const DESCRIPTION: &str = include_str!("../prompts/todo-write.md");
/// Flat, because not every provider takes alternatives; missing fields are reported by the handler.
const PARAMETERS: &str = include_str!("../prompts/todo-write.schema.json");

pub(super) fn tool(tasks: &Tasks) -> Tool {
    let tasks = tasks.clone();
    let spec = ToolSpec {
        name: NAME.to_owned(),
        description: DESCRIPTION.trim_end().to_owned(),
        parameters: serde_json::from_str(PARAMETERS).expect("our own schema is JSON"),
    };
    Tool::new(spec, move |arguments, _| write(tasks.clone(), arguments))
        // The list is a part of the session.
        .effect(ToolEffect::Reads)
        .snippet("Keep a list of the steps of a larger task and their progress")
}

#[derive(Deserialize)]
struct Ops {
    ops: Vec<Op>,
}

async fn write(tasks: Tasks, arguments: Arguments) -> ToolResult {
    let ops = serde_path_to_error::deserialize::<_, Ops>(Value::Object(arguments));
    let Ops { ops } =
        ops.map_err(|err| Failure::new(format!("{}: {}", err.path(), err.inner())))?;
    let (answer, result) = Responder::channel();
    tasks.send(Input::TodoWrite(TodoWrite { ops, answer })).await;
    result.await.unwrap_or_else(|_| Err(Failure::aborted()))
}
