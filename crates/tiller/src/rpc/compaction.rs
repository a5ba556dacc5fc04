//! Compaction of the conversation: when it starts, and what follows it.
//!
//! A task of its own writes the summary, so that the server goes on handling commands and an abort
//! takes effect at any moment. The session changes by one entry at the end; until then it is
//! unchanged.

use std::sync::Arc;

use serde_json::json;
use tiller_agent::compaction::cut::Plan;
use tiller_agent::compaction::summary::{
    Progress, ProgressListener, Summarizer, Summary, SummaryError,
};
use tiller_agent::compaction::{Compacted, Limits, Reason};
use tiller_agent::driver::End;
use tiller_agent::event::Event;
use tiller_agent::message::{AssistantMessage, Message, StopReason};
use tiller_agent::model::Model;
use tiller_agent::provider::ProviderError;
use tiller_agent::tokens;
use tiller_session::Compaction;
use tokio_util::sync::CancellationToken;

use super::extensions::compaction_hooks::{CompactionPreparation, ExtensionCompaction};
use super::requester::Requester;
use super::server::Input;
use super::state::SessionState;
use super::tasks::{Responder, Tasks};
use super::wire::{Label, Level, Reply, ShapedCompaction};
use crate::conversation::Tokens;
use crate::settings::CompactionSettings;

/// The current compaction, and the outcome of earlier ones.
pub(crate) struct Compactions {
    pub(crate) settings: CompactionSettings,
    pub(super) current: Option<ActiveCompaction>,
    /// An overflow was followed by a compaction since the last user message. There is no second
    /// one.
    recovered: bool,
    /// The last automatic compaction failed. It is tried again with the next prompt, not at each
    /// turn.
    failed: bool,
}

impl Compactions {
    pub(crate) fn new(settings: CompactionSettings) -> Compactions {
        Compactions { settings, current: None, recovered: false, failed: false }
    }

    /// Whether an automatic compaction is in progress; it counts as busy.
    pub(crate) fn is_automatic(&self) -> bool {
        self.current.as_ref().is_some_and(|current| current.reason != Reason::Manual)
    }

    /// Whether a compaction that the client requested is in progress and not aborted.
    pub(crate) fn is_manual(&self) -> bool {
        let current = self.current.as_ref().filter(|current| !current.cancel.is_cancelled());
        current.is_some_and(|current| current.reason == Reason::Manual)
    }

    pub(crate) fn is_under_way(&self) -> bool {
        self.current.is_some()
    }

    pub(super) fn cancel(&self) {
        if let Some(current) = &self.current {
            current.cancel.cancel();
        }
    }

    /// A user message allows the next overflow recovery.
    pub(super) fn user_spoke(&mut self) {
        self.recovered = false;
    }
}

/// A compaction in progress.
pub(super) struct ActiveCompaction {
    reason: Reason,
    cancel: CancellationToken,
    first_kept: String,
    tokens_before: u64,
    then: AfterCompaction,
}

/// What follows a compaction.
pub(super) enum AfterCompaction {
    /// The response to `compact`.
    Answer { requester: Requester, level: Level },
    /// A prompt, and its response unless it was sent already.
    Prompt { label: Option<Label>, messages: Vec<Message> },
    /// The next turn of the current run.
    NextTurn(Responder<Option<Vec<Arc<Message>>>>),
    /// The end of the run that has closed.
    Settle,
    /// A new run in place of the run that overflowed.
    Retry,
    /// The same after a truncated answer, which is hidden only when the compaction has succeeded.
    Replace,
}

impl AfterCompaction {
    /// Whether the run that overflowed is tried again.
    fn retries(&self) -> bool {
        matches!(self, AfterCompaction::Retry | AfterCompaction::Replace)
    }
}

/// How a run overflowed the context window.
#[derive(Clone, Copy, PartialEq)]
enum Overflow {
    /// The provider refused the request.
    Refused,
    /// The answer was truncated at the end of the window.
    CutOff,
    /// The answer is complete, but the provider must have dropped part of the conversation.
    Silent,
}

/// A summary, or why there is none.
pub struct SummaryDone(Result<CompactionText, SummaryError>);

/// Where the summary comes from.
enum CompactionText {
    Written(Summary),
    /// From an extension.
    FromExtension(ExtensionCompaction),
}

impl SessionState {
    /// Runs `compact` when nothing runs. Every compaction emits a start and an end event, also when
    /// there is nothing to compact.
    pub(super) fn compact(&mut self, requester: Requester, level: Level, focus: Option<String>) {
        let planned = self.plan_manual();
        let then = AfterCompaction::Answer { requester, level };
        match planned {
            Ok((plan, first_kept)) => self.begin(Reason::Manual, plan, first_kept, focus, then),
            Err(error) => {
                self.emit(Event::CompactionStart { reason: Reason::Manual });
                self.end_failed(Reason::Manual, &error, false);
                self.continue_after(then, Err(error));
            }
        }
    }

    fn plan_manual(&mut self) -> Result<(Plan, String), String> {
        if self.conversation.session().ends_with_compaction() {
            return Err("Already compacted".to_owned());
        }
        let keep = self.limits().map_or(0, |limits| limits.keep);
        let planned = self.conversation.cut(keep, 0).map_err(|err| err.to_string())?;
        planned.ok_or_else(|| "Nothing to compact (session too small)".to_owned())
    }

    /// Where to cut before a prompt with these messages, if they do not fit. An automatic
    /// compaction that failed is tried again with the next prompt.
    pub(super) fn plan_before_prompt(&mut self, messages: &[Message]) -> Option<(Plan, String)> {
        self.compactions.failed = false;
        self.plan_if_full(messages.iter().map(tokens::estimate).sum())
    }

    /// Compacts a conversation that became too long in the middle of a run.
    pub(super) fn compact_between_turns(
        &mut self,
        responder: Responder<Option<Vec<Arc<Message>>>>,
    ) {
        match self.plan_if_full(0) {
            Some((plan, first_kept)) => {
                self.begin(
                    Reason::Threshold,
                    plan,
                    first_kept,
                    None,
                    AfterCompaction::NextTurn(responder),
                );
            }
            None => responder.respond(None),
        }
    }

    /// Compacts the conversation after a run, if necessary. Returns whether it does.
    pub(super) fn compact_after_run(&mut self, end: &End) -> bool {
        if let Some(overflow) = self.overflow(end) {
            return self.recover(overflow);
        }
        let planned = (*end == End::Complete).then(|| self.plan_if_full(0)).flatten();
        let Some((plan, first_kept)) = planned else { return false };
        self.begin(Reason::Threshold, plan, first_kept, None, AfterCompaction::Settle);
        true
    }

    /// Whether a run that ended like this is tried again after a compaction.
    pub(super) fn will_recover(&mut self, end: &End) -> bool {
        match self.overflow(end) {
            None | Some(Overflow::Silent) => false,
            Some(overflow) => !self.compactions.recovered && self.plan_recovery(overflow).is_some(),
        }
    }

    fn recover(&mut self, overflow: Overflow) -> bool {
        let reason = Reason::Overflow;
        if self.compactions.recovered {
            let error = match overflow {
                Overflow::Silent => return false,
                Overflow::CutOff => TRUNCATED_AGAIN,
                Overflow::Refused => REFUSED_AGAIN,
            };
            self.emit(Event::CompactionStart { reason });
            self.end_without(reason, Some(error.to_owned()), false);
            return false;
        }
        let Some((plan, first_kept)) = self.plan_recovery(overflow) else { return false };
        self.compactions.recovered = true;
        let then = match overflow {
            Overflow::Silent => AfterCompaction::Settle,
            Overflow::CutOff => AfterCompaction::Replace,
            Overflow::Refused => {
                self.hide_last_answer();
                AfterCompaction::Retry
            }
        };
        self.begin(reason, plan, first_kept, None, then);
        true
    }

    /// Whether, and how, a run that ended like this overflowed the window.
    fn overflow(&self, end: &End) -> Option<Overflow> {
        let model = self.automatic()?;
        let last = self.conversation.loaded()?.iter().rev().find_map(|m| m.as_assistant())?;
        match end {
            End::Failed(ProviderError::Overflow { .. }) => Some(Overflow::Refused),
            End::Complete if last.provider == model.provider && last.model == model.id => {
                overflow_of(last, &model)
            }
            _ => None,
        }
    }

    /// Where to cut so that the failed request fits. The overflow shows that the window or the
    /// token estimate is wrong, so at least half of the conversation goes.
    fn plan_recovery(&mut self, overflow: Overflow) -> Option<(Plan, String)> {
        let limits = self.limits()?;
        let messages = self.conversation.messages().ok()?;
        let answer = messages.iter().rposition(|message| message.as_assistant().is_some())?;
        // The answer that is replaced is neither summarised nor kept.
        let skip = if overflow == Overflow::Silent { 0 } else { messages.len() - answer };
        let size = tokens::estimate_all(&messages[..messages.len() - skip]);
        let keep = if size < WORTH_HALVING { limits.keep } else { limits.keep.min(size / 2) };
        self.conversation.cut(keep, skip).ok().flatten()
    }

    /// Where to cut, if the conversation plus `more` tokens exceeds the threshold.
    fn plan_if_full(&mut self, more: u64) -> Option<(Plan, String)> {
        if self.compactions.failed || self.is_shutting_down {
            return None;
        }
        let model = self.automatic()?;
        let size = match self.conversation.tokens().ok()? {
            Tokens::Counted(tokens) => tokens,
            Tokens::Estimated(tokens) => tokens + self.frame_tokens(),
        };
        if size + more <= self.compactions.settings.limits(&model).threshold {
            return None;
        }
        let keep = self.limits()?.keep;
        self.conversation.cut(keep, 0).ok().flatten()
    }

    /// The current model, if automatic compaction applies to it.
    fn automatic(&self) -> Option<Arc<Model>> {
        let model = self.model.clone().filter(|model| model.context_window > 0)?;
        self.compactions.settings.enabled.then_some(model)
    }

    fn limits(&mut self) -> Option<Limits> {
        let limits = self.compactions.settings.limits(self.model.as_ref()?);
        // The system prompt and the tools cannot be shortened, so fewer messages are kept.
        let room = limits.threshold.saturating_sub(self.frame_tokens());
        Some(Limits { keep: limits.keep.min(room / 2), ..limits })
    }

    fn frame_tokens(&mut self) -> u64 {
        tokens::estimate_frame(&self.system(), &self.tools().specs())
    }

    pub(super) fn begin(
        &mut self,
        reason: Reason,
        plan: Plan,
        first_kept: String,
        focus: Option<String>,
        then: AfterCompaction,
    ) {
        self.emit(Event::CompactionStart { reason });
        let cancel = CancellationToken::new();
        if self.is_shutting_down {
            cancel.cancel();
        }
        let tokens_before = match self.conversation.tokens() {
            Ok(Tokens::Counted(tokens)) => tokens,
            Ok(Tokens::Estimated(tokens)) => tokens + self.frame_tokens(),
            Err(_) => 0,
        };
        // After an overflow the provider's own count is too low; the estimate counts if it is
        // higher.
        let guess = self.conversation.loaded().map_or(0, tokens::estimate_all);
        let guess = guess + self.frame_tokens();
        let tokens_before = match reason {
            Reason::Overflow => tokens_before.max(guess),
            Reason::Manual | Reason::Threshold => tokens_before,
        };
        let setup = self.setup();
        let writer = Summarizer {
            provider: setup.provider,
            limits: self.compactions.settings.limits(&setup.model),
            model: setup.model,
            thinking: setup.thinking,
            retry: self.retries.settings.policy(),
            session_id: setup.session_id,
            now: self.clock.now(),
            cancel: cancel.clone(),
        };
        let before = CompactionPreparation {
            reason,
            plan: &plan,
            first_kept: &first_kept,
            tokens_before,
            focus: focus.as_deref(),
            will_retry: then.retries(),
        };
        let hook = self.before_compact(before);
        let progress = ProgressSender { tasks: self.tasks.clone(), reason: Some(reason) };
        let given_up = cancel.clone();
        let summarizing = async move {
            if let Some(hook) = hook
                && let Some(provided) = hook.ask(&given_up).await?
            {
                return Ok(CompactionText::FromExtension(provided));
            }
            writer.write(&plan, focus.as_deref(), &progress).await.map(CompactionText::Written)
        };
        self.tasks.spawn_catching(summarizing, |result| {
            let crashed = |crash| Err(SummaryError::Failed(format!("internal error: {crash}")));
            Input::SummaryDone(Box::new(SummaryDone(result.unwrap_or_else(crashed))))
        });
        let compacting = ActiveCompaction { reason, cancel, first_kept, tokens_before, then };
        self.compactions.current = Some(compacting);
    }

    /// The summary is written, or has failed.
    pub(super) fn summary_done(&mut self, SummaryDone(result): SummaryDone) {
        let Some(current) = self.compactions.current.take() else { return };
        let ActiveCompaction { reason, first_kept, tokens_before, then, .. } = current;
        let summary = match result {
            Ok(summary) => summary,
            Err(SummaryError::Failed(error)) => {
                self.compactions.failed = reason != Reason::Manual;
                self.end_failed(reason, &error, false);
                return self.continue_after(then, Err(error));
            }
            Err(SummaryError::Cancelled) => {
                self.end_without(reason, None, false);
                return self.continue_after(then, Err("Compaction cancelled".to_owned()));
            }
        };
        let compaction = match summary {
            CompactionText::Written(Summary { summary, files, usage }) => Compaction {
                summary,
                first_kept_entry_id: Some(first_kept),
                tokens_before,
                details: serde_json::to_value(&files).ok(),
                usage: Some(usage),
                from_hook: false,
            },
            CompactionText::FromExtension(provided) => {
                provided.compaction(first_kept, tokens_before)
            }
        };
        let from_extension = compaction.from_hook;
        let result = self.append_compaction(compaction, reason, &then);
        match &result {
            Ok(compacted) => self.emit(Event::CompactionEnd {
                reason,
                result: Some(Box::new(compacted.clone())),
                aborted: false,
                will_retry: then.retries(),
                error_message: None,
            }),
            Err(error) => {
                self.compactions.failed = reason != Reason::Manual;
                self.end_failed(reason, error, from_extension);
            }
        }
        self.continue_after(then, result);
    }

    fn append_compaction(
        &mut self,
        compaction: Compaction,
        reason: Reason,
        then: &AfterCompaction,
    ) -> Result<Compacted, String> {
        let first_kept = compaction.first_kept_entry_id.clone().unwrap_or_default();
        if !self.conversation.session().contains(&first_kept) {
            return Err(format!("Entry not found: {first_kept}"));
        }
        if matches!(then, AfterCompaction::Replace) {
            self.hide_last_answer();
        }
        let now = self.clock.now();
        let from_extension = compaction.from_hook;
        let entry = self.conversation.compact(compaction.clone(), now);
        let entry = entry.map_err(|err| err.to_string())?;
        self.emit_compacted(&entry, from_extension, reason, then.retries());
        let frame = self.frame_tokens();
        let messages = self.conversation.messages().map_err(|err| err.to_string())?;
        Ok(Compacted {
            summary: compaction.summary,
            first_kept_entry_id: first_kept,
            tokens_before: compaction.tokens_before,
            estimated_tokens_after: tokens::estimate_all(messages) + frame,
            usage: compaction.usage,
            details: compaction.details,
        })
    }

    fn end_failed(&mut self, reason: Reason, error: &str, from_extension: bool) {
        let error = match reason {
            Reason::Manual => format!("Compaction failed: {error}"),
            Reason::Threshold => format!("Auto-compaction failed: {error}"),
            Reason::Overflow => format!("Context overflow recovery failed: {error}"),
        };
        self.end_without(reason, Some(error), from_extension);
    }

    /// Ends a compaction that failed (`error`) or was cancelled (no `error`).
    fn end_without(&mut self, reason: Reason, error: Option<String>, from_extension: bool) {
        self.emit_not_compacted(reason, error.clone(), from_extension);
        self.emit(Event::CompactionEnd {
            reason,
            result: None,
            aborted: error.is_none(),
            will_retry: false,
            error_message: error,
        });
    }

    /// Continues what waited for the compaction, with or without it.
    fn continue_after(&mut self, then: AfterCompaction, result: Result<Compacted, String>) {
        match then {
            AfterCompaction::Answer { requester, level } => {
                match (requester, result) {
                    (Requester::Client(label), result) => {
                        let reply =
                            |result| Reply::data(&ShapedCompaction { result: &result, level });
                        self.respond(label, result.map(reply));
                    }
                    (Requester::Extension(answer), result) => {
                        answer.respond(result.map(|result| json!(result)));
                    }
                }
                self.run_deferred_if_idle();
            }
            AfterCompaction::Prompt { label, messages } => {
                self.start_after_compaction(label, messages);
            }
            AfterCompaction::NextTurn(responder) => {
                let context = result.ok().and_then(|_| self.conversation.loaded());
                responder.respond(context.map(<[_]>::to_vec));
            }
            AfterCompaction::Settle => self.after_run_closed(false),
            AfterCompaction::Retry | AfterCompaction::Replace
                if result.is_ok() && self.nothing_deferred() =>
            {
                self.start_run(Vec::new());
            }
            AfterCompaction::Retry | AfterCompaction::Replace => self.after_run_closed(false),
        }
    }
}

/// Sends progress of a summary to the client.
pub(super) struct ProgressSender {
    pub(super) tasks: Tasks,
    /// The reason of the compaction; nothing for a branch summary.
    pub(super) reason: Option<Reason>,
}

impl ProgressListener for ProgressSender {
    async fn tell(&self, progress: Progress) {
        let event = Event::Summarization { reason: self.reason, progress };
        self.tasks.send(Input::Event(event)).await;
    }
}

/// A smaller conversation is not halved after an overflow: it was not the cause.
const WORTH_HALVING: u64 = 1000;

const REFUSED_AGAIN: &str = "Context overflow recovery failed after one compact-and-retry \
     attempt. Try reducing context or switching to a larger-context model.";
const TRUNCATED_AGAIN: &str =
    "Truncated response recovery failed after one compact-and-retry attempt.";

/// Whether an answer shows that the window overflowed.
fn overflow_of(answer: &AssistantMessage, model: &Model) -> Option<Overflow> {
    let usage = &answer.usage;
    let input = usage.input + usage.cache_read;
    match answer.stop_reason {
        StopReason::Stop if input > model.context_window => Some(Overflow::Silent),
        StopReason::Length if usage.output < model.max_tokens && usage.total_tokens > 0 => {
            Some(Overflow::CutOff)
        }
        _ => None,
    }
}
