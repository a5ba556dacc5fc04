//! What waits for the run under way to close: answers, other sessions, compactions, prompts.

use tiller_agent::message::Message;

use super::asker::Asker;
use super::change::Change;
use super::state::State;
use super::wire::{Label, Level, Reply};

/// What is to be done when the run under way has closed.
pub(crate) enum AfterRun {
    /// `abort` is answered.
    Answer(Label),
    Change {
        asker: Asker,
        change: Change,
    },
    /// `compact` goes on.
    Compact {
        asker: Asker,
        level: Level,
        focus: Option<String>,
    },
    /// `abort_and_prompt` goes on.
    Prompt {
        label: Label,
        message: Box<Message>,
    },
}

impl State {
    pub(super) fn after_run_is_empty(&self) -> bool {
        self.after_run.is_empty()
    }

    /// Does something as soon as nothing runs: now, or after the run was aborted and has closed.
    pub(crate) fn after_run(&mut self, after: AfterRun) {
        self.after_run.push_back(after);
        if self.is_occupied() { self.abort() } else { self.do_after_run() }
    }

    /// Something that others may have waited for is over. Whatever ends by itself ends here.
    pub(super) fn go_on_if_quiet(&mut self) {
        self.release_waiters();
        if !self.is_occupied() {
            self.reload_if_due();
            self.do_after_run();
        }
    }

    /// What would change the session waits until extensions are at home in the one there is.
    fn may_go_on(&self) -> bool {
        let is_answer = matches!(self.after_run.front(), Some(AfterRun::Answer(_)));
        !self.opening
            && !self.compactions.is_under_way()
            && (is_answer || !self.visitors.is_moving())
    }

    pub(super) fn do_after_run(&mut self) {
        while self.may_go_on()
            && let Some(after) = self.after_run.pop_front()
        {
            match after {
                AfterRun::Answer(label) => self.settle_answer(label, Ok(Reply::DONE)),
                AfterRun::Change { asker, change } => self.change(asker, change),
                AfterRun::Compact { asker, level, focus } => {
                    self.compact(asker, level, focus);
                    if !self.after_run.is_empty() {
                        // An `abort` that came after it means this, too.
                        self.compactions.cancel();
                    }
                }
                AfterRun::Prompt { label, message } => {
                    self.settle_answer(label, Ok(Reply::DONE));
                    let messages = self.opening(vec![*message]);
                    self.start_run(messages);
                    if !self.after_run.is_empty() {
                        // An `abort` that came after it means this run too.
                        self.abort();
                    }
                    return;
                }
            }
        }
    }
}
