//! Applies the modes of the settings to the queues and to runs.

use crate::state::SessionState;

pub(super) fn apply(state: &mut SessionState) {
    let settings = state.project.settings();
    state.queues.set_modes(
        settings.steering_mode,
        settings.follow_up_mode,
        settings.interrupt_mode,
    );
    state.work.set_retry_settings(settings.retry);
    state.work.set_compaction_settings(settings.compaction.clone());
}
