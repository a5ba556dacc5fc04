//! Tools that the client brings and runs itself.
//!
//! To the model and to the loop they are tools like any other. A call becomes an input of the
//! server, which asks the client; the answer comes back as a line, whenever that is. Nobody waits
//! for ever: an abort, a time limit or the end of stdin ends a call without the client.

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
    /// Those that are offered.
    tools: Vec<Tool>,
    /// Another number, another set.
    version: u64,
    /// Asked and not answered, by number.
    open: BTreeMap<u64, OpenCall>,
    calls: Arc<AtomicU64>,
    cancels: u64,
    /// The client has hung up and can answer nothing any more.
    is_client_gone: bool,
}

struct OpenCall {
    cx: ToolContext,
    answer: Responder<ToolResult>,
}

/// What a tool at work tells the server.
pub enum HostCall {
    Begun(Box<BegunCall>),
    /// Nobody waits for the call of this number any more.
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
    /// Puts these tools in the place of those there were. Requests from here on offer them; calls
    /// under way stay what they are.
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
                // Not open any more when the answer came at the same moment.
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
        // Aborted before it began: then the client need not hear of it at all.
        if !cx.cancel.is_cancelled() {
            let (id, tool_call_id) = (call_id(number), cx.call_id.to_string());
            let arguments = Box::new(arguments);
            self.emit(Event::HostToolCall { id, tool_call_id, tool_name, arguments });
            self.host_tools.open.insert(number, OpenCall { cx, answer });
        }
    }

    /// The client shows what it has so far. A call that is over does not mind.
    pub(crate) fn host_tool_update(&mut self, id: &str, partial: ToolOutput) {
        let open = number(id).and_then(|number| self.host_tools.open.get(&number));
        if let Some(open) = open {
            open.cx.show(partial);
        }
    }

    /// The client has done it. The first answer counts.
    pub(crate) fn host_tool_result(&mut self, id: &str, result: ToolResult) {
        let open = number(id).and_then(|number| self.host_tools.open.remove(&number));
        if let Some(open) = open {
            open.answer.respond(result);
        }
    }

    /// The run is over. A call of it that is still open was left behind by its tool.
    pub(super) fn close_host_calls(&mut self) {
        for number in std::mem::take(&mut self.host_tools.open).into_keys() {
            let cancel = self.host_tools.next_cancel(number);
            self.emit(cancel);
        }
    }

    /// No answer will ever come: open calls fail now, and all others as soon as they are made.
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

/// How a tool reaches the server.
#[derive(Clone)]
struct Caller {
    tasks: Tasks,
    /// Calls made so far, by all tools together.
    calls: Arc<AtomicU64>,
}

impl Caller {
    fn tool(&self, tool: HostTool) -> Tool {
        let HostTool { spec, timeout, .. } = tool;
        let (caller, name) = (self.clone(), spec.name.clone());
        Tool::new(spec, move |arguments, cx| {
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
