//! Decides how often and after which delay a failed request is retried.

use std::time::Duration;

use crate::provider::ProviderError;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    pub enabled: bool,
    pub max_retries: u32,
    /// The first delay; each further one is twice as long.
    pub base_delay_ms: u64,
    /// The longest delay, whatever the provider asks for.
    pub max_delay_ms: u64,
}

impl RetryPolicy {
    /// Whether to retry after `attempt` attempts.
    pub fn allows(&self, error: &ProviderError, attempt: u32) -> bool {
        let may_pass = matches!(error, ProviderError::Retry { .. });
        may_pass && self.enabled && attempt < self.max_retries
    }

    /// The delay before retry number `attempt`, starting at 1: doubled each time, at least as long
    /// as the provider asked for, within the limit.
    pub fn delay(&self, attempt: u32, error: &ProviderError) -> Duration {
        let doublings = attempt.saturating_sub(1).min(32);
        let doubled = self.base_delay_ms.saturating_mul(1 << doublings);
        let asked = match error {
            ProviderError::Retry { after: Some(after), .. } => after.as_millis() as u64,
            _ => 0,
        };
        Duration::from_millis(doubled.max(asked).min(self.max_delay_ms))
    }
}
