//! Tests of the command: liveness: suspects.

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use punctual::engine::{StatsRequest, Target};
use punctual::job::DeadReason;
use punctual::time::{millis, pause, seconds};
use punctual::worker::Verdict;
use punctual::{Context, Engine, JobId, JobRecord, JobState, NewJob, Worker};
use punctual_redis::testing::TestServer;
use rustix::process::Signal;

use super::{QUEUE, engine, here};
use crate::serve::Server;
use crate::support::Punctual;

/// Where the worker finds its jobs; not set unless this process is one.
const ENGINE: &str = "PUNCTUAL_TEST_WORKER_ENGINE";
const JOBS: usize = 64;
/// The kind of the one job that ends its process.
const POISON: &str = "poison";
/// Crashes from which on a job runs alone.
const SUSPECT: u32 = 2;

#[tokio::test]
async fn of_64_jobs_on_redis_only_the_one_that_aborts_its_workers_dies() {
    let server = TestServer::start();
    one_of_64_dies(&server.address()).await;
}

#[tokio::test]
async fn of_64_jobs_in_a_directory_only_the_one_that_aborts_its_workers_dies() {
    let punctual = Punctual::new();
    let server = Server::start(&punctual, &[]);
    let directory = punctual.path("punctual-data");
    one_of_64_dies(&format!("file:{}", directory.display())).await;
    assert_eq!(server.end(), Some(0));
}

/// Starts a worker again whenever a job has ended it, until all are settled.
async fn one_of_64_dies(address: &str) {
    let engine = engine(address).await;
    let ids = enqueue(&*engine).await;
    let mut aborts = 0;
    loop {
        let lived = worker(address).status().expect("this test is a program");
        if lived.success() {
            break;
        }
        assert_eq!(lived.signal(), Some(Signal::ABORT.as_raw()), "{lived}");
        aborts += 1;
        assert!(aborts <= 3, "a poisoned job takes three processes with it");
    }
    let targets = ids.into_iter().map(Target::Id).collect();
    let jobs = engine.get(&here(), targets, false).await.expect("get");
    for job in jobs {
        let job = job.expect("it is kept").job().expect("in full").clone();
        if job.kind == POISON {
            assert_eq!(job.dead, Some(DeadReason::Poison), "{job:?}");
        } else {
            assert_eq!(job.state, JobState::Completed, "{job:?}");
            assert!(job.crashes >= SUSPECT, "it was under suspicion: {job:?}");
        }
    }
}

async fn enqueue(engine: &dyn Engine) -> Vec<JobId> {
    let job = |number| {
        NewJob::new(QUEUE, "{}")
            .kind(if number == 40 { POISON } else { QUEUE })
            .retention(seconds(3_600))
    };
    let jobs: Vec<NewJob> = (0..JOBS).map(job).collect();
    let ids = jobs.iter().map(|job| job.id).collect();
    engine.enqueue(&here(), jobs).await.expect("enqueue");
    ids
}

/// This test again, as a worker.
fn worker(address: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this test is a file"));
    command
        .args([
            "liveness::suspects::a_worker_that_a_job_may_end",
            "--exact",
            "--nocapture",
        ])
        .env(ENGINE, address)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

/// Does nothing, unless it is the worker: then it works until every job is settled.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_a_job_may_end() {
    let Ok(address) = std::env::var(ENGINE) else {
        return;
    };
    let engine = engine(&address).await;
    let running = Arc::new(AtomicUsize::new(0));
    let worker = Worker::new(engine.clone())
        .queues([QUEUE])
        .concurrency(JOBS)
        .lease_duration(seconds(3))
        .handle_any(move |job, _: Context| run(job, running.clone()));
    worker
        .run_until(settled(engine))
        .await
        .expect("a good set-up");
}

/// The first two processes end with all 64 in them: every job is a suspect then.
async fn run(job: JobRecord, running: Arc<AtomicUsize>) -> Verdict {
    running.fetch_add(1, Ordering::SeqCst);
    let is_suspect = job.crashes >= SUSPECT;
    match (job.kind == POISON, is_suspect) {
        (true, _) => {
            while !is_suspect && running.load(Ordering::SeqCst) < JOBS {
                pause(millis(10)).await;
            }
            std::process::abort()
        }
        (false, false) => std::future::pending().await,
        (false, true) => Verdict::completed(),
    }
}

async fn settled(engine: Arc<dyn Engine>) {
    loop {
        let stats = engine.stats(&here(), StatsRequest::default()).await;
        let queues = stats.expect("stats").queues;
        let open =
            |counts: punctual::engine::Counts| counts.pending() + counts.of(JobState::Active);
        if queues.iter().map(|queue| open(queue.counts)).sum::<u64>() == 0 {
            return;
        }
        pause(millis(100)).await;
    }
}
