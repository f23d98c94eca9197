//! The board of a running worker: what runs, what was claimed ahead, what ended and is not yet
//! settled, under which leases. Plain state under one short lock; instants are spans since the
//! worker's start on the local monotonic clock.

mod stopping;

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::task::AbortHandle;

pub(super) use self::stopping::Notice;
use super::ahead::{AHEAD_BYTES_MAX, Estimate};
use super::context::{Context, HeldLease, Seed};
use super::ending::{Cause, settlement, size};
use super::engine_time::EngineTime;
use super::metrics::Labels;
use crate::engine::{CALL_BYTES, Settlement};
use crate::job::{JobRecord, Limits, Outcome, Stop};
use crate::time::Timestamp;
use crate::topic::Message;
use crate::worker::Verdict;

/// Ended jobs that may wait to be settled before nothing more is claimed.
const UNSETTLED_MAX: usize = 4_000;
/// Bytes of them, follow-ups included, that may wait before nothing more is claimed.
const UNSETTLED_BYTES_MAX: usize = 64 << 20;

pub(super) struct Board {
    slots: usize,
    grace: Duration,
    seed: Arc<Seed>,
    /// Whether the engine returned its limits; else they are the defaults.
    knows_limits: bool,
    pub(super) leases: BTreeMap<u64, Leased>,
    pub(super) ahead: VecDeque<Ahead>,
    ahead_bytes: usize,
    /// By their slots' tasks, each of which runs one after the other.
    pub(super) runs: BTreeMap<u64, Run>,
    leaked: HashSet<u64>,
    ended: VecDeque<Ended>,
    in_flight: usize,
    unsettled_bytes: usize,
    /// Whether a claim is under way, whose answer may bring jobs.
    pub(super) claiming: bool,
    /// Whether a queue that it claims from has limits.
    limited: bool,
    estimate: Estimate,
    engine: EngineTime,
    keys: u64,
}

/// A lease that this worker holds.
pub(super) struct Leased {
    pub(super) held: Arc<HeldLease>,
    /// When to extend it next.
    pub(super) beat_at: Duration,
    /// When its handlers are asked to stop, should it not be extended before.
    pub(super) trip_at: Duration,
    /// When they are aborted: while the engine surely still holds the lease for us.
    pub(super) abort_at: Duration,
    /// Jobs of it that are not settled.
    open: usize,
}

/// A claimed job that waits for a slot.
pub(super) struct Ahead {
    pub(super) lease: u64,
    nth: u64,
    pub(super) ctx: Context,
    labels: Labels,
    since: Duration,
}

/// A job in a slot.
pub(super) struct Run {
    pub(super) lease: u64,
    nth: u64,
    pub(super) ctx: Context,
    labels: Labels,
    started: Duration,
    timeout_at: Option<Duration>,
    pub(super) stopping: Option<Stopping>,
    /// The task of its slot, once it is known.
    task: Option<AbortHandle>,
    aborted: bool,
}

/// A run that is over. Dropped outside of the lock: what the handler was given goes with it.
pub(super) struct Over {
    pub(super) run_time: Duration,
    _ctx: Context,
    task: Option<AbortHandle>,
    aborted: bool,
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
    /// The local instant at which it got its slot.
    pub(super) at: Duration,
}

impl Start {
    /// Its handler is called now; how late that is. A task that was spawned, or let others go
    /// first, has waited.
    pub(super) fn begin(&self, now: Duration) -> Duration {
        let attempt = self.ctx.shared();
        attempt.starts_later(now.saturating_sub(self.at));
        attempt.lateness()
    }
}

/// A job to settle.
pub(super) struct Ended {
    pub(super) held: Arc<HeldLease>,
    lease: u64,
    /// Grows from job to job of a lease as they are taken in, or given up.
    nth: u64,
    pub(super) labels: Labels,
    pub(super) settlement: Settlement,
    /// What it published.
    pub(super) messages: Vec<Message>,
    /// A note of its progress that no heartbeat has taken along, if the job is kept.
    pub(super) note: Option<Bytes>,
    bytes: usize,
    items: usize,
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
    pub(super) fn new(slots: usize, grace: Duration, seed: Seed, knows_limits: bool) -> Self {
        Self {
            slots,
            grace,
            seed: Arc::new(seed),
            knows_limits,
            leases: BTreeMap::new(),
            ahead: VecDeque::new(),
            ahead_bytes: 0,
            runs: BTreeMap::new(),
            leaked: HashSet::new(),
            ended: VecDeque::new(),
            in_flight: 0,
            unsettled_bytes: 0,
            claiming: false,
            limited: false,
            estimate: Estimate::default(),
            engine: EngineTime::UNKNOWN,
            keys: 0,
        }
    }

    /// Nothing runs or waits to run.
    pub(super) fn is_idle(&self) -> bool {
        self.runs.is_empty() && self.ahead.is_empty()
    }

    /// Nothing runs, waits, is being claimed or still to be settled.
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

    /// Jobs that run, and that wait for a slot.
    pub(super) fn taken(&self) -> usize {
        self.runs.len() + self.ahead.len()
    }

    /// Whether a queue that it claims from has limits, as the last claim says.
    pub(super) fn set_limited(&mut self, limited: bool) {
        self.limited = limited;
    }

    /// What to claim now, if anything: free slots, and ahead of them once half of that is used up.
    /// Where a queue has limits nothing is claimed ahead: it would use up what others could use.
    pub(super) fn room(&self) -> Option<Room> {
        let free = self.slots.saturating_sub(self.runs.len());
        let allowed_ahead = match self.limited {
            true => 0,
            false => self.estimate.jobs(self.slots),
        };
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
            bytes: bytes.min(self.seed.limits.claim_bytes(CALL_BYTES)),
        })
    }

    /// Takes in a lease; its times count from the instant the claim was sent.
    pub(super) fn add_lease(&mut self, held: Arc<HeldLease>, beat: Beat) -> u64 {
        self.keys += 1;
        let lease = Leased {
            held,
            beat_at: beat.beat_at,
            trip_at: beat.trip_at,
            abort_at: beat.abort_at,
            open: 0,
        };
        self.leases.insert(self.keys, lease);
        self.keys
    }

    /// Puts a job of a lease in line for a slot.
    pub(super) fn add_job(&mut self, lease: u64, ctx: Context, labels: Labels, now: Duration) {
        if let Some(leased) = self.leases.get_mut(&lease) {
            leased.open += 1;
            self.ahead_bytes += ctx.job().payload.len();
            self.keys += 1;
            self.ahead.push_back(Ahead {
                lease,
                nth: self.keys,
                ctx,
                labels,
                since: now,
            });
        }
    }

    /// Ends a job of a lease that is not to run at all.
    pub(super) fn end_unrun(
        &mut self,
        lease: u64,
        job: &JobRecord,
        labels: Labels,
        outcome: Outcome,
        stopped: Option<Stop>,
    ) {
        if let Some(leased) = self.leases.get_mut(&lease) {
            leased.open += 1;
            let held = leased.held.clone();
            let mut settlement = Settlement::new(job.id, job.attempt, outcome);
            settlement.stopped = stopped;
            self.keys += 1;
            self.end(Ended {
                held,
                lease,
                nth: self.keys,
                labels,
                bytes: size(&settlement),
                items: items(job, &settlement),
                settlement,
                messages: Vec::new(),
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

    /// A claim that was sent at one local instant and answered at another has that stamp.
    pub(super) fn learn_engine_time(&mut self, stamp: Timestamp, sent: Duration, now: Duration) {
        self.engine.learn(stamp, sent, now);
    }

    /// Fills free slots with what waits for them, each to be given a task.
    pub(super) fn start(&mut self, now: Duration) -> Vec<Start> {
        let mut starts = Vec::new();
        while self.runs.len() < self.slots {
            self.keys += 1;
            let Some(start) = self.next(self.keys, None, now) else {
                break;
            };
            starts.push(start);
        }
        starts
    }

    /// Starts what is first in line, in that slot.
    fn next(&mut self, key: u64, task: Option<AbortHandle>, now: Duration) -> Option<Start> {
        loop {
            let waiting = self.ahead.pop_front()?;
            self.ahead_bytes -= waiting.ctx.job().payload.len();
            let Some(leased) = self.leases.get(&waiting.lease) else {
                continue;
            };
            if leased.trip_at <= now {
                // It would be stopped at once, or run beside its next attempt.
                self.end_ahead(&waiting, Outcome::Released, None);
                continue;
            }
            let ctx = waiting.ctx;
            ctx.shared().starts(self.engine.at(now));
            let run = Run {
                lease: waiting.lease,
                nth: waiting.nth,
                ctx: ctx.clone(),
                labels: waiting.labels,
                started: now,
                timeout_at: ctx.job().timeout.map(|timeout| now + timeout),
                stopping: None,
                task,
                aborted: false,
            };
            self.runs.insert(key, run);
            return Some(Start {
                key,
                ctx,
                labels: waiting.labels,
                at: now,
            });
        }
    }

    /// Names the tasks of slots; an abort that came before takes effect now.
    pub(super) fn attach(&mut self, tasks: Vec<(u64, AbortHandle)>) {
        for (key, task) in tasks {
            match self.runs.get_mut(&key) {
                Some(run) if run.aborted => task.abort(),
                Some(run) => run.task = Some(task),
                // It is over already.
                None => {}
            }
        }
    }

    /// A run is over: with a verdict, or (`None`) because its task was aborted.
    ///
    /// Answers nothing if its slot had been given up before.
    pub(super) fn finish(
        &mut self,
        key: u64,
        verdict: Option<Verdict>,
        now: Duration,
    ) -> Option<Over> {
        let Some(run) = self.runs.remove(&key) else {
            self.leaked.remove(&key);
            return None;
        };
        let run_time = now.saturating_sub(run.started);
        if run.stopping.is_none() {
            self.estimate.observe(run_time, now);
        }
        Some(self.end_run(run, verdict, run_time))
    }

    /// What the task of a slot runs next, after a run that is over. A task that was aborted runs
    /// nothing more: that would end with it.
    pub(super) fn go_on(&mut self, key: u64, over: &mut Over, now: Duration) -> Option<Start> {
        if over.aborted {
            return None;
        }
        self.next(key, over.task.take(), now)
    }

    fn end_run(&mut self, run: Run, verdict: Option<Verdict>, run_time: Duration) -> Over {
        let cause = run.stopping.map(|stopping| stopping.cause);
        let attempt = run.ctx.shared();
        let note = attempt.progress_to_send();
        let log = attempt.log_left();
        attempt.release_locks();
        match settlement(attempt, verdict, cause) {
            Some(mut settlement) => {
                // A job that is not kept keeps no lines either.
                if is_kept(&attempt.job, &settlement.outcome) {
                    settlement.log = log;
                }
                let messages = attempt.messages_to_send();
                let published = messages.iter().map(|one| one.job().payload.len());
                self.end(Ended {
                    held: attempt.held.clone(),
                    lease: run.lease,
                    nth: run.nth,
                    labels: run.labels,
                    bytes: size(&settlement) + published.sum::<usize>(),
                    items: items(&attempt.job, &settlement) + COPIES * messages.len(),
                    messages,
                    note: note.filter(|_| is_kept(&attempt.job, &settlement.outcome)),
                    settlement,
                    measured: Some((attempt.lateness(), run_time)),
                })
            }
            None => self.close(run.lease),
        }
        Over {
            run_time,
            _ctx: run.ctx,
            task: run.task,
            aborted: run.aborted,
        }
    }

    fn end(&mut self, ended: Ended) {
        self.unsettled_bytes += ended.bytes;
        self.ended.push_back(ended);
    }

    /// Takes what is to be settled, at most a batch, lease by lease and each in its order: so
    /// engines find what stood together together.
    pub(super) fn take_ended(&mut self) -> Vec<Ended> {
        let limits = self.seed.limits;
        let (mut bytes, mut items, mut count) = (0, 0, 0);
        for ended in &self.ended {
            bytes += ended.bytes;
            items += ended.items;
            if count > 0 && (items > limits.batch_items || bytes > limits.batch_bytes) {
                break;
            }
            count += 1;
        }
        let mut taken: Vec<_> = self.ended.drain(..count).collect();
        self.in_flight += taken.len();
        taken.sort_unstable_by_key(|ended| (ended.lease, ended.nth));
        taken
    }

    /// The engine answered for these.
    pub(super) fn settled(&mut self, batch: &[Ended]) {
        self.in_flight -= batch.len();
        for ended in batch {
            self.unsettled_bytes -= ended.bytes;
            self.close(ended.lease);
        }
    }

    /// One job of a lease less; the last one ends the lease.
    fn close(&mut self, lease: u64) {
        if let Some(leased) = self.leases.get_mut(&lease) {
            leased.open = leased.open.saturating_sub(1);
            if leased.open == 0 {
                self.leases.remove(&lease);
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
            .map(|waiting| waiting.ctx.job().payload.len())
            .sum::<usize>();
        taken.into()
    }

    /// Ends what was taken from the line.
    pub(super) fn end_ahead(&mut self, waiting: &Ahead, outcome: Outcome, stopped: Option<Stop>) {
        let job = waiting.ctx.job();
        self.end_unrun(waiting.lease, job, waiting.labels, outcome, stopped);
        // It was counted when it joined the line.
        self.close(waiting.lease);
    }

    /// Drops what was taken from the line: its lease is lost.
    pub(super) fn drop_ahead(&mut self, waiting: &Ahead) {
        self.close(waiting.lease);
    }

    pub(super) fn knows_limits(&self) -> bool {
        self.knows_limits
    }

    pub(super) fn set_limits(&mut self, limits: Limits) {
        self.seed = Arc::new(Seed {
            queue: self.seed.queue.clone(),
            worker: self.seed.worker,
            states: self.seed.states.clone(),
            limits,
            slots: self.seed.slots,
            lease_duration: self.seed.lease_duration,
        });
        self.knows_limits = true;
    }

    /// What the attempts of leases to come are given.
    pub(super) fn seed(&self) -> Arc<Seed> {
        self.seed.clone()
    }

    /// Whether an outcome waits for the settler.
    pub(super) fn has_ended(&self) -> bool {
        !self.ended.is_empty()
    }

    /// Items of one call.
    pub(super) fn batch_items(&self) -> usize {
        self.seed.limits.batch_items
    }

    pub(super) fn grace(&self) -> Duration {
        self.grace
    }
}

/// When to extend a lease, and when to give it up.
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

/// Whether the engine keeps the record of the job after that outcome.
fn is_kept(job: &JobRecord, outcome: &Outcome) -> bool {
    *outcome != Outcome::Completed || !job.retention.is_zero()
}

/// As how many items of a call a settlement counts. One that writes the job again, or takes it out
/// of what it stands in, costs an engine ten times what it takes to note one more completion: a
/// call of 1,000 would keep it from everybody else for tens of milliseconds, when a service is away
/// and all that needs it fails.
fn items(job: &JobRecord, settlement: &Settlement) -> usize {
    let stands_elsewhere = job.unique.is_some() || job.group.is_some();
    let is_kept = is_kept(job, &settlement.outcome) || settlement.attempt > 1;
    match is_kept || stands_elsewhere || !settlement.effects.is_empty() {
        true => ITEMS_EACH * (1 + settlement.effects.len()),
        false => 1,
    }
}

const ITEMS_EACH: usize = 8;
/// As how many items a message counts: some copies.
const COPIES: usize = 4 * ITEMS_EACH;

#[cfg(test)]
mod tests;
