//! One prompt: its events, its text and its result.

use tiller_protocol::{
    Block, Command, Json, Message, PromptReason, PromptStatus, Record, Step, TextAndImages, Usage,
};
use tokio::sync::mpsc;

use crate::ClientError;
use crate::client::Requester;

/// A prompt that tiller has accepted. Dropping it does not stop the run.
pub struct PromptRun {
    /// As in the command.
    id: Option<Json<'static>>,
    records: mpsc::UnboundedReceiver<Record<'static>>,
    requester: Requester,
    text: String,
    outcome: Option<PromptOutcome>,
}

/// What became of a prompt, and what it has used.
#[derive(Clone, Debug, PartialEq)]
pub struct PromptOutcome {
    /// How it ended.
    pub status: PromptStatus,
    /// Why it was aborted or dropped, or which limit was reached.
    pub reason: Option<PromptReason>,
    /// The text of the last answer.
    pub text: String,
    /// How many runs worked on it.
    pub runs: u64,
    /// How many turns these runs had.
    pub turns: u64,
    /// How many messages they added to the conversation.
    pub messages: u64,
    /// The tokens of these messages.
    pub usage: Usage,
    /// The price of these tokens in dollars.
    pub cost: f64,
    /// From the acceptance of the command to its end.
    pub duration_ms: u64,
    /// With the status [`PromptStatus::Error`].
    pub error: Option<String>,
}

impl PromptRun {
    pub(crate) fn new(
        id: Option<Json<'static>>,
        records: mpsc::UnboundedReceiver<Record<'static>>,
        requester: Requester,
    ) -> PromptRun {
        PromptRun { id, records, requester, text: String::new(), outcome: None }
    }

    /// The next event, up to and including the prompt's own `prompt_result`. Then, and if tiller has
    /// ended, there are no more. Events of other prompts in progress are among them.
    pub async fn next(&mut self) -> Option<Record<'static>> {
        if self.outcome.is_some() {
            return None;
        }
        let record = self.records.recv().await?;
        self.observe(&record);
        Some(record)
    }

    /// Reads the remaining events and returns the result.
    pub async fn result(&mut self) -> Result<PromptOutcome, ClientError> {
        while self.next().await.is_some() {}
        self.outcome.clone().ok_or_else(|| self.requester.end_reason())
    }

    /// The text of the newest answer, as far as [`PromptRun::next`] has returned it.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Sends a message that the model gets after the tools of the current turn. It has a result of
    /// its own; dropping the returned value does not remove the message.
    pub async fn steer(&self, text: impl Into<String>) -> Result<PromptRun, ClientError> {
        self.requester.start_run(Command::Steer(message(text))).await
    }

    /// Sends a message that the model gets when the run would otherwise end. It has a result of its
    /// own; dropping the returned value does not remove the message.
    pub async fn follow_up(&self, text: impl Into<String>) -> Result<PromptRun, ClientError> {
        self.requester.start_run(Command::FollowUp(message(text))).await
    }

    /// Stops the current run. Returns when it has ended.
    pub async fn abort(&self) -> Result<(), ClientError> {
        self.requester.request(Command::Abort, None).await.map(drop)
    }

    /// Follows the text of the answer and finds the result.
    fn observe(&mut self, record: &Record<'static>) {
        match record {
            Record::MessageStart { message: Message::Assistant(_), .. } => self.text.clear(),
            Record::MessageUpdate { assistant_message_event, .. } => {
                if let Step::TextDelta { delta, .. } = &assistant_message_event.step {
                    self.text.push_str(delta);
                }
            }
            Record::MessageEnd { message: Message::Assistant(message) } => {
                let texts = message.content.iter().filter_map(|block| match block {
                    Block::Text { text, .. } => Some(text.as_str()),
                    _ => None,
                });
                self.text = texts.collect();
            }
            Record::PromptResult {
                id,
                status,
                reason,
                runs,
                turns,
                messages,
                usage,
                cost,
                duration_ms,
                error,
                ..
            } if *id == self.id => {
                self.outcome = Some(PromptOutcome {
                    status: *status,
                    reason: *reason,
                    text: self.text.clone(),
                    runs: *runs,
                    turns: *turns,
                    messages: *messages,
                    usage: usage.clone(),
                    cost: *cost,
                    duration_ms: *duration_ms,
                    error: error.clone().map(String::from),
                });
            }
            _ => {}
        }
    }
}

fn message(text: impl Into<String>) -> TextAndImages {
    TextAndImages { message: text.into(), ..TextAndImages::default() }
}
