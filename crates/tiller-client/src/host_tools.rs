//! What the host provides: tools that the model can call, and answers to dialogs.

use std::collections::HashMap;
use std::pin::Pin;

use serde::Deserialize;
use serde::de::IntoDeserializer;
use tiller_protocol::{
    Arguments, Command, Dialog, ExtensionUiResponse, HostTool, HostToolResult, HostToolUpdate,
    ToolOutput, UiAnswer,
};
use tokio::sync::{mpsc, watch};

use crate::connection::Input;

type Task<T> = Pin<Box<dyn Future<Output = T> + Send>>;
type ToolHandler = Box<dyn Fn(HostToolCall) -> Task<Result<ToolOutput, String>> + Send>;
type DialogHandler = Box<dyn Fn(Dialog) -> Task<UiAnswer> + Send>;

/// The functions of the host.
#[derive(Default)]
pub(crate) struct Handlers {
    pub(crate) tools: Vec<HostTool>,
    by_name: HashMap<String, ToolHandler>,
    dialog: Option<DialogHandler>,
}

/// A call of a host tool.
pub struct HostToolCall {
    id: String,
    tool_call_id: String,
    arguments: Arguments,
    cancelled: watch::Receiver<bool>,
    inputs: mpsc::UnboundedSender<Input>,
}

impl HostToolCall {
    /// The id of the call in the conversation.
    pub fn tool_call_id(&self) -> &str {
        &self.tool_call_id
    }

    /// The arguments as a type of the host's. The error is a text for the model.
    pub fn arguments<'de, T: Deserialize<'de>>(&self) -> Result<T, String> {
        let arguments = self.arguments.clone().into_deserializer();
        T::deserialize(arguments).map_err(|err: serde_json::Error| err.to_string())
    }

    /// Shows the output so far. It replaces what was shown before.
    pub fn update(&self, partial_result: ToolOutput) {
        let update = HostToolUpdate { id: self.id.clone(), partial_result };
        send(&self.inputs, Command::HostToolUpdate(update));
    }

    /// Whether the result is no longer needed.
    pub fn is_cancelled(&self) -> bool {
        *self.cancelled.borrow()
    }

    /// Waits until the result is no longer needed: after an abort, a time limit, or the end of the
    /// session. The host's function continues until it returns; its result is then dropped.
    pub async fn cancelled(&self) {
        // An error means that the client has ended.
        self.cancelled.clone().wait_for(|is_cancelled| *is_cancelled).await.ok();
    }
}

impl Handlers {
    pub(crate) fn add_tool<F, R>(&mut self, tool: HostTool, handler: F)
    where
        F: Fn(HostToolCall) -> R + Send + 'static,
        R: Future<Output = Result<ToolOutput, String>> + Send + 'static,
    {
        let handler: ToolHandler = Box::new(move |call| Box::pin(handler(call)));
        self.by_name.insert(tool.name.clone(), handler);
        self.tools.push(tool);
    }

    pub(crate) fn set_dialog<F, R>(&mut self, handler: F)
    where
        F: Fn(Dialog) -> R + Send + 'static,
        R: Future<Output = UiAnswer> + Send + 'static,
    {
        self.dialog = Some(Box::new(move |dialog| Box::pin(handler(dialog))));
    }

    /// The work of a tool call, and the sender that cancels it.
    pub(crate) fn call(
        &self,
        id: String,
        name: &str,
        tool_call_id: String,
        arguments: Arguments,
        inputs: mpsc::UnboundedSender<Input>,
    ) -> (watch::Sender<bool>, Task<()>) {
        let (cancel, cancelled) = watch::channel(false);
        let is_cancelled = cancelled.clone();
        let mut result = PendingResult { id: Some(id.clone()), inputs: inputs.clone() };
        let call = HostToolCall { id, tool_call_id, arguments, cancelled, inputs };
        let Some(handler) = self.by_name.get(name) else {
            let error = Err(format!("The host has no tool {name}"));
            return (cancel, Box::pin(async move { result.send(error) }));
        };
        let output = handler(call);
        let work = async move {
            let output = output.await;
            if *is_cancelled.borrow() {
                result.id = None;
            }
            result.send(output);
        };
        (cancel, Box::pin(work))
    }

    /// The work of a dialog. Without a handler it is cancelled.
    pub(crate) fn answer(
        &self,
        id: String,
        dialog: Dialog,
        inputs: mpsc::UnboundedSender<Input>,
    ) -> Task<()> {
        let answer = self.dialog.as_ref().map(|handler| handler(dialog));
        Box::pin(async move {
            let answer = match answer {
                Some(answer) => answer.await,
                None => UiAnswer::Cancelled,
            };
            let response = ExtensionUiResponse { id, answer };
            send(&inputs, Command::ExtensionUiResponse(response));
        })
    }
}

/// Sends exactly one result, also if the host's function panics: the model would wait for it.
struct PendingResult {
    /// Absent once the result is sent or no longer needed.
    id: Option<String>,
    inputs: mpsc::UnboundedSender<Input>,
}

impl PendingResult {
    fn send(&mut self, output: Result<ToolOutput, String>) {
        let Some(id) = self.id.take() else { return };
        let (result, is_error) = match output {
            Ok(output) => (output, false),
            Err(error) => (ToolOutput::text(error), true),
        };
        let result = HostToolResult { id, result, is_error };
        send(&self.inputs, Command::HostToolResult(result));
    }
}

impl Drop for PendingResult {
    fn drop(&mut self) {
        self.send(Err("The host tool ended without a result".to_owned()));
    }
}

fn send(inputs: &mpsc::UnboundedSender<Input>, command: Command) {
    // If the client has ended, the command is no longer needed.
    inputs.send(Input::Send(command)).ok();
}
