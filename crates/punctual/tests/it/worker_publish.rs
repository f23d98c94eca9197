//! Publishing from handlers: with the outcome, under one version, and never in a loop.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use punctual::engine::{Engine, StatsRequest};
use punctual::job::PARENT_HEADER;
use punctual::topic::{DEPTH_HEADER, PUBLISHES_MAX, SUBJECT_HEADER, Subscription};
use punctual::worker::HandlerResult;
use punctual::{Context, Effect, Job, JobId, JobState, NewJob, Outcome, Queue, Worker};
use serde::{Deserialize, Serialize};

use crate::support::*;

#[derive(Serialize, Deserialize)]
struct Paid {
    order: u32,
}

impl Job for Paid {
    const KIND: &str = "paid";
}

async fn publishes(job: Ping, ctx: Context) -> HandlerResult {
    ctx.publish("orders.eu.paid", Paid { order: job.n })?;
    match job.n {
        3 => Err("cannot pay".into()),
        _ => Ok(Outcome::Completed),
    }
}

async fn subscribe(probe: &Arc<Probe>, pattern: &str, to: &str) {
    let subscription = Subscription::to(to).name(to);
    let topics = Queue::new(probe.clone()).topics();
    topics.subscribe(pattern, subscription).await.unwrap();
}

#[tokio::test]
async fn copies_are_there_with_the_outcome() {
    let (probe, _clock) = Probe::new();
    subscribe(&probe, "orders.*.paid", "mail").await;
    subscribe(&probe, "orders.>", "audit").await;
    let id = send(&probe, 1).await;
    let worker = Worker::new(&probe).handle(publishes);
    worker.run_until_idle().await.unwrap();
    assert_eq!(probe.job(id).await.state, JobState::Completed);
    let settles = probe.settles();
    let settlement = &settles[0].leases[0].settlements[0];
    assert_eq!((settles.len(), settlement.effects.len()), (1, 2));
    assert!(
        settlement
            .guard
            .as_ref()
            .is_some_and(|guard| guard.version > 0)
    );
    let Effect::Enqueue(copy) = &settlement.effects[1] else {
        panic!("a copy: {settlement:?}");
    };
    assert_eq!(
        (&*copy.queue, &*copy.kind),
        ("mail", "paid"),
        "its kind is that of the type"
    );
    for (name, value) in [
        (PARENT_HEADER, id.to_string()),
        (SUBJECT_HEADER, "orders.eu.paid".into()),
        (DEPTH_HEADER, "1".into()),
    ] {
        assert!(
            copy.headers.contains(&(name.into(), value)),
            "{:?}",
            copy.headers
        );
    }
    assert_eq!(
        (all_of(&probe, "mail").await, all_of(&probe, "audit").await),
        (1, 1)
    );
}

#[tokio::test]
async fn an_attempt_that_fails_publishes_nothing() {
    let (probe, _clock) = Probe::new();
    subscribe(&probe, "orders.>", "audit").await;
    send(&probe, 3).await;
    let worker = Worker::new(&probe).handle(publishes);
    worker.run_until_idle().await.unwrap();
    assert_eq!(all_of(&probe, "audit").await, 0);
}

#[tokio::test]
async fn a_settle_that_met_other_subscriptions_is_matched_again() {
    let (probe, _clock) = Probe::new();
    subscribe(&probe, "orders.>", "audit").await;
    let (first, second) = (send(&probe, 1).await, send(&probe, 2).await);
    let subscriber = probe.clone();
    let late = move |job: Ping, ctx: Context| {
        let probe = subscriber.clone();
        async move {
            ctx.publish("orders.eu.paid", Paid { order: job.n })?;
            if job.n == 2 {
                subscribe(&probe, "orders.*.paid", "mail").await;
            }
            done()
        }
    };
    let worker = Worker::new(&probe).concurrency(1).handle(late);
    worker.run_until_idle().await.unwrap();
    for id in [first, second] {
        assert_eq!(probe.job(id).await.state, JobState::Completed);
    }
    let queues = [all_of(&probe, "audit").await, all_of(&probe, "mail").await];
    assert_eq!(queues[0], 2);
    assert!(
        queues[1] >= 1,
        "the second met both subscriptions: {queues:?}"
    );
}

async fn all_of(probe: &Arc<Probe>, queue: &str) -> u64 {
    let asked = StatsRequest::default();
    let stats = probe.stats(&Default::default(), asked).await.unwrap();
    let of = stats.queues.iter().find(|stats| stats.queue == queue);
    of.map_or(0, |stats| stats.counts.pending())
}

#[tokio::test]
async fn a_handler_that_sees_the_request_is_stopped() {
    let (probe, _clock) = Probe::new();
    subscribe(&probe, "echo", "pings").await;
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = runs.clone();
    let echo = move |job: Ping, ctx: Context| {
        let runs = counted.clone();
        async move {
            runs.fetch_add(1, Ordering::Relaxed);
            ctx.publish("echo", ping(job.n))?;
            done()
        }
    };
    let sent = NewJob::of(&ping(1)).unwrap().max_attempts(1);
    let published = Queue::new(probe.clone()).publish_job("echo", sent).await;
    assert_eq!(published.unwrap().matched, 1);
    let worker = Worker::new(&probe).handle(echo);
    worker.run_until_idle().await.unwrap();
    assert_eq!(runs.load(Ordering::Relaxed), PUBLISHES_MAX as usize);
}

#[tokio::test]
async fn a_message_that_is_published_again_is_known() {
    let (probe, _clock) = Probe::new();
    subscribe(&probe, "a", "mail").await;
    let queue = Queue::new(probe.clone());
    let id = JobId::new();
    let publish = || queue.publish("a", Paid { order: 7 }).id(id);
    let (first, again) = (publish().await.unwrap(), publish().await.unwrap());
    assert_eq!(first.copies[0].id, again.copies[0].id);
    assert_eq!(
        again.copies[0].verdict.map(|verdict| verdict.name()),
        Some("duplicate")
    );
}
