//! What each act does.

use crate::bugs::Bug;
use crate::world::{Act, Answer, ClaimedJob, Ending, Fate, World};

/// Ticks of a lease.
const LEASE: u8 = 2;
/// Outcomes that count, and then a job is dead.
pub(crate) const MAX_ATTEMPTS: u8 = 2;
/// Crashes after which a job is claimed alone only.
const SUSPECT_AFTER: u8 = 2;

/// The law: what comes of an act in a state.
#[derive(Debug, Clone, Copy, Default)]
pub struct Law {
    /// A bug that is planted.
    pub bug: Option<Bug>,
    /// Whether worker 1 runs in the process of the engine, and that may be killed.
    pub failover: bool,
}

impl Law {
    /// What can happen in a state.
    pub fn acts(&self, world: &World) -> Vec<Act> {
        let mut acts = vec![Act::Tick];
        acts.extend(self.failover.then_some(Act::Failover));
        acts.extend([0, 1].map(Act::Cancel));
        for worker in [0, 1] {
            let held = world.workers[usize::from(worker)];
            if held == [None; 2] {
                let claim = |(jobs, alone)| Act::Claim {
                    worker,
                    jobs,
                    alone,
                };
                let claims = [(1, false), (2, false), (3, false), (1, true), (2, true)];
                acts.extend(claims.map(claim));
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
        };
        (next, answer)
    }

    fn is(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    fn claim(&self, world: &mut World, worker: u8, jobs: u8, alone: bool) -> Answer {
        let mut claimed = Vec::new();
        for job in (0..2_u8).filter(|job| jobs & 1 << job != 0) {
            let at = usize::from(job);
            let (fate, truth) = (&mut world.jobs[at], &mut world.truth[at]);
            let is_active = fate.ending == Ending::Active;
            let is_free =
                fate.ending == Ending::Ready || is_active && self.is(Bug::ClaimTakesActive);
            let is_suspect = fate.crashes >= SUSPECT_AFTER;
            if !is_free || is_suspect && !alone {
                continue;
            }
            fate.ending = Ending::Active;
            fate.attempt += 1;
            fate.left = LEASE;
            fate.holder = worker;
            fate.alone = is_suspect;
            truth.two_leases |= truth.lease.is_some();
            truth.lease = Some((fate.attempt, LEASE));
            truth.alone = is_suspect;
            world.workers[usize::from(worker)][at] = Some(fate.attempt);
            let attempt = fate.attempt;
            claimed.push(ClaimedJob { job, attempt });
        }
        Answer::Claimed(claimed)
    }

    fn extend(&self, world: &mut World, worker: u8) -> Answer {
        let (mut lost, mut stop, mut kept) = (Vec::new(), Vec::new(), false);
        for job in 0..2_u8 {
            let at = usize::from(job);
            let Some(attempt) = world.workers[usize::from(worker)][at] else {
                continue;
            };
            let (fate, truth) = (&mut world.jobs[at], &mut world.truth[at]);
            let is_active = fate.ending == Ending::Active;
            if !is_active || fate.attempt != attempt && !self.is(Bug::ExtendIgnoresToken) {
                lost.push(job);
                continue;
            }
            kept = true;
            fate.left = LEASE;
            if fate.cancel_requested {
                stop.push(job);
            }
            if truth.lease.is_some_and(|(of, _)| of == attempt) {
                truth.lease = Some((attempt, LEASE));
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
        let Some(attempt) = world.workers[worker][at] else {
            return Answer::LeaseLost;
        };
        if heard {
            world.workers[worker][at] = None;
        }
        let (fate, truth) = (&mut world.jobs[at], &mut world.truth[at]);
        let is_active = fate.ending == Ending::Active;
        if !is_active || fate.attempt != attempt && !self.is(Bug::SettleIgnoresToken) {
            if completed && self.is(Bug::EffectsOutsideStep) {
                fate.effects += 1;
            }
            return match fate.settled {
                Some(settled) if settled == attempt => Answer::Repeated,
                _ => Answer::LeaseLost,
            };
        }
        truth.stale_settle |= truth.lease.map(|(of, _)| of) != Some(attempt);
        truth.lease = None;
        if completed {
            fate.ending = Ending::Completed;
            fate.effects += 1;
            truth.completed = true;
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
        fate.settled = Some(attempt);
        if !self.is(Bug::RescueDoesNotLook) {
            fate.left = 0;
        }
        (fate.holder, fate.alone) = (0, false);
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
            match &mut truth.lease {
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
        (fate.left, fate.holder, fate.alone) = (0, 0, false);
    }
}

impl crate::world::Truth {
    fn crash(&mut self) {
        self.lease = None;
        self.crashes += 1;
        self.crashed_alone |= self.alone;
    }
}
