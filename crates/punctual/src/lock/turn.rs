//! The turns of a lock's waiters in one process: a release wakes the first of them alone.
//!
//! If each waiter tried at each release, `n` waiters would make `n` calls a handover, and the next
//! release would queue behind them. So the waiters of one process stand in a line by lock, and
//! the first of them alone waits at the engine.

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
struct Line {
    /// One permit, given to waiters in the order in which they came.
    turns: Arc<Semaphore>,
    waiters: usize,
}

/// The lines that have waiters.
static LINES: Mutex<BTreeMap<Key, Line>> = Mutex::new(BTreeMap::new());

/// A waiter's place in the line of its lock. Dropped, it leaves the line.
pub(super) struct Turn {
    key: Key,
    /// `None` once the permit is there.
    acquiring: Option<Acquiring>,
    permit: Option<OwnedSemaphorePermit>,
}

impl Turn {
    /// At the end of the line; first if nothing waits.
    pub(super) async fn line_up(lock: &Lock) -> Self {
        let engine = Arc::as_ptr(lock.engine()).cast::<()>() as usize;
        let key = (engine, lock.namespace().clone(), lock.name.clone());
        let turns = {
            let mut lines = LINES.locked();
            let line = lines.entry(key.clone()).or_insert_with(|| Line {
                turns: Arc::new(Semaphore::new(1)),
                waiters: 0,
            });
            line.waiters += 1;
            line.turns.clone()
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
                turn.came(acquired);
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
            self.came(acquired);
        }
    }

    fn came(&mut self, acquired: std::result::Result<OwnedSemaphorePermit, AcquireError>) {
        self.acquiring = None;
        self.permit = acquired.ok();
        assert!(self.permit.is_some(), "nothing closes a line");
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        // Before the count: the next waiter is the first from here on.
        self.acquiring = None;
        self.permit = None;
        let mut lines = LINES.locked();
        if let Some(line) = lines.get_mut(&self.key) {
            line.waiters -= 1;
            if line.waiters == 0 {
                lines.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests;
