//! Sends requests to the connection's task and waits for their responses. Clients and turns share
//! it; it does not keep the process alive.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use serde::de::DeserializeOwned;
use tiller_protocol::{Command, Disposition, DispositionData, Prompt, Response, TextAndImages};
use tokio::sync::{mpsc, oneshot};

use crate::ClientError;
use crate::connection::{Input, Request};
use crate::events::{EventSender, EventStream, event_queue};
use crate::routes::TurnRoute;
use crate::turn::Turn;

#[derive(Clone)]
pub(crate) struct Requester {
    inputs: mpsc::Sender<Input>,
    shared: Arc<Shared>,
}

/// What the connection's task and its users both know.
pub(crate) struct Shared {
    /// Begins the ids of this connection. Records of an earlier connection to the same process have
    /// other ids.
    id_prefix: String,
    requests: AtomicU64,
    last_seq: AtomicU64,
    /// Why the connection ended. Set before waiting callers notice the end.
    end_reason: OnceLock<ClientError>,
}

impl Shared {
    pub(crate) fn new() -> Shared {
        Shared {
            id_prefix: format!("{:08x}-", RandomState::new().hash_one(()) as u32),
            requests: AtomicU64::new(0),
            last_seq: AtomicU64::new(0),
            end_reason: OnceLock::new(),
        }
    }

    /// The `id` of a request on the wire.
    pub(crate) fn id(&self, number: u64) -> String {
        format!("{}{number}", self.id_prefix)
    }

    /// The number of the request with this `id`.
    pub(crate) fn number(&self, id: &str) -> Option<u64> {
        id.strip_prefix(&self.id_prefix)?.parse().ok()
    }

    pub(crate) fn last_seq(&self) -> u64 {
        self.last_seq.load(Ordering::Relaxed)
    }

    pub(crate) fn set_last_seq(&self, seq: u64) {
        self.last_seq.store(seq, Ordering::Relaxed);
    }

    pub(crate) fn end(&self, reason: ClientError) {
        // The first reason counts.
        self.end_reason.set(reason).ok();
    }
}

impl Requester {
    pub(crate) fn new(inputs: mpsc::Sender<Input>, shared: Arc<Shared>) -> Requester {
        Requester { inputs, shared }
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Passes something to the connection's task. If that has ended, nothing happens: the caller
    /// notices the end when it waits for an answer.
    pub(crate) async fn send(&self, input: Input) {
        self.inputs.send(input).await.ok();
    }

    /// Sends a command and parses the data of its response.
    pub(crate) async fn request<T: DeserializeOwned>(
        &self,
        command: Command,
    ) -> Result<T, ClientError> {
        let name = command.name();
        let number = self.next_number();
        read_data(name, &self.exchange(number, command, None).await?)
    }

    /// Sends a command that gets a `prompt_result`.
    pub(crate) async fn start_turn(&self, mut command: Command) -> Result<Turn, ClientError> {
        let number = self.next_number();
        let id = self.shared.id(number);
        let name = command.name();
        let Some(message_id) = message_id(&mut command) else {
            return Err(ClientError::protocol(format!("{name} has no result")));
        };
        let message_id = message_id.get_or_insert_with(|| id.clone()).clone();
        let (sender, events) = event_queue();
        let (result_sender, result) = oneshot::channel();
        let route = TurnRoute::new(id, message_id.clone(), sender, result_sender);
        let response = self.exchange(number, command, Some(route)).await?;
        // `abort_and_prompt` answers without data: its run starts.
        let data: Option<DispositionData> = read_data(name, &response)?;
        let disposition = data.map_or(Disposition::Started, |data| data.disposition);
        Ok(Turn::new(message_id, disposition, events, result, self.clone()))
    }

    /// A stream of all events from now on.
    pub(crate) async fn subscribe(&self) -> EventStream {
        let (sender, receiver): (EventSender, _) = event_queue();
        let (added, is_added) = oneshot::channel();
        self.send(Input::Subscribe(sender, added)).await;
        // If the connection has ended, the stream ends at once.
        is_added.await.ok();
        EventStream::new(receiver, self.clone())
    }

    /// Why there are no more responses and events.
    pub(crate) fn end_reason(&self) -> ClientError {
        self.shared.end_reason.get().cloned().unwrap_or(ClientError::Closed)
    }

    fn next_number(&self) -> u64 {
        self.shared.requests.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Returns the response to a command. A refusal is an error.
    async fn exchange(
        &self,
        number: u64,
        command: Command,
        turn: Option<TurnRoute>,
    ) -> Result<Response<'static>, ClientError> {
        let name = command.name();
        if !command.has_response() {
            return Err(ClientError::NoResponse { command: name });
        }
        let (reply, response) = oneshot::channel();
        self.send(Input::Request(Box::new(Request { number, command, reply, turn }))).await;
        let response = response.await.map_err(|_| self.end_reason())?;
        if response.success {
            return Ok(response);
        }
        let error = response.error.map_or("refused without a reason".to_owned(), String::from);
        Err(ClientError::CommandRefused { command: name.to_owned(), error })
    }
}

fn read_data<T: DeserializeOwned>(name: &str, response: &Response<'_>) -> Result<T, ClientError> {
    response.read().map_err(|why| {
        ClientError::protocol(format!("the response to {name} has unexpected data: {why}"))
    })
}

/// The field `clientMessageId` of a command that gets a `prompt_result`.
fn message_id(command: &mut Command) -> Option<&mut Option<String>> {
    match command {
        Command::Prompt(Prompt { client_message_id, .. })
        | Command::Steer(TextAndImages { client_message_id, .. })
        | Command::FollowUp(TextAndImages { client_message_id, .. })
        | Command::AbortAndPrompt(TextAndImages { client_message_id, .. }) => {
            Some(client_message_id)
        }
        _ => None,
    }
}
