//! Compactions at each level. xcsh has events for automatic ones only, under other names.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tiller_agent::compaction::summary::Progress;
use tiller_agent::compaction::{Compacted, Reason};

use crate::Level;
use crate::json::present;
use crate::message::{Usage, text, usage};
use crate::record::Record;

/// The result of a compaction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CompactionResult<'a> {
    pub summary: Cow<'a, str>,
    /// The first entry that is kept verbatim.
    pub first_kept_entry_id: Cow<'a, str>,
    pub tokens_before: u64,
    pub estimated_tokens_after: u64,
    /// The tokens of the requests for the summary. At level `pi-delta` only.
    #[schemars(extend("x-levels" = ["pi-delta"]))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// The files involved, or details from an extension that wrote the summary.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub details: Option<Cow<'a, Value>>,
}

impl<'a> CompactionResult<'a> {
    pub fn new(result: &'a Compacted, level: Level) -> CompactionResult<'a> {
        let spent = result.usage.as_ref().filter(|_| level == Level::PiDelta);
        CompactionResult {
            summary: Cow::Borrowed(&result.summary),
            first_kept_entry_id: Cow::Borrowed(&result.first_kept_entry_id),
            tokens_before: result.tokens_before,
            estimated_tokens_after: result.estimated_tokens_after,
            usage: spent.map(|spent| usage(spent, level)),
            details: result.details.as_ref().map(Cow::Borrowed),
        }
    }
}

/// xcsh has other ways to compact a conversation; this is ours.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CompactionAction {
    ContextFull,
}

/// What is summarised.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum SummarySource {
    Compaction,
    BranchSummary,
}

fn is_named_auto(reason: Reason, level: Level) -> bool {
    level == Level::Xcsh && reason != Reason::Manual
}

pub(crate) fn start(reason: Reason, level: Level) -> Record<'static> {
    if is_named_auto(reason, level) {
        Record::AutoCompactionStart { reason, action: CompactionAction::ContextFull }
    } else {
        Record::CompactionStart { reason }
    }
}

pub(crate) fn end<'a>(
    level: Level,
    reason: Reason,
    result: Option<&'a Compacted>,
    aborted: bool,
    will_retry: bool,
    error_message: &'a Option<String>,
) -> Record<'a> {
    let result = result.map(|result| CompactionResult::new(result, level));
    let error_message = text(error_message);
    if is_named_auto(reason, level) {
        let action = CompactionAction::ContextFull;
        return Record::AutoCompactionEnd { action, result, aborted, will_retry, error_message };
    }
    // pi's documentation has `null` here.
    let is_absent = result.is_none() && level == Level::PiDelta;
    let result = (!is_absent).then_some(result);
    Record::CompactionEnd { reason, result, aborted, will_retry, error_message }
}

pub(crate) fn summarization(reason: Option<Reason>, progress: &Progress) -> Record<'_> {
    match progress {
        Progress::RetryScheduled { attempt, max_attempts, delay_ms, error } => {
            Record::SummarizationRetryScheduled {
                attempt: *attempt,
                max_attempts: *max_attempts,
                delay_ms: *delay_ms,
                error_message: Cow::Borrowed(error),
            }
        }
        Progress::RetryBegins => {
            let source = match reason {
                Some(_) => SummarySource::Compaction,
                None => SummarySource::BranchSummary,
            };
            Record::SummarizationRetryAttemptStart { source, reason }
        }
        Progress::RetriesOver => Record::SummarizationRetryFinished,
    }
}
