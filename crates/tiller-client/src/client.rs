//! The host's side of a connection: prompts, events, tools and the end.

use std::collections::VecDeque;
use std::fmt;
use std::process::ExitStatus;
use std::time::Duration;

use serde::de::DeserializeOwned;
use tiller_protocol::data::HostToolsData;
use tiller_protocol::{
    Command, EventsData, GetEvents, HelloData, Prompt, Record, SetHostTools, Stamp, TextAndImages,
};
use tokio::sync::Mutex;

use crate::connection::{ConnectionTask, Input};
use crate::events::{Event, EventStream, Position};
use crate::process::StderrTail;
use crate::requester::Requester;
use crate::tools::Tool;
use crate::turn::Turn;
use crate::{Builder, ClientError};

/// How long [`Client::close`] waits for tiller to end.
const CLOSE_LIMIT: Duration = Duration::from_secs(10);

/// A connection to tiller. Dropping it kills the process; [`Client::close`] lets it end by itself.
///
/// Every command has a method. A function of the host that sends commands itself, such as a tool,
/// holds a [`Weak`](std::sync::Weak) reference: a client that its own tools refer to would never be
/// dropped.
pub struct Client {
    requester: Requester,
    task: ConnectionTask,
    pid: Option<u32>,
    stderr: StderrTail,
    server: HelloData<'static>,
    /// The tools that are registered. Locked while a change of them is registered.
    tools: Mutex<Vec<Tool>>,
}

impl Client {
    /// Describes the process to start.
    pub fn builder() -> Builder {
        Builder::new()
    }

    pub(crate) fn new(
        requester: Requester,
        task: ConnectionTask,
        pid: Option<u32>,
        stderr: StderrTail,
        server: HelloData<'static>,
    ) -> Client {
        Client { requester, task, pid, stderr, server, tools: Mutex::default() }
    }

    /// What tiller said about itself at the start: version, commands, events, limits.
    pub fn server(&self) -> &HelloData<'static> {
        &self.server
    }

    /// The process id of tiller, if the client has started it.
    pub fn pid(&self) -> Option<u32> {
        self.pid
    }

    /// The last lines that tiller wrote to stderr.
    pub fn stderr_tail(&self) -> String {
        self.stderr.text()
    }

    /// Behind the newest record that was received. [`Client::replay`] takes it.
    pub fn position(&self) -> Position {
        let epoch = self.server.sequence.as_ref().map(|sequence| sequence.epoch.to_string());
        Position { seq: self.requester.shared().last_seq(), epoch }
    }

    /// Sends a user message. Returns when tiller has accepted it; the answer follows as events.
    ///
    /// Takes a text, or a [`Prompt`] with images and other fields. While tiller is busy the message
    /// is refused, unless `when_busy` names a queue.
    pub async fn prompt(&self, prompt: impl Into<Prompt>) -> Result<Turn, ClientError> {
        self.requester.start_turn(Command::Prompt(prompt.into())).await
    }

    /// Queues a message that is sent after the tools of the current turn.
    pub async fn steer(&self, message: impl Into<TextAndImages>) -> Result<Turn, ClientError> {
        self.requester.start_turn(Command::Steer(message.into())).await
    }

    /// Queues a message that is sent when the run would otherwise end.
    pub async fn follow_up(&self, message: impl Into<TextAndImages>) -> Result<Turn, ClientError> {
        self.requester.start_turn(Command::FollowUp(message.into())).await
    }

    /// Stops the current run and starts a new one with this message.
    pub async fn abort_and_prompt(
        &self,
        message: impl Into<TextAndImages>,
    ) -> Result<Turn, ClientError> {
        self.requester.start_turn(Command::AbortAndPrompt(message.into())).await
    }

    /// Sends any command and parses the data of its response; `()` if it has none. A refusal is an
    /// error. The types of the data are in [`protocol::data`](crate::protocol::data).
    pub async fn request<T: DeserializeOwned>(&self, command: Command) -> Result<T, ClientError> {
        self.requester.request(command).await
    }

    /// All events from now on.
    pub async fn events(&self) -> EventStream {
        self.requester.subscribe().await
    }

    /// All events after a position: first those of the past, then the live ones. There is no gap and
    /// no duplicate; if tiller no longer has all of them, that is an error.
    pub async fn replay(&self, since: impl Into<Position>) -> Result<EventStream, ClientError> {
        let Position { seq: since, epoch } = since.into();
        // Live events are received while those of the past are requested.
        let live = self.events().await;
        let mut past = VecDeque::new();
        let mut position = since;
        loop {
            let command = GetEvents { since: position, epoch: epoch.clone(), limit: None };
            let page: EventsData<'static> = self.request(Command::GetEvents(command)).await?;
            if page.truncated {
                let reason = format!("tiller no longer has all events after {since}");
                return Err(ClientError::EventsLost { reason });
            }
            let is_last = !page.more || page.events.is_empty();
            for text in page.events {
                let unreadable = |err| ClientError::protocol(format!("invalid event: {err}"));
                let stamp: Stamp = text.read().map_err(unreadable)?;
                position = position.max(stamp.seq.unwrap_or_default());
                match text.read().map_err(unreadable)? {
                    Record::Response(_) => {}
                    record => past.push_back(Event::new(record, stamp)),
                }
            }
            if is_last {
                return Ok(live.after(past, position));
            }
        }
    }

    /// Offers the model another tool, from the next request on. It replaces a tool of the same name.
    pub async fn add_tool(&self, tool: Tool) -> Result<(), ClientError> {
        self.add_tools(vec![tool]).await
    }

    pub(crate) async fn add_tools(&self, added: Vec<Tool>) -> Result<(), ClientError> {
        let mut registered = self.tools.lock().await;
        let mut tools = registered.clone();
        tools.retain(|tool| added.iter().all(|other| other.name() != tool.name()));
        tools.extend(added);
        self.register(&mut registered, tools).await
    }

    /// Withdraws a tool, from the next request on.
    pub async fn remove_tool(&self, name: &str) -> Result<(), ClientError> {
        let mut registered = self.tools.lock().await;
        let mut tools = registered.clone();
        tools.retain(|tool| tool.name() != name);
        self.register(&mut registered, tools).await
    }

    /// Registers these tools in place of the others. If tiller refuses, nothing changes.
    async fn register(
        &self,
        registered: &mut Vec<Tool>,
        tools: Vec<Tool>,
    ) -> Result<(), ClientError> {
        let definitions = tools.iter().map(|tool| tool.definition().clone()).collect();
        let command = Command::SetHostTools(SetHostTools { tools: definitions });
        // Before the command, because a call may follow its response at once.
        self.requester.send(Input::SetTools(tools.clone())).await;
        match self.request::<HostToolsData>(command).await {
            Ok(_) => {
                *registered = tools;
                Ok(())
            }
            Err(error) => {
                self.requester.send(Input::SetTools(registered.clone())).await;
                Err(error)
            }
        }
    }

    /// Ends tiller: closes its stdin, and kills it if it does not end within ten seconds. A run in
    /// progress is aborted, and its turn gets its last events and its result. Returns how the
    /// process ended, if there is one.
    pub async fn close(self) -> Option<ExitStatus> {
        self.close_within(CLOSE_LIMIT).await
    }

    /// The same with another time limit.
    pub async fn close_within(self, limit: Duration) -> Option<ExitStatus> {
        self.task.close(limit).await?.status
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("pid", &self.pid).finish_non_exhaustive()
    }
}
