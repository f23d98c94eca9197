//! The turns of a lock's waiters in one process: a release wakes the first of them alone.
//!
//! If each waiter tried at each release, `n` waiters would make `2n` calls a handover, and the next
//! release would come after all of them. So each process has a wait queue for each lock, and only
//! its first waiter waits at the engine.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

use super::Lock;
use crate::engine::Namespace;
use crate::sync::Lock as _;
use crate::time::within;

type Acquiring = std::pin::Pin<
    Box<dyn Future<Output = std::result::Result<OwnedSemaphorePermit, AcquireError>> + Send>,
>;

/// Which lock of which engine: a waiter keeps the engine alive, so its address stays its own.
type Key = (usize, Namespace, String);

/// The waiters of one lock.
struct WaitQueue {
    /// One permit, given to waiters in the order in which they came.
    turns: Arc<Semaphore>,
    waiters: usize,
}

/// The wait queues that have waiters.
static WAIT_QUEUES: Mutex<BTreeMap<Key, WaitQueue>> = Mutex::new(BTreeMap::new());

/// A waiter's place in the wait queue of its lock. Dropped, it leaves the queue.
pub(super) struct Turn {
    key: Key,
    /// `None` once the permit is there.
    acquiring: Option<Acquiring>,
    permit: Option<OwnedSemaphorePermit>,
}

impl Turn {
    /// Joins the wait queue at its end; it is the first if nothing waits.
    pub(super) async fn join(lock: &Lock) -> Self {
        let engine = Arc::as_ptr(lock.engine()).cast::<()>() as usize;
        let key = (engine, lock.namespace().clone(), lock.name.clone());
        let turns = {
            let mut all = WAIT_QUEUES.locked();
            let queue = all.entry(key.clone()).or_insert_with(|| WaitQueue {
                turns: Arc::new(Semaphore::new(1)),
                waiters: 0,
            });
            queue.waiters += 1;
            queue.turns.clone()
        };
        let mut turn = Self {
            key,
            acquiring: Some(Box::pin(turns.acquire_owned())),
            permit: None,
        };
        // The first poll takes the place.
        poll_fn(|context| {
            let polled = turn
                .acquiring
                .as_mut()
                .map(|turn| turn.as_mut().poll(context));
            if let Some(Poll::Ready(acquired)) = polled {
                turn.end_wait(acquired);
            }
            Poll::Ready(())
        })
        .await;
        turn
    }

    pub(super) fn is_first(&self) -> bool {
        self.permit.is_some()
    }

    /// Waits until it is the first, at most for that span.
    pub(super) async fn wait(&mut self, at_most: Duration) {
        if let Some(acquiring) = &mut self.acquiring
            && let Some(acquired) = within(at_most, acquiring).await
        {
            self.end_wait(acquired);
        }
    }

    fn end_wait(&mut self, acquired: std::result::Result<OwnedSemaphorePermit, AcquireError>) {
        self.acquiring = None;
        self.permit = acquired.ok();
        assert!(self.permit.is_some(), "nothing closes a wait queue");
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        // Before the count: the next waiter is the first from here on.
        self.acquiring = None;
        self.permit = None;
        let mut all = WAIT_QUEUES.locked();
        if let Some(queue) = all.get_mut(&self.key) {
            queue.waiters -= 1;
            if queue.waiters == 0 {
                all.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests;
