//! Limits the memory of all images together.
//!
//! A file of 35 bytes can claim to be an image of four gigabytes, and a model can read many files
//! at once. So every image reserves the memory it needs before it is read or decoded, and waits if
//! too much is reserved already. An image first reserves from [`FILES`] and then, holding that,
//! from [`PIXELS`]; this order rules out a deadlock.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use tiller_agent::mutex;

/// For the encoded bytes of images.
pub(super) static FILES: Budget = Budget::new(56 * 1024 * 1024);
/// For decoded pixels, and for decoding and scaling them.
pub(super) static PIXELS: Budget = Budget::new(192 * 1024 * 1024);

/// A number of bytes that many threads reserve from. Served in order of arrival, so that small
/// images cannot starve a large one.
pub(super) struct Budget {
    max: u64,
    state: Mutex<MemoryState>,
    changed: Condvar,
}

struct MemoryState {
    reserved: u64,
    /// The highest amount that was ever reserved.
    peak: u64,
    /// The ticket number of the next caller.
    next: u64,
    /// The ticket number being served.
    turn: u64,
}

/// A reserved amount, released on drop.
pub(super) struct Reserved<'a> {
    budget: &'a Budget,
    bytes: u64,
}

impl Budget {
    pub(super) const fn new(max: u64) -> Budget {
        let state = MemoryState { reserved: 0, peak: 0, next: 0, turn: 0 };
        Budget { max, state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Blocks until the amount is free. `None` if it is more than the whole budget.
    pub(super) fn reserve(&self, bytes: u64) -> Option<Reserved<'_>> {
        if bytes > self.max {
            return None;
        }
        let mut state = self.state();
        let number = state.next;
        state.next += 1;
        while state.turn != number || state.reserved + bytes > self.max {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.turn += 1;
        state.reserved += bytes;
        state.peak = state.peak.max(state.reserved);
        drop(state);
        self.changed.notify_all();
        Some(Reserved { budget: self, bytes })
    }

    fn state(&self) -> MutexGuard<'_, MemoryState> {
        mutex::lock(&self.state)
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        self.budget.state().reserved -= self.bytes;
        self.budget.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn more_than_the_whole_budget_is_never_reserved() {
        let budget = Budget::new(10);
        assert!(budget.reserve(11).is_none());
        assert!(budget.reserve(u64::MAX).is_none());
        assert!(budget.reserve(10).is_some());
        assert_eq!(budget.state().reserved, 0);
    }

    #[test]
    fn many_threads_never_reserve_more_than_the_budget() {
        let budget = Budget::new(10);
        thread::scope(|scope| {
            for bytes in [10, 1, 7, 4, 10, 3, 9, 2] {
                let budget = &budget;
                scope.spawn(move || {
                    for _ in 0..200 {
                        drop(budget.reserve(bytes));
                    }
                });
            }
        });
        let state = budget.state();
        assert_eq!((state.reserved, state.next), (0, 1600));
        assert!(state.peak <= 10, "{}", state.peak);
    }
}
