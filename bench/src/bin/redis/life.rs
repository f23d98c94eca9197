//! Server CPU and throughput of whole lives of jobs.

use std::time::Duration;

use punctual_bench::stopwatch::pause;

use crate::server::Server;
use crate::sides::{PUNCTUAL, Side};
use crate::table::{cell, median, median_of, print, ratio, spread};
use crate::{Options, in_turns, raw};

/// How long nothing may happen before a worker counts as stuck.
const TIME_LIMIT: Duration = Duration::from_secs(60);
const MOMENT: Duration = Duration::from_millis(200);

/// One run: jobs enqueued, then run.
struct Life {
    enqueue_cpu_us: f64,
    work_cpu_us: f64,
    enqueue_per_s: f64,
    work_per_s: f64,
}

impl Life {
    fn cpu_us(&self) -> f64 {
        self.enqueue_cpu_us + self.work_cpu_us
    }
}

/// Jobs in batches, one worker process.
pub(crate) fn lives(options: &Options, sides: &[Side]) {
    let (mut lists, mut by_hand) = (Vec::new(), Vec::new());
    let results = in_turns(options, sides, |side| {
        if side.name == PUNCTUAL {
            lists.push(raw::list_us(1_000_000 / options.smoke));
            by_hand.push(raw::by_hand_us(500_000 / options.smoke));
        }
        life(side, side.jobs / options.smoke, side.batch, side.callers, 1)
    });
    let (list, by_hand) = (median(lists), median(by_hand));
    let ours = results.first();
    let our = |number: fn(&Life) -> f64| ours.and_then(|runs| median_of(runs, number));
    let bare = |title: &str, jobs: u64, cpu: Option<f64>| {
        let none = || "-".to_owned();
        let jobs = cell(Some((jobs / options.smoke) as f64));
        let of_ours = ratio(cpu, our(Life::cpu_us));
        let [cpu, title] = [cell(cpu), title.to_owned()];
        vec![
            title,
            jobs,
            none(),
            none(),
            cpu,
            of_ours,
            none(),
            none(),
            none(),
            none(),
            none(),
        ]
    };
    let mut rows = vec![
        bare("raw RPUSH + LPOP, 100 in a write", 1_000_000, list),
        bare(
            "by hand: list, hash, sorted set of leases, 100 a call",
            500_000,
            by_hand,
        ),
    ];
    for (side, runs) in sides.iter().zip(&results) {
        let cpu = median_of(runs, Life::cpu_us);
        let enqueued = median_of(runs, |life| life.enqueue_per_s);
        let worked = median_of(runs, |life| life.work_per_s);
        rows.push(vec![
            format!("{}: {}", side.name, side.settings),
            cell(Some((side.jobs / options.smoke) as f64)),
            cell(median_of(runs, |life| life.enqueue_cpu_us)),
            cell(median_of(runs, |life| life.work_cpu_us)),
            cell(cpu),
            ratio(cpu, our(Life::cpu_us)),
            spread(runs, Life::cpu_us),
            cell(enqueued),
            ratio(our(|life| life.enqueue_per_s), enqueued),
            cell(worked),
            ratio(our(|life| life.work_per_s), worked),
        ]);
    }
    let heads = [
        "",
        "jobs",
        "enqueue, CPU us",
        "run, CPU us",
        "life, CPU us",
        "ours = 1",
        "spread",
        "bulk enqueue, jobs/s",
        "we are faster by",
        "one worker process, jobs/s",
        "we are faster by",
    ];
    print(
        "Life, in bulk: server CPU per job and throughput",
        &heads,
        &rows,
    );
    println!(
        "\nOur life is {} times raw RPUSH + LPOP, {} times what is built by hand.",
        ratio(our(Life::cpu_us), list),
        ratio(our(Life::cpu_us), by_hand)
    );
}

/// A job a call, 64 in flight in one process, on one connection if the side has no pool.
pub(crate) fn single_calls(options: &Options, sides: &[Side]) {
    let jobs = |side: &Side| side.singles / options.smoke;
    let results = in_turns(options, sides, |side| {
        life(side, jobs(side), 1, side.flight, 1)
    });
    let ours = results
        .first()
        .and_then(|runs| median_of(runs, Life::cpu_us));
    let mut rows = Vec::new();
    if let Some(side) = sides.first().filter(|side| side.name == PUNCTUAL) {
        for (calls, flight, jobs) in [
            ("pipelined calls: 64 lives in flight", 64, jobs(side)),
            ("lone calls: one life at a time", 1, jobs(side) / 5),
        ] {
            let runs: Vec<f64> = (0..options.runs)
                .map(|_| all_single(side, jobs, flight))
                .collect();
            rows.push(vec![
                format!("punctual: enqueue, claim and settle of one job each, {calls}"),
                cell(Some(jobs as f64)),
                "-".into(),
                "-".into(),
                cell(median(runs.clone())),
                ratio(median(runs), ours),
                "-".into(),
            ]);
        }
    }
    for (side, runs) in sides.iter().zip(&results) {
        let cpu = median_of(runs, Life::cpu_us);
        rows.push(vec![
            format!(
                "{}: {} in flight, {}",
                side.name, side.flight, side.settings
            ),
            cell(Some(jobs(side) as f64)),
            cell(median_of(runs, |life| life.enqueue_cpu_us)),
            cell(median_of(runs, |life| life.work_cpu_us)),
            cell(cpu),
            ratio(cpu, ours),
            cell(median_of(runs, |life| life.enqueue_per_s)),
        ]);
    }
    let heads = [
        "",
        "jobs",
        "enqueue, CPU us",
        "run, CPU us",
        "life, CPU us",
        "ours = 1",
        "enqueue, jobs/s",
    ];
    print("Life, a job a call: server CPU per job", &heads, &rows);
}

/// Microseconds of server CPU per job if every verb takes one job.
fn all_single(side: &Side, jobs: u64, flight: u64) -> f64 {
    let server = Server::start();
    let before = server.cpu_us();
    let [count, flight] = [jobs, flight].map(|number| number.to_string());
    side.order(&server, &["lives", &count, &flight]);
    (server.cpu_us() - before) / jobs as f64
}

/// Throughput with one worker process and with four.
pub(crate) fn four_workers(options: &Options, sides: &[Side]) {
    let measured = |side: &&Side| side.matters;
    let sides: Vec<Side> = sides.iter().filter(measured).cloned().collect();
    let rates = in_turns(options, &sides, |side| {
        let jobs = side.jobs / options.smoke;
        let one = life(side, jobs, side.batch, side.callers, 1)?;
        let four = life(side, jobs, side.batch, side.callers, 4)?;
        Some((one, four))
    });
    let rows: Vec<Vec<String>> = sides
        .iter()
        .zip(&rates)
        .map(|(side, runs)| {
            let one = median_of(runs, |(one, _)| one.work_per_s);
            let four = median_of(runs, |(_, four)| four.work_per_s);
            vec![
                format!("{}: {}", side.name, side.settings),
                cell(one),
                cell(four),
                ratio(four, one),
                cell(median_of(runs, |(one, _)| one.work_cpu_us)),
                cell(median_of(runs, |(_, four)| four.work_cpu_us)),
            ]
        })
        .collect();
    let heads = [
        "",
        "one process, jobs/s",
        "four, jobs/s",
        "four / one",
        "one, server CPU us",
        "four, server CPU us",
    ];
    print("Four worker processes", &heads, &rows);
}

fn life(side: &Side, jobs: u64, batch: u64, callers: u64, workers: usize) -> Option<Life> {
    let server = Server::start();
    let before = server.cpu_us();
    let [count, size, at_once] = [jobs, batch, callers].map(|number| number.to_string());
    let took = side.order(&server, &["enqueue", &count, &size, &at_once])?;
    let between = server.cpu_us();
    let mut workers = side.work(&server, workers)?;
    let seen = workers.until(jobs, TIME_LIMIT)?;
    // What was begun is settled a moment later; its CPU belongs to the jobs.
    pause(MOMENT);
    let after = server.cpu_us();
    let each = |cpu: f64| cpu / jobs as f64;
    Some(Life {
        enqueue_cpu_us: each(between - before),
        work_cpu_us: each(after - between),
        enqueue_per_s: jobs as f64 / took,
        work_per_s: jobs as f64 / seen.seconds(),
    })
}
