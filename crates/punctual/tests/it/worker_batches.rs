//! Handlers of many jobs at once.

use std::sync::{Arc, Mutex};

use punctual::engine::{Claim, Engine, Namespace, WorkerId};
use punctual::time::{millis, minutes, seconds};
use punctual::worker::{Batch, BatchContext, HandlerResult};
use punctual::{Context, Error, JobState, Outcome, Queue, Worker};

use crate::support::*;

type Sizes = Arc<Mutex<Vec<usize>>>;

/// A worker whose handler notes how many jobs it got, and completes them.
fn counting(probe: &Arc<Probe>, batch: Batch) -> (Worker, Sizes) {
    let sizes = Sizes::default();
    let seen = sizes.clone();
    let handler = move |jobs: Vec<Ping>, ctx: BatchContext| {
        assert_eq!(jobs.len(), ctx.contexts().len());
        seen.lock().unwrap().push(jobs.len());
        async {}
    };
    (Worker::new(probe).handle_many(handler, batch), sizes)
}

#[tokio::test]
async fn a_full_batch_is_handed_over_at_once() {
    let (probe, _clock) = Probe::new();
    for n in 0..8 {
        send(&probe, n).await;
    }
    let (worker, sizes) = counting(&probe, Batch::of(4).linger(minutes(1)));
    // A third of this lease would be longer than the test may take.
    let worker = worker.lease_duration(minutes(10));
    soon(worker.run_until_idle()).await.unwrap();
    assert_eq!(*sizes.lock().unwrap(), [4, 4]);
}

#[tokio::test]
async fn a_batch_has_no_more_jobs_than_the_worker_slots() {
    let (probe, _clock) = Probe::new();
    for n in 0..6 {
        send(&probe, n).await;
    }
    let (worker, sizes) = counting(&probe, Batch::of(100).linger(minutes(1)));
    let worker = worker.concurrency(3).lease_duration(minutes(10));
    soon(worker.run_until_idle()).await.unwrap();
    assert_eq!(*sizes.lock().unwrap(), [3, 3]);
}

#[tokio::test]
async fn a_batch_that_has_lingered_is_handed_over() {
    let (probe, _clock) = Probe::new();
    send(&probe, 1).await;
    let (worker, sizes) = counting(&probe, Batch::of(100));
    soon(worker.run_until_idle()).await.unwrap();
    assert_eq!(*sizes.lock().unwrap(), [1]);
}

/// Shares take turns, so that the jobs of several are claimed in between each other.
#[tokio::test]
async fn a_batch_by_share_has_the_jobs_of_one_share() {
    let (probe, _clock) = Probe::new();
    let queue = Queue::new(&probe);
    for n in 0..3 {
        for share in ["a", "b"] {
            queue.enqueue(Ping { n }).share(share).await.unwrap();
        }
        send(&probe, n).await;
    }
    let batches = Arc::new(Mutex::new(Vec::new()));
    let seen = batches.clone();
    let handler = move |_: Vec<Ping>, ctx: BatchContext| {
        let shares = ctx.contexts().iter().map(|one| one.job().share.clone());
        seen.lock().unwrap().push(shares.collect::<Vec<_>>());
        async {}
    };
    let batch = Batch::of(3).linger(minutes(1)).by_share();
    let worker = Worker::new(&probe).handle_many(handler, batch);
    let worker = worker.concurrency(9).lease_duration(minutes(10));
    soon(worker.run_until_idle()).await.unwrap();
    let mut batches = batches.lock().unwrap().clone();
    batches.sort();
    let whole = |share: Option<&str>| vec![share.map(str::to_owned); 3];
    assert_eq!(batches, [whole(None), whole(Some("a")), whole(Some("b"))]);
}

#[tokio::test]
async fn each_job_of_a_batch_has_its_own_outcome() {
    let (probe, _clock) = Probe::new();
    let mut ids = Vec::new();
    for n in 0..4 {
        ids.push(send(&probe, n).await);
    }
    async fn handler(_: Vec<Ping>, batch: BatchContext) -> Outcome {
        batch.fail(1, "locked");
        batch.fail(2, Error::permanent("gone"));
        batch.contexts()[3].result("kept").unwrap();
        Outcome::Completed
    }
    let worker = Worker::new(&probe).handle_many(handler, Batch::of(4));
    soon(worker.run_until_idle()).await.unwrap();
    let mut states = Vec::new();
    for id in &ids {
        states.push(probe.job(*id).await.state);
    }
    use JobState::{Completed, Dead, Scheduled};
    assert_eq!(states, [Completed, Scheduled, Dead, Completed]);
    let failed = probe.job(ids[1]).await;
    assert_eq!(failed.last_error.as_deref(), Some("locked"));
    let last = probe.job(ids[3]).await;
    assert_eq!(last.result.as_deref(), Some(&b"kept"[..]));
}

#[tokio::test]
async fn an_error_of_the_whole_fails_each_job() {
    let (probe, _clock) = Probe::new();
    let ids = [send(&probe, 0).await, send(&probe, 1).await];
    async fn handler(_: Vec<Ping>, batch: BatchContext) -> HandlerResult {
        batch.set(0, Outcome::Completed);
        Err("the index is down")?;
        Ok(Outcome::Completed)
    }
    let worker = Worker::new(&probe).handle_many(handler, Batch::of(2));
    soon(worker.run_until_idle()).await.unwrap();
    assert_eq!(probe.job(ids[0]).await.state, JobState::Completed);
    let failed = probe.job(ids[1]).await;
    assert_eq!((failed.failures, failed.state), (1, JobState::Scheduled));
    assert_eq!(failed.last_error.as_deref(), Some("the index is down"));
}

#[tokio::test]
async fn a_panic_fails_each_job_of_its_batch() {
    let (probe, _clock) = Probe::new();
    let ids = [send(&probe, 0).await, send(&probe, 1).await];
    async fn handler(_: Vec<Ping>, _: BatchContext) {
        panic!("no index");
    }
    let worker = Worker::new(&probe).handle_many(handler, Batch::of(2));
    soon(worker.run_until_idle()).await.unwrap();
    for id in ids {
        let error = probe.job(id).await.last_error.unwrap();
        assert!(error.contains("panicked: no index"), "{error}");
    }
}

#[tokio::test]
async fn a_suspect_is_a_batch_of_its_own() {
    let (probe, clock) = Probe::new();
    send(&probe, 0).await;
    for _ in 0..2 {
        let claim = Claim::new(WorkerId::random(), "pings", 1);
        let claimed = probe.claim(&Namespace::default(), claim).await.unwrap();
        assert_eq!(claimed.leases.len(), 1);
        leases_run_out(&probe, &clock).await;
    }
    for n in 1..4 {
        send(&probe, n).await;
    }
    let (worker, sizes) = counting(&probe, Batch::of(3));
    let worker = worker.isolated().suspect_wait(seconds(1));
    soon(worker.run_until_idle()).await.unwrap();
    let mut sizes = sizes.lock().unwrap().clone();
    sizes.sort_unstable();
    assert_eq!(sizes, [1, 3]);
}

/// A job that waited for its batch is stopped by the handler, once that runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_handler_of_a_batch_sees_to_a_cancel() {
    let (probe, _clock) = Probe::new();
    let first = send(&probe, 0).await;
    let second = send(&probe, 1).await;
    async fn handler(_: Vec<Ping>, batch: BatchContext) -> Outcome {
        // Either job may have come first.
        while !batch.contexts().iter().any(Context::is_cancelled) {
            tokio::task::yield_now().await;
        }
        Outcome::Completed
    }
    let worker = Worker::new(&probe)
        .concurrency(2)
        .lease_duration(millis(300))
        .handle_many(handler, Batch::of(2));
    let running = background(&worker);
    until(&probe, second, |job| job.state == JobState::Active).await;
    Queue::new(&probe).cancel(first).await.unwrap();
    for id in [first, second] {
        // What completed stays completed.
        assert_eq!(settled(&probe, id).await.state, JobState::Completed);
    }
    running.stop().await;
}
