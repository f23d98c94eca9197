//! The child process that tests kill at work.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use punctual::engine::{Claim, Durability, LeaseReport, Settle, Settlement, WorkerId};
use punctual::time::millis;
use punctual::{Effect, Engine, JobId, Namespace, NewJob, Outcome};
use punctual_embedded::{EmbeddedEngine, Options};

/// Where the child works, and how durably; not set unless this process is to be killed.
pub(super) const DIRECTORY: &str = "PUNCTUAL_TEST_CHILD_DIRECTORY";
pub(super) const DURABILITY: &str = "PUNCTUAL_TEST_CHILD_DURABILITY";

/// What the child says: what it sends, before it does, and what it was answered.
pub(super) enum Word {
    Enqueues(u64, Vec<JobId>),
    Enqueued(u64),
    Settles(JobId, JobId),
    Settled(JobId),
}

/// So that the words of one life are not taken for those of another.
const TOMBSTONE: &str = "#";

impl Word {
    /// One line in one write: the parent reads it whole or not at all.
    fn say(&self) {
        let mut line = match self {
            Self::Enqueues(call, ids) => {
                let ids: Vec<_> = ids.iter().map(JobId::to_string).collect();
                format!("{TOMBSTONE} enqueues {call} {}", ids.join(" "))
            }
            Self::Enqueued(call) => format!("{TOMBSTONE} enqueued {call}"),
            Self::Settles(job, follower) => format!("{TOMBSTONE} settles {job} {follower}"),
            Self::Settled(job) => format!("{TOMBSTONE} settled {job}"),
        };
        line.push('\n');
        let mut out = std::io::stdout().lock();
        // The parent has closed the pipe only if it has seen enough.
        let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush());
    }

    pub(super) fn parse(line: &str) -> Option<Self> {
        let mut words = line.strip_prefix(TOMBSTONE)?.split_whitespace();
        let verb = words.next()?;
        let first = words.next()?;
        let id = |word: &str| word.parse::<JobId>().ok();
        match verb {
            "enqueues" => Some(Self::Enqueues(
                first.parse().ok()?,
                words.map_while(id).collect(),
            )),
            "enqueued" => Some(Self::Enqueued(first.parse().ok()?)),
            "settles" => Some(Self::Settles(id(first)?, id(words.next()?)?)),
            "settled" => Some(Self::Settled(id(first)?)),
            _ => None,
        }
    }
}

/// Does nothing, unless it is the child: then it works until it is killed.
#[test]
fn a_child_to_be_killed() {
    let Ok(directory) = std::env::var(DIRECTORY) else {
        return;
    };
    let durability = match std::env::var(DURABILITY).as_deref() {
        Ok("os") => Durability::Os,
        _ => Durability::Fsync,
    };
    // Small, so that a checkpoint is nearly always under way.
    let options = Options::default()
        .durability(durability)
        .checkpoint_bytes(100_000);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(async {
        let engine = EmbeddedEngine::open(directory, options.idle_after(millis(20)));
        let engine = Arc::new(engine.expect("a kill is no damage"));
        let mut tasks = Vec::new();
        for _ in 0..4 {
            tasks.push(tokio::spawn(produce(engine.clone())));
            tasks.push(tokio::spawn(work(engine.clone())));
        }
        for task in tasks {
            task.await.expect("it works until it is killed");
        }
    });
}

fn job() -> NewJob {
    NewJob::new("orders", vec![b'x'; 300])
}

async fn produce(engine: Arc<EmbeddedEngine>) {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    loop {
        let call = CALLS.fetch_add(1, Ordering::Relaxed);
        let jobs = vec![job(), job(), job()];
        Word::Enqueues(call, jobs.iter().map(|job| job.id).collect()).say();
        engine
            .enqueue(&Namespace::default(), jobs)
            .await
            .expect("enqueue");
        Word::Enqueued(call).say();
    }
}

async fn work(engine: Arc<EmbeddedEngine>) {
    let worker = WorkerId::random();
    loop {
        let claim = Claim::new(worker, "orders", 3);
        let claimed = engine
            .claim(&Namespace::default(), claim)
            .await
            .expect("claim");
        for lease in claimed.leases {
            for held in lease.jobs {
                let follower = job();
                Word::Settles(held.id, follower.id).say();
                let mut end = Settlement::new(held.id, held.attempt, Outcome::Completed);
                end.effects = vec![Effect::Enqueue(Box::new(follower))];
                let leases = vec![LeaseReport::new(lease.token, vec![end])];
                engine
                    .settle(&Namespace::default(), Settle::new(leases))
                    .await
                    .expect("settle");
                Word::Settled(held.id).say();
            }
        }
    }
}
