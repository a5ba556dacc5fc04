//! Modes that the client sets. They last for the process, over changes of session and folder, and
//! are never written to disk; what the client has not set follows the settings.

use tiller_agent::modes::{InterruptMode, QueueMode};
use tiller_config::settings::{CompactionSettings, RetrySettings, Settings};

use crate::state::SessionState;

/// The modes that the client has set.
#[derive(Default)]
pub(crate) struct ClientModes {
    pub(crate) steering: Option<QueueMode>,
    pub(crate) follow_up: Option<QueueMode>,
    pub(crate) interrupt: Option<InterruptMode>,
    pub(crate) auto_retry: Option<bool>,
    pub(crate) auto_compaction: Option<bool>,
}

impl ClientModes {
    /// Forgets the modes whose settings have changed.
    pub(super) fn forget_changed(&mut self, before: &Settings, after: &Settings) {
        clear_unless(&mut self.steering, before.steering_mode == after.steering_mode);
        clear_unless(&mut self.follow_up, before.follow_up_mode == after.follow_up_mode);
        clear_unless(&mut self.interrupt, before.interrupt_mode == after.interrupt_mode);
        clear_unless(&mut self.auto_retry, before.retry.enabled == after.retry.enabled);
        let is_same = before.compaction.enabled == after.compaction.enabled;
        clear_unless(&mut self.auto_compaction, is_same);
    }
}

fn clear_unless<T>(mode: &mut Option<T>, condition: bool) {
    if !condition {
        *mode = None;
    }
}

/// Sets a mode for the client.
pub(crate) fn set(state: &mut SessionState, set: impl FnOnce(&mut ClientModes)) {
    set(state.project.modes_mut());
    apply(state);
}

/// Applies modes: the client's, else those of the settings.
pub(super) fn apply(state: &mut SessionState) {
    let modes = state.project.modes();
    let settings = state.project.settings();
    state.queues.set_modes(
        modes.steering.unwrap_or(settings.steering_mode),
        modes.follow_up.unwrap_or(settings.follow_up_mode),
        modes.interrupt.unwrap_or(settings.interrupt_mode),
    );
    let enabled = modes.auto_retry.unwrap_or(settings.retry.enabled);
    state.work.set_retry_settings(RetrySettings { enabled, ..settings.retry });
    let enabled = modes.auto_compaction.unwrap_or(settings.compaction.enabled);
    let compaction = CompactionSettings { enabled, ..settings.compaction.clone() };
    state.work.set_compaction_settings(compaction);
}
