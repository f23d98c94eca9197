//! The sweep before every call: engine time goes on, what it causes is done, a bounded part.

use std::ops::Bound;

use super::jobs::Loaded;
use super::rows::*;
use super::schedules::INSTANTS_PER_STEP;
use super::{Machine, OpenLease};
use crate::engine::Maintained;
use crate::error::Result;
use crate::injected::{Bug, is_injected};
use crate::job::JobState;
use crate::time::{Timestamp, millis};

impl Machine {
    /// Moves, expires, rescues and prunes; see [`Engine::maintain`](crate::Engine::maintain).
    pub fn maintain(&mut self, now: Timestamp) -> Result<Maintained> {
        let mut done = self.begin(now)?;
        done.pruned += self.prune_kept(self.limits.sweep)?;
        done.next = self.next_maintenance()?;
        Ok(done)
    }

    /// Lets engine time go on without a verb: an answer of any kind shows that the engine is alive.
    pub fn touch(&mut self, now: Timestamp) -> Result<()> {
        self.begin(now).map(drop)
    }

    /// Begins a step at an instant of engine time.
    pub(super) fn begin(&mut self, now: Timestamp) -> Result<Maintained> {
        self.write_ends()?;
        let silent_since = self.now;
        self.now = self.now.max(now);
        self.spare_leases_after_silence(silent_since);
        let limit = self.limits.sweep;
        let expired = self.expire(limit)?;
        let rescued = self.rescue(limit)?;
        self.derived.instants_left = INSTANTS_PER_STEP;
        let moved = self.move_due(limit)?;
        if !self.derived.low_schedules.is_empty() {
            self.refill_schedules()?;
        }
        self.end_periods(limit)?;
        let pruned = self.prune_tombstones(limit) + self.prune_kept(limit)?;
        self.sweep_flows()?;
        self.sweep_limits()?;
        self.forget_former_bounds()?;
        self.end_early_clears()?;
        self.forget_idle()?;
        Ok(Maintained {
            moved,
            expired,
            rescued,
            pruned,
            next: None,
        })
    }

    /// No worker could extend while the engine answered no call: each such lease lasts once more as
    /// long, once.
    fn spare_leases_after_silence(&mut self, since: Timestamp) {
        let gap = self.now - since;
        if since == Timestamp::ZERO || self.derived.leases.is_empty() || gap < millis(1) {
            return;
        }
        let silent = |open: &OpenLease| gap > open.lease_duration / 2 && !open.extended_after_pause;
        let leases = self.derived.leases.iter();
        let extended: Vec<u64> = leases
            .filter_map(|(fence, open)| silent(open).then_some(*fence))
            .collect();
        for fence in &extended {
            let Some(open) = self.derived.leases.get_mut(fence) else {
                continue;
            };
            open.extended_after_pause = true;
            let (lease_duration, deadline) = (
                open.lease_duration,
                open.deadline.max(self.now + open.lease_duration),
            );
            self.derived.end_lease_at(*fence, deadline);
            let row = DeadlineRow {
                deadline,
                lease_duration,
                extended_after_pause: true,
            };
            self.rows
                .deadlines
                .put(&mut self.journal, FenceKey { fence: *fence }, row);
        }
        if !extended.is_empty() {
            self.clock_jumps += 1;
            tracing::warn!(
                ?gap,
                "clock_jump: the engine answered no call for longer than half a lease; rescue waits one lease"
            );
        }
    }

    /// Remembers when a pending job expires.
    pub(super) fn watch_expiry(&mut self, job: &Loaded) {
        if let Some(at) = job.status.expires_at {
            let key = ExpiryKey {
                at,
                namespace: job.key.namespace,
                id: job.key.id,
            };
            if self
                .derived
                .expiry_low
                .as_ref()
                .is_some_and(|low| *low > key)
            {
                self.derived.expiry_low = Some(key.clone());
            }
            self.rows.expiry.put(&mut self.journal, key, ());
        }
    }

    pub(super) fn forget_expiry(&mut self, job: &Loaded) {
        if let Some(at) = job.status.expires_at {
            let key = ExpiryKey {
                at,
                namespace: job.key.namespace,
                id: job.key.id,
            };
            self.rows.expiry.remove(&mut self.journal, &key);
        }
    }

    fn expire(&mut self, limit: usize) -> Result<usize> {
        if !self.is_reached(self.derived.expiry_low.as_ref().map(|low| low.at)) {
            return Ok(0);
        }
        let end = ExpiryKey {
            at: Timestamp::from_micros(self.now.as_micros() + 1),
            namespace: 0,
            id: NIL,
        };
        let from = self
            .derived
            .expiry_low
            .as_ref()
            .map_or(Bound::Unbounded, Bound::Included);
        let found = self
            .rows
            .expiry
            .scan(from, Bound::Excluded(&end), false, limit)?;
        let mut expired = 0;
        for (key, ()) in &found {
            let job = self.load_indexed(&JobKey {
                namespace: key.namespace,
                id: key.id,
            })?;
            if job.status.place == JobState::Active {
                // Looked at again when its attempt ends.
                self.rows.expiry.remove(&mut self.journal, key);
            } else if self.expire_if_late(job)? {
                expired += 1;
            }
        }
        let from = found
            .last()
            .map_or(from_start(&self.derived.expiry_low), |(key, ())| {
                key.clone()
            });
        let next = self
            .rows
            .expiry
            .first(Bound::Included(&from), Bound::Unbounded)?;
        self.derived.expiry_low = Some(next.map_or(NEVER_EXPIRES, |(key, ())| key));
        Ok(expired)
    }

    /// Moves due jobs from the index of due times to their lines, in due order; how many.
    fn move_due(&mut self, limit: usize) -> Result<usize> {
        let mut until = self.now;
        if is_injected(Bug::EarlyByOneMillisecond) {
            until = until + millis(1);
        }
        let mut moved = 0;
        while moved < limit {
            let Some((head, queue)) = self.derived.due_heads.first().copied() else {
                break;
            };
            if head > until {
                break;
            }
            let namespace = self.queue_state(queue)?.namespace;
            let due = self
                .rows
                .due
                .pop(&mut self.journal, queue, until, limit - moved)?;
            let keys = due.iter().map(|(_, id)| JobKey { namespace, id: *id });
            self.read_ahead(&keys.collect::<Vec<_>>())?;
            // Runs of schedules come last: one may cancel another job, which must have its place.
            let mut runs = Vec::new();
            for (key, id) in &due {
                let job = self.load_indexed(&JobKey { namespace, id: *id })?;
                debug_assert_eq!(job.due_key(), *key, "the index says what the record says");
                if job.spec.rare.occurrence().is_some() && job.status.attempt == 0 {
                    runs.push(job);
                    continue;
                }
                if job.status.place == JobState::Held {
                    self.wait_timed_out(job)?;
                    continue;
                }
                self.line_up(&job)?;
                self.count(queue, JobState::Scheduled, false)?;
                self.count(queue, JobState::Ready, true)?;
                self.changed(&job);
            }
            for run in runs {
                self.move_run(run)?;
            }
            moved += due.len();
            self.refresh_due_head(queue, head)?;
        }
        Ok(moved)
    }

    /// Frees keys whose period is over.
    fn end_periods(&mut self, limit: usize) -> Result<()> {
        if !self.is_reached(self.derived.period_low.as_ref().map(|low| low.until)) {
            return Ok(());
        }
        let end = PeriodKey {
            until: Timestamp::from_micros(self.now.as_micros() + 1),
            queue: 0,
            key: String::new(),
        };
        let from = self
            .derived
            .period_low
            .as_ref()
            .map_or(Bound::Unbounded, Bound::Included);
        let found = self
            .rows
            .periods
            .scan(from, Bound::Excluded(&end), false, limit)?;
        for (period, ()) in found {
            self.forget_period(&period);
            if !self.free_orphan(&period) {
                self.holder(period.queue, &period.key)?;
            }
        }
        let next = self
            .rows
            .periods
            .first(Bound::Unbounded, Bound::Unbounded)?;
        let never = PeriodKey {
            until: Timestamp::MAX,
            queue: u32::MAX,
            key: String::new(),
        };
        self.derived.period_low = Some(next.map_or(never, |(key, ())| key));
        Ok(())
    }

    /// Removes kept jobs past their retention; how many.
    fn prune_kept(&mut self, limit: usize) -> Result<usize> {
        if !self.is_reached(self.derived.prune_low.as_ref().map(|low| low.until)) {
            return Ok(0);
        }
        let until = Timestamp::from_micros(self.now.as_micros() + 1);
        let end = PruneKey {
            until,
            queue: 0,
            state: 0,
            finished_at: Timestamp::ZERO,
            seq: 0,
        };
        let from = self
            .derived
            .prune_low
            .as_ref()
            .map_or(Bound::Unbounded, Bound::Included);
        let found = self
            .rows
            .prune
            .scan(from, Bound::Excluded(&end), false, limit)?;
        for (prune, _) in &found {
            let PruneKey {
                queue,
                state,
                finished_at,
                seq,
                ..
            } = *prune;
            let key = KeptKey {
                queue,
                state,
                finished_at,
                seq,
            };
            let kept = self
                .rows
                .kept
                .get(&key)?
                .ok_or_else(|| super::codec::damaged("retention entry"))?;
            self.remove_kept(&key, &kept)?;
        }
        let next = match found.last() {
            Some((last, _)) => self
                .rows
                .prune
                .first(Bound::Excluded(last), Bound::Unbounded)?,
            None => self.rows.prune.first(Bound::Unbounded, Bound::Unbounded)?,
        };
        let never = PruneKey {
            until: Timestamp::MAX,
            queue: u32::MAX,
            state: 0,
            finished_at: Timestamp::MAX,
            seq: 0,
        };
        self.derived.prune_low = Some(next.map_or(never, |(key, _)| key));
        Ok(found.len())
    }

    /// Whether the first instant of an order has come; an order that was never read is read.
    fn is_reached(&self, low: Option<Timestamp>) -> bool {
        low.is_none_or(|at| at <= self.now)
    }

    /// The earliest instant at which something is to be done.
    fn next_maintenance(&self) -> Result<Option<Timestamp>> {
        let derived = &self.derived;
        let due = derived.due_heads.first().map(|(at, _)| *at);
        let lease = derived.lease_ends.first().map(|(at, _)| *at);
        let expiry = derived.expiry_low.as_ref().map(|key| key.at);
        let prune = derived.prune_low.as_ref().map(|key| key.until);
        let period = derived.period_low.as_ref().map(|key| key.until);
        let tombstone = derived.tombstones.next(self.limits.settled_window);
        let low = (!derived.low_schedules.is_empty()).then_some(self.now);
        let flow = derived.flows.next(self.now);
        let all = [due, lease, expiry, prune, period, tombstone, low, flow];
        Ok(all
            .into_iter()
            .flatten()
            .filter(|at| *at < Timestamp::MAX)
            .min())
    }
}

const NIL: crate::job::JobId = crate::job::JobId::from_bytes([0; 16]);
const NEVER_EXPIRES: ExpiryKey = ExpiryKey {
    at: Timestamp::MAX,
    namespace: u32::MAX,
    id: NIL,
};

fn from_start(low: &Option<ExpiryKey>) -> ExpiryKey {
    low.clone().unwrap_or(ExpiryKey {
        at: Timestamp::ZERO,
        namespace: 0,
        id: NIL,
    })
}
