//! Tools that the client registers and runs.
//!
//! To the model and the loop they are tools like any other. A call becomes an input of the server,
//! which sends it to the client; the result comes back as a command. A call also ends by an abort,
//! a time limit or the end of stdin.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tiller_agent::event::Event;
use tiller_agent::message::Arguments;
use tiller_agent::tool::{Failure, Tool, ToolContext, ToolOutput, ToolResult};

use super::server::Input;
use super::state::SessionState;
use super::tasks::{Responder, Tasks};
use super::wire::HostTool;

#[derive(Default)]
pub(crate) struct HostTools {
    /// The registered tools that are offered.
    tools: Vec<Tool>,
    /// Changes with each registration.
    version: u64,
    /// Calls without a result, by number.
    open: BTreeMap<u64, OpenCall>,
    calls: Arc<AtomicU64>,
    cancels: u64,
    /// stdin is at its end, so no result can come.
    is_client_gone: bool,
}

struct OpenCall {
    cx: ToolContext,
    answer: Responder<ToolResult>,
}

/// What a call sends to the server.
pub enum HostCall {
    Begun(Box<BegunCall>),
    /// The call with this number was given up.
    GivenUp(u64),
}

/// A call on its way to the client.
pub struct BegunCall {
    number: u64,
    tool_name: String,
    arguments: Arguments,
    cx: ToolContext,
    answer: Responder<ToolResult>,
}

impl HostTools {
    pub(crate) fn tools(&self) -> &[Tool] {
        &self.tools
    }

    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    fn next_cancel(&mut self, number: u64) -> Event {
        self.cancels += 1;
        let id = format!("host_cancel_{}", self.cancels);
        Event::HostToolCancel { id, target_id: call_id(number) }
    }
}

impl SessionState {
    /// Replaces the tools. Later requests offer them; open calls are not affected.
    pub(crate) fn set_host_tools(&mut self, tools: Vec<HostTool>) {
        let caller = Caller { tasks: self.tasks.clone(), calls: self.host_tools.calls.clone() };
        let offered = tools.into_iter().filter(|tool| !tool.is_hidden);
        self.host_tools.tools = offered.map(|tool| caller.tool(tool)).collect();
        self.host_tools.version += 1;
    }

    pub(super) fn host_call(&mut self, call: HostCall) {
        match call {
            HostCall::Begun(call) => self.ask_host(*call),
            HostCall::GivenUp(number) => {
                // No longer open if the result came at the same moment.
                if self.host_tools.open.remove(&number).is_some() {
                    let cancel = self.host_tools.next_cancel(number);
                    self.emit(cancel);
                }
            }
        }
    }

    fn ask_host(&mut self, call: BegunCall) {
        let BegunCall { number, tool_name, arguments, cx, answer } = call;
        if self.host_tools.is_client_gone {
            return answer.respond(Err(Failure::new(GONE)));
        }
        // A call that was aborted before it started is not sent to the client.
        if !cx.cancel.is_cancelled() {
            let (id, tool_call_id) = (call_id(number), cx.call_id.to_string());
            let arguments = Box::new(arguments);
            self.emit(Event::HostToolCall { id, tool_call_id, tool_name, arguments });
            self.host_tools.open.insert(number, OpenCall { cx, answer });
        }
    }

    /// Forwards a partial result. Calls that have ended are ignored.
    pub(crate) fn host_tool_update(&mut self, id: &str, partial: ToolOutput) {
        let open = number(id).and_then(|number| self.host_tools.open.get(&number));
        if let Some(open) = open {
            open.cx.show(partial);
        }
    }

    /// Takes the result of a call. Only the first counts.
    pub(crate) fn host_tool_result(&mut self, id: &str, result: ToolResult) {
        let open = number(id).and_then(|number| self.host_tools.open.remove(&number));
        if let Some(open) = open {
            open.answer.respond(result);
        }
    }

    /// Cancels calls that are still open when the run has ended.
    pub(super) fn close_host_calls(&mut self) {
        for number in std::mem::take(&mut self.host_tools.open).into_keys() {
            let cancel = self.host_tools.next_cancel(number);
            self.emit(cancel);
        }
    }

    /// stdin is at its end: open calls fail now, later ones when they are made.
    pub(super) fn lose_host(&mut self) {
        self.host_tools.is_client_gone = true;
        for (number, open) in std::mem::take(&mut self.host_tools.open) {
            let cancel = self.host_tools.next_cancel(number);
            self.emit(cancel);
            open.answer.respond(Err(Failure::new(GONE)));
        }
    }
}

const GONE: &str = "RPC client disconnected before host tool execution completed";

fn call_id(number: u64) -> String {
    format!("host_{number}")
}

fn number(id: &str) -> Option<u64> {
    id.strip_prefix("host_")?.parse().ok()
}

/// Sends calls to the server.
#[derive(Clone)]
struct Caller {
    tasks: Tasks,
    /// Calls made so far, by all tools together.
    calls: Arc<AtomicU64>,
}

impl Caller {
    fn tool(&self, tool: HostTool) -> Tool {
        let (caller, name, timeout) = (self.clone(), tool.name.clone(), tool.timeout());
        Tool::new(tool.into_spec(), move |arguments, cx| {
            caller.clone().call(name.clone(), timeout, arguments, cx)
        })
    }

    async fn call(
        self,
        name: String,
        timeout: Option<Duration>,
        arguments: Arguments,
        cx: ToolContext,
    ) -> ToolResult {
        let aborted = Failure::new(format!("Host tool \"{name}\" was aborted"));
        if cx.cancel.is_cancelled() {
            return Err(aborted);
        }
        let number = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        let (answer, result) = Responder::channel();
        let cancel = cx.cancel.clone();
        let call = BegunCall { number, tool_name: name.clone(), arguments, cx, answer };
        self.tasks.send(Input::HostCall(HostCall::Begun(Box::new(call)))).await;
        let overdue = async {
            match timeout {
                Some(timeout) => tokio::time::sleep(timeout).await,
                None => std::future::pending().await,
            }
        };
        let failure = tokio::select! {
            biased;
            Ok(result) = result => return result,
            () = cancel.cancelled() => aborted,
            () = overdue => {
                let ms = timeout.unwrap_or_default().as_millis();
                Failure::new(format!("Host tool \"{name}\" did not answer within {ms} ms"))
            }
        };
        self.tasks.send(Input::HostCall(HostCall::GivenUp(number))).await;
        Err(failure)
    }
}
