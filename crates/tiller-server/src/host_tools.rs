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
use tiller_protocol::{ClientId, HostTool};

use crate::server::Input;
use crate::tasks::{Responder, Tasks};

#[derive(Default)]
pub(crate) struct HostTools {
    /// The client that registered the tools, and gets their calls.
    owner: ClientId,
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
    Start(Box<NewHostCall>),
    /// The call with this number was given up.
    Cancel(u64),
}

/// A call on its way to the client.
pub struct NewHostCall {
    number: u64,
    tool_name: String,
    arguments: Arguments,
    cx: ToolContext,
    answer: Responder<ToolResult>,
}

impl HostTools {
    pub(super) fn tools(&self) -> &[Tool] {
        &self.tools
    }

    /// The client that the events of calls are for.
    pub(super) fn owner(&self) -> ClientId {
        self.owner
    }

    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// Replaces the tools. Later requests offer them; open calls are not affected.
    pub(crate) fn register(&mut self, client: ClientId, tools: Vec<HostTool>, tasks: &Tasks) {
        self.owner = client;
        self.is_client_gone = false;
        let caller = Caller { tasks: tasks.clone(), calls: self.calls.clone() };
        let offered = tools.into_iter().filter(|tool| !tool.is_hidden);
        self.tools = offered.map(|tool| caller.tool(tool)).collect();
        self.version += 1;
    }

    /// Returns the event for the client.
    pub(super) fn handle(&mut self, call: HostCall) -> Option<Event> {
        match call {
            HostCall::Start(call) => self.begin(*call),
            // No longer open if the result came at the same moment.
            HostCall::Cancel(number) => {
                self.open.remove(&number)?;
                Some(self.cancel(number))
            }
        }
    }

    fn begin(&mut self, call: NewHostCall) -> Option<Event> {
        let NewHostCall { number, tool_name, arguments, cx, answer } = call;
        if self.is_client_gone {
            answer.respond(Err(Failure::new(GONE)));
            return None;
        }
        // A call that was aborted before it started is not sent to the client.
        if cx.cancel.is_cancelled() {
            return None;
        }
        let id = call_id(number);
        let tool_call_id = cx.call_id.to_string();
        let arguments = Box::new(arguments);
        self.open.insert(number, OpenCall { cx, answer });
        Some(Event::HostToolCall { id, tool_call_id, tool_name, arguments })
    }

    /// Forwards a partial result. Calls that have ended are ignored.
    pub(crate) fn update(&self, id: &str, partial: ToolOutput) {
        if let Some(open) = number(id).and_then(|number| self.open.get(&number)) {
            open.cx.show(partial);
        }
    }

    /// Takes the result of a call. Only the first counts.
    pub(crate) fn finish(&mut self, id: &str, result: ToolResult) {
        if let Some(open) = number(id).and_then(|number| self.open.remove(&number)) {
            open.answer.respond(result);
        }
    }

    /// Cancels calls that are still open when the run has ended.
    pub(super) fn run_ended(&mut self) -> Vec<Event> {
        let open = std::mem::take(&mut self.open);
        open.into_keys().map(|number| self.cancel(number)).collect()
    }

    /// A client has left: if the tools are its own, they are no longer offered, and open calls fail.
    pub(super) fn detached(&mut self, client: ClientId) {
        if self.owner == client && !self.tools.is_empty() {
            self.tools.clear();
            self.version += 1;
            for (_, open) in std::mem::take(&mut self.open) {
                open.answer.respond(Err(Failure::new(GONE)));
            }
        }
    }

    /// stdin is at its end: open calls fail now, later ones when they are made.
    pub(super) fn client_left(&mut self) -> Vec<Event> {
        self.is_client_gone = true;
        let open = std::mem::take(&mut self.open).into_iter();
        let fail = |(number, open): (u64, OpenCall)| {
            open.answer.respond(Err(Failure::new(GONE)));
            self.cancel(number)
        };
        open.map(fail).collect()
    }

    fn cancel(&mut self, number: u64) -> Event {
        self.cancels += 1;
        let id = format!("host_cancel_{}", self.cancels);
        Event::HostToolCancel { id, target_id: call_id(number) }
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
        let caller = self.clone();
        let name = tool.name.clone();
        let timeout = tool.timeout();
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
        let call = NewHostCall { number, tool_name: name.clone(), arguments, cx, answer };
        self.tasks.send(Input::HostCall(HostCall::Start(Box::new(call)))).await;
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
        self.tasks.send(Input::HostCall(HostCall::Cancel(number))).await;
        Err(failure)
    }
}
