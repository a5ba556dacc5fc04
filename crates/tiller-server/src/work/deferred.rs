//! Actions that wait until the run has closed: responses, session changes, compactions, prompts.

use tiller_agent::message::Message;
use tiller_protocol::{Label, Level, Reply};

use super::{compaction, run};
use crate::extensions::actions;
use crate::prompt_results::Origin;
use crate::requester::Requester;
use crate::session_change::SessionChange;
use crate::state::SessionState;
use crate::{prompt, transition};

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
        origin: Origin,
        message: Box<Message>,
    },
}

/// Runs an action as soon as nothing runs: now, or after the run was aborted and has closed.
pub(crate) fn defer(state: &mut SessionState, action: Deferred) {
    state.work.defer(action);
    if state.is_occupied() { run::abort(state) } else { run_deferred(state) }
}

/// Continues after work that may have blocked others. Everything that ends on its own calls
/// this.
pub(crate) fn run_deferred_if_idle(state: &mut SessionState) {
    actions::release_waiters(state);
    if !state.is_occupied() {
        transition::reload_if_due(state);
        run_deferred(state);
    }
}

/// A session change waits until extensions are loaded; a response does not.
fn can_run_deferred(state: &SessionState) -> bool {
    let is_answer = matches!(state.work.deferred.front(), Some(Deferred::Answer(_)));
    !state.transition.is_leaving()
        && !state.work.compactions.is_under_way()
        && (is_answer || !state.transition.is_loading_extensions())
}

fn run_deferred(state: &mut SessionState) {
    while can_run_deferred(state)
        && let Some(action) = state.work.deferred.pop_front()
    {
        match action {
            Deferred::Answer(label) => state.respond(label, Ok(Reply::DONE)),
            Deferred::Change { requester, change } => transition::start(state, requester, change),
            Deferred::Compact { requester, level, focus } => {
                compaction::compact(state, requester, level, focus);
                if state.work.has_deferred() {
                    // An `abort` that came later applies to this compaction, too.
                    state.work.compactions.cancel();
                }
            }
            Deferred::Prompt { origin, message } => {
                prompt::start_accepted(state, origin, *message);
                if state.work.has_deferred() {
                    // An `abort` that came later applies to this run, too.
                    run::abort(state);
                }
                return;
            }
        }
    }
}
