//! Session changes and extensions: their requests, the hooks before a change, and the restart after
//! it.

use serde_json::Value;
use tiller_agent::message::{Message, UnixMs};
use tiller_js::event::StartReason;
use tiller_js::hook::{ForkPosition, SessionBeforeFork, SessionBeforeSwitch, SwitchReason};
use tiller_session::Body;

use super::prompt_hooks::custom;
use super::{ExtensionInput, SessionState};
use crate::rpc::deferred::Deferred;
use crate::rpc::handlers;
use crate::rpc::requester::{ExtensionReply, Requester};
use crate::rpc::session_change::SessionChange;
use crate::rpc::tree_navigation::Navigation;
use crate::rpc::wire::Level;

impl SessionState {
    /// `ctx.newSession`: a session that starts with these entries.
    pub(super) fn extension_new_session(
        &mut self,
        parent: Option<String>,
        entries: Vec<Value>,
        answer: ExtensionReply,
    ) {
        let now = self.clock.now();
        let setup: Result<Vec<Body>, String> =
            entries.into_iter().map(|entry| planned(entry, now)).collect();
        match setup {
            Ok(setup) => self
                .request_change(Requester::Extension(answer), SessionChange::New { parent, setup }),
            Err(error) => answer.respond(Err(error)),
        }
    }

    /// `ctx.switchSession`.
    pub(super) fn extension_switch_session(&mut self, path: &str, answer: ExtensionReply) {
        let path = self.workspace.cwd.join(path);
        if !path.exists() {
            let error = tiller_session::Error::NotFound(path).to_string();
            return answer.respond(Err(error));
        }
        self.request_change(Requester::Extension(answer), SessionChange::Switch { path });
    }

    /// `ctx.fork`: before a user message, or after any entry.
    pub(super) fn extension_fork(&mut self, entry_id: String, is_at: bool, answer: ExtensionReply) {
        if !self.conversation.session().contains(&entry_id) {
            let error = tiller_session::Error::NotAUserMessage.to_string();
            return answer.respond(Err(error));
        }
        let change = if is_at {
            SessionChange::ForkAt { entry_id }
        } else {
            SessionChange::Fork { entry_id }
        };
        self.request_change(Requester::Extension(answer), change);
    }

    /// `ctx.navigateTree`. For a user message, the target is the entry before it, so that it can be
    /// sent again.
    pub(super) fn extension_navigate(
        &mut self,
        target: String,
        options: Value,
        answer: ExtensionReply,
    ) {
        let wanted = match options {
            Value::Null => Ok(Default::default()),
            options => serde_json::from_value(options),
        };
        match wanted {
            Ok(wanted) => {
                let navigation = Navigation { target, resend: true, options: wanted };
                self.request_change(
                    Requester::Extension(answer),
                    SessionChange::Navigate(navigation),
                );
            }
            Err(err) => answer.respond(Err(err.to_string())),
        }
    }

    /// `ctx.compact`.
    pub(super) fn extension_compact(&mut self, focus: Option<String>, answer: ExtensionReply) {
        match handlers::compaction::can_compact(self) {
            Ok(()) => {
                let requester = Requester::Extension(answer);
                handlers::compaction::compact_for(self, Level::Pi, requester, focus);
            }
            Err(error) => answer.respond(Err(error)),
        }
    }

    /// Runs the hooks before a session change, which may cancel it.
    pub(crate) fn request_change(&mut self, requester: Requester, change: SessionChange) {
        let Some(host) = self.extensions.host.clone() else {
            return self.defer(Deferred::Change { requester, change });
        };
        let has_listener = |name| self.extensions.has_listener(name);
        let (switch, fork) = match &change {
            SessionChange::New { .. } if has_listener("session_before_switch") => {
                let reason = SwitchReason::New;
                (Some(SessionBeforeSwitch { reason, target_session_file: None }), None)
            }
            SessionChange::Switch { path } if has_listener("session_before_switch") => {
                let target_session_file = Some(path.display().to_string());
                let reason = SwitchReason::Resume;
                (Some(SessionBeforeSwitch { reason, target_session_file }), None)
            }
            SessionChange::Fork { entry_id } if has_listener("session_before_fork") => {
                (None, Some(forking(entry_id, ForkPosition::Before)))
            }
            SessionChange::ForkAt { entry_id } if has_listener("session_before_fork") => {
                (None, Some(forking(entry_id, ForkPosition::At)))
            }
            SessionChange::Clone if has_listener("session_before_fork") => {
                let leaf = self.conversation.session().leaf().unwrap_or_default();
                (None, Some(forking(leaf, ForkPosition::At)))
            }
            _ => return self.defer(Deferred::Change { requester, change }),
        };
        self.pending_responses += 1;
        self.extensions.changes_asked += usize::from(requester.command().is_some());
        self.tasks.spawn(async move {
            let decided = match (switch, fork) {
                (Some(hook), _) => host.run_hook(hook).await,
                (None, Some(hook)) => host.run_hook(hook).await,
                (None, None) => Ok(Default::default()),
            };
            let is_cancelled = decided.is_ok_and(|decided| decided.cancel);
            ExtensionInput::ChangeHookDone { requester, change, is_cancelled }
        });
    }

    pub(super) fn change_decided(
        &mut self,
        requester: Requester,
        change: SessionChange,
        is_cancelled: bool,
    ) {
        self.pending_responses -= 1;
        self.extensions.changes_asked -= usize::from(requester.command().is_some());
        match is_cancelled {
            true => self.cancel_switch(requester, Some(&change)),
            false => self.defer(Deferred::Change { requester, change }),
        }
    }

    /// Restarts extensions after a session change. The request for it is answered when all have
    /// handled `session_start`.
    pub(in crate::rpc) fn restart_extensions(
        &mut self,
        reason: StartReason,
        previous: Option<String>,
    ) {
        let Some(host) = self.extensions.host.clone() else { return };
        self.extensions.is_loading = true;
        // These belonged to the session that was left.
        self.extensions.messages_for_next_prompt.clear();
        self.extensions.tool_selection.forget();
        let completion = self.load_completion(reason, previous);
        tokio::spawn(async move {
            let errors = host.start_over().await;
            completion.finish_load(&host, errors).await;
            completion.announce_session_start(&host).await;
        });
    }

    /// All extensions have handled `session_start`: continues what waited for that.
    pub(super) fn extensions_ready(&mut self) {
        self.extensions.is_loading = false;
        for (requester, text) in std::mem::take(&mut self.extensions.waiting_for_ready) {
            self.respond_to_change(requester, Ok(text));
        }
        if let Some(requester) = self.extensions.reload_requester.take() {
            self.answer_reload(requester);
        }
        self.run_deferred_if_idle();
    }
}

fn forking(entry_id: &str, position: ForkPosition) -> SessionBeforeFork {
    SessionBeforeFork { entry_id: entry_id.to_owned(), position }
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
