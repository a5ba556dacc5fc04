//! Trying again. A run that failed because a provider was overloaded, or a connection broke, is
//! repeated after a pause; the failed answer stays in the file and is hidden from the model.

use tiller_agent::driver::End;
use tiller_agent::event::Event;
use tiller_agent::message::Message;
use tiller_agent::provider::ProviderError;

use super::server::Input;
use super::state::SessionState;
use super::tasks::Pause;
use crate::settings::RetrySettings;

pub(crate) struct Retries {
    pub(crate) settings: RetrySettings,
    /// Tries since the last answer that went well.
    attempt: u32,
    /// The pause before the next one.
    pause: Option<Pause>,
}

impl Retries {
    pub(crate) fn new(settings: RetrySettings) -> Retries {
        Retries { settings, attempt: 0, pause: None }
    }

    pub(crate) fn is_waiting(&self) -> bool {
        self.pause.is_some()
    }

    /// Whether a run that ended like this is tried again.
    pub(crate) fn will_retry(&self, end: &End) -> bool {
        matches!(end, End::Failed(error) if self.settings.policy().allows(error, self.attempt))
    }
}

impl SessionState {
    /// Begins the pause before the next try.
    pub(super) fn retry_later(&mut self, error: &ProviderError) {
        self.retries.attempt += 1;
        let delay = self.retries.settings.policy().delay(self.retries.attempt, error);
        self.emit(Event::AutoRetryStart {
            attempt: self.retries.attempt,
            max_attempts: self.retries.settings.max_retries,
            delay_ms: delay.as_millis() as u64,
            error_message: error.to_string(),
        });
        self.hide_last_answer();
        self.retries.pause = Some(self.tasks.after(delay, Input::RetryPauseOver));
    }

    /// The pause is over.
    pub(super) fn retry_now(&mut self) {
        // It may have been cancelled while its end was on the way.
        if self.retries.pause.take().is_some() {
            self.start_run(Vec::new());
        }
    }

    /// No further try. The run settles where it stands.
    pub(crate) fn give_up_retrying(&mut self) {
        if self.retries.pause.take().is_none() {
            return;
        }
        self.end_retrying(false, Some("Retry cancelled".to_owned()));
        // Settles after this input, so that the command that cancelled is answered first.
        self.tasks.send_soon(Input::RetryCancelled);
        self.is_settling = true;
    }

    /// What an answer that went well, or a failure for good, means for the trying.
    pub(super) fn end_retrying(&mut self, success: bool, final_error: Option<String>) {
        let attempt = std::mem::take(&mut self.retries.attempt);
        if attempt > 0 {
            self.emit(Event::AutoRetryEnd { success, attempt, final_error });
        }
    }

    /// Whether the event is the answer that all the trying was for.
    pub(super) fn is_success_after_retry(&self, event: &Event) -> bool {
        let Event::MessageEnd { message } = event else { return false };
        let went_well = matches!(&**message, Message::Assistant(answer) if !answer.failed());
        went_well && self.retries.attempt > 0
    }

    /// Hides the answer that another one is to replace, and what was said about its calls, from
    /// the model for good.
    pub(super) fn hide_last_answer(&mut self) {
        let now = self.clock.now();
        match self.conversation.hide_last_answer(now) {
            Ok(entries) => {
                for entry in entries {
                    self.emit(Event::EntryAppended { entry });
                }
            }
            Err(err) => self.emit(Event::SessionError { error: err.to_string() }),
        }
    }
}
