//! How a run talks to the server: every event and every question becomes an [`Input`], and the
//! server answers when it gets to it.

use std::sync::Arc;

use tiller_agent::event::Event;
use tiller_agent::host::{CallOutcome, End, Host, Queue, Queued, Setup, Verdict};
use tiller_agent::message::{ToolCall, UnixMs};
use tokio::sync::{mpsc, oneshot};

use super::server::Input;
use crate::clock::Clock;

pub(crate) struct Link {
    pub(crate) inputs: mpsc::Sender<Input>,
    pub(crate) clock: Clock,
}

/// What a run needs to know from the server.
pub enum Question {
    Setup(oneshot::Sender<Setup>),
    Dequeue(Queue, oneshot::Sender<Vec<Queued>>),
    Interrupted(oneshot::Sender<bool>),
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
        self.ask(|answer| Question::Dequeue(queue, answer)).await
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

    async fn will_retry(&self, _end: &End) -> bool {
        false
    }

    fn now(&self) -> UnixMs {
        self.clock.now()
    }
}
