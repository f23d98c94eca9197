//! The reference model: edits.

use crate::engine::{Action, EditVerdict, Filter, Target};
use crate::error::{Error, ErrorKind, Result};
use crate::job::{CancelReason, JobId, JobState, Stop};
use crate::time::Timestamp;

use super::enqueue::due_of;
use super::{Left, Space, Turn};

impl Space {
    /// The verdict on each target, in order; a dry run judges each as things stand.
    pub(crate) fn edit(
        &mut self,
        now: Timestamp,
        targets: &[Target],
        action: &Action,
        dry_run: bool,
    ) -> Result<Vec<(Option<JobId>, EditVerdict)>> {
        check(action, now)?;
        if let Action::UpdatePayload(payload) = action {
            self.check_payloads(payload.len(), targets.len())?;
        }
        let verdict = |target: &Target| {
            let Some(job) = self.target(target, now) else {
                return (self.named(target, now), EditVerdict::NotFound);
            };
            let id = self.jobs[job].record.id;
            let verdict = if dry_run {
                self.clone().edit_one(job, now, action)
            } else {
                self.edit_one(job, now, action)
            };
            (Some(id), verdict)
        };
        Ok(targets.iter().map(verdict).collect())
    }

    fn check_payloads(&self, bytes: usize, jobs: usize) -> Result<()> {
        let limits = &self.limits;
        let refused = |kind| Err(Error::new(kind, "payload is out of bounds"));
        match bytes {
            bytes if bytes > limits.payload_bytes => refused(ErrorKind::PayloadTooLarge),
            bytes if bytes * jobs > limits.batch_bytes => refused(ErrorKind::BatchTooLarge),
            _ => Ok(()),
        }
    }

    /// The ids that a filter finds now.
    pub(crate) fn found_by(&self, now: Timestamp, filter: &Filter) -> Vec<JobId> {
        (self.jobs.iter())
            .filter(|job| job.left == Left::Whole && filter.matches(&job.seen(now), now))
            .map(|job| job.record.id)
            .collect()
    }

    /// The job or tombstone that a target names.
    pub(crate) fn target(&self, target: &Target, now: Timestamp) -> Option<usize> {
        match target {
            Target::Id(id) => self.find(*id),
            Target::Unique { queue, key } => {
                (self.holder(queue, key, now)).filter(|job| self.jobs[*job].left != Left::Nothing)
            }
        }
    }

    /// The id that a target names, of a job that is not known any more too.
    fn named(&self, target: &Target, now: Timestamp) -> Option<JobId> {
        match target {
            Target::Id(id) => Some(*id),
            Target::Unique { queue, key } => {
                (self.holder(queue, key, now)).map(|holder| self.jobs[holder].record.id)
            }
        }
    }

    pub(super) fn edit_one(&mut self, job: usize, now: Timestamp, action: &Action) -> EditVerdict {
        use EditVerdict::{AlreadyCancelled, CancelRequested, Done, JobActive, WrongState};
        let state = self.jobs[job].state(now);
        let pending = state.is_pending();
        match action {
            Action::Cancel if pending => {
                let stopped = Some(Stop::BeforeStart);
                self.cancel(job, now, CancelReason::Requested, stopped);
                Done(JobState::Cancelled)
            }
            Action::Cancel if state == JobState::Active => {
                self.jobs[job].record.cancel_requested = true;
                CancelRequested
            }
            Action::Cancel if state == JobState::Cancelled => AlreadyCancelled,
            _ if state == JobState::Active => JobActive,
            Action::Reschedule(due) if pending => {
                let entry = &mut self.jobs[job];
                entry.record.due = due_of(*due, now).unwrap_or(now);
                if entry.turn == Turn::Front {
                    entry.turn = Turn::ByDue;
                }
                Done(entry.state(now))
            }
            Action::RunNow if state == JobState::Ready => Done(JobState::Ready),
            Action::RunNow if pending && self.jobs[job].follows.is_none() => {
                let entry = &mut self.jobs[job];
                entry.record.wait_for.clear();
                entry.record.due = entry.record.due.min(now);
                entry.record.state = JobState::Scheduled;
                Done(JobState::Ready)
            }
            Action::Reprioritise(priority) if pending => {
                self.jobs[job].record.priority = *priority;
                Done(state)
            }
            Action::UpdatePayload(payload) if pending => {
                self.jobs[job].record.payload = payload.clone();
                Done(state)
            }
            Action::Redrive if state.is_settled() && self.jobs[job].left == Left::Whole => {
                self.redrive(job, now)
            }
            Action::Delete if state.is_settled() => {
                self.jobs[job].left = Left::Nothing;
                Done(state)
            }
            _ => WrongState(state),
        }
    }

    fn redrive(&mut self, job: usize, now: Timestamp) -> EditVerdict {
        let entry = &self.jobs[job];
        if let Some(unique) = &entry.record.unique {
            let holder = self.holder(&entry.record.queue, &unique.key, now);
            if let Some(holder) = holder.filter(|holder| *holder != job) {
                return EditVerdict::UniqueHeld(self.jobs[holder].record.id);
            }
        }
        let entry = &mut self.jobs[job];
        entry.holds_key = entry.record.unique.is_some();
        entry.turn = Turn::ByDue;
        entry.follows = None;
        let record = &mut entry.record;
        record.state = JobState::Scheduled;
        record.wait_for.clear();
        record.due = now;
        record.failures = 0;
        record.crashes = 0;
        record.last_error = None;
        record.cancel_requested = false;
        record.result = None;
        record.dead = None;
        record.cancelled = None;
        record.stopped = None;
        record.finished_at = None;
        if record.expires_at.is_some_and(|at| at <= now) {
            record.expires_at = None;
        }
        EditVerdict::Done(JobState::Ready)
    }
}

fn check(action: &Action, now: Timestamp) -> Result<()> {
    match action {
        Action::Reschedule(due) => due_of(*due, now).map(|_| ()),
        Action::Reprioritise(priority) if *priority > 9 => Err(Error::new(
            ErrorKind::InvalidInput,
            "priority is out of range",
        )),
        _ => Ok(()),
    }
}
