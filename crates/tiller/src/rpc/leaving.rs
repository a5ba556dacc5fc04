//! The way out: for whom the server still waits, and for how long.

use std::time::Duration;

use tokio::time::Instant;

/// How long an orderly end may take.
pub(super) const FAREWELL: Duration = Duration::from_secs(2);
/// How much of that is left for extensions to hear of the end, whatever else is still open.
const PARTING: Duration = Duration::from_millis(500);
/// How long what extensions have begun may go on when one of them has asked for the end. A run is
/// not meant by it: that one settles first.
const PATIENCE: Duration = Duration::from_secs(5);

/// The server is on its way out.
pub(super) struct Leaving {
    pub(super) code: u8,
    /// Gone by then, whatever is still open.
    deadline: Option<Instant>,
    /// An extension asked for the end.
    is_wish: bool,
    /// What is still open then is given up.
    patience: Option<Instant>,
}

impl Leaving {
    pub(super) fn new(code: u8) -> Leaving {
        Leaving { code, deadline: None, is_wish: false, patience: None }
    }

    /// The earliest of all deadlines counts.
    pub(super) fn within(&mut self, within: Duration) {
        let deadline = Instant::now() + within;
        self.deadline = Some(self.deadline.map_or(deadline, |earlier| earlier.min(deadline)));
    }

    /// An extension wants it, and may never come to an end itself.
    pub(super) fn wished(&mut self) {
        self.is_wish = true;
    }

    pub(super) fn is_overdue(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// Whether extensions are told of the end now, however busy they are.
    pub(super) fn is_parting(&self) -> bool {
        self.parting().is_some_and(|parting| Instant::now() >= parting)
    }

    /// Whether what is still open has had its time. That begins when nothing runs any more.
    pub(super) fn loses_patience(&mut self, is_occupied: bool) -> bool {
        if !self.is_wish || self.deadline.is_some() || is_occupied {
            return false;
        }
        let now = Instant::now();
        now >= *self.patience.get_or_insert(now + PATIENCE)
    }

    /// When to look again, if nothing happens before.
    pub(super) fn due(&self) -> Option<Instant> {
        let is_before = |time: &Instant| *time > Instant::now();
        let patience = self.patience.filter(|_| self.deadline.is_none());
        let parting = self.parting().filter(is_before);
        [patience, parting, self.deadline].into_iter().flatten().min()
    }

    fn parting(&self) -> Option<Instant> {
        self.deadline.map(|deadline| deadline - PARTING)
    }
}
