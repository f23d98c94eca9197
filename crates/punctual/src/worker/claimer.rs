//! Claims what the slots can take, then sleeps until the engine has more.

use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::alone::{self, Turn, is_dry};
use super::context::{Attempt, Context, HeldLease};
use super::health::Loop;
use super::queues::Queues;
use super::runtime::{HURRIED_PAUSE, Idle, Phase, Runtime};
use super::slots::{Beat, Board, Room};
use super::suspects::Suspects;
use crate::backoff::{Backoff, draw};
use crate::engine::{
    Claim, ClaimMode, ClaimOrder, Claimed, Lease, WaitFor, Waited, WakeBy, WorkerPlace,
    WorkerRecord,
};
use crate::error::{Error, ErrorKind, Result};
use crate::job::{JobRecord, Outcome};
use crate::sync::Lock;
use crate::time::{Timestamp, millis, minutes, pause, seconds};

/// An idle worker claims once in that span of engine time, to be seen; or somewhat earlier, so that
/// many do not claim in step. The engine's wait finds work whose wakeup was lost.
const SEEN_AGAIN: Duration = seconds(25);
/// An engine that does not come back from a wait is claimed from after that many seconds of real
/// time.
const DEAF_SECONDS_MAX: u64 = 30;
/// A claim that is not answered is sent again, under the same nonce.
const CLAIM_SECONDS_MAX: u64 = 10;
/// What was claimed waits for this one: it is short, and not asked for again soon.
const INFO_SECONDS_MAX: u64 = 1;
const LIMITS_PAUSE: Duration = seconds(30);

pub(super) async fn run(rt: Arc<Runtime>) {
    let mut claimer = Claimer {
        queues: rt
            .setup
            .queues()
            .unwrap_or_else(|_| unreachable!("they were checked at the start")),
        suspects: Suspects::new(rt.setup.suspect_wait, rt.setup.id),
        backoff: Backoff::engine(),
        was_alone: false,
        asked_alone: false,
        limits_at: Duration::ZERO,
        futile: 0,
        repeated_at: None,
        rt,
    };
    claimer.rt.board().claiming = false;
    while claimer.rt.phase() == Phase::Claiming {
        claimer.rt.activity.beat(Loop::Claimer);
        claimer.round().await;
    }
    let rt = claimer.rt.clone();
    tokio::select! {
        () = claimer.ask_again() => {}
        () = released(&rt) => {}
    }
    rt.board().claiming = false;
    rt.changed();
}

struct Claimer {
    rt: Arc<Runtime>,
    queues: Queues,
    suspects: Suspects,
    backoff: Backoff,
    was_alone: bool,
    /// Whether the last claim was for a suspect. If it was not answered the next one is too: its
    /// lease may be there.
    asked_alone: bool,
    /// When to ask for limits that are not known.
    limits_at: Duration,
    /// Claims in a row that brought nothing although the engine had called.
    futile: u32,
    /// The engine's time at the last claim that was to be repeated at once, before it ends idle.
    repeated_at: Option<Timestamp>,
}

impl Claimer {
    /// Waits for room, claims, and waits for work if there is no more.
    async fn round(&mut self) {
        self.rt.start_next();
        let unanswered = self.is_unanswered();
        let alone = match unanswered {
            true => self.asked_alone,
            false => self.is_turn_of_suspects(),
        };
        let isolated = self.rt.setup.isolated;
        let turn = match alone && !isolated {
            true => match self.run_dry().await {
                None if !unanswered => return,
                turn => turn,
            },
            false => None,
        };
        let room = self.rt.board().room();
        let Some(room) = room else {
            let fits = self.rt.until(|board| board.room().is_some());
            self.bounded(fits).await;
            return;
        };
        let quiet = self.rt.board().is_quiet();
        let asked = self.rt.now();
        self.rt.board().claiming = true;
        if turn.is_none() && !isolated && alone::is_taken() {
            // Nothing is claimed beside another worker's suspect.
            self.rt.board().claiming = unanswered;
            self.rt.changed();
            self.bounded(alone::left()).await;
            return;
        }
        match self.claim(room, alone).await {
            Ok(claimed) => {
                self.backoff.reset();
                self.rt.activity.well(Loop::Claimer);
                let unknown = !self.rt.board().knows_limits();
                if unknown && asked >= self.limits_at {
                    self.limits_at = asked + LIMITS_PAUSE;
                    self.learn_limits().await;
                }
                self.claimed(claimed, asked, alone, quiet).await;
            }
            Err(error) => {
                self.suspects.unanswered();
                // A lease may be ours: it is still being claimed, until that is known.
                if error.kind() == ErrorKind::BatchTooLarge {
                    self.learn_limits().await;
                }
                let pause = self.backoff.pause();
                tracing::warn!(%error, ?pause, "claim failed; trying again");
                self.rt.trouble(Loop::Claimer, &error);
                self.rt.pause(pause, Phase::Draining).await;
            }
        }
    }

    /// Asks what one call may carry: the engine did not say so at the start, or is another one now.
    async fn learn_limits(&self) {
        let rt = &self.rt;
        let asked = rt.answer("info", INFO_SECONDS_MAX, rt.engine.info()).await;
        if let Ok(info) = asked {
            rt.board().set_limits(info.limits);
        }
    }

    /// A worker that ends asks for the lease whose answer was lost, to hand it back: else its jobs
    /// would wait for the lease to end, and count a crash.
    async fn ask_again(&mut self) {
        while self.is_unanswered() {
            let asked = self.rt.now();
            let alone = self.asked_alone;
            match self.claim(Room { jobs: 1, bytes: 1 }, alone).await {
                Ok(claimed) => drop(admit(&self.rt, claimed, asked)),
                Err(_) => self.rt.pause(HURRIED_PAUSE, Phase::Over).await,
            }
        }
    }

    /// Whether the last claim was not answered: it is sent again before any other.
    fn is_unanswered(&self) -> bool {
        self.rt.nonce.load(Ordering::Relaxed) != 0
    }

    /// Whether the next claim is for suspects: for an isolated worker, every other one.
    fn is_turn_of_suspects(&mut self) -> bool {
        if !self.suspects.are_waiting() {
            return false;
        }
        if self.rt.setup.isolated {
            return !self.was_alone;
        }
        let now = self.rt.now();
        self.suspects.is_turn(now, alone::eldest(&self.rt))
    }

    /// Sends a claim; an unanswered one again under its nonce, so that its lease is not stranded.
    async fn claim(&mut self, room: Room, alone: bool) -> Result<Claimed> {
        let rt = &self.rt;
        let setup = &rt.setup;
        let unanswered = rt.nonce.load(Ordering::Relaxed);
        let fresh = || uuid::Uuid::new_v4().as_u128() as u64 | 1;
        let nonce = if unanswered == 0 { fresh() } else { unanswered };
        rt.nonce.store(nonce, Ordering::Relaxed);
        self.asked_alone = alone;
        let claim = Claim {
            worker: WorkerRecord {
                busy: rt.board().taken() as u32,
                ..rt.record.clone()
            },
            queues: self.queues.next(),
            order: ClaimOrder::Strict,
            limit: room.jobs,
            max_bytes: room.bytes,
            lease_duration: setup.lease_duration,
            nonce,
            mode: match alone {
                true => ClaimMode::Alone,
                false => ClaimMode::Shared,
            },
            place: WorkerPlace::WithEngine,
        };
        let call = rt.engine.claim(&rt.namespace, claim);
        let claimed = tokio::select! {
            biased;
            answer = rt.answer("claim", CLAIM_SECONDS_MAX, call) => answer?,
            // What it brings would be handed back; but a release does not wait for it.
            () = released(rt) => return Err(shutting_down()),
        };
        rt.nonce.store(0, Ordering::Relaxed);
        Ok(claimed)
    }

    async fn claimed(&mut self, claimed: Claimed, asked: Duration, alone: bool, quiet: bool) {
        let (now, wake_at) = (claimed.now, claimed.wake_at);
        let wake_by = claimed.wake_by;
        let more = wake_at.is_some_and(|wake_at| wake_at <= now);
        self.suspects.seen(claimed.suspects_wait, self.rt.now());
        let (jobs, suspect) = admit(&self.rt, claimed, asked);
        if suspect && !self.rt.setup.isolated {
            // It was claimed so that nothing else runs beside it.
            self.rest_while_busy().await;
        }
        if alone {
            self.suspects.done(self.rt.now(), jobs > 0);
        } else if jobs == 0 && quiet {
            self.suspects.idle();
        }
        if jobs > 0 {
            self.futile = 0;
        }
        self.was_alone = alone;
        if self.is_turn_of_suspects() {
            return;
        }
        if more {
            if jobs == 0 {
                self.hold_back().await;
            }
        } else if jobs == 0 && quiet && self.rt.ends_idle() {
            // An engine does a part of a large flow's work in each claim, the next one in a
            // millisecond; where its clock stands still, this is no such part.
            let is_soon = wake_at.is_some_and(|at| at <= now + millis(1));
            if is_soon && self.repeated_at.replace(now) != Some(now) {
                pause(millis(1)).await;
            } else {
                self.rt.idle(Idle { now, wake_at });
            }
        } else if self.rt.board().room().is_some() {
            // Without room it does not listen: the wakeup is for a worker that can come.
            let wakes_at = wake_at.filter(|_| wake_by == WakeBy::Claimer);
            self.wait(now, wakes_at).await;
        }
    }

    /// Sleeps until the engine may have more, by its clock or its wakeup.
    async fn wait(&mut self, now: Timestamp, wakes_at: Option<Timestamp>) {
        let most = match self.suspects.are_waiting() {
            // Whether it is their turn is to be asked again and again.
            true => seconds(1),
            false => SEEN_AGAIN.mul_f64(1.0 - draw() / 3.0),
        };
        let until = wakes_at.map_or(now + most, |at| at.min(now + most));
        let rt = self.rt.clone();
        let turn_at = self.suspects.turn_at(rt.now());
        let rest = turn_at.map_or(Duration::ZERO, |at| at.saturating_sub(rt.now()));
        let kept_out = self.suspects.are_waiting() && turn_at.is_none() && !rt.setup.isolated;
        let waited = rt
            .engine
            .wait(&rt.namespace, WaitFor::Work(self.queues.names()), until);
        let waited = tokio::select! {
            waited = waited => Some(waited),
            () = rt.ticked(DEAF_SECONDS_MAX) => None,
            () = rt.reached(Phase::Draining) => None,
            () = pause(rest), if turn_at.is_some() => None,
            // Suspects wait for what still runs, and for nothing else.
            () = rt.until(is_dry), if kept_out => None,
            // Ends with the work: what was settled may have brought more.
            () = rt.until(|board| board.is_quiet()), if rt.ends_idle() => None,
        };
        match waited {
            Some(Ok(Waited::Work)) => {
                self.futile += 1;
                if self.futile > FUTILE_MAX {
                    self.hold_back().await;
                }
            }
            Some(Ok(_)) => self.futile = 0,
            None => {}
            Some(Err(error)) => {
                let pause = self.backoff.pause();
                tracing::warn!(%error, ?pause, "wait failed; trying again");
                rt.trouble(Loop::Claimer, &error);
                rt.pause(pause, Phase::Draining).await;
            }
        }
    }

    /// A wakeup without work, again and again: do not run hot on it.
    async fn hold_back(&mut self) {
        self.futile += 1;
        let pause = millis(1 << self.futile.min(6));
        self.rt.pause(pause, Phase::Draining).await;
    }

    /// Waits until nothing runs and every outcome is settled: if the process ends now, only the
    /// suspect has crashed. The turn, if it came to that in time.
    async fn run_dry(&mut self) -> Option<Turn> {
        let rt = self.rt.clone();
        while rt.phase() == Phase::Claiming {
            rt.activity.beat(Loop::Claimer);
            let now = rt.now();
            let (dry, eldest) = {
                let board = rt.board();
                (is_dry(&board), board.eldest(now))
            };
            if dry {
                return self.clear_the_house().await;
            }
            let left = self.suspects.wait_left(now, eldest);
            if left.is_zero() {
                tracing::debug!(?eldest, "suspects wait on: handlers did not end");
                self.suspects.gave_up(now);
                return None;
            }
            tokio::select! {
                () = self.bounded(rt.until(is_dry)) => {}
                () = pause(left) => {}
            }
        }
        None
    }

    /// Waits until the other workers of the process have run dry too.
    async fn clear_the_house(&mut self) -> Option<Turn> {
        let rt = self.rt.clone();
        let Some(turn) = Turn::begin() else {
            self.bounded(alone::left()).await;
            return None;
        };
        let left = self.suspects.wait_left(rt.now(), None);
        tokio::select! {
            biased;
            () = turn.others_are_dry(&rt) => return Some(turn),
            () = rt.reached(Phase::Draining) => {}
            () = pause(left) => {
                tracing::debug!("suspects wait on: handlers of other workers did not end");
                self.suspects.gave_up(rt.now());
            }
        }
        None
    }

    /// Waits until what runs has ended and is settled, however long that takes.
    async fn rest_while_busy(&self) {
        let is_over = |board: &Board| board.is_idle() && board.unsettled() == 0;
        while self.rt.phase() == Phase::Claiming && !is_over(&self.rt.board()) {
            self.rt.activity.beat(Loop::Claimer);
            self.bounded(self.rt.until(is_over)).await;
        }
    }

    /// Waits for a fact, for the end, or for a tick.
    async fn bounded(&self, fact: impl Future<Output = ()>) {
        tokio::select! {
            biased;
            () = fact => {}
            () = self.rt.ticked(0) => {}
            () = self.rt.reached(Phase::Draining) => {}
        }
    }
}

/// Wakeups in a row that may be false before the claimer slows down.
const FUTILE_MAX: u32 = 3;

async fn released(rt: &Runtime) {
    rt.reached(Phase::Releasing).await;
    crate::time::pause(seconds(1)).await;
}

fn shutting_down() -> Error {
    Error::new(ErrorKind::ShuttingDown, "worker ends").operation("claim")
}

/// Takes in the leases of a claim; answers how many jobs they bring, and whether one is a suspect.
fn admit(rt: &Arc<Runtime>, claimed: Claimed, asked: Duration) -> (usize, bool) {
    let now = rt.now();
    let jobs = claimed.leases.iter().map(|lease| lease.jobs.len()).sum();
    let suspect = claimed
        .leases
        .iter()
        .any(|lease| lease.jobs.iter().any(JobRecord::is_suspect));
    let mut unknown = Vec::new();
    let limited = claimed.limited;
    let open_since = |job: &JobRecord| {
        let Some(of_queue) = limited.iter().find(|one| one.queue == job.queue) else {
            return Timestamp::ZERO;
        };
        let shares = of_queue.shares.iter();
        let of_share = shares.filter(|(share, _)| job.share.as_ref() == Some(share));
        let limits = of_queue.limits.iter();
        let of_limits = limits.filter(|(name, _)| job.limits.contains(name));
        let opened = of_share.chain(of_limits).map(|(_, at)| *at);
        opened.fold(of_queue.open_since, Timestamp::max)
    };
    let seed = rt.board().seed();
    let attempts = |lease: Lease| {
        let held = Arc::new(HeldLease::new(lease.token, lease.deadline, seed.clone()));
        let attempt = |job: JobRecord| {
            let labels = rt.metrics.labels(&job.queue, &job.kind);
            rt.metrics.claimed(labels);
            let open_since = open_since(&job);
            let attempt = Attempt::new(job, held.clone(), open_since);
            (Context::new(attempt), labels)
        };
        let jobs: Vec<_> = lease.jobs.into_iter().map(attempt).collect();
        // A repeated answer has less of its lease left than was asked for.
        let left = rt.lease_duration().min(lease.deadline - claimed.now);
        (held, Beat::new(asked, left), jobs)
    };
    // Before the lock is taken: handlers end meanwhile.
    let leases: Vec<_> = claimed.leases.into_iter().map(attempts).collect();
    {
        let mut board = rt.board();
        board.set_limited(!limited.is_empty());
        board.learn_engine_time(claimed.now, asked, now);
        for (held, beat, jobs) in leases {
            let key = board.add_lease(held, beat);
            if beat.beat_at < now + seconds(1) {
                rt.beats.notify_one();
            }
            for (ctx, labels) in jobs {
                if rt.handler(labels, &ctx.job().kind).is_some() {
                    board.add_job(key, ctx, labels, now);
                } else {
                    let job = ctx.job();
                    board.end_unrun(key, job, labels, snooze(job), None);
                    unknown.push(job.kind.clone());
                }
            }
        }
        if rt.phase() > Phase::Claiming {
            board.release_ahead();
        }
        board.claiming = false;
    }
    rt.changed();
    if jobs > 0 {
        tracing::debug!(jobs, "claimed");
        rt.start_next();
        rt.settle.notify_one();
    }
    unknown.iter().for_each(|kind| rt.unknown.warn(kind));
    (jobs, suspect)
}

/// A kind without a handler is delayed, not failed: during a rolling deploy another worker has one.
fn snooze(job: &JobRecord) -> Outcome {
    let doublings = job.attempt.saturating_sub(1).min(5);
    Outcome::Snooze {
        after: (seconds(30) * (1 << doublings)).min(minutes(10)),
    }
}

/// The kinds that were warned of.
#[derive(Default)]
pub(super) struct Unknown(Mutex<HashSet<String>>);

/// Kinds are made by producers: there may be any number.
const UNKNOWN_MAX: usize = 1_000;

impl Unknown {
    fn warn(&self, kind: &str) {
        let mut warned = self.0.locked();
        if warned.len() < UNKNOWN_MAX && !warned.contains(kind) {
            warned.insert(kind.to_owned());
            tracing::warn!(
                kind,
                "worker has no handler for this kind; its jobs are delayed. \
                 Register one, or give the kind a queue of its own"
            );
        }
    }
}
