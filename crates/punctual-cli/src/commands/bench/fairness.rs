//! `punctual bench fairness`: how late jobs of small tenants start beside one that floods.

mod weights;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use punctual::engine::StatsRequest;
use punctual::sync::Lock;
use punctual::time::{Clock, SystemClock, Timestamp, millis, pause, seconds};
use punctual::worker::Shutdown;
use punctual::{Context, Due, JobRecord, NewJob, Outcome, Queue, Worker};
use tokio::sync::oneshot;

use super::{Place, leftovers};
use crate::args::span_of;
use crate::failure::{Exit, Failure, Result};
use crate::output::{Histogram, count, ms, object};

/// How late jobs of small tenants start while one tenant floods, beside a queue without load
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  punctual bench fairness --tenants 1000 --flood 200000 -o json
  punctual bench fairness --tenants 10000 --flood 1000000 --seconds 10 --engine $REDIS
  punctual bench fairness --weights 1:2:5 --flood 300000 --seconds 10 --engine $REDIS -o json

Each small tenant sends a job per second, whose due is an instant of that second. First they are
alone, then one tenant has sent a flood of jobs before. Lateness is the start by the engine's clock
less the due. `flood_left` says how much of the flood was left at the end: with 0 it was too short.

With --weights the flood is of one share for each weight, and nothing else is sent. `starts` counts the
starts of each, and `worst_error` is how far one of them is from its part.")]
pub(crate) struct Args {
    /// Tenants with one job per second each
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    tenants: u64,

    /// Jobs of the tenant that floods
    #[arg(long, value_name = "N", default_value_t = 200_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    flood: u64,

    /// How long each of the two runs takes
    #[arg(long, value_name = "S", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    seconds: u64,

    /// Slots of the worker
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    slots: u64,

    /// How long a handler runs
    #[arg(long, value_name = "SPAN", default_value = "5ms", value_parser = span_of)]
    run: Duration,

    /// Measure how exactly shares with these weights get their parts instead, such as 1:2:5
    #[arg(long, value_name = "W:W", value_parser = weights::weights_of, conflicts_with = "tenants")]
    weights: Option<weights::Weights>,
}

const QUEUE: &str = "bench";
const FLOOD: &str = "flood";
/// A slice of a second is enqueued this long before the first due of it.
const AHEAD: Duration = millis(500);
const SLICES_PER_SECOND: u64 = 20;
/// How long after the last due a job may still start.
const START_LIMIT: Duration = seconds(5);

/// What the handlers saw of small tenants.
struct Seen {
    lateness: Histogram,
    started: u64,
}

impl Args {
    pub(super) async fn run(self, place: &Place) -> Result<()> {
        if let Some(weights) = &self.weights {
            let span = Duration::from_secs(self.seconds);
            let ran = weights
                .run(place, self.flood, self.slots, self.run, span)
                .await;
            leftovers::remove(&place.session, &[QUEUE.into()]).await?;
            return ran;
        }
        let measured = self.both(place).await;
        let removed = leftovers::remove(&place.session, &[QUEUE.into()]).await;
        let (unloaded, small, flood_left) = measured?;
        removed?;
        let out = place.session.out;
        let spans = |seen: &Histogram| {
            object!({
                "p50": seen.ms_at(0.5),
                "p99": seen.ms_at(0.99),
                "max": seen.ms_max(),
            })
        };
        if out.is_json() {
            return out.json(&object!({
                "small_ms": spans(&small),
                "unloaded_ms": spans(&unloaded),
                "flood_left": flood_left,
            }));
        }
        let line = |seen: &Histogram| {
            let (half, most) = (ms(seen.at(0.5)), ms(seen.at(0.99)));
            format!("p50 {half}, p99 {most}, max {}", ms(seen.max()))
        };
        out.card(&[
            ("engine", place.engine.clone()),
            ("tenants", count(self.tenants)),
            ("unloaded", line(&unloaded)),
            ("beside the flood", line(&small)),
            ("flood left", count(flood_left)),
        ])
    }

    async fn both(&self, place: &Place) -> Result<(Histogram, Histogram, u64)> {
        let unloaded = self.measure(place).await?;
        let session = &place.session;
        let queue = Queue::new(&session.engine).namespace(session.namespace.clone());
        let mut left = self.flood;
        while left > 0 {
            let part = left.min(5_000);
            let jobs = (0..part).map(|_| NewJob::new(QUEUE, "{}").share(FLOOD));
            queue.enqueue_many(jobs).await?;
            left -= part;
        }
        let small = self.measure(place).await?;
        let request = StatsRequest::default().queues(vec![QUEUE.into()]);
        let stats = session.engine.stats(&session.namespace, request).await?;
        let left = stats
            .queues
            .first()
            .map_or(0, |queue| queue.counts.pending());
        Ok((unloaded, small, left))
    }

    async fn measure(&self, place: &Place) -> Result<Histogram> {
        let session = &place.session;
        let seen = Arc::new(Mutex::new(Seen {
            lateness: Histogram::new(),
            started: 0,
        }));
        let (stop, stopped) = oneshot::channel::<()>();
        let (noting, run) = (seen.clone(), self.run);
        let worker = Worker::new(&session.engine)
            .namespace(session.namespace.clone())
            .queues([QUEUE])
            .concurrency(self.slots as usize)
            .handle_any(move |job: JobRecord, ctx: Context| {
                if job.share.as_deref() != Some(FLOOD) {
                    let late = ctx.started_at().since(job.due);
                    let mut seen = noting.locked();
                    seen.lateness.record(late.as_micros() as u64);
                    seen.started += 1;
                }
                async move {
                    pause(run).await;
                    Outcome::Completed
                }
            });
        let running = tokio::spawn(worker.run_until(Shutdown::from(async move {
            let _ = stopped.await;
        })));
        self.produce(place).await?;
        let jobs = self.tenants * self.seconds;
        let step = millis(20);
        let mut waited = Duration::ZERO;
        while seen.locked().started < jobs && waited < AHEAD + START_LIMIT {
            pause(step).await;
            waited += step;
        }
        let _ = stop.send(());
        running
            .await
            .map_err(|error| Failure::new(Exit::Failed, "internal", error.to_string()))??;
        let seen = std::mem::replace(
            &mut *seen.locked(),
            Seen {
                lateness: Histogram::new(),
                started: 0,
            },
        );
        if seen.started < jobs {
            let message = format!(
                "{} of {jobs} jobs of small tenants did not start",
                jobs - seen.started
            );
            return Err(Failure::new(Exit::Failed, "internal", message));
        }
        Ok(seen.lateness)
    }

    /// Enqueues slice after slice, each while the ones before it fall due.
    async fn produce(&self, place: &Place) -> Result<()> {
        let session = &place.session;
        let queue = Queue::new(&session.engine).namespace(session.namespace.clone());
        let start = session.engine.info().await?.now;
        let jobs = self.tenants * self.seconds;
        let due = |nth: u64| -> Timestamp {
            start + AHEAD + Duration::from_micros(nth * 1_000_000 / self.tenants)
        };
        let slices = self.seconds * SLICES_PER_SECOND;
        for slice in 0..slices {
            let at = Duration::from_micros(slice * 1_000_000 / SLICES_PER_SECOND);
            SystemClock.sleep_until(start + at).await;
            let part = slice * jobs / slices..(slice + 1) * jobs / slices;
            let sent = part.map(|nth| {
                let share = format!("tenant {}", nth % self.tenants);
                NewJob::new(QUEUE, "{}").share(share).due(Due::At(due(nth)))
            });
            queue.enqueue_many(sent).await?;
        }
        Ok(())
    }
}
