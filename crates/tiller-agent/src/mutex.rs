//! Locks a mutex, also after a panic of the task that held it: a panic is reported where the task
//! is joined, and the other tasks go on.

use std::sync::{Mutex, MutexGuard, PoisonError};

pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
