//! Automatic retries. A run that failed because of an overloaded provider or a broken connection is
//! repeated after a pause; the failed answer stays in the file and is hidden from the model.

use tiller_agent::driver::{End, NotStored};
use tiller_agent::event::Event;
use tiller_agent::message::Message;
use tiller_config::settings::RetrySettings;

use super::{Phase, run};
use crate::server::Input;
use crate::state::SessionState;

pub(super) struct Retries {
    pub(super) settings: RetrySettings,
    /// Retries since the last successful answer.
    attempt: u32,
}

impl Retries {
    pub(super) fn new(settings: RetrySettings) -> Retries {
        Retries { settings, attempt: 0 }
    }

    /// Whether a run that ended like this is retried.
    pub(super) fn allow(&self, end: &End) -> bool {
        matches!(end, End::Failed(error) if self.settings.policy().allows(error, self.attempt))
    }

    /// Whether the event is the first successful answer after retries.
    pub(super) fn has_recovered(&self, event: &Event) -> bool {
        let Event::MessageEnd { message } = event else { return false };
        let succeeded = matches!(&**message, Message::Assistant(answer) if !answer.failed());
        succeeded && self.attempt > 0
    }
}

/// Starts the pause before the next retry.
pub(super) fn retry_later(state: &mut SessionState, end: &End) {
    let End::Failed(error) = end else { return };
    let retries = &mut state.work.retries;
    retries.attempt += 1;
    let delay = retries.settings.policy().delay(retries.attempt, error);
    let event = Event::AutoRetryStart {
        attempt: retries.attempt,
        max_attempts: retries.settings.max_retries,
        delay_ms: delay.as_millis() as u64,
        error_message: error.to_string(),
    };
    state.emit(event);
    hide_last_answer(state);
    let _pause = state.tasks.after(delay, Input::RetryPauseOver);
    state.work.enter(Phase::RetryPause { _pause });
}

/// The pause is over.
pub(crate) fn retry_now(state: &mut SessionState) {
    // The pause may have been cancelled after its input was sent.
    if state.work.take_retry_pause() {
        run::start_run(state, Vec::new());
    }
}

/// Cancels the retry. The run settles.
pub(crate) fn cancel_retry(state: &mut SessionState) {
    if state.work.take_retry_pause() {
        end_retries(state, false, Some(CANCELLED.to_owned()));
        settle_soon(state);
    }
}

/// Settles after this input, so that the command that cancelled a pause is answered first.
pub(super) fn settle_soon(state: &mut SessionState) {
    state.tasks.send_soon(Input::PauseCancelled);
    state.work.enter(Phase::PauseCancelled);
}

/// Ends the retries, after a successful answer or for good.
pub(super) fn end_retries(state: &mut SessionState, success: bool, final_error: Option<String>) {
    let attempt = std::mem::take(&mut state.work.retries.attempt);
    if attempt > 0 {
        state.emit(Event::AutoRetryEnd { success, attempt, final_error });
    }
}

/// Ends the retries after a run that is not retried.
pub(super) fn end_retries_after(state: &mut SessionState, end: &End) {
    let error = match end {
        End::Complete => return,
        End::Failed(error) => error.to_string(),
        End::NotStored(NotStored(error)) => error.clone(),
        End::Aborted | End::Interrupted | End::Limit(_) => CANCELLED.to_owned(),
    };
    end_retries(state, false, Some(error));
}

pub(super) const CANCELLED: &str = "Retry cancelled";

/// Hides the last answer and the results of its calls from the model for good.
pub(super) fn hide_last_answer(state: &mut SessionState) {
    let now = state.clock.now();
    match state.session.conversation_mut().hide_last_answer(now) {
        Ok(entries) => {
            for entry in entries {
                state.emit(Event::EntryAppended { entry });
            }
        }
        Err(err) => state.emit(Event::SessionError { error: err.to_string() }),
    }
}
