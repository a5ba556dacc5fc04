//! The hooks and events of a compaction.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};
use tiller_agent::compaction::Reason;
use tiller_agent::compaction::cut::Plan;
use tiller_agent::compaction::summary::SummaryError;
use tiller_agent::message::{Message, Usage};
use tiller_js::Extensions;
use tiller_js::event::{CompactReason, Event as ExtensionEvent};
use tiller_js::hook::SessionBeforeCompact;
use tiller_session::Compaction;
use tokio_util::sync::CancellationToken;

use super::{SessionState, hooks};

/// A compaction that is about to start.
pub(crate) struct CompactionPreparation<'a> {
    pub(crate) reason: Reason,
    pub(crate) plan: &'a Plan,
    pub(crate) first_kept: &'a str,
    pub(crate) tokens_before: u64,
    pub(crate) focus: Option<&'a str>,
    pub(crate) will_retry: bool,
}

/// A call of the `session_before_compact` hook.
pub(crate) struct BeforeCompactHook {
    host: Extensions,
    hook: SessionBeforeCompact,
}

/// A compaction that an extension provides.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ExtensionCompaction {
    summary: String,
    #[serde(default)]
    first_kept_entry_id: Option<String>,
    #[serde(default)]
    tokens_before: Option<u64>,
    #[serde(default)]
    details: Option<Value>,
    #[serde(default)]
    usage: Option<Usage>,
}

impl ExtensionCompaction {
    /// Fields that the extension leaves out are as prepared.
    pub(crate) fn compaction(self, first_kept: String, tokens_before: u64) -> Compaction {
        Compaction {
            summary: self.summary,
            first_kept_entry_id: Some(self.first_kept_entry_id.unwrap_or(first_kept)),
            tokens_before: self.tokens_before.unwrap_or(tokens_before),
            details: self.details,
            usage: self.usage,
            from_hook: true,
        }
    }
}

impl BeforeCompactHook {
    /// Nothing if the model is to write the summary.
    pub(crate) async fn ask(
        self,
        cancel: &CancellationToken,
    ) -> Result<Option<ExtensionCompaction>, SummaryError> {
        let decided = hooks::ask(&self.host, self.hook, cancel).await.unwrap_or_default();
        match decided.compaction {
            _ if decided.cancel || cancel.is_cancelled() => Err(SummaryError::Cancelled),
            None => Ok(None),
            Some(compaction) => serde_json::from_value(compaction).map(Some).map_err(|err| {
                SummaryError::Failed(format!("an extension returned an invalid compaction: {err}"))
            }),
        }
    }
}

/// Nothing if no extension listens.
pub(crate) fn before_compact(
    state: &SessionState,
    preparation: CompactionPreparation<'_>,
) -> Option<BeforeCompactHook> {
    let host = state.extensions.listening_host("session_before_compact")?.clone();
    let CompactionPreparation { reason, plan, first_kept, tokens_before, focus, will_retry } =
        preparation;
    let settings = state.work.compactions().settings();
    let limits = state.models.current().map(|model| settings.limits(model));
    let values = |messages: &[Arc<Message>]| -> Value {
        messages.iter().map(|message| json!(**message)).collect()
    };
    let mut preparation = json!({
        "firstKeptEntryId": first_kept,
        "messagesToSummarize": values(&plan.history),
        "turnPrefixMessages": values(&plan.turn_start),
        "isSplitTurn": !plan.turn_start.is_empty(),
        "tokensBefore": tokens_before,
        "fileOps": file_operations(plan.history.iter().chain(&plan.turn_start)),
        "settings": {
            "enabled": settings.enabled,
            "reserveTokens": limits.map(|limits| limits.reserve),
            "keepRecentTokens": limits.map(|limits| limits.keep),
        },
    });
    if let Some(summary) = plan.earlier_summary() {
        preparation["previousSummary"] = json!(summary);
    }
    let hook = SessionBeforeCompact {
        preparation,
        branch_entries: branch_entries(state),
        custom_instructions: focus.map(str::to_owned),
        reason: compact_reason(reason),
        will_retry,
    };
    Some(BeforeCompactHook { host, hook })
}

/// The entries from the root to the leaf. Unreadable ones are left out.
fn branch_entries(state: &SessionState) -> Value {
    let mut text = Vec::new();
    let written = state.session.conversation().session().write_branch(None, &mut text);
    let entries = written.ok().and_then(|()| serde_json::from_slice(&text).ok());
    entries.unwrap_or_else(|| json!([]))
}

pub(crate) fn emit_compacted(
    state: &SessionState,
    entry: &str,
    from_extension: bool,
    reason: Reason,
    will_retry: bool,
) {
    let Some(host) = state.extensions.host() else { return };
    if host.has_listener("session_compact") {
        let compaction_entry = entry_value(state, entry);
        let reason = compact_reason(reason);
        host.emit(&ExtensionEvent::SessionCompact {
            compaction_entry,
            from_extension,
            reason,
            will_retry,
        });
    }
}

pub(crate) fn emit_not_compacted(
    state: &SessionState,
    reason: Reason,
    error_message: Option<String>,
    from_extension: bool,
) {
    if let Some(host) = state.extensions.host() {
        host.emit(&ExtensionEvent::SessionCompactFailed {
            reason: compact_reason(reason),
            aborted: error_message.is_none(),
            error_message,
            will_retry: false,
            from_extension,
        });
    }
}

/// An entry as it is stored.
pub(crate) fn entry_value(state: &SessionState, id: &str) -> Value {
    let text = state.session.conversation().session().raw(id).ok().flatten();
    text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
}

fn compact_reason(reason: Reason) -> CompactReason {
    match reason {
        Reason::Manual => CompactReason::Manual,
        Reason::Threshold => CompactReason::Threshold,
        Reason::Overflow => CompactReason::Overflow,
    }
}

/// The files that the built-in tools were called with, by operation.
fn file_operations<'a>(messages: impl Iterator<Item = &'a Arc<Message>>) -> Value {
    let [mut read, mut written, mut edited] = [(); 3].map(|()| BTreeSet::new());
    let answers = messages.filter_map(|message| message.as_assistant());
    for call in answers.flat_map(|answer| answer.tool_calls()) {
        let files = match call.name.as_str() {
            "read" => &mut read,
            "write" => &mut written,
            "edit" => &mut edited,
            _ => continue,
        };
        files.extend(call.arguments.get("path").and_then(Value::as_str).map(str::to_owned));
    }
    json!({ "read": read, "written": written, "edited": edited })
}
