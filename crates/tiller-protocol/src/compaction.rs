//! Compactions at each level. xcsh has events for automatic ones only, under other names.

use serde::{Serialize, Serializer};
use serde_json::Value;
use tiller_agent::compaction::summary::Progress;
use tiller_agent::compaction::{Compacted, Reason};

use crate::Level;
use crate::message::{ShapedUsage, usage};

/// The result of a compaction for a client of the given level.
pub struct ShapedCompaction<'a> {
    pub result: &'a Compacted,
    pub level: Level,
}

impl Serialize for ShapedCompaction<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Shape<'a> {
            summary: &'a str,
            first_kept_entry_id: &'a str,
            tokens_before: u64,
            estimated_tokens_after: u64,
            #[serde(skip_serializing_if = "Option::is_none")]
            usage: Option<ShapedUsage<'a>>,
            #[serde(skip_serializing_if = "Option::is_none")]
            details: Option<&'a Value>,
        }
        let newer = self.level == Level::PiDelta;
        let spent = self.result.usage.as_ref().filter(|_| newer);
        let shape = Shape {
            summary: &self.result.summary,
            first_kept_entry_id: &self.result.first_kept_entry_id,
            tokens_before: self.result.tokens_before,
            estimated_tokens_after: self.result.estimated_tokens_after,
            usage: spent.map(|spent| usage(spent, self.level)),
            details: self.result.details.as_ref(),
        };
        shape.serialize(serializer)
    }
}

/// xcsh has other ways to compact a conversation; this is ours.
const ACTION: &str = "context-full";

#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum Start {
    Pi {
        #[serde(rename = "type")]
        kind: &'static str,
        reason: Reason,
    },
    Xcsh {
        #[serde(rename = "type")]
        kind: &'static str,
        reason: Reason,
        action: &'static str,
    },
}

impl Start {
    pub(crate) fn of(reason: Reason, level: Level) -> Start {
        if is_named_auto(reason, level) {
            Start::Xcsh { kind: "auto_compaction_start", reason, action: ACTION }
        } else {
            Start::Pi { kind: "compaction_start", reason }
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct End<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(flatten)]
    what: What<'a>,
    aborted: bool,
    will_retry: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_message: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum What<'a> {
    /// Without a result it is `null`, as in pi's documentation.
    Pi { reason: Reason, result: Option<ShapedCompaction<'a>> },
    /// Without a result there is no field.
    PiDelta {
        reason: Reason,
        #[serde(skip_serializing_if = "Option::is_none")]
        result: Option<ShapedCompaction<'a>>,
    },
    Xcsh {
        action: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        result: Option<ShapedCompaction<'a>>,
    },
}

impl<'a> End<'a> {
    pub(crate) fn of(
        level: Level,
        reason: Reason,
        result: Option<&'a Compacted>,
        aborted: bool,
        will_retry: bool,
        error_message: Option<&'a str>,
    ) -> End<'a> {
        let result = result.map(|result| ShapedCompaction { result, level });
        let (kind, what) = if is_named_auto(reason, level) {
            ("auto_compaction_end", What::Xcsh { action: ACTION, result })
        } else if level == Level::PiDelta {
            ("compaction_end", What::PiDelta { reason, result })
        } else {
            ("compaction_end", What::Pi { reason, result })
        };
        End { kind, what, aborted, will_retry, error_message }
    }
}

fn is_named_auto(reason: Reason, level: Level) -> bool {
    level == Level::Xcsh && reason != Reason::Manual
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all_fields = "camelCase")]
pub(crate) enum Summarization<'a> {
    #[serde(rename = "summarization_retry_scheduled")]
    Scheduled { attempt: u32, max_attempts: u32, delay_ms: u64, error_message: &'a str },
    #[serde(rename = "summarization_retry_attempt_start")]
    AttemptStart {
        source: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<Reason>,
    },
    #[serde(rename = "summarization_retry_finished")]
    Finished,
}

impl<'a> Summarization<'a> {
    pub(crate) fn of(reason: Option<Reason>, progress: &'a Progress) -> Summarization<'a> {
        match progress {
            Progress::RetryScheduled { attempt, max_attempts, delay_ms, error } => {
                Summarization::Scheduled {
                    attempt: *attempt,
                    max_attempts: *max_attempts,
                    delay_ms: *delay_ms,
                    error_message: error,
                }
            }
            Progress::RetryBegins => {
                let source = if reason.is_some() { "compaction" } else { "branchSummary" };
                Summarization::AttemptStart { source, reason }
            }
            Progress::RetriesOver => Summarization::Finished,
        }
    }
}
