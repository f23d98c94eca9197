//! Locks that a panic leaves usable: each value here is whole between two statements.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex whose former holder may have panicked.
pub trait Lock<T> {
    /// Waits for the lock, also after a panic of its holder.
    fn locked(&self) -> MutexGuard<'_, T>;
}

impl<T> Lock<T> for Mutex<T> {
    fn locked(&self) -> MutexGuard<'_, T> {
        self.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
