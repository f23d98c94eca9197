//! `punctual bench limit-cost`: what a limit of a queue costs that never closes.

use std::time::Duration;

use punctual::engine::{Claim, LeaseReport, Rate, Settle, Settlement, WorkerId, WorkerRecord};
use punctual::time::{Stopwatch, millis, seconds};
use punctual::{NewJob, Outcome, Queue};

use super::{Place, cpu, leftovers};
use crate::failure::Result;
use crate::output::{Object, count, object, raw};

/// What a limit of a queue that never closes adds to the CPU of claims and settlements
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  punctual bench limit-cost --engine $REDIS -o json
  punctual bench limit-cost --jobs 20000 --batch 10 --rounds 9 --engine $REDIS

Each round fills a queue with plain jobs and drains it by claims and settlements of a batch: without a
limit, with a concurrency, a smooth rate and a window that admit more than ever run. The rounds change
their order. CPU is that of claims and settlements: of the servers on Redis, else of this process. What a
limit adds is the median of the differences within a round; `drain` is the speed with it, divided by
that without.")]
pub(crate) struct Args {
    /// Jobs of one drain
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    jobs: u64,

    /// Jobs per claim
    #[arg(long, value_name = "B", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=1000))]
    batch: u64,

    /// Rounds that count; one before them does not
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u64).range(1..=1000))]
    rounds: u64,
}

const QUEUE: &str = "bench";
/// More than any drain has.
const NEVER_FULL: u64 = 1_000_000;

/// A limit that never closes.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Limit {
    None,
    Concurrency,
    Smooth,
    Window,
}

const LIMITS: [Limit; 4] = [
    Limit::None,
    Limit::Concurrency,
    Limit::Smooth,
    Limit::Window,
];

impl Limit {
    fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Concurrency => "concurrency",
            Self::Smooth => "smooth",
            Self::Window => "window",
        }
    }
}

/// One drain.
#[derive(Debug, Clone, Copy)]
struct Drain {
    cpu: Duration,
    took: Duration,
}

impl Args {
    pub(super) async fn run(self, place: &Place) -> Result<()> {
        let measured = self.measure(place).await;
        let removed = leftovers::remove(&place.session, &[QUEUE.into()]).await;
        let rounds = measured?;
        removed?;
        let us = |drain: &Drain| drain.cpu.as_secs_f64() * 1e6 / self.jobs as f64;
        let of = |limit: usize, what: &dyn Fn(&[Drain; 4], usize) -> f64| {
            median(rounds.iter().map(|round| what(round, limit)).collect())
        };
        let each = |what: &dyn Fn(&[Drain; 4], usize) -> f64, from: usize| {
            let limits = (from..LIMITS.len()).map(|nth| {
                let rounded = (of(nth, what) * 1_000.0).round() / 1_000.0;
                (LIMITS[nth].name(), rounded)
            });
            limits.collect::<Vec<_>>()
        };
        let cpu = each(&|round, nth| us(&round[nth]), 0);
        let added = each(&|round, nth| us(&round[nth]) - us(&round[0]), 1);
        let speed = |round: &[Drain; 4], nth: usize| {
            round[0].took.as_secs_f64() / round[nth].took.as_secs_f64()
        };
        let drain = each(&speed, 1);
        let out = place.session.out;
        if out.is_json() {
            let fields = |all: &[(&'static str, f64)]| {
                Object(
                    all.iter()
                        .map(|(name, value)| (*name, raw(value)))
                        .collect(),
                )
            };
            return out.json(&object!({
                "engine": place.engine,
                "jobs": self.jobs,
                "batch": self.batch,
                "rounds": self.rounds,
                "cpu_us_per_job": fields(&cpu),
                "added_us_per_job": fields(&added),
                "drain": fields(&drain),
            }));
        }
        let line = |all: &[(&'static str, f64)], unit: &str| {
            let all = all
                .iter()
                .map(|(name, value)| format!("{name} {value}{unit}"));
            all.collect::<Vec<_>>().join(", ")
        };
        out.card(&[
            ("engine", place.engine.clone()),
            (
                "jobs",
                format!("{} a drain, {} a claim", count(self.jobs), self.batch),
            ),
            ("CPU per job", line(&cpu, " µs")),
            ("added", line(&added, " µs")),
            ("drain", line(&drain, "")),
        ])
    }

    /// The drains of each round, in the order of `LIMITS`.
    async fn measure(&self, place: &Place) -> Result<Vec<[Drain; 4]>> {
        let mut rounds = Vec::new();
        for round in 0..=self.rounds {
            let none = Drain {
                cpu: Duration::ZERO,
                took: Duration::ZERO,
            };
            let mut drains = [none; 4];
            let mut order: Vec<usize> = (0..LIMITS.len()).collect();
            order.rotate_left(round as usize % LIMITS.len());
            for nth in order {
                drains[nth] = self.drain(place, LIMITS[nth]).await?;
            }
            if round > 0 {
                rounds.push(drains);
            }
        }
        Ok(rounds)
    }

    async fn drain(&self, place: &Place, limit: Limit) -> Result<Drain> {
        let session = &place.session;
        let (engine, namespace) = (&session.engine, &session.namespace);
        let queue = Queue::new(engine).namespace(namespace.clone());
        let limits = queue.limits(QUEUE);
        match limit {
            Limit::None => drop(limits.remove().await?),
            Limit::Concurrency => limits.concurrency(NEVER_FULL).set().await?,
            Limit::Smooth => {
                let rate = Rate::smooth(NEVER_FULL, seconds(1)).burst(NEVER_FULL);
                limits.rate(rate).set().await?;
            }
            Limit::Window => {
                let rate = Rate::window(NEVER_FULL, millis(1));
                limits.rate(rate).set().await?;
            }
        }
        let mut left = self.jobs;
        while left > 0 {
            let part = left.min(1_000);
            let payload = "x".repeat(100);
            let jobs = (0..part).map(|_| NewJob::new(QUEUE, payload.clone()));
            queue.enqueue_many(jobs).await?;
            left -= part;
        }
        let cpu = async || match place.connection.store_cpu().await {
            Ok(Some(cpu)) => Ok(cpu),
            Ok(None) => Ok(cpu::of_process()),
            Err(error) => Err(error),
        };
        let worker = WorkerId::random();
        let before = cpu().await?;
        let watch = Stopwatch::start();
        let mut left = self.jobs;
        while left > 0 {
            let limit = left.min(self.batch);
            let mut record = WorkerRecord::new(worker);
            record.slots = limit as u32;
            let claim = Claim::new(worker, QUEUE, limit as usize).worker(record);
            let claimed = engine.claim(namespace, claim).await?;
            let mut leases = Vec::new();
            for lease in claimed.leases {
                left -= lease.jobs.len() as u64;
                let ends = lease
                    .jobs
                    .iter()
                    .map(|job| Settlement::new(job.id, job.attempt, Outcome::Completed));
                leases.push(LeaseReport::new(lease.token, ends.collect()));
            }
            engine.settle(namespace, Settle::new(leases)).await?;
        }
        let took = watch.elapsed();
        Ok(Drain {
            cpu: cpu().await?.saturating_sub(before),
            took,
        })
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}
