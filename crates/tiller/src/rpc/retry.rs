//! Automatic retries. A run that failed because of an overloaded provider or a broken connection is
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
    /// Retries since the last successful answer.
    attempt: u32,
    /// The pause before the next retry.
    pause: Option<Pause>,
}

impl Retries {
    pub(crate) fn new(settings: RetrySettings) -> Retries {
        Retries { settings, attempt: 0, pause: None }
    }

    pub(crate) fn is_waiting(&self) -> bool {
        self.pause.is_some()
    }

    /// Whether a run that ended like this is retried.
    pub(crate) fn will_retry(&self, end: &End) -> bool {
        matches!(end, End::Failed(error) if self.settings.policy().allows(error, self.attempt))
    }
}

impl SessionState {
    /// Starts the pause before the next retry.
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
        // The pause may have been cancelled after its input was sent.
        if self.retries.pause.take().is_some() {
            self.start_run(Vec::new());
        }
    }

    /// Cancels the retry. The run settles.
    pub(crate) fn give_up_retrying(&mut self) {
        if self.retries.pause.take().is_none() {
            return;
        }
        self.end_retrying(false, Some("Retry cancelled".to_owned()));
        // Settles after this input, so that the command that cancelled is answered first.
        self.tasks.send_soon(Input::RetryCancelled);
        self.is_settling = true;
    }

    /// Ends the retries, after a successful answer or for good.
    pub(super) fn end_retrying(&mut self, success: bool, final_error: Option<String>) {
        let attempt = std::mem::take(&mut self.retries.attempt);
        if attempt > 0 {
            self.emit(Event::AutoRetryEnd { success, attempt, final_error });
        }
    }

    /// Whether the event is the first successful answer after retries.
    pub(super) fn is_success_after_retry(&self, event: &Event) -> bool {
        let Event::MessageEnd { message } = event else { return false };
        let went_well = matches!(&**message, Message::Assistant(answer) if !answer.failed());
        went_well && self.retries.attempt > 0
    }

    /// Hides the last answer and the results of its calls from the model for good.
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
