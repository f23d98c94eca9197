//! Calls that tests make.

use punctual::engine::{
    Claim, EnqueueVerdict, Extend, ExtendVerdict, LeaseReport, Settle, SettleVerdict, Settlement,
    Target, WaitFor, Waited, WorkerId,
};
use punctual::time::{Stopwatch, seconds};
use punctual::{Engine, JobId, JobRecord, JobState, Namespace, NewJob, Outcome, Result};
use punctual_redis::testing::TestServer;
use punctual_redis::{Options, RedisEngine};

/// The queue of every job here.
pub(crate) const QUEUE: &str = "orders";

/// The namespace of every job here.
pub(crate) fn here() -> Namespace {
    Namespace::default()
}

pub(crate) fn options(address: &str) -> Options {
    address.parse().expect("a good address")
}

/// An engine on a server's own clock.
pub(crate) async fn connect(address: &str) -> RedisEngine {
    let engine = RedisEngine::connect(options(address)).await;
    engine.expect("the server is there")
}

pub(crate) fn job() -> NewJob {
    NewJob::new(QUEUE, "{}")
}

/// The hash of a shard that a job's record is in.
pub(crate) fn records_of(base: &str, id: JobId) -> String {
    format!("{base}:b:{}", (id.as_bytes()[4] >> 1) % 32)
}

/// Every hash of a shard that records are in.
pub(crate) fn all_records(base: &str) -> Vec<String> {
    (0..32).map(|part| format!("{base}:b:{part}")).collect()
}

/// What a server answers to a command about all of them.
pub(crate) fn of_all_records(server: &TestServer, command: &[&str], base: &str) -> String {
    let keys = all_records(base);
    let words: Vec<&str> = (command.iter().copied())
        .chain(keys.iter().map(String::as_str))
        .collect();
    server.cli(&words)
}

/// Whatever is awaited comes about by then, or never.
pub(crate) const LIMIT: std::time::Duration = seconds(60);

/// Awaits a fact.
pub(crate) async fn comes_about(what: &str, fact: impl Fn() -> bool) {
    let watch = Stopwatch::start();
    while !fact() {
        assert!(watch.elapsed() < LIMIT, "it does not come about: {what}");
        tokio::task::yield_now().await;
    }
}

/// Sends a job again and again until it is known to be kept.
pub(crate) async fn enqueue_surely(engine: &RedisEngine, job: &NewJob) {
    loop {
        match engine.enqueue(&here(), vec![job.clone()]).await {
            Ok(sent) => {
                let verdict = sent.receipts[0].verdict;
                let kept = [EnqueueVerdict::Created, EnqueueVerdict::Duplicate];
                assert!(kept.contains(&verdict), "{verdict:?}");
                return;
            }
            Err(error) if error.is_retryable() => {}
            Err(error) => panic!("{error}"),
        }
    }
}

pub(crate) async fn enqueue(engine: &RedisEngine) -> Result<JobId> {
    let job = job();
    let id = job.id;
    engine.enqueue(&here(), vec![job]).await?;
    Ok(id)
}

/// One lease of at most so many jobs.
pub(crate) async fn claim(engine: &RedisEngine, limit: usize) -> Result<Vec<Claimed>> {
    let claim = Claim::new(WorkerId::random(), QUEUE, limit).lease_duration(seconds(30));
    claim_as(engine, claim).await
}

pub(crate) async fn claim_as(engine: &RedisEngine, claim: Claim) -> Result<Vec<Claimed>> {
    let claimed = engine.claim(&here(), claim).await?;
    let leases = claimed.leases.into_iter();
    Ok(leases
        .map(|lease| Claimed {
            token: lease.token,
            jobs: lease.jobs,
        })
        .collect())
}

/// A lease.
#[derive(Debug, Clone)]
pub(crate) struct Claimed {
    pub(crate) token: punctual::engine::Token,
    pub(crate) jobs: Vec<JobRecord>,
}

impl Claimed {
    /// Every job of it ends like this.
    pub(crate) fn ends(&self, outcome: Outcome) -> Settle {
        let end = |job: &JobRecord| Settlement::new(job.id, job.attempt, outcome.clone());
        let report = LeaseReport::new(self.token, self.jobs.iter().map(end).collect());
        Settle::new(vec![report])
    }

    /// Its first jobs, and the rest.
    pub(crate) fn split(mut self, first: usize) -> (Self, Self) {
        let jobs = self.jobs.split_off(first.min(self.jobs.len()));
        let rest = Self {
            token: self.token,
            jobs,
        };
        (self, rest)
    }

    /// Completes every job; whether each was settled by this or by an earlier sending.
    pub(crate) async fn complete(&self, engine: &RedisEngine) -> Result<bool> {
        let settle = self.ends(Outcome::Completed);
        let settled = engine.settle(&here(), settle).await?;
        let good = |verdict: &SettleVerdict| *verdict != SettleVerdict::LeaseLost;
        Ok(settled.verdicts.iter().flatten().all(good))
    }

    pub(crate) async fn extend(&self, engine: &RedisEngine) -> Result<ExtendVerdict> {
        let extended = engine.extend(&here(), vec![self.extension()]).await;
        Ok(extended?.verdicts.remove(0))
    }

    pub(crate) fn extension(&self) -> Extend {
        Extend::new(self.token, seconds(30))
    }
}

/// Claims and completes until nothing is there; answers the ids.
pub(crate) async fn drain(engine: &RedisEngine) -> Vec<JobId> {
    let mut ids = Vec::new();
    loop {
        let leases = claim(engine, 1_000).await.expect("claim");
        if leases.is_empty() {
            return ids;
        }
        for lease in leases {
            assert!(lease.complete(engine).await.expect("settle"));
            ids.extend(lease.jobs.iter().map(|job| job.id));
        }
    }
}

pub(crate) async fn state(engine: &RedisEngine, id: JobId) -> Option<JobState> {
    let got = engine.get(&here(), vec![Target::Id(id)], false).await;
    got.expect("get").remove(0).map(|job| job.state())
}

/// Waits for work of the queue, at most a minute.
pub(crate) async fn waits_for_work(engine: &RedisEngine) {
    let now = engine.info().await.expect("info").now;
    let what = WaitFor::Work(vec![QUEUE.into()]);
    let waited = engine.wait(&here(), what, now + seconds(60)).await;
    assert_eq!(waited.expect("wait"), Waited::Work);
}
