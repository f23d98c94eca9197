//! What becomes of a settled job: its key is freed, its record kept or reduced to a tombstone.

use std::cmp::Reverse;

use super::Machine;
use super::enqueue::content_of;
use super::jobs::Loaded;
use super::rows::*;
use crate::error::Result;
use crate::injected::{Bug, is_injected};
use crate::job::JobState;
use crate::time::Timestamp;

impl Machine {
    /// Settles a job that stands in no place any more; its reasons are already in its status.
    pub(super) fn settle_as(&mut self, mut job: Loaded, state: JobState) -> Result<()> {
        debug_assert!(state.is_settled() && !job.status.place.is_settled());
        let now = self.now;
        let status = job.status_mut();
        status.place = state;
        status.finished_at = Some(now);
        status.front = false;
        self.free_key(&job)?;
        self.change_members(&job, false)?;
        self.forget_expiry(&job);
        self.forget_obstacle(&job);
        self.history.settled(job.spec.queue, now, state);
        self.note_end(&job, state);
        self.changed(&job);
        self.signals.settled(&job.key);
        if job.spec.rare.occurrence().is_some() {
            self.run_settled(&job, state)?;
        }
        if job.status.watched || job.spec.rare.is_linked() {
            self.link_settled(&job, state)?;
        }
        self.keep(job, state, now)
    }

    /// An imported job that had settled before.
    pub(super) fn keep_imported(&mut self, job: Loaded) -> Result<()> {
        let state = job.status.place;
        let finished = job.status.finished_at.unwrap_or(self.now);
        if job.spec.rare.is_linked() {
            self.link_settled(&job, state)?;
        }
        self.keep(job, state, finished)
    }

    fn keep(&mut self, job: Loaded, state: JobState, finished_at: Timestamp) -> Result<()> {
        let retention = match state {
            JobState::Completed => job.spec.retention,
            JobState::Cancelled => self.limits.cancelled_retention,
            _ => self.limits.dead_retention,
        };
        if retention.is_zero() {
            return self.drop_job(&job, finished_at);
        }
        self.save(&job);
        let until = finished_at + retention.max(self.limits.settled_window);
        let (queue, seq) = (job.spec.queue, job.spec.seq);
        let bytes = (job.spec.payload.len() + 256) as u64;
        let key = KeptKey {
            queue,
            state: state as u8,
            finished_at,
            seq,
        };
        let kept = Kept {
            id: job.key.id,
            until,
            bytes,
        };
        self.rows.kept.insert(&mut self.journal, key, kept);
        let prune = PruneKey {
            until,
            queue,
            state: state as u8,
            finished_at,
            seq,
        };
        if self
            .derived
            .prune_low
            .as_ref()
            .is_some_and(|low| *low > prune)
        {
            self.derived.prune_low = Some(prune.clone());
        }
        self.rows.prune.insert(&mut self.journal, prune, job.key.id);
        self.count(queue, state, true)?;
        self.queue_mut(queue)?.row.kept_bytes[state as usize] += bytes;
        let namespace = self.queue_state(queue)?.namespace;
        *self.derived.kept_bytes.entry(namespace).or_default() += bytes;
        self.bound_kept(queue, state)?;
        self.bound_kept_in(namespace)
    }

    /// Lets kept jobs of a namespace go while all its queues have too many bytes of them: the
    /// oldest of the queue and state that has most. It then makes some room, so that the next ones
    /// need not find that queue.
    fn bound_kept_in(&mut self, namespace: u32) -> Result<()> {
        let kept = |machine: &Self| machine.derived.kept_bytes.get(&namespace).copied();
        let most = self.limits.namespace_retained_bytes as u64;
        if kept(self).unwrap_or(0) <= most {
            return Ok(());
        }
        let room = most - most / 100;
        while kept(self).unwrap_or(0) > room {
            let queues = self.derived.queues.iter();
            let own = queues.filter(|(_, queue)| queue.namespace == namespace);
            let states = own.flat_map(|(id, queue)| {
                let kept = queue.row.kept_bytes.iter().enumerate();
                kept.map(|(state, bytes)| (*bytes, Reverse(*id), state as u8))
            });
            // Of queues with as many bytes the one that was made first.
            let Some((bytes @ 1.., Reverse(queue), state)) = states.max() else {
                return Ok(());
            };
            let until = bytes.saturating_sub(kept(self).unwrap_or(0) - room);
            while self.queue_state(queue)?.row.kept_bytes[usize::from(state)] > until {
                if !self.remove_oldest_kept(queue, state)? {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Lets the oldest kept jobs of a queue go while there are too many.
    fn bound_kept(&mut self, queue: u32, state: JobState) -> Result<()> {
        loop {
            let row = &self.queue_state(queue)?.row;
            let over = row.counts[state as usize] > self.limits.retained as u64
                || row.kept_bytes[state as usize] > self.limits.retained_bytes as u64;
            if !over {
                return Ok(());
            }
            if !self.remove_oldest_kept(queue, state as u8)? {
                return Ok(());
            }
        }
    }

    /// Removes the oldest kept job of a queue and state; whether there is one.
    fn remove_oldest_kept(&mut self, queue: u32, state: u8) -> Result<bool> {
        let bound = |state| KeptKey {
            queue,
            state,
            finished_at: Timestamp::ZERO,
            seq: 0,
        };
        let (start, end) = (bound(state), bound(state + 1));
        let from = std::ops::Bound::Included(&start);
        let first = self
            .rows
            .kept
            .first(from, std::ops::Bound::Excluded(&end))?;
        let Some((key, kept)) = first else {
            return Ok(false);
        };
        self.remove_kept(&key, &kept)?;
        Ok(true)
    }

    /// Removes a kept job's record; within the settled window its tombstone stays.
    pub(super) fn remove_kept(&mut self, key: &KeptKey, kept: &Kept) -> Result<()> {
        let namespace = self.queue_state(key.queue)?.namespace;
        let job = self.load_indexed(&JobKey {
            namespace,
            id: kept.id,
        })?;
        self.unkeep(key, kept)?;
        self.drop_job(&job, key.finished_at)
    }

    /// Takes a kept job out of the orders it stands in.
    pub(super) fn unkeep(&mut self, key: &KeptKey, kept: &Kept) -> Result<()> {
        let KeptKey {
            queue,
            state,
            finished_at,
            seq,
        } = *key;
        self.rows.kept.remove(&mut self.journal, key);
        let prune = PruneKey {
            until: kept.until,
            queue,
            state,
            finished_at,
            seq,
        };
        self.rows.prune.remove(&mut self.journal, &prune);
        self.count(queue, JobState::ALL[usize::from(state)], false)?;
        let bytes = &mut self.queue_mut(queue)?.row.kept_bytes[usize::from(state)];
        *bytes = bytes.saturating_sub(kept.bytes);
        let namespace = self.queue_state(queue)?.namespace;
        let all = self.derived.kept_bytes.entry(namespace).or_default();
        *all = all.saturating_sub(kept.bytes);
        Ok(())
    }

    /// Finds the order that a kept job stands in.
    pub(super) fn kept_of(&self, job: &Loaded) -> Result<Option<(KeptKey, Kept)>> {
        let Some(finished_at) = job.status.finished_at else {
            return Ok(None);
        };
        let state = job.status.place as u8;
        let key = KeptKey {
            queue: job.spec.queue,
            state,
            finished_at,
            seq: job.spec.seq,
        };
        Ok(self.rows.kept.get(&key)?.map(|kept| (key, kept)))
    }

    /// Drops both rows of a job and leaves a tombstone, while that is worth anything.
    fn drop_job(&mut self, job: &Loaded, finished_at: Timestamp) -> Result<()> {
        self.rows.specs.remove(&mut self.journal, &job.key);
        self.rows.status.remove(&mut self.journal, &job.key);
        let remember = job.spec.rare.remember();
        let remember = remember.filter(|span| *span > self.limits.settled_window);
        let until = finished_at + remember.unwrap_or(self.limits.settled_window);
        if until <= self.now || is_injected(Bug::TombstoneForgotten) {
            return Ok(());
        }
        let queue = self.queue_state(job.spec.queue)?.name.clone();
        let tombstone = Tombstone {
            state: job.status.place,
            content: content_of(&queue, &job.spec),
            due: job.spec.due,
            late: job.spec.late,
            finished_at,
            result: job.status.result.clone(),
            settled: job.status.settled,
            remembered: remember.map(|_| until),
        };
        self.leave_tombstone(job.key.clone(), tombstone);
        Ok(())
    }
}
