//! What a handler causes with its outcome.

use std::sync::Arc;

use punctual::engine::Engine;
use punctual::job::PARENT_HEADER;
use punctual::testing::{assert_enqueued, refute_enqueued};
use punctual::time::{days, seconds};
use punctual::worker::HandlerResult;
use punctual::{Context, Effect, ErrorKind, Job, JobId, JobState, NewJob, Outcome, Queue, Worker};
use serde::{Deserialize, Serialize};

use crate::support::*;

#[derive(Serialize, Deserialize)]
struct Ship {
    order: u32,
}

impl Job for Ship {
    const KIND: &str = "ship";
    const QUEUE: &str = "shipping";
}

async fn then_ship(job: Ping, ctx: Context) -> HandlerResult {
    ctx.then(NewJob::of(&Ship { order: job.n })?.delay(days(1)))?;
    match job.n {
        1 => Ok(Outcome::Completed),
        2 => Ok(Outcome::Snooze { after: seconds(5) }),
        _ => Err("cannot pay".into()),
    }
}

#[tokio::test]
async fn effects_are_there_with_the_outcome() {
    let (probe, _clock) = Probe::new();
    let id = send(&probe, 1).await;
    Worker::new(&probe)
        .handle(then_ship)
        .run_until_idle()
        .await
        .unwrap();
    assert_eq!(probe.job(id).await.state, JobState::Completed);
    assert_enqueued::<Ship>(&probe, |ship| ship.order == 1).await;
    let settles = probe.settles();
    assert_eq!(settles.len(), 1);
    let [Effect::Enqueue(follow_up)] = &settles[0].leases[0].settlements[0].effects[..] else {
        panic!("one follow-up: {:?}", settles[0]);
    };
    let parent = (PARENT_HEADER.to_owned(), id.to_string());
    assert_eq!(follow_up.headers, [parent]);
    assert_eq!(probe.calls("enqueue"), 1, "not sent by a call of its own");
}

#[tokio::test]
async fn an_attempt_that_fails_brings_nothing_about() {
    let (probe, _clock) = Probe::new();
    send(&probe, 3).await;
    Worker::new(&probe)
        .handle(then_ship)
        .run_until_idle()
        .await
        .unwrap();
    refute_enqueued::<Ship>(&probe, |_| true).await;
}

#[tokio::test]
async fn an_effect_of_a_lost_lease_is_not_there() {
    let (probe, clock) = Probe::new();
    let id = send(&probe, 1).await;
    let engine = probe.clone();
    Worker::new(&probe)
        .handle(move |_: Ping, ctx: Context| {
            let (engine, clock) = (engine.clone(), clock.clone());
            async move {
                if ctx.attempt() == 1 {
                    ctx.then(NewJob::of(&Ship { order: 1 })?)?;
                    leases_run_out(&engine, &clock).await;
                }
                done()
            }
        })
        .run_until_idle()
        .await
        .unwrap();
    let job = probe.job(id).await;
    assert_eq!(
        (job.state, job.attempt, job.crashes),
        (JobState::Completed, 2, 1)
    );
    refute_enqueued::<Ship>(&probe, |_| true).await;
}

#[tokio::test]
async fn the_last_name_that_is_cleared_starts_a_held_job() {
    let (probe, _clock) = Probe::new();
    let queue = Queue::new(&probe);
    let report = NewJob::of(&ping(100))
        .unwrap()
        .wait_for(["1", "2"])
        .retention(days(1));
    let report = queue.enqueue_job(report).await.unwrap().id;
    let parts = [send(&probe, 1).await, send(&probe, 2).await];
    Worker::new(&probe)
        .concurrency(1)
        .state(report)
        .handle(
            |job: Ping,
             ctx: Context,
             punctual::worker::State(report): punctual::worker::State<JobId>| async move {
                if job.n < 100 {
                    ctx.clear(report, job.n.to_string())?;
                }
                done()
            },
        )
        .run_until_idle()
        .await
        .unwrap();
    assert_eq!(probe.job(report).await.state, JobState::Completed);
    assert_eq!(probe.job(parts[1]).await.state, JobState::Completed);
}

#[tokio::test]
async fn an_effect_that_cannot_be_sent_is_refused_in_the_handler() {
    let (probe, _clock) = Probe::new();
    let id = send(&probe, 1).await;
    Worker::new(&probe)
        .handle(|_: Ping, ctx: Context| async move {
            let bad = ctx.then(NewJob::new("no spaces", "{}")).unwrap_err();
            assert_eq!(bad.kind(), ErrorKind::InvalidName);
            for _ in 0..64 {
                ctx.then(NewJob::new("shipping", "{}"))?;
            }
            let many = ctx.then(NewJob::new("shipping", "{}")).unwrap_err();
            assert_eq!(many.kind(), ErrorKind::BatchTooLarge);
            done()
        })
        .run_until_idle()
        .await
        .unwrap();
    assert_eq!(probe.job(id).await.state, JobState::Completed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn progress_goes_with_the_heartbeat() {
    let (probe, _clock) = Probe::new();
    let id = send(&probe, 1).await;
    let finish = Arc::new(tokio::sync::Notify::new());
    let finishing = finish.clone();
    let worker =
        Worker::new(&probe)
            .lease_duration(seconds(2))
            .handle(move |_: Ping, ctx: Context| {
                let finish = finishing.clone();
                async move {
                    ctx.progress("half way")?;
                    finish.notified().await;
                    done()
                }
            });
    // The first beat does not arrive: the note goes with the next one.
    probe.fail("extend", [Fault::Lost(ErrorKind::EngineUnavailable)]);
    let running = background(&worker);
    let job = until(&probe, id, |job| job.progress.is_some()).await;
    assert_eq!(job.progress.as_deref(), Some(&b"half way"[..]));
    assert!(probe.calls("extend") >= 2);
    assert_eq!(job.attempt, 1, "the note is that of the first beat");
    finish.notify_one();
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn log_lines_go_with_the_heartbeat_and_the_outcome() {
    let (probe, _clock) = Probe::new();
    let sent = Queue::new(&probe).enqueue(ping(1)).retention(days(1));
    let id = sent.await.unwrap().id;
    let finish = Arc::new(tokio::sync::Notify::new());
    let finishing = finish.clone();
    let worker =
        Worker::new(&probe)
            .lease_duration(seconds(2))
            .handle(move |_: Ping, ctx: Context| {
                let finish = finishing.clone();
                async move {
                    ctx.log("one\ntwo");
                    finish.notified().await;
                    ctx.log("three");
                    done()
                }
            });
    let running = background(&worker);
    let texts = |job: &punctual::JobRecord| -> Vec<String> {
        job.log.iter().map(|line| line.text.clone()).collect()
    };
    let job = until(&probe, id, |job| !job.log.is_empty()).await;
    assert_eq!(texts(&job), ["one", "two"]);
    finish.notify_one();
    let job = settled(&probe, id).await;
    // The answer to the heartbeat may still be on its way: then its lines are sent again.
    let logged = texts(&job);
    assert_eq!(logged[..2], ["one", "two"]);
    assert_eq!(logged.last().map(String::as_str), Some("three"));
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_effects_are_settled_by_as_many_calls_as_they_need() {
    let clock = punctual::time::ManualClock::default();
    let mut probe = Probe::on(clock);
    probe.settle_gate = Some(tokio::sync::Semaphore::new(0));
    let probe = Arc::new(probe);
    let limits = probe.info().await.unwrap().limits;
    let (jobs, parts) = (24, 5);
    let mut ids = Vec::new();
    for n in 0..jobs {
        ids.push(send(&probe, n).await);
    }
    let part = limits.payload_bytes;
    let worker = Worker::new(&probe).handle(move |job: Ping, ctx: Context| async move {
        // The first one sends all that one attempt may.
        let parts = if job.n == 0 {
            limits.batch_bytes / part
        } else {
            parts
        };
        for _ in 0..parts {
            ctx.then(NewJob::new("parts", vec![b'.'; part]))?;
        }
        ctx.result("sent")?;
        done()
    });
    let health = worker.health();
    let running = background(&worker);
    // All have ended before the first outcome is answered.
    soon(async {
        while probe.settles().is_empty() || health.busy() > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    probe.settle_gate.as_ref().unwrap().add_permits(1_000);
    for id in &ids {
        let job = settled(&probe, *id).await;
        assert_eq!(
            (job.state, job.attempt, job.failures),
            (JobState::Completed, 1, 0)
        );
    }
    running.stop().await;
    for settle in probe.settles() {
        let settlements = settle.leases.iter().flat_map(|lease| &lease.settlements);
        let effects: usize = settlements.map(|one| one.effects.len()).sum();
        assert!(effects * part <= limits.batch_bytes, "{effects} effects");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_note_of_an_attempt_is_there_for_the_next() {
    let (probe, clock) = Probe::new();
    let policy = punctual::RetryPolicy::fixed(seconds(1));
    let queue = Queue::new(&probe);
    let failing = queue.enqueue(ping(1)).retry(policy).retention(days(1));
    let failing = failing.await.unwrap().id;
    let worker = Worker::new(&probe).handle(|_: Ping, ctx: Context| async move {
        let found = ctx.job().progress.clone().unwrap_or_default();
        ctx.progress([&found[..], b"."].concat())?;
        match ctx.attempt() {
            1 => Err("in the middle".into()),
            2 => Ok(Outcome::Snooze { after: seconds(1) }),
            _ => HandlerResult::Ok(Outcome::Completed),
        }
    });
    for notes in 1..=3 {
        // The first try of the note's call is lost, and the outcome waits for the second.
        probe.fail("extend", [Fault::Lost(ErrorKind::EngineUnavailable)]);
        worker.run_until_idle().await.unwrap();
        let job = probe.job(failing).await;
        assert_eq!((job.attempt, job.crashes), (notes, 0));
        assert_eq!(job.progress.unwrap().len(), notes as usize);
        clock.advance(seconds(2));
    }
    assert_eq!(probe.job(failing).await.state, JobState::Completed);
    assert_eq!(probe.calls("extend"), 6, "two per note");
}
