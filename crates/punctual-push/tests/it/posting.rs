//! What `serve` does unasked: every pushed queue, and callbacks.

use std::sync::Arc;

use punctual::engine::{Claim, LeaseReport, Settle, Settlement, StatsRequest, WorkerId};
use punctual::time::{days, seconds, within};
use punctual::{Engine, JobState, Namespace, NewJob, Outcome, RetryPolicy, Worker, push};
use punctual_push::{Guard, Posting, PushWakeup, Pusher};
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::support::{Server, Under, job, jobs};

/// A posting at work, and its end.
struct Running {
    stop: oneshot::Sender<()>,
    run: JoinHandle<()>,
}

impl Running {
    fn start(engine: &Arc<dyn Engine>, pusher: Pusher, push_wakeup: &PushWakeup) -> Self {
        let (stop, stopped) = oneshot::channel::<()>();
        let posting = Posting::new(engine.clone(), Namespace::default(), pusher);
        let run = tokio::spawn(posting.push_wakeup(push_wakeup.clone()).run_until(async {
            let _ = stopped.await;
        }));
        Self { stop, run }
    }

    async fn end(self) {
        self.stop.send(()).expect("it runs");
        let ended = within(seconds(30), self.run).await;
        ended.expect("it ends in time").expect("no panic");
    }
}

#[tokio::test]
async fn queues_are_found_at_the_start_by_wakeups_and_by_polls() {
    let server = Server::start(204).await;
    // The clock stands still: what was delayed would not come back.
    let under = Under::new(server.guard()).with(|pusher| pusher.per_host(1_000));
    let push_wakeup = PushWakeup::default();
    under.enqueue(&server.url()).await;
    let running = Running::start(&under.engine, under.pusher.clone(), &push_wakeup);
    server.until_seen(1).await;
    // More queues than one claim may name, each new to it.
    for nth in 0..150 {
        let mut job = job(&server.url());
        job.queue = format!("http:queue-{nth}");
        push_wakeup.notify(&Namespace::default(), &job.queue);
        under.send(job).await;
    }
    server.until_seen(151).await;
    // No wakeup comes for this one.
    let mut silent = job(&server.url());
    silent.queue = "http:silent".into();
    under.send(silent).await;
    server.until_seen(152).await;
    running.end().await;
    assert_eq!(server.seen().len(), 152);
}

#[tokio::test]
async fn the_first_callback_and_the_first_alert_wait_for_no_poll() {
    let server = Server::start(204).await;
    let under = Under::new(server.guard());
    let posting = Posting::new(
        under.engine.clone(),
        Namespace::default(),
        under.pusher.clone(),
    );
    let running = tokio::spawn(
        posting
            .poll_every(days(1))
            .run_until(std::future::pending()),
    );
    for (nth, queue) in [push::CALLBACK_QUEUE, push::ALERT_QUEUE]
        .into_iter()
        .enumerate()
    {
        let mut silent = job(&server.url());
        silent.queue = queue.into();
        under.send(silent).await;
        server.until_seen(nth + 1).await;
    }
    running.abort();
}

#[tokio::test]
async fn a_queue_that_was_never_used_is_not_listed() {
    let server = Server::start(204).await;
    let under = Under::new(server.guard());
    let names = async || -> Vec<String> {
        let namespace = Namespace::default();
        let stats = under
            .engine
            .stats(&namespace, StatsRequest::default())
            .await;
        let queues = stats.expect("an answer").queues;
        queues.into_iter().map(|queue| queue.queue).collect()
    };
    under.enqueue(&server.url()).await;
    let used = names().await;
    let running = Running::start(&under.engine, under.pusher.clone(), &PushWakeup::default());
    server.until_seen(1).await;
    running.end().await;
    assert_eq!(names().await, used);
}

#[tokio::test]
async fn a_job_of_another_namespace_is_left_alone() {
    let server = Server::start(204).await;
    let under = Under::new(server.guard());
    let other = Namespace::new("other").expect("a name");
    let theirs = job(&server.url());
    let id = theirs.id;
    let sent = under.engine.enqueue(&other, vec![theirs]).await;
    sent.expect("taken");
    under.enqueue(&server.url()).await;
    let running = Running::start(&under.engine, under.pusher.clone(), &PushWakeup::default());
    server.until_seen(1).await;
    running.end().await;
    let got = under.engine.get(&other, vec![id.into()], false).await;
    let got = got.expect("an answer").remove(0).expect("it is there");
    assert_eq!(got.state(), JobState::Ready);
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn the_end_of_a_job_is_posted_once_by_any_worker() {
    let server = Server::start(204).await;
    let under = Under::new(server.guard());
    let mut asking = NewJob::new("reports", "{}")
        .max_attempts(2)
        .retry(RetryPolicy::fixed(seconds(10)));
    push::set(&mut asking, push::CALLBACK, &server.url());
    let id = under.send(asking).await;
    let worker = Worker::new(under.engine.clone())
        .queues(["reports"])
        .handle_any(|_, _| async { Err::<(), _>("no paper") });
    worker.run_until_idle().await.expect("it works");
    assert!(jobs(&under.engine, push::CALLBACK_QUEUE).await.is_empty());
    under.clock.advance(seconds(11));
    worker.run_until_idle().await.expect("it works");
    assert_eq!(under.get(id).await.state, JobState::Dead);
    assert_eq!(jobs(&under.engine, push::CALLBACK_QUEUE).await.len(), 1);

    let running = Running::start(&under.engine, under.pusher.clone(), &PushWakeup::default());
    server.until_seen(1).await;
    running.end().await;
    let seen = server.seen();
    assert_eq!(seen.len(), 1);
    let posted: Value = serde_json::from_slice(&seen[0].body).expect("JSON");
    assert_eq!(posted["id"], id.to_string());
    assert_eq!(posted["state"], "dead");
    assert_eq!(posted["failures"], 2);
    assert_eq!(posted["error"], "no paper");
    assert_eq!(seen[0].header("punctual-kind"), "callback");
}

#[tokio::test]
async fn the_outcome_of_a_delivery_is_posted_too() {
    let server = Server::start(200).await;
    let under = Under::new(server.guard());
    let mut both = job(&server.url());
    push::set(&mut both, push::CALLBACK, &server.url());
    under.send(both).await;
    let running = Running::start(&under.engine, under.pusher.clone(), &PushWakeup::default());
    server.until_seen(2).await;
    running.end().await;
    let kinds: Vec<String> = (server.seen().iter())
        .map(|seen| seen.header("punctual-kind").to_owned())
        .collect();
    assert_eq!(kinds, ["mail", "callback"]);
}

#[tokio::test]
async fn a_settle_sent_twice_brings_about_one_callback() {
    let under = Under::new(Guard::new());
    let mut asking = NewJob::new("reports", "{}");
    push::set(&mut asking, push::CALLBACK, "https://example.com/done");
    under.send(asking).await;
    let claim = Claim::new(WorkerId::random(), "reports", 1);
    let space = Namespace::default();
    let claimed = under.engine.claim(&space, claim).await.expect("a lease");
    let (lease, job) = (&claimed.leases[0], &claimed.leases[0].jobs[0]);
    let mut settlement = Settlement::new(job.id, job.attempt, Outcome::Completed);
    let callback = push::callback(job, &settlement).expect("it asked for one");
    settlement.effects = vec![punctual::Effect::Enqueue(Box::new(callback))];
    for _ in 0..3 {
        let settle = Settle::new(vec![LeaseReport::new(
            lease.token,
            vec![settlement.clone()],
        )]);
        under
            .engine
            .settle(&space, settle)
            .await
            .expect("an answer");
    }
    assert_eq!(jobs(&under.engine, push::CALLBACK_QUEUE).await.len(), 1);
}
