//! Punctual, by its public `Queue` and `Worker` with every default.

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use punctual::engine::{Claim, LeaseReport, Settle, Settlement, WorkerId};
use punctual::time::Timestamp;
use punctual::{Context, Due, Engine, JobRecord, Namespace, NewJob, Outcome, Queue, Worker};
use punctual_redis::RedisEngine;
use punctual_rivals::{Order, Report, address, enqueue, fill, now, order, payload, schedule};

const QUEUE: &str = "bench";
/// 16 bytes, as `punctual bench footprint` has it.
const KIND: &str = "bench.sixteen_by";

#[tokio::main]
async fn main() {
    let options = address().parse().expect("an address");
    let engine = RedisEngine::connect(options).await.expect("a server");
    let engine = Arc::new(engine);
    let queue = Queue::new(engine.clone());
    match order() {
        Order::Enqueue {
            jobs,
            batch,
            callers,
        } => {
            let call = move |size| {
                let queue = queue.clone();
                async move {
                    let jobs = (0..size).map(|_| NewJob::new(QUEUE, payload()));
                    let receipts = queue.enqueue_many(jobs).await.expect("an answer");
                    assert_eq!(receipts.len() as u64, size);
                }
            };
            enqueue(jobs, batch, callers, call).await;
        }
        Order::Schedule { rate, seconds } => {
            schedule(rate, seconds, async |dues| {
                let job = |due| NewJob::new(QUEUE, "{}").due(Due::At(Timestamp::from_micros(due)));
                let jobs = dues.into_iter().map(job);
                queue.enqueue_many(jobs).await.expect("an answer");
            })
            .await;
        }
        Order::Fill { jobs } => {
            fill(jobs, async |delays| {
                let job = |delay: Option<u64>| {
                    NewJob::new(QUEUE, payload())
                        .kind(KIND)
                        .due(delay.map_or(Due::Now, |us| Due::After(Duration::from_micros(us))))
                };
                let jobs = delays.into_iter().map(job);
                queue.enqueue_many(jobs).await.expect("an answer");
            })
            .await;
        }
        Order::Work => work(engine).await,
        Order::Lives { jobs, flight } => {
            let worker = WorkerId::random();
            let call = move |_| live(engine.clone(), worker);
            enqueue(jobs, 1, flight, call).await;
        }
    }
}

async fn work(engine: Arc<RedisEngine>) {
    let report = Report::start();
    let run = Worker::new(engine)
        .queues([QUEUE])
        .handle_any(move |job: JobRecord, _: Context| {
            if job.payload.len() < 100 {
                // By this machine's clock, which is the server's too and made the due.
                report.started_late(now() as i64 - job.due.as_micros() as i64);
            } else {
                report.started("");
            }
            ready(Outcome::Completed)
        })
        .run_until(std::future::pending::<()>());
    run.await.expect("a worker runs on");
}

/// A job by a call for each of its steps; which one is claimed is a matter of chance.
async fn live(engine: Arc<RedisEngine>, worker: WorkerId) {
    let namespace = Namespace::default();
    let job = NewJob::new(QUEUE, payload());
    let enqueued = engine.enqueue(&namespace, vec![job]).await;
    enqueued.expect("an answer");
    let claim = Claim::new(worker, QUEUE, 1);
    let claimed = engine.claim(&namespace, claim).await.expect("an answer");
    for lease in claimed.leases {
        let end = |job: &JobRecord| Settlement::new(job.id, job.attempt, Outcome::Completed);
        let settlements = lease.jobs.iter().map(end).collect();
        let settle = Settle::new(vec![LeaseReport::new(lease.token, settlements)]);
        engine.settle(&namespace, settle).await.expect("an answer");
    }
}
