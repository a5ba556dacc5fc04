//! One prompt: its events and its result.

use std::fmt;

use tiller_protocol::{
    Command, Disposition, Prompt, PromptReason, PromptStatus, QueuedMessageData, QueuedTarget,
    TextAndImages, Usage, WhenBusy,
};
use tokio::sync::oneshot;

use crate::ClientError;
use crate::events::{Event, EventReceiver};
use crate::requester::Requester;

/// A prompt that tiller has accepted. Dropping it does not stop the run.
pub struct Turn {
    client_message_id: String,
    disposition: Disposition,
    events: EventReceiver,
    result: PendingResult,
    requester: Requester,
}

enum PendingResult {
    Waiting(oneshot::Receiver<PromptResult>),
    Received(Box<PromptResult>),
    /// The connection ended before.
    Missing,
}

/// How a prompt ended, and what it has used.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PromptResult {
    /// How it ended.
    pub status: PromptStatus,
    /// Why it was aborted or dropped, or which limit was reached.
    pub reason: Option<PromptReason>,
    /// The text of the last answer.
    pub text: String,
    /// The error of the last answer, with the status [`PromptStatus::Error`] only.
    pub error: Option<String>,
    /// The tokens of all answers.
    pub usage: Usage,
    /// The price of these tokens in dollars.
    pub cost: f64,
    /// How many runs worked on it.
    pub runs: u64,
    /// How many turns these runs had.
    pub turns: u64,
    /// How many messages they added to the conversation.
    pub messages: u64,
    /// From the acceptance of the command to its end.
    pub duration_ms: u64,
}

impl PromptResult {
    /// Whether the prompt was answered, or handled by an extension.
    pub fn is_ok(&self) -> bool {
        matches!(self.status, PromptStatus::Done | PromptStatus::Handled)
    }

    /// Returns this result, or an error if the prompt did not end well.
    pub fn check(self) -> Result<PromptResult, ClientError> {
        if self.is_ok() { Ok(self) } else { Err(ClientError::RunFailed(Box::new(self))) }
    }
}

impl Turn {
    pub(crate) fn new(
        client_message_id: String,
        disposition: Disposition,
        events: EventReceiver,
        result: oneshot::Receiver<PromptResult>,
        requester: Requester,
    ) -> Turn {
        let result = PendingResult::Waiting(result);
        Turn { client_message_id, disposition, events, result, requester }
    }

    /// The id of the message: the caller's, or one that the client has made.
    pub fn client_message_id(&self) -> &str {
        &self.client_message_id
    }

    /// What happened to the message when it was accepted.
    pub fn disposition(&self) -> Disposition {
        self.disposition
    }

    /// The next event, up to and including the `prompt_result` of this prompt. A prompt that starts
    /// a run gets all events from then on; a queued one those from its own message on.
    pub async fn next(&mut self) -> Result<Option<Event>, ClientError> {
        if let Some(event) = self.events.next().await? {
            return Ok(Some(event));
        }
        self.finish().await.map(|_| None)
    }

    /// The next piece of the answers' text. Other events are skipped.
    pub async fn next_text(&mut self) -> Result<Option<String>, ClientError> {
        while let Some(event) = self.next().await? {
            if let Some(text) = event.text_delta() {
                return Ok(Some(text.to_owned()));
            }
        }
        Ok(None)
    }

    /// Waits for the end of the prompt. Events that were not read are dropped.
    pub async fn result(&mut self) -> Result<PromptResult, ClientError> {
        self.events.close();
        self.finish().await.cloned()
    }

    /// Stops this prompt: takes it out of its queue, or aborts its run. Returns when that is done.
    pub async fn abort(&mut self) -> Result<(), ClientError> {
        if self.has_result() {
            return Ok(());
        }
        if self.disposition == Disposition::Queued {
            let client_message_id = Some(self.client_message_id.clone());
            let target = QueuedTarget { client_message_id, ..QueuedTarget::default() };
            let command = Command::RemoveQueued(target);
            match self.requester.request::<QueuedMessageData>(command).await {
                // It was sent, so its run is aborted.
                Err(ClientError::CommandRefused { .. }) if !self.has_result() => {}
                Err(ClientError::CommandRefused { .. }) | Ok(_) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        self.requester.request(Command::Abort).await
    }

    /// Sends a message that the model gets after the tools of the current turn. If the run has ended
    /// meanwhile, the message starts another one. It has a result of its own; dropping the returned
    /// value does not remove the message.
    pub async fn steer(&self, message: impl Into<TextAndImages>) -> Result<Turn, ClientError> {
        self.send(message.into(), WhenBusy::Steer).await
    }

    /// Sends a message that the model gets when the run would otherwise end. If the run has ended
    /// meanwhile, the message starts another one. It has a result of its own; dropping the returned
    /// value does not remove the message.
    pub async fn follow_up(&self, message: impl Into<TextAndImages>) -> Result<Turn, ClientError> {
        self.send(message.into(), WhenBusy::FollowUp).await
    }

    async fn send(&self, text: TextAndImages, when_busy: WhenBusy) -> Result<Turn, ClientError> {
        let TextAndImages { message, images, client_message_id } = text;
        let prompt = Prompt { message, images, when_busy, client_message_id };
        self.requester.start_turn(Command::Prompt(prompt)).await
    }

    async fn finish(&mut self) -> Result<&PromptResult, ClientError> {
        if let PendingResult::Waiting(receiver) = &mut self.result {
            let result = receiver.await.map(Box::new);
            self.result = result.map_or(PendingResult::Missing, PendingResult::Received);
        }
        match &self.result {
            PendingResult::Received(result) => Ok(result),
            PendingResult::Waiting(_) | PendingResult::Missing => Err(self.requester.end_reason()),
        }
    }

    fn has_result(&mut self) -> bool {
        if let PendingResult::Waiting(receiver) = &mut self.result
            && let Ok(result) = receiver.try_recv()
        {
            self.result = PendingResult::Received(Box::new(result));
        }
        matches!(self.result, PendingResult::Received(_))
    }
}

impl fmt::Debug for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turn")
            .field("client_message_id", &self.client_message_id)
            .field("disposition", &self.disposition)
            .finish_non_exhaustive()
    }
}
