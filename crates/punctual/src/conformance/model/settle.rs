//! The reference model: settle.

use crate::engine::{Action, EnqueueVerdict, LeaseReport, SettleVerdict, Settlement, Token};
use crate::error::{Error, ErrorKind, Result};
use crate::job::{
    CancelReason, DeadReason, Effect, JobId, JobState, NewJob, Outcome, PastOutcome, Stop,
};
use crate::time::{Timestamp, hours};

use super::enqueue::due_of;
use super::{Space, Turn};

fn job_of(effect: &Effect) -> Option<NewJob> {
    match effect {
        Effect::Enqueue(job) => Some((**job).clone()),
        _ => None,
    }
}

impl Space {
    /// Settles attempts, each with its effects.
    pub(crate) fn settle(
        &mut self,
        now: Timestamp,
        leases: &[LeaseReport],
    ) -> Result<Vec<Vec<SettleVerdict>>> {
        self.check_settle(now, leases)?;
        let verdicts = (leases.iter())
            .map(|lease| {
                (lease.settlements.iter())
                    .map(|settlement| self.settle_one(now, lease.token, settlement))
                    .collect()
            })
            .collect();
        self.prune(now);
        Ok(verdicts)
    }

    fn check_settle(&self, now: Timestamp, leases: &[LeaseReport]) -> Result<()> {
        let all = || leases.iter().flat_map(|lease| &lease.settlements);
        let effects = all().flat_map(|settlement| &settlement.effects);
        self.check_bytes(&effects.filter_map(job_of).collect::<Vec<_>>())?;
        for settlement in all() {
            let result = settlement.result.as_ref().map_or(0, |bytes| bytes.len());
            if result > self.limits.result_bytes {
                return Err(Error::new(
                    ErrorKind::PayloadTooLarge,
                    "result is too large",
                ));
            }
            if settlement.effects.len() > self.limits.effects {
                return Err(Error::new(ErrorKind::BatchTooLarge, "too many effects"));
            }
            for job in settlement.effects.iter().filter_map(job_of) {
                job.check(&self.limits)?;
                due_of(job.due, now)?;
            }
        }
        Ok(())
    }

    /// Checks the jobs of guarded effects.
    pub(super) fn check_jobs_of(&self, now: Timestamp, effects: &[Effect]) -> Result<()> {
        let jobs: Vec<NewJob> = effects.iter().filter_map(job_of).collect();
        self.check_bytes(&jobs)?;
        for job in jobs {
            job.check(&self.limits)?;
            due_of(job.due, now)?;
        }
        Ok(())
    }

    fn settle_one(
        &mut self,
        now: Timestamp,
        token: Token,
        settlement: &Settlement,
    ) -> SettleVerdict {
        let Some(job) = self.find(settlement.id) else {
            return SettleVerdict::LeaseLost;
        };
        let under = (token, settlement.attempt);
        if self.jobs[job].settled_under == Some(under) {
            return SettleVerdict::Repeated;
        }
        let leased = |holding: usize| self.holdings[holding].jobs.contains(&settlement.id);
        let is_leased = self.holding(token).is_some_and(leased);
        if !is_leased || self.jobs[job].record.attempt != settlement.attempt {
            return SettleVerdict::LeaseLost;
        }
        if let Some(guard) = &settlement.guard
            && self.version_of(guard) != guard.version
        {
            let version = self.version_of(guard);
            return SettleVerdict::GuardConflict { version };
        }
        self.jobs[job].settled_under = Some(under);
        self.apply(job, now, settlement);
        let effects = (settlement.effects.iter())
            .map(|effect| self.take_effect(now, effect, false))
            .collect();
        let state = self.jobs[job].state(now);
        let due = self.jobs[job].record.due;
        SettleVerdict::Settled {
            state,
            due: matches!(state, JobState::Scheduled | JobState::Ready).then_some(due),
            effects,
        }
    }

    fn apply(&mut self, job: usize, now: Timestamp, settlement: &Settlement) {
        // The errors of a history are of one byte per character.
        let kept = self.limits.result_bytes;
        self.log(job, now, &settlement.log);
        let record = &mut self.jobs[job].record;
        if let Some(error) = &settlement.error {
            record.last_error = Some(error.chars().take(kept).collect());
        }
        let past = match settlement.outcome {
            Outcome::Completed => None,
            Outcome::Retry { .. } => Some(PastOutcome::Retry),
            Outcome::Snooze { .. } => Some(PastOutcome::Snooze),
            Outcome::Cancelled => Some(PastOutcome::Cancelled),
            Outcome::Dead => Some(PastOutcome::Dead),
            Outcome::Released => Some(PastOutcome::Released),
            Outcome::Hold { .. } => Some(PastOutcome::Hold),
        };
        if let Some(past) = past {
            let error = settlement.error.as_ref().and(record.last_error.clone());
            self.jobs[job].announce_attempt(now, past, error);
        }
        let record = &mut self.jobs[job].record;
        match settlement.outcome {
            Outcome::Completed => {
                record.result = settlement.result.clone();
                self.end(job, now, JobState::Completed);
            }
            Outcome::Dead => {
                record.failures += 1;
                self.bury(job, now, DeadReason::Permanent);
            }
            Outcome::Cancelled => {
                let token = record.cancel_requested.then_some(Stop::Token);
                let stopped = settlement.stopped.or(token);
                self.cancel(job, now, CancelReason::Requested, stopped);
            }
            Outcome::Retry { after } => {
                record.failures += 1;
                let span = after.unwrap_or_else(|| record.retry.span(record.id, record.failures));
                let exhausted = record.failures >= record.max_attempts;
                if exhausted && !record.cancel_requested {
                    self.bury(job, now, DeadReason::Exhausted);
                } else {
                    self.delay(job, now, settlement, Some(now + span));
                }
            }
            Outcome::Snooze { after } => self.delay(job, now, settlement, Some(now + after)),
            // Histories have no holds.
            Outcome::Released | Outcome::Hold { .. } => self.delay(job, now, settlement, None),
        }
    }

    /// Retry and snooze give a due, release gives none: unless the job is to end, it waits again.
    fn delay(
        &mut self,
        job: usize,
        now: Timestamp,
        settlement: &Settlement,
        due: Option<Timestamp>,
    ) {
        let record = &mut self.jobs[job].record;
        if record.cancel_requested {
            let stopped = settlement.stopped.unwrap_or(Stop::Token);
            self.cancel(job, now, CancelReason::Requested, Some(stopped));
        } else if record.expires_at.is_some_and(|at| at <= now) {
            self.cancel(job, now, CancelReason::Expired, None);
        } else {
            record.due = due.unwrap_or(record.due);
            let turn = if due.is_some() {
                Turn::Again
            } else {
                Turn::Front
            };
            self.wait_again(job, turn);
        }
    }

    /// Causes an effect; `bounded` if `max_pending` may refuse its job.
    pub(super) fn take_effect(
        &mut self,
        now: Timestamp,
        effect: &Effect,
        bounded: bool,
    ) -> Option<EnqueueVerdict> {
        match effect {
            Effect::Enqueue(job) => Some(self.enqueue_one(now, job, bounded).verdict),
            Effect::Clear { job, name } => {
                self.clear(now, *job, name);
                None
            }
            Effect::Cancel { queue, key } => {
                if let Some(holder) = self.holder(queue, key, now) {
                    self.edit_one(holder, now, &Action::Cancel);
                }
                None
            }
            // Histories have none.
            Effect::Signal { .. } => None,
        }
    }

    fn clear(&mut self, now: Timestamp, job: JobId, name: &str) {
        if self.find(job).is_none() {
            self.early_clears
                .retain(|(of, cleared, _)| *of != job || cleared != name);
            self.early_clears
                .push((job, name.to_owned(), now + hours(1)));
        }
        if let Some(job) = self.find_whole(job) {
            let entry = &mut self.jobs[job];
            if entry.record.state == JobState::Held {
                entry.record.wait_for.retain(|left| left != name);
                self.start_if_nothing_holds(job);
            }
        }
    }
}
