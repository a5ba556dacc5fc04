//! `set_auto_retry` and `abort_retry`.

use serde_json::json;
use tiller_config::settings::SettingKey;

use super::{done, settings};
use crate::dispatch::Handled;
use crate::state::SessionState;
use crate::work::retry;

pub(crate) fn set_auto_retry(state: &mut SessionState, enabled: bool) -> Handled {
    settings::set(state, SettingKey::RETRY_ENABLED, json!(enabled))?;
    done()
}

/// The response comes before the run settles, as clients expect.
pub(crate) fn abort_retry(state: &mut SessionState) -> Handled {
    retry::cancel_retry(state);
    done()
}
