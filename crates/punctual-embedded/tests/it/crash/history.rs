//! What a history with crashes met, so that a test can assert that it met enough.

use std::collections::BTreeMap;
use std::sync::Arc;

use punctual::engine::{
    Action, Claim, ClaimMode, Edit, EnqueueVerdict, LeaseReport, Select, Settle, SettleVerdict,
    Settlement, Target, Token, WorkerId,
};
use punctual::time::{ManualClock, hours};
use punctual::{
    Due, Effect, Engine, ErrorKind, JobId, JobState, Namespace, NewJob, Outcome, Result,
};

/// What was met in a history, so that a test can say that it met enough.
#[derive(Debug, Clone, Default)]
pub(crate) struct Verdict {
    pub(crate) is_whole: bool,
    /// Changes that were acknowledged, and are there.
    pub(crate) acknowledged: u64,
    /// Calls that were never answered, of which all or nothing is there.
    pub(crate) in_doubt: u64,
    /// Calls that were refused because the disk is full, of which nothing is there.
    pub(crate) refused: u64,
}

impl Verdict {
    pub(crate) fn add(&mut self, other: &Self) {
        self.acknowledged += other.acknowledged;
        self.in_doubt += other.in_doubt;
        self.refused += other.refused;
    }
}

/// What several callers do at the same time, each with a queue of its own.
pub(crate) struct History {
    callers: Vec<Caller>,
    verdict: Verdict,
}

/// One caller: what it was answered, and the call it got no answer to.
pub(crate) struct Caller {
    queue: String,
    random: u64,
    worker: WorkerId,
    /// Every job that was acknowledged, with the state that was: pending or settled.
    known: BTreeMap<JobId, JobState>,
    /// Jobs it holds leases of.
    held: Vec<(Token, JobId, u32)>,
    doubt: Option<Doubt>,
    /// Jobs that would be there if a refused call had taken effect.
    refused: Vec<JobId>,
    refusals: u64,
}

#[derive(Debug, Clone)]
enum Doubt {
    Enqueue(Vec<JobId>),
    Settle { job: JobId, follower: JobId },
    Cancel(JobId),
}

impl History {
    pub(crate) fn new(seed: u64) -> Self {
        let caller = |n: u64| Caller {
            queue: format!("queue-{n}"),
            random: (seed * 31 + n).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            worker: WorkerId::random(),
            known: BTreeMap::new(),
            held: Vec::new(),
            doubt: None,
            refused: Vec::new(),
            refusals: 0,
        };
        Self {
            callers: (0..3).map(caller).collect(),
            verdict: Verdict::default(),
        }
    }

    /// Lets every caller go on until it has done so many calls, or got no answer to one.
    pub(crate) async fn play(&mut self, engine: &Arc<impl Engine>, calls: usize) {
        let mut tasks = Vec::new();
        for mut caller in self.callers.drain(..) {
            let engine = engine.clone();
            tasks.push(tokio::spawn(async move {
                for _ in 0..calls {
                    match caller.step(&*engine).await {
                        Ok(()) => {}
                        Err(error) if error.kind() == ErrorKind::EngineFull => caller.is_refused(),
                        Err(_) => break,
                    }
                }
                caller
            }));
        }
        for task in tasks {
            self.callers.push(task.await.expect("no caller panics"));
        }
    }

    /// Takes up what is there, after a kill: the leases of its process have ended.
    pub(crate) async fn resume(&mut self, engine: &Arc<impl Engine>) {
        for caller in &mut self.callers {
            caller.check(&**engine, &mut self.verdict).await;
            caller.held.clear();
        }
    }

    /// Compares what every caller was answered with what is there, then runs all that is left.
    pub(crate) async fn check(&mut self, engine: &Arc<impl Engine>, clock: &ManualClock) {
        for caller in &mut self.callers {
            caller.check(&**engine, &mut self.verdict).await;
        }
        clock.advance(hours(10));
        for caller in &mut self.callers {
            caller.drain(&**engine).await;
        }
    }

    pub(crate) fn verdict(&self) -> Verdict {
        self.verdict.clone()
    }
}

impl Caller {
    fn roll(&mut self, sides: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % sides
    }

    async fn step(&mut self, engine: &dyn Engine) -> Result<()> {
        match self.roll(6) {
            0 | 1 => self.enqueue(engine).await,
            2 => self.claim(engine).await,
            3 | 4 => self.settle(engine).await,
            _ => self.cancel(engine).await,
        }
    }

    fn job(&mut self) -> NewJob {
        let due = match self.roll(3) {
            0 => Due::After(hours(1 + self.roll(5))),
            _ => Due::Now,
        };
        let payload = vec![b'x'; 1 + self.roll(200) as usize];
        NewJob::new(self.queue.clone(), payload).due(due)
    }

    /// A full disk refuses a call as a whole: it has changed nothing.
    fn is_refused(&mut self) {
        self.refusals += 1;
        match self.doubt.take() {
            Some(Doubt::Enqueue(ids)) => self.refused.extend(ids),
            Some(Doubt::Settle { follower, .. }) => self.refused.push(follower),
            Some(Doubt::Cancel(_)) | None => {}
        }
    }

    async fn enqueue(&mut self, engine: &dyn Engine) -> Result<()> {
        let count = 1 + self.roll(5);
        let jobs: Vec<_> = (0..count).map(|_| self.job()).collect();
        let ids: Vec<_> = jobs.iter().map(|job| job.id).collect();
        self.doubt = Some(Doubt::Enqueue(ids.clone()));
        let sent = engine.enqueue(&Namespace::default(), jobs).await?;
        assert!(
            sent.receipts
                .iter()
                .all(|one| one.verdict == EnqueueVerdict::Created)
        );
        self.doubt = None;
        self.known
            .extend(ids.into_iter().map(|id| (id, JobState::Scheduled)));
        Ok(())
    }

    async fn claim(&mut self, engine: &dyn Engine) -> Result<()> {
        let claim = Claim::new(self.worker, self.queue.clone(), 3);
        let claimed = engine.claim(&Namespace::default(), claim).await?;
        for lease in claimed.leases {
            let held = lease
                .jobs
                .into_iter()
                .map(|job| (lease.token, job.id, job.attempt));
            self.held.extend(held);
        }
        Ok(())
    }

    async fn settle(&mut self, engine: &dyn Engine) -> Result<()> {
        let Some((token, id, attempt)) = self.held.pop() else {
            return self.claim(engine).await;
        };
        let follower = self.job();
        let next = follower.id;
        self.doubt = Some(Doubt::Settle {
            job: id,
            follower: next,
        });
        let mut settlement = Settlement::new(id, attempt, Outcome::Completed);
        settlement.effects = vec![Effect::Enqueue(Box::new(follower))];
        let leases = vec![LeaseReport::new(token, vec![settlement])];
        let settled = engine
            .settle(&Namespace::default(), Settle::new(leases))
            .await?;
        assert!(matches!(
            settled.verdicts[0][0],
            SettleVerdict::Settled { .. }
        ));
        self.doubt = None;
        self.known.insert(id, JobState::Completed);
        self.known.insert(next, JobState::Scheduled);
        Ok(())
    }

    async fn cancel(&mut self, engine: &dyn Engine) -> Result<()> {
        let held: Vec<_> = self.held.iter().map(|(_, id, _)| *id).collect();
        let mut waiting = self
            .known
            .iter()
            .filter(|(id, state)| !state.is_settled() && !held.contains(id));
        let Some((&id, _)) = waiting.next() else {
            return Ok(());
        };
        self.doubt = Some(Doubt::Cancel(id));
        let edit = Edit::new(Select::Targets(vec![id.into()]), Action::Cancel);
        let edited = engine.edit(&Namespace::default(), edit).await?;
        assert!(edited.verdicts[0].1.is_change());
        self.doubt = None;
        self.known.insert(id, JobState::Cancelled);
        Ok(())
    }

    async fn state(&self, engine: &dyn Engine, id: JobId) -> Option<JobState> {
        let got = engine
            .get(&Namespace::default(), vec![Target::Id(id)], false)
            .await;
        got.expect("get").remove(0).map(|job| job.state())
    }

    async fn check(&mut self, engine: &dyn Engine, verdict: &mut Verdict) {
        self.resolve_doubt(engine, verdict).await;
        for (id, reported) in &self.known {
            let found = self.state(engine, *id).await;
            let found =
                found.unwrap_or_else(|| panic!("{id} was acknowledged as {reported} and is gone"));
            let holds = if reported.is_settled() {
                found == *reported
            } else {
                !found.is_settled()
            };
            assert!(holds, "{id} was acknowledged as {reported} and is {found}");
            verdict.acknowledged += 1;
        }
        for id in &self.refused {
            let found = self.state(engine, *id).await;
            assert_eq!(found, None, "{id} was refused");
        }
        verdict.refused += std::mem::take(&mut self.refusals);
    }

    /// A call without an answer has happened whole or not at all.
    async fn resolve_doubt(&mut self, engine: &dyn Engine, verdict: &mut Verdict) {
        let Some(doubt) = self.doubt.take() else {
            return;
        };
        verdict.in_doubt += 1;
        match doubt {
            Doubt::Enqueue(ids) => {
                let mut stored = 0;
                for id in &ids {
                    if self.state(engine, *id).await.is_some() {
                        self.known.insert(*id, JobState::Scheduled);
                        stored += 1;
                    }
                }
                assert!(
                    stored == 0 || stored == ids.len(),
                    "{stored} of {} jobs of one call",
                    ids.len()
                );
            }
            Doubt::Settle { job, follower } => {
                let is_settled = self.state(engine, job).await == Some(JobState::Completed);
                let has_effect = self.state(engine, follower).await.is_some();
                assert_eq!(
                    is_settled, has_effect,
                    "an outcome and its effect stand or fall together"
                );
                if is_settled {
                    self.known.insert(job, JobState::Completed);
                    self.known.insert(follower, JobState::Scheduled);
                }
            }
            Doubt::Cancel(id) => {
                if self.state(engine, id).await == Some(JobState::Cancelled) {
                    self.known.insert(id, JobState::Cancelled);
                }
            }
        }
    }

    /// Every job that is not settled is claimed once, and nothing else is.
    async fn drain(&mut self, engine: &dyn Engine) {
        let mut claimed = Vec::new();
        // Suspects, who have crashed twice, are claimed alone.
        for mode in [ClaimMode::Shared, ClaimMode::Alone] {
            loop {
                let claim = Claim::new(WorkerId::random(), self.queue.clone(), 100);
                let claim = claim.mode(mode);
                let answer = engine.claim(&Namespace::default(), claim).await;
                let leases = answer.expect("claim").leases;
                if leases.is_empty() {
                    break;
                }
                let jobs = leases.into_iter().flat_map(|lease| lease.jobs);
                claimed.extend(jobs.map(|job| job.id));
            }
        }
        claimed.sort_unstable();
        let waiting = self.known.iter().filter(|(_, state)| !state.is_settled());
        assert_eq!(claimed, waiting.map(|(id, _)| *id).collect::<Vec<_>>());
    }
}
