//! Actions that wait until the run has closed: responses, session changes, compactions, prompts.

use tiller_agent::message::Message;

use super::requester::Requester;
use super::session_change::SessionChange;
use super::state::SessionState;
use super::wire::{Label, Level, Reply};

/// An action for when the run has closed.
pub(crate) enum Deferred {
    /// Respond to `abort`.
    Answer(Label),
    Change {
        requester: Requester,
        change: SessionChange,
    },
    /// Continue `compact`.
    Compact {
        requester: Requester,
        level: Level,
        focus: Option<String>,
    },
    /// Continue `abort_and_prompt`.
    Prompt {
        label: Label,
        message: Box<Message>,
    },
}

impl SessionState {
    pub(super) fn nothing_deferred(&self) -> bool {
        self.deferred.is_empty()
    }

    /// Runs an action as soon as nothing runs: now, or after the run was aborted and has closed.
    pub(crate) fn defer(&mut self, after: Deferred) {
        self.deferred.push_back(after);
        if self.is_occupied() { self.abort() } else { self.run_deferred() }
    }

    /// Continues after work that may have blocked others. Everything that ends on its own calls
    /// this.
    pub(super) fn run_deferred_if_idle(&mut self) {
        self.release_waiters();
        if !self.is_occupied() {
            self.reload_if_due();
            self.run_deferred();
        }
    }

    /// A session change waits until extensions are loaded; a response does not.
    fn can_run_deferred(&self) -> bool {
        let is_answer = matches!(self.deferred.front(), Some(Deferred::Answer(_)));
        !self.is_changing_session
            && !self.compactions.is_under_way()
            && (is_answer || !self.extensions.is_loading())
    }

    pub(super) fn run_deferred(&mut self) {
        while self.can_run_deferred()
            && let Some(after) = self.deferred.pop_front()
        {
            match after {
                Deferred::Answer(label) => self.respond(label, Ok(Reply::DONE)),
                Deferred::Change { requester, change } => self.change(requester, change),
                Deferred::Compact { requester, level, focus } => {
                    self.compact(requester, level, focus);
                    if !self.deferred.is_empty() {
                        // An `abort` that came later applies to this compaction, too.
                        self.compactions.cancel();
                    }
                }
                Deferred::Prompt { label, message } => {
                    self.respond(label, Ok(Reply::DONE));
                    self.start_with_prelude(vec![*message]);
                    if !self.deferred.is_empty() {
                        // An `abort` that came later applies to this run, too.
                        self.abort();
                    }
                    return;
                }
            }
        }
    }
}
