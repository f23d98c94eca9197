//! Lateness of Punctual and its rivals on Redis.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

use punctual_bench::random::Random;
use punctual_bench::stopwatch::{pause, time};

use crate::idle::SETTLE_DOWN;
use crate::server::Server;
use crate::sides::{PUNCTUAL, Side};
use crate::table::{cell, median_of, print};
use crate::{Options, in_turns};

/// One way to load a side.
struct Load {
    title: &'static str,
    rate: u64,
    seconds: u64,
    workers: usize,
    /// Whether rivals run it too.
    rivals: bool,
}

/// Milliseconds, and jobs.
struct Lateness {
    p50: f64,
    p99: f64,
    max: f64,
    early: f64,
    missing: f64,
    /// p99 of a thread that only sleeps meanwhile: what the machine itself makes late.
    machine: f64,
}

/// How long nothing may happen before the rest counts as missing: Sidekiq polls 10 to 15 s after
/// its start and then every 5 s, apalis-redis every 30 s.
const TIME_LIMIT: Duration = Duration::from_secs(45);

pub(crate) fn measure(options: &Options, sides: &[Side]) {
    let idle = if options.long { 600 } else { 60 };
    let busy = if options.long { 60 } else { 10 };
    let loads = [
        Load {
            title: "500 a second",
            rate: 500,
            seconds: busy,
            workers: 1,
            rivals: true,
        },
        Load {
            title: "5,000 a second",
            rate: 5_000,
            seconds: busy,
            workers: 1,
            rivals: false,
        },
        Load {
            title: "idle, one a second",
            rate: 1,
            seconds: idle,
            workers: 1,
            rivals: false,
        },
        Load {
            title: "500 a second, 100 worker processes",
            rate: 500,
            seconds: busy,
            workers: 100,
            rivals: false,
        },
        Load {
            title: "5,000 a second, 100 worker processes",
            rate: 5_000,
            seconds: busy,
            workers: 100,
            rivals: false,
        },
        Load {
            title: "one a second, 100 worker processes",
            rate: 1,
            seconds: idle,
            workers: 100,
            rivals: false,
        },
    ];
    let is_asked = |load: &&Load| load.title.contains(&options.load);
    for load in loads.iter().filter(is_asked) {
        let mut rows = Vec::new();
        let runs_it = |side: &&Side| side.schedules && (load.rivals || side.name == PUNCTUAL);
        let sides: Vec<Side> = sides.iter().filter(runs_it).cloned().collect();
        let seconds = (load.seconds / options.smoke).max(2);
        let results = in_turns(options, &sides, |side| run(side, load, seconds));
        for (side, runs) in sides.iter().zip(&results) {
            rows.push(vec![
                side.name.into(),
                cell(Some((load.rate * seconds) as f64)),
                cell(median_of(runs, |one| one.p50)),
                cell(median_of(runs, |one| one.p99)),
                cell(median_of(runs, |one| one.max)),
                cell(worst(runs, |one| one.early)),
                cell(worst(runs, |one| one.missing)),
                cell(median_of(runs, |one| one.machine)),
            ]);
        }
        let heads = [
            "",
            "jobs",
            "p50 ms",
            "p99 ms",
            "max ms",
            "early, worst run",
            "not started",
            "a sleeper, p99 ms",
        ];
        print(&format!("Lateness, {}", load.title), &heads, &rows);
    }
}

fn worst(runs: &[Lateness], number: impl Fn(&Lateness) -> f64) -> Option<f64> {
    runs.iter().map(number).max_by(f64::total_cmp)
}

fn run(side: &Side, load: &Load, seconds: u64) -> Option<Lateness> {
    let server = Server::start();
    let mut workers = side.work(&server, load.workers)?;
    pause(SETTLE_DOWN);
    let [rate, span] = [load.rate, seconds].map(|number| number.to_string());
    let mut producer = side.begin(&server, &["schedule", &rate, &span]);
    let jobs = load.rate * seconds;
    let sleeper = Sleeper::start();
    let mut seen = workers.until_or_silent(jobs, TIME_LIMIT);
    producer.wait().expect("the producer ends");
    let machine = quantile_ms(&mut sleeper.end(), 0.99);
    let late = &mut seen.late_us;
    Some(Lateness {
        p50: quantile_ms(late, 0.5),
        p99: quantile_ms(late, 0.99),
        max: quantile_ms(late, 1.0),
        early: late.iter().filter(|us| **us < 0).count() as f64,
        missing: jobs.saturating_sub(seen.done) as f64,
        machine,
    })
}

fn quantile_ms(late_us: &mut [i64], share: f64) -> f64 {
    late_us.sort_unstable();
    let nth = (late_us.len() as f64 * share) as usize;
    let us = late_us.get(nth.min(late_us.len().saturating_sub(1)));
    us.map_or(f64::NAN, |us| *us as f64 / 1e3)
}

/// A thread that sleeps, some ten milliseconds each time, and notes how much longer it slept.
struct Sleeper {
    is_over: Arc<AtomicBool>,
    late_us: JoinHandle<Vec<i64>>,
}

impl Sleeper {
    fn start() -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let (ends, mut random) = (is_over.clone(), Random::new(1));
        let sleeps = move || {
            let mut late_us = Vec::new();
            while !ends.load(Relaxed) {
                let span = Duration::from_micros(5_000 + random.next_u64() % 10_000);
                let (took, ()) = time(|| pause(span));
                late_us.push((took - span).as_micros() as i64);
            }
            late_us
        };
        Self {
            is_over,
            late_us: std::thread::spawn(sleeps),
        }
    }

    fn end(self) -> Vec<i64> {
        self.is_over.store(true, Relaxed);
        self.late_us.join().expect("it only sleeps")
    }
}
