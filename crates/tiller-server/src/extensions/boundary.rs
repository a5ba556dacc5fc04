//! The hooks at the end of a turn or a run: extensions may append entries and have the model asked
//! again.

use std::collections::HashMap;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};
use tiller_agent::message::{Content, CustomMessage, Message, Usage};
use tiller_js::Extensions;
use tiller_js::hook::{AgentBeforeSettle, Boundary, RunOutcome};
use tiller_session::{Body, Compaction, Error, Session};
use tokio_util::sync::CancellationToken;

use super::{ExtensionTaskDone, SessionState, actions, hooks};
use crate::conversation::Tokens;

/// The entries of the turn that is about to end.
#[derive(Default)]
pub struct TurnEntries {
    pub(crate) message: Option<String>,
    pub(crate) results: Vec<String>,
}

/// An entry that an extension proposes.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
enum BoundaryEntry {
    Custom {
        custom_type: String,
        #[serde(default)]
        data: Option<Value>,
    },
    CustomMessage {
        custom_type: String,
        content: Content,
        #[serde(default)]
        display: bool,
        #[serde(default)]
        details: Option<Value>,
    },
    ContextEdit {
        target_id: String,
        replacement: Option<Replacement>,
    },
    Compaction {
        summary: String,
        first_kept_entry_id: Option<String>,
        #[serde(default)]
        details: Option<Value>,
        #[serde(default)]
        usage: Option<Usage>,
    },
}

#[derive(Deserialize)]
struct Replacement {
    content: Content,
}

pub(crate) fn turn_entries(state: &SessionState) -> TurnEntries {
    // Read errors were reported when the entry was appended.
    let mut entries =
        state.session.conversation().session().last_answer().unwrap_or_default().into_iter();
    TurnEntries { message: entries.next(), results: entries.collect() }
}

/// Appends the messages that waited for the end of the turn. Returns the conversation, if it
/// has changed.
pub(crate) fn turn_over(state: &mut SessionState) -> Option<Vec<Arc<Message>>> {
    let messages = std::mem::take(&mut state.extensions.turn.messages_after_turn);
    let is_changed =
        std::mem::take(&mut state.extensions.turn.context_is_stale) || !messages.is_empty();
    for message in messages {
        actions::append_custom(state, message);
    }
    is_changed.then(|| state.session.conversation_mut().messages().unwrap_or_default().to_vec())
}

/// Appends what was proposed. Returns whether the model is asked again.
pub(crate) fn commit(state: &mut SessionState, event: &'static str, proposal: Boundary) -> bool {
    let Boundary { entries, continues, is_invalid } = proposal;
    if is_invalid {
        return false;
    }
    let error = match store_drafts(state, entries) {
        Err(error) => error,
        Ok(()) if continues && !can_continue(state) => {
            format!("{event} requested continuation without runnable model context")
        }
        Ok(()) => return continues,
    };
    super::report_at(state, "<boundary>", event, error);
    false
}

/// Appends all entries or none.
fn store_drafts(state: &mut SessionState, drafts: Vec<Value>) -> Result<(), String> {
    let invalid = |error: String| format!("Invalid boundary entries: {error}");
    let mut bodies = Vec::with_capacity(drafts.len());
    for draft in drafts {
        let draft = BoundaryEntry::deserialize(draft).map_err(|err| invalid(err.to_string()))?;
        bodies.push(body(state, draft).map_err(invalid)?);
    }
    for body in bodies {
        let is_visible = !matches!(body, Body::Custom { .. });
        actions::append_custom_entry(state, body)?;
        if is_visible {
            state.session.conversation_mut().reread().map_err(|err| err.to_string())?;
            state.extensions.turn.context_is_stale = true;
        }
    }
    Ok(())
}

fn body(state: &SessionState, draft: BoundaryEntry) -> Result<Body, String> {
    let session = state.session.conversation().session();
    let known = |id: &str| {
        if session.contains(id) { Ok(()) } else { Err(format!("Entry {id} not found")) }
    };
    Ok(match draft {
        BoundaryEntry::Custom { custom_type, data } => Body::Custom { custom_type, data },
        BoundaryEntry::CustomMessage { custom_type, content, display, details } => {
            let timestamp = state.clock.now();
            let message = CustomMessage { custom_type, content, display, details, timestamp };
            Body::CustomMessage(message)
        }
        BoundaryEntry::ContextEdit { target_id, replacement } => {
            known(&target_id)?;
            let replacement = replacement.map(|replacement| replacement.content);
            Body::ContextEdit { target_id, replacement }
        }
        BoundaryEntry::Compaction { summary, first_kept_entry_id, details, usage } => {
            if let Some(id) = &first_kept_entry_id {
                known(id)?;
            }
            let tokens = state.session.conversation().tokens().map_err(|err| err.to_string())?;
            let (Tokens::Counted(tokens_before) | Tokens::Estimated(tokens_before)) = tokens;
            Body::Compaction(Compaction {
                summary,
                first_kept_entry_id,
                tokens_before,
                details,
                usage,
                from_hook: true,
            })
        }
    })
}

/// Whether the conversation ends with something the model can answer.
fn can_continue(state: &mut SessionState) -> bool {
    let is_waiting = !state.queues.is_empty();
    let messages = state.session.conversation_mut().messages().unwrap_or_default();
    is_waiting || messages.last().is_some_and(|last| last.as_assistant().is_none())
}

/// A call of the `agent_before_settle` hook.
pub(crate) struct SettleHook {
    host: Extensions,
    outcome: RunOutcome,
    cancel: CancellationToken,
}

impl SettleHook {
    pub(crate) async fn run(self) -> ExtensionTaskDone {
        let SettleHook { host, outcome, cancel } = self;
        let asked = hooks::ask(&host, AgentBeforeSettle { outcome }, &cancel).await;
        ExtensionTaskDone::SettleHookDone(asked.unwrap_or_default())
    }
}

/// Nothing if no extension listens, or if the process ends.
pub(crate) fn settle_hook(state: &SessionState) -> Option<SettleHook> {
    let host = state.extensions.listening_host("agent_before_settle")?.clone();
    if state.work.is_shutting_down() {
        return None;
    }
    let outcome = state.work.outcome();
    let mut cancel = state.extensions.hooks.cancel.clone();
    if outcome == RunOutcome::Aborted || state.work.has_deferred() {
        // A command waits for the end: the hook runs, with only its grace time.
        cancel = CancellationToken::new();
        cancel.cancel();
    }
    Some(SettleHook { host, outcome, cancel })
}

/// Appends what the hook proposed. Returns whether the model is asked again.
pub(crate) fn commit_before_settle(state: &mut SessionState, proposal: Boundary) -> bool {
    let is_continued = commit(state, "agent_before_settle", proposal);
    state.extensions.turn.context_is_stale = false;
    is_continued
}

/// `{entries, messages, thinkingLevel, model}` as the model would see them. A summary stands before
/// the kept entries.
pub(super) fn projection(session: &Session) -> Result<Value, Error> {
    let context = session.context()?.messages;
    let mut branch = Vec::new();
    session.write_branch(None, &mut branch)?;
    let mut branch: Vec<Value> = serde_json::from_slice(&branch).unwrap_or_default();
    let position = |branch: &[Value], id: &str| branch.iter().position(|entry| entry["id"] == id);
    let mut entries = Vec::with_capacity(branch.len());
    if session.is_compacted()
        && let Some(summary) = context.first()
        && let Some(at) = position(&branch, &summary.entry_id)
    {
        let compaction = branch.remove(at);
        let first_kept = context
            .get(1)
            .and_then(|first_kept| position(&branch, &first_kept.entry_id))
            .unwrap_or(at);
        branch.drain(..first_kept.min(at));
        entries.push(json!({ "sourceEntry": compaction, "messages": [*summary.message] }));
    }
    let by_entry: HashMap<&str, &Message> =
        context.iter().map(|read| (read.entry_id.as_str(), &*read.message)).collect();
    let shown = |entry: Value| {
        let messages: Vec<_> =
            entry["id"].as_str().and_then(|id| by_entry.get(id)).into_iter().collect();
        json!({ "messages": messages, "sourceEntry": entry })
    };
    entries.extend(branch.into_iter().map(shown));
    let messages: Vec<_> = context.iter().map(|read| &*read.message).collect();
    let model = session.model()?;
    let model = model.map(|name| json!({ "provider": name.provider, "modelId": name.id }));
    let level = session.thinking_level()?.map(|level| level.name());
    Ok(json!({ "entries": entries, "messages": messages, "thinkingLevel": level, "model": model }))
}
