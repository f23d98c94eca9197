//! What the worker itself costs a job, with a handler that does nothing: over an engine without
//! work of its own, and over the memory engine. See `bench/README.md`.

use std::future::ready;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use clap::{Parser, ValueEnum};
use punctual::engine::*;
use punctual::sync::Lock;
use punctual::time::{Stopwatch, Timestamp, hours};
use punctual::{
    Context, JobRecord, JobState, MemoryEngine, NewJob, Outcome, Queue, Result, Worker,
};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Runs jobs whose handler does nothing; count the instructions of two numbers of jobs with
/// `valgrind --tool=callgrind`, and take the difference.
#[derive(Parser)]
struct Options {
    /// What the worker claims from.
    #[arg(value_enum)]
    engine: Over,
    #[arg(default_value_t = 1_000_000)]
    jobs: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Over {
    /// Hands out jobs that were made before, and believes every outcome.
    Nothing,
    /// The memory engine.
    Memory,
}

#[tokio::main]
async fn main() -> Result<()> {
    let options = Options::parse();
    let memory = Arc::new(MemoryEngine::new());
    let queue = Queue::new(&memory);
    let job = |_| NewJob::new("bench", vec![b'x'; 100]);
    queue.enqueue_many((0..options.jobs).map(job)).await?;
    let engine: Arc<dyn Engine> = match options.engine {
        Over::Memory => memory,
        Over::Nothing => Arc::new(Prepared::over(memory).await?),
    };
    let worker = Worker::new(engine)
        .queues(["bench"])
        .handle_any(|_: JobRecord, _: Context| ready(Outcome::Completed));
    let watch = Stopwatch::start();
    worker.run_until_idle().await?;
    println!(
        "{:.0} jobs a second",
        options.jobs as f64 / watch.elapsed().as_secs_f64()
    );
    Ok(())
}

/// Answers claims with jobs that the memory engine has handed out before.
#[derive(Debug)]
struct Prepared {
    memory: Arc<MemoryEngine>,
    jobs: Mutex<Vec<JobRecord>>,
}

impl Prepared {
    async fn over(memory: Arc<MemoryEngine>) -> Result<Self> {
        let mut jobs = Vec::new();
        loop {
            let mut claim = Claim::new(WorkerId::random(), "bench", 1_000);
            claim.lease_duration = hours(1);
            let claimed = memory.claim(&Namespace::default(), claim).await?;
            let Some(lease) = claimed.leases.into_iter().next() else {
                break;
            };
            jobs.extend(lease.jobs);
        }
        let jobs = Mutex::new(jobs);
        Ok(Self { memory, jobs })
    }
}

#[async_trait]
impl Engine for Prepared {
    async fn claim(&self, _: &Namespace, claim: Claim) -> Result<Claimed> {
        let mut waiting = self.jobs.locked();
        let from = waiting.len().saturating_sub(claim.limit);
        let jobs = waiting.split_off(from);
        let now = Timestamp::from_millis(1_790_000_000_000);
        let token = Token::new(from as u64, claim.nonce);
        let lease = |jobs| Lease::new(token, now + claim.lease_duration, jobs);
        let leases = Some(jobs).filter(|jobs| !jobs.is_empty()).map(lease);
        let mut claimed = Claimed::new(leases.into_iter().collect(), now);
        claimed.wake_at = (from > 0).then_some(now);
        Ok(claimed)
    }

    async fn settle(&self, _: &Namespace, settle: Settle) -> Result<Settled> {
        let settled = |one: &Settlement| SettleVerdict::Settled {
            state: match one.outcome {
                Outcome::Completed => JobState::Completed,
                _ => JobState::Scheduled,
            },
            due: None,
            effects: Vec::new(),
        };
        let of_lease = |lease: &LeaseReport| lease.settlements.iter().map(settled).collect();
        let verdicts = settle.leases.iter().map(of_lease).collect();
        Ok(Settled::new(
            verdicts,
            Timestamp::from_millis(1_790_000_000_000),
        ))
    }

    async fn enqueue(&self, namespace: &Namespace, jobs: Vec<NewJob>) -> Result<Enqueued> {
        self.memory.enqueue(namespace, jobs).await
    }

    async fn extend(&self, namespace: &Namespace, leases: Vec<Extend>) -> Result<Extended> {
        self.memory.extend(namespace, leases).await
    }

    async fn wait(&self, namespace: &Namespace, what: WaitFor, until: Timestamp) -> Result<Waited> {
        self.memory.wait(namespace, what, until).await
    }

    async fn get(
        &self,
        namespace: &Namespace,
        targets: Vec<Target>,
        explain: bool,
    ) -> Result<Vec<Option<Got>>> {
        self.memory.get(namespace, targets, explain).await
    }

    async fn list(&self, namespace: &Namespace, list: List) -> Result<Listing> {
        self.memory.list(namespace, list).await
    }

    async fn edit(&self, namespace: &Namespace, edit: Edit) -> Result<Edited> {
        self.memory.edit(namespace, edit).await
    }

    async fn stats(&self, namespace: &Namespace, request: StatsRequest) -> Result<Stats> {
        self.memory.stats(namespace, request).await
    }

    async fn control(&self, namespace: &Namespace, control: Control) -> Result<Controlled> {
        self.memory.control(namespace, control).await
    }

    async fn maintain(&self) -> Result<Maintained> {
        self.memory.maintain().await
    }

    async fn info(&self) -> Result<Info> {
        self.memory.info().await
    }
}
