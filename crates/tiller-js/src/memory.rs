//! Memory an engine uses outside its own heap: input of pending operations, results queued for it,
//! bytes queued for a socket or a child. It counts against the engine's limit.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::operations::OpError;

pub(crate) struct Memory {
    /// The engine's limit, including its own heap.
    limit: usize,
    held: AtomicUsize,
}

/// Reserved bytes, released on drop.
pub(crate) struct MemoryHold {
    memory: Arc<Memory>,
    bytes: usize,
}

/// JSON up to this length is not checked: it cannot become large.
const SMALL_JSON_BYTES: usize = 1 << 20;
/// Estimated memory of one parsed JSON value.
const VALUE_BYTES: usize = 64;

impl Memory {
    pub(crate) fn new(limit: usize) -> Arc<Memory> {
        Arc::new(Memory { limit, held: AtomicUsize::new(0) })
    }

    /// Reserves memory. Fails if this would use more than half of the limit.
    pub(crate) fn hold(self: &Arc<Memory>, bytes: usize) -> Result<MemoryHold, OpError> {
        let mut hold = MemoryHold { memory: self.clone(), bytes: 0 };
        hold.grow(bytes)?;
        Ok(hold)
    }

    /// Reserves memory that is already in use and cannot be refused.
    pub(crate) fn note(self: &Arc<Memory>, bytes: usize) -> MemoryHold {
        self.held.fetch_add(bytes, Ordering::Relaxed);
        MemoryHold { memory: self.clone(), bytes }
    }

    /// What remains for the engine's own heap.
    pub(crate) fn left(&self) -> usize {
        self.limit.saturating_sub(self.held.load(Ordering::Relaxed))
    }

    /// Whether nothing more should be read for the engine.
    pub(crate) fn is_full(&self) -> bool {
        self.left() < self.limit / 2
    }

    /// Whether a text can be parsed as JSON. Many small values take far more memory than their
    /// text.
    pub(crate) fn check_json(&self, json: &str) -> Result<(), OpError> {
        if json.len() <= SMALL_JSON_BYTES {
            return Ok(());
        }
        let is_value = |byte: &&u8| matches!(byte, b',' | b':' | b'[' | b'{');
        let values = json.as_bytes().iter().filter(is_value).count();
        if values.saturating_mul(VALUE_BYTES) > self.limit { Err(out_of_memory()) } else { Ok(()) }
    }
}

impl MemoryHold {
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), OpError> {
        let most = self.memory.limit / 2;
        let grown = |held: usize| held.checked_add(bytes).filter(|held| *held <= most);
        match self.memory.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown) {
            Ok(_) => {
                self.bytes += bytes;
                Ok(())
            }
            Err(_) => Err(out_of_memory()),
        }
    }
}

impl MemoryHold {
    pub(crate) fn shrink(&mut self, bytes: usize) {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        self.memory.held.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Drop for MemoryHold {
    fn drop(&mut self) {
        self.memory.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// The engine's own error text.
pub(crate) fn out_of_memory() -> OpError {
    OpError::coded("ERR_OUT_OF_MEMORY", "out of memory")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropped_hold_releases_memory() {
        let memory = Memory::new(100);
        let first = memory.hold(30).unwrap();
        assert!(memory.hold(30).is_err());
        assert_eq!((memory.left(), memory.is_full()), (70, false));
        let late = memory.note(50);
        assert!(memory.is_full());
        drop((first, late));
        assert_eq!(memory.left(), 100);
    }

    #[test]
    fn json_of_many_small_values_is_refused() {
        let memory = Memory::new(64 << 20);
        let text = format!("\"{}\"", "x".repeat(8 << 20));
        assert!(memory.check_json(&text).is_ok());
        let many = format!("[{}0]", "[],".repeat(2 << 20));
        assert!(memory.check_json(&many).is_err());
    }
}
