//! Walks through the model, played on an engine: the same acts, the same answers.

use std::collections::BTreeSet;
use std::sync::Arc;

use fastrand::Rng;
use punctual::conformance::{Harness, START, Subject};
use punctual::engine::{
    Action, Claim, ClaimMode, Control, Edit, EditVerdict, Extend, ExtendVerdict, Got, LeaseReport,
    RecordValue, Select, Settle, SettleVerdict, Settlement, Target, Token, WorkerId, WorkerPlace,
};
use punctual::job::DeadReason;
use punctual::time::{Timestamp, hours, millis, seconds};
use punctual::{
    Due, Effect, Engine, JobId, JobRecord, JobState, Limits, Namespace, NewJob, Outcome,
    RetryPolicy,
};

use crate::law::{Law, MAX_ATTEMPTS};
use crate::world::{Act, Answer, ClaimedJob, Ending, JobTruth, World};

/// What walks came past.
#[derive(Debug, Default)]
pub struct Covered {
    /// How many acts were compared.
    pub acts: usize,
    /// The kinds of answers met, each with the kind of act.
    pub answers: BTreeSet<String>,
}

/// Plays seeded walks of at most so many acts, each on a fresh engine; answers what was compared,
/// or how engine and model differ.
///
/// `replicate` makes what the engine has now what it comes back with from its next crash, where a
/// law has a replica.
pub async fn walks(
    harness: &dyn Harness,
    law: Law,
    seeds: std::ops::Range<u64>,
    acts: usize,
    replicate: &(dyn Fn() + Sync),
) -> Result<Covered, String> {
    let mut covered = Covered::default();
    for seed in seeds {
        let mut walk = Walk::fresh(harness, law, seed, replicate).await;
        for _ in 0..acts {
            walk.go_on(&mut covered).await.map_err(|difference| {
                format!("seed {seed}, after {:#?}:\n{difference}", walk.acts)
            })?;
        }
    }
    Ok(covered)
}

/// An engine and the model at the same state.
struct Walk<'a> {
    law: Law,
    replicate: &'a (dyn Fn() + Sync),
    random: Rng,
    world: World,
    acts: Vec<Act>,
    subject: Box<dyn Subject>,
    namespace: Namespace,
    now: Timestamp,
    jobs: [JobId; 2],
    workers: [WorkerId; 2],
    tokens: [Option<Token>; 2],
    versions: u64,
}

const QUEUES: [&str; 2] = ["first", "second"];
/// Half a lease: a tick.
const HALF: std::time::Duration = seconds(5);

impl<'a> Walk<'a> {
    async fn fresh(
        harness: &dyn Harness,
        law: Law,
        seed: u64,
        replicate: &'a (dyn Fn() + Sync),
    ) -> Self {
        let subject = harness.fresh(Limits::default()).await;
        let mut random = Rng::with_seed(seed);
        let mut id = || WorkerId(random.u128(..));
        let walk = Self {
            law,
            replicate,
            workers: [id(), id()],
            random,
            world: law.begin(),
            acts: Vec::new(),
            subject,
            namespace: Namespace::default(),
            now: START,
            jobs: [0, 1].map(|job| JobId::derived("punctual model", &format!("{seed}/{job}"))),
            tokens: [None; 2],
            versions: 0,
        };
        let jobs = [0, 1].map(|job| {
            NewJob::new(QUEUES[job], "{}")
                .id(walk.jobs[job])
                .max_attempts(u32::from(MAX_ATTEMPTS))
                .retry(RetryPolicy::fixed(millis(0)))
                .retention(hours(1))
                .due(Due::After(HALF * u32::from(walk.world.jobs[job].wait)))
        });
        let sent = walk.engine().enqueue(&walk.namespace, jobs.to_vec()).await;
        sent.expect("an engine takes two jobs");
        if walk.world.replica.is_some() {
            replicate();
        }
        walk
    }

    fn engine(&self) -> Arc<dyn Engine> {
        self.subject.engine()
    }

    async fn go_on(&mut self, covered: &mut Covered) -> Result<(), String> {
        let act = self.choose();
        self.acts.push(act);
        let (world, expected) = self.law.step(&self.world, act);
        let answered = self.act(act).await.map_err(|error| error.to_string())?;
        covered.acts += 1;
        covered
            .answers
            .insert(format!("{} {}", kind(&act), kind(&expected)));
        if answered != expected {
            return Err(format!("expected {expected:?}\nanswered {answered:?}"));
        }
        self.world = world;
        self.compare().await
    }

    /// Cancels are rare, since after two of them nothing happens any more.
    fn choose(&mut self) -> Act {
        let acts = self.law.acts(&self.world);
        loop {
            let act = acts[self.random.usize(..acts.len())];
            if !matches!(act, Act::Cancel(_)) || self.random.u8(..5) == 0 {
                return act;
            }
        }
    }

    async fn act(&mut self, act: Act) -> punctual::Result<Answer> {
        match act {
            Act::Claim {
                worker,
                jobs,
                alone,
            } => self.claim(usize::from(worker), jobs, alone).await,
            Act::Extend(worker) => self.extend(usize::from(worker)).await,
            Act::Settle {
                worker,
                job,
                completed,
                ..
            } => {
                let (worker, job) = (usize::from(worker), usize::from(job));
                self.settle(worker, job, completed).await
            }
            Act::Cancel(job) => self.cancel(usize::from(job)).await,
            Act::Tick => self.tick().await,
            Act::Die(worker) => {
                self.workers[usize::from(worker)] = WorkerId(self.random.u128(..));
                Ok(Answer::Silence)
            }
            Act::Failover => self.failover().await,
            Act::Replicate => {
                (self.replicate)();
                Ok(Answer::Silence)
            }
            Act::Lose => {
                self.subject.crash().await;
                self.subject.set_time(self.now).await;
                Ok(Answer::Silence)
            }
        }
    }

    async fn claim(&mut self, worker: usize, jobs: u8, alone: bool) -> punctual::Result<Answer> {
        let asked = (0..2).filter(|job| jobs & 1 << job != 0);
        let queues: Vec<String> = asked.map(|job: usize| QUEUES[job].to_owned()).collect();
        let mut claim = Claim::new(self.workers[worker], queues[0].clone(), 2);
        claim.queues.clone_from(&queues);
        claim.worker.queues = queues;
        claim.nonce = self.random.u64(..);
        if alone {
            claim.mode = ClaimMode::Alone;
        }
        if worker != 1 {
            claim.place = WorkerPlace::Elsewhere;
        }
        let claimed = self.engine().claim(&self.namespace, claim).await?;
        let mut answer = Vec::new();
        for lease in claimed.leases {
            self.tokens[worker] = Some(lease.token);
            answer.extend(lease.jobs.iter().map(|job| ClaimedJob {
                job: u8::from(job.id == self.jobs[1]),
                attempt: small(job.attempt),
            }));
        }
        answer.sort_by_key(|claimed| claimed.job);
        Ok(Answer::Claimed(answer))
    }

    async fn extend(&mut self, worker: usize) -> punctual::Result<Answer> {
        let held = (0..2).filter(|job| self.world.workers[worker][*job].is_some());
        let extend = Extend::new(self.tokens[worker].expect("it claimed"), HALF * 2)
            .jobs(held.map(|job| self.jobs[job]).collect());
        let extended = self.engine().extend(&self.namespace, vec![extend]).await?;
        Ok(match &extended.verdicts[..] {
            [
                ExtendVerdict::Extended {
                    lost,
                    cancel_requested,
                    ..
                },
            ] => Answer::Extended {
                lost: self.numbers(lost),
                stop: self.numbers(cancel_requested),
            },
            _ => Answer::LeaseLost,
        })
    }

    fn numbers(&self, ids: &[JobId]) -> Vec<u8> {
        let mut numbers: Vec<u8> = ids.iter().map(|id| u8::from(*id == self.jobs[1])).collect();
        numbers.sort_unstable();
        numbers
    }

    async fn settle(
        &mut self,
        worker: usize,
        job: usize,
        completed: bool,
    ) -> punctual::Result<Answer> {
        let token = self.tokens[worker].expect("it claimed");
        let held = self.world.workers[worker][job];
        let attempt = held.expect("it believes to hold it").attempt;
        let outcome = if completed {
            Outcome::Completed
        } else {
            Outcome::Retry { after: None }
        };
        let mut settlement = Settlement::new(self.jobs[job], u32::from(attempt), outcome);
        if completed {
            settlement.effects = vec![Effect::Enqueue(Box::new(self.follower(job)))];
        }
        let leases = vec![LeaseReport::new(token, vec![settlement])];
        let settled = self
            .engine()
            .settle(&self.namespace, Settle::new(leases))
            .await?;
        Ok(match settled.verdicts[0][0] {
            SettleVerdict::Settled { state, .. } => Answer::Settled(match state {
                JobState::Completed => Ending::Completed,
                JobState::Cancelled => Ending::Cancelled,
                JobState::Dead => Ending::Exhausted,
                _ => Ending::Ready,
            }),
            SettleVerdict::Repeated => Answer::Repeated,
            _ => Answer::LeaseLost,
        })
    }

    /// The job that the effect of another one makes.
    fn follower(&self, job: usize) -> NewJob {
        let id = JobId::derived("punctual model, effect of", &self.jobs[job].to_string());
        NewJob::new("followers", "{}").id(id)
    }

    async fn cancel(&mut self, job: usize) -> punctual::Result<Answer> {
        let edit = Edit::new(
            Select::Targets(vec![Target::Id(self.jobs[job])]),
            Action::Cancel,
        );
        let edited = self.engine().edit(&self.namespace, edit).await?;
        Ok(match edited.verdicts[0].1 {
            EditVerdict::Done(_) => Answer::Cancelled,
            EditVerdict::CancelRequested => Answer::CancelRequested,
            EditVerdict::AlreadyCancelled => Answer::AlreadyCancelled,
            _ => Answer::WrongState,
        })
    }

    /// Half a lease, in steps short enough for the engine never to be silent.
    async fn tick(&mut self) -> punctual::Result<Answer> {
        for _ in 0..2 {
            self.now = self.now + HALF / 2;
            self.subject.set_time(self.now).await;
            self.engine().maintain().await?;
        }
        if self.world.replica.is_some() {
            (self.replicate)();
        }
        Ok(Answer::Silence)
    }

    async fn failover(&mut self) -> punctual::Result<Answer> {
        // A process that has changed nothing since it was opened ends no leases.
        let write = Control::Write {
            name: "alive".into(),
            expected: self.versions,
            value: Some(RecordValue::Opaque(Default::default())),
        };
        self.engine().control(&self.namespace, write).await?;
        self.versions += 1;
        self.subject.crash().await;
        self.workers[1] = WorkerId(self.random.u128(..));
        Ok(Answer::Silence)
    }

    /// What `get` says of both jobs and of their effects.
    async fn compare(&self) -> Result<(), String> {
        let followers = [0, 1].map(|job| Target::Id(self.follower(job).id));
        let targets = self.jobs.map(Target::Id).into_iter().chain(followers);
        let got = self
            .engine()
            .get(&self.namespace, targets.collect(), false)
            .await;
        let got = got.map_err(|error| error.to_string())?;
        for (job, truth_of_job) in self.world.jobs.iter().enumerate() {
            let Some(Got::Job(record, _)) = &got[job] else {
                return Err(format!("job {job} is gone: {:?}", got[job]));
            };
            let (expected, found) = (
                expected(truth_of_job),
                observed(record, got[job + 2].is_some()),
            );
            if expected != found {
                return Err(format!("job {job}: expected {expected:?}\nis {found:?}"));
            }
        }
        Ok(())
    }
}

/// What of a job can be seen: where it stands, attempt, failures, crashes, effects, and of an
/// active one whether it is to stop.
type Observed = (Ending, u8, u8, u8, u8, bool);

fn expected(truth_of_job: &JobTruth) -> Observed {
    let stops = truth_of_job.cancel_requested && truth_of_job.ending == Ending::Active;
    (
        truth_of_job.ending,
        truth_of_job.attempt,
        truth_of_job.failures,
        truth_of_job.crashes,
        truth_of_job.effects,
        stops,
    )
}

fn observed(record: &JobRecord, effect: bool) -> Observed {
    let ending = match record.state {
        JobState::Active => Ending::Active,
        JobState::Completed => Ending::Completed,
        JobState::Cancelled => Ending::Cancelled,
        JobState::Dead if record.dead == Some(DeadReason::Poison) => Ending::Poison,
        JobState::Dead => Ending::Exhausted,
        _ => Ending::Ready,
    };
    let stops = record.cancel_requested && ending == Ending::Active;
    let [attempt, failures, crashes] = [record.attempt, record.failures, record.crashes].map(small);
    (ending, attempt, failures, crashes, u8::from(effect), stops)
}

fn small(number: u32) -> u8 {
    u8::try_from(number).unwrap_or(u8::MAX)
}

/// The first word of the debug form of a value.
fn kind(of: &impl std::fmt::Debug) -> String {
    let text = format!("{of:?}");
    let end = text.find(|letter: char| !letter.is_alphabetic());
    text[..end.unwrap_or(text.len())].to_owned()
}
