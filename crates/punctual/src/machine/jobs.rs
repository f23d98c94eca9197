//! One job in hand: loading, saving, and moving it between the places where a job can stand.

use std::sync::Arc;

use super::Machine;
use super::rows::*;
use crate::engine::Change;
use crate::error::Result;
use crate::injected::{Bug, is_injected};
use crate::job::{Event, JobRecord, JobState, TRANSITIONS, suspect_after};
use crate::time::Timestamp;

/// A job in hand: its two rows.
#[derive(Debug, Clone)]
pub(super) struct Loaded {
    pub(super) key: JobKey,
    pub(super) spec: Arc<Spec>,
    pub(super) status: Arc<Status>,
}

impl Loaded {
    pub(super) fn status_mut(&mut self) -> &mut Status {
        Arc::make_mut(&mut self.status)
    }

    pub(super) fn due_key(&self) -> DueKey {
        DueKey {
            queue: self.spec.queue,
            due: self.status.due,
            seq: self.spec.seq,
        }
    }

    pub(super) fn group(&self) -> Option<&str> {
        self.spec.group.as_ref().map(|group| group.key.as_str())
    }

    pub(super) fn share(&self) -> Option<&str> {
        self.spec.rare.share()
    }

    /// The named limits that hold for it.
    pub(super) fn limits(&self) -> &[String] {
        self.spec.rare.limits()
    }

    /// Whether it runs alone.
    pub(super) fn is_suspect(&self) -> bool {
        self.status.crashes >= suspect_after(self.spec.rare.max_crashes())
    }

    pub(super) fn expires_by(&self, now: Timestamp) -> bool {
        self.status.expires_at.is_some_and(|at| at <= now)
    }
}

impl Machine {
    pub(super) fn load(&self, key: &JobKey) -> Result<Option<Loaded>> {
        let spec = match self.derived.active.get(key) {
            Some(spec) => Some(spec.clone()),
            None => self.rows.specs.get(key)?,
        };
        let Some(spec) = spec else { return Ok(None) };
        let status = match self.rows.status.get(key)? {
            Some(status) => status,
            None => Arc::new(Status::of(&spec)),
        };
        Ok(Some(Loaded {
            key: key.clone(),
            spec,
            status,
        }))
    }

    /// Reads ahead what [`Machine::load`] will ask of these jobs.
    pub(super) fn read_ahead(&self, jobs: &[JobKey]) -> Result<()> {
        let sent = jobs
            .iter()
            .filter(|key| !self.derived.active.contains_key(key));
        self.rows.specs.read_ahead(sent)?;
        self.rows.status.read_ahead(jobs.iter())
    }

    /// A job that an index names; indexes and records change in the same step.
    pub(super) fn load_indexed(&self, key: &JobKey) -> Result<Loaded> {
        self.load(key)?
            .ok_or_else(|| super::codec::damaged("index entry"))
    }

    /// Keeps what has become of a job: one allowed step of its life, or none.
    pub(super) fn save(&mut self, job: &Loaded) {
        if cfg!(debug_assertions)
            && let Ok(Some(before)) = self.load(&job.key)
        {
            assert_allowed(&before.status, &job.status);
        }
        self.save_unchecked(job);
    }

    /// As [`Machine::save`], for a job that begins its life somewhere else than others do.
    pub(super) fn save_unchecked(&mut self, job: &Loaded) {
        let (key, status) = (job.key.clone(), job.status.clone());
        self.rows.status.put(&mut self.journal, key, status);
    }

    /// Reports the new state of a job to watchers.
    pub(super) fn changed(&mut self, job: &Loaded) {
        if self.signals.watched(self.now) {
            let queue = self.derived.queues.get(&job.spec.queue);
            let queue = queue
                .map(|queue| queue.name.to_string())
                .unwrap_or_default();
            let state = job.status.state(self.now);
            let change = Change {
                id: job.key.id,
                queue,
                state,
                at: self.now,
            };
            if let Some(namespace) = self.derived.namespace_names.get(&job.key.namespace) {
                self.signals.change(namespace, change, self.limits.feed);
            }
        }
    }

    /// Puts a pending job where it belongs: held, to become due, or in line.
    pub(super) fn place(&mut self, job: &Loaded) -> Result<()> {
        let queue = job.spec.queue;
        self.counts_as_waiting(job)?;
        match job.status.state(self.now) {
            JobState::Held => {
                let key = SeqKey {
                    queue,
                    seq: job.spec.seq,
                };
                self.rows.held.put(&mut self.journal, key, job.key.id);
                if job.holds() {
                    let due = job.due_key();
                    self.rows.due.insert(&mut self.journal, due, job.key.id);
                    self.due_head_at_most(queue, job.status.due)?;
                }
                self.count(queue, JobState::Held, true)
            }
            JobState::Scheduled => self.wait_for_due(job),
            // The move decides about a run.
            JobState::Ready if self.is_pending_run(job)? => self.wait_for_due(job),
            JobState::Ready => {
                self.line_up(job)?;
                self.count(queue, JobState::Ready, true)
            }
            state => unreachable!("a {state} job has no place among pending ones"),
        }
    }

    /// Puts a job into the index of due times, where the next sweep finds it if it is due already.
    pub(super) fn wait_for_due(&mut self, job: &Loaded) -> Result<()> {
        let queue = job.spec.queue;
        self.counts_as_waiting(job)?;
        self.rows
            .due
            .insert(&mut self.journal, job.due_key(), job.key.id);
        self.due_head_at_most(queue, job.status.due)?;
        self.count(queue, JobState::Scheduled, true)
    }

    /// Takes a pending job out of where it stands.
    pub(super) fn displace(&mut self, job: &Loaded) -> Result<()> {
        let queue = job.spec.queue;
        if !is_injected(Bug::WaitingLeftBehind) {
            self.waits_no_more(job)?;
        }
        if job.status.place == JobState::Held {
            let key = SeqKey {
                queue,
                seq: job.spec.seq,
            };
            self.rows.held.remove(&mut self.journal, &key);
            if job.holds() {
                self.rows.due.remove(&mut self.journal, &job.due_key())?;
                self.refresh_due_head(queue, job.status.due)?;
            }
            return self.count(queue, JobState::Held, false);
        }
        debug_assert!(job.status.is_waiting(), "only pending jobs have a place");
        // A due job may not have been moved yet: where it lies decides, not its state.
        if self.rows.due.remove(&mut self.journal, &job.due_key())? {
            self.refresh_due_head(queue, job.status.due)?;
            return self.count(queue, JobState::Scheduled, false);
        }
        self.leave_line(job)
    }

    /// Takes a job that stands in its line out of it.
    pub(super) fn leave_line(&mut self, job: &Loaded) -> Result<()> {
        self.waits_no_more(job)?;
        self.line_down(job)?;
        self.count(job.spec.queue, JobState::Ready, false)
    }

    fn due_head_at_most(&mut self, id: u32, due: Timestamp) -> Result<()> {
        let queue = self.queue_mut(id)?;
        if queue.due_head.is_none_or(|head| due < head) {
            if let Some(head) = queue.due_head.replace(due) {
                self.derived.due_heads.remove(&(head, id));
            }
            self.derived.due_heads.insert((due, id));
            // An earlier instant than sleepers know of: one of them must set its timer anew.
            return self.notify_work(id, false);
        }
        Ok(())
    }

    /// Reads the head again if the one that left may have been it.
    pub(super) fn refresh_due_head(&mut self, id: u32, left: Timestamp) -> Result<()> {
        if self.derived.due_heads_wait {
            return Ok(());
        }
        let head = self.queue_state(id)?.due_head;
        if head.is_some_and(|head| left <= head) {
            let next = self.rows.due.next(id)?;
            if let Some(head) = head {
                self.derived.due_heads.remove(&(head, id));
            }
            if let Some(next) = next {
                self.derived.due_heads.insert((next, id));
            }
            self.queue_mut(id)?.due_head = next;
        }
        Ok(())
    }

    /// Every field as an answer gives it.
    pub(super) fn record(&self, job: &Loaded) -> Result<JobRecord> {
        let Loaded { key, spec, status } = job;
        let lease = (status.place == JobState::Active)
            .then(|| self.derived.leases.get(&status.fence))
            .flatten();
        let record = JobRecord {
            id: key.id,
            queue: self.queue_state(spec.queue)?.name.to_string(),
            kind: spec.kind.clone(),
            payload: spec.payload.clone(),
            content_type: spec.content_type.clone(),
            headers: spec.headers.clone(),
            expires_at: status.expires_at,
            priority: status.priority,
            unique: spec.unique.clone(),
            group: spec.group.clone(),
            max_attempts: spec.max_attempts,
            retry: spec.retry.clone(),
            timeout: spec.timeout,
            retention: spec.retention,
            wait_for: status.wait_for.clone(),
            state: status.state(self.now),
            due: status.due,
            attempt: status.attempt,
            failures: status.failures,
            crashes: status.crashes,
            enqueued_at: spec.enqueued_at,
            started_at: status.started_at,
            finished_at: status.finished_at,
            last_error: status.last_error.clone(),
            result: status.result.clone(),
            progress: status.progress.clone(),
            cancel_requested: status.cancel_requested,
            cancelled: status.cancelled,
            dead: status.dead,
            stopped: status.stopped,
            worker: lease.map(|open| open.worker),
            lease_until: lease.map(|open| open.deadline),
            attempts: status.attempts.clone(),
            log: status.log.clone(),
            memos: status.memos.clone(),
            ..spec.rare.record(key.id)
        };
        Ok(record)
    }
}

/// Panics if no row of [`TRANSITIONS`] goes from one status to the other with these counters.
fn assert_allowed(before: &Status, after: &Status) {
    let counters = |status: &Status| [status.attempt, status.failures, status.crashes];
    let (old, new) = (counters(before), counters(after));
    if before.place == after.place && old == new {
        return;
    }
    let names = ["attempt", "failures", "crashes"];
    let raised: Vec<_> = (0..3)
        .filter(|i| new[*i] == old[*i] + 1)
        .map(|i| names[i])
        .collect();
    // Scheduled and ready are one place: time alone distinguishes them.
    let place = |state| {
        if state == JobState::Ready {
            JobState::Scheduled
        } else {
            state
        }
    };
    let allowed = TRANSITIONS.iter().any(|step| {
        let resets = step.event == Event::Redrive && new[1..] == [0, 0];
        place(step.from) == before.place
            && place(step.to) == after.place
            && (resets || step.raises == raised)
    });
    let bug = crate::injected::any_injected();
    assert!(allowed || bug, "no step leads from {before:?} to {after:?}");
}
