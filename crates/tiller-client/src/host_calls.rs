//! Runs the host's functions: calls of its tools, and dialogs.

use std::collections::HashMap;
use std::sync::Arc;

use tiller_protocol::{
    Arguments, Command, Dialog, ExtensionUiResponse, HostToolResult, ToolOutput, UiAnswer,
};
use tokio::sync::{mpsc, watch};
use tokio::task::{Id, JoinError, JoinSet};

use crate::connection::Input;
use crate::tools::{BoxFuture, Tool, ToolContext, ToolResult};

pub(crate) type DialogHandler = Arc<dyn Fn(Dialog) -> BoxFuture<UiAnswer> + Send + Sync>;

/// The functions of the host, and those of them that run. They are dropped with this value.
pub(crate) struct HostCalls {
    tools: Vec<Tool>,
    on_dialog: Option<DialogHandler>,
    /// For partial results.
    inputs: mpsc::Sender<Input>,
    tasks: JoinSet<HostReply>,
    open: HashMap<Id, OpenCall>,
}

/// What a function of the host has returned.
enum HostReply {
    Tool(ToolResult),
    Dialog(UiAnswer),
}

/// A function that runs, with the `id` of its answer.
enum OpenCall {
    Tool { id: String, name: String, cancel: watch::Sender<bool> },
    Dialog { id: String },
}

impl HostCalls {
    pub(crate) fn new(on_dialog: Option<DialogHandler>, inputs: mpsc::Sender<Input>) -> HostCalls {
        let (tasks, open) = (JoinSet::new(), HashMap::new());
        HostCalls { tools: Vec::new(), on_dialog, inputs, tasks, open }
    }

    /// Replaces the tools. Calls that run are not affected.
    pub(crate) fn set_tools(&mut self, tools: Vec<Tool>) {
        self.tools = tools;
    }

    /// Starts a call. Returns its result if that is known at once.
    pub(crate) fn call(
        &mut self,
        id: String,
        tool_call_id: String,
        name: &str,
        arguments: Arguments,
    ) -> Option<Command> {
        let Some(tool) = self.tools.iter().find(|tool| tool.name() == name) else {
            return Some(error_result(id, format!("The host no longer has the tool {name}")));
        };
        let (cancel, cancelled) = watch::channel(false);
        let context = ToolContext::new(id.clone(), tool_call_id, cancelled, self.inputs.clone());
        let function = tool.function().clone();
        // The function is called by the task, which may panic.
        let work = async move { HostReply::Tool(function(arguments, context).await) };
        let task = self.tasks.spawn(work).id();
        self.open.insert(task, OpenCall::Tool { id, name: name.to_owned(), cancel });
        None
    }

    /// The result of a call is no longer needed.
    pub(crate) fn cancel(&self, target: &str) {
        for call in self.open.values() {
            if let OpenCall::Tool { id, cancel, .. } = call
                && id == target
            {
                cancel.send_replace(true);
            }
        }
    }

    /// Shows a dialog. Without a handler it is cancelled at once.
    pub(crate) fn show(&mut self, id: String, dialog: Dialog) -> Option<Command> {
        let Some(handler) = self.on_dialog.clone() else {
            return Some(dialog_answer(id, UiAnswer::Cancelled));
        };
        let work = async move { HostReply::Dialog(handler(dialog).await) };
        let task = self.tasks.spawn(work).id();
        self.open.insert(task, OpenCall::Dialog { id });
        None
    }

    /// Waits for the end of a function, and returns its answer unless that is no longer needed.
    /// Returns nothing if no function runs.
    pub(crate) async fn next(&mut self) -> Option<Option<Command>> {
        let ended = self.tasks.join_next_with_id().await?;
        let task = ended.as_ref().map_or_else(JoinError::id, |(task, _)| *task);
        let reply = ended.ok().map(|(_, reply)| reply);
        Some(self.open.remove(&task).and_then(|call| answer(call, reply)))
    }
}

/// The command that answers a call. A function that panicked has no reply.
fn answer(call: OpenCall, reply: Option<HostReply>) -> Option<Command> {
    match (call, reply) {
        (OpenCall::Tool { cancel, .. }, _) if *cancel.borrow() => None,
        (OpenCall::Tool { id, .. }, Some(HostReply::Tool(Ok(result)))) => {
            Some(Command::HostToolResult(HostToolResult { id, result, is_error: false }))
        }
        (OpenCall::Tool { id, .. }, Some(HostReply::Tool(Err(error)))) => {
            Some(error_result(id, error.to_string()))
        }
        (OpenCall::Tool { id, name, .. }, _) => {
            Some(error_result(id, format!("The tool {name} has crashed")))
        }
        (OpenCall::Dialog { id }, Some(HostReply::Dialog(answer))) => {
            Some(dialog_answer(id, answer))
        }
        (OpenCall::Dialog { id }, _) => Some(dialog_answer(id, UiAnswer::Cancelled)),
    }
}

/// A failed call, with a text for the model.
pub(crate) fn error_result(id: String, error: String) -> Command {
    Command::HostToolResult(HostToolResult { id, result: ToolOutput::text(error), is_error: true })
}

fn dialog_answer(id: String, answer: UiAnswer) -> Command {
    Command::ExtensionUiResponse(ExtensionUiResponse { id, answer })
}
