//! The hooks at the end of a turn or a run: extensions may append entries and have the model asked
//! again.

use std::collections::HashMap;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};
use tiller_agent::driver::End;
use tiller_agent::message::{Content, CustomMessage, Message, Usage};
use tiller_js::hook::{AgentBeforeSettle, Boundary, RunOutcome};
use tiller_js::world::ExtensionError;
use tiller_session::{Body, Compaction, Error, Session};
use tokio_util::sync::CancellationToken;

use super::{ExtensionInput, SessionState, hooks};
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

pub(crate) fn outcome(end: Option<&End>) -> RunOutcome {
    match end {
        None | Some(End::Complete) => RunOutcome::Completed,
        Some(End::Failed(_) | End::NotStored(_)) => RunOutcome::Error,
        Some(End::Aborted | End::Interrupted) => RunOutcome::Aborted,
    }
}

impl SessionState {
    pub(crate) fn turn_entries(&self) -> TurnEntries {
        // Read errors were reported when the entry was appended.
        let mut entries = self.conversation.session().last_answer().unwrap_or_default().into_iter();
        TurnEntries { message: entries.next(), results: entries.collect() }
    }

    /// Appends the messages that waited for the end of the turn. Returns the conversation, if it
    /// has changed.
    pub(crate) fn turn_over(&mut self) -> Option<Vec<Arc<Message>>> {
        let asides = std::mem::take(&mut self.extensions.messages_after_turn);
        let is_changed =
            std::mem::take(&mut self.extensions.context_is_stale) || !asides.is_empty();
        for message in asides {
            self.append_custom(message);
        }
        is_changed.then(|| self.conversation.messages().unwrap_or_default().to_vec())
    }

    /// Appends what was proposed. Returns whether the model is asked again.
    pub(crate) fn commit(&mut self, event: &'static str, proposal: Boundary) -> bool {
        let Boundary { entries, goes_on, is_invalid } = proposal;
        if is_invalid {
            return false;
        }
        let error = match self.store_drafts(entries) {
            Err(error) => error,
            Ok(()) if goes_on && !self.can_continue() => {
                format!("{event} requested continuation without runnable model context")
            }
            Ok(()) => return goes_on,
        };
        let (extension_path, event) = ("<boundary>".to_owned(), event.to_owned());
        self.report(ExtensionError { extension_path, event, error, at: None, stack: None });
        false
    }

    /// Appends all entries or none.
    fn store_drafts(&mut self, drafts: Vec<Value>) -> Result<(), String> {
        let invalid = |error: String| format!("Invalid boundary entries: {error}");
        let mut bodies = Vec::with_capacity(drafts.len());
        for draft in drafts {
            let draft =
                BoundaryEntry::deserialize(draft).map_err(|err| invalid(err.to_string()))?;
            bodies.push(self.body(draft).map_err(invalid)?);
        }
        for body in bodies {
            let is_seen = !matches!(body, Body::Custom { .. });
            self.append_custom_entry(body)?;
            if is_seen {
                self.conversation.reread().map_err(|err| err.to_string())?;
                self.extensions.context_is_stale = true;
            }
        }
        Ok(())
    }

    fn body(&self, draft: BoundaryEntry) -> Result<Body, String> {
        let session = self.conversation.session();
        let known = |id: &str| match session.contains(id) {
            true => Ok(()),
            false => Err(format!("Entry {id} not found")),
        };
        Ok(match draft {
            BoundaryEntry::Custom { custom_type, data } => Body::Custom { custom_type, data },
            BoundaryEntry::CustomMessage { custom_type, content, display, details } => {
                let timestamp = self.clock.now();
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
                let tokens = self.conversation.tokens().map_err(|err| err.to_string())?;
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
    fn can_continue(&mut self) -> bool {
        let is_waiting = self.queues.len() > 0;
        let messages = self.conversation.messages().unwrap_or_default();
        is_waiting || messages.last().is_some_and(|last| last.as_assistant().is_none())
    }

    /// Runs `agent_before_settle`, which may start another run, and then settles.
    pub(crate) fn run_settle_hook(&mut self) {
        let host = self.extensions.host.clone().filter(|_| !self.is_shutting_down);
        let Some(host) = host.filter(|host| host.has_listener("agent_before_settle")) else {
            return self.settle();
        };
        let outcome = self.extensions.last_outcome;
        let mut cancel = self.extensions.hook_cancel.clone();
        if outcome == RunOutcome::Aborted || !self.nothing_deferred() {
            // A command waits for the end: the hook runs, with only its grace time.
            cancel = CancellationToken::new();
            cancel.cancel();
        }
        self.extensions.start_or_settle_hooks_pending += 1;
        self.tasks.spawn(async move {
            let asked = hooks::ask(&host, AgentBeforeSettle { outcome }, &cancel).await;
            ExtensionInput::SettleHookDone(asked.unwrap_or_default())
        });
    }

    pub(super) fn settle_hook_done(&mut self, proposal: Boundary) {
        self.extensions.start_or_settle_hooks_pending -= 1;
        let goes_on = self.commit("agent_before_settle", proposal);
        self.extensions.context_is_stale = false;
        let is_aborted = self.extensions.last_outcome == RunOutcome::Aborted;
        let may_go_on = !is_aborted && !self.is_shutting_down && self.nothing_deferred();
        if may_go_on && (goes_on || self.queues.len() > 0) {
            return self.start_run(Vec::new());
        }
        self.settle();
    }
}

/// `{entries, messages, thinkingLevel, model}` as the model would see them. A summary stands before
/// the kept entries.
pub(super) fn projection(session: &Session) -> Result<Value, Error> {
    let context = session.context()?.messages;
    let mut branch = Vec::new();
    session.write_branch(None, &mut branch)?;
    let mut branch: Vec<Value> = serde_json::from_slice(&branch).unwrap_or_default();
    let place = |branch: &[Value], id: &str| branch.iter().position(|entry| entry["id"] == id);
    let mut entries = Vec::with_capacity(branch.len());
    if session.is_compacted()
        && let Some(summary) = context.first()
        && let Some(at) = place(&branch, &summary.entry_id)
    {
        let compaction = branch.remove(at);
        let kept = context.get(1).and_then(|kept| place(&branch, &kept.entry_id)).unwrap_or(at);
        branch.drain(..kept.min(at));
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
