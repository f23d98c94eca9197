//! How many jobs of a share wait, while the settings of the queue bound that.
//!
//! A job is counted by a row of its own, so that counting it twice, or out twice, changes nothing.
//! When a bound is set, jobs that wait already are counted a bounded number per call: held ones,
//! then scheduled, then ready ones, as time moves a job only forward in that order. Whatever else
//! moves a job counts it. Rows of a bound that was taken off are forgotten in the background: each
//! bound has its own rows, by the version that set it. Redis has the same in `share_bound.lua`.

use std::collections::BTreeSet;
use std::ops::Bound;

use rustc_hash::FxHashMap;

use super::Machine;
use super::jobs::Loaded;
use super::rows::*;
use super::share_rows::*;
use super::shares::share_key;
use crate::engine::ShareSettings;
use crate::error::Result;
use crate::job::{JobId, JobState, NewJob};

/// Jobs that the write of a bound examines at once.
const AT_ONCE: usize = 1_000;
/// Jobs that an enqueue into such a queue examines until all are counted.
const PER_CALL: usize = 250;
/// Rows of former bounds that one call forgets.
const FORGOTTEN: usize = 250;
/// Where the places of shares begin among ready jobs: those before have none.
const SHARES_PART: [u8; 1] = [20];
/// Where jobs wait, in the order in which they are counted.
const PLACES: [JobState; 3] = [JobState::Held, JobState::Scheduled, JobState::Ready];

/// The bounds in force, in memory.
#[derive(Debug, Default)]
pub(super) struct ShareBounds {
    /// By queue.
    of: FxHashMap<u32, ShareBoundRow>,
    /// Queues with rows of former bounds.
    former: BTreeSet<u32>,
}

impl ShareBounds {
    fn since(&self, queue: u32) -> Option<u64> {
        if self.of.is_empty() {
            return None;
        }
        self.of.get(&queue).map(|row| row.since)
    }
}

impl Machine {
    /// A job takes a place among those that wait.
    pub(super) fn counts_as_waiting(&mut self, job: &Loaded) -> Result<()> {
        match job.share() {
            Some(share) => self.count_waiting(job.spec.queue, share, job.key.id, true),
            None => Ok(()),
        }
    }

    /// A job waits no more: it was claimed or has settled.
    pub(super) fn waits_no_more(&mut self, job: &Loaded) -> Result<()> {
        match job.share() {
            Some(share) => self.count_waiting(job.spec.queue, share, job.key.id, false),
            None => Ok(()),
        }
    }

    /// Counts a job of a share in or out, once.
    pub(super) fn count_waiting(
        &mut self,
        queue: u32,
        share: &str,
        id: JobId,
        up: bool,
    ) -> Result<()> {
        let Some(since) = self.derived.share_bounds.since(queue) else {
            return Ok(());
        };
        let key = WaitingKey {
            queue,
            since,
            share: share.to_owned(),
            id,
        };
        if self.rows.waiting.get(&key)?.is_some() == up {
            return Ok(());
        }
        let count = WaitingCountKey {
            queue,
            since,
            share: share.to_owned(),
        };
        let jobs = self.rows.waiting_counts.get(&count)?;
        let jobs = jobs.map_or(0, |row| row.jobs);
        let (waiting, counts) = (&mut self.rows.waiting, &mut self.rows.waiting_counts);
        if up {
            waiting.insert(&mut self.journal, key, ());
            let row = WaitingCountRow { jobs: jobs + 1 };
            counts.put(&mut self.journal, count, row);
            return Ok(());
        }
        debug_assert!(jobs > 0, "a count is that of its rows");
        waiting.remove(&mut self.journal, &key);
        match jobs.saturating_sub(1) {
            0 => counts.remove(&mut self.journal, &count),
            jobs => counts.put(&mut self.journal, count, WaitingCountRow { jobs }),
        }
        Ok(())
    }

    /// The bound of a share that keeps a new job of it out, if one does; jobs that go anyway are
    /// not counted.
    pub(super) fn full_share(
        &mut self,
        queue: u32,
        share: Option<&str>,
        goes: &[JobId],
    ) -> Result<Option<u64>> {
        let (Some(share), Some(since)) = (share, self.derived.share_bounds.since(queue)) else {
            return Ok(None);
        };
        let shares = self.queue_state(queue)?.settings.shares.as_deref();
        let Some(most) = shares.and_then(|shares| shares.max_pending) else {
            return Ok(None);
        };
        let key = WaitingCountKey {
            queue,
            since,
            share: share.to_owned(),
        };
        let row = self.rows.waiting_counts.get(&key)?;
        let mut waiting = row.map_or(0, |row| row.jobs);
        for id in goes {
            let key = WaitingKey {
                queue,
                since,
                share: share.to_owned(),
                id: *id,
            };
            waiting -= u64::from(self.rows.waiting.get(&key)?.is_some());
        }
        Ok((waiting >= most).then_some(most))
    }

    /// A queue obeys other settings of its shares; `version` is that of the write.
    pub(super) fn bound_shares(
        &mut self,
        queue: u32,
        before: &ShareSettings,
        after: &ShareSettings,
        version: u64,
    ) -> Result<()> {
        match (before.max_pending, after.max_pending) {
            (None, Some(_)) => {
                let row = ShareBoundRow {
                    since: version,
                    state: Some(0),
                    position: None,
                };
                self.keep_share_bound(queue, row);
                self.count_those_that_wait(queue, AT_ONCE)
            }
            (Some(_), None) => {
                self.derived.share_bounds.of.remove(&queue);
                self.derived.share_bounds.former.insert(queue);
                let key = share_key(queue, "");
                (self.rows.share_bounds).remove(&mut self.journal, &key);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn keep_share_bound(&mut self, queue: u32, row: ShareBoundRow) {
        self.derived.share_bounds.of.insert(queue, row.clone());
        let key = share_key(queue, "");
        self.rows.share_bounds.put(&mut self.journal, key, row);
    }

    /// Before an enqueue: goes on with the count of jobs that waited when a bound was set, in one
    /// of the queues of these jobs.
    pub(super) fn count_more_that_wait<'a>(
        &mut self,
        namespace: u32,
        mut jobs: impl Iterator<Item = &'a NewJob>,
    ) -> Result<()> {
        let bounds = &self.derived.share_bounds.of;
        if bounds.values().all(|row| row.state.is_none()) {
            return Ok(());
        }
        let counts = |queue: &u32| bounds.get(queue).is_some_and(|row| row.state.is_some());
        let queue = jobs.find_map(|job| self.queue(namespace, &job.queue).filter(counts));
        queue.map_or(Ok(()), |queue| self.count_those_that_wait(queue, PER_CALL))
    }

    fn count_those_that_wait(&mut self, queue: u32, limit: usize) -> Result<()> {
        let Some(mut row) = self.derived.share_bounds.of.get(&queue).cloned() else {
            return Ok(());
        };
        let namespace = self.queue_state(queue)?.namespace;
        let mut left = limit;
        while let Some(nth) = row.state.filter(|_| left > 0) {
            let state = PLACES[usize::from(nth) % PLACES.len()];
            let found = self.by_state(queue, state, row.position.as_deref(), left)?;
            row.position = found.last().map(|(_, after)| after.clone());
            if found.len() < left {
                row.state = (usize::from(nth) + 1 < PLACES.len()).then_some(nth + 1);
                let is_ready = row.state.map(usize::from) == Some(PLACES.len() - 1);
                row.position = is_ready.then(|| SHARES_PART.to_vec());
            }
            left -= found.len();
            for id in found.into_iter().filter_map(|(id, _)| id) {
                if let Some(job) = self.load(&JobKey { namespace, id })? {
                    self.counts_as_waiting(&job)?;
                }
            }
        }
        self.keep_share_bound(queue, row);
        Ok(())
    }

    /// Forgets some rows of former bounds.
    pub(super) fn forget_former_bounds(&mut self) -> Result<()> {
        let Some(queue) = self.derived.share_bounds.former.first().copied() else {
            return Ok(());
        };
        let since = self.derived.share_bounds.since(queue);
        let (to, since) = since.map_or((queue + 1, 0), |since| (queue, since));
        let (start, end) = (
            WaitingKey::start_of(queue, 0),
            WaitingKey::start_of(to, since),
        );
        let bounds = (Bound::Included(&start), Bound::Excluded(&end));
        let rows = (self.rows.waiting).scan(bounds.0, bounds.1, false, FORGOTTEN)?;
        for (key, ()) in &rows {
            self.rows.waiting.remove(&mut self.journal, key);
        }
        let (start, end) = (start.count(), end.count());
        let bounds = (Bound::Included(&start), Bound::Excluded(&end));
        let counts = (self.rows.waiting_counts).scan(bounds.0, bounds.1, false, FORGOTTEN)?;
        for (key, _) in &counts {
            self.rows.waiting_counts.remove(&mut self.journal, key);
        }
        if rows.len() < FORGOTTEN && counts.len() < FORGOTTEN {
            self.derived.share_bounds.former.remove(&queue);
        }
        Ok(())
    }

    /// After recovery: which queues bound their shares, and whose former bounds left rows.
    pub(super) fn recover_share_bounds(&mut self) -> Result<()> {
        let all = &self.rows.share_bounds;
        for (key, row) in all.scan(Bound::Unbounded, Bound::Unbounded, false, usize::MAX)? {
            self.derived.share_bounds.of.insert(key.queue, row);
        }
        let mut from = WaitingKey::start_of(0, 0);
        loop {
            let next = (self.rows.waiting).first(Bound::Included(&from), Bound::Unbounded)?;
            let Some((key, ())) = next else {
                return Ok(());
            };
            if self.derived.share_bounds.since(key.queue) != Some(key.since) {
                self.derived.share_bounds.former.insert(key.queue);
            }
            from = WaitingKey::start_of(key.queue + 1, 0);
        }
    }

    /// The queue is deleted, and so is its bound.
    pub(super) fn forget_share_bound(&mut self, queue: u32) {
        if self.derived.share_bounds.of.remove(&queue).is_some() {
            self.derived.share_bounds.former.insert(queue);
            let key = share_key(queue, "");
            (self.rows.share_bounds).remove(&mut self.journal, &key);
        }
    }
}
