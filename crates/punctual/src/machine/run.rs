//! Runs of schedules: what happens when one moves, when one settles, and on request.

use std::ops::Bound;

use super::Machine;
use super::enqueue::Checked;
use super::jobs::Loaded;
use super::rows::*;
use super::schedules::{just_after, occurrence_of};
use crate::engine::{Controlled, EnqueueVerdict, Namespace, Receipt, RecordValue, ScheduleAct};
use crate::error::{Error, ErrorKind, Result};
use crate::injected::{Bug, is_injected};
use crate::job::{CancelReason, DeadReason, JobId, JobState, UniquePolicy};
use crate::schedule::{
    MISSED_MAX, Next, PlannedRun, SCHEDULE_PREFIX, Schedule, ScheduleStatus, Series, Success,
    run_key,
};
use crate::time::Timestamp;

/// Instants of a schedule that a status shows.
const SHOWN: usize = 16;

/// Whether a run may start, in view of the other runs of its schedule.
enum Turn {
    Starts,
    /// It waits until that holder of the key has settled.
    Follows(JobId),
    /// That job is on its way.
    Skipped(JobId),
}

impl Machine {
    /// A run whose due has come, taken out of the index: it starts, waits, or is passed over; and
    /// the next one of its schedule is enqueued.
    pub(super) fn move_run(&mut self, mut run: Loaded) -> Result<()> {
        self.count(run.spec.queue, JobState::Scheduled, false)?;
        self.waits_no_more(&run)?;
        let Some(key) = schedule_of(&run) else {
            return self.start_run(run).map(drop);
        };
        let known = self.known_schedule(&key)?;
        let pending = known.and_then(|(row, version, schedule)| {
            let (id, instant) = row.pending?;
            (id == run.key.id).then_some((row, version, schedule, instant))
        });
        let Some((mut row, _, schedule, instant)) = pending else {
            return self.start_run(run).map(drop);
        };
        row.pending = None;
        let series = Series::of(&key.name, &schedule.spec);
        // An edit may have moved it: it is as late as it is.
        let due = run.status.due;
        // What this run needs to know is looked up in any case.
        self.derived.instants_left += MISSED_MAX as usize;
        let is_missed = self.is_missed(&mut row, &series, &schedule, PlannedRun { due, ..instant });
        self.derived.instants_left -= self.derived.instants_left.min(MISSED_MAX as usize);
        // Its end must not find it pending.
        self.keep_schedule(&key, &row);
        if is_missed == Some(true) {
            row.missed += 1;
            run.status_mut().cancelled = Some(CancelReason::Missed);
            self.settle_as(run, JobState::Cancelled)?;
        } else if schedule.paused {
            row.skipped += 1;
            run.status_mut().cancelled = Some(CancelReason::Skipped);
            self.settle_as(run, JobState::Cancelled)?;
        } else {
            let id = run.key.id;
            if is_injected(Bug::TickedTwice) {
                self.enqueue_again(&key, &schedule, instant.at)?;
            }
            if self.start_run(run)? {
                row.fired += 1;
                row.last = Some((instant.at, id));
            } else {
                row.skipped += 1;
            }
        }
        self.advance(&key, row, &schedule)
    }

    fn keep_schedule(&mut self, key: &RecordKey, row: &ScheduleRow) {
        let (key, row) = (key.clone(), row.clone());
        self.rows.schedules.put(&mut self.journal, key, row);
    }

    /// The injected bug of a run that is enqueued twice.
    fn enqueue_again(&mut self, key: &RecordKey, schedule: &Schedule, at: Timestamp) -> Result<()> {
        let id = JobId::occurrence(&format!("{} again", key.name), at);
        let mut job = schedule.job(&key.name, id);
        job.unique = None;
        let run = Checked::run(self.now, job, occurrence_of(&key.name, at));
        self.enqueue_one(key.namespace, run, false).map(drop)
    }

    /// Lines a run up, lets it follow the run before, or skips it; whether it is to run.
    fn start_run(&mut self, mut run: Loaded) -> Result<bool> {
        match self.turn(&run)? {
            Turn::Starts => {
                if !is_injected(Bug::OverlapUnchecked) {
                    self.take_key(&run)?;
                }
                self.counts_as_waiting(&run)?;
                self.line_up(&run)?;
                self.count(run.spec.queue, JobState::Ready, true)?;
                self.changed(&run);
                Ok(true)
            }
            Turn::Follows(holder) => {
                let status = run.status_mut();
                status.place = JobState::Held;
                status.follows = Some(holder);
                // It waits for the run before as a follower does that is enqueued behind it.
                self.save_unchecked(&run);
                if let Some(unique) = &run.spec.unique {
                    self.follow(run.spec.queue, &unique.key, run.key.id)?;
                }
                self.place(&run)?;
                self.changed(&run);
                Ok(true)
            }
            Turn::Skipped(_) => {
                run.status_mut().cancelled = Some(CancelReason::Skipped);
                self.settle_as(run, JobState::Cancelled)?;
                Ok(false)
            }
        }
    }

    /// Whether the unique key of a run is free, and what its policy says if not. A run that waits
    /// for a retry is on its way like one that is active.
    fn turn(&mut self, run: &Loaded) -> Result<Turn> {
        let queue = run.spec.queue;
        let Some(unique) = run.spec.unique.clone() else {
            return Ok(Turn::Starts);
        };
        if is_injected(Bug::OverlapUnchecked) {
            return Ok(Turn::Starts);
        }
        let Some(holder) = self.holder(queue, &unique.key)? else {
            return Ok(Turn::Starts);
        };
        if holder.id == run.key.id {
            return Ok(Turn::Starts);
        }
        let key = JobKey {
            namespace: run.key.namespace,
            id: holder.id,
        };
        let holds = |job: &Loaded| {
            let held = job.spec.unique.as_ref().map(|held| &held.key);
            let is_open = !job.status.place.is_settled();
            is_open && job.spec.queue == queue && held == Some(&unique.key)
        };
        let Some(other) = self.load(&key)?.filter(holds) else {
            // A period that outlives its job.
            return Ok(Turn::Skipped(holder.id));
        };
        let is_active = other.status.place == JobState::Active;
        match unique.policy {
            UniquePolicy::Keep => Ok(Turn::Skipped(holder.id)),
            UniquePolicy::After | UniquePolicy::Refresh { .. }
                if holder.follower.is_some() || other.status.attempt == 0 =>
            {
                Ok(Turn::Skipped(holder.follower.unwrap_or(holder.id)))
            }
            UniquePolicy::After | UniquePolicy::Refresh { .. } => Ok(Turn::Follows(holder.id)),
            // The user's own key: an active holder stays.
            UniquePolicy::Replace if is_active && !is_run_key(run) => Ok(Turn::Skipped(holder.id)),
            UniquePolicy::Replace => {
                if !is_active {
                    self.replace_holder(other)?;
                    return Ok(Turn::Starts);
                }
                if let Some(id) = holder.follower {
                    let key = JobKey { id, ..key };
                    let follower = self.load_indexed(&key)?;
                    self.cancel_waiting(follower, CancelReason::Replaced)?;
                }
                self.request_cancel(other);
                Ok(Turn::Follows(holder.id))
            }
        }
    }

    /// Whether a job is the next run of its schedule, which has not moved yet.
    pub(super) fn is_pending_run(&self, job: &Loaded) -> Result<bool> {
        let Some(key) = schedule_of(job) else {
            return Ok(false);
        };
        let row = self.rows.schedules.get(&key)?;
        let pending = row.and_then(|row| row.pending);
        Ok(pending.is_some_and(|(id, _)| id == job.key.id))
    }

    /// An edit delayed a run: it keeps its new instant, and its schedule goes on.
    pub(super) fn run_put_off(&mut self, job: &Loaded) -> Result<()> {
        self.leave_schedule(job, |row, instant, id| {
            row.fired += 1;
            row.last = Some((instant, id));
        })
    }

    /// A run has settled: if it was the next one, its instant is skipped and the schedule goes on.
    pub(super) fn run_settled(&mut self, job: &Loaded, state: JobState) -> Result<()> {
        if is_injected(Bug::TickLostOnCancel) {
            return Ok(());
        }
        self.leave_schedule(job, |row, _, _| row.skipped += 1)?;
        if state == JobState::Completed {
            return self.keep_success(job);
        }
        let failed = state == JobState::Dead && job.status.dead != Some(DeadReason::Overflow);
        match schedule_of(job) {
            Some(key) if failed => self.pause_on_failure(&key, job.key.id),
            _ => Ok(()),
        }
    }

    /// Keeps what a run that completed leaves to the next one.
    fn keep_success(&mut self, job: &Loaded) -> Result<()> {
        let (Some(key), Some(run)) = (schedule_of(job), job.spec.rare.occurrence()) else {
            return Ok(());
        };
        let Some((mut row, _, schedule)) = self.known_schedule(&key)? else {
            return Ok(());
        };
        row.success = Some(Success {
            at: run.at,
            finished_at: self.now,
            result: job.status.result.clone(),
        });
        row.expected_from = self.now;
        self.derived.expected.set(&key, row.expected_by(&schedule));
        self.rows.schedules.put(&mut self.journal, key, row);
        Ok(())
    }

    fn leave_schedule(
        &mut self,
        job: &Loaded,
        count: impl FnOnce(&mut ScheduleRow, Timestamp, JobId),
    ) -> Result<()> {
        let Some(key) = schedule_of(job) else {
            return Ok(());
        };
        let Some((mut row, _, schedule)) = self.known_schedule(&key)? else {
            return Ok(());
        };
        let Some((id, instant)) = row.pending.filter(|(id, _)| *id == job.key.id) else {
            return Ok(());
        };
        row.pending = None;
        count(&mut row, instant.at, id);
        self.advance(&key, row, &schedule)
    }

    fn pause_on_failure(&mut self, key: &RecordKey, id: JobId) -> Result<()> {
        let Some((_, mut schedule)) = self.schedule(key)? else {
            return Ok(());
        };
        if !schedule.pause_on_failure || schedule.paused {
            return Ok(());
        }
        schedule.paused = true;
        schedule.note = format!("run {id} is dead");
        self.derived.expected.set(key, None);
        let key = RecordKey {
            namespace: key.namespace,
            name: format!("{SCHEDULE_PREFIX}{}", key.name),
        };
        self.put_record(key, Some(RecordValue::Schedule(schedule)));
        Ok(())
    }

    /// Schedules by name, from one on.
    pub(super) fn schedules(
        &self,
        namespace: &Namespace,
        after: String,
        limit: usize,
    ) -> Result<Controlled> {
        let Some(namespace) = self.namespace(namespace) else {
            return Ok(Controlled::Schedules(Vec::new()));
        };
        let name = after;
        let start = RecordKey { namespace, name };
        let end = RecordKey {
            namespace: namespace + 1,
            name: String::new(),
        };
        let (from, to) = (Bound::Excluded(&start), Bound::Excluded(&end));
        let found = self.rows.schedules.scan(from, to, false, limit)?;
        let found = found.into_iter();
        let found: Result<Vec<_>> = found.map(|(key, _)| self.schedule_status(&key)).collect();
        Ok(Controlled::Schedules(
            found?.into_iter().flatten().collect(),
        ))
    }

    /// Does something with a schedule's runs.
    pub(super) fn act_on_schedule(
        &mut self,
        namespace: &Namespace,
        name: String,
        act: ScheduleAct,
    ) -> Result<Controlled> {
        let namespace = self.namespace_or_new(namespace);
        let key = RecordKey { namespace, name };
        let known = self.known_schedule(&key)?;
        match (act, known) {
            (ScheduleAct::Read, _) => {}
            (_, None) => {
                let message = "there is no such schedule; `schedules list` shows all";
                return Err(Error::new(ErrorKind::NotFound, message).with("schedule", &key.name));
            }
            (ScheduleAct::Skip, Some((row, ..))) => {
                let Some((id, _)) = row.pending else {
                    let message = "schedule has no run to come";
                    return Err(
                        Error::new(ErrorKind::Conflict, message).with("schedule", &key.name)
                    );
                };
                let run = self.load_indexed(&JobKey { namespace, id })?;
                self.cancel_waiting(run, CancelReason::Skipped)?;
            }
            (ScheduleAct::Run, Some((_, _, schedule))) => {
                let receipt = self.run_now_of(&key, &schedule)?;
                return Ok(Controlled::Runs(vec![receipt]));
            }
            (ScheduleAct::Backfill { instants }, Some((_, _, schedule))) => {
                let runs = instants.into_iter();
                let runs = runs.map(|at| self.backfill_one(&key, &schedule, at));
                return Ok(Controlled::Runs(runs.collect::<Result<_>>()?));
            }
            (ScheduleAct::Restore { last_success }, Some((mut row, ..))) => {
                if row.success.is_none() {
                    row.success = Some(last_success);
                    self.rows.schedules.put(&mut self.journal, key.clone(), row);
                }
            }
        }
        let status = self.schedule_status(&key)?;
        Ok(Controlled::Schedule(status.map(Box::new)))
    }

    /// A run beside those that are to come. Its instant is that of the call.
    fn run_now_of(&mut self, key: &RecordKey, schedule: &Schedule) -> Result<Receipt> {
        let namespace = key.namespace;
        let (mut at, mut id) = (self.now, JobId::occurrence(&key.name, self.now));
        while self.is_known(&JobKey { namespace, id })? {
            at = just_after(at);
            id = JobId::occurrence(&key.name, at);
        }
        let job = schedule.job(&key.name, id);
        let queue = self.queue_or_new(namespace, &job.queue);
        let due = self.now;
        let spec = self.new_spec(queue, job, Some(occurrence_of(&key.name, at)), due)?;
        let status = Status::of(&spec);
        let job_key = JobKey { namespace, id };
        let receipt = |verdict| Receipt {
            id,
            verdict,
            due,
            late: false,
        };
        let run = Loaded {
            key: job_key.clone(),
            spec: spec.clone().into(),
            status: status.clone().into(),
        };
        if let Turn::Skipped(other) = self.turn(&run)? {
            return Ok(receipt(EnqueueVerdict::Merged(other)));
        }
        let run = self.insert_new(job_key, spec, status);
        self.change_members(&run, true)?;
        self.start_run(run)?;
        Ok(receipt(EnqueueVerdict::Created))
    }

    /// A run of a past instant, which no other run stands in the way of.
    fn backfill_one(
        &mut self,
        key: &RecordKey,
        schedule: &Schedule,
        at: Timestamp,
    ) -> Result<Receipt> {
        let id = JobId::occurrence(&key.name, at);
        let job_key = JobKey {
            namespace: key.namespace,
            id,
        };
        let passed = [CancelReason::Skipped, CancelReason::Missed].map(Some);
        if let Some(run) = self
            .load(&job_key)?
            .filter(|run| passed.contains(&run.status.cancelled))
        {
            // It never started: this is its turn.
            self.delete(&run)?;
        }
        let mut job = schedule.job(&key.name, id);
        if schedule.template.unique.is_none() {
            job.unique = None;
        }
        let run = Checked::run(self.now, job, occurrence_of(&key.name, at));
        let receipt = self.enqueue_one(key.namespace, run, false)?;
        Ok(match receipt.verdict {
            EnqueueVerdict::IdConflict => Receipt {
                verdict: EnqueueVerdict::Duplicate,
                ..receipt
            },
            _ => receipt,
        })
    }

    fn schedule_status(&self, key: &RecordKey) -> Result<Option<ScheduleStatus>> {
        let Some((row, version, schedule)) = self.known_schedule(key)? else {
            return Ok(None);
        };
        let never_ends = row.is_complete || row.tz_database.is_empty();
        let pending = row.pending.map(|(id, _)| id);
        let known = row.pending.map(|(_, instant)| instant).into_iter();
        let known = known.chain(row.next.iter().copied());
        let mut next: Vec<Timestamp> = known.clone().map(|next| next.at).collect();
        let series = Series::of(&key.name, &schedule.spec);
        if series.never_runs_dry() && !row.is_complete {
            // Sums are not kept: they are made as they are asked for.
            let mut from = row.searched;
            while next.len() < SHOWN
                && let Next::At(instant) = series.next(from)
            {
                next.push(instant.at);
                from = just_after(instant.at);
            }
        }
        let left = schedule
            .spec
            .max_runs
            .map(|max| max.saturating_sub(row.fired));
        let left = left.and_then(|left| usize::try_from(left).ok());
        next.truncate(left.map_or(SHOWN, |left| left.min(SHOWN)));
        let ended = row.has_ended();
        let expected_by = row.expected_by(&schedule);
        Ok(Some(ScheduleStatus {
            name: key.name.clone(),
            version,
            schedule: *schedule,
            pending,
            next,
            lasts_until: known.last().map(|next| next.at).filter(|_| !never_ends),
            dry: pending.is_none() && !ended,
            ended,
            fired: row.fired,
            skipped: row.skipped,
            missed: row.missed,
            last: row.last,
            last_success: row.success,
            overdue_since: expected_by.filter(|by| *by < self.now),
            tz_database: row.tz_database,
        }))
    }
}

/// The schedule that a job is a run of.
fn schedule_of(job: &Loaded) -> Option<RecordKey> {
    let occurrence = job.spec.rare.occurrence()?;
    Some(RecordKey {
        namespace: job.key.namespace,
        name: occurrence.name.clone(),
    })
}

/// Whether a run has the key that its schedule's overlap policy gave it.
fn is_run_key(run: &Loaded) -> bool {
    let name = run.spec.rare.occurrence().map(|run| run_key(&run.name));
    name == run.spec.unique.as_ref().map(|unique| unique.key.clone())
}
