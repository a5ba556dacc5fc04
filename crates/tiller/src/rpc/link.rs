//! How a run talks to the server: every event and every question becomes an [`Input`], and the
//! server answers when it gets to it.

use std::sync::Arc;

use tiller_agent::event::Event;
use tiller_agent::host::{CallOutcome, End, Host, Queue, Queued, Setup, Verdict};
use tiller_agent::message::{Block, Content, Message, ToolCall, UnixMs, UserMessage, text_of};
use tiller_tools::image::{Resize, normalise};
use tokio::sync::{mpsc, oneshot};

use super::server::Input;
use crate::clock::Clock;

pub(crate) struct Link {
    pub(crate) inputs: mpsc::Sender<Input>,
    pub(crate) clock: Clock,
    pub(crate) resize: Resize,
}

/// What a run needs to know from the server.
pub enum Question {
    Setup(oneshot::Sender<Setup>),
    Dequeue(Queue, oneshot::Sender<Vec<Queued>>),
    Interrupted(oneshot::Sender<bool>),
    /// Whether a run that ended like this will be tried again.
    WillRetry(End, oneshot::Sender<bool>),
    /// A command has said something and may say more when it has been passed on.
    MayGoOn(oneshot::Sender<()>),
}

impl Question {
    /// Put off while the client is hopelessly behind: what would follow the answer is more output.
    pub(crate) fn can_wait(&self) -> bool {
        matches!(self, Question::Setup(_) | Question::MayGoOn(_))
    }
}

impl Link {
    async fn ask<T>(&self, question: impl FnOnce(oneshot::Sender<T>) -> Question) -> T {
        let (sender, answer) = oneshot::channel();
        self.tell(Input::Question(question(sender))).await;
        match answer.await {
            Ok(answer) => answer,
            // The server has dropped the question: it is gone, and this task goes with it.
            Err(_) => std::future::pending().await,
        }
    }

    /// Pictures as a model can take them: known formats, not too large. What had to be changed or
    /// left out is said behind the words.
    pub(crate) async fn presentable(&self, message: Arc<Message>) -> Arc<Message> {
        let Message::User(UserMessage { content: Content::Blocks(blocks), timestamp }) = &*message
        else {
            return message;
        };
        if !blocks.iter().any(|block| matches!(block, Block::Image { .. })) {
            return message;
        }
        let (mut text, mut images, mut notes) = (text_of(blocks), Vec::new(), Vec::new());
        for block in blocks {
            if let Block::Image { data, .. } = block {
                let normalised = normalise(data.clone(), self.resize).await;
                images.extend(normalised.image);
                notes.extend(normalised.notes);
            }
        }
        if !notes.is_empty() {
            let gap = if text.is_empty() { "" } else { "\n\n" };
            text = format!("{text}{gap}{}", notes.join("\n"));
        }
        Arc::new(Message::user(text, images, *timestamp))
    }

    async fn tell(&self, input: Input) {
        // A server that no longer listens has ended, and the runtime ends with it.
        self.inputs.send(input).await.ok();
    }
}

impl Host for Link {
    async fn emit(&self, event: Event) {
        self.tell(Input::Event(event)).await;
    }

    async fn setup(&self) -> Setup {
        self.ask(Question::Setup).await
    }

    async fn dequeue(&self, queue: Queue) -> Vec<Queued> {
        let mut queued = self.ask(|answer| Question::Dequeue(queue, answer)).await;
        for Queued { message, .. } in &mut queued {
            *message = self.presentable(message.clone()).await;
        }
        queued
    }

    async fn interrupted(&self) -> bool {
        self.ask(Question::Interrupted).await
    }

    async fn before_call(&self, _call: &Arc<ToolCall>) -> Verdict {
        Verdict::Run
    }

    async fn after_call(&self, _call: &Arc<ToolCall>, outcome: CallOutcome) -> CallOutcome {
        outcome
    }

    async fn will_retry(&self, end: &End) -> bool {
        let end = end.clone();
        self.ask(|answer| Question::WillRetry(end, answer)).await
    }

    fn now(&self) -> UnixMs {
        self.clock.now()
    }
}
