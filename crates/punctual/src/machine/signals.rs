//! What a step means for waiting calls: wakeups, settled jobs, the change feed.

mod feed;
mod waiting;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::Notify;

use super::Machine;
use super::rows::JobKey;
use crate::engine::{Change, Namespace};
use crate::error::Result;
use crate::job::JobId;
use crate::sync::Lock;
use crate::time::Timestamp;
use feed::Feeds;

/// What the last steps mean for waiters.
#[derive(Debug, Default)]
pub struct Signals {
    notified: Vec<u32>,
    settled: Vec<JobKey>,
    feeds: Feeds,
    /// The changes recorded when watchers were last woken.
    notified_change: u64,
}

impl Signals {
    pub(super) fn notify(&mut self, queue: u32) {
        if self.notified.last() != Some(&queue) && !self.notified.contains(&queue) {
            self.notified.push(queue);
        }
    }

    /// The caller takes care of these queues itself.
    pub(super) fn quiet(&mut self, queues: &[u32]) {
        self.notified.retain(|queue| !queues.contains(queue));
    }

    pub(super) fn settled(&mut self, key: &JobKey) {
        self.settled.push(key.clone());
    }

    pub(super) fn watched(&self, now: Timestamp) -> bool {
        self.feeds.are_watched(now)
    }

    pub(super) fn change(&mut self, namespace: &str, change: Change, bound: usize) {
        self.feeds.record(change.at, namespace, change, bound);
    }

    pub(super) fn take(&mut self) -> Self {
        Self {
            notified: std::mem::take(&mut self.notified),
            settled: std::mem::take(&mut self.settled),
            ..Self::default()
        }
    }
}

impl Machine {
    /// Whether a claim of these queues could answer something, alone or not: for a waiter, in case
    /// that the waiter which took the wakeup has ended.
    pub fn listen(
        &mut self,
        now: Timestamp,
        namespace: &Namespace,
        queues: &[String],
    ) -> Result<bool> {
        self.touch(now)?;
        let Some(namespace) = self.namespace(namespace) else {
            return Ok(false);
        };
        let known = queues.iter().filter_map(|name| self.queue(namespace, name));
        let open: Vec<u32> = known.filter(|queue| !self.is_paused(*queue)).collect();
        Ok(self.has_work(&open, true))
    }

    /// Changes after a cursor, at most a batch, and whether some before them were forgotten; keeps
    /// the feed recording for a minute.
    pub fn changes(
        &mut self,
        now: Timestamp,
        namespace: &Namespace,
        after: Option<u64>,
    ) -> (Vec<Change>, u64, bool) {
        self.now = self.now.max(now);
        let most = self.limits.batch_items;
        (self.signals.feeds).after(self.now, namespace.as_str(), after, most)
    }

    /// The wakeups of the last steps, with the names of their queues.
    fn bells_of(&self, signals: &Signals) -> Vec<(u32, Arc<str>)> {
        let named = |id: &u32| {
            self.derived
                .queues
                .get(id)
                .map(|queue| (queue.namespace, queue.name.clone()))
        };
        signals.notified.iter().filter_map(named).collect()
    }

    /// Wakes waiters after the last steps; engines call it after each step.
    pub fn deliver(&mut self, wakeups: &Wakeups) {
        let signals = self.take_signals();
        let latest = self.signals.feeds.recorded;
        // Looking is a step too: it must not wake those who look.
        let changed = std::mem::replace(&mut self.signals.notified_change, latest) != latest;
        if signals.notified.is_empty() && signals.settled.is_empty() && !changed {
            return;
        }
        let queues = self.bells_of(&signals);
        let names = |id: u32| {
            self.derived
                .namespace_names
                .get(&id)
                .cloned()
                .unwrap_or_default()
        };
        let mut state = wakeups.lock();
        for (namespace, queue) in queues {
            state.wakeup(&names(namespace), &queue).notify_one();
        }
        if !state.settled.is_empty() {
            for key in signals.settled {
                if let Some(waiter) = state.settled.get(&(names(key.namespace), key.id)) {
                    waiter.notify_waiters();
                }
            }
        }
        if changed {
            state.changes.notify_waiters();
        }
    }
}

/// Where callers wait: one wakeup per queue, one notice per awaited job, one for the feed.
#[derive(Debug, Default)]
pub struct Wakeups(Mutex<WakeupState>);

#[derive(Debug, Default)]
struct WakeupState {
    queues: HashMap<String, HashMap<String, Arc<Notify>>>,
    settled: HashMap<(String, JobId), Arc<Notify>>,
    changes: Arc<Notify>,
}

impl WakeupState {
    fn wakeup(&mut self, namespace: &str, queue: &str) -> Arc<Notify> {
        if !self.queues.contains_key(namespace) {
            self.queues.insert(namespace.to_owned(), HashMap::new());
        }
        let queues = self.queues.entry(namespace.to_owned()).or_default();
        if let Some(wakeup) = queues.get(queue) {
            return wakeup.clone();
        }
        queues.entry(queue.to_owned()).or_default().clone()
    }
}

impl Wakeups {
    /// Registers for the settling of jobs; read them after this and before waiting.
    pub fn watch_settled(self: &Arc<Self>, namespace: &Namespace, ids: &[JobId]) -> SettledWatch {
        let mut state = self.lock();
        let distinct: HashSet<JobId> = ids.iter().copied().collect();
        let watched = distinct
            .into_iter()
            .map(|id| {
                let key = (namespace.as_str().to_owned(), id);
                let notify = state.settled.entry(key.clone()).or_default().clone();
                (key, notify)
            })
            .collect();
        SettledWatch {
            wakeups: self.clone(),
            watched,
        }
    }

    /// Completes with the next change of any job, if it is polled before the change.
    pub fn changes(&self) -> Arc<Notify> {
        self.lock().changes.clone()
    }

    fn lock(&self) -> MutexGuard<'_, WakeupState> {
        self.0.locked()
    }
}

/// A registration for the settling of jobs; dropping it ends it.
#[derive(Debug)]
pub struct SettledWatch {
    wakeups: Arc<Wakeups>,
    watched: Vec<((String, JobId), Arc<Notify>)>,
}

impl SettledWatch {
    /// The notices, one per job; each wakes the call that waits on it when the job settles.
    pub fn notices(&self) -> impl Iterator<Item = &Arc<Notify>> {
        self.watched.iter().map(|(_, notify)| notify)
    }
}

impl Drop for SettledWatch {
    fn drop(&mut self) {
        let mut state = self.wakeups.lock();
        for (key, notify) in self.watched.drain(..) {
            // Two: the map's and this one. Another watch of the same job keeps the entry.
            if Arc::strong_count(&notify) <= 2 {
                state.settled.remove(&key);
            }
        }
    }
}
