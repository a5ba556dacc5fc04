//! The steering and the follow-up queue.

use std::collections::VecDeque;
use std::sync::Arc;

use tiller_agent::driver::{Queue, QueueTicket, Queued};
use tiller_agent::event::Event;
use tiller_agent::message::{Message, UserMessage};
use tiller_agent::modes::{InterruptMode, QueueMode};

/// A message stays in its queue until its run emits it, so that an abort in between loses nothing.
pub(crate) struct Queues {
    steering_mode: QueueMode,
    follow_up_mode: QueueMode,
    interrupt_mode: InterruptMode,
    steering: VecDeque<Queued>,
    follow_up: VecDeque<Queued>,
    /// Handed to the run, which is about to emit them: they can no longer be taken back.
    in_flight: Vec<QueueTicket>,
    next_ticket: u64,
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

    /// Removes all messages. The modes stay.
    pub(crate) fn forget(&mut self) {
        *self = Queues::new(self.steering_mode, self.follow_up_mode, self.interrupt_mode);
    }

    pub(crate) fn push(&mut self, queue: Queue, message: Message) {
        let ticket = QueueTicket(self.next_ticket);
        self.next_ticket += 1;
        let message = Arc::new(message);
        self.queue_mut(queue).push_back(Queued { ticket, message });
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
        let next: Vec<Queued> = messages.iter().take(count).cloned().collect();
        self.in_flight.extend(next.iter().map(|queued| queued.ticket));
        next
    }

    /// The message was emitted. Compares tickets: equal texts are two messages.
    pub(crate) fn emitted(&mut self, ticket: QueueTicket) {
        self.steering.retain(|queued| queued.ticket != ticket);
        self.follow_up.retain(|queued| queued.ticket != ticket);
        self.in_flight.retain(|other| *other != ticket);
    }

    /// The run has ended: messages it took and did not emit wait again.
    pub(crate) fn run_ended(&mut self) {
        self.in_flight.clear();
    }

    /// Empties both queues, except for messages that are about to be emitted, and returns their
    /// texts.
    pub(crate) fn clear(&mut self) -> (Vec<String>, Vec<String>) {
        let in_flight = &self.in_flight;
        let clear = |queue: &mut VecDeque<Queued>| {
            let all = std::mem::take(queue).into_iter();
            let (remaining, removed) = all.partition(|queued| in_flight.contains(&queued.ticket));
            *queue = remaining;
            texts(&removed)
        };
        (clear(&mut self.steering), clear(&mut self.follow_up))
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
        self.steering.iter().chain(&self.follow_up).map(|queued| &*queued.message)
    }

    pub(crate) fn update(&self) -> Event {
        let steering = texts(&self.steering);
        let follow_up = texts(&self.follow_up);
        Event::QueueUpdate { steering, follow_up, client_message_ids: None }
    }

    fn queue_mut(&mut self, queue: Queue) -> &mut VecDeque<Queued> {
        match queue {
            Queue::Steering => &mut self.steering,
            Queue::FollowUp => &mut self.follow_up,
        }
    }
}

fn texts(queue: &VecDeque<Queued>) -> Vec<String> {
    let text = |queued: &Queued| match &*queued.message {
        Message::User(UserMessage { content, .. }) => Some(content.text()),
        // A message of an extension is not the client's to take back.
        _ => None,
    };
    queue.iter().filter_map(text).collect()
}
