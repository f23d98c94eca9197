//! The holder of a lock, and its waiters.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{LOCK_PREFIX, LOCK_UNIQUE, Lock, ROUND, parent_of};
use crate::Queue;
use crate::engine::{Got, Stats, StatsRequest, Target, WorkerId, WorkerRecord, WorkerSeen};
use crate::error::Result;
use crate::job::{JobId, JobRecord, JobState};
use crate::time::{Timestamp, seconds};
use crate::worker::host_name;

/// The kind by which the record of a waiter is known from that of a worker.
const KIND: &str = "lock";

/// A waiter tries again every second, and is there if it did so lately.
const SEEN: Duration = seconds(2);

/// What is known of a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockStatus {
    /// Its name.
    pub name: String,
    /// Its holder, if it is held.
    pub holder: Option<LockHolder>,
    /// Its waiters, those seen last first.
    pub waiters: Vec<LockWaiter>,
}

/// The holder of a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockHolder {
    /// The job that stands for the lock.
    pub ticket: JobId,
    /// The job whose handler took it, if it was one.
    pub job: Option<JobId>,
    /// Since when.
    pub since: Option<Timestamp>,
    /// When its lease ends, unless it is extended.
    pub until: Option<Timestamp>,
}

/// Someone that waits for a lock, as seen in the last two seconds.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockWaiter {
    /// The name of the lock.
    pub lock: String,
    /// Its host, a label; of one that waits over HTTP that of the gateway.
    pub host: String,
    /// The job whose handler waits, if it is one.
    pub job: Option<JobId>,
    /// When it tried last.
    pub seen_at: Timestamp,
}

impl LockWaiter {
    /// Whether a record among the workers is that of a waiter for a lock, present or past: it runs
    /// no jobs.
    pub fn is(seen: &WorkerSeen) -> bool {
        lock_of(&seen.worker).is_some()
    }

    /// All who wait for locks of the namespace, those seen last first.
    pub fn all(stats: &Stats) -> Vec<Self> {
        let waits = |seen: &&WorkerSeen| seen.leased == 0 && stats.now - seen.seen_at <= SEEN;
        let workers = stats.workers.iter().filter(waits);
        let mut waiters: Vec<Self> = workers
            .filter_map(|seen| {
                Some(Self {
                    lock: lock_of(&seen.worker)?.to_owned(),
                    host: seen.worker.host.clone(),
                    job: seen.worker.version.parse().ok(),
                    seen_at: seen.seen_at,
                })
            })
            .collect();
        waiters.sort_by_key(|one| std::cmp::Reverse(one.seen_at));
        waiters
    }
}

fn lock_of(worker: &WorkerRecord) -> Option<&str> {
    let ([queue], [kind]) = (&*worker.queues, &*worker.kinds) else {
        return None;
    };
    queue.strip_prefix(LOCK_PREFIX).filter(|_| kind == KIND)
}

impl Lock {
    /// What a waiter says of itself with its claims, after the first: engines show it as they show
    /// workers.
    pub(super) fn waiter(&self) -> WorkerRecord {
        let taker = self.taker.as_ref();
        WorkerRecord {
            host: host_name(),
            version: taker.map_or_else(String::new, |taker| taker.id().to_string()),
            queues: vec![self.queue_name()],
            kinds: vec![KIND.to_owned()],
            slots: 1,
            ..WorkerRecord::new(WorkerId::random())
        }
    }

    /// Its holder and its waiters.
    ///
    /// ```
    /// use punctual::{MemoryEngine, Queue};
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let queue = Queue::new(MemoryEngine::new());
    /// let guard = queue.lock("deploy").try_now().await?;
    /// let status = queue.lock("deploy").status().await?;
    /// assert!(status.holder.is_some() && status.waiters.is_empty());
    /// guard.release().await?;
    /// assert_eq!(queue.lock("deploy").status().await?.holder, None);
    /// # Ok::<(), punctual::Error>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// `invalid_name` as [`try_now`](Self::try_now), and those of the engine.
    pub async fn status(&self) -> Result<LockStatus> {
        self.check()?;
        let request = StatsRequest {
            queues: vec![self.queue_name()],
            ..StatsRequest::default()
        };
        let stats = self.engine().stats(self.namespace(), request).await?;
        let found = of_names(&self.queue, &stats, [self.name.clone()]).await?;
        let none = LockStatus {
            name: self.name.clone(),
            holder: None,
            waiters: Vec::new(),
        };
        Ok(found.into_iter().next().unwrap_or(none))
    }
}

impl Queue {
    /// Every lock of the namespace that is held or waited for, by name.
    ///
    /// # Errors
    /// Those of the engine.
    pub async fn locks(&self) -> Result<Vec<LockStatus>> {
        let request = StatsRequest::default();
        let stats = self.engine().stats(self.own_namespace(), request).await?;
        let in_use = stats.queues.iter().filter(|one| {
            one.counts.of(JobState::Active) > 0 || one.counts.of(JobState::Ready) > 0
        });
        let mut names: Vec<String> = in_use
            .filter_map(|one| one.queue.strip_prefix(LOCK_PREFIX))
            .map(str::to_owned)
            .collect();
        names.extend(LockWaiter::all(&stats).into_iter().map(|one| one.lock));
        names.sort();
        names.dedup();
        let mut locks = of_names(self, &stats, names).await?;
        locks.retain(|lock| lock.holder.is_some() || !lock.waiters.is_empty());
        Ok(locks)
    }

    /// All who wait for locks of the namespace, those seen last first.
    ///
    /// # Errors
    /// Those of the engine.
    pub async fn lock_waiters(&self) -> Result<Vec<LockWaiter>> {
        let request = StatsRequest {
            // Workers are answered with any queue; this one has no jobs.
            queues: vec![LOCK_PREFIX.to_owned()],
            ..StatsRequest::default()
        };
        let stats = self.engine().stats(self.own_namespace(), request).await?;
        Ok(LockWaiter::all(&stats))
    }
}

/// Locks in the order of their names.
async fn of_names(
    queue: &Queue,
    stats: &Stats,
    names: impl IntoIterator<Item = String>,
) -> Result<Vec<LockStatus>> {
    let mut waiters: BTreeMap<String, Vec<LockWaiter>> = BTreeMap::new();
    for one in LockWaiter::all(stats) {
        waiters.entry(one.lock.clone()).or_default().push(one);
    }
    let names: Vec<String> = names.into_iter().collect();
    let at_once = queue.engine().info().await?.limits.batch_items;
    let mut locks = Vec::with_capacity(names.len());
    for some in names.chunks(at_once.max(1)) {
        let tickets = some.iter().map(|name| Target::Unique {
            queue: format!("{LOCK_PREFIX}{name}"),
            key: LOCK_UNIQUE.to_owned(),
        });
        let tickets = tickets.collect();
        let got = queue.engine().get(queue.own_namespace(), tickets, false);
        for (name, got) in some.iter().zip(got.await?) {
            let job = got.as_ref().and_then(Got::job);
            let mut waiters = waiters.remove(name).unwrap_or_default();
            waiters.retain(|one| may_wait(one, job, stats.now));
            locks.push(LockStatus {
                name: name.clone(),
                holder: job.and_then(holder_of),
                waiters,
            });
        }
    }
    Ok(locks)
}

/// Whether one that was seen lately may wait still. A lock without a ticket is free, and a waiter
/// would have it. One that waits tries again soon after another has taken the lock.
fn may_wait(waiter: &LockWaiter, ticket: Option<&JobRecord>, now: Timestamp) -> bool {
    let Some(ticket) = ticket else {
        return false;
    };
    match (ticket.state, ticket.started_at) {
        (JobState::Active, Some(since)) => waiter.seen_at > since || now - since < ROUND,
        _ => true,
    }
}

fn holder_of(ticket: &JobRecord) -> Option<LockHolder> {
    (ticket.state == JobState::Active).then(|| LockHolder {
        ticket: ticket.id,
        job: parent_of(ticket).and_then(|id| id.parse().ok()),
        since: ticket.started_at,
        until: ticket.lease_until,
    })
}
