//! How a worker ends.

use std::sync::Arc;

use punctual::time::{Stopwatch, days, millis, minutes, seconds};
use punctual::worker::Interrupt;
use punctual::{Context, JobState, NewJob, Outcome, Queue, Worker};
use tokio::sync::{Semaphore, mpsc};

use crate::support::*;

/// A handler that says that it started, and ends with a permit.
struct Gate {
    go: Arc<Semaphore>,
    started: mpsc::UnboundedReceiver<u32>,
}

fn gated(worker: Worker) -> (Worker, Gate) {
    let go = Arc::new(Semaphore::new(0));
    let (start, started) = mpsc::unbounded_channel();
    let gate = Gate {
        go: go.clone(),
        started,
    };
    let worker = worker.handle(move |job: Ping| {
        start.send(job.n).unwrap();
        let go = go.clone();
        async move { go.acquire().await.unwrap().forget() }
    });
    (worker, gate)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_signal_lets_handlers_end_and_claims_nothing_more() {
    let (probe, _clock) = Probe::new();
    let running_job = send(&probe, 1).await;
    let (worker, mut gate) = gated(Worker::new(&probe));
    let mut running = background(&worker);
    soon(gate.started.recv()).await;
    running.drain();
    until_draining(&worker).await;
    let later = send(&probe, 2).await;
    gate.go.add_permits(9);
    running.ended().await;
    assert_eq!(probe.job(running_job).await.state, JobState::Completed);
    let later = probe.job(later).await;
    assert_eq!((later.state, later.attempt), (JobState::Ready, 0));
}

/// A job that the engine calls active may be on its way still; a busy worker runs it.
async fn until_busy(worker: &Worker) {
    let health = worker.health();
    soon(async {
        while health.busy() == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// Its health says so, for load balancers and deployments.
async fn until_draining(worker: &Worker) {
    let health = worker.health();
    soon(async {
        while !health.is_draining() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert!(!health.report().ok);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn past_the_drain_limit_jobs_are_handed_back_unharmed() {
    let (probe, _clock) = Probe::new();
    let id = send(&probe, 1).await;
    let (reported, mut interrupts) = mpsc::unbounded_channel();
    let worker =
        Worker::new(&probe)
            .drain_limit(millis(20))
            .handle(move |_: Ping, ctx: Context| {
                let reported = reported.clone();
                async move {
                    reported.send(ctx.cancelled().await).unwrap();
                    std::future::pending::<()>().await;
                }
            });
    let mut running = background(&worker);
    until_busy(&worker).await;
    running.drain();
    running.ended().await;
    assert_eq!(interrupts.recv().await, Some(Interrupt::ShuttingDown));
    let job = probe.job(id).await;
    assert_eq!(job.state, JobState::Ready);
    assert_eq!((job.failures, job.crashes), (0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_second_signal_releases_at_once() {
    let (probe, _clock) = Probe::new();
    let id = send(&probe, 1).await;
    let worker = Worker::new(&probe)
        .drain_limit(minutes(60))
        .handle(|_: Ping| std::future::pending::<()>());
    let mut running = background(&worker);
    until_busy(&worker).await;
    let watch = Stopwatch::start();
    running.drain();
    running.release();
    running.ended().await;
    assert!(watch.elapsed() < seconds(2), "{:?}", watch.elapsed());
    let job = probe.job(id).await;
    assert_eq!((job.state, job.crashes), (JobState::Ready, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_ends_while_it_is_released_decides_itself() {
    let (probe, _clock) = Probe::new();
    let id = send(&probe, 1).await;
    let worker = Worker::new(&probe).handle(|_: Ping, ctx: Context| async move {
        ctx.cancelled().await;
        Outcome::Completed
    });
    let mut running = background(&worker);
    until_busy(&worker).await;
    running.drain();
    running.release();
    running.ended().await;
    assert_eq!(probe.job(id).await.state, JobState::Completed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_claimed_ahead_is_handed_back_first() {
    let (probe, _clock) = Probe::new();
    let (worker, mut gate) = gated(Worker::new(&probe).concurrency(64));
    let mut running = background(&worker);
    // One has run in no time: with the slots full, more are claimed ahead of them.
    gate.go.add_permits(1);
    let first = send(&probe, 0).await;
    settled(&probe, first).await;
    let jobs = (1..=200).map(|n| NewJob::of(&ping(n)).unwrap());
    let jobs: Vec<NewJob> = jobs.map(|job| job.retention(days(1))).collect();
    let ids: Vec<_> = jobs.iter().map(|job| job.id).collect();
    Queue::new(&probe).enqueue_many(jobs).await.unwrap();
    for _ in 0..65 {
        soon(gate.started.recv()).await;
    }
    // The lease is here, and nothing is claimed while what is ahead lasts: an answer that came
    // during the drain would hand it back as well.
    running.drain();
    let mut ahead = 0;
    for id in &ids[64..] {
        let job = until(&probe, *id, |job| job.state == JobState::Ready).await;
        assert_eq!((job.failures, job.crashes), (0, 0));
        ahead += job.attempt;
    }
    assert!(ahead > 0, "something was claimed ahead");
    assert_eq!(active(&probe).await, 64, "they run on");
    gate.go.add_permits(64);
    running.ended().await;
    for id in &ids[..64] {
        assert_eq!(probe.job(*id).await.state, JobState::Completed);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outcome_is_settled_before_the_worker_ends() {
    let (probe, _clock) = Probe::new();
    let id = send(&probe, 1).await;
    let (worker, mut gate) = gated(Worker::new(&probe));
    let unavailable = Fault::Lost(punctual::ErrorKind::EngineUnavailable);
    probe.fail("settle", [unavailable; 3]);
    let mut running = background(&worker);
    soon(gate.started.recv()).await;
    running.drain();
    gate.go.add_permits(1);
    running.ended().await;
    assert_eq!(probe.calls("settle"), 4);
    assert_eq!(probe.job(id).await.state, JobState::Completed);
}

#[tokio::test]
async fn a_worker_may_run_again_after_it_ended() {
    let (probe, _clock) = Probe::new();
    async fn plain(_: Ping) {}
    let worker = Worker::new(&probe).handle(plain);
    let health = worker.health();
    assert!(!health.report().ok);
    for n in 0..3 {
        let id = send(&probe, n).await;
        let running = background(&worker);
        assert_eq!(settled(&probe, id).await.state, JobState::Completed);
        assert!(health.report().ok, "{health:?}");
        assert_eq!(health.report().loops.len(), 4);
        running.stop().await;
        assert!(!health.report().ok, "it does not run any more");
    }
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_signal_of_the_system_drains_and_a_second_one_releases() {
    let (probe, _clock) = Probe::new();
    let id = send(&probe, 1).await;
    let worker = Worker::new(&probe)
        .drain_limit(minutes(60))
        .handle(|_: Ping| std::future::pending::<()>());
    let running = tokio::spawn(worker.run_until(punctual::shutdown_signal()));
    let kill = || {
        let pid = std::process::id().to_string();
        let killed = std::process::Command::new("kill")
            .args(["-TERM", &pid])
            .status();
        assert!(killed.unwrap().success());
    };
    until_busy(&worker).await;
    kill();
    until_draining(&worker).await;
    kill();
    soon(running).await.unwrap().unwrap();
    assert_eq!(probe.job(id).await.state, JobState::Ready);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_ends_although_the_engine_does_not_answer() {
    let mut probe = Probe::on(punctual::time::ManualClock::default());
    probe.settle_gate = Some(Semaphore::new(0));
    let probe = Arc::new(probe);
    let id = send(&probe, 1).await;
    let (worker, gate) = gated(Worker::new(&probe));
    gate.go.add_permits(1);
    let mut running = background(&worker);
    soon(async {
        while probe.settles().is_empty() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let watch = Stopwatch::start();
    running.drain();
    running.ended().await;
    assert!(watch.elapsed() < seconds(10), "{:?}", watch.elapsed());
    assert_eq!(
        probe.job(id).await.state,
        JobState::Active,
        "its lease runs out"
    );
}
