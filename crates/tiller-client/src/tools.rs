//! Tools that the host offers to the model, and what a call of one knows.

use std::error::Error;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, num::NonZeroU64};

use serde::de::DeserializeOwned;
use serde_json::Value;
use tiller_protocol::{Arguments, Command, HostTool, HostToolUpdate, ToolOutput};
use tokio::sync::{mpsc, watch};

use crate::connection::Input;

/// The result of a call. The text of an error is for the model.
pub type ToolResult = Result<ToolOutput, Box<dyn Error + Send + Sync>>;

pub(crate) type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;
pub(crate) type ToolFunction =
    Arc<dyn Fn(Arguments, ToolContext) -> BoxFuture<ToolResult> + Send + Sync>;

/// A function of the host that the model can call.
#[derive(Clone)]
pub struct Tool {
    definition: HostTool,
    function: ToolFunction,
}

impl Tool {
    /// A tool with its name and description, a JSON Schema of its arguments, and the function. tiller
    /// checks the arguments of a call against the schema; then they are parsed as the function's
    /// first parameter. Each call runs in a task of its own.
    pub fn new<A, F, R>(
        name: impl Into<String>,
        description: impl Into<String>,
        parameters: Value,
        function: F,
    ) -> Tool
    where
        A: DeserializeOwned,
        F: Fn(A, ToolContext) -> R + Send + Sync + 'static,
        R: Future<Output = ToolResult> + Send + 'static,
    {
        let definition = HostTool {
            name: name.into(),
            description: description.into(),
            parameters,
            is_hidden: false,
            timeout_ms: None,
        };
        let function: ToolFunction =
            Arc::new(move |arguments, context| {
                match serde_json::from_value::<A>(Value::Object(arguments)) {
                    Ok(arguments) => Box::pin(function(arguments, context)),
                    Err(error) => Box::pin(std::future::ready(Err(error.into()))),
                }
            });
        Tool { definition, function }
    }

    /// Limits the time of a call. After it the call is cancelled, and the model gets an error.
    pub fn timeout(mut self, limit: Duration) -> Tool {
        let ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        self.definition.timeout_ms = Some(NonZeroU64::new(ms).unwrap_or(NonZeroU64::MIN));
        self
    }

    /// The name that the model uses.
    pub fn name(&self) -> &str {
        &self.definition.name
    }

    pub(crate) fn definition(&self) -> &HostTool {
        &self.definition
    }

    pub(crate) fn function(&self) -> &ToolFunction {
        &self.function
    }
}

impl fmt::Debug for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tool").field("definition", &self.definition).finish_non_exhaustive()
    }
}

/// One call of a host tool.
pub struct ToolContext {
    id: String,
    tool_call_id: String,
    cancelled: watch::Receiver<bool>,
    inputs: mpsc::Sender<Input>,
}

impl ToolContext {
    pub(crate) fn new(
        id: String,
        tool_call_id: String,
        cancelled: watch::Receiver<bool>,
        inputs: mpsc::Sender<Input>,
    ) -> ToolContext {
        ToolContext { id, tool_call_id, cancelled, inputs }
    }

    /// The id of the call in the conversation.
    pub fn tool_call_id(&self) -> &str {
        &self.tool_call_id
    }

    /// Shows the output so far. It replaces what was shown before.
    pub async fn update(&self, partial_result: ToolOutput) {
        let update = HostToolUpdate { id: self.id.clone(), partial_result };
        // If the client has ended, the update is no longer needed.
        self.inputs.send(Input::Send(Command::HostToolUpdate(update))).await.ok();
    }

    /// Whether the result is no longer needed.
    pub fn is_cancelled(&self) -> bool {
        *self.cancelled.borrow()
    }

    /// Waits until the result is no longer needed: after an abort, the tool's time limit, or a
    /// change of the session. The function continues until it returns; its result is then dropped.
    /// When the client ends, the function is dropped.
    pub async fn cancelled(&self) {
        // An error means that the client has ended.
        self.cancelled.clone().wait_for(|is_cancelled| *is_cancelled).await.ok();
    }
}
