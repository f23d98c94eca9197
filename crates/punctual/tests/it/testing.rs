//! The helpers for users' own tests.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use punctual::testing::{advance, assert_enqueued, drain, refute_enqueued};
use punctual::time::{Clock, days, hours, minutes};
use punctual::worker::HandlerResult;
use punctual::{Context, JobState, NewJob, Outcome, Queue, RetryPolicy, Worker};
use tokio::sync::mpsc;

use crate::support::*;

#[tokio::test]
async fn thirty_days_and_five_retries_pass_at_their_instants() {
    let (probe, clock) = Probe::new();
    let (seen, mut instants) = mpsc::unbounded_channel();
    let start = clock.now();
    let watch = clock.clone();
    let worker = Worker::new(&probe).handle(move |_: Ping, ctx: Context| {
        seen.send(watch.now() - start).unwrap();
        async move {
            let result: HandlerResult = match ctx.failures() {
                0..5 => Err("mail server is down".into()),
                _ => Ok(Outcome::Completed),
            };
            result
        }
    });
    let policy = RetryPolicy::fixed(hours(1));
    let queue = Queue::new(&probe);
    queue
        .enqueue(ping(1))
        .delay(days(30))
        .retry(policy)
        .await
        .unwrap();
    advance(&clock, &worker, days(31)).await.unwrap();
    let mut hours_after = Vec::new();
    while let Ok(instant) = instants.try_recv() {
        hours_after.push((instant - days(30)).as_secs() / 3_600);
    }
    assert_eq!(hours_after, [0, 1, 2, 3, 4, 5]);
    assert_eq!(clock.now(), start + days(31));
}

#[tokio::test]
async fn a_drain_runs_what_is_due_and_what_that_brings() {
    let (probe, clock) = Probe::new();
    let count = Arc::new(AtomicU32::new(0));
    let counter = count.clone();
    let worker = Worker::new(&probe).handle(move |job: Ping, ctx: Context| {
        counter.fetch_add(1, Ordering::SeqCst);
        async move {
            if job.n > 0 {
                ctx.then(NewJob::of(&ping(job.n - 1))?)?;
            }
            done()
        }
    });
    send(&probe, 9).await;
    Queue::new(&probe)
        .enqueue(ping(0))
        .delay(minutes(5))
        .await
        .unwrap();
    let next = drain(&worker).await.unwrap();
    assert_eq!(count.load(Ordering::SeqCst), 10);
    assert_eq!(next, Some(clock.now() + minutes(5)));
}

#[tokio::test]
async fn a_paused_queue_does_not_keep_a_drain_from_its_end() {
    use punctual::engine::{Control, Engine};
    let (probe, _clock) = Probe::new();
    let id = send(&probe, 1).await;
    let queue = "pings".to_owned();
    let pause = Control::Pause { queue };
    probe.control(&Default::default(), pause).await.unwrap();
    async fn plain(_: Ping) {}
    soon(drain(&Worker::new(&probe).handle(plain)))
        .await
        .unwrap();
    assert_eq!(probe.job(id).await.state, JobState::Ready);
}

#[tokio::test]
async fn what_was_enqueued_is_found_by_its_payload() {
    let (probe, clock) = Probe::new();
    let sent = Queue::new(&probe).enqueue(ping(7)).delay(days(3));
    let id = sent.await.unwrap().id;
    let job = assert_enqueued::<Ping>(&probe, |job| job.n == 7).await;
    assert_eq!(job.id, id);
    assert_eq!(job.due, clock.now() + days(3));
    refute_enqueued::<Ping>(&probe, |job| job.n == 8).await;
}

#[tokio::test]
#[should_panic(expected = r#"scheduled due 2026-09-21T14:14:20Z {\"n\":7}"#)]
async fn what_was_not_enqueued_shows_what_was() {
    let (probe, _clock) = Probe::new();
    let sent = Queue::new(&probe).enqueue(ping(7)).delay(minutes(1));
    sent.await.unwrap();
    assert_enqueued::<Ping>(&probe, |job| job.n == 8).await;
}

#[tokio::test]
#[should_panic(expected = "fit although none should")]
async fn what_should_not_be_there_is_shown() {
    let (probe, _clock) = Probe::new();
    send(&probe, 7).await;
    refute_enqueued::<Ping>(&probe, |job| job.n == 7).await;
}
