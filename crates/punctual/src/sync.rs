//! Locks that a panic leaves usable: each value here is whole between two statements.

use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

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

/// Locks a read-write lock whose former holder may have panicked.
pub trait SharedLock<T> {
    /// Waits until no writer holds it, also after a panic of one.
    fn reading(&self) -> RwLockReadGuard<'_, T>;
    /// Waits until no other holds it, also after a panic of one.
    fn writing(&self) -> RwLockWriteGuard<'_, T>;
}

impl<T> SharedLock<T> for RwLock<T> {
    fn reading(&self) -> RwLockReadGuard<'_, T> {
        self.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn writing(&self) -> RwLockWriteGuard<'_, T> {
        self.write().unwrap_or_else(PoisonError::into_inner)
    }
}
