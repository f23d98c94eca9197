//! Jobs that end their process: one of 64 dies, and only that one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use punctual::job::DeadReason;
use punctual::time::{ManualClock, millis, seconds};
use punctual::{Context, ErrorKind, JobId, JobState, Queue, Worker};
use tokio::sync::{Semaphore, mpsc};

use crate::support::*;

const POISON: u32 = 17;

/// A process with a worker in which the poison job ends the process, and in whose first two lives
/// the other jobs have no time to end.
fn process(probe: &Arc<Probe>, life: u32) -> (Worker, mpsc::UnboundedReceiver<()>) {
    let (crash, crashed) = mpsc::unbounded_channel();
    let worker = Worker::new(probe).handle(move |job: Ping| {
        let crash = crash.clone();
        async move {
            if job.n == POISON {
                crash.send(()).unwrap();
            }
            if job.n == POISON || life < 2 {
                std::future::pending::<()>().await;
            }
        }
    });
    (worker, crashed)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_64_jobs_only_the_one_that_ends_its_process_dies() {
    let (probe, clock) = Probe::new();
    let mut ids = Vec::new();
    for n in 0..64 {
        ids.push(send(&probe, n).await);
    }
    // Two crashes with all 64 in one lease, then one alone.
    for life in 0..3 {
        let (worker, mut crashed) = process(&probe, life);
        let holders = Arc::strong_count(&probe);
        let running = background(&worker);
        soon(crashed.recv()).await;
        running.kill(&probe, holders).await;
        leases_run_out(&probe, &clock).await;
    }
    let (worker, mut crashed) = process(&probe, 3);
    soon(worker.run_until_idle()).await.unwrap();
    assert!(crashed.try_recv().is_err(), "it is not tried again");
    for (n, id) in ids.iter().enumerate() {
        let job = probe.job(*id).await;
        if n as u32 == POISON {
            assert_eq!(job.dead, Some(DeadReason::Poison));
            assert_eq!(job.crashes, 3);
        } else {
            assert_eq!(job.state, JobState::Completed, "job {n} is innocent");
        }
    }
}

/// Enqueues jobs that crashed twice in a lease with others.
async fn suspects(probe: &Arc<Probe>, clock: &ManualClock, count: u32) -> Vec<JobId> {
    let mut ids = Vec::new();
    for n in 0..count {
        ids.push(send(probe, n).await);
    }
    for _ in 0..2 {
        let (reported, mut starts) = mpsc::unbounded_channel();
        let worker = Worker::new(probe).handle(move |_: Ping| {
            reported.send(()).unwrap();
            std::future::pending::<()>()
        });
        let holders = Arc::strong_count(probe);
        let running = background(&worker);
        // One that is killed while it claims hands back what it got, which is no crash.
        for _ in 0..count {
            soon(starts.recv()).await.unwrap();
        }
        running.kill(probe, holders).await;
        leases_run_out(probe, clock).await;
    }
    ids
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_suspect_runs_with_nothing_beside_it() {
    let (probe, clock) = Probe::new();
    suspects(&probe, &clock, 5).await;
    for n in 100..200 {
        send(&probe, n).await;
    }
    let running = Arc::new(AtomicU32::new(0));
    let alone = Arc::new(AtomicU32::new(0));
    let worker = Worker::new(&probe).handle({
        let alone = alone.clone();
        move |_: Ping, ctx: Context| {
            let (running, alone) = (running.clone(), alone.clone());
            async move {
                let beside = running.fetch_add(1, Ordering::SeqCst);
                tokio::task::yield_now().await;
                let suspect = ctx.crashes() >= 2;
                let others = running.fetch_sub(1, Ordering::SeqCst) - 1;
                if suspect {
                    assert_eq!((beside, others), (0, 0));
                    alone.fetch_add(1, Ordering::SeqCst);
                }
            }
        }
    });
    soon(worker.run_until_idle()).await.unwrap();
    assert_eq!(alone.load(Ordering::SeqCst), 5);
}

/// Its lease may be there under that nonce, and is no other one if a worker that ends asks for it.
/// Seed 601 of `redis-http` buried a job that had not run alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_suspect_whose_claim_was_not_answered_is_asked_for_alone_again() {
    let (probe, clock) = Probe::new();
    let suspect = suspects(&probe, &clock, 1).await.remove(0);
    let unavailable = Fault::Unanswered(ErrorKind::EngineUnavailable);
    probe.fail(CLAIM_ALONE, [unavailable; 3]);
    let (worker, _) = process(&probe, 0);
    let running = background(&worker);
    let first = soon(async {
        loop {
            match probe
                .claims()
                .into_iter()
                .find(|claim| claim.mode.is_alone())
            {
                Some(claim) => return claim,
                None => tokio::task::yield_now().await,
            }
        }
    });
    let nonce = first.await.nonce;
    running.stop().await;
    let claims = probe.claims();
    let same = claims.iter().filter(|claim| claim.nonce == nonce);
    assert!(
        same.clone().count() > 1,
        "it is asked for until it is known"
    );
    assert!(
        same.clone().all(|claim| claim.mode.is_alone()),
        "{claims:?}"
    );
    let job = probe.job(suspect).await;
    assert_eq!(
        (job.state, job.crashes),
        (JobState::Ready, 2),
        "handed back"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_suspect_runs_with_nothing_beside_it_in_another_worker_of_the_process() {
    let (probe, clock) = Probe::new();
    suspects(&probe, &clock, 5).await;
    let (elsewhere, _) = Probe::new();
    let running = Arc::new(AtomicU32::new(0));
    let beside = Arc::new(AtomicU32::new(0));
    let alone = Arc::new(AtomicU32::new(0));
    let worker = |probe: &Arc<Probe>| {
        let counters = (running.clone(), beside.clone(), alone.clone());
        Worker::new(probe).handle(move |_: Ping, ctx: Context| {
            let (running, beside, alone) = counters.clone();
            async move {
                let before = running.fetch_add(1, Ordering::SeqCst);
                for _ in 0..20 {
                    tokio::task::yield_now().await;
                }
                let others = running.fetch_sub(1, Ordering::SeqCst) - 1;
                if ctx.crashes() >= 2 {
                    beside.fetch_add(before + others, Ordering::SeqCst);
                    alone.fetch_add(1, Ordering::SeqCst);
                }
            }
        })
    };
    let busy = worker(&elsewhere);
    let holders = Arc::strong_count(&elsewhere);
    let busy = background(&busy);
    let feeds = {
        let elsewhere = elsewhere.clone();
        tokio::spawn(async move {
            for n in 0.. {
                send(&elsewhere, n).await;
                tokio::task::yield_now().await;
            }
        })
    };
    let first = worker(&probe);
    let first = background(&first);
    first.stop_when(|| alone.load(Ordering::SeqCst) == 5).await;
    feeds.abort();
    busy.kill(&elsewhere, holders).await;
    assert_eq!(beside.load(Ordering::SeqCst), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_isolated_worker_takes_suspects_beside_its_work() {
    let (probe, clock) = Probe::new();
    suspects(&probe, &clock, 3).await;
    send(&probe, 100).await;
    // Ends only when all four run at the same time.
    let together = Arc::new(tokio::sync::Barrier::new(4));
    let worker = Worker::new(&probe).isolated().handle(move |_: Ping| {
        let together = together.clone();
        async move {
            together.wait().await;
        }
    });
    soon(worker.run_until_idle()).await.unwrap();
    let leases: Vec<bool> = probe
        .claims()
        .iter()
        .map(|claim| claim.mode.is_alone())
        .collect();
    assert!(leases.iter().filter(|alone| **alone).count() >= 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_suspect_waits_until_the_last_one_is_settled() {
    let clock = ManualClock::default();
    let mut probe = Probe::on(clock.clone());
    probe.settle_gate = Some(tokio::sync::Semaphore::new(0));
    let probe = Arc::new(probe);
    suspects(&probe, &clock, 2).await;
    let starts = Arc::new(AtomicU32::new(0));
    let counter = starts.clone();
    let worker = Worker::new(&probe).handle(move |_: Ping| {
        counter.fetch_add(1, Ordering::SeqCst);
        async {}
    });
    let running = background(&worker);
    soon(async {
        while probe.settles().is_empty() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    // A process that ended now would leave the first one's outcome behind, and it would look as
    // if that had crashed alone. So no other job is running, whose crash it could be.
    // Its claimer goes round, and could have claimed.
    until_round(&worker, "claimer").await;
    assert_eq!(starts.load(Ordering::SeqCst), 1);
    probe.settle_gate.as_ref().unwrap().add_permits(100);
    running
        .stop_when(|| starts.load(Ordering::SeqCst) == 2)
        .await;
}

/// The number of a job whose handler does not end by itself.
const LONG: u32 = 1_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_runs_on_keeps_a_suspect_out_and_nothing_else() {
    let (probe, clock) = Probe::new();
    let suspect = suspects(&probe, &clock, 1).await[0];
    let long = send(&probe, LONG).await;
    let end = Arc::new(Semaphore::new(0));
    let running = Arc::new(AtomicU32::new(0));
    let worker = Worker::new(&probe).suspect_wait(millis(50)).handle({
        let end = end.clone();
        move |job: Ping, ctx: Context| {
            let (end, running) = (end.clone(), running.clone());
            async move {
                let beside = running.fetch_add(1, Ordering::SeqCst);
                assert!(ctx.crashes() < 2 || beside == 0, "{beside} beside it");
                if job.n == LONG {
                    end.acquire().await.unwrap().forget();
                }
                running.fetch_sub(1, Ordering::SeqCst);
            }
        }
    });
    let background = background(&worker);
    for n in 0..200 {
        let usual = send(&probe, n).await;
        assert_eq!(settled(&probe, usual).await.state, JobState::Completed);
    }
    assert_eq!(probe.job(long).await.state, JobState::Active);
    assert_eq!(probe.job(suspect).await.state, JobState::Ready);
    end.add_permits(1);
    let suspect = settled(&probe, suspect).await;
    assert_eq!((suspect.state, suspect.failures), (JobState::Completed, 0));
    background.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_suspect_does_not_run_beside_a_handler_that_blocks_its_thread() {
    let (probe, clock) = Probe::new();
    let suspect = suspects(&probe, &clock, 1).await[0];
    let (unblock, blocked) = std::sync::mpsc::channel::<()>();
    let blocked = Arc::new(std::sync::Mutex::new(blocked));
    let worker = Worker::new(&probe)
        .abort_grace(millis(50))
        .suspect_wait(millis(50))
        .handle(move |job: Ping| {
            let blocked = blocked.clone();
            async move {
                if job.n == LONG {
                    let _ = blocked.lock().unwrap().recv();
                }
            }
        });
    let (queue, health) = (Queue::new(&probe), worker.health());
    let blocking = queue
        .enqueue(ping(LONG))
        .timeout(millis(20))
        .max_attempts(1);
    let blocking = blocking.await.unwrap().id;
    let running = background(&worker);
    assert_eq!(settled(&probe, blocking).await.state, JobState::Dead);
    assert_eq!(health.leaked(), 1, "its slot is given up, its thread runs");
    for n in 0..20 {
        let usual = send(&probe, n).await;
        assert_eq!(settled(&probe, usual).await.state, JobState::Completed);
    }
    let claims = probe.calls("claim");
    soon(async {
        while probe.calls("claim") == claims {
            clock.advance(seconds(1));
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(probe.job(suspect).await.attempt, 2, "it is not claimed");
    drop(unblock);
    assert_eq!(settled(&probe, suspect).await.state, JobState::Completed);
    running.stop().await;
}
