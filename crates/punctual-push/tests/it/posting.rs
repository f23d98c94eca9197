//! What `serve` does unasked: every pushed queue, callbacks, alerts.

use std::sync::Arc;

use punctual::engine::{
    Claim, List, ListBy, PageReport, Settle, Settlement, StatsRequest, WorkerId,
};
use punctual::time::{days, minutes, seconds, within};
use punctual::{Engine, JobRecord, Namespace, NewJob, Outcome, RetryPolicy, State, Worker, push};
use punctual_push::{AlertRules, Alerts, Doorbell, Guard, Posting, Pusher};
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::support::{Server, Under, job};

/// A posting at work, and its end.
struct Running {
    stop: oneshot::Sender<()>,
    run: JoinHandle<()>,
}

impl Running {
    fn start(engine: &Arc<dyn Engine>, pusher: Pusher, doorbell: &Doorbell) -> Self {
        let (stop, stopped) = oneshot::channel::<()>();
        let posting = Posting::new(engine.clone(), Namespace::default(), pusher);
        let run = tokio::spawn(posting.doorbell(doorbell.clone()).run_until(async {
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

/// Jobs of a queue, in any state.
async fn jobs(engine: &Arc<dyn Engine>, queue: &str) -> Vec<JobRecord> {
    let mut found = Vec::new();
    for state in State::ALL {
        let list = List {
            by: ListBy::State {
                queue: queue.to_owned(),
                state,
            },
            filter: Default::default(),
            cursor: None,
            limit: 100,
            payloads: true,
        };
        let listing = engine.list(&Namespace::default(), list).await;
        found.extend(listing.expect("an answer").jobs);
    }
    found
}

#[tokio::test]
async fn queues_are_found_at_the_start_by_the_bell_and_by_looking() {
    let server = Server::start(204).await;
    // The clock stands still: what was put off would not come back.
    let under = Under::new(server.guard()).with(|pusher| pusher.per_host(1_000));
    let doorbell = Doorbell::default();
    under.enqueue(&server.url()).await;
    let running = Running::start(&under.engine, under.pusher.clone(), &doorbell);
    server.until_seen(1).await;
    // More queues than one claim may name, each new to it.
    for nth in 0..150 {
        let mut job = job(&server.url());
        job.queue = format!("http:queue-{nth}");
        doorbell.ring(&Namespace::default(), &job.queue);
        under.send(job).await;
    }
    server.until_seen(151).await;
    // Nobody rings for this one.
    let mut silent = job(&server.url());
    silent.queue = "http:silent".into();
    under.send(silent).await;
    server.until_seen(152).await;
    running.end().await;
    assert_eq!(server.seen().len(), 152);
}

#[tokio::test]
async fn the_first_callback_and_the_first_alert_wait_for_no_look() {
    let server = Server::start(204).await;
    let under = Under::new(server.guard());
    let posting = Posting::new(
        under.engine.clone(),
        Namespace::default(),
        under.pusher.clone(),
    );
    let running = tokio::spawn(
        posting
            .look_every(days(1))
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
    let running = Running::start(&under.engine, under.pusher.clone(), &Doorbell::default());
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
    let running = Running::start(&under.engine, under.pusher.clone(), &Doorbell::default());
    server.until_seen(1).await;
    running.end().await;
    let got = under.engine.get(&other, vec![id.into()], false).await;
    let got = got.expect("an answer").remove(0).expect("it is there");
    assert_eq!(got.state(), State::Ready);
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn the_end_of_a_job_is_told_once_whoever_ran_it() {
    let server = Server::start(204).await;
    let under = Under::new(server.guard());
    let mut asking = NewJob {
        max_attempts: 2,
        retry: RetryPolicy::fixed(seconds(10)),
        ..NewJob::new("reports", "{}")
    };
    push::set(&mut asking, push::CALLBACK, &server.url());
    let id = under.send(asking).await;
    let worker = Worker::new(under.engine.clone())
        .queues(["reports"])
        .handle_any(|_, _| async { Err::<(), _>("no paper") });
    worker.run_until_idle().await.expect("it works");
    assert!(jobs(&under.engine, push::CALLBACK_QUEUE).await.is_empty());
    under.clock.advance(seconds(11));
    worker.run_until_idle().await.expect("it works");
    assert_eq!(under.get(id).await.state, State::Dead);
    assert_eq!(jobs(&under.engine, push::CALLBACK_QUEUE).await.len(), 1);

    let running = Running::start(&under.engine, under.pusher.clone(), &Doorbell::default());
    server.until_seen(1).await;
    running.end().await;
    let seen = server.seen();
    assert_eq!(seen.len(), 1);
    let told: Value = serde_json::from_slice(&seen[0].body).expect("JSON");
    assert_eq!(told["id"], id.to_string());
    assert_eq!(told["state"], "dead");
    assert_eq!(told["failures"], 2);
    assert_eq!(told["error"], "no paper");
    assert_eq!(seen[0].header("punctual-kind"), "callback");
}

#[tokio::test]
async fn the_outcome_of_a_delivery_is_told_too() {
    let server = Server::start(200).await;
    let under = Under::new(server.guard());
    let mut both = job(&server.url());
    push::set(&mut both, push::CALLBACK, &server.url());
    under.send(both).await;
    let running = Running::start(&under.engine, under.pusher.clone(), &Doorbell::default());
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
    let claimed = under.engine.claim(&space, claim).await.expect("a page");
    let (page, job) = (&claimed.pages[0], &claimed.pages[0].jobs[0]);
    let mut settlement = Settlement::new(job.id, job.attempt, Outcome::Completed);
    let callback = push::callback(job, &settlement).expect("it asked for one");
    settlement.effects = vec![punctual::Effect::Enqueue(Box::new(callback))];
    for _ in 0..3 {
        let settle = Settle {
            pages: vec![PageReport::new(page.token, vec![settlement.clone()])],
        };
        under
            .engine
            .settle(&space, settle)
            .await
            .expect("an answer");
    }
    assert_eq!(jobs(&under.engine, push::CALLBACK_QUEUE).await.len(), 1);
}

/// An engine with a late queue, and one that watches it.
fn watched() -> (Under, impl Fn() -> Alerts) {
    let under = Under::new(Guard::new());
    let engine = under.engine.clone();
    let watch = move || {
        let home = Namespace::default();
        let url = "https://example.com/alerts";
        let watched = vec![home.clone()];
        Alerts::new(engine.clone(), home, watched, url, AlertRules::default())
    };
    (under, watch)
}

/// What was told: rule, state and queue of every alert that is not held.
async fn told(engine: &Arc<dyn Engine>) -> Vec<String> {
    let found = jobs(engine, push::ALERT_QUEUE).await;
    let mut told: Vec<String> = (found.iter())
        .filter(|job| job.state != State::Held)
        .map(|job| {
            let said: Value = serde_json::from_slice(&job.payload).expect("JSON");
            let word = |name: &str| said[name].as_str().expect("text").to_owned();
            format!("{} {} {}", word("alert"), word("state"), word("queue"))
        })
        .collect();
    told.sort();
    told
}

#[tokio::test]
async fn a_late_queue_is_told_once_and_once_more_when_it_is_over() {
    let (under, watch) = watched();
    let id = under.send(NewJob::new("mail", "")).await;
    let mut first = watch();
    let mut second = watch();
    // Neither knows of the other: what each finds later, it finds by itself.
    first.look().await.expect("it looks");
    second.look().await.expect("it looks");
    assert!(told(&under.engine).await.is_empty());

    under.clock.advance(minutes(2));
    for _ in 0..3 {
        first.look().await.expect("it looks");
        second.look().await.expect("it looks");
        under.clock.advance(seconds(10));
    }
    let both = ["late firing mail", "no_workers firing mail"];
    assert_eq!(told(&under.engine).await, both);
    // One that was started again finds what was told.
    let mut third = watch();
    third.look().await.expect("it looks");
    assert_eq!(told(&under.engine).await, both);

    let cancel = punctual::engine::Edit {
        select: punctual::engine::Select::Targets(vec![id.into()]),
        action: punctual::engine::Action::Cancel,
        dry_run: false,
    };
    let space = Namespace::default();
    under.engine.edit(&space, cancel).await.expect("cancelled");
    for alerts in [&mut third, &mut first, &mut second] {
        alerts.look().await.expect("it looks");
    }
    let all = [
        "late firing mail",
        "late resolved mail",
        "no_workers firing mail",
        "no_workers resolved mail",
    ];
    assert_eq!(told(&under.engine).await, all);
}

#[tokio::test]
async fn dead_letters_are_told_and_a_paused_queue_is_not_late() {
    let (under, watch) = watched();
    let mut alerts = watch();
    let mut doomed = NewJob::new("mail", "");
    doomed.max_attempts = 1;
    under.send(doomed).await;
    let worker = Worker::new(under.engine.clone())
        .queues(["mail"])
        .handle_any(|_, _| async { Err::<(), _>("broken") });
    worker.run_until_idle().await.expect("it works");
    let pause = punctual::engine::Control::Pause {
        queue: "reports".into(),
    };
    let space = Namespace::default();
    under.engine.control(&space, pause).await.expect("paused");
    under.send(NewJob::new("reports", "")).await;
    under.clock.advance(minutes(5));
    alerts.look().await.expect("it looks");
    assert_eq!(told(&under.engine).await, ["dead firing mail"]);
}

#[tokio::test]
async fn an_alert_that_cannot_be_posted_brings_about_no_other() {
    let (under, watch) = watched();
    let mut alerts = watch();
    under.send(NewJob::new("mail", "")).await;
    for _ in 0..20 {
        under.clock.advance(minutes(10));
        alerts.look().await.expect("it looks");
    }
    assert_eq!(told(&under.engine).await.len(), 2);
}
