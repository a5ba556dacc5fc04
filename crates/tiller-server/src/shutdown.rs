//! The deadlines of a shutdown.

use std::time::Duration;

use tokio::time::Instant;

/// How long a shutdown may take.
pub(super) const SHUTDOWN_LIMIT: Duration = Duration::from_secs(2);
/// How much of that is reserved for `session_shutdown`, whatever else is open.
const NOTICE_TIME: Duration = Duration::from_millis(500);
/// How long work of extensions may go on after an extension requested the shutdown. A run is not
/// limited: it settles first.
const COMMAND_GRACE: Duration = Duration::from_secs(5);

/// A shutdown in progress.
pub(super) struct Shutdown {
    pub(super) code: u8,
    /// The process ends by then, whatever is still open.
    deadline: Option<Instant>,
    /// An extension requested it.
    is_by_extension: bool,
    /// What is still open then is given up.
    grace_end: Option<Instant>,
}

impl Shutdown {
    pub(super) fn new(code: u8) -> Shutdown {
        Shutdown { code, deadline: None, is_by_extension: false, grace_end: None }
    }

    /// The earliest deadline counts.
    pub(super) fn set_deadline(&mut self, within: Duration) {
        let deadline = Instant::now() + within;
        self.deadline = Some(self.deadline.map_or(deadline, |earlier| earlier.min(deadline)));
    }

    /// The extension that requested it may itself never end.
    pub(super) fn by_extension(&mut self) {
        self.is_by_extension = true;
    }

    /// How long the rest may take.
    pub(super) fn time_left(&self) -> Duration {
        let left = |deadline: Instant| deadline.saturating_duration_since(Instant::now());
        self.deadline.map_or(SHUTDOWN_LIMIT, left)
    }

    pub(super) fn is_overdue(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// Whether extensions get `session_shutdown` now, however busy they are.
    pub(super) fn is_notifying_extensions(&self) -> bool {
        self.notice_time().is_some_and(|notice| Instant::now() >= notice)
    }

    /// Whether the grace time is over. It starts when nothing runs.
    pub(super) fn grace_is_over(&mut self, is_occupied: bool) -> bool {
        if !self.is_by_extension || self.deadline.is_some() || is_occupied {
            return false;
        }
        let now = Instant::now();
        now >= *self.grace_end.get_or_insert(now + COMMAND_GRACE)
    }

    /// When to check again, if no input arrives before.
    pub(super) fn due(&self) -> Option<Instant> {
        let is_before = |time: &Instant| *time > Instant::now();
        let grace = self.grace_end.filter(|_| self.deadline.is_none());
        let notice = self.notice_time().filter(is_before);
        [grace, notice, self.deadline].into_iter().flatten().min()
    }

    fn notice_time(&self) -> Option<Instant> {
        self.deadline.map(|deadline| deadline - NOTICE_TIME)
    }
}
