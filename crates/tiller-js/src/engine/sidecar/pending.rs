//! The messages a sidecar has been sent and has not finished. It handles one at a time, so the
//! clock runs for the first of them only.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use crate::engine_state::Task;

#[derive(Default)]
pub(super) struct Turns {
    open: VecDeque<Turn>,
    last: u64,
    /// When work on the first message began.
    since: Option<Instant>,
    /// Since when the sidecar waits for a synchronous child process, which does not count.
    paused: Option<Instant>,
    /// When it was last known to be idle.
    free: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Turn {
    number: u64,
    pub task: Task,
    pub limit: Duration,
    /// A label for reports.
    pub what: &'static str,
    pub is_event: bool,
}

impl Turns {
    /// Adds a message. Returns the number that the sidecar reports when it is done.
    pub(super) fn begin(
        &mut self,
        task: Task,
        limit: Duration,
        what: &'static str,
        is_event: bool,
        now: Instant,
    ) -> u64 {
        self.last += 1;
        self.open.push_back(Turn { number: self.last, task, limit, what, is_event });
        self.since.get_or_insert(now);
        self.last
    }

    /// Removes all messages up to this one. Returns how many events were among them.
    pub(super) fn end(&mut self, number: u64, now: Instant) -> usize {
        let mut events = 0;
        while self.open.front().is_some_and(|turn| turn.number <= number) {
            events += usize::from(self.open.pop_front().is_some_and(|turn| turn.is_event));
        }
        self.since = (!self.open.is_empty()).then_some(now);
        self.paused = None;
        self.free = Some(now);
        events
    }

    pub(super) fn pause(&mut self, now: Instant) {
        self.paused = Some(now);
    }

    pub(super) fn resume(&mut self, now: Instant) {
        if let Some(paused) = self.paused.take() {
            self.since = self.since.map(|since| since + (now - paused));
        }
    }

    /// When the first message exceeds its limit.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let turn = self.open.front().filter(|_| self.paused.is_none())?;
        Some(self.since? + turn.limit)
    }

    /// The first message, if it has exceeded its limit.
    pub(super) fn overdue(&self, now: Instant) -> Option<Turn> {
        self.open.front().filter(|_| self.deadline().is_some_and(|due| due <= now)).copied()
    }

    pub(super) fn events(&self) -> usize {
        self.open.iter().filter(|turn| turn.is_event).count()
    }

    /// Since when the sidecar has sent no sign of life, if it has no message to finish.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        self.free.filter(|_| self.open.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(2);

    fn begin(turns: &mut Turns, limit: Duration, at: Instant) -> u64 {
        turns.begin(Task::default(), limit, "test", true, at)
    }

    #[test]
    fn only_the_first_message_is_timed() {
        let start = Instant::now();
        let mut turns = Turns::default();
        let one = begin(&mut turns, LIMIT * 10, start);
        let two = begin(&mut turns, LIMIT, start);
        assert_eq!(turns.deadline(), Some(start + LIMIT * 10));
        assert_eq!(turns.overdue(start + LIMIT * 5), None);
        assert_eq!(turns.end(one, start + LIMIT * 5), 1);
        assert_eq!(turns.deadline(), Some(start + LIMIT * 6));
        assert_eq!(turns.overdue(start + LIMIT * 6).unwrap().number, two);
        assert_eq!(turns.end(two, start + LIMIT * 6), 1);
        assert_eq!(turns.deadline(), None);
        assert_eq!(turns.idle_since(), Some(start + LIMIT * 6));
    }

    #[test]
    fn time_waiting_for_a_child_does_not_count() {
        let start = Instant::now();
        let mut turns = Turns::default();
        begin(&mut turns, LIMIT, start);
        turns.pause(start + LIMIT / 2);
        assert_eq!(turns.overdue(start + LIMIT * 9), None);
        turns.resume(start + LIMIT * 10);
        assert_eq!(turns.deadline(), Some(start + LIMIT * 10 + LIMIT / 2));
    }
}
