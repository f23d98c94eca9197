//! apalis-redis; its poll is its heartbeat.

use std::time::Duration;

use apalis::prelude::*;
use apalis_redis::{Config, RedisStorage};
use punctual_rivals::{Order, Report, address, enqueue, fill, now, order, payload, schedule};

#[tokio::main]
async fn main() {
    let connection = apalis_redis::connect(address()).await.expect("a server");
    let config = Config::default()
        .queue("bench")
        .batch_size(1_000)
        .heartbeat_interval(Duration::from_millis(1))
        .missed_heartbeats(60_000)
        .lock_tasks(false);
    let mut storage: RedisStorage<String, _> = RedisStorage::new(connection).with_config(config);
    match order() {
        Order::Enqueue {
            jobs,
            batch,
            callers,
        } => {
            let call = move |size| {
                let mut storage = storage.clone();
                async move {
                    let jobs = (0..size).map(|_| payload()).collect();
                    storage.push_bulk(jobs).await.expect("an answer");
                }
            };
            enqueue(jobs, batch, callers, call).await;
        }
        Order::Schedule { rate, seconds } => {
            let mut storage = storage.clone();
            schedule(rate, seconds, async |dues| {
                for due in dues {
                    let task = task_at(due.to_string(), due);
                    storage.push_task(task).await.expect("an answer");
                }
            })
            .await;
        }
        Order::Fill { jobs } => {
            fill(jobs, async |delays| {
                for delay in delays {
                    let due = now() + delay.unwrap_or(0);
                    let task = task_at(payload(), due);
                    storage.push_task(task).await.expect("an answer");
                }
            })
            .await;
        }
        Order::Work => {
            let report = Report::start();
            let handler = move |payload: String| {
                report.started(&payload);
                std::future::ready(Ok::<(), BoxDynError>(()))
            };
            let run = WorkerBuilder::new(format!("worker-{}", std::process::id()))
                .backend(storage)
                .concurrency(1_000)
                .build(handler)
                .run()
                .await;
            run.expect("a worker runs on");
        }
        Order::Lives { .. } => unreachable!("lives are ours"),
    }
}

/// It keeps dues in whole seconds.
fn task_at(payload: String, due_us: u64) -> Task<String> {
    TaskBuilder::new(payload)
        .run_at_timestamp(due_us / 1_000_000)
        .build()
}
