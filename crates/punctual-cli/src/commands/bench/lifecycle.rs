//! `punctual bench lifecycle`: enqueue by the public `Queue`, drain by the public `Worker`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use punctual::time::Stopwatch;
use punctual::worker::Shutdown;
use punctual::{Context, JobRecord, NewJob, Outcome, Queue, Worker};
use rustix::time::{ClockId, clock_gettime};
use tokio::sync::Notify;

use super::Place;
use crate::failure::{Exit, Failure, Result};
use crate::output::{count, object};

/// Jobs enqueued and run per second, and CPU per job
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  punctual bench lifecycle
  punctual bench lifecycle --jobs 1000000 --batch 100 --engine 'file:./bench?durability=os'

That many callers enqueue jobs in batches. Then one worker with its defaults runs them; its handler
does nothing. CPU is user plus system, of this process and of the store's process (null if the same).")]
pub(crate) struct Args {
    /// Jobs
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    jobs: u64,

    /// Jobs per enqueue
    #[arg(long, value_name = "B", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=1000))]
    batch: u64,

    /// Bytes of each payload
    #[arg(long, value_name = "P", default_value_t = 100)]
    payload_bytes: usize,

    /// Callers that enqueue at the same time
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    callers: u64,
}

impl Args {
    pub(super) async fn run(self, place: &Place) -> Result<()> {
        let cpu = cpu_time();
        let enqueued = self.enqueue(place).await?;
        let drained = self.drain(place).await?;
        let cpu = cpu_time() - cpu;

        let per_s = |took: Duration| (self.jobs as f64 / took.as_secs_f64()).round();
        let cpu_us = (cpu.as_secs_f64() * 1e6 / self.jobs as f64 * 100.0).round() / 100.0;
        let out = place.session.out;
        if out.is_json() {
            return out.json(&object!({
                "engine": place.engine,
                "jobs": self.jobs,
                "enqueue_per_s": per_s(enqueued),
                "drain_per_s": per_s(drained),
                "client_cpu_us_per_job": cpu_us,
                "store_cpu_us_per_job": None::<f64>,
            }));
        }
        out.card(&[
            ("engine", place.engine.clone()),
            (
                "jobs",
                format!("{} of {} bytes", count(self.jobs), self.payload_bytes),
            ),
            (
                "enqueued",
                format!("{} per second", count(per_s(enqueued) as u64)),
            ),
            (
                "drained",
                format!("{} per second", count(per_s(drained) as u64)),
            ),
            ("CPU", format!("{cpu_us} µs per job in this process")),
        ])
    }

    async fn enqueue(&self, place: &Place) -> Result<Duration> {
        let session = &place.session;
        let queue = Queue::new(&session.engine).namespace(session.namespace.clone());
        let left = Arc::new(AtomicU64::new(self.jobs));
        let payload = Bytes::from(vec![b'x'; self.payload_bytes]);
        let watch = Stopwatch::start();
        let callers = (0..self.callers).map(|_| {
            let (queue, left, payload, batch) =
                (queue.clone(), left.clone(), payload.clone(), self.batch);
            tokio::spawn(async move {
                loop {
                    let took = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                        Some(left.saturating_sub(batch))
                    });
                    let jobs = took.unwrap_or(0).min(batch);
                    if jobs == 0 {
                        return Ok(());
                    }
                    let job = || NewJob {
                        content_type: "text/plain".into(),
                        ..NewJob::new("bench", payload.clone())
                    };
                    let receipts = queue.enqueue_many((0..jobs).map(|_| job())).await?;
                    if !receipts.iter().all(|receipt| receipt.verdict.is_accepted()) {
                        return Err(punctual::Error::new(
                            punctual::ErrorKind::EngineFull,
                            "the engine refused jobs of the bench",
                        ));
                    }
                }
            })
        });
        for caller in futures_util::future::join_all(callers).await {
            caller.map_err(|error| Failure::new(Exit::Failed, "internal", error.to_string()))??;
        }
        Ok(watch.elapsed())
    }

    async fn drain(&self, place: &Place) -> Result<Duration> {
        let session = &place.session;
        let (jobs, done) = (self.jobs, AtomicU64::new(0));
        let all = Arc::new(Notify::new());
        let last = all.clone();
        let watch = Stopwatch::start();
        Worker::new(&session.engine)
            .namespace(session.namespace.clone())
            .handle_any(move |_: JobRecord, _: Context| {
                if done.fetch_add(1, Ordering::Relaxed) + 1 == jobs {
                    last.notify_one();
                }
                std::future::ready(Outcome::Completed)
            })
            .queues(["bench"])
            .run_until(Shutdown::from(async move { all.notified().await }))
            .await?;
        Ok(watch.elapsed())
    }
}

/// User plus system time of this process so far.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
