//! Session changes that extensions request, and the hooks before a change.

use std::path::Path;

use serde_json::Value;
use tiller_agent::message::{Message, UnixMs};
use tiller_js::Extensions;
use tiller_js::hook::{ForkPosition, SessionBeforeFork, SessionBeforeSwitch, SwitchReason};
use tiller_protocol::Level;
use tiller_session::Body;

use super::prompt_hooks::custom;
use super::{ExtensionTaskDone, SessionState};
use crate::handlers;
use crate::requester::{ExtensionReply, Requester};
use crate::session_change::{self, SessionChange};
use crate::tree_navigation::Navigation;

/// `ctx.newSession`: a session that starts with these entries.
pub(super) fn extension_new_session(
    state: &mut SessionState,
    parent: Option<String>,
    entries: Vec<Value>,
    answer: ExtensionReply,
) {
    let now = state.clock.now();
    let setup: Result<Vec<Body>, String> =
        entries.into_iter().map(|entry| planned(entry, now)).collect();
    match setup {
        Ok(setup) => {
            let change = SessionChange::New { parent, setup };
            session_change::request(state, Requester::Extension(answer), change);
        }
        Err(error) => answer.respond(Err(error)),
    }
}

/// `ctx.switchSession`.
pub(super) fn extension_switch_session(
    state: &mut SessionState,
    path: &str,
    answer: ExtensionReply,
) {
    match handlers::session::stored_at(state, Path::new(path)) {
        Ok(path) => {
            let change = SessionChange::Switch { path };
            session_change::request(state, Requester::Extension(answer), change);
        }
        Err(error) => answer.respond(Err(error)),
    }
}

/// `ctx.fork`: before a user message, or after any entry.
pub(super) fn extension_fork(
    state: &mut SessionState,
    entry_id: String,
    is_at: bool,
    answer: ExtensionReply,
) {
    if !state.session.conversation().session().contains(&entry_id) {
        let error = tiller_session::Error::NotAUserMessage.to_string();
        return answer.respond(Err(error));
    }
    let change =
        if is_at { SessionChange::ForkAt { entry_id } } else { SessionChange::Fork { entry_id } };
    session_change::request(state, Requester::Extension(answer), change);
}

/// `ctx.navigateTree`. For a user message, the target is the entry before it, so that it can be
/// sent again.
pub(super) fn extension_navigate(
    state: &mut SessionState,
    target: String,
    options: Value,
    answer: ExtensionReply,
) {
    let options = match options {
        Value::Null => Ok(Default::default()),
        options => serde_json::from_value(options),
    };
    match options {
        Ok(options) => {
            let navigation = Navigation { target, resend: true, options };
            let change = SessionChange::Navigate(navigation);
            session_change::request(state, Requester::Extension(answer), change);
        }
        Err(err) => answer.respond(Err(err.to_string())),
    }
}

/// `ctx.compact`.
pub(super) fn extension_compact(
    state: &mut SessionState,
    focus: Option<String>,
    answer: ExtensionReply,
) {
    match handlers::compaction::can_compact(state) {
        Ok(()) => {
            let requester = Requester::Extension(answer);
            handlers::compaction::compact_for(state, Level::Pi, requester, focus);
        }
        Err(error) => answer.respond(Err(error)),
    }
}

/// The hook before a session change, which may cancel it.
pub(crate) struct BeforeChange {
    host: Extensions,
    hook: ChangeHook,
}

enum ChangeHook {
    Switch(SessionBeforeSwitch),
    Fork(SessionBeforeFork),
}

impl BeforeChange {
    pub(crate) async fn run(
        self,
        requester: Requester,
        change: SessionChange,
    ) -> ExtensionTaskDone {
        let decided = match self.hook {
            ChangeHook::Switch(hook) => self.host.run_hook(hook).await,
            ChangeHook::Fork(hook) => self.host.run_hook(hook).await,
        };
        let is_cancelled = decided.is_ok_and(|decided| decided.cancel);
        ExtensionTaskDone::ChangeHookDone { requester, change, is_cancelled }
    }
}

/// Nothing if no extension listens.
pub(crate) fn before_change(state: &SessionState, change: &SessionChange) -> Option<BeforeChange> {
    let hook = match change {
        SessionChange::New { .. } => ChangeHook::Switch(SessionBeforeSwitch {
            reason: SwitchReason::New,
            target_session_file: None,
        }),
        SessionChange::Switch { path } => ChangeHook::Switch(SessionBeforeSwitch {
            reason: SwitchReason::Resume,
            target_session_file: Some(path.display().to_string()),
        }),
        SessionChange::Fork { entry_id } => forking(entry_id, ForkPosition::Before),
        SessionChange::ForkAt { entry_id } => forking(entry_id, ForkPosition::At),
        SessionChange::Clone => {
            let leaf = state.session.conversation().session().leaf().unwrap_or_default();
            forking(leaf, ForkPosition::At)
        }
        SessionChange::Navigate(_) => return None,
    };
    let name = match hook {
        ChangeHook::Switch(_) => "session_before_switch",
        ChangeHook::Fork(_) => "session_before_fork",
    };
    let host = state.extensions.listening_host(name)?.clone();
    Some(BeforeChange { host, hook })
}

fn forking(entry_id: &str, position: ForkPosition) -> ChangeHook {
    ChangeHook::Fork(SessionBeforeFork { entry_id: entry_id.to_owned(), position })
}

/// Parses an entry for a new session.
fn planned(mut entry: Value, now: UnixMs) -> Result<Body, String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    Ok(match entry["type"].as_str() {
        Some("message") => {
            let message: Message =
                serde_json::from_value(entry["message"].take()).map_err(|err| err.to_string())?;
            Body::message(message)
        }
        Some("custom") => Body::Custom {
            custom_type: text(&entry["customType"]),
            data: Some(entry["data"].take()).filter(|data| !data.is_null()),
        },
        Some("custom_message") => {
            let message = custom(entry, now);
            Body::message(message.ok_or("expected {customType, content, display, details?}")?)
        }
        Some("session_info") => Body::SessionInfo { name: text(&entry["name"]) },
        _ => return Err(format!("a session cannot begin with {entry}")),
    })
}
