//! What becomes of the messages that a client sends: one `prompt_result` for each `prompt`, `steer`,
//! `follow_up` and `abort_and_prompt` that was accepted, whatever happens.
//!
//! An accepted message is in exactly one place: in a queue, among the active prompts, or it has its
//! result. The active prompts share the current run; a follow-up that is sent after an answer takes
//! over from them.

use tiller_agent::driver::{End, NotStored};
use tiller_agent::event::Event;
use tiller_agent::limits::LimitName;
use tiller_agent::message::{Message, Usage};
use tiller_agent::prompt_result::{PromptReason, PromptResult, PromptStatus};
use tiller_protocol::{ClientId, Label};
use tokio::time::Instant;

use crate::state::SessionState;

/// The client's command that a message came with.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    pub(crate) label: Label,
    pub(crate) client_message_id: Option<String>,
}

/// A message that was accepted, and what was done for it so far.
#[derive(Debug)]
pub(crate) struct AcceptedPrompt {
    origin: Origin,
    accepted: Instant,
    runs: u64,
    turns: u64,
    messages: u64,
    usage: Usage,
    /// The model has answered since the message was sent.
    is_answered: bool,
}

/// The accepted messages that have been sent to the model, or are about to be.
#[derive(Default)]
pub(crate) struct PromptResults {
    active: Vec<AcceptedPrompt>,
    /// The client's name for a prompt whose message has not started.
    unstarted: Option<Box<str>>,
    last_run: RunEnd,
}

/// How the last run ended.
#[derive(Clone, Debug, Default, PartialEq)]
enum RunEnd {
    #[default]
    Complete,
    Failed(String),
    Stopped,
    Limit(LimitName),
}

impl AcceptedPrompt {
    pub(crate) fn new(origin: Origin) -> AcceptedPrompt {
        AcceptedPrompt {
            origin,
            accepted: Instant::now(),
            runs: 0,
            turns: 0,
            messages: 0,
            usage: Usage::default(),
            is_answered: false,
        }
    }

    pub(crate) fn client_message_id(&self) -> Option<&str> {
        self.origin.client_message_id.as_deref()
    }

    /// The client that sent the message, and its result.
    fn result(self, verdict: Verdict) -> (ClientId, Event) {
        let client = self.origin.label.client;
        let result = PromptResult {
            id: self.origin.label.id,
            client_message_id: self.origin.client_message_id,
            command: self.origin.label.command,
            status: verdict.status,
            reason: verdict.reason,
            runs: self.runs,
            turns: self.turns,
            messages: self.messages,
            usage: self.usage,
            duration_ms: self.accepted.elapsed().as_millis() as u64,
            error: verdict.error,
        };
        (client, Event::PromptResult(Box::new(result)))
    }
}

impl PromptResults {
    /// A run is about to start with this prompt.
    pub(crate) fn start(&mut self, prompt: AcceptedPrompt) {
        self.unstarted = prompt.client_message_id().map(Into::into);
        self.last_run = RunEnd::Complete;
        self.active.push(prompt);
    }

    /// The current run sends a message that was queued.
    pub(crate) fn deliver(&mut self, prompt: AcceptedPrompt) {
        // Its run and its turn have already started.
        self.active.push(AcceptedPrompt { runs: 1, turns: 1, ..prompt });
    }

    /// Whether the model has answered an active prompt.
    pub(crate) fn is_answered(&self) -> bool {
        self.active.iter().any(|prompt| prompt.is_answered)
    }

    /// Counts what a run does, and names the first message of a prompt.
    pub(crate) fn observe(&mut self, event: &mut Event) {
        match event {
            Event::AgentStart => self.active.iter_mut().for_each(|prompt| prompt.runs += 1),
            Event::TurnStart => self.active.iter_mut().for_each(|prompt| prompt.turns += 1),
            Event::MessageStart { message, ticket: None, client_message_id }
                if matches!(**message, Message::User(_)) =>
            {
                *client_message_id = self.unstarted.take();
            }
            Event::MessageEnd { message } => {
                for prompt in &mut self.active {
                    prompt.messages += 1;
                    match &**message {
                        Message::Assistant(answer) => {
                            prompt.is_answered = true;
                            prompt.usage.add(&answer.usage);
                        }
                        Message::ToolResult(result) => {
                            if let Some(usage) = &result.usage {
                                prompt.usage.add(usage);
                            }
                        }
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }

    /// A run has ended; `Err` is the text of its panic.
    pub(crate) fn run_ended(&mut self, end: &Result<End, String>) {
        self.unstarted = None;
        self.last_run = match end {
            Ok(End::Complete) => RunEnd::Complete,
            Ok(End::Failed(error)) => RunEnd::Failed(error.to_string()),
            Ok(End::NotStored(NotStored(error))) => RunEnd::Failed(error.clone()),
            Ok(End::Aborted | End::Interrupted) => RunEnd::Stopped,
            Ok(End::Limit(limit)) => RunEnd::Limit(*limit),
            Err(crash) => RunEnd::Failed(format!("internal error: {crash}")),
        };
    }

    fn take_active(&mut self) -> Vec<AcceptedPrompt> {
        std::mem::take(&mut self.active)
    }
}

/// The result, apart from what was used.
#[derive(Clone, Debug, PartialEq)]
struct Verdict {
    status: PromptStatus,
    reason: Option<PromptReason>,
    error: Option<String>,
}

impl Verdict {
    fn new(status: PromptStatus, reason: Option<PromptReason>) -> Verdict {
        Verdict { status, reason, error: None }
    }
}

/// Decides the result of prompts whose last run has ended. `stopped_by` is the reason if a request
/// has stopped the run, or the pause before another attempt.
fn verdict(last_run: &RunEnd, stopped_by: Option<PromptReason>) -> Verdict {
    match (last_run, stopped_by) {
        (RunEnd::Complete, _) => Verdict::new(PromptStatus::Done, None),
        (RunEnd::Limit(limit), _) => {
            Verdict::new(PromptStatus::Limit, Some(PromptReason::Limit(*limit)))
        }
        (RunEnd::Failed(_), Some(reason)) => Verdict::new(PromptStatus::Aborted, Some(reason)),
        (RunEnd::Failed(error), None) => {
            Verdict { error: Some(error.clone()), ..Verdict::new(PromptStatus::Error, None) }
        }
        (RunEnd::Stopped, reason) => {
            let reason = reason.unwrap_or(PromptReason::Abort);
            Verdict::new(PromptStatus::Aborted, Some(reason))
        }
    }
}

/// Emits the results of the active prompts: no further run follows for them.
pub(crate) fn finish_active(state: &mut SessionState) {
    let stopped_by = state.work.stop_reason();
    let verdict = verdict(&state.results.last_run, stopped_by);
    emit_active(state, &verdict);
}

/// Emits the results of the active prompts: a follow-up takes over.
pub(crate) fn hand_over(state: &mut SessionState) {
    // The turn that has just started is the follow-up's.
    state.results.active.iter_mut().for_each(|prompt| prompt.turns -= 1);
    emit_active(state, &Verdict::new(PromptStatus::Done, None));
}

/// Emits the results of messages that are no longer queued and will not be sent.
pub(crate) fn drop_queued(
    state: &mut SessionState,
    prompts: Vec<AcceptedPrompt>,
    reason: PromptReason,
) {
    for prompt in prompts {
        let (client, event) = prompt.result(Verdict::new(PromptStatus::Dropped, Some(reason)));
        state.emit_for(client, event);
    }
}

/// Emits the result of a message that an extension has handled. Its response has been sent.
pub(crate) fn handled(state: &mut SessionState, origin: Origin) {
    let verdict = Verdict::new(PromptStatus::Handled, None);
    let (client, event) = AcceptedPrompt::new(origin).result(verdict);
    state.emit_for(client, event);
}

/// Emits all missing results, because the session ends now.
pub(crate) fn end_session(state: &mut SessionState) {
    emit_active(state, &Verdict::new(PromptStatus::Aborted, Some(PromptReason::Shutdown)));
    let queued = state.queues.forget();
    drop_queued(state, queued, PromptReason::Shutdown);
}

fn emit_active(state: &mut SessionState, verdict: &Verdict) {
    for prompt in state.results.take_active() {
        let (client, event) = prompt.result(verdict.clone());
        state.emit_for(client, event);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_follows_from_the_last_run_and_the_request_that_stopped_it() {
        let failed = RunEnd::Failed("no".to_owned());
        let (abort, shutdown) = (Some(PromptReason::Abort), Some(PromptReason::Shutdown));
        let limit = RunEnd::Limit(LimitName::MaxTurns);
        let by_limit = Some(PromptReason::Limit(LimitName::MaxTurns));
        let rows = [
            (&RunEnd::Complete, None, PromptStatus::Done, None, None),
            // The request came too late.
            (&RunEnd::Complete, abort, PromptStatus::Done, None, None),
            (&failed, None, PromptStatus::Error, None, Some("no")),
            // The pause before another attempt was stopped.
            (&failed, abort, PromptStatus::Aborted, abort, None),
            (&RunEnd::Stopped, None, PromptStatus::Aborted, abort, None),
            (&RunEnd::Stopped, shutdown, PromptStatus::Aborted, shutdown, None),
            (&limit, None, PromptStatus::Limit, by_limit, None),
            (&limit, abort, PromptStatus::Limit, by_limit, None),
        ];
        for (end, stopped_by, status, reason, error) in rows {
            let expected = Verdict { status, reason, error: error.map(str::to_owned) };
            assert_eq!(verdict(end, stopped_by), expected, "{end:?} {stopped_by:?}");
        }
    }
}
