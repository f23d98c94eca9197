//! Settle: how attempts ended, with what they cause.

use bytes::Bytes;

use super::Machine;
use super::enqueue::Checked;
use super::jobs::Loaded;
use super::rows::*;
use crate::engine::{
    Action, EnqueueVerdict, LeaseReport, Namespace, Settle, SettleVerdict, Settlement, Token,
};
use crate::error::Result;
use crate::injected::{Bug, is_injected};
use crate::job::{
    CancelReason, DeadReason, Effect, JobId, JobState, OnRetry, Outcome, PastOutcome, Stop,
    append_log,
};
use crate::time::Timestamp;

/// An effect whose fields are checked.
pub(super) enum CheckedEffect {
    Enqueue(Box<Checked>),
    Clear { job: JobId, name: String },
    Cancel { queue: String, key: String },
    Signal { job: JobId, signal: Action },
}

impl Machine {
    /// Settles attempts; see [`Engine::settle`](crate::Engine::settle).
    pub fn settle(
        &mut self,
        now: Timestamp,
        namespace: &Namespace,
        settle: Settle,
    ) -> Result<Vec<Vec<SettleVerdict>>> {
        self.checks(now).settle(&settle)?;
        let effects = Self::effects_of(now.max(self.now), &settle);
        self.begin(now)?;
        let namespace = self.namespace_or_new(namespace);
        let mut effects = effects.into_iter();
        let mut verdicts = Vec::with_capacity(settle.leases.len());
        for LeaseReport {
            token,
            settlements,
            lateness_us,
            run_time_us,
        } in settle.leases
        {
            let mut of_lease = Vec::with_capacity(settlements.len());
            let mut queue = None;
            for settlement in settlements {
                let effects = effects.next().unwrap_or_default();
                of_lease.push(self.settle_one(namespace, token, settlement, effects, &mut queue)?);
            }
            if let Some(queue) = queue {
                self.history
                    .measured(queue, self.now, &lateness_us, &run_time_us);
            }
            verdicts.push(of_lease);
        }
        Ok(verdicts)
    }

    /// The effects of each settlement, with the due of new jobs; checks have passed.
    fn effects_of(now: Timestamp, settle: &Settle) -> Vec<Vec<CheckedEffect>> {
        let all = settle.leases.iter().flat_map(|lease| &lease.settlements);
        all.map(|one| Self::checked_effects(now, &one.effects))
            .collect()
    }

    /// Effects with the due of new jobs; checks have passed.
    pub(super) fn checked_effects(now: Timestamp, effects: &[Effect]) -> Vec<CheckedEffect> {
        let checked = |effect: &Effect| match effect {
            Effect::Enqueue(job) => {
                CheckedEffect::Enqueue(Box::new(Checked::new(now, (**job).clone())))
            }
            Effect::Clear { job, name } => CheckedEffect::Clear {
                job: *job,
                name: name.clone(),
            },
            Effect::Cancel { queue, key } => CheckedEffect::Cancel {
                queue: queue.clone(),
                key: key.clone(),
            },
            Effect::Signal { job, name, payload } => CheckedEffect::Signal {
                job: *job,
                signal: Action::Signal {
                    name: name.clone(),
                    payload: payload.clone(),
                },
            },
        };
        effects.iter().map(checked).collect()
    }

    fn settle_one(
        &mut self,
        namespace: u32,
        token: Token,
        settlement: Settlement,
        effects: Vec<CheckedEffect>,
        queue: &mut Option<u32>,
    ) -> Result<SettleVerdict> {
        let Some(job) = self.held_under(namespace, token, &settlement)? else {
            if is_injected(Bug::EffectsOutsideStep) {
                self.bring_about(namespace, effects, false)?;
            }
            return self.repeated_or_lost(namespace, token, &settlement);
        };
        if let Some(guard) = &settlement.guard
            && let Some(version) = self.guard_conflict(namespace, guard)?
        {
            return Ok(SettleVerdict::GuardConflict { version });
        }
        queue.get_or_insert(job.spec.queue);
        let key = job.key.clone();
        // Nothing is left to look up of a completed job that is not kept.
        let is_gone = settlement.outcome == Outcome::Completed && job.spec.retention.is_zero();
        self.end_attempt(job, token, settlement)?;
        let effects = self.bring_about(namespace, effects, false)?;
        let left = if is_gone { None } else { self.load(&key)? };
        let (state, due) = match left {
            Some(job) => (
                job.status.state(self.now),
                job.status.place.is_pending().then_some(job.status.due),
            ),
            None if is_gone => (JobState::Completed, None),
            // Its own effects may have ended it, as a replaced job or one too many, and it is not
            // kept.
            None => {
                let tombstone = self.rows.tombstones.get(&key)?;
                (
                    tombstone.map_or(JobState::Completed, |tombstone| tombstone.state),
                    None,
                )
            }
        };
        Ok(SettleVerdict::Settled {
            state,
            due,
            effects,
        })
    }

    /// The job if token and attempt are its lease.
    fn held_under(
        &self,
        namespace: u32,
        token: Token,
        settlement: &Settlement,
    ) -> Result<Option<Loaded>> {
        if is_injected(Bug::SettleWithoutToken) {
            let job = self.load(&JobKey {
                namespace,
                id: settlement.id,
            })?;
            return Ok(job.filter(|job| job.status.place == JobState::Active));
        }
        if self.lease(Some(namespace), token)?.is_none() {
            return Ok(None);
        }
        let job = self.leased(namespace, settlement.id, token.fence)?;
        Ok(job.filter(|job| job.status.attempt == settlement.attempt))
    }

    fn repeated_or_lost(
        &self,
        namespace: u32,
        token: Token,
        settlement: &Settlement,
    ) -> Result<SettleVerdict> {
        let key = JobKey {
            namespace,
            id: settlement.id,
        };
        let settled = match self.rows.status.get(&key)? {
            Some(status) => status.settled,
            None => self
                .rows
                .tombstones
                .get(&key)?
                .and_then(|tombstone| tombstone.settled),
        };
        let same = settled == Some((settlement.attempt, seal(token)));
        Ok(if same {
            SettleVerdict::Repeated
        } else {
            SettleVerdict::LeaseLost
        })
    }

    fn end_attempt(&mut self, mut job: Loaded, token: Token, settlement: Settlement) -> Result<()> {
        let error = settlement
            .error
            .as_deref()
            .map(|text| self.bounded_text(text));
        if let Some(outcome) = PastOutcome::of(&settlement.outcome) {
            self.remember_attempt(&mut job, outcome, error.clone());
        }
        self.leave_lease(&job)?;
        let (now, id, queue) = (self.now, job.key.id, job.spec.queue);
        let spec = job.spec.clone();
        let status = job.status_mut();
        if !settlement.log.is_empty() {
            append_log(&mut status.log, now, settlement.attempt, settlement.log);
        }
        status.fence = 0;
        status.settled = Some((settlement.attempt, seal(token)));
        if error.is_some() {
            status.last_error = error;
        }
        let failed = matches!(settlement.outcome, Outcome::Retry { .. } | Outcome::Dead);
        let miscounted =
            is_injected(Bug::FailuresCountedOnRelease) && settlement.outcome == Outcome::Released;
        if failed || miscounted {
            status.failures += 1;
            self.history.failed(queue, now);
        }
        let again = match settlement.outcome {
            Outcome::Completed => {
                status.result = settlement.result;
                return self.settle_as(job, JobState::Completed);
            }
            Outcome::Cancelled => {
                status.cancelled = Some(CancelReason::Requested);
                let asked = status.cancel_requested.then_some(Stop::Token);
                status.stopped = settlement.stopped.or(asked);
                return self.settle_as(job, JobState::Cancelled);
            }
            Outcome::Dead => {
                status.dead = Some(DeadReason::Permanent);
                return self.settle_as(job, JobState::Dead);
            }
            Outcome::Retry { after } => {
                Some(after.unwrap_or_else(|| spec.retry.span(id, status.failures)))
            }
            Outcome::Snooze { after } => Some(after),
            Outcome::Released | Outcome::Hold { .. } => None,
        };
        if status.cancel_requested {
            status.cancelled = Some(CancelReason::Requested);
            status.stopped = Some(settlement.stopped.unwrap_or(Stop::Token));
            return self.settle_as(job, JobState::Cancelled);
        }
        if failed && status.failures >= spec.max_attempts {
            status.dead = Some(DeadReason::Exhausted);
            return self.settle_as(job, JobState::Dead);
        }
        if status.expires_at.is_some_and(|at| at <= now) {
            status.cancelled = Some(CancelReason::Expired);
            return self.settle_as(job, JobState::Cancelled);
        }
        if let Outcome::Hold { names, limit } = settlement.outcome {
            return self.hold(job, names, limit);
        }
        match again {
            None => self.return_to_front(job),
            Some(span) => {
                status.due = now + span;
                self.wait_again(job)
            }
        }
    }

    /// A retried or snoozed job waits for its next attempt, and with `OnRetry::Hold` its group too.
    fn wait_again(&mut self, mut job: Loaded) -> Result<()> {
        let holds = job
            .spec
            .group
            .as_ref()
            .is_some_and(|group| group.on_retry == OnRetry::Hold);
        let status = job.status_mut();
        status.place = JobState::Scheduled;
        status.front = false;
        self.end_turn(&job, holds)?;
        self.save(&job);
        self.place(&job)?;
        self.changed(&job);
        if is_injected(Bug::NewIdOnRetry) {
            self.rename(job)?;
        }
        Ok(())
    }

    /// The injected bug of a retry under a new id.
    fn rename(&mut self, job: Loaded) -> Result<()> {
        self.displace(&job)?;
        self.rows.specs.remove(&mut self.journal, &job.key);
        self.rows.status.remove(&mut self.journal, &job.key);
        let key = JobKey {
            id: job.key.id.in_shard(1),
            ..job.key
        };
        let job = Loaded { key, ..job };
        self.rows
            .specs
            .insert(&mut self.journal, job.key.clone(), job.spec.clone());
        self.save(&job);
        self.place(&job)
    }

    /// Causes effects; `bounded` if `max_pending` may refuse their jobs.
    pub(super) fn bring_about(
        &mut self,
        namespace: u32,
        effects: Vec<CheckedEffect>,
        bounded: bool,
    ) -> Result<Vec<Option<EnqueueVerdict>>> {
        let mut verdicts = Vec::with_capacity(effects.len());
        for effect in effects {
            verdicts.push(match effect {
                CheckedEffect::Enqueue(job) => {
                    Some(self.enqueue_one(namespace, *job, bounded)?.verdict)
                }
                CheckedEffect::Clear { job, name } => {
                    self.clear(&JobKey { namespace, id: job }, &name)?;
                    None
                }
                CheckedEffect::Cancel { queue, key } => {
                    if let Some(id) = self.holder_of(namespace, &queue, &key)? {
                        self.edit_one(JobKey { namespace, id }, &Action::Cancel, false)?;
                    }
                    None
                }
                CheckedEffect::Signal { job, signal } => {
                    self.edit_one(JobKey { namespace, id: job }, &signal, false)?;
                    None
                }
            });
        }
        Ok(verdicts)
    }

    /// Clears a name that a held job waits for; one that waits for nothing more takes its place.
    /// The clear of a job that is not known waits for it.
    fn clear(&mut self, key: &JobKey, name: &str) -> Result<()> {
        let Some(mut job) = self.load(key)? else {
            return match self.rows.tombstones.get(key)? {
                Some(_) => Ok(()),
                None => self.keep_clear(key, name),
            };
        };
        if job.status.place != JobState::Held || self.expire_if_late(job.clone())? {
            return Ok(());
        }
        if job.holds() {
            return self.signal(job, name, &Bytes::new(), false).map(drop);
        }
        if !job.status.wait_for.iter().any(|waits| waits == name) {
            return Ok(());
        }
        let runs = job.status.wait_for.len() == 1
            && job.status.follows.is_none()
            && !self.is_held_back(&job)?;
        if runs {
            self.displace(&job)?;
        }
        let status = job.status_mut();
        status.wait_for.retain(|waits| waits != name);
        if runs {
            status.place = JobState::Scheduled;
        }
        self.save(&job);
        if runs {
            self.place(&job)?;
            self.changed(&job);
        }
        Ok(())
    }
}

/// Fence and nonce of a token in one number, to know its repetition.
fn seal(token: Token) -> u64 {
    token.fence ^ token.nonce.rotate_left(17)
}
