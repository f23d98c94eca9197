//! The same work on Punctual: delayed jobs and workers, on Redis.

use std::future::pending;
use std::sync::Arc;

use punctual::schedule::Missed;
use punctual::time::{millis, pause, seconds};
use punctual::worker::Shutdown;
use punctual::{Context, Job, NewJob, Outcome, Queue, Worker};
use punctual_redis::RedisEngine;
use punctual_redis::testing::{TestProxy, TestServer, Weather};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::ledger::Ledger;

#[derive(Debug, Serialize, Deserialize)]
struct Message {
    id: u32,
}

impl Job for Message {
    const KIND: &str = "message";
}

async fn connect(address: &str) -> RedisEngine {
    let options = address.parse().expect("an address");
    RedisEngine::connect(options)
        .await
        .expect("the server answers")
}

/// Sends and works until all is over; by a schedule if `by_schedule`.
pub(crate) async fn run(server: &TestServer, ledger: &Arc<Ledger>, by_schedule: bool) {
    let proxy = TestProxy::to(server.port()).await;
    let queue = Queue::new(connect(&server.address()).await);
    let mut workers = JoinSet::new();
    for _ in 0..ledger.work.workers {
        workers.spawn(process(proxy.address(), ledger.clone(), queue.clone()));
    }
    match by_schedule {
        true => schedule(&queue, ledger).await,
        false => send(&queue, ledger, &proxy).await,
    }
    ledger.is_over().await;
}

async fn send(queue: &Queue, ledger: &Ledger, proxy: &TestProxy) {
    let work = &ledger.work;
    if work.is_delayed {
        let jobs = (0..work.messages).map(|id| {
            ledger.sends(id, work.due(id));
            NewJob::of(&Message { id }).map(|job| job.delay(work.due(id)))
        });
        let jobs: Vec<NewJob> = jobs
            .collect::<punctual::Result<_>>()
            .expect("they are small");
        queue.enqueue_many(jobs).await.expect("they are stored");
        return;
    }
    for id in 0..work.messages {
        pause(work.within / work.messages).await;
        if work.cuts(id) {
            proxy.set_weather(Weather::NoReplies);
        }
        ledger.sends(id, millis(0));
        queue.enqueue(Message { id }).await.expect("it is stored");
        if work.cuts(id) {
            pause(millis(100)).await;
            proxy.set_weather(Weather::Fair);
        }
    }
}

/// The messages are the runs of a schedule.
async fn schedule(queue: &Queue, ledger: &Ledger) {
    let work = &ledger.work;
    let now = queue.engine().info().await.expect("the server answers").now;
    let instants = (0..work.messages).map(|id| {
        ledger.sends(id, work.due(id) + seconds(1));
        now + work.due(id) + seconds(1)
    });
    let beat = queue.schedule("beat").at(instants.collect::<Vec<_>>());
    let beat = beat
        .missed(Missed::All { max: 100 })
        .overlap(punctual::schedule::Overlap::Allow);
    beat.enqueue(Message { id: 0 }).await.expect("it is stored");
}

/// One process after the other: each dies with the message that kills it, and another one starts.
async fn process(address: String, ledger: Arc<Ledger>, queue: Queue) {
    loop {
        let death = Arc::new(Notify::new());
        let worker = Worker::new(connect(&address).await)
            .concurrency(1)
            .lease_duration(seconds(2))
            .handle({
                let (ledger, death, queue) = (ledger.clone(), death.clone(), queue.clone());
                move |message: Message, ctx: Context| {
                    let (ledger, death, queue) = (ledger.clone(), death.clone(), queue.clone());
                    async move {
                        let id = id_of(&message, &ctx, &queue).await;
                        if !ledger.works(id).await {
                            death.notify_one();
                            pending::<()>().await;
                        }
                        Outcome::Completed
                    }
                }
            });
        let running = worker.run_until(Shutdown::new(pending(), pending()));
        tokio::select! {
            ended = running => ended.expect("it runs until it dies"),
            () = death.notified() => {}
        }
        pause(millis(100)).await; // a process takes time to start
    }
}

/// Of a run its place among the instants.
async fn id_of(message: &Message, ctx: &Context, queue: &Queue) -> u32 {
    let Some(run) = &ctx.job().schedule else {
        return message.id;
    };
    let schedules = queue.schedules();
    let status = schedules.get("beat").await.ok().flatten();
    let instants = status
        .map(|status| status.schedule.spec.at)
        .unwrap_or_default();
    instants
        .iter()
        .position(|at| *at == run.at)
        .unwrap_or_default() as u32
}
