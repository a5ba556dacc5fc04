//! A session in another folder: the extensions of that folder are loaded instead, first those from
//! outside the project that may decide its trust.

use std::sync::Arc;

use tiller_js::event::StartReason;

use super::{ExtensionInput, SessionState};
use crate::extensions::find::Discovery;

/// The `session_start` that extensions get.
pub(super) struct SessionStart {
    pub(super) reason: StartReason,
    pub(super) previous: Option<String>,
}

impl Default for SessionStart {
    fn default() -> SessionStart {
        SessionStart { reason: StartReason::Startup, previous: None }
    }
}

impl SessionState {
    /// The session is in another folder. Extensions are reloaded after discovery there.
    pub(in crate::rpc) fn defer_load(&mut self, reason: StartReason, previous: Option<String>) {
        if self.extensions.env.is_some() {
            self.extensions.is_loading = true;
            self.extensions.pending_session_start = Some(SessionStart { reason, previous });
        }
    }

    /// Discovery has finished. If it failed, the loaded extensions are restarted.
    pub(in crate::rpc) fn load_for_folder(&mut self, discovery: Option<Discovery>) {
        let Some(SessionStart { reason, previous }) = self.extensions.pending_session_start.take()
        else {
            return;
        };
        let is_alone = self.extensions.host.is_none();
        let Some(Discovery { found, problems }) = discovery else {
            return match is_alone {
                true => self.extensions_ready(),
                false => self.restart_extensions(reason, previous),
            };
        };
        self.not_found(problems);
        if is_alone && found.is_empty() {
            return self.extensions_ready();
        }
        let Some(host) = self.extension_host() else { return };
        self.extensions.pending_session_start = Some(SessionStart { reason, previous });
        self.extensions.discovered = found.into_iter().map(Arc::new).collect();
        self.extensions.messages_for_next_prompt.clear();
        self.extensions.tool_selection.forget();
        self.tasks.spawn(async move {
            host.retire().await;
            ExtensionInput::Retired
        });
    }

    /// The extensions of the previous folder are retired.
    pub(super) fn old_extensions_retired(&mut self) {
        let may_decide_trust = self.resources.asks_for_trust();
        if let Some(host) = self.extension_host() {
            self.load_new(host, may_decide_trust);
        }
    }
}
