//! When a claim could answer more by the passing of time alone: a job falls due, a lease ends, or
//! something ends that keeps other jobs back.

use std::collections::BTreeSet;
use std::ops::Bound;

use super::Machine;
use super::jobs::Loaded;
use super::rows::*;
use crate::error::Result;
use crate::job::JobId;
use crate::time::Timestamp;

const NIL: JobId = JobId::from_bytes([0; 16]);

/// What keeps other jobs of its queue back, and ends at an instant of its own. These are hints:
/// each is read again before it counts, and goes with its job or its period.
#[derive(Debug, Default)]
pub(super) struct Obstacles {
    ends: BTreeSet<(u32, Timestamp, Obstacle)>,
    /// How far what the last process left in these orders has been read.
    unseen_expiry: Option<ExpiryKey>,
    unseen_period: Option<PeriodKey>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Obstacle {
    /// A job that expires: others of its group wait behind it, or the follower of its key.
    Job(JobId),
    /// A period for which a key is held: a follower waits for its end.
    Period(String),
}

impl Obstacles {
    /// After recovery: everything that the last process left is still to be read.
    pub(super) fn unseen() -> Self {
        Self {
            ends: BTreeSet::new(),
            unseen_expiry: Some(ExpiryKey {
                at: Timestamp::ZERO,
                namespace: 0,
                id: NIL,
            }),
            unseen_period: Some(PeriodKey {
                until: Timestamp::ZERO,
                queue: 0,
                key: String::new(),
            }),
        }
    }

    /// Its queue is deleted.
    pub(super) fn forget(&mut self, queue: u32) {
        while let Some((at, what)) = self.first(queue) {
            self.ends.remove(&(queue, at, what));
        }
    }

    fn first(&self, queue: u32) -> Option<(Timestamp, Obstacle)> {
        let start = (queue, Timestamp::ZERO, Obstacle::Job(NIL));
        let (of, at, what) = self.ends.range(start..).next()?;
        (*of == queue).then(|| (*at, what.clone()))
    }
}

/// When a claim comes again that left tasks of flows: not at once, so that others have their turn.
const TASKS_AGAIN: std::time::Duration = crate::time::millis(1);

impl Machine {
    /// The earliest instant at which a claim could answer more by the passing of time alone.
    pub(super) fn wake_at(&mut self, queues: &[u32]) -> Result<Option<Timestamp>> {
        if queues.is_empty() {
            return Ok(None);
        }
        if self.has_flow_tasks(queues) {
            return Ok(Some(self.now + TASKS_AGAIN));
        }
        let mut first = (queues.iter())
            .filter_map(|queue| self.due_or_lease_end(*queue))
            .min();
        for queue in queues {
            first = first.into_iter().chain(self.share_wakes(*queue)?).min();
            let line = self.line_opens(*queue)?;
            let line = self.after_gate(*queue, line);
            first = first.into_iter().chain(line).min();
        }
        let unseen = self.see_obstacles(first)?;
        first = first.into_iter().chain(unseen).min();
        for queue in queues {
            let obstacle = self.first_obstacle(*queue)?;
            first = first.into_iter().chain(obstacle).min();
        }
        Ok(first)
    }

    fn due_or_lease_end(&self, queue: u32) -> Option<Timestamp> {
        let queue = self.derived.queues.get(&queue)?;
        let lease = queue.lease_ends.first().map(|(at, _)| *at);
        match queue.closed(self.now) {
            None => queue.due_head.into_iter().chain(lease).min(),
            Some(closed) => {
                let has_ready = queue.has_open_places(false);
                closed.wake_at(has_ready, queue.due_head, lease)
            }
        }
    }

    /// When limits of a share open, and its queue lets jobs start.
    fn share_wakes(&self, queue: u32) -> Result<Option<Timestamp>> {
        let opens = self.share_opens(queue)?;
        Ok(self.after_gate(queue, opens))
    }

    /// When both open: what lets a job start at that instant, and the limits of its queue.
    fn after_gate(&self, queue: u32, opens: Option<Timestamp>) -> Option<Timestamp> {
        let closed = self.closed(queue);
        if opens.is_none() || closed.is_some_and(|closed| closed.opens_at().is_none()) {
            return None;
        }
        let at = closed.and_then(|closed| closed.opens_at());
        opens.into_iter().chain(at).max()
    }

    fn first_obstacle(&mut self, queue: u32) -> Result<Option<Timestamp>> {
        let closed = self.closed(queue);
        if closed.is_some_and(|closed| closed.opens_at().is_none()) {
            return Ok(None);
        }
        let opens = closed.and_then(|closed| closed.opens_at());
        while let Some((at, what)) = self.derived.obstacles.first(queue) {
            let stands = match &what {
                Obstacle::Job(id) => self.expiry_frees(queue, *id, at)?,
                Obstacle::Period(key) => {
                    let holder = self.unique_row(queue, key)?;
                    holder.is_some_and(|row| row.until == Some(at) && row.follower.is_some())
                }
            };
            if stands {
                return Ok(Some(at.max(opens.unwrap_or(self.now))));
            }
            self.derived.obstacles.ends.remove(&(queue, at, what));
        }
        Ok(None)
    }

    /// Whether others wait for the expiry of a job at that instant.
    fn expiry_frees(&self, queue: u32, id: JobId, at: Timestamp) -> Result<bool> {
        let namespace = self.queue_state(queue)?.namespace;
        match self.load(&JobKey { namespace, id })? {
            Some(job) => Ok(job.status.expires_at == Some(at) && self.keeps_back(&job)?),
            None => Ok(false),
        }
    }

    /// Whether a waiting job keeps others back: its group, as one that waits for its next attempt
    /// or as a suspect in its line, or the follower of its key.
    fn keeps_back(&self, job: &Loaded) -> Result<bool> {
        if !job.status.place.is_pending() {
            return Ok(false);
        }
        let (queue, id) = (job.spec.queue, job.key.id);
        if let Some(group) = job.group()
            && (job.is_suspect() || self.group_row(queue, group)?.holding == Some(id))
        {
            return Ok(true);
        }
        let Some(unique) = &job.spec.unique else {
            return Ok(false);
        };
        let holder = self.unique_row(queue, &unique.key)?;
        Ok(holder.is_some_and(|row| row.id == id && row.follower.is_some()))
    }

    fn unique_row(&self, queue: u32, key: &str) -> Result<Option<Holder>> {
        let text = key.to_owned();
        self.rows.unique.get(&QueueText { queue, text })
    }

    /// A job begins to wait that may keep others back until it expires.
    pub(super) fn note_expiry(&mut self, job: &Loaded) {
        let related = job.spec.group.is_some() || job.spec.unique.is_some();
        if let (true, Some(at)) = (related, job.status.expires_at) {
            self.note(job.spec.queue, at, Obstacle::Job(job.key.id));
        }
    }

    /// A follower waits for the end of a period.
    pub(super) fn note_period(&mut self, queue: u32, key: &str, until: Timestamp) {
        self.note(queue, until, Obstacle::Period(key.to_owned()));
    }

    fn note(&mut self, queue: u32, at: Timestamp, what: Obstacle) {
        let obstacle = self.derived.obstacles.first(queue).map(|(at, _)| at);
        let known = self.due_or_lease_end(queue).into_iter().chain(obstacle);
        if known.min().is_none_or(|known| at < known) {
            // An earlier instant than sleepers know of: one of them must set its timer anew.
            self.signals.notify(queue);
        }
        self.derived.obstacles.ends.insert((queue, at, what));
    }

    /// A job has settled: it keeps no job back.
    pub(super) fn forget_obstacle(&mut self, job: &Loaded) {
        if let Some(at) = job.status.expires_at {
            let end = (job.spec.queue, at, Obstacle::Job(job.key.id));
            self.derived.obstacles.ends.remove(&end);
        }
    }

    /// A period is over, or no job waits for its end.
    pub(super) fn forget_period(&mut self, period: &PeriodKey) {
        let what = Obstacle::Period(period.key.clone());
        let end = (period.queue, period.until, what);
        self.derived.obstacles.ends.remove(&end);
        self.rows.periods.remove(&mut self.journal, period);
    }

    /// Reads what the last process left, before an instant and a bounded part of it; answers where
    /// it stopped short of that instant, as something may end there.
    fn see_obstacles(&mut self, until: Option<Timestamp>) -> Result<Option<Timestamp>> {
        let expiry = self.see_expiries(until)?;
        let period = self.see_periods(until)?;
        Ok([expiry, period].into_iter().flatten().min())
    }

    fn see_expiries(&mut self, until: Option<Timestamp>) -> Result<Option<Timestamp>> {
        let from = self.derived.obstacles.unseen_expiry.clone();
        let Some(from) = from.filter(|from| until.is_none_or(|until| from.at < until)) else {
            return Ok(None);
        };
        let limit = self.limits.sweep;
        let found =
            (self.rows.expiry).scan(Bound::Excluded(&from), Bound::Unbounded, false, limit)?;
        for (key, ()) in &found {
            let job = self.load_indexed(&JobKey {
                namespace: key.namespace,
                id: key.id,
            })?;
            if self.keeps_back(&job)? {
                self.note_expiry(&job);
            }
        }
        let last = found.into_iter().nth(limit - 1).map(|(key, ())| key);
        let at = last.as_ref().map(|key| key.at.max(self.now));
        self.derived.obstacles.unseen_expiry = last;
        Ok(at)
    }

    fn see_periods(&mut self, until: Option<Timestamp>) -> Result<Option<Timestamp>> {
        let from = self.derived.obstacles.unseen_period.clone();
        let Some(from) = from.filter(|from| until.is_none_or(|until| from.until < until)) else {
            return Ok(None);
        };
        let limit = self.limits.sweep;
        let found =
            (self.rows.periods).scan(Bound::Excluded(&from), Bound::Unbounded, false, limit)?;
        for (PeriodKey { until, queue, key }, ()) in &found {
            let holder = self.unique_row(*queue, key)?;
            if holder.is_some_and(|row| row.follower.is_some()) {
                self.note_period(*queue, key, *until);
            }
        }
        let last = found.into_iter().nth(limit - 1).map(|(key, ())| key);
        let at = last.as_ref().map(|key| key.until.max(self.now));
        self.derived.obstacles.unseen_period = last;
        Ok(at)
    }
}
