//! The steering and the follow-up queue.

use std::collections::VecDeque;
use std::sync::Arc;

use tiller_agent::driver::{Queue, QueueTicket, Queued};
use tiller_agent::event::{ClientMessageIds, Event};
use tiller_agent::message::{Block, Content, Message, UserMessage};
use tiller_agent::modes::{InterruptMode, QueueMode};
use tiller_protocol::{QueueName, QueuedMessage, QueuedTarget};

use crate::prompt_results::AcceptedPrompt;

/// A message stays in its queue until its run emits it, so that an abort in between loses nothing.
pub(crate) struct Queues {
    steering_mode: QueueMode,
    follow_up_mode: QueueMode,
    interrupt_mode: InterruptMode,
    steering: VecDeque<QueueItem>,
    follow_up: VecDeque<QueueItem>,
    /// Handed to the run, which is about to emit them: they can no longer be taken back.
    in_flight: Vec<QueueTicket>,
    next_ticket: u64,
}

struct QueueItem {
    queued: Queued,
    /// The client's command that the message came with; nothing for a message of an extension.
    prompt: Option<AcceptedPrompt>,
}

/// A message that has left its queue.
pub(crate) struct Dequeued {
    pub(crate) queue: Queue,
    pub(crate) prompt: Option<AcceptedPrompt>,
}

/// The texts of removed messages, and the client's commands they came with.
pub(crate) struct Cleared {
    pub(crate) steering: Vec<String>,
    pub(crate) follow_up: Vec<String>,
    pub(crate) prompts: Vec<AcceptedPrompt>,
}

impl Queues {
    pub(crate) fn new(
        steering_mode: QueueMode,
        follow_up_mode: QueueMode,
        interrupt_mode: InterruptMode,
    ) -> Queues {
        Queues {
            steering_mode,
            follow_up_mode,
            interrupt_mode,
            steering: VecDeque::new(),
            follow_up: VecDeque::new(),
            in_flight: Vec::new(),
            next_ticket: 0,
        }
    }

    pub(crate) fn steering_mode(&self) -> QueueMode {
        self.steering_mode
    }

    pub(crate) fn follow_up_mode(&self) -> QueueMode {
        self.follow_up_mode
    }

    pub(crate) fn interrupt_mode(&self) -> InterruptMode {
        self.interrupt_mode
    }

    pub(super) fn set_modes(
        &mut self,
        steering: QueueMode,
        follow_up: QueueMode,
        interrupt: InterruptMode,
    ) {
        self.steering_mode = steering;
        self.follow_up_mode = follow_up;
        self.interrupt_mode = interrupt;
    }

    /// Removes all messages, and returns the client's commands they came with. The modes stay.
    pub(crate) fn forget(&mut self) -> Vec<AcceptedPrompt> {
        self.in_flight.clear();
        let items = self.steering.drain(..).chain(self.follow_up.drain(..));
        items.filter_map(|item| item.prompt).collect()
    }

    pub(crate) fn push(&mut self, queue: Queue, message: Message, prompt: Option<AcceptedPrompt>) {
        let ticket = QueueTicket(self.next_ticket);
        self.next_ticket += 1;
        let queued = Queued { ticket, message: Arc::new(message) };
        self.queue_mut(queue).push_back(QueueItem { queued, prompt });
    }

    /// The next messages, by the queue's mode.
    pub(crate) fn next(&mut self, queue: Queue) -> Vec<Queued> {
        let (messages, mode) = match queue {
            Queue::Steering => (&self.steering, self.steering_mode),
            Queue::FollowUp => (&self.follow_up, self.follow_up_mode),
        };
        let count = match mode {
            QueueMode::All => messages.len(),
            QueueMode::OneAtATime => 1,
        };
        let next: Vec<Queued> =
            messages.iter().take(count).map(|item| item.queued.clone()).collect();
        self.in_flight.extend(next.iter().map(|queued| queued.ticket));
        next
    }

    /// The message was emitted. Compares tickets: equal texts are two messages.
    pub(crate) fn emitted(&mut self, ticket: QueueTicket) -> Option<Dequeued> {
        self.in_flight.retain(|other| *other != ticket);
        [Queue::Steering, Queue::FollowUp].into_iter().find_map(|queue| {
            let items = self.queue_mut(queue);
            let position = items.iter().position(|item| item.queued.ticket == ticket)?;
            let item = items.remove(position)?;
            Some(Dequeued { queue, prompt: item.prompt })
        })
    }

    /// The run has ended: messages it took and did not emit wait again.
    pub(crate) fn run_ended(&mut self) {
        self.in_flight.clear();
    }

    /// Empties both queues, except for messages that are about to be emitted.
    pub(crate) fn clear(&mut self) -> Cleared {
        let in_flight = &self.in_flight;
        let clear = |queue: &mut VecDeque<QueueItem>| {
            let all = std::mem::take(queue).into_iter();
            let (remaining, removed): (_, VecDeque<QueueItem>) =
                all.partition(|item| in_flight.contains(&item.queued.ticket));
            *queue = remaining;
            removed
        };
        let steering = clear(&mut self.steering);
        let follow_up = clear(&mut self.follow_up);
        Cleared {
            steering: texts(&steering),
            follow_up: texts(&follow_up),
            prompts: steering.into_iter().chain(follow_up).filter_map(|item| item.prompt).collect(),
        }
    }

    /// The messages that the client sees, steering first.
    pub(crate) fn list(&self) -> Vec<QueuedMessage> {
        let steering = self.steering.iter().map(|item| (QueueName::Steering, item));
        let follow_up = self.follow_up.iter().map(|item| (QueueName::FollowUp, item));
        steering.chain(follow_up).filter_map(|(queue, item)| self.shown(queue, item)).collect()
    }

    /// Replaces a message, which keeps its place and its ids.
    pub(crate) fn replace(
        &mut self,
        target: &QueuedTarget,
        message: Message,
    ) -> Result<QueuedMessage, String> {
        let (queue, position) = self.find(target)?;
        let item = &mut self.queue_mut(queue)[position];
        item.queued.message = Arc::new(message);
        self.shown_at(queue, position)
    }

    /// Removes a message, and returns the client's command it came with.
    pub(crate) fn remove(
        &mut self,
        target: &QueuedTarget,
    ) -> Result<(QueuedMessage, Option<AcceptedPrompt>), String> {
        let (queue, position) = self.find(target)?;
        let shown = self.shown_at(queue, position)?;
        let item = self.queue_mut(queue).remove(position);
        Ok((shown, item.and_then(|item| item.prompt)))
    }

    /// The place of a message that can still be changed.
    fn find(&self, target: &QueuedTarget) -> Result<(Queue, usize), String> {
        let is_meant = |item: &QueueItem| {
            let is_named = target.queue_id.as_ref().is_some_and(|id| *id == queue_id(item));
            is_named
                || target.client_message_id.is_some()
                    && target.client_message_id.as_deref() == client_message_id(item)
        };
        let found = [Queue::Steering, Queue::FollowUp].into_iter().find_map(|queue| {
            let position = self.queue(queue).iter().position(is_meant)?;
            Some((queue, position))
        });
        let id = target.id();
        let (queue, position) = found.ok_or_else(|| format!("Queued message not found: {id}"))?;
        if self.in_flight.contains(&self.queue(queue)[position].queued.ticket) {
            return Err(format!("Queued message is already being sent: {id}"));
        }
        Ok((queue, position))
    }

    fn shown_at(&self, queue: Queue, position: usize) -> Result<QueuedMessage, String> {
        let name = match queue {
            Queue::Steering => QueueName::Steering,
            Queue::FollowUp => QueueName::FollowUp,
        };
        let item = &self.queue(queue)[position];
        self.shown(name, item)
            .ok_or_else(|| format!("Queued message not found: {}", queue_id(item)))
    }

    /// A message as the client sees it; nothing for a message of an extension.
    fn shown(&self, queue: QueueName, item: &QueueItem) -> Option<QueuedMessage> {
        let Message::User(UserMessage { content, .. }) = &*item.queued.message else { return None };
        let images = match content {
            Content::Text(_) => 0,
            Content::Blocks(blocks) => {
                blocks.iter().filter(|block| matches!(block, Block::Image { .. })).count()
            }
        };
        Some(QueuedMessage {
            queue_id: queue_id(item),
            queue,
            text: content.text(),
            images,
            client_message_id: client_message_id(item).map(str::to_owned),
            is_being_sent: self.in_flight.contains(&item.queued.ticket),
        })
    }

    pub(crate) fn has(&self, queue: Queue) -> bool {
        match queue {
            Queue::Steering => !self.steering.is_empty(),
            Queue::FollowUp => !self.follow_up.is_empty(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.steering.is_empty() && self.follow_up.is_empty()
    }

    /// Whether steering interrupts the tools of the turn.
    pub(super) fn interrupts(&self) -> bool {
        self.interrupt_mode == InterruptMode::Immediate && self.has(Queue::Steering)
    }

    /// How many of them the client sees: messages of extensions are not in `queue_update`.
    pub(crate) fn in_view(&self) -> usize {
        self.messages().filter(|message| matches!(message, Message::User(_))).count()
    }

    /// The queued messages, steering first.
    pub(crate) fn messages(&self) -> impl Iterator<Item = &Message> {
        self.steering.iter().chain(&self.follow_up).map(|item| &*item.queued.message)
    }

    pub(crate) fn update(&self) -> Event {
        let ids = ClientMessageIds {
            steering: client_message_ids(&self.steering),
            follow_up: client_message_ids(&self.follow_up),
        };
        let is_named = ids.steering.iter().chain(&ids.follow_up).any(Option::is_some);
        Event::QueueUpdate {
            steering: texts(&self.steering),
            follow_up: texts(&self.follow_up),
            client_message_ids: is_named.then(|| Box::new(ids)),
        }
    }

    fn queue(&self, queue: Queue) -> &VecDeque<QueueItem> {
        match queue {
            Queue::Steering => &self.steering,
            Queue::FollowUp => &self.follow_up,
        }
    }

    fn queue_mut(&mut self, queue: Queue) -> &mut VecDeque<QueueItem> {
        match queue {
            Queue::Steering => &mut self.steering,
            Queue::FollowUp => &mut self.follow_up,
        }
    }
}

/// tiller's name for a queued message.
fn queue_id(item: &QueueItem) -> String {
    format!("q{}", item.queued.ticket.0)
}

fn client_message_id(item: &QueueItem) -> Option<&str> {
    item.prompt.as_ref().and_then(AcceptedPrompt::client_message_id)
}

/// The messages that the client sees: a message of an extension is not the client's to take back.
fn visible(queue: &VecDeque<QueueItem>) -> impl Iterator<Item = (&QueueItem, &UserMessage)> {
    queue.iter().filter_map(|item| match &*item.queued.message {
        Message::User(message) => Some((item, message)),
        _ => None,
    })
}

fn texts(queue: &VecDeque<QueueItem>) -> Vec<String> {
    visible(queue).map(|(_, message)| message.content.text()).collect()
}

fn client_message_ids(queue: &VecDeque<QueueItem>) -> Vec<Option<String>> {
    visible(queue).map(|(item, _)| client_message_id(item).map(str::to_owned)).collect()
}
