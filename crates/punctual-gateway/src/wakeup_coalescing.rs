//! Wakeup coalescing, against a thundering herd: of all claims that wait for the same due, a few
//! wake up. When one of them takes a job, the next waiting claim takes its turn.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use punctual::engine::{Claim, ClaimMode, Claimed, WaitFor};
use punctual::sync::Lock;
use punctual::time::Timestamp;
use punctual::{Engine, Namespace, Result};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

/// The waiting claims of one gateway, by what they wait for. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct WakeupCoalescing(Arc<Mutex<HashMap<Key, Entry>>>);

/// Claims with the same key get the same `wake_at`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) namespace: Namespace,
    queues: Vec<String>,
    mode: ClaimMode,
}

/// Removed with its last waiter.
#[derive(Debug)]
struct Entry {
    wakeup: Arc<SharedWakeup>,
    waiters: usize,
}

#[derive(Debug)]
struct SharedWakeup {
    awake: Arc<Semaphore>,
    latest: watch::Sender<LatestAnswer>,
}

/// The latest answer to any of these claims: its time and its `wake_at`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LatestAnswer {
    now: Timestamp,
    due: Option<Timestamp>,
}

/// Claims that wake up for a due. More than one, so that jobs due together do not wait for each
/// other.
const WAKING_MAX: usize = 4;

/// One claim that waits.
pub(crate) struct Waiter {
    all: WakeupCoalescing,
    key: Key,
    wakeup: Arc<SharedWakeup>,
    /// Held while it is one of those that wake up.
    place: Option<OwnedSemaphorePermit>,
}

impl Key {
    /// Of a claim in a namespace.
    pub(crate) fn of(namespace: &Namespace, claim: &Claim) -> Self {
        Self {
            namespace: namespace.clone(),
            queues: claim.queues.clone(),
            mode: claim.mode,
        }
    }
}

impl WakeupCoalescing {
    /// Adds a waiting claim, which got this answer.
    pub(crate) fn join(&self, key: &Key, claimed: &Claimed) -> Waiter {
        let mut all = self.lock();
        let entry = all.entry(key.clone()).or_insert_with(|| Entry {
            wakeup: Arc::new(SharedWakeup {
                awake: Arc::new(Semaphore::new(WAKING_MAX)),
                latest: watch::Sender::new(LatestAnswer::of(claimed)),
            }),
            waiters: 0,
        });
        entry.waiters += 1;
        entry.wakeup.learn(claimed);
        Waiter {
            all: self.clone(),
            key: key.clone(),
            wakeup: entry.wakeup.clone(),
            place: None,
        }
    }

    /// Shares an answer with the claims that wait.
    pub(crate) fn learn(&self, key: &Key, claimed: &Claimed) {
        if let Some(entry) = self.lock().get(key) {
            entry.wakeup.learn(claimed);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Entry>> {
        self.0.locked()
    }
}

impl SharedWakeup {
    fn learn(&self, claimed: &Claimed) {
        self.latest.send_if_modified(|latest| {
            let before = latest.due;
            *latest = latest.and(LatestAnswer::of(claimed));
            latest.due != before
        });
    }
}

impl LatestAnswer {
    fn of(claimed: &Claimed) -> Self {
        Self {
            now: claimed.now,
            due: claimed.wake_at,
        }
    }

    /// A later answer replaces an earlier one. An answer that was overtaken, or whose clock fell
    /// behind, only adds its due. The known due is dropped once it is past by that answer too:
    /// otherwise a claim would wake up for it again and again.
    fn and(self, answer: Self) -> Self {
        if answer.now > self.now {
            return answer;
        }
        let known = self.due.filter(|due| *due > answer.now);
        Self {
            now: self.now,
            due: known.into_iter().chain(answer.due).min(),
        }
    }
}

impl Waiter {
    /// Ends when this claim, which got the answer `claimed`, should claim again: on a wakeup, at a
    /// due if it is one of those that wake up, and at `end` in any case.
    pub(crate) async fn wait(
        &mut self,
        engine: &dyn Engine,
        claimed: &Claimed,
        end: Timestamp,
    ) -> Result<()> {
        let awake = self.wakeup.awake.clone();
        if self.place.is_none() {
            self.place = awake.clone().try_acquire_owned().ok();
        }
        loop {
            let mut latest = self.wakeup.latest.subscribe();
            let wakes_up = self.place.is_some();
            let known = *latest.borrow_and_update();
            // A later answer to another claim replaces its own.
            let own = claimed.wake_at.filter(|due| *due > known.now);
            let dues = own.into_iter().chain(known.due);
            let until = dues.filter(|_| wakes_up).fold(end, Timestamp::min);
            let work = WaitFor::Work(self.key.queues.clone());
            tokio::select! {
                biased;
                waited = engine.wait(&self.key.namespace, work, until) => return waited.map(|_| ()),
                // Another claim was woken up, and got an earlier due.
                _ = latest.wait_for(|latest| latest.due.is_some_and(|due| due < until)), if wakes_up => {}
                // Another claim is done: the next due is for this one.
                place = awake.clone().acquire_owned(), if !wakes_up => self.place = place.ok(),
            }
        }
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let mut all = self.all.lock();
        if let Some(entry) = all.get_mut(&self.key) {
            entry.waiters -= 1;
            if entry.waiters == 0 {
                all.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests;
