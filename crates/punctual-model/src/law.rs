//! What each act does.

use crate::bugs::Bug;
use crate::world::{Act, Answer, ClaimedJob, Ending, Fate, Replica, Truth, World};

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
    /// All that was answered so that somebody heard it: it is waited for.
    Awaited,
    /// What there was at the last tick, or later: nobody waits for it.
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
                for (completed, heard) in
                    [(true, true), (true, false), (false, true), (false, false)]
                {
                    acts.push(Act::Settle {
                        worker,
                        job,
                        completed,
                        heard,
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
                heard,
            } => self.settle(&mut next, worker, job, completed, heard),
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
        // What nobody heard may be on its way yet.
        let is_heard = !matches!(act, Act::Settle { heard: false, .. });
        let has_it = match self.replication {
            Replication::None => false,
            Replication::Awaited => is_heard && !self.is(Bug::AnswerBeforeReplica),
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
            let (fate, truth) = (&mut world.jobs[at], &mut world.truth[at]);
            let is_active = fate.ending == Ending::Active;
            let is_due = fate.wait == 0 || self.is(Bug::ClaimTakesWaiting);
            let is_free = fate.ending == Ending::Ready && is_due
                || is_active && self.is(Bug::ClaimTakesActive);
            let is_suspect = fate.crashes >= SUSPECT_AFTER;
            if !is_free || is_suspect && !alone {
                continue;
            }
            fate.ending = Ending::Active;
            fate.attempt += 1;
            fate.left = LEASE_DURATION;
            (fate.holder, fate.nonce) = (worker, nonce);
            fate.alone = is_suspect;
            truth.early |= truth.wait > 0;
            truth.two_leases |= truth.holding.is_some();
            truth.holding = Some((fate.holding(), LEASE_DURATION));
            truth.alone = is_suspect;
            world.workers[usize::from(worker)][at] = Some(fate.holding());
            let attempt = fate.attempt;
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
            let (fate, truth) = (&mut world.jobs[at], &mut world.truth[at]);
            let is_active = fate.ending == Ending::Active;
            if !is_active || fate.holding() != holding && !self.is(Bug::ExtendIgnoresToken) {
                lost.push(job);
                continue;
            }
            kept = true;
            fate.left = LEASE_DURATION;
            if fate.cancel_requested {
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
        heard: bool,
    ) -> Answer {
        let (worker, at) = (usize::from(worker), usize::from(job));
        let Some(holding) = world.workers[worker][at] else {
            return Answer::LeaseLost;
        };
        if heard {
            world.workers[worker][at] = None;
        }
        let (fate, truth) = (&mut world.jobs[at], &mut world.truth[at]);
        let is_active = fate.ending == Ending::Active;
        let is_asked = !self.is(Bug::SettleIgnoresToken);
        let is_same = match self.is(Bug::SettleComparesAttempt) {
            true => fate.attempt == holding.attempt,
            false => fate.holding() == holding,
        };
        if !is_active || !is_same && is_asked {
            if completed && self.is(Bug::EffectsOutsideStep) {
                fate.effects += 1;
            }
            let is_told = fate.settled == Some(holding) && fate.ending == Ending::Completed;
            truth.told |= is_told && heard && self.replication != Replication::None;
            return match fate.settled {
                Some(settled) if settled == holding => Answer::Repeated,
                _ => Answer::LeaseLost,
            };
        }
        truth.stale_settle |= truth.holding.map(|(of, _)| of) != Some(holding);
        truth.holding = None;
        if completed {
            fate.ending = Ending::Completed;
            fate.effects += 1;
            truth.completed = true;
            truth.told |= heard && self.replication != Replication::None;
        } else {
            fate.failures += 1;
            fate.ending = match () {
                () if fate.cancel_requested && !self.is(Bug::CancelIsForgotten) => {
                    Ending::Cancelled
                }
                () if fate.failures >= MAX_ATTEMPTS => Ending::Exhausted,
                () => Ending::Ready,
            };
        }
        fate.settled = Some(holding);
        if !self.is(Bug::RescueDoesNotLook) {
            fate.left = 0;
        }
        (fate.holder, fate.nonce, fate.alone) = (0, 0, false);
        Answer::Settled(fate.ending)
    }

    fn cancel(&self, world: &mut World, at: usize) -> Answer {
        let (fate, truth) = (&mut world.jobs[at], &mut world.truth[at]);
        match fate.ending {
            Ending::Ready => {
                fate.ending = Ending::Cancelled;
                truth.cancelled = true;
                Answer::Cancelled
            }
            Ending::Active => {
                fate.cancel_requested = true;
                truth.cancelled = true;
                Answer::CancelRequested
            }
            Ending::Cancelled => Answer::AlreadyCancelled,
            Ending::Completed | Ending::Exhausted | Ending::Poison => Answer::WrongState,
        }
    }

    fn tick(&self, world: &mut World) {
        for at in 0..2 {
            let (fate, truth) = (&mut world.jobs[at], &mut world.truth[at]);
            fate.wait = fate.wait.saturating_sub(1);
            truth.wait = truth.wait.saturating_sub(1);
            match &mut truth.holding {
                Some((_, 1)) => truth.crash(),
                Some((_, left)) => *left -= 1,
                None => {}
            }
            if fate.left > 0 {
                fate.left -= 1;
                let is_over = fate.left == 0;
                if is_over && (fate.ending == Ending::Active || self.is(Bug::RescueDoesNotLook)) {
                    self.rescue(fate);
                }
            }
        }
    }

    fn failover(&self, world: &mut World) {
        world.workers[1] = [None; 2];
        for at in 0..2 {
            let (fate, truth) = (&mut world.jobs[at], &mut world.truth[at]);
            if fate.ending == Ending::Active && fate.holder == 1 {
                truth.crash();
                self.rescue(fate);
            }
            if fate.ending == Ending::Completed && self.is(Bug::FailoverForgets) {
                fate.ending = Ending::Ready;
            }
        }
    }

    /// The lease of a job ran out.
    fn rescue(&self, fate: &mut Fate) {
        if !self.is(Bug::RescueDoesNotCount) {
            fate.crashes += 1;
        }
        let blamed = fate.crashes >= SUSPECT_AFTER && self.is(Bug::NeighboursAreBlamed);
        fate.ending = match () {
            () if fate.cancel_requested => Ending::Cancelled,
            () if fate.alone || blamed => Ending::Poison,
            () => Ending::Ready,
        };
        (fate.left, fate.holder, fate.nonce, fate.alone) = (0, 0, 0, false);
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
            // What somebody saw was seen, and time does not go back.
            world.truth[at] = Truth {
                two_leases: was.two_leases,
                stale_settle: was.stale_settle,
                early: was.early,
                told: was.told,
                wait: was.wait,
                ..replica.truth[at]
            };
            if self.is(Bug::LossForgetsDue) {
                world.jobs[at].wait = 0;
            }
        }
    }

    /// A nonce that nobody has: the least, so that states that differ in nothing else are one.
    /// Where no claim is ever lost attempts are not counted anew, and tell leases apart.
    fn nonce(&self, world: &World, at: usize) -> u8 {
        let Some(replica) = &world.replica else {
            return 0;
        };
        if self.replication == Replication::Awaited {
            return 0;
        }
        let held = world.workers.iter().filter_map(|held| held[at]);
        let of = |fate: &Fate, truth: &Truth| {
            let known = [
                Some(fate.holding()),
                fate.settled,
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
        told: false,
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
