//! `punctual bench lateness`: how long after its due a job's handler starts.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use punctual::sync::Lock;
use punctual::time::{Clock, SystemClock, Timestamp, millis, seconds, within};
use punctual::worker::Shutdown;
use punctual::{Context, Due, JobId, JobRecord, NewJob, Outcome, Queue, Worker};
use tokio::sync::{Notify, oneshot};

use super::{Dice, Place};
use crate::failure::{Exit, Failure, Result};
use crate::output::{Histogram, count, ms, object};

/// Handler start minus due, with dues at random microseconds
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  punctual bench lateness --rate 1000 --seconds 60
  punctual bench lateness --rate 1000 --seconds 10 -o json

Each job is enqueued at least a second ahead. The handler does nothing. Its start counts by the
engine's clock from the instant the claim was sent, so lateness is at most what is printed. Early,
lost and duplicated must be 0.")]
pub(crate) struct Args {
    /// Jobs per second
    #[arg(long, value_name = "R", default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    rate: u64,

    /// How long to run
    #[arg(long, value_name = "S", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,
}

/// Dues of one slice are enqueued together, this long before the first of them.
const AHEAD: Duration = millis(1_300);
const SLICES_PER_SECOND: u64 = 5;
/// How long after the last due a job may still come.
const TIME_LIMIT: Duration = seconds(10);

/// What the handler saw.
struct Seen {
    starts: HashMap<JobId, u32>,
    early: u64,
    lateness: Histogram,
}

impl Args {
    pub(super) async fn run(self, place: &Place) -> Result<()> {
        let jobs = self.rate * self.seconds;
        let (seen, finished) = self.measure(place, jobs).await?;
        if !finished {
            place.session.out.note("some jobs did not start in time");
        }
        let seen = seen.locked();
        let lost = jobs - seen.starts.len() as u64;
        let duplicated = seen.starts.values().filter(|starts| **starts > 1).count();
        let lateness = &seen.lateness;
        let out = place.session.out;
        if out.is_json() {
            out.json(&object!({
                "jobs": jobs,
                "early": seen.early,
                "lost": lost,
                "duplicated": duplicated,
                "lateness_ms": object!({
                    "p50": lateness.ms_at(0.5),
                    "p99": lateness.ms_at(0.99),
                    "p999": lateness.ms_at(0.999),
                    "max": lateness.ms_max(),
                }),
            }))?;
        } else {
            out.card(&[
                ("engine", place.engine.clone()),
                (
                    "jobs",
                    format!("{}, {} per second", count(jobs), count(self.rate)),
                ),
                ("early", seen.early.to_string()),
                ("lost", lost.to_string()),
                ("duplicated", duplicated.to_string()),
                (
                    "lateness",
                    format!(
                        "p50 {}, p99 {}, p99.9 {}, max {}",
                        ms(lateness.at(0.5)),
                        ms(lateness.at(0.99)),
                        ms(lateness.at(0.999)),
                        ms(lateness.max())
                    ),
                ),
            ])?;
            lateness.bars(40).iter().try_for_each(|bar| out.line(bar))?;
        }
        if seen.early == 0 && lost == 0 && duplicated == 0 {
            Ok(())
        } else {
            Err(Failure::reported(Exit::Failed))
        }
    }

    async fn measure(&self, place: &Place, jobs: u64) -> Result<(Arc<Mutex<Seen>>, bool)> {
        let session = &place.session;
        let seen = Arc::new(Mutex::new(Seen {
            starts: HashMap::with_capacity(jobs as usize),
            early: 0,
            lateness: Histogram::new(),
        }));
        let (stop, stopped) = oneshot::channel::<()>();
        let all = Arc::new(Notify::new());
        let last = all.clone();
        let noting = seen.clone();
        let worker = Worker::new(&session.engine)
            .namespace(session.namespace.clone())
            .queues(["bench"])
            .handle_any(move |job: JobRecord, ctx: Context| {
                let mut seen = noting.locked();
                seen.note(&job, ctx.started_at());
                if seen.starts.len() as u64 == jobs {
                    last.notify_one();
                }
                std::future::ready(Outcome::Completed)
            });
        let running = tokio::spawn(worker.run_until(Shutdown::from(async move {
            let _ = stopped.await;
        })));
        self.produce(place).await?;
        let time_limit = AHEAD + seconds(1) + TIME_LIMIT;
        let finished = within(time_limit, all.notified()).await.is_some();
        let _ = stop.send(());
        running
            .await
            .map_err(|error| Failure::new(Exit::Failed, "internal", error.to_string()))??;
        Ok((seen, finished))
    }

    /// Enqueues slice after slice, each while the ones before it fall due.
    async fn produce(&self, place: &Place) -> Result<()> {
        let session = &place.session;
        let queue = Queue::new(&session.engine).namespace(session.namespace.clone());
        let mut dice = Dice::new();
        let slice = seconds(1) / SLICES_PER_SECOND as u32;
        let base = session.engine.info().await?.now + AHEAD;
        let mut sent = 0;
        for nth in 0..self.seconds * SLICES_PER_SECOND {
            let from = base + slice * nth as u32;
            // Rates that do not divide by the slices come out right in the sum.
            let until = self.rate * (nth + 1) / SLICES_PER_SECOND;
            let mut job = |_| {
                NewJob::new("bench", "{}").due(Due::At(
                    from + Duration::from_micros(dice.below(slice.as_micros() as u64)),
                ))
            };
            let batch: Vec<NewJob> = (sent..until).map(&mut job).collect();
            sent = until;
            let send_at = Timestamp::from_micros(from.as_micros() - AHEAD.as_micros() as u64);
            SystemClock.sleep_until(send_at).await;
            queue.enqueue_many(batch).await?;
        }
        Ok(())
    }
}

impl Seen {
    fn note(&mut self, job: &JobRecord, started: Timestamp) {
        *self.starts.entry(job.id).or_default() += 1;
        if started < job.due {
            self.early += 1;
        } else {
            self.lateness.record((started - job.due).as_micros() as u64);
        }
    }
}
