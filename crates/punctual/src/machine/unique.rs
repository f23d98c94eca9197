//! Unique keys: at most one unsettled job of a queue holds one; it lives and dies with its job.

use std::sync::Arc;
use std::time::Duration;

use super::Machine;
use super::enqueue::content_of;
use super::jobs::Loaded;
use super::rows::*;
use crate::engine::EnqueueVerdict;
use crate::error::Result;
use crate::injected::{Bug, is_injected};
use crate::job::{CancelReason, Hold, JobId, JobState, NewJob, Stop, Unique, UniquePolicy};
use crate::time::Timestamp;

/// What an enqueue may do about its key.
pub(super) enum KeyVerdict {
    /// The key is free (or there is none): store the job and let it hold the key.
    Free,
    /// Store the job after this waiting holder is cancelled.
    Replaces(Box<Loaded>),
    /// Store the job held, behind this active holder.
    Follows(JobId),
    /// Do not store the job: give this waiting one its content and due.
    Refreshes(Box<Loaded>, Duration),
    /// Do not store the job.
    Refused(EnqueueVerdict),
}

impl Machine {
    /// The holder of a key now; one whose period or job has expired is none.
    pub(super) fn holder(&mut self, queue: u32, key: &str) -> Result<Option<Holder>> {
        let text = QueueText {
            queue,
            text: key.to_owned(),
        };
        let Some(row) = self.rows.unique.get(&text)? else {
            return Ok(None);
        };
        if row.until.is_some_and(|until| until <= self.now) {
            self.end_period(&text, &row)?;
            return self.holder(queue, key);
        }
        let namespace = self.queue_state(queue)?.namespace;
        if let Some(job) = self.load(&JobKey {
            namespace,
            id: row.id,
        })? && self.expire_if_late(job)?
        {
            return self.rows.unique.get(&text);
        }
        Ok(Some(row))
    }

    /// What becomes of the job with that id and key.
    pub(super) fn key_verdict(
        &mut self,
        queue: u32,
        id: JobId,
        unique: &Unique,
    ) -> Result<KeyVerdict> {
        let Some(holder) = self.holder(queue, &unique.key)? else {
            return Ok(KeyVerdict::Free);
        };
        let namespace = self.queue_state(queue)?.namespace;
        let job = self.load(&JobKey {
            namespace,
            id: holder.id,
        })?;
        // A key held for a period outlives its job, whose id may since be that of another one.
        let holds = |job: &Loaded| {
            let key = job.spec.unique.as_ref().map(|held| &held.key);
            job.spec.queue == queue && key == Some(&unique.key)
        };
        let job = job.filter(holds);
        let state = job.as_ref().map(|job| job.status.place);
        if let (UniquePolicy::Refresh { max_wait }, Some(job)) = (unique.policy, &job)
            && !job.status.place.is_settled()
        {
            return self.refresh_verdict(id, max_wait, &holder, job.clone());
        }
        let merged = KeyVerdict::Refused(EnqueueVerdict::Merged(match unique.policy {
            UniquePolicy::After | UniquePolicy::Refresh { .. } => {
                holder.follower.unwrap_or(holder.id)
            }
            UniquePolicy::Keep | UniquePolicy::Replace => holder.id,
        }));
        Ok(match (unique.policy, state) {
            (UniquePolicy::Replace, Some(JobState::Active)) => {
                KeyVerdict::Refused(EnqueueVerdict::UniqueActive(holder.id))
            }
            (UniquePolicy::Replace, Some(state)) if !state.is_settled() => match job {
                Some(job) => KeyVerdict::Replaces(Box::new(job)),
                None => merged,
            },
            (UniquePolicy::After, Some(JobState::Active)) if holder.follower.is_none() => {
                KeyVerdict::Follows(holder.id)
            }
            _ => merged,
        })
    }

    /// The same for one that refreshes: the last of holder and follower that waits serves for it.
    fn refresh_verdict(
        &mut self,
        id: JobId,
        max_wait: Duration,
        holder: &Holder,
        job: Loaded,
    ) -> Result<KeyVerdict> {
        let is_active = job.status.place == JobState::Active;
        let key = |id| JobKey { id, ..job.key };
        let follower = match holder.follower {
            Some(follower) => Some(self.load_indexed(&key(follower))?),
            None => None,
        };
        for known in [Some(&job), follower.as_ref()].into_iter().flatten() {
            if known.spec.rare.was_refreshed_by(id) {
                let verdict = EnqueueVerdict::Refreshed(known.key.id);
                return Ok(KeyVerdict::Refused(verdict));
            }
        }
        Ok(match follower {
            Some(follower) => KeyVerdict::Refreshes(Box::new(follower), max_wait),
            None if is_active => KeyVerdict::Follows(holder.id),
            None => KeyVerdict::Refreshes(Box::new(job), max_wait),
        })
    }

    /// Gives a waiting job the content of another, and its due unless it was claimed before; what
    /// its due is then.
    pub(super) fn refresh(
        &mut self,
        mut job: Loaded,
        max_wait: Duration,
        new: NewJob,
        asked: Timestamp,
    ) -> Result<Timestamp> {
        let queue = self.queue_state(job.spec.queue)?.name.clone();
        let sent = content_of(&queue, &job.spec);
        let spec = Arc::make_mut(&mut job.spec);
        spec.rare.set_sent(sent);
        spec.rare.add_refreshed(new.id);
        spec.kind = new.kind;
        spec.payload = new.payload;
        spec.content_type = new.content_type;
        spec.headers = new.headers;
        self.rows
            .specs
            .put(&mut self.journal, job.key.clone(), job.spec.clone());
        let last = job.spec.enqueued_at.checked_add(max_wait);
        let due = asked.min(last.unwrap_or(Timestamp::MAX)).max(self.now);
        if job.status.attempt > 0 || job.spec.rare.occurrence().is_some() || due == job.status.due {
            self.changed(&job);
            return Ok(job.status.due);
        }
        self.move_job(job, |status, _| status.due = due)?;
        Ok(due)
    }

    /// Lets a stored job hold its key.
    pub(super) fn take_key(&mut self, job: &Loaded) -> Result<()> {
        let Some(unique) = &job.spec.unique else {
            return Ok(());
        };
        let queue = job.spec.queue;
        let until = match unique.hold {
            Hold::For(span) => Some(job.spec.enqueued_at + span),
            _ => None,
        };
        if let Some(until) = until {
            let period = PeriodKey {
                until,
                queue,
                key: unique.key.clone(),
            };
            if self
                .derived
                .period_low
                .as_ref()
                .is_some_and(|low| *low > period)
            {
                self.derived.period_low = Some(period.clone());
            }
            self.rows.periods.put(&mut self.journal, period, ());
        }
        let text = QueueText {
            queue,
            text: unique.key.clone(),
        };
        let row = Holder {
            id: job.key.id,
            until,
            follower: None,
        };
        self.rows.unique.put(&mut self.journal, text, row);
        Ok(())
    }

    /// Makes a stored job the follower of the holder of its key.
    pub(super) fn follow(&mut self, queue: u32, key: &str, follower: JobId) -> Result<()> {
        let text = QueueText {
            queue,
            text: key.to_owned(),
        };
        if let Some(mut row) = self.rows.unique.get(&text)? {
            debug_assert!(row.follower.is_none(), "a holder has one follower");
            row.follower = Some(follower);
            if let Some(until) = row.until {
                self.note_period(queue, key, until);
            }
            self.rows.unique.put(&mut self.journal, text, row);
        }
        Ok(())
    }

    /// The job has settled (or started, for `Hold::UntilStarted`): its key is free, its follower
    /// starts.
    pub(super) fn free_key(&mut self, job: &Loaded) -> Result<()> {
        let Some(unique) = &job.spec.unique else {
            return Ok(());
        };
        if is_injected(Bug::UniqueKeyLeftBehind) && job.status.place == JobState::Completed {
            return Ok(());
        }
        let text = QueueText {
            queue: job.spec.queue,
            text: unique.key.clone(),
        };
        let Some(mut row) = self.rows.unique.get(&text)? else {
            return Ok(());
        };
        if row.follower == Some(job.key.id) {
            row.follower = None;
            self.rows.unique.put(&mut self.journal, text, row);
            return Ok(());
        }
        if row.id != job.key.id {
            return Ok(());
        }
        match row.follower {
            Some(follower) => self.start_follower(job.key.namespace, text, &row, follower),
            None if row.until.is_some_and(|until| until > self.now) => Ok(()),
            None => self.end_period(&text, &row),
        }
    }

    /// Ends a holding, and its period if it has one; the key is the follower's, or free.
    fn end_period(&mut self, text: &QueueText, row: &Holder) -> Result<()> {
        if let Some(follower) = row.follower {
            let namespace = self.queue_state(text.queue)?.namespace;
            return self.start_follower(namespace, text.clone(), row, follower);
        }
        if let Some(until) = row.until {
            let period = PeriodKey {
                until,
                queue: text.queue,
                key: text.text.clone(),
            };
            self.forget_period(&period);
        }
        self.rows.unique.remove(&mut self.journal, text);
        Ok(())
    }

    fn start_follower(
        &mut self,
        namespace: u32,
        text: QueueText,
        row: &Holder,
        id: JobId,
    ) -> Result<()> {
        if let Some(until) = row.until {
            let period = PeriodKey {
                until,
                queue: text.queue,
                key: text.text.clone(),
            };
            self.forget_period(&period);
        }
        let key = JobKey { namespace, id };
        let job = self.load_indexed(&key)?;
        self.take_key(&job)?;
        self.release_follower(&key)
    }

    fn release_follower(&mut self, key: &JobKey) -> Result<()> {
        let mut job = self.load_indexed(key)?;
        if job.status.follows.is_none() {
            return Ok(());
        }
        let is_held_back = self.is_held_back(&job)?;
        self.displace(&job)?;
        let status = job.status_mut();
        status.follows = None;
        if status.wait_for.is_empty() && !is_held_back {
            status.place = JobState::Scheduled;
        }
        self.save(&job);
        self.place(&job)?;
        self.changed(&job);
        Ok(())
    }

    /// A holder, and the job that follows it if there is one.
    pub(super) fn holder_and_follower(&self, holder: &Loaded) -> Result<Vec<JobId>> {
        let mut ids = vec![holder.key.id];
        if let Some(unique) = &holder.spec.unique {
            let text = QueueText {
                queue: holder.spec.queue,
                text: unique.key.clone(),
            };
            let row = self.rows.unique.get(&text)?;
            ids.extend(row.and_then(|row| row.follower));
        }
        Ok(ids)
    }

    /// Cancels a waiting holder, and its follower first, because another job takes the key.
    pub(super) fn replace_holder(&mut self, holder: Loaded) -> Result<()> {
        for id in self.holder_and_follower(&holder)?.into_iter().skip(1) {
            let follower = self.load_indexed(&JobKey {
                namespace: holder.key.namespace,
                id,
            })?;
            self.cancel_waiting(follower, CancelReason::Replaced)?;
        }
        self.cancel_waiting(holder, CancelReason::Replaced)
    }

    /// Settles a pending job as cancelled.
    pub(super) fn cancel_waiting(&mut self, mut job: Loaded, reason: CancelReason) -> Result<()> {
        if !is_injected(Bug::StaleIndexEntryClaimed)
            || job.status.state(self.now) != JobState::Ready
        {
            self.displace(&job)?;
        }
        let status = job.status_mut();
        status.cancelled = Some(reason);
        if reason == CancelReason::Requested {
            status.stopped = Some(Stop::BeforeStart);
        }
        self.settle_as(job, JobState::Cancelled)
    }

    /// Expires a pending job whose instant has passed; whether it did.
    pub(super) fn expire_if_late(&mut self, job: Loaded) -> Result<bool> {
        let late = job.expires_by(self.now) && job.status.place.is_pending();
        if late {
            self.cancel_waiting(job, CancelReason::Expired)?;
        }
        Ok(late)
    }
}
