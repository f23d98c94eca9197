//! The reference model: enqueue.

use std::time::Duration;

use crate::engine::{EnqueueVerdict, OnFull, Receipt};
use crate::error::{Error, ErrorKind, Result};
use crate::job::{
    CancelReason, DeadReason, Due, Hold, JobId, JobRecord, JobState, NewJob, PastOutcome,
    UniquePolicy,
};
use crate::time::Timestamp;

use super::entry::Content;
use super::{Entry, Left, Space, Turn};

/// What the unique key of a new job has to say.
enum Key {
    /// It is free, or the job has none.
    Free,
    /// The waiting holder has to go.
    Replace(usize),
    /// The waiting job takes the content and due of the new one.
    Refresh(usize, Duration),
    /// The job waits for the active holder.
    Follow(usize),
    /// The job is not stored.
    Refuse(EnqueueVerdict),
}

impl Space {
    pub(crate) fn enqueue(&mut self, now: Timestamp, jobs: &[NewJob]) -> Result<Vec<Receipt>> {
        self.check_bytes(jobs)?;
        for job in jobs {
            job.check(&self.limits)?;
            due_of(job.due, now)?;
        }
        let receipts = (jobs.iter())
            .map(|job| self.enqueue_one(now, job, true))
            .collect();
        // What was imported may be past its retention: no call sees it again.
        self.prune(now);
        Ok(receipts)
    }

    /// Refuses a call whose jobs weigh too much.
    pub(super) fn check_bytes(&self, jobs: &[NewJob]) -> Result<()> {
        let bytes: usize = jobs.iter().map(|job| job.payload.len()).sum();
        if bytes > self.limits.batch_bytes {
            return Err(Error::new(ErrorKind::BatchTooLarge, "too many bytes"));
        }
        Ok(())
    }

    /// Finds the order in which an engine dead-lettered these jobs while it took the others.
    pub(crate) fn follow_overflow(&mut self, now: Timestamp, jobs: &[NewJob], ids: Vec<JobId>) {
        let waits = |id: &JobId| {
            self.find_whole(*id)
                .is_some_and(|job| self.jobs[job].is_pending())
        };
        let went: Vec<JobId> = ids.into_iter().filter(waits).collect();
        if went.len() < 2 {
            self.overflown = went;
            return;
        }
        let explains = |order: &[JobId]| {
            let mut tried = self.clone();
            tried.overflown = order.to_vec();
            tried.enqueue(now, jobs).is_ok()
                && order.iter().all(|id| {
                    tried.find_whole(*id).is_some_and(|job| {
                        tried.jobs[job].record.dead == Some(DeadReason::Overflow)
                    })
                })
        };
        self.overflown = first_order(&went, Vec::new(), &explains).unwrap_or(went);
    }

    /// One well-formed job; an effect is not `bounded` by `max_pending`.
    pub(super) fn enqueue_one(&mut self, now: Timestamp, job: &NewJob, bounded: bool) -> Receipt {
        let due = due_of(job.due, now).unwrap_or(now);
        let late = matches!(job.due, Due::At(at) if at < now);
        let receipt = |verdict| Receipt {
            id: job.id,
            verdict,
            due,
            late,
        };
        if let Some(known) = self.find(job.id) {
            let known = &self.jobs[known];
            return if known.content != Content::of(job) {
                receipt(EnqueueVerdict::IdConflict)
            } else {
                Receipt {
                    due: known.first_due,
                    late: known.late,
                    ..receipt(EnqueueVerdict::Duplicate)
                }
            };
        }
        let has_settled = (job.history.as_ref()).is_some_and(|past| past.state.is_settled());
        let key = if has_settled {
            Key::Free
        } else {
            self.key_of(now, job)
        };
        if let Key::Refuse(verdict) = key {
            return receipt(verdict);
        }
        if let Key::Refresh(at, max_wait) = key {
            let due = self.refresh(at, max_wait, job, due.max(now), now);
            let verdict = EnqueueVerdict::Refreshed(self.jobs[at].record.id);
            return Receipt {
                due,
                ..receipt(verdict)
            };
        }
        if bounded && !has_settled && !self.makes_room(now, job, &key) {
            return receipt(EnqueueVerdict::Full);
        }
        let mut verdict = EnqueueVerdict::Created;
        let mut follows = None;
        match key {
            Key::Replace(holder) => {
                let id = self.jobs[holder].record.id;
                verdict = EnqueueVerdict::Replaced(id);
                if let Some(follower) = self.follower(id) {
                    self.cancel(follower, now, CancelReason::Replaced, None);
                }
                self.cancel(holder, now, CancelReason::Replaced, None);
                self.jobs[holder].holds_key = false;
            }
            Key::Follow(holder) => follows = Some(self.jobs[holder].record.id),
            Key::Free | Key::Refuse(_) | Key::Refresh(..) => {}
        }
        self.seq += 1;
        let seq = self.seq;
        let mut record = record_of(job, due, now);
        let mut turn = Turn::ByDue;
        let mut past = job.history.clone();
        if let Some(past) = &mut past {
            let last = past.attempts.last().map(|last| last.outcome);
            if past.state == JobState::Held && last != Some(PastOutcome::Hold) {
                self.use_early_clears(job.id, &mut past.wait_for, now);
            }
            turn = take_over(&mut record, past, now);
        } else {
            self.use_early_clears(job.id, &mut record.wait_for, now);
            if !record.wait_for.is_empty() {
                record.state = JobState::Held;
            }
        }
        if follows.is_some() {
            record.state = JobState::Held;
        }
        self.jobs.push(Entry {
            record,
            seq,
            turn,
            left: Left::Whole,
            holds_key: job.unique.is_some() && follows.is_none() && !has_settled,
            follows,
            first_due: due,
            late,
            settled_under: None,
            content: Content::of(job),
            refreshed: Vec::new(),
        });
        let stored = self.jobs.len() - 1;
        if has_settled {
            self.leave_what_is_kept(stored, now);
        } else if job.expires_at.is_some_and(|at| at <= now) {
            self.cancel(stored, now, CancelReason::Expired, None);
        }
        receipt(verdict)
    }

    /// Takes out the names that were cleared within the hour before; each clear counts once.
    fn use_early_clears(&mut self, job: JobId, names: &mut Vec<String>, now: Timestamp) {
        let counts = |clears: &[(JobId, String, Timestamp)], name: &String| {
            let mut clears = clears.iter();
            clears.any(|(of, cleared, until)| *of == job && cleared == name && *until > now)
        };
        let (used, left) = (names.drain(..)).partition(|name| counts(&self.early_clears, name));
        let used: Vec<String> = used;
        self.early_clears
            .retain(|(of, cleared, _)| *of != job || !used.contains(cleared));
        *names = left;
    }

    fn key_of(&self, now: Timestamp, job: &NewJob) -> Key {
        use EnqueueVerdict::{Merged, Refreshed, UniqueActive};
        let Some(unique) = &job.unique else {
            return Key::Free;
        };
        let Some(at) = self.holder(&job.queue, &unique.key, now) else {
            return Key::Free;
        };
        let holder = &self.jobs[at];
        let id = holder.record.id;
        let settled = holder.left != Left::Whole || holder.record.state.is_settled();
        match unique.policy {
            UniquePolicy::Keep => Key::Refuse(Merged(id)),
            UniquePolicy::Replace if settled => Key::Refuse(Merged(id)),
            UniquePolicy::Replace if holder.is_active() => Key::Refuse(UniqueActive(id)),
            UniquePolicy::Replace => Key::Replace(at),
            UniquePolicy::After => match self.follower(id) {
                Some(follower) => Key::Refuse(Merged(self.jobs[follower].record.id)),
                None if holder.is_active() => Key::Follow(at),
                None => Key::Refuse(Merged(id)),
            },
            UniquePolicy::Refresh { .. } if settled => Key::Refuse(Merged(id)),
            UniquePolicy::Refresh { max_wait } => {
                let follower = self.follower(id);
                let known = [Some(at), follower].into_iter().flatten();
                let sent_before = |at: &usize| self.jobs[*at].refreshed.contains(&job.id);
                match (known.clone().find(sent_before), follower) {
                    (Some(at), _) => Key::Refuse(Refreshed(self.jobs[at].record.id)),
                    (None, Some(follower)) => Key::Refresh(follower, max_wait),
                    (None, None) if holder.is_active() => Key::Follow(at),
                    (None, None) => Key::Refresh(at, max_wait),
                }
            }
        }
    }

    /// Debounce: the waiting job takes what the new one brings; its due then.
    fn refresh(
        &mut self,
        at: usize,
        max_wait: Duration,
        new: &NewJob,
        asked: Timestamp,
        now: Timestamp,
    ) -> Timestamp {
        let entry = &mut self.jobs[at];
        let record = &mut entry.record;
        record.kind = new.kind.clone();
        record.payload = new.payload.clone();
        record.content_type = new.content_type.clone();
        record.headers = new.headers.clone();
        if record.attempt == 0 {
            record.due = asked.min(record.enqueued_at + max_wait).max(now);
        }
        entry.refreshed.push(new.id);
        if entry.refreshed.len() > 16 {
            entry.refreshed.remove(0);
        }
        entry.record.due
    }

    /// Whether the queue has room for the job; dead-letters its oldest if its settings say so.
    fn makes_room(&mut self, now: Timestamp, job: &NewJob, key: &Key) -> bool {
        let settings = self.settings(&job.queue);
        let Some(max) = settings.max_pending else {
            return true;
        };
        let mut goes = Vec::new();
        if let Key::Replace(holder) = key {
            goes.push(*holder);
            goes.extend(self.follower(self.jobs[*holder].record.id));
        }
        let counts = |(at, entry): &(usize, &Entry)| {
            entry.is_in(&job.queue) && entry.is_pending() && !goes.contains(at)
        };
        let pending = self.jobs.iter().enumerate().filter(counts).count();
        if (pending as u64) < max {
            return true;
        }
        if settings.on_full == OnFull::Refuse || max == 0 {
            return false;
        }
        let Some(oldest) = self.oldest(&job.queue, now, &goes) else {
            return false;
        };
        self.bury(oldest, now, DeadReason::Overflow);
        true
    }

    /// The next one in line of the last priority that has any, else the next one to be due, else
    /// the first one of a group that is kept from its claim.
    fn oldest(&self, queue: &str, now: Timestamp, except: &[usize]) -> Option<usize> {
        let mut others = self.clone();
        for job in except {
            let job = &mut others.jobs[*job];
            if job.record.group.is_none() {
                job.record.state = JobState::Held;
            }
        }
        for priority in (0..10).rev() {
            for suspects in [false, true] {
                let mut heads = others.heads_of(queue, now, suspects, priority);
                heads.retain(|head| !except.contains(head));
                let is_head =
                    |id: &JobId| (heads.iter()).find(|head| self.jobs[**head].record.id == *id);
                let chosen = self.overflown.iter().find_map(is_head).copied();
                if let Some(head) = chosen.or(heads.first().copied()) {
                    return Some(head);
                }
            }
        }
        let of = |state: JobState| {
            (self.jobs.iter().enumerate()).filter(move |(at, entry)| {
                entry.is_in(queue) && entry.state(now) == state && !except.contains(at)
            })
        };
        let next_due = of(JobState::Scheduled).min_by_key(|(_, entry)| entry.place());
        let in_line = |(_, entry): &(usize, &Entry)| {
            let group = entry.group_key().map(str::to_owned);
            (group, entry.record.priority, entry.place())
        };
        next_due
            .or_else(|| of(JobState::Ready).min_by_key(in_line))
            .map(|(at, _)| at)
    }
}

/// The first order of some jobs that is right.
fn first_order(
    left: &[JobId],
    begun: Vec<JobId>,
    is_right: &impl Fn(&[JobId]) -> bool,
) -> Option<Vec<JobId>> {
    if left.is_empty() {
        return is_right(&begun).then_some(begun);
    }
    left.iter().find_map(|next| {
        let rest: Vec<JobId> = left.iter().filter(|id| *id != next).copied().collect();
        first_order(&rest, [&begun[..], &[*next]].concat(), is_right)
    })
}

/// The instant of a due, never before now.
pub(super) fn due_of(due: Due, now: Timestamp) -> Result<Timestamp> {
    match due {
        Due::Now => Ok(now),
        Due::At(at) => Ok(at.max(now)),
        Due::After(span) => now.checked_add(span).ok_or_else(|| {
            Error::new(
                ErrorKind::InvalidDelay,
                "delay reaches beyond the year 9999",
            )
        }),
    }
}

fn record_of(job: &NewJob, due: Timestamp, now: Timestamp) -> JobRecord {
    let mut wait_for = Vec::new();
    for name in &job.wait_for {
        if !wait_for.contains(name) {
            wait_for.push(name.clone());
        }
    }
    JobRecord {
        id: job.id,
        queue: job.queue.clone(),
        kind: job.kind.clone(),
        payload: job.payload.clone(),
        content_type: job.content_type.clone(),
        headers: job.headers.clone(),
        expires_at: job.expires_at,
        priority: job.priority,
        unique: job.unique.clone(),
        group: job.group.clone(),
        share: job.share.clone(),
        limits: job.limits.clone(),
        cost: job.cost,
        max_attempts: job.max_attempts,
        max_crashes: job.max_crashes,
        retry: job.retry.clone(),
        timeout: job.timeout,
        retention: job.retention,
        remember: job.remember,
        wait_for,
        schedule: None,
        flow: None,
        state: JobState::Scheduled,
        due,
        attempt: 0,
        failures: 0,
        crashes: 0,
        enqueued_at: now,
        started_at: None,
        finished_at: None,
        last_error: None,
        result: None,
        progress: None,
        cancel_requested: false,
        cancelled: None,
        dead: None,
        stopped: None,
        worker: None,
        lease_until: None,
        attempts: Vec::new(),
        log: Vec::new(),
        memos: Vec::new(),
    }
}

/// What an import knows of a job's past; where it stands then.
fn take_over(record: &mut JobRecord, past: &JobRecord, now: Timestamp) -> Turn {
    let was_active = past.state == JobState::Active;
    *record = JobRecord {
        state: match past.state {
            JobState::Held if past.wait_for.is_empty() => JobState::Scheduled,
            JobState::Ready | JobState::Active => JobState::Scheduled,
            state => state,
        },
        due: if was_active {
            past.due.min(now)
        } else {
            past.due
        },
        finished_at: (past.state.is_settled()).then(|| past.finished_at.unwrap_or(now).min(now)),
        ..past.clone()
    };
    if was_active { Turn::Front } else { Turn::ByDue }
}

/// Whether a key is free once its job has started.
pub(super) fn is_until_started(job: &JobRecord) -> bool {
    job.unique
        .as_ref()
        .is_some_and(|unique| unique.hold == Hold::UntilStarted)
}
