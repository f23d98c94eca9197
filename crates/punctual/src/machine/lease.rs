//! Leases: extend, rescue, and which lease has which jobs.

use super::jobs::Loaded;
use super::rows::*;
use super::{Derived, Machine, OpenLease};
use crate::engine::{Extend, ExtendVerdict, Namespace, Token};
use crate::error::Result;
use crate::injected::{Bug, is_injected};
use crate::job::{
    CancelReason, DeadReason, JobId, JobState, PastAttempt, PastOutcome, Stop, append_log,
    push_attempt,
};
use crate::time::Timestamp;

impl Machine {
    /// Prolongs leases; see [`Engine::extend`](crate::Engine::extend).
    pub fn extend(
        &mut self,
        now: Timestamp,
        namespace: &Namespace,
        leases: Vec<Extend>,
    ) -> Result<Vec<ExtendVerdict>> {
        self.checks(now).extends(&leases)?;
        self.begin(now)?;
        let namespace = self.namespace(namespace);
        self.check_memos(namespace, &leases)?;
        leases
            .into_iter()
            .map(|lease| self.extend_lease(namespace, lease))
            .collect()
    }

    fn extend_lease(
        &mut self,
        namespace: Option<u32>,
        mut extend: Extend,
    ) -> Result<ExtendVerdict> {
        let fence = extend.token.fence;
        let memos = std::mem::take(&mut extend.memos);
        if is_injected(Bug::MemoWithoutToken) {
            self.keep_memos(namespace, fence, memos.clone())?;
        }
        let Some(lease) = self.lease(namespace, extend.token)? else {
            return Ok(ExtendVerdict::LeaseLost);
        };
        let Some(open) = self.derived.leases.get_mut(&fence) else {
            return Ok(ExtendVerdict::LeaseLost);
        };
        let deadline = open.deadline.max(self.now + extend.lease_duration);
        open.lease_duration = extend.lease_duration;
        open.extended_after_pause = false;
        self.derived.end_lease_at(fence, deadline);
        let row = DeadlineRow {
            deadline,
            lease_duration: extend.lease_duration,
            extended_after_pause: false,
        };
        self.rows
            .deadlines
            .put(&mut self.journal, FenceKey { fence }, row);
        for (id, progress) in extend.progress {
            if let Some(mut job) = self.leased(lease.namespace, id, fence)? {
                job.status_mut().progress = Some(progress);
                self.save(&job);
            }
        }
        let with_memos: Vec<JobId> = memos.iter().map(|(id, ..)| *id).collect();
        self.keep_memos(namespace, fence, memos)?;
        let now = self.now;
        for (id, lines) in extend.log {
            if let Some(mut job) = self.leased(lease.namespace, id, fence)? {
                let status = job.status_mut();
                append_log(&mut status.log, now, status.attempt, lines);
                self.save(&job);
            }
        }
        let mut lost = Vec::new();
        for id in extend.jobs {
            if self.leased(lease.namespace, id, fence)?.is_none() {
                lost.push(id);
            }
        }
        for id in with_memos {
            if !lost.contains(&id) && self.leased(lease.namespace, id, fence)?.is_none() {
                lost.push(id);
            }
        }
        let mut cancel_requested = Vec::new();
        for id in &lease.jobs {
            if self
                .leased(lease.namespace, *id, fence)?
                .is_some_and(|job| job.status.cancel_requested)
            {
                cancel_requested.push(*id);
            }
        }
        Ok(ExtendVerdict::Extended {
            deadline,
            lost,
            cancel_requested,
        })
    }

    /// The lease that a token names in a namespace.
    pub(super) fn lease(
        &self,
        namespace: Option<u32>,
        token: Token,
    ) -> Result<Option<std::sync::Arc<LeaseRow>>> {
        let row = self.rows.leases.get(&FenceKey { fence: token.fence })?;
        let blind = is_injected(Bug::ExtendWithoutToken);
        Ok(row.filter(|row| {
            Some(row.namespace) == namespace && (blind || row.nonce.0 == token.nonce)
        }))
    }

    /// A job if it is active under that fence.
    pub(super) fn leased(&self, namespace: u32, id: JobId, fence: u64) -> Result<Option<Loaded>> {
        let job = self.load(&JobKey { namespace, id })?;
        Ok(job.filter(|job| job.status.place == JobState::Active && job.status.fence == fence))
    }

    /// A job leaves its lease: it is no longer active. The lease goes with its last job.
    pub(super) fn leave_lease(&mut self, job: &Loaded) -> Result<()> {
        let fence = job.status.fence;
        self.derived.active.remove(&job.key);
        self.count(job.spec.queue, JobState::Active, false)?;
        self.slot_freed(job.spec.queue)?;
        self.share_freed(job)?;
        self.named_freed(job)?;
        if let Some(open) = self.derived.leases.get_mut(&fence) {
            debug_assert!(
                open.remaining > 0,
                "a lease holds the jobs that are active under it"
            );
            open.remaining = open.remaining.saturating_sub(1);
            if open.remaining == 0 {
                self.close_lease(fence);
            }
        }
        Ok(())
    }

    fn close_lease(&mut self, fence: u64) {
        self.derived.close_lease(fence);
        self.rows
            .leases
            .remove(&mut self.journal, &FenceKey { fence });
        self.rows
            .deadlines
            .remove(&mut self.journal, &FenceKey { fence });
    }

    /// Returns the jobs of leases that ran out, at least one lease if there is one; how many.
    pub(super) fn rescue(&mut self, limit: usize) -> Result<usize> {
        let mut rescued = 0;
        while rescued < limit {
            let Some((end, fence)) = self.derived.lease_ends.first().copied() else {
                break;
            };
            if end > self.now {
                break;
            }
            rescued += self.rescue_lease(fence)?;
        }
        Ok(rescued)
    }

    /// Explodes a lease: each job left in it has crashed.
    pub(super) fn rescue_lease(&mut self, fence: u64) -> Result<usize> {
        let Some(lease) = self.rows.leases.get(&FenceKey { fence })? else {
            self.close_lease(fence);
            return Ok(0);
        };
        let mut rescued = 0;
        for id in &lease.jobs {
            let job = if is_injected(Bug::RescueWithoutStateCheck) {
                let job = self.load(&JobKey {
                    namespace: lease.namespace,
                    id: *id,
                })?;
                job.filter(|job| job.status.attempt > 0 && !job.status.place.is_settled())
            } else {
                self.leased(lease.namespace, *id, fence)?
            };
            if let Some(job) = job {
                self.crash(job, lease.alone)?;
                rescued += 1;
            }
        }
        self.close_lease(fence);
        Ok(rescued)
    }

    fn crash(&mut self, mut job: Loaded, alone: bool) -> Result<()> {
        self.remember_attempt(&mut job, PastOutcome::Crashed, None);
        if job.status.place == JobState::Active {
            self.misplace_slot(job.spec.queue)?;
            self.leave_lease(&job)?;
        } else {
            self.displace(&job)?;
        }
        tracing::warn!(id = %job.key.id, attempt = job.status.attempt, "lease ran out");
        let expired = job.expires_by(self.now);
        let max_crashes = job.spec.rare.max_crashes();
        let status = job.status_mut();
        status.crashes += 1;
        if is_injected(Bug::CrashCountedAsFailure) {
            status.failures += 1;
        }
        status.fence = 0;
        if status.cancel_requested {
            status.cancelled = Some(CancelReason::Requested);
            status.stopped = Some(Stop::Killed);
            return self.settle_as(job, JobState::Cancelled);
        }
        if expired {
            status.cancelled = Some(CancelReason::Expired);
            return self.settle_as(job, JobState::Cancelled);
        }
        if alone && max_crashes.is_none_or(|max| status.crashes >= max) {
            status.dead = Some(DeadReason::Poison);
            return self.settle_as(job, JobState::Dead);
        }
        self.return_to_front(job)
    }

    /// Keeps how an attempt ended, while its lease still names its worker.
    pub(super) fn remember_attempt(
        &self,
        job: &mut Loaded,
        outcome: PastOutcome,
        error: Option<String>,
    ) {
        let open = self.derived.leases.get(&job.status.fence);
        let worker = open.map(|open| open.worker);
        let now = self.now;
        let ended_at = match open {
            Some(open) if outcome == PastOutcome::Crashed => open.deadline.min(now),
            _ => now,
        };
        let status = job.status_mut();
        let one = PastAttempt {
            attempt: status.attempt,
            started_at: status.started_at.unwrap_or(now),
            ended_at,
            outcome,
            worker,
            error,
        };
        push_attempt(&mut status.attempts, one);
    }

    /// Makes a job that was active ready at the front of its line.
    pub(super) fn return_to_front(&mut self, mut job: Loaded) -> Result<()> {
        let status = job.status_mut();
        status.place = JobState::Scheduled;
        status.front = true;
        self.end_turn(&job, false)?;
        self.save(&job);
        self.place(&job)?;
        self.changed(&job);
        Ok(())
    }

    /// The job's group is no longer kept by it as active; `holds` keeps the others back.
    pub(super) fn end_turn(&mut self, job: &Loaded, holds: bool) -> Result<()> {
        self.note_expiry(job);
        let Some(group) = job.group().map(str::to_owned) else {
            return Ok(());
        };
        let id = job.key.id;
        // While it holds and is not in line yet, the group stands in no lane.
        self.save(job);
        self.change_group(job.spec.queue, &group, |row| {
            row.active = None;
            row.holding = holds.then_some(id);
        })
    }
}

impl Derived {
    /// Knows a lease by its fence, its claim, and when it ends.
    pub(super) fn open_lease(&mut self, fence: u64, open: OpenLease) {
        let claim = (open.namespace, open.worker, open.nonce);
        self.claims.insert(claim, fence);
        let deadline = open.deadline;
        self.leases.insert(fence, open);
        self.end_lease_at(fence, deadline);
    }

    fn close_lease(&mut self, fence: u64) {
        self.forget_lease_end(fence);
        if let Some(open) = self.leases.remove(&fence) {
            let claim = (open.namespace, open.worker, open.nonce);
            self.claims.remove(&claim);
        }
    }

    pub(super) fn end_lease_at(&mut self, fence: u64, deadline: Timestamp) {
        self.forget_lease_end(fence);
        let Some(open) = self.leases.get_mut(&fence) else {
            return;
        };
        open.deadline = deadline;
        self.lease_ends.insert((deadline, fence));
        for id in &open.queues {
            if let Some(queue) = self.queues.get_mut(id) {
                queue.lease_ends.insert((deadline, fence));
                queue.leases.insert(fence);
            }
        }
    }

    fn forget_lease_end(&mut self, fence: u64) {
        let Some(open) = self.leases.get(&fence) else {
            return;
        };
        let end = (open.deadline, fence);
        self.lease_ends.remove(&end);
        for id in &open.queues {
            if let Some(queue) = self.queues.get_mut(id) {
                queue.lease_ends.remove(&end);
                queue.leases.remove(&fence);
            }
        }
    }
}
