//! The board of a running worker: what runs, what was claimed ahead, what ended and is not yet
//! handed in, under which leases. Plain state under one short lock; instants are spans since the
//! worker's start on the local monotonic clock.

mod stopping;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

pub(super) use self::stopping::Notice;
use super::ahead::{AHEAD_BYTES_MAX, Estimate};
use super::context::{Attempt, Context, Lease};
use super::ending::{Cause, settlement};
use super::meters::Labels;
use crate::engine::{Settlement, WorkerId};
use crate::job::{JobRecord, Limits, Outcome, Stop};
use crate::time::Timestamp;
use crate::worker::Verdict;
use crate::worker::state::States;

/// Ended jobs that may wait to be handed in before nothing more is claimed.
const UNSETTLED_MAX: usize = 4_000;
/// Bytes of them, follow-ups included, that may wait before nothing more is claimed.
const UNSETTLED_BYTES_MAX: usize = 64 << 20;

pub(super) struct Board {
    slots: usize,
    grace: Duration,
    seed: Seed,
    pub(super) pages: HashMap<u64, Leased>,
    pub(super) ahead: VecDeque<Ahead>,
    ahead_bytes: usize,
    pub(super) runs: HashMap<u64, Run>,
    leaked: HashSet<u64>,
    ended: VecDeque<Ended>,
    in_flight: usize,
    unsettled_bytes: usize,
    /// Whether a claim is under way, whose answer may bring jobs.
    pub(super) claiming: bool,
    estimate: Estimate,
    /// Engine time at a local instant, from the last claim.
    engine: (Timestamp, Duration),
    keys: u64,
}

/// What every attempt of a worker is given.
pub(super) struct Seed {
    pub(super) worker: WorkerId,
    pub(super) states: States,
    pub(super) limits: Arc<Limits>,
    /// Whether the engine told them; else they are the defaults.
    pub(super) limits_known: bool,
}

/// A page that this worker holds.
pub(super) struct Leased {
    pub(super) lease: Arc<Lease>,
    /// When to prolong it next.
    pub(super) beat_at: Duration,
    /// When its handlers are asked to stop, should it not be prolonged before.
    pub(super) trip_at: Duration,
    /// When they are aborted: while the engine surely still holds the lease for us.
    pub(super) abort_at: Duration,
    /// Jobs of it that are not settled.
    open: usize,
}

/// A claimed job that waits for a slot.
pub(super) struct Ahead {
    pub(super) page: u64,
    pub(super) job: JobRecord,
    labels: Labels,
    since: Duration,
}

/// A job in a slot.
pub(super) struct Run {
    pub(super) page: u64,
    pub(super) ctx: Context,
    labels: Labels,
    started: Duration,
    timeout_at: Option<Duration>,
    pub(super) stopping: Option<Stopping>,
    lateness: Duration,
}

/// A run on its way out.
pub(super) struct Stopping {
    pub(super) cause: Cause,
    pub(super) abort_at: Duration,
    /// Set by the abort.
    leak_at: Option<Duration>,
}

/// A run to launch.
pub(super) struct Start {
    pub(super) key: u64,
    pub(super) ctx: Context,
    pub(super) labels: Labels,
    pub(super) lateness: Duration,
}

/// A job to hand in.
pub(super) struct Ended {
    pub(super) lease: Arc<Lease>,
    page: u64,
    pub(super) labels: Labels,
    pub(super) settlement: Settlement,
    /// A note of its progress that no heartbeat has taken along, if the job is kept.
    pub(super) note: Option<Bytes>,
    bytes: usize,
    /// Lateness and run time, of a job that ran.
    pub(super) measured: Option<(Duration, Duration)>,
}

/// What one claim may bring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Room {
    pub(super) jobs: usize,
    pub(super) bytes: usize,
}

impl Board {
    pub(super) fn new(slots: usize, grace: Duration, seed: Seed) -> Self {
        Self {
            slots,
            grace,
            seed,
            pages: HashMap::new(),
            ahead: VecDeque::new(),
            ahead_bytes: 0,
            runs: HashMap::new(),
            leaked: HashSet::new(),
            ended: VecDeque::new(),
            in_flight: 0,
            unsettled_bytes: 0,
            claiming: false,
            estimate: Estimate::default(),
            engine: (Timestamp::ZERO, Duration::ZERO),
            keys: 0,
        }
    }

    /// Nothing runs or waits to run.
    pub(super) fn is_idle(&self) -> bool {
        self.runs.is_empty() && self.ahead.is_empty()
    }

    /// Nothing runs, waits, is being claimed or still to be handed in.
    pub(super) fn is_quiet(&self) -> bool {
        self.is_idle() && self.unsettled() == 0 && !self.claiming
    }

    pub(super) fn unsettled(&self) -> usize {
        self.ended.len() + self.in_flight
    }

    pub(super) fn leaked(&self) -> usize {
        self.leaked.len()
    }

    /// How long the handler that has run longest has run; one that blocks its thread may never end.
    pub(super) fn eldest(&self, now: Duration) -> Option<Duration> {
        if !self.leaked.is_empty() {
            return Some(Duration::MAX);
        }
        let first = self.runs.values().map(|run| run.started).min()?;
        Some(now.saturating_sub(first))
    }

    /// What to claim now, if anything: free slots, and ahead of them once half of that is used up.
    pub(super) fn room(&self) -> Option<Room> {
        let free = self.slots.saturating_sub(self.runs.len());
        let allowed_ahead = self.estimate.jobs(self.slots);
        let jobs = (free + allowed_ahead).saturating_sub(self.ahead.len());
        let bytes = AHEAD_BYTES_MAX.saturating_sub(self.ahead_bytes);
        let ahead_lasts = free == 0 && self.ahead.len() * 2 > allowed_ahead;
        let clogged =
            self.unsettled() >= UNSETTLED_MAX || self.unsettled_bytes >= UNSETTLED_BYTES_MAX;
        if jobs == 0 || bytes == 0 || ahead_lasts || clogged {
            return None;
        }
        Some(Room {
            jobs: jobs.min(self.seed.limits.batch_items),
            bytes: bytes.min(self.seed.limits.batch_bytes),
        })
    }

    /// Takes in a page; its times count from the instant the claim was sent.
    pub(super) fn add_page(&mut self, lease: Lease, beat: Beat) -> u64 {
        self.keys += 1;
        let page = Leased {
            lease: Arc::new(lease),
            beat_at: beat.beat_at,
            trip_at: beat.trip_at,
            abort_at: beat.abort_at,
            open: 0,
        };
        self.pages.insert(self.keys, page);
        self.keys
    }

    /// Puts a job of a page in line for a slot.
    pub(super) fn add_job(&mut self, page: u64, job: JobRecord, labels: Labels, now: Duration) {
        if let Some(leased) = self.pages.get_mut(&page) {
            leased.open += 1;
            self.ahead_bytes += job.payload.len();
            self.ahead.push_back(Ahead {
                page,
                job,
                labels,
                since: now,
            });
        }
    }

    /// Ends a job of a page that is not to run at all.
    pub(super) fn end_unrun(
        &mut self,
        page: u64,
        job: &JobRecord,
        labels: Labels,
        outcome: Outcome,
        stopped: Option<Stop>,
    ) {
        if let Some(leased) = self.pages.get_mut(&page) {
            leased.open += 1;
            let lease = leased.lease.clone();
            let mut settlement = Settlement::new(job.id, job.attempt, outcome);
            settlement.stopped = stopped;
            self.end(Ended {
                lease,
                page,
                labels,
                bytes: size(&settlement),
                settlement,
                note: None,
                measured: None,
            });
        }
    }

    /// Hands back what waits for a slot.
    pub(super) fn release_ahead(&mut self) -> usize {
        let ahead = self.take_ahead(|_| true);
        for waiting in &ahead {
            self.end_ahead(waiting, Outcome::Released, None);
        }
        ahead.len()
    }

    /// Engine time was `at` at that local instant.
    pub(super) fn set_engine_time(&mut self, at: Timestamp, local: Duration) {
        self.engine = (at, local);
    }

    /// Fills free slots with what waits for them.
    pub(super) fn start(&mut self, now: Duration) -> Vec<Start> {
        let mut starts = Vec::new();
        while self.runs.len() < self.slots {
            let Some(waiting) = self.ahead.pop_front() else {
                break;
            };
            self.ahead_bytes -= waiting.job.payload.len();
            let Some(leased) = self.pages.get(&waiting.page) else {
                continue;
            };
            if leased.trip_at <= now {
                // It would be stopped at once, or run beside its next attempt.
                self.end_ahead(&waiting, Outcome::Released, None);
                continue;
            }
            let started_at = self.engine.0 + now.saturating_sub(self.engine.1);
            let lateness = started_at - waiting.job.due;
            let timeout_at = waiting.job.timeout.map(|timeout| now + timeout);
            let ctx = Context::new(Attempt::new(
                waiting.job,
                leased.lease.clone(),
                self.seed.worker,
                started_at,
                self.seed.states.clone(),
                self.seed.limits.clone(),
            ));
            self.keys += 1;
            starts.push(Start {
                key: self.keys,
                ctx: ctx.clone(),
                labels: waiting.labels,
                lateness,
            });
            let run = Run {
                page: waiting.page,
                ctx,
                labels: waiting.labels,
                started: now,
                timeout_at,
                stopping: None,
                lateness,
            };
            self.runs.insert(self.keys, run);
        }
        starts
    }

    /// A run's task is over: with a verdict, or (`None`) because it was aborted.
    ///
    /// Answers its run time, or `None` if its slot had been given up before.
    pub(super) fn finish(
        &mut self,
        key: u64,
        verdict: Option<Verdict>,
        now: Duration,
    ) -> Option<Duration> {
        let Some(run) = self.runs.remove(&key) else {
            self.leaked.remove(&key);
            return None;
        };
        let run_time = now.saturating_sub(run.started);
        if run.stopping.is_none() {
            self.estimate.observe(run_time);
        }
        self.end_run(run, verdict, run_time);
        Some(run_time)
    }

    fn end_run(&mut self, run: Run, verdict: Option<Verdict>, run_time: Duration) {
        let cause = run.stopping.map(|stopping| stopping.cause);
        let attempt = run.ctx.shared();
        let note = attempt.progress_to_send();
        match settlement(attempt, verdict, cause) {
            Some(settlement) => self.end(Ended {
                lease: attempt.lease.clone(),
                page: run.page,
                labels: run.labels,
                bytes: size(&settlement),
                note: note.filter(|_| is_kept(&attempt.job, &settlement.outcome)),
                settlement,
                measured: Some((run.lateness, run_time)),
            }),
            None => self.close(run.page),
        }
    }

    fn end(&mut self, ended: Ended) {
        self.unsettled_bytes += ended.bytes;
        self.ended.push_back(ended);
    }

    /// Takes what is to be handed in, at most a batch.
    pub(super) fn take_ended(&mut self) -> Vec<Ended> {
        let limits = self.seed.limits.clone();
        let mut bytes = 0;
        let mut taken = Vec::new();
        while let Some(ended) = self.ended.front() {
            bytes += ended.bytes;
            if !taken.is_empty()
                && (taken.len() == limits.batch_items || bytes > limits.batch_bytes)
            {
                break;
            }
            taken.extend(self.ended.pop_front());
        }
        self.in_flight += taken.len();
        taken
    }

    /// The engine answered for these.
    pub(super) fn settled(&mut self, batch: &[Ended]) {
        self.in_flight -= batch.len();
        for ended in batch {
            self.unsettled_bytes -= ended.bytes;
            self.close(ended.page);
        }
    }

    /// One job of a page less; the last one ends the page.
    fn close(&mut self, page: u64) {
        if let Some(leased) = self.pages.get_mut(&page) {
            leased.open = leased.open.saturating_sub(1);
            if leased.open == 0 {
                self.pages.remove(&page);
            }
        }
    }

    /// Takes what waits for a slot and fits.
    pub(super) fn take_ahead(&mut self, fits: impl Fn(&Ahead) -> bool) -> Vec<Ahead> {
        let (taken, kept): (VecDeque<_>, VecDeque<_>) =
            std::mem::take(&mut self.ahead).into_iter().partition(fits);
        self.ahead = kept;
        self.ahead_bytes -= taken
            .iter()
            .map(|waiting| waiting.job.payload.len())
            .sum::<usize>();
        taken.into()
    }

    /// Ends what was taken from the line.
    pub(super) fn end_ahead(&mut self, waiting: &Ahead, outcome: Outcome, stopped: Option<Stop>) {
        self.end_unrun(waiting.page, &waiting.job, waiting.labels, outcome, stopped);
        // It was counted when it joined the line.
        self.close(waiting.page);
    }

    /// Drops what was taken from the line: its lease is lost.
    pub(super) fn drop_ahead(&mut self, waiting: &Ahead) {
        self.close(waiting.page);
    }

    pub(super) fn knows_limits(&self) -> bool {
        self.seed.limits_known
    }

    pub(super) fn set_limits(&mut self, limits: Limits) {
        self.seed.limits = Arc::new(limits);
        self.seed.limits_known = true;
    }

    /// Items of one call.
    pub(super) fn batch_items(&self) -> usize {
        self.seed.limits.batch_items
    }

    pub(super) fn grace(&self) -> Duration {
        self.grace
    }
}

/// When to prolong a lease, and when to give it up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Beat {
    pub(super) beat_at: Duration,
    pub(super) trip_at: Duration,
    pub(super) abort_at: Duration,
}

impl Beat {
    /// For a lease of which `left` was left when it was asked for, at the local instant `sent`:
    /// a beat at a third, the request to stop at four fifths, the abort at nine tenths.
    pub(super) fn new(sent: Duration, left: Duration) -> Self {
        Self {
            beat_at: sent + left / 3,
            trip_at: sent + left * 4 / 5,
            abort_at: sent + left * 9 / 10,
        }
    }
}

pub(super) fn earliest(a: Option<Duration>, b: Option<Duration>) -> Option<Duration> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// Whether anybody can look at the job after that outcome.
fn is_kept(job: &JobRecord, outcome: &Outcome) -> bool {
    *outcome != Outcome::Completed || !job.retention.is_zero()
}

/// Bytes that a settlement adds to its call.
fn size(settlement: &Settlement) -> usize {
    let effects = settlement.effects.iter().map(|effect| match effect {
        crate::job::Effect::Enqueue(job) => job.payload.len(),
        crate::job::Effect::Clear { name, .. } => name.len(),
    });
    let result = settlement.result.as_ref().map_or(0, Bytes::len);
    result + settlement.error.as_ref().map_or(0, String::len) + effects.sum::<usize>()
}

#[cfg(test)]
mod tests;
