//! Edit: cancel, reschedule, run now, reprioritise, redrive, delete, update of a payload; purge.

use std::sync::Arc;

use bytes::Bytes;

use super::Machine;
use super::cursor::{Request, bad_cursor};
use super::enqueue::content_of;
use super::jobs::Loaded;
use super::rows::*;
use crate::engine::{
    Action, Controlled, Cursor, Edit, EditVerdict, Edited, Filter, ListBy, Namespace, Select,
    Target,
};
use crate::error::Result;
use crate::job::{CancelReason, Due, JobId, JobState};
use crate::time::Timestamp;

/// What a purge cancels, in its order. Held jobs first: a follower must not start, and escape,
/// because its holder goes. Then where jobs come from that become ready in the meantime.
const PURGED: [JobState; 3] = [JobState::Held, JobState::Scheduled, JobState::Ready];

impl Machine {
    /// Changes jobs; see [`Engine::edit`](crate::Engine::edit).
    pub fn edit(&mut self, now: Timestamp, namespace: &Namespace, edit: Edit) -> Result<Edited> {
        self.checks(now).edit(&edit)?;
        let (action, dry_run) = (edit.action, edit.dry_run);
        match edit.select {
            Select::Targets(targets) => {
                self.begin(now)?;
                self.edit_targets(namespace, targets, &action, dry_run)
            }
            Select::Filter {
                filter,
                cursor,
                limit,
            } => {
                let request = Request::of(format_args!("edit {namespace} {filter:?} {action:?}"));
                let position = request.position(cursor.as_ref())?;
                self.begin(now)?;
                let edited = self.edit_filter(namespace, filter, position, limit, &action, dry_run);
                let (mut edited, position) = edited?;
                edited.cursor = position.map(|position| request.cursor(&position));
                Ok(edited)
            }
        }
    }

    fn edit_targets(
        &mut self,
        namespace: &Namespace,
        targets: Vec<Target>,
        action: &Action,
        dry_run: bool,
    ) -> Result<Edited> {
        let examined = targets.len();
        let mut verdicts = Vec::with_capacity(examined);
        for target in targets {
            let id = self.resolve(namespace, &target)?;
            let verdict = match (self.namespace(namespace), id) {
                (Some(namespace), Some(id)) => {
                    self.edit_one(JobKey { namespace, id }, action, dry_run)?
                }
                _ => EditVerdict::NotFound,
            };
            verdicts.push((id, verdict));
        }
        let matched = verdicts
            .iter()
            .filter(|(_, verdict)| *verdict != EditVerdict::NotFound)
            .count();
        Ok(Edited {
            verdicts,
            examined,
            matched,
            cursor: None,
            now: self.now,
        })
    }

    fn edit_filter(
        &mut self,
        namespace: &Namespace,
        filter: Filter,
        position: Option<&[u8]>,
        limit: usize,
        action: &Action,
        dry_run: bool,
    ) -> Result<(Edited, Option<Vec<u8>>)> {
        // What moves a job within the order that is walked would meet it again, further on.
        let moves = matches!(action, Action::Reschedule(_) | Action::Reprioritise(_));
        let by = match (&filter.queue, filter.state) {
            (Some(queue), Some(state)) if !moves => ListBy::State {
                queue: queue.clone(),
                state,
            },
            _ => ListBy::All,
        };
        // A schedule goes on when its next run is edited: the run after that is not of this edit.
        let (began, position) = match position {
            None => (None, None),
            Some(position) => {
                let (began, position) = position.split_first_chunk().ok_or_else(bad_cursor)?;
                let began = Timestamp::from_micros(u64::from_be_bytes(*began));
                (Some(began), Some(position))
            }
        };
        let is_later_run = |job: &Loaded| {
            let is_run = job.spec.rare.occurrence().is_some();
            is_run && began.is_some_and(|began| job.spec.enqueued_at >= began)
        };
        let found = self.find(namespace, &by, &filter, position, limit)?;
        let mut verdicts = Vec::with_capacity(found.jobs.len());
        for job in found.jobs {
            if is_later_run(&job) {
                continue;
            }
            let id = job.key.id;
            verdicts.push((Some(id), self.edit_one(job.key, action, dry_run)?));
        }
        let (examined, matched) = (found.examined, verdicts.len());
        let began = began.unwrap_or(self.now).as_micros().to_be_bytes();
        let position = found
            .position
            .map(|position| [&began, &position[..]].concat());
        let edited = Edited {
            verdicts,
            examined,
            matched,
            cursor: None,
            now: self.now,
        };
        Ok((edited, position))
    }

    pub(super) fn edit_one(
        &mut self,
        key: JobKey,
        action: &Action,
        dry_run: bool,
    ) -> Result<EditVerdict> {
        let Some(job) = self.load(&key)? else {
            return self.edit_tombstone(&key, action, dry_run);
        };
        if self.expire_if_late(job.clone())? {
            return self.edit_one(key, action, dry_run);
        }
        let state = job.status.state(self.now);
        if let Action::Signal { name, payload } = action {
            return self.signal(job, name, payload, dry_run);
        }
        if state == JobState::Active {
            return self.edit_active(job, action, dry_run);
        }
        let pending = state.is_pending();
        match action {
            Action::Cancel if state == JobState::Cancelled => Ok(EditVerdict::AlreadyCancelled),
            Action::Cancel if pending => {
                if !dry_run {
                    self.cancel_waiting(job, CancelReason::Requested)?;
                }
                Ok(EditVerdict::Done(JobState::Cancelled))
            }
            Action::Reschedule(due) if pending => self.reschedule(job, *due, dry_run),
            Action::RunNow
                if pending && job.status.follows.is_none() && !self.is_held_back(&job)? =>
            {
                self.run_now(job, dry_run)
            }
            Action::Reprioritise(priority) if pending => {
                if !dry_run {
                    self.move_job(job, |status, _| status.priority = *priority)?;
                }
                Ok(EditVerdict::Done(state))
            }
            Action::UpdatePayload(payload) if pending => {
                if !dry_run {
                    self.update_payload(job, payload)?;
                }
                Ok(EditVerdict::Done(state))
            }
            Action::Redrive if state.is_settled() => self.redrive(job, dry_run),
            Action::Delete if state.is_settled() => {
                if !dry_run {
                    self.delete(&job)?;
                }
                Ok(EditVerdict::Done(state))
            }
            _ => Ok(EditVerdict::WrongState(state)),
        }
    }

    fn edit_tombstone(
        &mut self,
        key: &JobKey,
        action: &Action,
        dry_run: bool,
    ) -> Result<EditVerdict> {
        let Some(tombstone) = self.rows.tombstones.get(key)? else {
            return Ok(EditVerdict::NotFound);
        };
        Ok(match action {
            Action::Cancel if tombstone.state == JobState::Cancelled => {
                EditVerdict::AlreadyCancelled
            }
            Action::Delete => {
                if !dry_run {
                    self.remove_tombstone(key, &tombstone);
                }
                EditVerdict::Done(tombstone.state)
            }
            _ => EditVerdict::WrongState(tombstone.state),
        })
    }

    fn edit_active(&mut self, job: Loaded, action: &Action, dry_run: bool) -> Result<EditVerdict> {
        if *action != Action::Cancel {
            return Ok(EditVerdict::JobActive);
        }
        if !dry_run {
            self.request_cancel(job);
        }
        Ok(EditVerdict::CancelRequested)
    }

    /// Asks the worker of an active job to stop.
    pub(super) fn request_cancel(&mut self, mut job: Loaded) {
        if !job.status.cancel_requested {
            job.status_mut().cancel_requested = true;
            self.save(&job);
            self.changed(&job);
        }
    }

    /// Changes a pending job and puts it where it then belongs.
    pub(super) fn move_job(
        &mut self,
        mut job: Loaded,
        change: impl FnOnce(&mut Status, Timestamp),
    ) -> Result<JobState> {
        self.displace(&job)?;
        let now = self.now;
        change(job.status_mut(), now);
        self.save(&job);
        self.place(&job)?;
        self.changed(&job);
        Ok(job.status.state(now))
    }

    fn reschedule(&mut self, job: Loaded, due: Due, dry_run: bool) -> Result<EditVerdict> {
        let due = match due {
            Due::Now => self.now,
            Due::After(span) => self.now + span,
            Due::At(at) => at.max(self.now),
        };
        if dry_run {
            let mut status = (*job.status).clone();
            status.due = due;
            return Ok(EditVerdict::Done(status.state(self.now)));
        }
        let run = job.spec.rare.occurrence().map(|_| job.clone());
        let state = self.move_job(job, |status, _| {
            status.due = due;
            status.front = false;
        })?;
        match run {
            Some(run) if due > self.now => self.run_put_off(&run)?,
            _ => {}
        }
        Ok(EditVerdict::Done(state))
    }

    fn run_now(&mut self, job: Loaded, dry_run: bool) -> Result<EditVerdict> {
        if !dry_run && job.status.state(self.now) != JobState::Ready {
            self.move_job(job, |status, now| {
                if status.holds() {
                    status.end_wait(now);
                }
                status.place = JobState::Scheduled;
                status.wait_for.clear();
                status.due = status.due.min(now);
                status.front = false;
            })?;
        }
        Ok(EditVerdict::Done(JobState::Ready))
    }

    /// Gives a waiting job another payload and remembers what was sent first: a resend is compared
    /// with that.
    fn update_payload(&mut self, mut job: Loaded, payload: &Bytes) -> Result<()> {
        let queue = self.queue_state(job.spec.queue)?.name.clone();
        let sent = content_of(&queue, &job.spec);
        let spec = Arc::make_mut(&mut job.spec);
        spec.payload = payload.clone();
        spec.rare.set_sent(sent);
        self.rows
            .specs
            .put(&mut self.journal, job.key.clone(), job.spec.clone());
        self.changed(&job);
        Ok(())
    }

    fn redrive(&mut self, job: Loaded, dry_run: bool) -> Result<EditVerdict> {
        if let Some(holder) = self.other_holder(&job)? {
            return Ok(EditVerdict::UniqueHeld(holder));
        }
        let Some(waits) = self.may_run_again(&job)? else {
            return Ok(EditVerdict::WrongState(job.status.place));
        };
        let (place, state) = match waits {
            true => (JobState::Held, JobState::Held),
            false => (JobState::Scheduled, JobState::Ready),
        };
        if !dry_run {
            self.runs_again(&job, false)?;
            self.redrive_as(job, place)?;
        }
        Ok(EditVerdict::Done(state))
    }

    /// Another job that holds the unique key of this one.
    pub(super) fn other_holder(&mut self, job: &Loaded) -> Result<Option<JobId>> {
        let Some(unique) = job.spec.unique.clone() else {
            return Ok(None);
        };
        let holder = self.holder(job.spec.queue, &unique.key)?;
        Ok(holder
            .map(|holder| holder.id)
            .filter(|id| *id != job.key.id))
    }

    /// Lets a settled job run again, or wait for other jobs again.
    pub(super) fn redrive_as(&mut self, mut job: Loaded, place: JobState) -> Result<()> {
        if let Some((key, kept)) = self.kept_of(&job)? {
            self.unkeep(&key, &kept)?;
        }
        let now = self.now;
        let never_ran = place == JobState::Held && job.status.attempt == 0;
        let status = job.status_mut();
        status.place = place;
        // What waits again before its first attempt waits for all that it was sent with.
        status.due = match never_ran {
            true => status.due.max(now),
            false => now,
        };
        status.failures = 0;
        status.crashes = 0;
        status.expires_at = status.expires_at.filter(|at| *at > now);
        status.finished_at = None;
        status.last_error = None;
        status.result = None;
        status.dead = None;
        status.cancelled = None;
        status.stopped = None;
        status.cancel_requested = false;
        if !never_ran {
            status.wait_for.clear();
        }
        status.follows = None;
        self.save(&job);
        self.take_key(&job)?;
        self.change_members(&job, true)?;
        self.watch_expiry(&job);
        self.place(&job)?;
        self.changed(&job);
        Ok(())
    }

    /// Removes a settled job and leaves nothing, not even a tombstone.
    pub(super) fn delete(&mut self, job: &Loaded) -> Result<()> {
        if let Some((key, kept)) = self.kept_of(job)? {
            self.unkeep(&key, &kept)?;
        }
        self.rows.specs.remove(&mut self.journal, &job.key);
        self.rows.status.remove(&mut self.journal, &job.key);
        Ok(())
    }

    /// Cancels pending jobs of a queue, a bounded number.
    pub(super) fn purge(
        &mut self,
        namespace: &Namespace,
        queue: &str,
        cursor: Option<&Cursor>,
        limit: usize,
    ) -> Result<Controlled> {
        let request = Request::of(format_args!("purge {namespace} {queue}"));
        let (first, began, mut after) = match request.position(cursor)? {
            None => (0, None, None),
            Some([nth, rest @ ..]) if usize::from(*nth) < PURGED.len() => {
                let (began, after) = rest.split_first_chunk().ok_or_else(bad_cursor)?;
                (
                    usize::from(*nth),
                    Some(u64::from_be_bytes(*began)),
                    Some(after),
                )
            }
            Some(_) => return Err(bad_cursor()),
        };
        let (mut examined, mut matched) = (0, 0);
        let namespace = self.namespace(namespace);
        let queue = namespace.and_then(|namespace| self.queue(namespace, queue));
        let (Some(namespace), Some(queue)) = (namespace, queue) else {
            return Ok(Controlled::Purged {
                examined,
                matched,
                cursor: None,
            });
        };
        // A schedule goes on when its run is purged: the run after that is not of this purge.
        let began = began.unwrap_or(self.queue_state(queue)?.row.seq);
        for (nth, state) in PURGED.iter().enumerate().skip(first) {
            let found = self.by_state(queue, *state, after.take(), limit - examined)?;
            let last = found.last().map(|(_, after)| after.clone());
            examined += found.len();
            let ids = found.into_iter().filter_map(|(id, _)| id);
            let keys = ids.map(|id| JobKey { namespace, id }).collect();
            matched += self.purge_jobs(queue, keys, began)?;
            if let (true, Some(last)) = (examined == limit, last) {
                let position = [vec![nth as u8], began.to_be_bytes().into(), last].concat();
                return Ok(Controlled::Purged {
                    examined,
                    matched,
                    cursor: Some(request.cursor(&position)),
                });
            }
        }
        Ok(Controlled::Purged {
            examined,
            matched,
            cursor: None,
        })
    }

    /// Cancels those that still wait; how many. The head of the due index is found again once for
    /// all of them, since each may have been it.
    fn purge_jobs(&mut self, queue: u32, jobs: Vec<JobKey>, began: u64) -> Result<usize> {
        self.read_ahead(&jobs)?;
        let mut dues = Vec::with_capacity(jobs.len());
        for key in &jobs {
            dues.push(self.load_indexed(key)?.due_key());
        }
        self.rows.due.read_ahead(&dues)?;
        self.derived.due_heads_wait = true;
        let purged = self.cancel_purged(&jobs, began);
        self.derived.due_heads_wait = false;
        if let Some(head) = self.queue_state(queue)?.due_head {
            self.refresh_due_head(queue, head)?;
        }
        purged
    }

    fn cancel_purged(&mut self, jobs: &[JobKey], began: u64) -> Result<usize> {
        let mut purged = 0;
        for key in jobs {
            let job = self.load_indexed(key)?;
            let is_later_run = job.spec.seq > began && job.spec.rare.occurrence().is_some();
            if job.status.place.is_pending() && !is_later_run {
                purged += 1;
                self.cancel_waiting(job, CancelReason::Purged)?;
            }
        }
        Ok(purged)
    }

    /// The id that a target names.
    pub(super) fn resolve(
        &mut self,
        namespace: &Namespace,
        target: &Target,
    ) -> Result<Option<JobId>> {
        match target {
            Target::Id(id) => Ok(Some(*id)),
            Target::Unique { queue, key } => {
                let queue = self
                    .namespace(namespace)
                    .and_then(|namespace| self.queue(namespace, queue));
                let Some(queue) = queue else { return Ok(None) };
                Ok(self.holder(queue, key)?.map(|holder| holder.id))
            }
        }
    }
}
