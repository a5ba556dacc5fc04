//! What follows a run: the policy, apart from carrying it out.

use tiller_agent::driver::End;

use super::compaction::Overflow;

/// What other parts of the session know when a run has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Facts {
    pub(super) is_shutting_down: bool,
    /// A command waits for the end: an abort, a session change, a compaction, another prompt.
    pub(super) has_deferred: bool,
    /// Rules have interrupted the model.
    pub(super) has_due_rules: bool,
    /// Rules wait for the end of the run.
    pub(super) has_waiting_rules: bool,
    /// The failure is temporary, and the attempts are not used up.
    pub(super) can_retry: bool,
    /// The limits of the session allow a new prompt.
    pub(super) allows_prompts: bool,
    pub(super) compaction: Option<CompactionNeed>,
    /// Messages were queued too late for the run.
    pub(super) has_queued: bool,
    /// The model has stopped with open tasks and is to be reminded of them.
    pub(super) needs_reminder: bool,
}

/// Why the conversation has to be compacted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum CompactionNeed {
    /// It is close to the end of the context window.
    Full,
    Overflow(Overflow),
}

/// What follows a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Next {
    /// After a pause, another run with the rules that interrupted the model.
    InjectRules,
    /// After a pause, the same run again.
    Retry,
    /// A compaction, and then what follows it.
    Compact(CompactionNeed),
    /// Another run with the rules that waited for its end.
    AppendRules,
    /// Another run with the queued messages.
    SendQueued,
    /// Another run with a reminder of open tasks.
    RemindOfTodos,
    /// `agent_before_settle`, and then `agent_settled`.
    Settle,
}

impl Facts {
    /// Whether tiller may go on by itself.
    pub(super) fn may_continue(&self) -> bool {
        !self.is_shutting_down && !self.has_deferred
    }
}

/// Decides what follows a run. The order of the cases is the policy.
pub(super) fn next(end: &End, facts: &Facts) -> Next {
    let may_continue = facts.may_continue();
    match end {
        End::Interrupted if may_continue && facts.has_due_rules => return Next::InjectRules,
        End::Failed(_) if may_continue && facts.can_retry => return Next::Retry,
        // Nothing more is spent on this prompt. Queued messages are prompts of their own.
        End::Limit(_) if sends_queued_after_limit(facts) => return Next::SendQueued,
        End::Limit(_) => return Next::Settle,
        _ => {}
    }
    if may_continue && let Some(need) = facts.compaction {
        return Next::Compact(need);
    }
    // After an abort or a failed write, queued messages wait for the next prompt.
    let is_stopped = matches!(end, End::Aborted | End::Interrupted | End::NotStored(_));
    if is_stopped || facts.has_deferred {
        return Next::Settle;
    }
    // Rules that waited are only injected after a run that succeeded.
    if facts.has_waiting_rules && *end == End::Complete {
        Next::AppendRules
    } else if facts.has_queued {
        Next::SendQueued
    } else if facts.needs_reminder {
        Next::RemindOfTodos
    } else {
        Next::Settle
    }
}

/// Whether the run is repeated or continued without a message of the user. `agent_end` says so.
pub(super) fn will_retry(end: &End, facts: &Facts) -> bool {
    let after = match next(end, facts) {
        Next::Compact(CompactionNeed::Overflow(overflow)) if overflow.is_retried() => Next::Retry,
        Next::Compact(_) => next(end, &Facts { compaction: None, ..*facts }),
        other => other,
    };
    let continues = [Next::InjectRules, Next::Retry, Next::AppendRules, Next::RemindOfTodos];
    facts.may_continue() && continues.contains(&after)
}

/// A message that the limits do not allow would stay in its queue, and end the next run, too.
fn sends_queued_after_limit(facts: &Facts) -> bool {
    facts.has_queued && facts.allows_prompts && !facts.has_deferred
}

/// Decides what follows `agent_before_settle`: another run or `agent_settled`.
pub(super) fn after_settle_hook(end: &End, is_continued: bool, facts: &Facts) -> Next {
    let continues = match end {
        End::Aborted | End::Interrupted => false,
        End::Limit(_) => sends_queued_after_limit(facts),
        End::Complete | End::Failed(_) | End::NotStored(_) => is_continued || facts.has_queued,
    };
    if continues && facts.may_continue() { Next::SendQueued } else { Next::Settle }
}

#[cfg(test)]
mod tests {
    use tiller_agent::driver::NotStored;
    use tiller_agent::limits::LimitName;
    use tiller_agent::provider::ProviderError;

    use super::*;

    fn failed() -> End {
        End::Failed(ProviderError::fatal("no"))
    }

    /// Each row: the end, what is true, what follows.
    #[test]
    fn each_end_is_followed_by_the_first_case_that_applies() {
        let (complete, aborted) = (End::Complete, End::Aborted);
        let not_stored = End::NotStored(NotStored("disk full".to_owned()));
        let overflow = CompactionNeed::Overflow(Overflow::Refused);
        let full = CompactionNeed::Full;
        let none = Facts::default();
        let all = Facts {
            has_due_rules: true,
            has_waiting_rules: true,
            can_retry: true,
            has_queued: true,
            needs_reminder: true,
            allows_prompts: true,
            ..none
        };
        let limit = End::Limit(LimitName::MaxTurns);
        let shutting_down = Facts { is_shutting_down: true, ..all };
        let deferred = Facts { has_deferred: true, compaction: Some(full), ..all };
        let rows: &[(&End, Facts, Next)] = &[
            // Nothing is left to do.
            (&complete, none, Next::Settle),
            (&aborted, none, Next::Settle),
            (&failed(), none, Next::Settle),
            (&not_stored, none, Next::Settle),
            // A rule that interrupted the model comes first.
            (&End::Interrupted, all, Next::InjectRules),
            (&End::Interrupted, Facts { has_due_rules: false, ..all }, Next::Settle),
            (&End::Interrupted, shutting_down, Next::Settle),
            (&End::Interrupted, deferred, Next::Settle),
            // A temporary failure is retried.
            (&failed(), all, Next::Retry),
            (&failed(), Facts { compaction: Some(overflow), ..all }, Next::Retry),
            (&failed(), shutting_down, Next::SendQueued),
            (&failed(), deferred, Next::Settle),
            // An overflow or a full window is compacted, unless a command waits.
            (
                &failed(),
                Facts { can_retry: false, compaction: Some(overflow), ..all },
                Next::Compact(overflow),
            ),
            (&complete, Facts { compaction: Some(full), ..all }, Next::Compact(full)),
            (&complete, Facts { compaction: Some(full), ..shutting_down }, Next::AppendRules),
            (&complete, deferred, Next::Settle),
            // Then waiting rules, queued messages and the reminder, in this order.
            (&complete, all, Next::AppendRules),
            (&complete, Facts { has_waiting_rules: false, ..all }, Next::SendQueued),
            (&failed(), Facts { can_retry: false, ..all }, Next::SendQueued),
            (&complete, Facts { needs_reminder: true, ..none }, Next::RemindOfTodos),
            // After a limit only queued messages are sent, if a prompt is allowed at all.
            (&limit, none, Next::Settle),
            (&limit, all, Next::SendQueued),
            (&limit, Facts { compaction: Some(full), ..all }, Next::SendQueued),
            (&limit, Facts { has_queued: false, compaction: Some(full), ..all }, Next::Settle),
            (&limit, Facts { allows_prompts: false, ..all }, Next::Settle),
            (&limit, deferred, Next::Settle),
            // After an abort or a failed write, messages stay queued.
            (&aborted, all, Next::Settle),
            (&not_stored, all, Next::Settle),
        ];
        for (end, facts, expected) in rows {
            assert_eq!(next(end, facts), *expected, "{end:?} {facts:?}");
        }
    }

    #[test]
    fn settle_hook_starts_a_run_unless_the_run_was_aborted() {
        let none = Facts::default();
        let queued = Facts { has_queued: true, allows_prompts: true, ..none };
        let (completed, aborted) = (&End::Complete, &End::Aborted);
        let limit = &End::Limit(LimitName::MaxTurns);
        let rows = [
            (completed, false, none, Next::Settle),
            (completed, true, none, Next::SendQueued),
            (completed, false, queued, Next::SendQueued),
            (&failed(), true, none, Next::SendQueued),
            (aborted, true, queued, Next::Settle),
            (&End::Interrupted, true, queued, Next::Settle),
            (limit, true, none, Next::Settle),
            (limit, false, queued, Next::SendQueued),
            (limit, false, Facts { allows_prompts: false, ..queued }, Next::Settle),
            (completed, true, Facts { is_shutting_down: true, ..queued }, Next::Settle),
            (completed, true, Facts { has_deferred: true, ..queued }, Next::Settle),
        ];
        for (end, is_continued, facts, expected) in rows {
            assert_eq!(after_settle_hook(end, is_continued, &facts), expected, "{end:?} {facts:?}");
        }
    }

    #[test]
    fn agent_end_announces_a_run_that_tiller_starts_by_itself() {
        let none = Facts::default();
        let compact = |need| Facts { compaction: Some(need), ..none };
        let overflow = |overflow| compact(CompactionNeed::Overflow(overflow));
        let rules = Facts { has_waiting_rules: true, ..none };
        let reminder = Facts { needs_reminder: true, ..none };
        let rows: &[(End, Facts, bool)] = &[
            (End::Complete, none, false),
            (End::Complete, rules, true),
            (End::Complete, reminder, true),
            (End::Complete, Facts { has_queued: true, ..none }, false),
            (End::Interrupted, Facts { has_due_rules: true, ..none }, true),
            (failed(), Facts { can_retry: true, ..none }, true),
            (failed(), overflow(Overflow::Refused), true),
            (End::Complete, overflow(Overflow::CutOff), true),
            (End::Complete, overflow(Overflow::Silent), false),
            (End::Complete, compact(CompactionNeed::Full), false),
            (End::Complete, Facts { compaction: Some(CompactionNeed::Full), ..rules }, true),
            (End::Complete, Facts { compaction: Some(CompactionNeed::Full), ..reminder }, true),
            (End::Limit(LimitName::MaxCost), Facts { needs_reminder: true, ..rules }, false),
            (End::Complete, Facts { is_shutting_down: true, ..rules }, false),
            (End::Complete, Facts { has_deferred: true, ..rules }, false),
        ];
        for (end, facts, expected) in rows {
            assert_eq!(will_retry(end, facts), *expected, "{end:?} {facts:?}");
        }
    }
}
