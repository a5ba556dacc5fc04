//! What a session that others can join remembers of its own events, and counts.

use std::sync::Arc;

use tiller_agent::event::Event;
use tiller_agent::message::{Message, StopReason};
use tokio::time::Instant;

use crate::open_records::OpenRecords;
use crate::outbox::Outgoing;
use crate::router::Metrics;

pub(crate) struct SessionObserver {
    open: OpenRecords,
    metrics: Arc<Metrics>,
    /// When the current run started.
    run: Option<Instant>,
    /// When the current request was sent, until its first step.
    request: Option<Instant>,
}

impl SessionObserver {
    pub(crate) fn new(metrics: Arc<Metrics>) -> SessionObserver {
        SessionObserver { open: OpenRecords::default(), metrics, run: None, request: None }
    }

    /// The records for a client that joins now.
    pub(crate) fn open_records(&self) -> Vec<Event> {
        self.open.events()
    }

    pub(crate) fn observe(&mut self, outgoing: &Outgoing) {
        match outgoing {
            Outgoing::Event(event) => {
                self.open.observe(event);
                self.count(event);
            }
            Outgoing::DialogClosed(id) => self.open.dialog_closed(id),
            _ => {}
        }
    }

    fn count(&mut self, event: &Event) {
        match event {
            Event::AgentStart => {
                self.metrics.run_started();
                self.run = Some(Instant::now());
            }
            Event::TurnStart => self.request = Some(Instant::now()),
            Event::MessageUpdate(_) => {
                if let Some(sent) = self.request.take() {
                    self.metrics.first_step.observe(sent.elapsed());
                }
            }
            Event::MessageEnd { message } => {
                if let Message::Assistant(answer) = &**message {
                    self.metrics.answered(&answer.usage, answer.stop_reason == StopReason::Error);
                }
            }
            Event::AgentEnd { .. } => {
                if let Some(started) = self.run.take() {
                    self.metrics.run_ended(started.elapsed());
                }
            }
            _ => {}
        }
    }
}

impl Drop for SessionObserver {
    /// A run of a session that failed has ended, too.
    fn drop(&mut self) {
        if let Some(started) = self.run {
            self.metrics.run_ended(started.elapsed());
        }
    }
}
