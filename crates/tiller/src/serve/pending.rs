//! Connections that have not shown a token yet. There may be few of them: when there are too many,
//! the oldest is closed, so that a new client always gets its turn.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::task::AbortHandle;

/// How many connections may be without a token.
const PENDING_MAX: usize = 256;

#[derive(Clone, Default)]
pub(crate) struct PendingConnections(Arc<Mutex<Pending>>);

#[derive(Default)]
struct Pending {
    last: u64,
    connections: VecDeque<(u64, AbortHandle)>,
}

/// The number of a connection among the pending ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PendingId(u64);

impl PendingConnections {
    pub(crate) fn next_id(&self) -> PendingId {
        let mut pending = self.lock();
        pending.last += 1;
        PendingId(pending.last)
    }

    /// Adds a connection. If there are too many, ends the task of the oldest.
    pub(crate) fn add(&self, id: PendingId, task: AbortHandle) {
        let mut pending = self.lock();
        pending.connections.retain(|(_, task)| !task.is_finished());
        pending.connections.push_back((id.0, task));
        if pending.connections.len() > PENDING_MAX
            && let Some((_, oldest)) = pending.connections.pop_front()
        {
            oldest.abort();
        }
    }

    /// The connection has shown the token.
    pub(crate) fn accept(&self, id: PendingId) {
        self.lock().connections.retain(|(other, _)| *other != id.0);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Pending> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn oldest_connection_is_closed_when_there_are_too_many() {
        let pending = PendingConnections::default();
        let mut tasks = Vec::new();
        for _ in 0..PENDING_MAX + 2 {
            let task = tokio::spawn(std::future::pending::<()>());
            let id = pending.next_id();
            pending.add(id, task.abort_handle());
            if tasks.is_empty() {
                pending.accept(id);
            }
            tasks.push(task);
        }
        // The first one has shown its token, so the second one is the oldest.
        let second = tasks.remove(1);
        assert!(second.await.unwrap_err().is_cancelled());
        assert!(tasks.iter().all(|task| !task.is_finished()));
    }
}
