//! BullMQ's own Rust crate.

use std::sync::Arc;
use std::time::Duration;

use bullmq::options::{JobOptions, RedisConnectionOptions};
use bullmq::types::RemoveOnFinish;
use bullmq::worker::{CancellationToken, ProcessorFn};
use bullmq::{BulkJob, Job, Queue, QueueOptions, Worker, WorkerOptions};
use punctual_rivals::{Order, Report, address, enqueue, fill, order, payload, schedule, until};

const QUEUE: &str = "bench";

#[tokio::main]
async fn main() {
    let connection = RedisConnectionOptions::new().url(address());
    if let Order::Work = order() {
        return work(connection).await;
    }
    let keep_none = JobOptions::new().remove_on_complete(RemoveOnFinish::Bool(true));
    let options = QueueOptions::new()
        .connection(connection)
        .default_job_options(keep_none);
    let queue = Queue::with_options(QUEUE, options).await.expect("a server");
    let queue = Arc::new(queue);
    let job = |delay: Option<Duration>, payload: String| {
        let mut options = JobOptions::new().remove_on_complete(RemoveOnFinish::Bool(true));
        options.delay = delay.map(|delay| delay.as_millis() as u64);
        BulkJob::with_options("noop", payload, options)
    };
    match order() {
        Order::Enqueue {
            jobs,
            batch,
            callers,
        } => {
            let call = move |size| {
                let queue = queue.clone();
                async move {
                    if size == 1 {
                        queue.add("noop", payload()).await.expect("an answer");
                    } else {
                        let jobs = (0..size).map(|_| job(None, payload())).collect();
                        queue.add_bulk(jobs).await.expect("an answer");
                    }
                }
            };
            enqueue(jobs, batch, callers, call).await;
        }
        Order::Schedule { rate, seconds } => {
            schedule(rate, seconds, async |dues| {
                let jobs = dues
                    .iter()
                    .map(|due| job(Some(until(*due)), due.to_string()));
                queue.add_bulk(jobs.collect()).await.expect("an answer");
            })
            .await;
        }
        Order::Fill { jobs } => {
            fill(jobs, async |delays| {
                let delay = |delay: Option<u64>| delay.map(Duration::from_micros);
                let jobs = delays.into_iter().map(|us| job(delay(us), payload()));
                queue.add_bulk(jobs.collect()).await.expect("an answer");
            })
            .await;
        }
        Order::Work | Order::Lives { .. } => unreachable!("work is done above, lives are ours"),
    }
}

async fn work(connection: RedisConnectionOptions) {
    let report = Report::start();
    let handler: ProcessorFn = Arc::new(move |job: Job, _: CancellationToken| {
        report.started(job.data().as_str().unwrap_or_default());
        Box::pin(async { Ok(serde_json::Value::Null) })
    });
    let options = WorkerOptions::new()
        .connection(connection)
        .concurrency(200)
        .remove_on_complete(RemoveOnFinish::Bool(true));
    let _worker = Worker::with_options(QUEUE, handler, options)
        .await
        .expect("a server");
    std::future::pending::<()>().await;
}
