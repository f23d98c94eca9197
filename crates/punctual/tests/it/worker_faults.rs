//! Engines that fail, lose answers and panic; calls counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use punctual::time::{Timestamp, seconds};
use punctual::{Context, ErrorKind, JobState, NewJob, Worker};
use tokio::sync::{Semaphore, mpsc};

use crate::support::*;

const DOWN: Fault = Fault::Lost(ErrorKind::EngineUnavailable);
const UNANSWERED: Fault = Fault::Unanswered(ErrorKind::EngineUnavailable);

/// A worker that counts the starts of its handler.
fn counting(probe: &Arc<Probe>) -> (Worker, Arc<AtomicU32>) {
    let starts = Arc::new(AtomicU32::new(0));
    let counter = starts.clone();
    let worker = Worker::new(probe).handle(move |_: Ping| {
        counter.fetch_add(1, Ordering::SeqCst);
        async {}
    });
    (worker, starts)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_recovers_by_itself_from_errors_of_every_call() {
    let (probe, clock) = Probe::new();
    probe.fail("info", [DOWN]);
    probe.fail("claim", [DOWN, DOWN]);
    probe.fail("wait", [DOWN]);
    probe.fail("settle", [DOWN, DOWN]);
    let (worker, starts) = counting(&probe);
    let health = worker.health();
    let running = background(&worker);
    let first = send(&probe, 1).await;
    assert_eq!(settled(&probe, first).await.state, JobState::Completed);
    let second = send(&probe, 2).await;
    clock.advance(seconds(5));
    assert_eq!(settled(&probe, second).await.state, JobState::Completed);
    assert_eq!(starts.load(Ordering::SeqCst), 2);
    soon(async {
        while !health.report().ok {
            tokio::task::yield_now().await;
        }
    })
    .await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn health_says_what_fails_and_for_how_long() {
    let (probe, _clock) = Probe::new();
    probe.fail("claim", [DOWN; 2]);
    let (worker, _) = counting(&probe);
    let health = worker.health();
    let running = background(&worker);
    let problem = soon(async {
        loop {
            let problems = health.report().problems;
            match problems
                .into_iter()
                .find(|text| text.contains("set to fail"))
            {
                Some(problem) => return problem,
                None => tokio::task::yield_now().await,
            }
        }
    })
    .await;
    assert!(problem.starts_with("claimer fails for "), "{problem}");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_whose_answer_was_lost_is_asked_for_again() {
    let (probe, _clock) = Probe::new();
    let id = send(&probe, 1).await;
    probe.fail("claim", [UNANSWERED]);
    let (worker, starts) = counting(&probe);
    let running = background(&worker);
    let job = settled(&probe, id).await;
    assert_eq!((job.state, job.attempt), (JobState::Completed, 1));
    assert_eq!(starts.load(Ordering::SeqCst), 1);
    let claims = probe.claims();
    assert_eq!(claims[0].nonce, claims[1].nonce);
    running.stop().await;
    assert!(
        claims
            .get(2)
            .is_none_or(|third| third.nonce != claims[0].nonce)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_settle_whose_answer_was_lost_is_sent_again_with_the_same_content() {
    let (probe, _clock) = Probe::new();
    let id = send(&probe, 1).await;
    probe.fail("settle", [UNANSWERED, DOWN]);
    let worker = Worker::new(&probe)
        .handle(|_: Ping, ctx: Context| async move { ctx.then(NewJob::new("after", "{}")) });
    let running = background(&worker);
    settled(&probe, id).await;
    running.stop().await;
    let settles = probe.settles();
    assert_eq!(settles.len(), 3);
    assert!(settles.windows(2).all(|pair| pair[0] == pair[1]));
    assert_eq!(probe.job(id).await.attempt, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_loop_that_panics_is_started_again_and_loses_nothing() {
    let (probe, _clock) = Probe::new();
    let id = send(&probe, 1).await;
    probe.fail("claim", [Fault::Panic]);
    probe.fail("settle", [Fault::Panic]);
    let (worker, starts) = counting(&probe);
    let health = worker.health();
    let running = background(&worker);
    let job = settled(&probe, id).await;
    assert_eq!((job.state, job.attempt), (JobState::Completed, 1));
    assert_eq!(starts.load(Ordering::SeqCst), 1);
    let restarts = |name: &str| {
        let loops = health.report().loops;
        loops
            .into_iter()
            .find(|of| of.name == name)
            .unwrap()
            .restarts
    };
    assert_eq!((restarts("claimer"), restarts("settler")), (1, 1));
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_ends_during_a_settle_goes_with_the_next() {
    let clock = punctual::time::ManualClock::default();
    let mut probe = Probe::on(clock);
    probe.settle_gate = Some(Semaphore::new(0));
    let probe = Arc::new(probe);
    let (ended, mut ends) = mpsc::unbounded_channel();
    let go = Arc::new(Semaphore::new(1));
    let worker = Worker::new(&probe).concurrency(20).handle({
        let go = go.clone();
        move |job: Ping| {
            let (go, ended) = (go.clone(), ended.clone());
            async move {
                go.acquire().await.unwrap().forget();
                ended.send(job.n).unwrap();
            }
        }
    });
    for n in 0..20 {
        send(&probe, n).await;
    }
    let running = background(&worker);
    soon(ends.recv()).await;
    soon(async {
        while probe.settles().is_empty() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    go.add_permits(19);
    for _ in 0..19 {
        soon(ends.recv()).await;
    }
    assert_eq!(probe.settles().len(), 1, "one call in flight");
    // Each handler's end reached the worker before the gate opens.
    let health = worker.health();
    soon(async {
        while health.busy() > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let gate = probe.settle_gate.as_ref().unwrap();
    gate.add_permits(1_000);
    running.stop().await;
    let sizes: Vec<usize> = probe
        .settles()
        .iter()
        .map(|settle| {
            settle
                .leases
                .iter()
                .map(|lease| lease.settlements.len())
                .sum()
        })
        .collect();
    assert_eq!(sizes, [1, 19]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_outcome_that_the_engine_refuses_does_not_hold_up_the_others() {
    let clock = punctual::time::ManualClock::new(Timestamp::from_millis(1_000));
    let mut probe = Probe::on(clock);
    probe.settle_gate = Some(Semaphore::new(0));
    let probe = Arc::new(probe);
    let mut ids = Vec::new();
    for n in 0..8 {
        ids.push(send(&probe, n).await);
    }
    let worker = Worker::new(&probe).handle(|job: Ping, ctx: Context| async move {
        // Valid here, refused there: added to the engine's time it lies after the year 9999.
        let delay = if job.n == 5 { 253_402_300_799 } else { 1 };
        ctx.then(NewJob::new("after", "{}").delay(seconds(delay)))
    });
    let health = worker.health();
    let running = background(&worker);
    soon(async {
        while probe.settles().is_empty() || health.busy() > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    probe.settle_gate.as_ref().unwrap().add_permits(1_000);
    for (n, id) in ids.iter().enumerate() {
        let job = until(&probe, *id, |job| job.state != JobState::Active).await;
        if n != 5 {
            assert_eq!(job.state, JobState::Completed, "job {n}");
        } else {
            let error = job.last_error.unwrap();
            assert!(error.starts_with("engine refused how it ended"), "{error}");
            assert!(error.contains("invalid_delay"), "{error}");
        }
    }
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_whose_answer_was_lost_is_handed_back_by_a_worker_that_ends() {
    let (probe, _clock) = Probe::new();
    let id = send(&probe, 1).await;
    // The first one takes effect; by its second try the worker has been asked to end.
    probe.fail("claim", [UNANSWERED, DOWN, DOWN]);
    let (worker, starts) = counting(&probe);
    let mut running = background(&worker);
    until(&probe, id, |job| job.state == JobState::Active).await;
    running.drain();
    running.ended().await;
    let job = probe.job(id).await;
    assert_eq!((job.state, job.attempt), (JobState::Ready, 1));
    assert_eq!((job.failures, job.crashes), (0, 0));
    assert_eq!(starts.load(Ordering::SeqCst), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_unknown_at_the_start_are_asked_for_later() {
    let mut small = punctual::job::Limits::default();
    (small.batch_items, small.payload_bytes) = (10, 1_000);
    let mut large = small;
    (large.batch_items, large.payload_bytes) = (1_000, 1 << 20);
    for limits in [small, large] {
        let probe = Arc::new(Probe::limited(limits));
        probe.fail("info", [DOWN]);
        let mut ids = Vec::new();
        for n in 0..30 {
            ids.push(send(&probe, n).await);
        }
        let worker = Worker::new(&probe).handle(move |_: Ping, ctx: Context| async move {
            ctx.then(NewJob::new("after", vec![b'.'; limits.payload_bytes]))
        });
        let running = background(&worker);
        for id in ids {
            let job = settled(&probe, id).await;
            assert_eq!((job.state, job.failures), (JobState::Completed, 0));
        }
        running.stop().await;
    }
}
