//! The limits of the session, and what the current prompt has used of them.
//!
//! A prompt is a message of the client or of an extension that starts a run, or a follow-up. Runs
//! that tiller starts by itself, such as retries, belong to the prompt before them; so do steering
//! messages that a run sends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tiller_agent::event::Event;
use tiller_agent::limits::{Limits, NextStep, ReachedLimit, Spent};
use tiller_agent::message::{Message, Usage};
use tokio::time::Instant;

pub(crate) struct Budget {
    limits: Limits,
    /// What the current prompt has used, except for its time.
    spent: Spent,
    started: Instant,
    is_limited: LimitSwitch,
}

/// Whether prompts have limits, for the task of a run: without limits it asks nothing.
#[derive(Clone)]
pub(crate) struct LimitSwitch(Arc<AtomicBool>);

impl LimitSwitch {
    pub(crate) fn is_on(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Budget {
    pub(crate) fn new(limits: Limits) -> Budget {
        let is_limited = LimitSwitch(Arc::new(AtomicBool::new(limits.limits_prompts())));
        Budget { limits, spent: Spent::default(), started: Instant::now(), is_limited }
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Replaces all limits. They apply from the next step of a run on, to what is spent already.
    pub(crate) fn set_limits(&mut self, limits: Limits) {
        self.is_limited.0.store(limits.limits_prompts(), Ordering::Relaxed);
        self.limits = limits;
    }

    pub(crate) fn switch(&self) -> LimitSwitch {
        self.is_limited.clone()
    }

    /// A run is about to start with a new prompt.
    pub(crate) fn start_prompt(&mut self) {
        self.spent = Spent::default();
        self.started = Instant::now();
    }

    /// The current run sends a follow-up. Its turn has already started.
    pub(crate) fn start_follow_up(&mut self) {
        self.spent = Spent { turns: 1, ..Spent::default() };
        self.started = Instant::now();
    }

    /// Counts what a run does.
    pub(crate) fn observe(&mut self, event: &Event) {
        match event {
            Event::TurnStart => self.spent.turns += 1,
            Event::ToolStart { .. } => self.spent.tool_calls += 1,
            Event::MessageEnd { message } => match &**message {
                Message::Assistant(answer) => self.add(&answer.usage),
                Message::ToolResult(result) => {
                    if let Some(usage) = &result.usage {
                        self.add(usage);
                    }
                }
                _ => {}
            },
            _ => {}
        }
    }

    /// The limit that does not allow the next step.
    pub(crate) fn reached(&self, step: NextStep) -> Option<ReachedLimit> {
        let spent = Spent { elapsed: self.started.elapsed(), ..self.spent };
        self.limits.reached(&spent, step)
    }

    /// Whether a prompt may start at all: a limit of zero allows none.
    pub(crate) fn allows_prompts(&self) -> bool {
        self.reached(NextStep::Prompt).is_none()
    }

    fn add(&mut self, usage: &Usage) {
        self.spent.tokens += usage.total_tokens;
        self.spent.cost += usage.cost.total;
    }
}
