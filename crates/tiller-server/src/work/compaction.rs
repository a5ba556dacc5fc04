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
use tiller_agent::compaction::{Compacted, ContextLimits, Reason};
use tiller_agent::driver::End;
use tiller_agent::event::Event;
use tiller_agent::message::{AssistantMessage, Message, StopReason};
use tiller_agent::model::Model;
use tiller_agent::provider::ProviderError;
use tiller_agent::tokens;
use tiller_config::settings::CompactionSettings;
use tiller_protocol::{CompactionResult, Level, Reply};
use tiller_session::Compaction;
use tokio_util::sync::CancellationToken;

use super::next::CompactionNeed;
use super::{Phase, deferred, retry, run};
use crate::conversation::Tokens;
use crate::extensions::compaction_hooks::{self, CompactionPreparation, ExtensionCompaction};
use crate::prompt_results::Origin;
use crate::requester::Requester;
use crate::server::Input;
use crate::state::SessionState;
use crate::tasks::{Responder, Tasks};
use crate::{project_state, prompt, tools};

/// The current compaction, and the outcome of earlier ones.
pub(crate) struct Compactions {
    pub(super) settings: CompactionSettings,
    current: Option<ActiveCompaction>,
    /// An overflow was followed by a compaction since the last user message. There is no second
    /// one.
    recovered: bool,
    /// The last automatic compaction failed. It is tried again with the next prompt, not at each
    /// turn.
    failed: bool,
}

impl Compactions {
    pub(super) fn new(settings: CompactionSettings) -> Compactions {
        Compactions { settings, current: None, recovered: false, failed: false }
    }

    pub(crate) fn settings(&self) -> &CompactionSettings {
        &self.settings
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
    pub(super) fn user_message_added(&mut self) {
        self.recovered = false;
    }
}

/// A compaction in progress.
struct ActiveCompaction {
    reason: Reason,
    cancel: CancellationToken,
    first_kept: String,
    tokens_before: u64,
    then: AfterCompaction,
}

/// Where the conversation is cut.
pub(crate) struct PlannedCut {
    plan: Plan,
    /// The first entry that is kept.
    first_kept: String,
}

impl PlannedCut {
    fn new((plan, first_kept): (Plan, String)) -> PlannedCut {
        PlannedCut { plan, first_kept }
    }
}

/// What follows a compaction.
pub(crate) enum AfterCompaction {
    /// The response to `compact`.
    Answer { requester: Requester, level: Level },
    /// A prompt, and its response unless it was sent already.
    Prompt { origin: Option<Origin>, messages: Vec<Message> },
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

    /// Whether the session is busy with the compaction itself. A requested one is not part of a
    /// run, and one between two turns belongs to the run that waits for it.
    fn is_phase(&self) -> bool {
        !matches!(self, AfterCompaction::Answer { .. } | AfterCompaction::NextTurn(_))
    }
}

/// How a run overflowed the context window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Overflow {
    /// The provider refused the request.
    Refused,
    /// The answer was truncated at the end of the window.
    CutOff,
    /// The answer is complete, but the provider must have dropped part of the conversation.
    Silent,
}

impl Overflow {
    /// Whether the run is tried again after the compaction.
    pub(super) fn is_retried(self) -> bool {
        matches!(self, Overflow::Refused | Overflow::CutOff)
    }
}

/// A summary, or why there is none.
pub struct SummaryDone(Result<CompactionText, SummaryError>);

/// Where the summary comes from.
enum CompactionText {
    Written(Summary),
    /// From an extension.
    FromExtension(ExtensionCompaction),
}

/// Runs `compact` when nothing runs. Every compaction emits a start and an end event, also when
/// there is nothing to compact.
pub(crate) fn compact(
    state: &mut SessionState,
    requester: Requester,
    level: Level,
    focus: Option<String>,
) {
    let then = AfterCompaction::Answer { requester, level };
    match plan_manual(state) {
        Ok(cut) => begin(state, Reason::Manual, cut, focus, then),
        Err(error) => {
            state.emit(Event::CompactionStart { reason: Reason::Manual });
            end_failed(state, Reason::Manual, &error, false);
            continue_after(state, then, Err(error));
        }
    }
}

fn plan_manual(state: &mut SessionState) -> Result<PlannedCut, String> {
    if state.session.conversation().session().ends_with_compaction() {
        return Err("Already compacted".to_owned());
    }
    let keep = limits(state).map_or(0, |limits| limits.keep);
    let planned = state.session.conversation_mut().cut(keep, 0).map_err(|err| err.to_string())?;
    let nothing = || "Nothing to compact (session too small)".to_owned();
    planned.map(PlannedCut::new).ok_or_else(nothing)
}

/// Where to cut before a prompt with these messages, if they do not fit. An automatic
/// compaction that failed is tried again with the next prompt.
pub(crate) fn plan_before_prompt(
    state: &mut SessionState,
    messages: &[Message],
) -> Option<PlannedCut> {
    state.work.compactions.failed = false;
    plan_if_full(state, messages.iter().map(tokens::estimate).sum())
}

/// Compacts a conversation that became too long in the middle of a run.
pub(super) fn compact_between_turns(
    state: &mut SessionState,
    responder: Responder<Option<Vec<Arc<Message>>>>,
) {
    match plan_if_full(state, 0) {
        Some(cut) => {
            let then = AfterCompaction::NextTurn(responder);
            begin(state, Reason::Threshold, cut, None, then);
        }
        None => responder.respond(None),
    }
}

/// Whether the conversation has to be compacted after a run that ended like this, and where to
/// cut it.
pub(super) fn plan_after_run(
    state: &mut SessionState,
    end: &End,
) -> Option<(CompactionNeed, PlannedCut)> {
    if let Some(overflow) = overflow(state, end) {
        if state.work.compactions.recovered {
            return None;
        }
        let cut = plan_recovery(state, overflow)?;
        return Some((CompactionNeed::Overflow(overflow), cut));
    }
    let planned = (*end == End::Complete).then(|| plan_if_full(state, 0)).flatten();
    planned.map(|cut| (CompactionNeed::Full, cut))
}

/// Compacts the conversation after a run.
pub(super) fn compact_after_run(state: &mut SessionState, need: CompactionNeed, cut: PlannedCut) {
    let (reason, then) = match need {
        CompactionNeed::Full => (Reason::Threshold, AfterCompaction::Settle),
        CompactionNeed::Overflow(overflow) => {
            state.work.compactions.recovered = true;
            let then = match overflow {
                Overflow::Silent => AfterCompaction::Settle,
                Overflow::CutOff => AfterCompaction::Replace,
                Overflow::Refused => {
                    retry::hide_last_answer(state);
                    AfterCompaction::Retry
                }
            };
            (Reason::Overflow, then)
        }
    };
    begin(state, reason, cut, None, then);
}

/// Reports an overflow that a compaction has not prevented.
pub(super) fn report_second_overflow(state: &mut SessionState, end: &End) {
    if !state.work.compactions.recovered {
        return;
    }
    let error = match overflow(state, end) {
        None | Some(Overflow::Silent) => return,
        Some(Overflow::CutOff) => TRUNCATED_AGAIN,
        Some(Overflow::Refused) => REFUSED_AGAIN,
    };
    let reason = Reason::Overflow;
    state.emit(Event::CompactionStart { reason });
    end_without(state, reason, Some(error.to_owned()), false);
}

/// Whether, and how, a run that ended like this overflowed the window.
fn overflow(state: &SessionState, end: &End) -> Option<Overflow> {
    let model = automatic(state)?;
    let last =
        state.session.conversation().loaded()?.iter().rev().find_map(|m| m.as_assistant())?;
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
fn plan_recovery(state: &mut SessionState, overflow: Overflow) -> Option<PlannedCut> {
    let limits = limits(state)?;
    let messages = state.session.conversation_mut().messages().ok()?;
    let answer = messages.iter().rposition(|message| message.as_assistant().is_some())?;
    // The answer that is replaced is neither summarised nor kept.
    let skip = if overflow == Overflow::Silent { 0 } else { messages.len() - answer };
    let size = tokens::estimate_all(&messages[..messages.len() - skip]);
    let keep = if size < WORTH_HALVING { limits.keep } else { limits.keep.min(size / 2) };
    state.session.conversation_mut().cut(keep, skip).ok().flatten().map(PlannedCut::new)
}

/// Where to cut, if the conversation plus `more` tokens exceeds the threshold.
fn plan_if_full(state: &mut SessionState, more: u64) -> Option<PlannedCut> {
    if state.work.compactions.failed || state.work.is_shutting_down {
        return None;
    }
    let model = automatic(state)?;
    let size = match state.session.conversation().tokens().ok()? {
        Tokens::Counted(tokens) => tokens,
        Tokens::Estimated(tokens) => tokens + frame_tokens(state),
    };
    if size + more <= state.work.compactions.settings.limits(&model).threshold {
        return None;
    }
    let keep = limits(state)?.keep;
    state.session.conversation_mut().cut(keep, 0).ok().flatten().map(PlannedCut::new)
}

/// The current model, if automatic compaction applies to it.
fn automatic(state: &SessionState) -> Option<Arc<Model>> {
    let model = state.models.current().filter(|model| model.context_window > 0)?;
    state.work.compactions.settings.enabled.then(|| model.clone())
}

fn limits(state: &mut SessionState) -> Option<ContextLimits> {
    let limits = state.work.compactions.settings.limits(state.models.current()?);
    // The system prompt and the tools cannot be shortened, so fewer messages are kept.
    let room = limits.threshold.saturating_sub(frame_tokens(state));
    Some(ContextLimits { keep: limits.keep.min(room / 2), ..limits })
}

fn frame_tokens(state: &mut SessionState) -> u64 {
    let tools = tools::offered(state);
    tokens::estimate_frame(&project_state::system_prompt(state), &tools.specs())
}

/// Starts a compaction.
pub(crate) fn begin(
    state: &mut SessionState,
    reason: Reason,
    cut: PlannedCut,
    focus: Option<String>,
    then: AfterCompaction,
) {
    let PlannedCut { plan, first_kept } = cut;
    state.emit(Event::CompactionStart { reason });
    let cancel = CancellationToken::new();
    if state.work.is_shutting_down {
        cancel.cancel();
    }
    let tokens_before = tokens_before(state, reason);
    let setup = run::setup(state);
    let writer = Summarizer {
        provider: setup.provider,
        limits: state.work.compactions.settings.limits(&setup.model),
        model: setup.model,
        thinking: setup.thinking,
        retry: state.work.retries.settings.policy(),
        session_id: setup.session_id,
        now: state.clock.now(),
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
    let hook = compaction_hooks::before_compact(state, before);
    let progress = ProgressSender { tasks: state.tasks.clone(), reason: Some(reason) };
    let hook_cancel = cancel.clone();
    let summarizing = async move {
        if let Some(hook) = hook
            && let Some(provided) = hook.ask(&hook_cancel).await?
        {
            return Ok(CompactionText::FromExtension(provided));
        }
        writer.write(&plan, focus.as_deref(), &progress).await.map(CompactionText::Written)
    };
    state.tasks.spawn_catching(summarizing, |result| {
        let crashed = |crash| Err(SummaryError::Failed(format!("internal error: {crash}")));
        Input::SummaryDone(Box::new(SummaryDone(result.unwrap_or_else(crashed))))
    });
    if then.is_phase() {
        state.work.enter(Phase::Compacting);
    }
    let compaction = ActiveCompaction { reason, cancel, first_kept, tokens_before, then };
    state.work.compactions.current = Some(compaction);
}

/// The size of the conversation. After an overflow the provider's own count is too low; the
/// estimate counts if it is higher.
fn tokens_before(state: &mut SessionState, reason: Reason) -> u64 {
    let frame = frame_tokens(state);
    let counted = match state.session.conversation().tokens() {
        Ok(Tokens::Counted(tokens)) => tokens,
        Ok(Tokens::Estimated(tokens)) => tokens + frame,
        Err(_) => 0,
    };
    match reason {
        Reason::Overflow => {
            let loaded = state.session.conversation().loaded();
            counted.max(loaded.map_or(0, tokens::estimate_all) + frame)
        }
        Reason::Manual | Reason::Threshold => counted,
    }
}

/// The summary is written, or has failed.
pub(crate) fn summary_done(state: &mut SessionState, SummaryDone(result): SummaryDone) {
    let Some(current) = state.work.compactions.current.take() else { return };
    let ActiveCompaction { reason, first_kept, tokens_before, then, .. } = current;
    let summary = match result {
        Ok(summary) => summary,
        Err(SummaryError::Failed(error)) => {
            state.work.compactions.failed = reason != Reason::Manual;
            end_failed(state, reason, &error, false);
            return continue_after(state, then, Err(error));
        }
        Err(SummaryError::Cancelled) => {
            end_without(state, reason, None, false);
            return continue_after(state, then, Err("Compaction cancelled".to_owned()));
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
        CompactionText::FromExtension(provided) => provided.compaction(first_kept, tokens_before),
    };
    let from_extension = compaction.from_hook;
    let result = append_compaction(state, compaction, reason, &then);
    match &result {
        Ok(compacted) => state.emit(Event::CompactionEnd {
            reason,
            result: Some(Box::new(compacted.clone())),
            aborted: false,
            will_retry: then.retries(),
            error_message: None,
        }),
        Err(error) => {
            state.work.compactions.failed = reason != Reason::Manual;
            end_failed(state, reason, error, from_extension);
        }
    }
    continue_after(state, then, result);
}

fn append_compaction(
    state: &mut SessionState,
    compaction: Compaction,
    reason: Reason,
    then: &AfterCompaction,
) -> Result<Compacted, String> {
    let first_kept = compaction.first_kept_entry_id.clone().unwrap_or_default();
    if !state.session.conversation().session().contains(&first_kept) {
        return Err(format!("Entry not found: {first_kept}"));
    }
    if matches!(then, AfterCompaction::Replace) {
        retry::hide_last_answer(state);
    }
    let now = state.clock.now();
    let from_extension = compaction.from_hook;
    let entry = state.session.conversation_mut().compact(compaction.clone(), now);
    let entry = entry.map_err(|err| err.to_string())?;
    compaction_hooks::emit_compacted(state, &entry, from_extension, reason, then.retries());
    let frame = frame_tokens(state);
    let messages = state.session.conversation_mut().messages().map_err(|err| err.to_string())?;
    Ok(Compacted {
        summary: compaction.summary,
        first_kept_entry_id: first_kept,
        tokens_before: compaction.tokens_before,
        estimated_tokens_after: tokens::estimate_all(messages) + frame,
        usage: compaction.usage,
        details: compaction.details,
    })
}

fn end_failed(state: &mut SessionState, reason: Reason, error: &str, from_extension: bool) {
    let error = match reason {
        Reason::Manual => format!("Compaction failed: {error}"),
        Reason::Threshold => format!("Auto-compaction failed: {error}"),
        Reason::Overflow => format!("Context overflow recovery failed: {error}"),
    };
    end_without(state, reason, Some(error), from_extension);
}

/// Ends a compaction that failed (`error`) or was cancelled (no `error`).
fn end_without(
    state: &mut SessionState,
    reason: Reason,
    error: Option<String>,
    from_extension: bool,
) {
    compaction_hooks::emit_not_compacted(state, reason, error.clone(), from_extension);
    state.emit(Event::CompactionEnd {
        reason,
        result: None,
        aborted: error.is_none(),
        will_retry: false,
        error_message: error,
    });
}

/// Continues what waited for the compaction, with or without it.
fn continue_after(
    state: &mut SessionState,
    then: AfterCompaction,
    result: Result<Compacted, String>,
) {
    match then {
        AfterCompaction::Answer { requester, level } => {
            match (requester, result) {
                (Requester::Client(label), result) => {
                    let reply = |result| Reply::data(&CompactionResult::new(&result, level));
                    state.respond(label, result.map(reply));
                }
                (Requester::Extension(answer), result) => {
                    answer.respond(result.map(|result| json!(result)));
                }
            }
            deferred::run_deferred_if_idle(state);
        }
        AfterCompaction::Prompt { origin, messages } => {
            state.work.leave_phase();
            prompt::start_after_compaction(state, origin, messages);
        }
        AfterCompaction::NextTurn(responder) => {
            let context = result.ok().and_then(|_| state.session.conversation().loaded());
            responder.respond(context.map(<[_]>::to_vec));
        }
        AfterCompaction::Retry | AfterCompaction::Replace
            if result.is_ok() && !state.work.has_deferred() =>
        {
            state.work.leave_phase();
            run::start_run(state, Vec::new());
        }
        AfterCompaction::Settle | AfterCompaction::Retry | AfterCompaction::Replace => {
            run::after_compaction(state);
        }
    }
}

/// Sends progress of a summary to the client.
pub(crate) struct ProgressSender {
    pub(crate) tasks: Tasks,
    /// The reason of the compaction; nothing for a branch summary.
    pub(crate) reason: Option<Reason>,
}

impl ProgressListener for ProgressSender {
    async fn on_progress(&self, progress: Progress) {
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
