//! The reference model: time, pauses of the engine, rescue.

use std::time::Duration;

use crate::engine::JobEnd;
use crate::job::{CancelReason, DeadReason, JobState, PastOutcome, Stop};
use crate::time::{Timestamp, millis};

use super::holdings::Holding;
use super::{Left, Space, Turn};

impl Space {
    /// After a silence longer than half a lease, that lease lasts one more, once per extension.
    pub(super) fn spare_leases(&mut self, now: Timestamp, silence: Duration) {
        let mut extended = Vec::new();
        for holding in &mut self.holdings {
            if silence >= millis(1) && silence * 2 > holding.span && !holding.extended_after_pause {
                holding.extended_after_pause = true;
                holding.deadline = holding.deadline.max(now + holding.span);
                extended.push(holding.clone());
            }
        }
        for holding in &extended {
            self.show_deadline(holding);
        }
    }

    /// Expires, rescues and prunes; what is due needs no moving here.
    pub(super) fn sweep(&mut self, now: Timestamp) {
        self.pass_on_lapsed_keys(now);
        self.expire(now);
        self.rescue(now);
        self.expire(now);
        self.prune(now);
    }

    /// Ends every lease of a worker inside the engine's process.
    pub(super) fn end_leases_of_the_process(&mut self, now: Timestamp) {
        for holding in self
            .holdings
            .iter_mut()
            .filter(|holding| holding.with_engine)
        {
            holding.deadline = holding.deadline.min(now);
        }
        self.sweep(now);
    }

    fn expire(&mut self, now: Timestamp) {
        for job in 0..self.jobs.len() {
            let entry = &self.jobs[job];
            if entry.is_pending() && entry.record.expires_at.is_some_and(|at| at <= now) {
                self.cancel(job, now, CancelReason::Expired, None);
            }
        }
    }

    fn rescue(&mut self, now: Timestamp) {
        let ran_out: Vec<_> = (self.holdings.iter())
            .filter(|holding| holding.deadline <= now)
            .cloned()
            .collect();
        for holding in &ran_out {
            for job in holding.jobs.clone() {
                if let Some(job) = self.find_whole(job) {
                    self.rescue_one(job, now, holding);
                }
            }
        }
    }

    fn rescue_one(&mut self, job: usize, now: Timestamp, holding: &Holding) {
        self.jobs[job].announce_attempt(holding.deadline, PastOutcome::Crashed, None);
        let record = &mut self.jobs[job].record;
        record.crashes += 1;
        if record.cancel_requested {
            self.cancel(job, now, CancelReason::Requested, Some(Stop::Killed));
        } else if record.expires_at.is_some_and(|at| at <= now) {
            self.cancel(job, now, CancelReason::Expired, None);
        } else if holding.alone && record.max_crashes.is_none_or(|max| record.crashes >= max) {
            self.bury(job, now, DeadReason::Poison);
        } else {
            self.wait_again(job, Turn::Front);
        }
    }

    /// From active to waiting: its lease is over.
    pub(super) fn wait_again(&mut self, job: usize, turn: Turn) {
        self.end_attempt(job);
        self.jobs[job].record.state = JobState::Scheduled;
        self.jobs[job].turn = turn;
    }

    pub(super) fn cancel(
        &mut self,
        job: usize,
        now: Timestamp,
        reason: CancelReason,
        stopped: Option<Stop>,
    ) {
        let record = &mut self.jobs[job].record;
        record.cancelled = Some(reason);
        record.stopped = stopped;
        self.end(job, now, JobState::Cancelled);
    }

    pub(super) fn bury(&mut self, job: usize, now: Timestamp, reason: DeadReason) {
        self.jobs[job].record.dead = Some(reason);
        self.end(job, now, JobState::Dead);
    }

    /// Settles a job: its key is free, its follower starts.
    pub(super) fn end(&mut self, job: usize, now: Timestamp, state: JobState) {
        self.end_attempt(job);
        let entry = &mut self.jobs[job];
        entry.record.state = state;
        entry.record.finished_at = Some(now);
        entry.turn = Turn::ByDue;
        let end = JobEnd {
            id: entry.record.id,
            kind: entry.record.kind.clone(),
            state,
            at: now,
        };
        self.ends.push((entry.record.queue.clone(), end));
        self.leave_what_is_kept(job, now);
        self.pass_key_on(job);
    }

    /// Of a completed job that is not kept a tombstone is left, while that is worth anything.
    pub(super) fn leave_what_is_kept(&mut self, job: usize, now: Timestamp) {
        let entry = &mut self.jobs[job];
        if entry.record.state == JobState::Completed && entry.record.retention.is_zero() {
            entry.reduce(now);
        }
    }

    fn end_attempt(&mut self, job: usize) {
        let record = &mut self.jobs[job].record;
        record.worker = None;
        record.lease_until = None;
        let id = record.id;
        self.leave_lease(id);
    }

    pub(super) fn prune(&mut self, now: Timestamp) {
        for entry in &mut self.jobs {
            if entry.kept_until().is_some_and(|until| until <= now) {
                match entry.left {
                    Left::Whole => entry.reduce(now),
                    _ => entry.left = Left::Nothing,
                }
            }
        }
        // What holds no key and is not known any more decides nothing.
        let matters = |entry: &super::Entry| {
            entry.left != Left::Nothing
                || entry.holds_key && entry.key_period_end().is_some_and(|end| end > now)
        };
        self.jobs.retain(matters);
    }
}
