//! The host's side of a connection: requests, prompts, events and the end.

use std::time::Duration;

use serde::de::DeserializeOwned;
use tiller_protocol::{Command, EventsData, GetEvents, Prompt, Record, Response};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::connection::{EndReason, Exit, Input, Request};
use crate::events::{Events, Position, Replay, StampedRecord};
use crate::run::PromptRun;
use crate::{Builder, ClientError};

/// How long [`Client::close`] waits for tiller to end.
const CLOSE_LIMIT: Duration = Duration::from_secs(10);

/// A connection to tiller. Dropping it kills the process; [`Client::close`] lets it end by itself.
pub struct Client {
    requester: Requester,
    task: JoinHandle<Exit>,
}

impl Client {
    /// Describes the process to start.
    pub fn builder() -> Builder {
        Builder::new()
    }

    pub(crate) fn new(requester: Requester, task: JoinHandle<Exit>) -> Client {
        Client { requester, task }
    }

    /// Sends a command and waits for its response. A refusal is an error.
    pub async fn request(&self, command: Command) -> Result<Response<'static>, ClientError> {
        self.requester.request(command, None).await
    }

    /// Sends a command and parses the data of its response.
    pub async fn request_data<T: DeserializeOwned>(
        &self,
        command: Command,
    ) -> Result<T, ClientError> {
        let name = command.name();
        let response = self.request(command).await?;
        let data = response.read();
        data.map_err(|reason| ClientError::Data { command: name.to_owned(), reason })
    }

    /// Sends a prompt. Returns when tiller has accepted it; the run follows as events.
    pub async fn prompt(&self, text: impl Into<String>) -> Result<PromptRun, ClientError> {
        let prompt = Prompt { message: text.into(), ..Prompt::default() };
        self.requester.start_run(Command::Prompt(prompt)).await
    }

    /// Sends a `prompt`, `steer`, `follow_up` or `abort_and_prompt` with all its fields.
    pub async fn run(&self, command: Command) -> Result<PromptRun, ClientError> {
        self.requester.start_run(command).await
    }

    /// All records from now on, responses included.
    pub fn events(&self) -> Events {
        let (sender, live) = mpsc::unbounded_channel();
        // If the connection has ended, the stream is empty.
        self.requester.inputs.send(Input::Subscribe(sender)).ok();
        Events::new(live)
    }

    /// All records after this position: first those of earlier, then new ones, without gap or
    /// duplicate unless [`Events::is_truncated`].
    pub async fn events_since(&self, since: impl Into<Position>) -> Result<Events, ClientError> {
        // New records are received while the earlier ones are requested.
        let live = self.events();
        Ok(live.after(self.replay(since).await?))
    }

    /// The records after this position that tiller still keeps.
    pub async fn replay(&self, since: impl Into<Position>) -> Result<Replay, ClientError> {
        let Position { mut seq, mut epoch } = since.into();
        let (mut records, mut is_truncated) = (Vec::new(), false);
        loop {
            let command = Command::GetEvents(GetEvents { since: seq, epoch, limit: None });
            let page: EventsData<'static> = self.request_data(command).await?;
            is_truncated |= page.truncated;
            for event in &page.events {
                let read = (event.read(), event.read());
                let (Ok(record), Ok(stamp)) = read else { continue };
                records.push(StampedRecord::new(record, stamp));
            }
            epoch = Some(page.epoch.into_owned());
            let last = records.last().and_then(StampedRecord::position);
            match last {
                Some(last) if page.more && last.seq != seq => seq = last.seq,
                _ => {
                    let end = Position { seq: page.last_seq, epoch };
                    return Ok(Replay { records, is_truncated, end });
                }
            }
        }
    }

    /// Ends tiller: closes its stdin, and kills it if it does not end within ten seconds. Returns
    /// its exit code; there is none if it was killed.
    pub async fn close(self) -> Option<i32> {
        self.close_within(CLOSE_LIMIT).await
    }

    /// The same with another time limit.
    pub async fn close_within(mut self, limit: Duration) -> Option<i32> {
        // If the connection has ended, its task has the exit code.
        self.requester.inputs.send(Input::Close).ok();
        timeout(limit, &mut self.task).await.ok()?.ok()?.code
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // The task owns the process, which is killed when it is dropped.
        self.task.abort();
    }
}

/// Sends requests to the connection's task.
#[derive(Clone)]
pub(crate) struct Requester {
    inputs: mpsc::UnboundedSender<Input>,
    reason: EndReason,
}

impl Requester {
    pub(crate) fn new(inputs: mpsc::UnboundedSender<Input>, reason: EndReason) -> Requester {
        Requester { inputs, reason }
    }

    pub(crate) async fn request(
        &self,
        command: Command,
        run: Option<mpsc::UnboundedSender<Record<'static>>>,
    ) -> Result<Response<'static>, ClientError> {
        let name = command.name();
        if !command.has_response() {
            return Err(ClientError::NoResponse { command: name });
        }
        let (reply, response) = oneshot::channel();
        let request = Box::new(Request { command, reply, run });
        self.inputs.send(Input::Request(request)).map_err(|_| self.end_reason())?;
        let response = response.await.map_err(|_| self.end_reason())?;
        if response.success {
            return Ok(response);
        }
        let error = response.error.unwrap_or_default().into_owned();
        Err(ClientError::Refused { command: name.to_owned(), error })
    }

    pub(crate) async fn start_run(&self, command: Command) -> Result<PromptRun, ClientError> {
        let (sender, records) = mpsc::unbounded_channel();
        let response = self.request(command, Some(sender)).await?;
        Ok(PromptRun::new(response.id, records, self.clone()))
    }

    /// Why there are no more responses and records.
    pub(crate) fn end_reason(&self) -> ClientError {
        self.reason.get().cloned().unwrap_or(ClientError::Closed)
    }
}
