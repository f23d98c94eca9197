//! Waits for work, for jobs to settle and for changes: poll, listen for wakeups, poll again.

mod turns;

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures_util::future::select_all;
use punctual::engine::{Change, Stats, StatsRequest, WaitFor, Waited, WorkerSeen};
use punctual::sync::Lock;
use punctual::time::{Stopwatch, Timestamp, millis, pause, seconds};
use punctual::{JobId, Namespace, Result};
use tokio::sync::watch;

use crate::session::calls::Calls;
use crate::session::maintenance::draw;
use crate::session::shards::Shard;
use crate::transport::node::Kind;
use crate::wakeup::listener::{Waiting as WorkWait, WakeupListeners};
use crate::wire::mp::{MapWriter, Mp, read_instant};
use crate::wire::{damaged, inspect};
use turns::{Turn, Turns, poll_interval};

/// What waiters need.
#[derive(Debug)]
pub(crate) struct Waiting {
    calls: Arc<Calls>,
    pub(crate) listeners: WakeupListeners,
    /// Where in each of several shards a cursor of changes stands.
    cursors: Mutex<Cursors>,
    counts: Mutex<BTreeMap<Namespace, WorkerCount>>,
    turns: Turns,
}

/// How many workers of a namespace there were when that was last asked.
#[derive(Debug)]
struct WorkerCount {
    asked: Option<Stopwatch>,
    times: u32,
    workers: u32,
}

impl Default for WorkerCount {
    fn default() -> Self {
        Self {
            asked: None,
            times: 0,
            workers: 1,
        }
    }
}

impl WorkerCount {
    /// How long it is: not long at first, when all of them start together.
    fn valid_for(&self) -> Duration {
        let doubled = VALID_FIRST * (1 << self.times.saturating_sub(1).min(4));
        doubled.min(VALID_LATER).max(ASK_SHARE * self.workers)
    }
}

#[derive(Debug, Default)]
struct Cursors {
    next: u64,
    known: VecDeque<(u64, BTreeMap<u16, u64>)>,
}

/// How long it is valid_for how many there are.
const VALID_FIRST: Duration = seconds(4);
const VALID_LATER: Duration = seconds(60);
/// However many there are, together they ask no more often than that.
const ASK_SHARE: Duration = millis(300);
/// A registration of a watcher lasts a minute.
const WATCHES_AGAIN: Duration = seconds(30);
/// Cursors that are remembered where there are several shards.
const CURSORS_MAX: usize = 256;

impl Waiting {
    pub(crate) fn new(calls: Arc<Calls>) -> Self {
        Self {
            calls,
            listeners: WakeupListeners::new(),
            cursors: Mutex::default(),
            counts: Mutex::default(),
            turns: Turns::default(),
        }
    }

    pub(crate) async fn wait(
        &self,
        namespace: &Namespace,
        what: WaitFor,
        until: Timestamp,
    ) -> Result<Waited> {
        match what {
            WaitFor::Work(queues) => self.work(namespace, &queues, until).await,
            WaitFor::Settled(ids) => self.settled(namespace, &ids, until).await,
            WaitFor::Changes(after) => self.changes(namespace, after, until).await,
            _ => Err(damaged()),
        }
    }

    async fn work(
        &self,
        namespace: &Namespace,
        queues: &[String],
        until: Timestamp,
    ) -> Result<Waited> {
        let shards = self.calls.shards_of(namespace).await?;
        if self.calls.clock.now() >= until {
            return self.pending_work(&shards, queues).await;
        }
        let listen = |shard| self.listeners.of(shard).listen(&self.calls, queues);
        let mut places: Vec<_> = shards.iter().map(listen).collect();
        let waited = self.work_or_timeout(namespace, &shards, queues, &mut places, until);
        let waited = waited.await?;
        places.iter_mut().for_each(WorkWait::finish);
        Ok(waited)
    }

    async fn work_or_timeout(
        &self,
        namespace: &Namespace,
        shards: &[Arc<Shard>],
        queues: &[String],
        places: &mut [WorkWait],
        mut until: Timestamp,
    ) -> Result<Waited> {
        // Many may begin to wait at the same instant; they do not look in step.
        let mut part = draw();
        let turn = self.turns.join(namespace, queues);
        let mut losses = losses_of(shards);
        loop {
            let wakeups = places.iter_mut().map(|place| Box::pin(place.notified()));
            tokio::select! {
                biased;
                _ = select_all(wakeups) => return Ok(Waited::Work),
                () = self.calls.clock.sleep_until(until) => return Ok(Waited::TimedOut),
                () = any_of(&mut losses) => {}
                () = self.poll_turn(namespace, shards, &turn, part) => part = 1.0,
            }
            match self.poll(shards, queues).await {
                Ok((true, _)) => return Ok(Waited::Work),
                Ok((false, wake_at)) => until = wake_at.map_or(until, |at| at.min(until)),
                Err(error) if error.is_retryable() => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Ends when it is one's turn to look; a test's clock says nothing of that.
    async fn poll_turn(
        &self,
        namespace: &Namespace,
        shards: &[Arc<Shard>],
        turn: &Turn,
        part: f64,
    ) {
        if self.calls.options.clock.is_some() {
            return std::future::pending().await;
        }
        let workers = self.workers(namespace).await;
        for shard in shards {
            shard.workers.store(workers, Ordering::Relaxed);
        }
        let span = poll_interval(workers.max(self.turns.sets() as u32));
        let mut left = span.mul_f64(part);
        loop {
            pause(left).await;
            match turn.take(span) {
                Some(rest) => left = rest,
                None => return,
            }
        }
    }

    /// About how many workers there are.
    async fn workers(&self, namespace: &Namespace) -> u32 {
        {
            let mut counts = self.counts();
            let count = counts.entry(namespace.clone()).or_default();
            if count
                .asked
                .as_ref()
                .is_some_and(|asked| asked.elapsed() < count.valid_for())
            {
                return count.workers;
            }
            // One asks; what was known is good enough for the others meanwhile.
            count.asked = Some(Stopwatch::start());
            count.times += 1;
        }
        let stats = self.calls.stats(namespace, &StatsRequest::default()).await;
        let workers = stats.map_or(1, |stats| free_workers(&stats));
        if let Some(count) = self.counts().get_mut(namespace) {
            count.workers = workers;
        }
        workers
    }

    fn counts(&self) -> MutexGuard<'_, BTreeMap<Namespace, WorkerCount>> {
        self.counts.locked()
    }

    async fn pending_work(&self, shards: &[Arc<Shard>], queues: &[String]) -> Result<Waited> {
        let mut notified = false;
        for shard in shards {
            notified |= self.listeners.of(shard).drain(&self.calls, queues).await?;
        }
        Ok(if notified {
            Waited::Work
        } else {
            Waited::TimedOut
        })
    }

    /// Whether a claim could answer now, and when the next could.
    async fn poll(
        &self,
        shards: &[Arc<Shard>],
        queues: &[String],
    ) -> Result<(bool, Option<Timestamp>)> {
        let mut wake_at = None;
        for shard in shards {
            let map = || {
                let mut map = MapWriter::default();
                map.put("q", queues.iter().map(Mp::from).collect::<Vec<_>>());
                map
            };
            let reply = self.calls.read(shard, "listen", map).await?;
            if reply.get("w").is_set() {
                return Ok((true, None));
            }
            let next = reply.get("wk").some(read_instant)?;
            let next = next.filter(|next| *next != Timestamp::ZERO);
            wake_at = wake_at.into_iter().chain(next).min();
        }
        Ok((false, wake_at))
    }

    async fn settled(
        &self,
        namespace: &Namespace,
        ids: &[JobId],
        until: Timestamp,
    ) -> Result<Waited> {
        let shards = self.calls.shards_of(namespace).await?;
        let watch = |shard| self.listeners.of(shard).watch(&self.calls);
        let places: Vec<_> = shards.iter().map(watch).collect();
        let mut sleep = self.calls.clock.sleep_until(until);
        let mut losses = losses_of(&shards);
        loop {
            let mut wakeups: Vec<_> = places
                .iter()
                .map(|place| Box::pin(place.own_notified().notified()))
                .collect();
            for wakeup in &mut wakeups {
                wakeup.as_mut().enable();
            }
            if !self.are_open(&shards, ids, until).await? {
                return Ok(Waited::Settled);
            }
            tokio::select! {
                _ = select_all(wakeups) => {}
                () = any_of(&mut losses) => {}
                () = &mut sleep => return Ok(Waited::TimedOut),
                () = pause(WATCHES_AGAIN) => {}
            }
        }
    }

    /// Whether one of the jobs is known and not settled; its settling wakeups from then on.
    async fn are_open(
        &self,
        shards: &[Arc<Shard>],
        ids: &[JobId],
        until: Timestamp,
    ) -> Result<bool> {
        let mut open = false;
        for shard in shards {
            let mut map = MapWriter::default();
            let ids = ids.iter().map(|id| Mp::from(id.as_bytes().as_slice()));
            map.put("t", ids.collect::<Vec<_>>());
            map.put("p", self.listeners.process());
            map.put("un", until.as_micros());
            let reply = self
                .calls
                .change(shard, "watch", Kind::Changes, &map)
                .await?;
            open |= !reply.get("o").list()?.is_empty();
        }
        Ok(open)
    }

    async fn changes(
        &self,
        namespace: &Namespace,
        after: Option<u64>,
        until: Timestamp,
    ) -> Result<Waited> {
        let shards = self.calls.shards_of(namespace).await?;
        let watch = |shard| self.listeners.of(shard).watch(&self.calls);
        let places: Vec<_> = shards.iter().map(watch).collect();
        let mut sleep = self.calls.clock.sleep_until(until);
        let mut losses = losses_of(&shards);
        let (mut after, forgotten) = self.cursors_of(after, shards.len());
        loop {
            let mut wakeups: Vec<_> = places
                .iter()
                .map(|place| Box::pin(place.own_notified().notified()))
                .collect();
            for wakeup in &mut wakeups {
                wakeup.as_mut().enable();
            }
            let mut changes = Vec::new();
            let mut gap = forgotten;
            for shard in shards.iter() {
                let (part, cursor, missed) = self.feed(shard, after.get(&shard.index)).await?;
                after.insert(shard.index, cursor);
                changes.extend(part);
                gap |= missed;
            }
            changes.sort_by_key(|change| change.at);
            let is_news = gap || !changes.is_empty();
            if !is_news {
                tokio::select! {
                    _ = select_all(wakeups) => continue,
                    () = any_of(&mut losses) => continue,
                    () = pause(WATCHES_AGAIN) => continue,
                    () = &mut sleep => {}
                }
            }
            return Ok(Waited::Changes {
                changes,
                cursor: self.cursor_for(after),
                gap,
            });
        }
    }

    async fn feed(
        &self,
        shard: &Arc<Shard>,
        after: Option<&u64>,
    ) -> Result<(Vec<Change>, u64, bool)> {
        let mut map = MapWriter::default();
        map.put("p", self.listeners.process());
        map.put_some("af", after.copied());
        let reply = self
            .calls
            .change(shard, "changes", Kind::Changes, &map)
            .await?;
        let changes = reply.get("c").list()?.iter().map(change);
        let changes = changes.collect::<Result<_>>()?;
        Ok((changes, reply.get("cu").number()?, reply.get("g").is_set()))
    }

    /// Where each shard stands for a cursor, and whether that was forgotten. With one shard the
    /// cursor is that shard's.
    fn cursors_of(&self, cursor: Option<u64>, count: usize) -> (BTreeMap<u16, u64>, bool) {
        match cursor {
            None => (BTreeMap::new(), false),
            Some(cursor) if count == 1 => (BTreeMap::from([(0, cursor)]), false),
            Some(cursor) => {
                let cursors = self.cursors.locked();
                let found = cursors.known.iter().find(|(known, _)| *known == cursor);
                let found = found.map(|(_, after)| after.clone());
                (found.clone().unwrap_or_default(), found.is_none())
            }
        }
    }

    fn cursor_for(&self, after: BTreeMap<u16, u64>) -> u64 {
        if let (1, Some(only)) = (after.len(), after.values().next()) {
            return *only;
        }
        let mut cursors = self.cursors.locked();
        cursors.next += 1;
        let cursor = cursors.next;
        cursors.known.push_back((cursor, after));
        if cursors.known.len() > CURSORS_MAX {
            cursors.known.pop_front();
        }
        cursor
    }
}

/// How many workers may wait. A waiting worker claims every 25 s to be seen; one that has not done
/// so for longer is gone. A worker without a free slot does not poll.
fn free_workers(stats: &Stats) -> u32 {
    let is_there = |worker: &WorkerSeen| stats.now - worker.seen_at <= SEEN_WITHIN;
    let is_free = |seen: &WorkerSeen| seen.worker.slots == 0 || seen.free() > 0;
    let waits = |seen: &&WorkerSeen| is_there(seen) && is_free(seen);
    (stats.workers.iter().filter(waits).count() as u32).max(1)
}

const SEEN_WITHIN: Duration = seconds(30);

/// Receives a notice when a call of this process learns that the jobs of one of these shards are
/// gone. The waiter then makes a call of its own, which returns the error.
fn losses_of(shards: &[Arc<Shard>]) -> Vec<watch::Receiver<u64>> {
    shards.iter().map(|shard| shard.losses()).collect()
}

async fn any_of(losses: &mut [watch::Receiver<u64>]) {
    let changes = losses.iter_mut().map(|loss| Box::pin(loss.changed()));
    let _ = select_all(changes).await;
}

/// `[id, queue, state, at]`
fn change(value: &Mp) -> Result<Change> {
    let [id, queue, state, at] = value.list()? else {
        return Err(damaged());
    };
    Ok(Change::new(
        inspect::id(id)?,
        queue.text()?,
        inspect::state(state)?,
        read_instant(at)?,
    ))
}

#[cfg(test)]
mod tests;
