//! Leases: cancelled, timed out, lost and blocked handlers.

use std::sync::Arc;
use std::time::Duration;

use punctual::job::Stop;
use punctual::time::{millis, seconds, within};
use punctual::worker::Interrupt;
use punctual::{Context, JobState, Outcome, Queue, Worker};
use tokio::sync::mpsc;

use crate::support::*;

/// Heartbeats every 100 ms of real time, so that a request to stop comes soon.
fn quick(probe: &Arc<Probe>) -> Worker {
    Worker::new(probe)
        .lease_duration(millis(300))
        .abort_grace(millis(50))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_heeds_the_request_is_cancelled_by_token() {
    let (probe, _clock) = Probe::new();
    let id = send(&probe, 1).await;
    let worker = quick(&probe).handle(|_: Ping, ctx: Context| async move {
        assert_eq!(ctx.cancelled().await, Interrupt::CancelRequested);
        Outcome::Cancelled
    });
    let running = background(&worker);
    until(&probe, id, |job| job.state == JobState::Active).await;
    Queue::new(&probe).cancel(id).await.unwrap();
    let job = settled(&probe, id).await;
    assert_eq!(job.state, JobState::Cancelled);
    assert_eq!(job.stopped, Some(Stop::Token));
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_ignores_the_request_is_aborted_and_its_slot_is_free() {
    let (probe, _clock) = Probe::new();
    let id = send(&probe, 1).await;
    let (dropped, mut drops) = mpsc::unbounded_channel::<()>();
    let worker = quick(&probe).concurrency(1).handle(move |job: Ping| {
        let guard = dropped.clone();
        async move {
            if job.n == 1 {
                let _guard = guard;
                std::future::pending::<()>().await;
            }
        }
    });
    let running = background(&worker);
    until(&probe, id, |job| job.state == JobState::Active).await;
    Queue::new(&probe).cancel(id).await.unwrap();
    let job = settled(&probe, id).await;
    assert_eq!(job.state, JobState::Cancelled);
    assert_eq!(job.stopped, Some(Stop::Aborted));

    let next = send(&probe, 2).await;
    assert_eq!(settled(&probe, next).await.state, JobState::Completed);
    running.stop().await;
    drop(worker);
    assert_eq!(soon(drops.recv()).await, None, "its future was dropped");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn completed_before_the_request_is_seen_stays_completed() {
    let (probe, _clock) = Probe::new();
    let id = send(&probe, 1).await;
    let worker = quick(&probe).handle(|_: Ping, ctx: Context| async move {
        ctx.cancelled().await;
        Outcome::Completed
    });
    let running = background(&worker);
    until(&probe, id, |job| job.state == JobState::Active).await;
    Queue::new(&probe).cancel(id).await.unwrap();
    assert_eq!(settled(&probe, id).await.state, JobState::Completed);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_timeout_fails_the_attempt() {
    let (probe, _clock) = Probe::new();
    let queue = Queue::new(&probe);
    let id = queue.enqueue(ping(1)).timeout(millis(40)).await.unwrap().id;
    let worker = quick(&probe).handle(|_: Ping| std::future::pending::<()>());
    let running = background(&worker);
    let job = until(&probe, id, |job| job.failures == 1).await;
    assert_eq!(job.crashes, 0);
    let error = job.last_error.unwrap();
    assert!(error.starts_with("timed out after 40ms"), "{error}");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_lease_cancels_the_handler_and_nothing_is_settled() {
    let (probe, clock) = Probe::new();
    let id = send(&probe, 1).await;
    let (reported, mut interrupts) = mpsc::unbounded_channel();
    let worker = quick(&probe).handle(move |_: Ping, ctx: Context| {
        let reported = reported.clone();
        async move {
            if ctx.attempt() == 1 {
                reported.send(ctx.cancelled().await).unwrap();
            }
        }
    });
    let running = background(&worker);
    until(&probe, id, |job| job.state == JobState::Active).await;
    leases_run_out(&probe, &clock).await;
    assert_eq!(soon(interrupts.recv()).await, Some(Interrupt::LeaseLost));
    let job = settled(&probe, id).await;
    assert_eq!(
        (job.state, job.attempt, job.crashes),
        (JobState::Completed, 2, 1)
    );
    running.stop().await;
    let settled: Vec<_> = probe
        .settles()
        .into_iter()
        .flat_map(|settle| settle.leases)
        .flat_map(|lease| lease.settlements)
        .map(|settlement| settlement.attempt)
        .collect();
    assert_eq!(settled, [2], "the first attempt concerns no other");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outcome_under_a_lost_lease_changes_nothing() {
    let (probe, clock) = Probe::new();
    let id = send(&probe, 1).await;
    let engine = probe.clone();
    let worker = Worker::new(&probe).handle(move |_: Ping, ctx: Context| {
        let (engine, clock) = (engine.clone(), clock.clone());
        async move {
            if ctx.attempt() == 1 {
                leases_run_out(&engine, &clock).await;
                return Outcome::Dead;
            }
            Outcome::Completed
        }
    });
    worker.run_until_idle().await.unwrap();
    let job = probe.job(id).await;
    assert_eq!(
        (job.state, job.attempt, job.crashes),
        (JobState::Completed, 2, 1)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_that_cannot_be_reached_stops_the_handler_in_time() {
    let (probe, _clock) = Probe::new();
    let id = send(&probe, 1).await;
    let (reported, mut interrupts) = mpsc::unbounded_channel();
    // Long enough that the first attempt starts within it, however busy the machine is.
    let worker = quick(&probe)
        .lease_duration(seconds(2))
        .handle(move |_: Ping, ctx: Context| {
            let reported = reported.clone();
            async move {
                if ctx.attempt() == 1 {
                    reported.send(ctx.cancelled().await).unwrap();
                    std::future::pending::<()>().await;
                }
            }
        });
    let lost = Fault::Lost(punctual::ErrorKind::EngineUnavailable);
    probe.fail("extend", [lost; 50]);
    let running = background(&worker);
    assert_eq!(soon(interrupts.recv()).await, Some(Interrupt::LeaseLost));
    // Time stands still in the engine: the lease is still ours, and is handed back.
    let job = settled(&probe, id).await;
    assert_eq!((job.state, job.attempt), (JobState::Completed, 2));
    assert_eq!((job.failures, job.crashes), (0, 0));
    running.stop().await;
}

/// As where a namespace is cut into shards, and one of them is away.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_of_a_part_that_is_away_take_no_others_with_them() {
    let (probe, _clock) = Probe::new();
    let (reported, mut starts) = mpsc::unbounded_channel();
    let (stopped, mut interrupts) = mpsc::unbounded_channel();
    let release = Arc::new(tokio::sync::Semaphore::new(0));
    let released = release.clone();
    let worker = quick(&probe)
        .lease_duration(seconds(2))
        .concurrency(3)
        .handle(move |_: Ping, ctx: Context| {
            let (reported, stopped, released) =
                (reported.clone(), stopped.clone(), released.clone());
            async move {
                reported.send(ctx.token()).unwrap();
                tokio::select! {
                    why = ctx.cancelled() => stopped.send((ctx.id(), why)).unwrap(),
                    _ = released.acquire() => {}
                }
            }
        });
    let running = background(&worker);
    let mut ids = Vec::new();
    let mut tokens = Vec::new();
    for n in 0..3 {
        ids.push(send(&probe, n).await);
        tokens.push(soon(starts.recv()).await.unwrap());
    }
    probe.loses(tokens[0]);
    let interrupted = soon(interrupts.recv()).await.unwrap();
    assert_eq!(interrupted, (ids[0], Interrupt::LeaseLost));
    // The others would be stopped within a lease.
    let other = within(seconds(2), interrupts.recv()).await;
    assert_eq!(other, None);
    // What it settles of that lease is not answered either, and holds up no other job.
    release.close();
    for id in &ids[1..] {
        let job = settled(&probe, *id).await;
        assert_eq!((job.state, job.attempt), (JobState::Completed, 1));
    }
    let next = send(&probe, 3).await;
    assert_eq!(settled(&probe, next).await.attempt, 1);
    drop(running);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_handler_that_blocks_its_thread_loses_its_slot() {
    let (probe, _clock) = Probe::new();
    let (unblock, blocked) = std::sync::mpsc::channel::<()>();
    let blocked = Arc::new(std::sync::Mutex::new(blocked));
    let worker = quick(&probe).concurrency(1).handle(move |job: Ping| {
        let blocked = blocked.clone();
        async move {
            if job.n == 1 {
                let _ = blocked.lock().unwrap().recv();
            }
        }
    });
    let queue = Queue::new(&probe);
    let id = queue
        .enqueue(ping(1))
        .timeout(millis(20))
        .max_attempts(1)
        .await
        .unwrap()
        .id;
    let health = worker.health();
    let running = background(&worker);
    let job = settled(&probe, id).await;
    assert_eq!(job.dead, Some(punctual::job::DeadReason::Exhausted));
    assert_eq!(health.leaked(), 1);
    assert!(!health.report().ok);

    let next = send(&probe, 2).await;
    assert_eq!(
        settled(&probe, next).await.state,
        JobState::Completed,
        "the slot is free"
    );
    drop(unblock);
    soon(async {
        while health.leaked() > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_worker_hands_nothing_back() {
    let (probe, clock) = Probe::new();
    let id = send(&probe, 1).await;
    let (dropped, mut drops) = mpsc::unbounded_channel::<()>();
    let worker = Worker::new(&probe).handle(move |_: Ping| {
        let guard = dropped.clone();
        async move {
            let _guard = guard;
            std::future::pending::<()>().await
        }
    });
    let holders = Arc::strong_count(&probe);
    let running = background(&worker);
    until(&probe, id, |job| job.state == JobState::Active).await;
    running.kill(&probe, holders).await;
    drop(worker);
    assert_eq!(soon(drops.recv()).await, None, "its handler ended with it");
    assert_eq!(probe.job(id).await.state, JobState::Active);
    assert_eq!(probe.calls("settle"), 0);
    leases_run_out(&probe, &clock).await;
    let job = probe.job(id).await;
    assert_eq!((job.state, job.crashes), (JobState::Ready, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn spans_without_end_are_taken() {
    let (probe, _clock) = Probe::new();
    let id = send(&probe, 1).await;
    let worker = quick(&probe)
        .abort_grace(Duration::MAX)
        .drain_limit(Duration::MAX)
        .suspect_wait(Duration::MAX)
        .handle(|_: Ping, ctx: Context| async move {
            ctx.cancelled().await;
            Outcome::Cancelled
        });
    let health = worker.health();
    let running = background(&worker);
    until(&probe, id, |job| job.state == JobState::Active).await;
    Queue::new(&probe).cancel(id).await.unwrap();
    assert_eq!(settled(&probe, id).await.state, JobState::Cancelled);
    let loops = health.report().loops;
    assert!(loops.iter().all(|of| of.restarts == 0), "{loops:?}");
    running.stop().await;
}

/// Panics when it is dropped, as a badly written guard does.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("dropped");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_aborted_handler_that_panics_in_its_drop_frees_its_slot() {
    let (probe, _clock) = Probe::new();
    let id = send(&probe, 1).await;
    let worker = quick(&probe).concurrency(1).handle(|job: Ping| async move {
        if job.n == 1 {
            let _bomb = Bomb;
            std::future::pending::<()>().await;
        }
    });
    let running = background(&worker);
    until(&probe, id, |job| job.state == JobState::Active).await;
    Queue::new(&probe).cancel(id).await.unwrap();
    assert_eq!(settled(&probe, id).await.stopped, Some(Stop::Aborted));
    let next = send(&probe, 2).await;
    assert_eq!(settled(&probe, next).await.state, JobState::Completed);
    // A slow panic may look like a blocked thread for a while.
    soon(async {
        while worker.health().leaked() > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    running.stop().await;
}
