//! What is open in a session: the records that a client needs which joins in the middle of a run.

use std::mem::discriminant;

use tiller_agent::dialog::UiRequest;
use tiller_agent::event::{Event, Update};

use crate::out::{append, is_delta, same_block};

/// The events that have begun something which has not ended yet.
#[derive(Default)]
pub(crate) struct OpenRecords {
    run: bool,
    turn: bool,
    message: Option<GrowingMessage>,
    tools: Vec<OpenTool>,
    /// Dialogs without an answer, by their ids.
    dialogs: Vec<(String, Event)>,
    /// A compaction, or the pause before a retry.
    pause: Option<Event>,
    /// The queued messages.
    queue: Option<Event>,
}

struct GrowingMessage {
    start: Event,
    /// Its blocks so far; the deltas of one block are merged.
    steps: Vec<Update>,
    /// The newest usage and the answer's names, which are not steps.
    facts: Vec<Update>,
}

struct OpenTool {
    call_id: String,
    start: Event,
    update: Option<Event>,
}

impl OpenRecords {
    /// Keeps or drops what this event begins or ends.
    pub(crate) fn observe(&mut self, event: &Event) {
        match event {
            Event::AgentStart => self.run = true,
            Event::AgentEnd { .. } => {
                *self = OpenRecords {
                    dialogs: std::mem::take(&mut self.dialogs),
                    queue: self.queue.take(),
                    ..OpenRecords::default()
                };
            }
            Event::TurnStart => self.turn = true,
            Event::TurnEnd { .. } => self.turn = false,
            Event::MessageStart { .. } => {
                let start = event.clone();
                self.message = Some(GrowingMessage { start, steps: Vec::new(), facts: Vec::new() });
            }
            Event::MessageUpdate(update) => {
                if let Some(message) = &mut self.message {
                    message.grow(update);
                }
            }
            Event::MessageEnd { .. } => self.message = None,
            Event::ToolStart { call, .. } => {
                let call_id = call.id.clone();
                self.tools.push(OpenTool { call_id, start: event.clone(), update: None });
            }
            Event::ToolUpdate { call, .. } => {
                if let Some(tool) = self.tools.iter_mut().find(|tool| tool.call_id == call.id) {
                    tool.update = Some(event.clone());
                }
            }
            Event::ToolEnd { call, .. } => self.tools.retain(|tool| tool.call_id != call.id),
            Event::ExtensionUi { id, request } if matches!(**request, UiRequest::Dialog(_)) => {
                self.dialogs.push((id.clone(), event.clone()));
            }
            Event::CompactionStart { .. } | Event::AutoRetryStart { .. } => {
                self.pause = Some(event.clone());
            }
            Event::CompactionEnd { .. } | Event::AutoRetryEnd { .. } => self.pause = None,
            Event::QueueUpdate { steering, follow_up, .. } => {
                let is_empty = steering.is_empty() && follow_up.is_empty();
                self.queue = (!is_empty).then(|| event.clone());
            }
            _ => {}
        }
    }

    pub(crate) fn dialog_closed(&mut self, id: &str) {
        self.dialogs.retain(|(open, _)| open != id);
    }

    /// The records for a client that joins now, in their order.
    pub(crate) fn events(&self) -> Vec<Event> {
        let mut events = Vec::new();
        events.extend(self.run.then_some(Event::AgentStart));
        events.extend(self.turn.then_some(Event::TurnStart));
        if let Some(GrowingMessage { start, steps, facts }) = &self.message {
            events.push(start.clone());
            let updates = facts.iter().chain(steps);
            events.extend(updates.cloned().map(Event::MessageUpdate));
        }
        for tool in &self.tools {
            events.push(tool.start.clone());
            events.extend(tool.update.clone());
        }
        events.extend(self.pause.clone());
        events.extend(self.queue.clone());
        events.extend(self.dialogs.iter().map(|(_, event)| event.clone()));
        events
    }
}

impl GrowingMessage {
    fn grow(&mut self, update: &Update) {
        if let Update::Usage(_) | Update::ResponseId(_) | Update::ResponseModel(_) = update {
            self.facts.retain(|fact| discriminant(fact) != discriminant(update));
            self.facts.push(update.clone());
            return;
        }
        match self.steps.last_mut() {
            Some(last) if is_delta(update) && same_block(last, update) => {
                append(last, update.clone());
            }
            _ => self.steps.push(update.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tiller_agent::message::{AssistantMessage, Message};

    use super::*;

    fn names(open: &OpenRecords) -> Vec<String> {
        let name = |event: &Event| match event {
            Event::MessageUpdate(Update::TextDelta { delta, .. }) => format!("delta {delta}"),
            other => {
                let text = format!("{other:?}");
                text.split([' ', '(', '{']).next().unwrap_or_default().to_owned()
            }
        };
        open.events().iter().map(name).collect()
    }

    #[test]
    fn client_that_joins_gets_what_is_open() {
        let mut open = OpenRecords::default();
        let message = || Arc::new(Message::Assistant(AssistantMessage::default()));
        let delta =
            |text: &str| Event::MessageUpdate(Update::TextDelta { index: 0, delta: text.into() });
        open.observe(&Event::AgentStart);
        open.observe(&Event::TurnStart);
        open.observe(&Event::message_start(message(), None));
        open.observe(&Event::MessageUpdate(Update::TextStart { index: 0 }));
        open.observe(&delta("Hel"));
        open.observe(&delta("lo"));
        let update = "MessageUpdate";
        assert_eq!(
            names(&open),
            ["AgentStart", "TurnStart", "MessageStart", update, "delta Hello"]
        );
        open.observe(&Event::MessageEnd { message: message() });
        assert_eq!(names(&open), ["AgentStart", "TurnStart"]);
        open.observe(&Event::AgentEnd { messages: Vec::new(), will_retry: false });
        assert!(names(&open).is_empty());
    }

    #[test]
    fn queued_messages_and_dialogs_outlive_a_run() {
        let mut open = OpenRecords::default();
        let update = |texts: &[&str]| Event::QueueUpdate {
            steering: texts.iter().map(|text| (*text).to_owned()).collect(),
            follow_up: Vec::new(),
            client_message_ids: None,
        };
        open.observe(&update(&["a"]));
        open.observe(&Event::AgentEnd { messages: Vec::new(), will_retry: false });
        assert_eq!(names(&open), ["QueueUpdate"]);
        open.observe(&update(&[]));
        assert!(names(&open).is_empty());
    }
}
