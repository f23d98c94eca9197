//! What each act does.

use crate::bugs::Bug;
use crate::world::{Act, Answer, ClaimedJob, Ending, JobTruth, Replica, Truth, World};

/// Ticks of a lease.
const LEASE_DURATION: u8 = 2;
/// Outcomes that count, and then a job is dead.
pub(crate) const MAX_ATTEMPTS: u8 = 2;
/// Crashes after which a job is claimed alone only.
const SUSPECT_AFTER: u8 = 2;

/// The law: what comes of an act in a state.
#[derive(Debug, Clone, Copy)]
pub struct Law {
    /// A bug that is injected.
    pub bug: Option<Bug>,
    /// Whether worker 1 runs in the process of the engine, and that may be killed.
    pub failover: bool,
    /// What a replica has that may go on in its place.
    pub replication: Replication,
    /// How many jobs are claimed and cancelled: both, or the first alone.
    pub jobs: u8,
}

/// What a replica has once something is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replication {
    /// There is none.
    None,
    /// All answered changes whose answers arrived: the engine waits for the replica.
    Awaited,
    /// What there was at the last tick, or later: the engine does not wait for it.
    Unawaited,
}

impl Default for Law {
    fn default() -> Self {
        Self {
            bug: None,
            failover: false,
            replication: Replication::None,
            jobs: 2,
        }
    }
}

impl Law {
    /// The state that all begins with.
    pub fn begin(&self) -> World {
        let mut world = World::new();
        if self.replication != Replication::None {
            replicate(&mut world);
        }
        world
    }

    /// What can happen in a state.
    pub fn acts(&self, world: &World) -> Vec<Act> {
        let mut acts = vec![Act::Tick];
        acts.extend(self.failover.then_some(Act::Failover));
        acts.extend(world.replica.map(|_| Act::Lose));
        acts.extend((self.replication == Replication::Unawaited).then_some(Act::Replicate));
        acts.extend((0..self.jobs).map(Act::Cancel));
        for worker in [0, 1] {
            let held = world.workers[usize::from(worker)];
            if held == [None; 2] {
                let claim = |(jobs, alone)| Act::Claim {
                    worker,
                    jobs,
                    alone,
                };
                let claims = [(1, false), (2, false), (3, false), (1, true), (2, true)];
                let are_there = |(jobs, _): &(u8, bool)| *jobs < 1 << self.jobs;
                acts.extend(claims.into_iter().filter(are_there).map(claim));
                continue;
            }
            acts.extend([Act::Extend(worker), Act::Die(worker)]);
            for job in (0..2).filter(|job| held[usize::from(*job)].is_some()) {
                for (completed, received) in
                    [(true, true), (true, false), (false, true), (false, false)]
                {
                    acts.push(Act::Settle {
                        worker,
                        job,
                        completed,
                        received,
                    });
                }
            }
        }
        acts
    }

    /// The state after an act, and what the engine says.
    pub fn step(&self, world: &World, act: Act) -> (World, Answer) {
        let mut next = world.clone();
        let answer = match act {
            Act::Claim {
                worker,
                jobs,
                alone,
            } => self.claim(&mut next, worker, jobs, alone),
            Act::Extend(worker) => self.extend(&mut next, worker),
            Act::Settle {
                worker,
                job,
                completed,
                received,
            } => self.settle(&mut next, worker, job, completed, received),
            Act::Cancel(job) => self.cancel(&mut next, usize::from(job)),
            Act::Tick => {
                self.tick(&mut next);
                Answer::Silence
            }
            Act::Die(worker) => {
                next.workers[usize::from(worker)] = [None; 2];
                Answer::Silence
            }
            Act::Failover => {
                self.failover(&mut next);
                Answer::Silence
            }
            Act::Replicate => Answer::Silence,
            Act::Lose => {
                self.lose(&mut next);
                Answer::Silence
            }
        };
        // What no client received may be on its way yet.
        let is_received = !matches!(
            act,
            Act::Settle {
                received: false,
                ..
            }
        );
        let has_it = match self.replication {
            Replication::None => false,
            Replication::Awaited => is_received && !self.is(Bug::AnswerBeforeReplica),
            Replication::Unawaited => matches!(act, Act::Tick | Act::Replicate),
        };
        if has_it {
            replicate(&mut next);
        }
        (next, answer)
    }

    fn is(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    fn claim(&self, world: &mut World, worker: u8, jobs: u8, alone: bool) -> Answer {
        let mut claimed = Vec::new();
        for job in (0..2_u8).filter(|job| jobs & 1 << job != 0) {
            let at = usize::from(job);
            let nonce = self.nonce(world, at);
            let (truth_of_job, truth) = (&mut world.jobs[at], &mut world.truth[at]);
            let is_active = truth_of_job.ending == Ending::Active;
            let is_due = truth_of_job.wait == 0 || self.is(Bug::ClaimTakesWaiting);
            let is_free = truth_of_job.ending == Ending::Ready && is_due
                || is_active && self.is(Bug::ClaimTakesActive);
            let is_suspect = truth_of_job.crashes >= SUSPECT_AFTER;
            if !is_free || is_suspect && !alone {
                continue;
            }
            truth_of_job.ending = Ending::Active;
            truth_of_job.attempt += 1;
            truth_of_job.left = LEASE_DURATION;
            (truth_of_job.holder, truth_of_job.nonce) = (worker, nonce);
            truth_of_job.alone = is_suspect;
            truth.early |= truth.wait > 0;
            truth.two_leases |= truth.holding.is_some();
            truth.holding = Some((truth_of_job.holding(), LEASE_DURATION));
            truth.alone = is_suspect;
            world.workers[usize::from(worker)][at] = Some(truth_of_job.holding());
            let attempt = truth_of_job.attempt;
            claimed.push(ClaimedJob { job, attempt });
        }
        Answer::Claimed(claimed)
    }

    fn extend(&self, world: &mut World, worker: u8) -> Answer {
        let (mut lost, mut stop, mut kept) = (Vec::new(), Vec::new(), false);
        for job in 0..2_u8 {
            let at = usize::from(job);
            let Some(holding) = world.workers[usize::from(worker)][at] else {
                continue;
            };
            let (truth_of_job, truth) = (&mut world.jobs[at], &mut world.truth[at]);
            let is_active = truth_of_job.ending == Ending::Active;
            if !is_active || truth_of_job.holding() != holding && !self.is(Bug::ExtendIgnoresToken)
            {
                lost.push(job);
                continue;
            }
            kept = true;
            truth_of_job.left = LEASE_DURATION;
            if truth_of_job.cancel_requested {
                stop.push(job);
            }
            if truth.holding.is_some_and(|(of, _)| of == holding) {
                truth.holding = Some((holding, LEASE_DURATION));
            }
        }
        if kept {
            Answer::Extended { lost, stop }
        } else {
            Answer::LeaseLost
        }
    }

    fn settle(
        &self,
        world: &mut World,
        worker: u8,
        job: u8,
        completed: bool,
        received: bool,
    ) -> Answer {
        let (worker, at) = (usize::from(worker), usize::from(job));
        let Some(holding) = world.workers[worker][at] else {
            return Answer::LeaseLost;
        };
        if received {
            world.workers[worker][at] = None;
        }
        let (truth_of_job, truth) = (&mut world.jobs[at], &mut world.truth[at]);
        let is_active = truth_of_job.ending == Ending::Active;
        let is_asked = !self.is(Bug::SettleIgnoresToken);
        let is_same = match self.is(Bug::SettleComparesAttempt) {
            true => truth_of_job.attempt == holding.attempt,
            false => truth_of_job.holding() == holding,
        };
        if !is_active || !is_same && is_asked {
            if completed && self.is(Bug::EffectsOutsideStep) {
                truth_of_job.effects += 1;
            }
            let is_reported =
                truth_of_job.settled == Some(holding) && truth_of_job.ending == Ending::Completed;
            truth.reported |= is_reported && received && self.replication != Replication::None;
            return match truth_of_job.settled {
                Some(settled) if settled == holding => Answer::Repeated,
                _ => Answer::LeaseLost,
            };
        }
        truth.stale_settle |= truth.holding.map(|(of, _)| of) != Some(holding);
        truth.holding = None;
        if completed {
            truth_of_job.ending = Ending::Completed;
            truth_of_job.effects += 1;
            truth.completed = true;
            truth.reported |= received && self.replication != Replication::None;
        } else {
            truth_of_job.failures += 1;
            truth_of_job.ending = match () {
                () if truth_of_job.cancel_requested && !self.is(Bug::CancelIsForgotten) => {
                    Ending::Cancelled
                }
                () if truth_of_job.failures >= MAX_ATTEMPTS => Ending::Exhausted,
                () => Ending::Ready,
            };
        }
        truth_of_job.settled = Some(holding);
        if !self.is(Bug::RescueDoesNotCheck) {
            truth_of_job.left = 0;
        }
        (truth_of_job.holder, truth_of_job.nonce, truth_of_job.alone) = (0, 0, false);
        Answer::Settled(truth_of_job.ending)
    }

    fn cancel(&self, world: &mut World, at: usize) -> Answer {
        let (truth_of_job, truth) = (&mut world.jobs[at], &mut world.truth[at]);
        match truth_of_job.ending {
            Ending::Ready => {
                truth_of_job.ending = Ending::Cancelled;
                truth.cancelled = true;
                Answer::Cancelled
            }
            Ending::Active => {
                truth_of_job.cancel_requested = true;
                truth.cancelled = true;
                Answer::CancelRequested
            }
            Ending::Cancelled => Answer::AlreadyCancelled,
            Ending::Completed | Ending::Exhausted | Ending::Poison => Answer::WrongState,
        }
    }

    fn tick(&self, world: &mut World) {
        for at in 0..2 {
            let (truth_of_job, truth) = (&mut world.jobs[at], &mut world.truth[at]);
            truth_of_job.wait = truth_of_job.wait.saturating_sub(1);
            truth.wait = truth.wait.saturating_sub(1);
            match &mut truth.holding {
                Some((_, 1)) => truth.crash(),
                Some((_, left)) => *left -= 1,
                None => {}
            }
            if truth_of_job.left > 0 {
                truth_of_job.left -= 1;
                let is_over = truth_of_job.left == 0;
                if is_over
                    && (truth_of_job.ending == Ending::Active || self.is(Bug::RescueDoesNotCheck))
                {
                    self.rescue(truth_of_job);
                }
            }
        }
    }

    fn failover(&self, world: &mut World) {
        world.workers[1] = [None; 2];
        for at in 0..2 {
            let (truth_of_job, truth) = (&mut world.jobs[at], &mut world.truth[at]);
            if truth_of_job.ending == Ending::Active && truth_of_job.holder == 1 {
                truth.crash();
                self.rescue(truth_of_job);
            }
            if truth_of_job.ending == Ending::Completed && self.is(Bug::FailoverForgets) {
                truth_of_job.ending = Ending::Ready;
            }
        }
    }

    /// The lease of a job ran out.
    fn rescue(&self, truth_of_job: &mut JobTruth) {
        if !self.is(Bug::RescueDoesNotCount) {
            truth_of_job.crashes += 1;
        }
        let blamed = truth_of_job.crashes >= SUSPECT_AFTER && self.is(Bug::NeighboursAreBlamed);
        truth_of_job.ending = match () {
            () if truth_of_job.cancel_requested => Ending::Cancelled,
            () if truth_of_job.alone || blamed => Ending::Poison,
            () => Ending::Ready,
        };
        (
            truth_of_job.left,
            truth_of_job.holder,
            truth_of_job.nonce,
            truth_of_job.alone,
        ) = (0, 0, 0, false);
    }

    /// The replica goes on. No time has passed since it had the last of what it has: every tick
    /// reaches it.
    fn lose(&self, world: &mut World) {
        let Some(replica) = world.replica else {
            return;
        };
        world.jobs = replica.jobs;
        for at in 0..2 {
            let was = world.truth[at];
            // What a client saw was seen, and time does not go back.
            world.truth[at] = Truth {
                two_leases: was.two_leases,
                stale_settle: was.stale_settle,
                early: was.early,
                reported: was.reported,
                wait: was.wait,
                ..replica.truth[at]
            };
            if self.is(Bug::LossForgetsDue) {
                world.jobs[at].wait = 0;
            }
        }
    }

    /// A nonce that no lease has: the least, so that states that differ in nothing else are one.
    /// Where no claim is ever lost attempts are not counted anew, and distinguish leases.
    fn nonce(&self, world: &World, at: usize) -> u8 {
        let Some(replica) = &world.replica else {
            return 0;
        };
        if self.replication == Replication::Awaited {
            return 0;
        }
        let held = world.workers.iter().filter_map(|held| held[at]);
        let of = |truth_of_job: &JobTruth, truth: &Truth| {
            let known = [
                Some(truth_of_job.holding()),
                truth_of_job.settled,
                truth.holding.map(|(of, _)| of),
            ];
            known.into_iter().flatten()
        };
        let here = of(&world.jobs[at], &world.truth[at]);
        let there = of(&replica.jobs[at], &replica.truth[at]);
        let taken: Vec<u8> = held.chain(here).chain(there).map(|of| of.nonce).collect();
        let mut free = (1..).filter(|nonce| !taken.contains(nonce));
        free.next().expect("few are taken")
    }
}

/// The replica has all that there is.
fn replicate(world: &mut World) {
    let seen = |truth: Truth| Truth {
        two_leases: false,
        stale_settle: false,
        early: false,
        reported: false,
        wait: 0,
        ..truth
    };
    world.replica = Some(Replica {
        jobs: world.jobs,
        truth: world.truth.map(seen),
    });
}

impl crate::world::Truth {
    fn crash(&mut self) {
        self.holding = None;
        self.crashes += 1;
        self.crashed_alone |= self.alone;
    }
}
