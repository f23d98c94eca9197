//! Memos of steps, signals, and attempts that wait: held in the middle of a job, until a signal
//! comes or the limit passes.

use std::time::Duration;

use bytes::Bytes;

use super::Machine;
use super::jobs::Loaded;
use super::rows::*;
use crate::engine::{EditVerdict, Extend};
use crate::error::Result;
use crate::injected::{Bug, is_injected};
use crate::job::{
    DeadReason, JobId, JobState, MEMOS_MAX, Memo, MemoSource, PastOutcome, append_memo,
    too_many_memos,
};
use crate::time::Timestamp;

impl Loaded {
    /// Whether an attempt of it waits: it is held, and its due is the limit of that.
    pub(super) fn holds(&self) -> bool {
        self.status.holds()
    }
}

impl Status {
    /// The same of a status: a job that is held before its first attempt has no such past.
    pub(super) fn holds(&self) -> bool {
        let last = self.attempts.last().map(|last| last.outcome);
        self.place == JobState::Held && last == Some(PastOutcome::Hold) && !self.wait_for.is_empty()
    }

    /// The wait is over without a signal: by its limit, or because a person ran the job now.
    pub(super) fn end_wait(&mut self, now: Timestamp) {
        for name in std::mem::take(&mut self.wait_for) {
            let memo = Memo {
                name,
                source: MemoSource::TimedOut,
                value: Bytes::new(),
                at: now,
            };
            append_memo(&mut self.memos, memo);
        }
    }

    /// Whether a wait for that name has ended.
    fn has_ended(&self, name: &str) -> bool {
        let ends = |memo: &Memo| memo.source != MemoSource::Step && memo.name == name;
        self.memos.iter().any(ends)
    }
}

impl Machine {
    /// Refuses a call whose memos would be over a bound, before anything is changed.
    pub(super) fn check_memos(&self, namespace: Option<u32>, leases: &[Extend]) -> Result<()> {
        let Some(namespace) = namespace else {
            return Ok(());
        };
        let all = leases.iter().flat_map(|lease| &lease.memos);
        let mut jobs: Vec<(JobId, Vec<Memo>)> = Vec::new();
        for (id, name, value) in all {
            let at = match jobs.iter().position(|(known, _)| known == id) {
                Some(at) => at,
                None => {
                    let job = self.load(&JobKey { namespace, id: *id })?;
                    let memos = job.map(|job| job.status.memos.clone());
                    jobs.push((*id, memos.unwrap_or_default()));
                    jobs.len() - 1
                }
            };
            let memo = step(name.clone(), value.clone(), self.now);
            if !append_memo(&mut jobs[at].1, memo) {
                return Err(too_many_memos().with("id", id).with("step", name));
            }
        }
        Ok(())
    }

    /// Keeps the memos of an extend, of the jobs that are under its lease.
    pub(super) fn keep_memos(
        &mut self,
        namespace: Option<u32>,
        fence: u64,
        memos: Vec<(JobId, String, Bytes)>,
    ) -> Result<()> {
        let Some(namespace) = namespace else {
            return Ok(());
        };
        let now = self.now;
        for (id, name, value) in memos {
            let leased = match is_injected(Bug::MemoWithoutToken) {
                true => self.load(&JobKey { namespace, id })?,
                false => self.leased(namespace, id, fence)?,
            };
            if let Some(mut job) = leased {
                append_memo(&mut job.status_mut().memos, step(name, value, now));
                self.save(&job);
            }
        }
        Ok(())
    }

    /// An attempt ends by waiting for names, at most for a span; one for which the signals came
    /// before runs on at once.
    pub(super) fn hold(
        &mut self,
        mut job: Loaded,
        mut names: Vec<String>,
        limit: Duration,
    ) -> Result<()> {
        let now = self.now;
        let status = job.status_mut();
        let mut once = Vec::with_capacity(names.len());
        names.retain(|name| {
            let is_new = !once.contains(name);
            once.push(name.clone());
            is_new && !status.has_ended(name)
        });
        let others = status.memos.iter();
        let others = others
            .filter(|memo| memo.source != MemoSource::Step)
            .count();
        if others + names.len() > MEMOS_MAX {
            status.dead = Some(DeadReason::Permanent);
            let text = "job waits for more than 64 names; let a follow-up do the rest";
            status.last_error = Some(text.to_owned());
            return self.settle_as(job, JobState::Dead);
        }
        status.front = false;
        status.place = match names.is_empty() {
            true => JobState::Scheduled,
            false => JobState::Held,
        };
        status.due = match names.is_empty() {
            true => now,
            false => now + limit,
        };
        status.wait_for = names;
        self.end_turn(&job, false)?;
        self.save(&job);
        self.place(&job)?;
        self.changed(&job);
        Ok(())
    }

    /// The limit of a wait has passed: the due index has given the job up.
    pub(super) fn wait_timed_out(&mut self, mut job: Loaded) -> Result<()> {
        let queue = job.spec.queue;
        let seq = SeqKey {
            queue,
            seq: job.spec.seq,
        };
        self.rows.held.remove(&mut self.journal, &seq);
        self.count(queue, JobState::Held, false)?;
        let now = self.now;
        let status = job.status_mut();
        status.end_wait(now);
        status.place = JobState::Scheduled;
        self.save(&job);
        self.line_up(&job)?;
        self.count(queue, JobState::Ready, true)?;
        self.changed(&job);
        Ok(())
    }

    /// Signals a job: the signal is kept with it, and ends its wait for that name.
    pub(super) fn signal(
        &mut self,
        mut job: Loaded,
        name: &str,
        value: &Bytes,
        dry_run: bool,
    ) -> Result<EditVerdict> {
        let state = job.status.state(self.now);
        if state.is_settled() {
            return Ok(EditVerdict::WrongState(state));
        }
        if job.status.has_ended(name) {
            return Ok(EditVerdict::WaitEnded);
        }
        let memo = Memo {
            name: name.to_owned(),
            source: MemoSource::Signal,
            value: value.clone(),
            at: self.now,
        };
        let before = job.clone();
        if !append_memo(&mut job.status_mut().memos, memo) {
            return Ok(EditVerdict::SignalsFull);
        }
        let waits = job.status.place == JobState::Held
            && job.status.wait_for.iter().any(|waits| waits == name);
        if waits {
            job.status_mut().wait_for.retain(|waits| waits != name);
        }
        let runs = waits
            && job.status.wait_for.is_empty()
            && job.status.follows.is_none()
            && !self.is_held_back(&job)?;
        if runs {
            let now = self.now;
            let status = job.status_mut();
            status.place = JobState::Scheduled;
            if before.holds() {
                status.due = now;
            }
        }
        let state = job.status.state(self.now);
        if dry_run {
            return Ok(EditVerdict::Done(state));
        }
        if runs || before.holds() {
            self.displace(&before)?;
        }
        self.save(&job);
        if runs || before.holds() {
            self.place(&job)?;
        }
        if runs {
            self.changed(&job);
        }
        Ok(EditVerdict::Done(state))
    }
}

fn step(name: String, value: Bytes, at: Timestamp) -> Memo {
    Memo {
        name,
        source: MemoSource::Step,
        value,
        at,
    }
}
