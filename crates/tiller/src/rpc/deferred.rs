//! What waits for the run under way to close: answers, other sessions, compactions, prompts.

use tiller_agent::message::Message;

use super::requester::Requester;
use super::session_change::SessionChange;
use super::state::SessionState;
use super::wire::{Label, Level, Reply};

/// What is to be done when the run under way has closed.
pub(crate) enum Deferred {
    /// `abort` is answered.
    Answer(Label),
    Change {
        asker: Requester,
        change: SessionChange,
    },
    /// `compact` goes on.
    Compact {
        asker: Requester,
        level: Level,
        focus: Option<String>,
    },
    /// `abort_and_prompt` goes on.
    Prompt {
        label: Label,
        message: Box<Message>,
    },
}

impl SessionState {
    pub(super) fn nothing_deferred(&self) -> bool {
        self.deferred.is_empty()
    }

    /// Does something as soon as nothing runs: now, or after the run was aborted and has closed.
    pub(crate) fn defer(&mut self, after: Deferred) {
        self.deferred.push_back(after);
        if self.is_occupied() { self.abort() } else { self.run_deferred() }
    }

    /// Something that others may have waited for is over. Whatever ends by itself ends here.
    pub(super) fn run_deferred_if_idle(&mut self) {
        self.release_waiters();
        if !self.is_occupied() {
            self.reload_if_due();
            self.run_deferred();
        }
    }

    /// What would change the session waits until extensions are at home in the one there is.
    fn can_run_deferred(&self) -> bool {
        let is_answer = matches!(self.deferred.front(), Some(Deferred::Answer(_)));
        !self.is_changing_session
            && !self.compactions.is_under_way()
            && (is_answer || !self.extensions.is_moving())
    }

    pub(super) fn run_deferred(&mut self) {
        while self.can_run_deferred()
            && let Some(after) = self.deferred.pop_front()
        {
            match after {
                Deferred::Answer(label) => self.respond(label, Ok(Reply::DONE)),
                Deferred::Change { asker, change } => self.change(asker, change),
                Deferred::Compact { asker, level, focus } => {
                    self.compact(asker, level, focus);
                    if !self.deferred.is_empty() {
                        // An `abort` that came after it means this, too.
                        self.compactions.cancel();
                    }
                }
                Deferred::Prompt { label, message } => {
                    self.respond(label, Ok(Reply::DONE));
                    self.start_with_prelude(vec![*message]);
                    if !self.deferred.is_empty() {
                        // An `abort` that came after it means this run too.
                        self.abort();
                    }
                    return;
                }
            }
        }
    }
}
