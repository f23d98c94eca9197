//! `punctual bench limits`: whether limits of a queue hold, and how much of them is used.

mod watched;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use punctual::engine::{Rate, StatsRequest};
use punctual::time::{Timestamp, millis, pause, seconds};
use punctual::worker::Shutdown;
use punctual::{Context, JobRecord, NewJob, Outcome, Queue, Worker};

use self::watched::{Event, Watched};
use super::{Place, leftovers};
use crate::args::span_of;
use crate::commands::queues::limit::{Kind, starts_of};
use crate::failure::{Exit, Failure, Result};
use crate::output::{Histogram, count, ms, object};

/// The fullest window of a rate, how much of it is used, and how soon a freed slot is
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  punctual bench limits --rate 100/1s --kind window --jobs 1500 --workers 3 --kill 1 -o json
  punctual bench limits --concurrency 8 --jobs 5000 --run 5ms --engine $REDIS

Jobs are enqueued first. Then workers run them; in the middle some are killed: their handlers are
dropped with their leases. Starts and ends count by the engine's clock.
worst_window: the most starts in any span of the rate's length, over all pairs.
used: starts after the first window, of as many as the whole windows after it allow.
early: starts in a span that had as many as it may, and starts before their due.
With a concurrency also the most jobs that were active at once, and the spans from the end of a job
to the next start in its slot.")]
pub(crate) struct Args {
    /// Starts in a span
    #[arg(long, value_name = "N/SPAN", value_parser = starts_of)]
    rate: Option<(u64, Duration)>,

    /// How the rate lets jobs start
    #[arg(long, default_value = "window")]
    kind: Kind,

    /// Starts of a smooth rate that may come early; a tenth of the rate by default
    #[arg(long, value_name = "N")]
    burst: Option<u64>,

    /// Jobs that may be active at once
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    concurrency: Option<u64>,

    /// Jobs to run
    #[arg(long, value_name = "N", default_value_t = 1_500, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    jobs: u64,

    /// Workers, of 256 slots each
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=100))]
    workers: u64,

    /// Workers to kill when half of the jobs have started
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=99))]
    kill: u64,

    /// How long a handler runs
    #[arg(long, value_name = "SPAN", default_value = "1ms", value_parser = span_of)]
    run: Duration,
}

const QUEUE: &str = "bench";
const SLOTS: usize = 256;
/// Short, so that jobs of a killed worker come again while the others run.
const LEASE: Duration = seconds(2);
/// Nothing starts for so long although jobs wait: the bench gives up.
const TIME_LIMIT: Duration = seconds(60);

impl Args {
    pub(super) async fn run(self, place: &Place) -> Result<()> {
        let wrong = |message: &str| Err(Failure::usage(message));
        if self.rate.is_none() && self.concurrency.is_none() {
            return wrong("name a limit: --rate 100/1s, --concurrency 8, or both");
        }
        if self.kill >= self.workers {
            return wrong("--kill leaves no worker; kill fewer of them");
        }
        let rate = self.rate.map(|starts| self.kind.rate(starts, self.burst));
        let rate = rate.transpose().map_err(Failure::usage)?;
        let measured = self.measure(place, rate).await;
        let removed = leftovers::remove(&place.session, &[QUEUE.into()]).await;
        let events = measured?;
        removed?;
        self.announce(place, rate, &events)
    }

    async fn measure(&self, place: &Place, rate: Option<Rate>) -> Result<Vec<Event>> {
        let session = &place.session;
        let queue = Queue::new(&session.engine).namespace(session.namespace.clone());
        let mut limits = queue.limits(QUEUE);
        if let Some(rate) = rate {
            limits = limits.rate(rate);
        }
        if let Some(concurrency) = self.concurrency {
            limits = limits.concurrency(concurrency);
        }
        limits.set().await?;
        let jobs = (0..self.jobs).map(|_| NewJob::new(QUEUE, "{}"));
        queue.enqueue_many(jobs).await?;
        let watched = Arc::new(Watched::new(session.engine.clone()));
        let mut workers: Vec<_> = (0..self.workers)
            .map(|_| self.worker(place, &watched))
            .collect();
        let ended = self.wait(place, &watched, &mut workers).await;
        for worker in workers {
            worker.abort();
            drop(worker.await);
        }
        ended?;
        Ok(watched.events())
    }

    fn worker(
        &self,
        place: &Place,
        watched: &Arc<Watched>,
    ) -> tokio::task::JoinHandle<punctual::Result<()>> {
        let run = self.run;
        let worker = Worker::new(watched)
            .namespace(place.session.namespace.clone())
            .queues([QUEUE])
            .concurrency(SLOTS)
            .lease_duration(LEASE)
            .handle_any(move |_: JobRecord, _: Context| async move {
                pause(run).await;
                Outcome::Completed
            });
        tokio::spawn(async move {
            worker
                .run_until(Shutdown::from(std::future::pending()))
                .await
                .map(drop)
        })
    }

    /// Waits until every job has ended; kills workers in the middle.
    async fn wait(
        &self,
        place: &Place,
        watched: &Watched,
        workers: &mut Vec<tokio::task::JoinHandle<punctual::Result<()>>>,
    ) -> Result<()> {
        let mut to_kill = self.kill;
        let (mut seen, mut quiet) = (0, Duration::ZERO);
        let step = millis(20);
        let time_limit = self
            .rate
            .map_or(TIME_LIMIT, |(_, per)| TIME_LIMIT.max(per * 3));
        loop {
            pause(step).await;
            let (started, ended) = watched.counts();
            if to_kill > 0 && started * 2 >= self.jobs {
                to_kill -= 1;
                let worker = workers.pop().expect("fewer are killed than there are");
                worker.abort();
                drop(worker.await);
            }
            // A worker that is killed may have settled a job whose answer it did not see.
            if started >= self.jobs && self.is_empty(place).await? {
                return Ok(());
            }
            quiet = if started == seen {
                quiet + step
            } else {
                Duration::ZERO
            };
            seen = started;
            if quiet > time_limit {
                let message = format!("nothing starts any more; {started} started, {ended} ended");
                return Err(Failure::new(Exit::Failed, "internal", message));
            }
        }
    }

    async fn is_empty(&self, place: &Place) -> Result<bool> {
        let session = &place.session;
        let request = StatsRequest::default().queues(vec![QUEUE.into()]);
        let stats = session.engine.stats(&session.namespace, request).await?;
        let left = |counts: &punctual::engine::Counts| {
            counts.pending() + counts.of(punctual::JobState::Active)
        };
        Ok(stats.queues.iter().all(|queue| left(&queue.counts) == 0))
    }

    fn announce(&self, place: &Place, rate: Option<Rate>, events: &[Event]) -> Result<()> {
        let starts: Vec<Timestamp> = watched::starts(events);
        let of_rate = rate.map(|rate| OfRate::new(&rate, &starts));
        let before_due = watched::before_due(events);
        let early = before_due + of_rate.as_ref().map_or(0, |it| it.early);
        let most_active = watched::most_active(events);
        let freed = freed_slots(events);
        let out = place.session.out;
        if out.is_json() {
            out.json(&object!({
                "worst_window": of_rate.as_ref().map(|it| it.worst_window),
                "used": of_rate.as_ref().and_then(|it| it.used),
                "early": early,
                "starts": starts.len(),
                "most_active": most_active,
                "freed_slot_ms": self.concurrency.map(|_| object!({
                    "p50": freed.ms_at(0.5),
                    "p99": freed.ms_at(0.99),
                    "max": freed.ms_max(),
                })),
            }))?;
        } else {
            let mut card = vec![
                ("engine", place.engine.clone()),
                ("starts", count(starts.len() as u64)),
            ];
            if let (Some(rate), Some(it)) = (rate, &of_rate) {
                card.push(("rate", rate.to_string()));
                card.push((
                    "worst window",
                    format!("{} of {}", it.worst_window, rate.most()),
                ));
                let used = it.used.map(|used| format!("{:.2} %", used * 100.0));
                card.push((
                    "used",
                    used.unwrap_or_else(|| "too few windows to say".into()),
                ));
            }
            card.push(("early", early.to_string()));
            if let Some(most) = self.concurrency {
                card.push(("most active", format!("{most_active} of {most}")));
                let (half, most) = (ms(freed.at(0.5)), ms(freed.at(0.99)));
                card.push(("freed slots", format!("used after {half}, p99 {most}")));
            }
            out.card(&card)?;
        }
        let over = self.concurrency.is_some_and(|most| most_active > most);
        match early == 0 && !over {
            true => Ok(()),
            false => Err(Failure::reported(Exit::Failed)),
        }
    }
}

/// What starts say of a rate.
struct OfRate {
    worst_window: usize,
    used: Option<f64>,
    early: u64,
}

impl OfRate {
    fn new(rate: &Rate, starts: &[Timestamp]) -> Self {
        let (per, most) = (rate.per(), rate.most() as usize);
        let (mut first, mut worst_window, mut early) = (0, 0, 0);
        for (nth, at) in starts.iter().enumerate() {
            while *at - starts[first] >= per {
                first += 1;
            }
            let within = nth + 1 - first;
            worst_window = worst_window.max(within);
            early += u64::from(within > most);
        }
        Self {
            worst_window,
            used: used(rate, starts),
            early,
        }
    }
}

/// Starts in the whole windows after the first one, of as many as may be in them.
fn used(rate: &Rate, starts: &[Timestamp]) -> Option<f64> {
    let (first, last) = (*starts.first()?, *starts.last()?);
    let per = rate.per();
    let whole = ((last - first).as_micros() / per.as_micros()) as u32;
    let windows = whole.checked_sub(1).filter(|windows| *windows > 0)?;
    let (from, until) = (first + per, first + per * (windows + 1));
    let within = starts
        .iter()
        .filter(|at| (from..until).contains(at))
        .count();
    Some(within as f64 / (rate.starts() * u64::from(windows)) as f64)
}

/// From each end of a job to the next start, while jobs wait, in microseconds.
fn freed_slots(events: &[Event]) -> Histogram {
    let mut spans = Histogram::new();
    let mut free: VecDeque<Timestamp> = VecDeque::new();
    for event in events {
        match event {
            Event::Started { at, jobs, .. } => {
                for _ in 0..*jobs {
                    if let Some(since) = free.pop_front() {
                        spans.record((*at - since).as_micros() as u64);
                    }
                }
            }
            Event::Ended { at, jobs } => free.extend((0..*jobs).map(|_| *at)),
        }
    }
    spans
}
